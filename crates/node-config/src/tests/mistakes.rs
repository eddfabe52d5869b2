//! What is said of each mistake, and where.

mod bgp;
mod ipfix;
mod pfcp;
mod processes;
mod users;

use super::{edited, said};

/// Replaces a part of [`NODE`](super::NODE) and compares what is then said.
fn check(cases: &[(&str, &str, &[&str])]) {
    for (from, to, says) in cases {
        assert_eq!(said(&edited(from, to)), *says, "for {to:?}");
    }
}

#[test]
fn of_the_file_as_a_whole() {
    check(&[
        ("weft/v1", "weft/v2", &["1:13: the apiVersion of a node is `weft/v1`, not `weft/v2`"]),
        (
            "kind: Node",
            "kind: Profile",
            &["2:7: the kind of a node is `Node`, not `Profile` (`weft generate` reads this file)"],
        ),
        (
            "kind: Node",
            "kind: Model",
            &["2:7: the kind of a node is `Node`, not `Model` (`weft model` reads this file)"],
        ),
        ("kind: Node", "kind: Nod", &["2:7: the kind of a node is `Node`, not `Nod`"]),
        ("kind: Node\n", "", &["1:1: the key `kind` is missing"]),
        (
            "limits: {users: 2000}",
            "limits: {users: 2000}\nworkers: {}\nport: {}\nsurplus: 1",
            &[
                "48:1: the key `workers` is given twice (first in line 4)",
                "49:1: the key `port` is not known here (did you mean `ports`?)",
                "50:1: the key `surplus` is not known here",
            ],
        ),
        (
            "{name: gateway}",
            "{name: -x-}",
            &["3:18: \"-x-\" cannot be a name (a letter, then letters, digits, `_`, and `-` \
               between them; 63 at most)"],
        ),
        (
            "{name: gateway}",
            "{name: 5}",
            &["3:18: text is expected, not 5 (put it in quotes to make it text)"],
        ),
        (
            "{name: gateway}",
            "{nam: gateway}",
            &["3:12: the key `nam` is not known here (did you mean `name`?)"],
        ),
    ]);
}

#[test]
fn of_what_is_not_written_as_yaml_wants_it() {
    check(&[
        ("  access:\n", "  access\n", &["6:3: a `:` is missing behind `access` (write `access:`)"]),
        (
            "rules: |\n",
            "rules:\n",
            &["37:1: YAML joins the lines of these rules to one, and each rule needs its own \
               (write `rules: |`)"],
        ),
        (
            "rules: |\n",
            "rules: >\n",
            &["37:1: YAML joins the lines of these rules to one, and each rule needs its own \
               (write `rules: |`)"],
        ),
    ]);
}

#[test]
fn of_the_shape_of_values() {
    check(&[
        (
            "{count: 2, cores: [1, 2]}",
            "{count: two, cores: 1, polling: buzy, maxSleep: -1}",
            &[
                "4:18: a whole number from 0 to 4294967295 is expected, not \"two\"",
                "4:30: a list is expected, not 1",
                "4:42: `buzy` is not known here (did you mean `busy`?)",
                "4:58: a whole number from 0 to 4294967295 is expected, not -1",
            ],
        ),
        (
            "{count: 2, cores: [1, 2]}",
            "{count: 2}\nwatchdog: {limit: 100}",
            &["5:19: 100 is not within 500..600000"],
        ),
        ("{count: 2, cores: [1, 2]}", "[2]", &["4:1: a mapping is expected, not a list"]),
        ("device: ring:access", "device:", &["7:5: text is expected, not nothing"]),
        ("    device: ring:access\n", "", &["6:3: the key `device` is missing"]),
        ("name: ue\n    ", "", &["27:5: the key `name` is missing"]),
        (
            "    direction: uplink",
            "    direction: down\n    mtu: 99999\n    adresses: []",
            &[
                "8:16: `down` is not known here (known here: uplink, downlink)",
                "9:10: a whole number from 0 to 65535 is expected, not 99999",
                "10:5: the key `adresses` is not known here (did you mean `addresses`?)",
            ],
        ),
        (
            "[10.1.0.1/24, fd00:1::1/64]",
            "[10.1.0.1, fd00:1::1/129]",
            &[
                "10:17: `10.1.0.1` is not an address with a prefix length, such as 10.1.0.1/24",
                "10:27: `fd00:1::1/129` is not an address with a prefix length, such as 10.1.0.1/24",
            ],
        ),
        (
            "gateways: [10.1.0.254]",
            "gateways: [\n      10.1.0.256]",
            &["12:7: `10.1.0.256` is not an IP address, such as 10.1.0.254"],
        ),
        (
            "10.1.0.254: 02:00:00:00:00:fe",
            "10.1.0.254: 02:00:00:00:00",
            &["12:30: `02:00:00:00:00` is not a MAC address, such as 02:00:00:00:00:01"],
        ),
        (
            "ipv4: 10.0.0.1, ipv6: 2001:db8::/64",
            "ipv4: 10.0.0, ipv6: 2001:db8::/63",
            &[
                "29:38: `10.0.0` is not an IPv4 address, such as 10.0.0.1",
                "29:52: `2001:db8::/63` is not a /64 prefix or an IPv6 address, such as 2001:db8::/64",
            ],
        ),
        (
            "level: 7",
            "level: -7",
            &["32:31: a name or a whole number from 0 to 4294967295 is expected, not -7"],
        ),
    ]);
}

#[test]
fn of_workers_memory_and_limits() {
    check(&[
        (
            "cores: [1, 2]",
            "cores: [1, 1, 5000], maxSleep: 0",
            &[
                "4:21: 3 cores for 2 workers (one core for each worker)",
                "4:32: core 1 has a worker already",
                "4:35: 5000 is not within 0..1023",
                "4:52: 0 is not within 1..1000000",
            ],
        ),
        (
            "{count: 2, cores: [1, 2]}",
            "{count: 0}",
            &[
                "4:18: 0 is not within 1..64",
                "14:77: there is no worker 1: they are numbered from 0 (workers.count is 0)",
            ],
        ),
        (
            "limits: {users: 2000}",
            "limits: {users: 100, groups: 0, bearers: 99999999, keptPackets: 99999}\n\
             memory: {packets: 2000, megabytes: 1}",
            &[
                "47:17: room for 100 users, but the file has 1001",
                "47:30: room for 0 groups, but the file has 1",
                "47:42: 99999999 is not within 0..16777216",
                "47:65: 99999 is not within 0..65536",
                "48:19: the receive queues of the ports alone hold 2048 packets (more packets \
                 here, or fewer descriptors there)",
                "48:36: 1 is not within 16..1048576",
            ],
        ),
        (
            "limits: {users: 2000}",
            "limits: {users: 2000, local: {answers: 3, sources: 0,\n\
             \x20 pings: {rate: 2000000, burst: 0}}}",
            &[
                "47:40: 3 is not within 64..65536",
                "47:52: 0 is not within 1..1048576",
                "48:17: 2000000 is not within 0..1000000",
                "48:33: 0 is not within 1..1000000",
            ],
        ),
        (
            "limits: {users: 2000}",
            "limits: {users: 2000, delay: 99}",
            &["47:30: 99 is not within 100..1000000"],
        ),
        (
            "limits: {users: 2000}",
            "limits: {users: 2000, local: {ping: {rate: 1, burst: 1}}}",
            &["47:31: the key `ping` is not known here (did you mean `pings`?)"],
        ),
        (
            "count: 1000",
            "count: 17000000",
            &[
                "29:38: 10.1.0.1 belongs to port `access`",
                "47:17: room for 2000 users, but the file has 17000001",
            ],
        ),
    ]);
}

#[test]
fn of_ports() {
    check(&[
        ("ring:access", "\"\"", &[DEVICE]),
        (
            "[10.1.0.1/24, fd00:1::1/64]",
            "[10.1.0.0/24, 10.1.0.1/24, 10.1.0.1/24, 127.0.0.1/8, fd00:1::1/64]\n    mtu: 1000\n    \
             mac: ff:ff:ff:ff:ff:ff\n    worker: 2\n    queues: 0\n    descriptors: 40000",
            &[
                "10:17: 10.1.0.0/24 is a subnet, not an address in it",
                "10:43: 10.1.0.1 is given twice",
                "10:56: 127.0.0.1 cannot be the address of a port",
                "11:10: 1000 is not within 1280..9000",
                "12:10: this is not the MAC address of one station",
                "13:13: there is no worker 2: they are numbered from 0 (workers.count is 2)",
                "14:13: 0 is not within 1..64",
                "15:18: 40000 is not within 32..32768",
            ],
        ),
        (
            "gateways: [10.1.0.254]",
            "gateways: [10.2.0.254, 10.1.0.1, fe80::1]",
            &[
                "11:16: the gateway 10.2.0.254 lies in none of the port's subnets",
                "11:28: the gateway 10.1.0.1 is the port itself",
                "11:28: a second IPv4 gateway: a port has one",
            ],
        ),
        (
            "{10.1.0.254: 02:00:00:00:00:fe}",
            "{10.2.0.1: 02:00:00:00:00:01, x: 01:00:00:00:00:01}",
            &[
                "12:18: the neighbour 10.2.0.1 lies in none of the port's subnets",
                "12:47: `x` is not an IP address",
                "12:50: this is not the MAC address of one station",
            ],
        ),
        (
            "proxy: [10.0.0.0/16]",
            "proxy: [10.0.0.1/16]",
            &["13:13: 10.0.0.1/16 has bits set behind its prefix length (write 10.0.0.0/16)"],
        ),
        (
            "    addresses: [10.1.0.1/24, fd00:1::1/64]\n",
            "",
            &[
                "10:5: a port without `addresses` has no `gateways`",
                "11:5: a port without `addresses` has no `neighbours`",
                "12:5: a port without `addresses` has no `proxy`",
            ],
        ),
        (
            "tags:\n",
            "  drop: {device: ring:access, direction: downlink}\n  \
             count: {device: ring:access, direction: downlink}\n  \
             dump: {device: \"net_null0,size=64\", direction: downlink}\n  \
             dump2: {device: net_null0, direction: downlink, network: internet, \
             addresses: [10.1.0.1/24]}\ntags:\n",
            &[
                "15:3: `drop` is what rules call the end of a packet (choose another name)",
                "16:19: ring:access has two ends: `access` and `drop`",
                "18:19: net_null0 is the device of port `dump` already",
                "18:82: 10.1.0.1 is an address of port `access` already",
                "23:3: `count` is the name of a port and of a function (rules could not tell them \
                 apart: rename one)",
            ],
        ),
    ]);
}

const DEVICE: &str = "7:13: \"\" is not a device string (such as ring:NAME, \
                      net_tap0,iface=weft0 or a PCI address)";

#[test]
fn of_tags_and_functions() {
    check(&[
        (
            "  level: {}",
            "  level: {}\n  chain: {}\n  vlan: {}\n  colour: {}\n  a: {values: []}\n  \
             b: {values: [c, c, d.e]}",
            &[
                "18:3: every node has a tag `chain` already",
                "19:3: `vlan` is a header field in rules (choose another name)",
                "20:3: `police` has a tag `colour` with other values",
                "21:7: a tag has at least one value",
                "22:19: the value `c` is given twice",
                "22:22: \"d.e\" cannot be a name (a letter, then letters, digits, `_`, and `-` \
                 between them; 63 at most)",
            ],
        ),
        (
            "count: {function: counter}",
            "count: {function: many}",
            &["20:3: tag colour is one too many: a packet carries 8 tags"],
        ),
        (
            "count: {function: counter}",
            "count: {function: countr}",
            &["19:21: there is no function `countr` (did you mean `counter`?)"],
        ),
        (
            "count: {function: counter}",
            "count: {function: counter, config: {a: 1}}\n  \
             m: {function: marker, config: {steps: [{burst: 1 kB}, {burst: 0}]}}\n  \
             n: {function: marker, config: {stepz: []}}\n  \
             o: {function: marker, config: {most: 5 apples}}\n  \
             p: {function: marker, config: {scope: usr}}\n  \
             q: {function: marker, config: {steps: {}}}",
            &[
                "19:39: the key `a` is not known here",
                "20:65: a burst has bytes",
                "21:34: the key `stepz` is not known here (did you mean `steps`?)",
                "22:40: \"5 apples\" is not a number of bytes; write a number with one of the \
                 units B, kB, MB, GB, KiB, MiB, GiB",
                "23:41: `usr` is not known here (did you mean `user`?)",
                "24:34: a list is expected, not a mapping",
            ],
        ),
        (
            "{rate: 20 Mbit/s}",
            "{rate: 99999999999 Gbit/s}",
            &["33:32: \"99999999999 Gbit/s\" is too large; the largest bit rate is 18446744073 \
               Gbit/s"],
        ),
    ]);
}

#[test]
fn of_settings() {
    check(&[
        (
            "functions: {police: {rate: 20 Mbit/s}}",
            "functions: {polic: {}, count: {x: 1}, police: {rate: 0}}",
            &[
                "33:17: there is no function `polic` (did you mean `police`?)",
                "33:36: the key `x` is not known here",
                "33:58: a rate is not 0",
            ],
        ),
        ("{rate: 20 Mbit/s}", "{}", &["33:17: the key `rate` is missing"]),
        ("20 Mbit/s", "1, users: 999", &["33:42: 1000 users are more than 999"]),
        (
            "    functions: {}",
            "    functions: {police: {rate: 1}}",
            &["25:17: `police` keeps one context for each user (write its settings under `users`)"],
        ),
        (
            "{scope: user}",
            "{scope: group}",
            &["33:17: `police` keeps one context for each group (write its settings under \
               `groups`)"],
        ),
    ]);
}

#[test]
fn of_rules() {
    check(&[
        (
            "from access when chain == full -> full",
            "from acess when chain == ful -> full",
            &[
                "40:8: there is no place `acess` (did you mean `access`?)",
                "40:28: `ful` is not a value of `chain` (did you mean `full`?)",
            ],
        ),
        (
            "  from access -> core\n",
            "  from access -> core\n  from access when vlan == 5 -> drop\n",
            &[
                "42:3: this rule is never reached: earlier rules take all its packets (see lines 40 \
               and 41)",
            ],
        ),
        (
            "= count -> police",
            "= count -> police\n  chain full = count",
            &["39:9: the chain `full` is declared twice (first in line 38)"],
        ),
        ("rules: |\n  chain", "rules: &anchored |2-\n    chain", &[]),
    ]);
}

#[test]
fn of_several_kinds_are_shown_at_once_and_in_order() {
    let text = edited("worker: 1", "worker: 2")
        .replace("level: 7", "level: x")
        .replace("police: {rate", "polic: {rate")
        .replace("-> core\n  from full when colour", "-> cor\n  from full when colour");
    let says = [
        "14:77: there is no worker 2: they are numbered from 0 (workers.count is 2)",
        "32:31: the tag `level` is a number",
        "33:17: there is no function `polic` (did you mean `police`?)",
        "41:18: there is no place `cor` (did you mean `core`?)",
    ];
    assert_eq!(said(&text), says);
}
