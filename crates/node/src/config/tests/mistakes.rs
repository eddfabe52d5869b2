//! What is said of each mistake, and where.

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
        ("kind: Node", "kind: Profile", &["2:7: the kind of a node is `Node`, not `Profile`"]),
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
fn of_what_a_nic_keeps_and_drops() {
    let nics = |spoof_check: bool| {
        format!(
            "nics: {{fast: {{device: eth0, virtualFunctions: {{a: {{mac: 02:00:00:00:01:00}}, \
             b: {{mac: 02:00:00:00:01:01}}, c: {{mac: 02:00:00:00:01:02, spoofCheck: \
             {spoof_check}}}}}}}}}\nports:"
        )
    };
    let at = |spoof_check, rest: &[(&str, &str)]| {
        let mut file = edited("ports:", &nics(spoof_check));
        for (from, to) in rest {
            file = file.replacen(from, to, 1);
        }
        said(&file)
    };
    let function = "count: {function: counter, composition: vf, vf: {port: access, \
                    device: 'vf:b', transmit: 'vf:c'}}";
    let counted = ("count: {function: counter}", function);
    assert_eq!(at(false, &[counted]), [""; 0]);
    assert_eq!(
        at(true, &[counted]),
        [
            "20:92: the NIC drops what `c` sends for another MAC address (give it `spoofCheck: false` \
          under `nics`)"
        ]
    );
    // Two receive queues, and a transmit queue for each worker at the NIC.
    let small = ("limits: {users: 2000}", "limits: {users: 2000}\nmemory: {packets: 3072}");
    assert_eq!(at(true, &[small]), [""; 0]);
    assert_eq!(
        at(true, &[small, ("device: ring:access", "device: vf:a")]),
        ["49:19: the queues of the ports alone hold 4096 packets (more packets here, or fewer \
          descriptors there)"]
    );
    // One of each at a switch in software, however many workers there are.
    let software = |packets: u32| {
        let nics = "nics: {soft: {software: {sockets: /run/soft}, virtualFunctions: {a: {mac: \
                    02:00:00:00:01:00, rate: 1000}}}}\nports:";
        let memory = format!("limits: {{users: 2000}}\nmemory: {{packets: {packets}}}");
        let file = edited("ports:", nics).replacen("device: ring:access", "device: vf:a", 1);
        said(&file.replacen("limits: {users: 2000}", &memory, 1))
    };
    assert_eq!(software(3073), [""; 0]);
    let few = software(3072);
    assert!(few[0].contains("queues of the ports alone hold 3072 packets"), "{few:?}");
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
                "11:10: 1000 is not within 1280..2026",
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
fn of_users() {
    check(&[
        (
            "    tags: {plan: gold, level: 7}",
            "    tags: {plan: glod, level: x, chain: full, pla: 1}",
            &[
                "32:18: `glod` is not a value of `plan` (did you mean `gold`?)",
                "32:31: the tag `level` is a number",
                "32:34: the tag `chain` is set by the node",
                "32:47: there is no tag `pla` (did you mean `plan`?)",
            ],
        ),
        (
            "    chain: full\n    group: family",
            "    chain: ful\n    group: famly",
            &[
                "30:12: there is no chain `ful` (did you mean `full`?)",
                "31:12: there is no group `famly` (did you mean `family`?)",
            ],
        ),
        ("count: 1000", "count: 0", &["28:12: there is at least one user"]),
        ("name: office", "name: ue", &["34:11: there is another user `ue`"]),
        ("name: office", "name: ue-5", &["34:11: the users `ue` have a `ue-5` among them"]),
        (
            "{port: access, id: 100}",
            "{port: access, id: 100}\n    bearers:\n      \
             - {name: voice, when: \"dscp == eff\"}\n      \
             - {name: voice, when: 'dscp == ef', functions: {police: {rate: 1}}}\n      \
             - name: video\n        when: |\n\n          # the best\n\n          dscp == e\n      \
             - {name: rest, when: \"dscp ==\\u0020e\"}",
            &[
                "38:38: `eff` is not a value of `dscp` (did you mean `ef`?)",
                "39:16: there is another bearer `voice`",
                "39:55: `police` keeps one context for each user (write its settings under \
                 `users`)",
                "45:19: `e` is not a value of `dscp` (did you mean `ef`?)",
                "46:28: `e` is not a value of `dscp` (did you mean `ef`?)",
            ],
        ),
    ]);
}

#[test]
fn of_what_users_are_known_by() {
    check(&[
        (
            "{network: internet, ipv4: 10.0.0.1, ipv6: 2001:db8::/64}",
            "{}",
            &[
                "29:5: nothing can match this user (give one of ipv4, ipv6, teid, spi, vlan, session, port, flow)",
            ],
        ),
        (
            "network: internet, ipv4: 10.0.0.1, ipv6: 2001:db8::/64",
            "ipv4: 10.0.0.1",
            &["29:5: no port is in the network `default` (known here: internet)"],
        ),
        (
            "ipv4: 10.0.0.1, ipv6: 2001:db8::/64",
            "ipv4: 224.0.0.1, ipv6: 2001:db8::1/64",
            &[
                "29:38: 224.0.0.1 is not the address of one user",
                "29:55: 2001:db8::1/64 has bits set behind its prefix length (write \
                 2001:db8::/64)",
            ],
        ),
        (
            "ipv4: 10.0.0.1, ipv6: 2001:db8::/64",
            "ipv4: 223.255.255.1, ipv6: feff:ffff:ffff:ffff::/64",
            &[
                "29:38: 1000 users from 223.255.255.1 on reach beyond 223.255.255.255",
                "29:59: 1000 users from feff:ffff:ffff:ffff:: on reach beyond feff::/16",
            ],
        ),
        (
            "ipv4: 10.0.0.1, ipv6: 2001:db8::/64",
            "port: access, vlan: {port: acess, id: 4000}",
            &[
                "29:32: 1000 users cannot share one `port` (give one user)",
                "29:59: there is no port `acess` (did you mean `access`?)",
                "29:70: 1000 users from 4000 on reach beyond 4094",
            ],
        ),
        (
            "ipv4: 10.0.0.1, ipv6: 2001:db8::/64",
            "ipv4: 10.0.0.1, teid: 0",
            &["29:54: 0 is not the TEID of a tunnel (TS 29.281 §5.1; they begin with 1)"],
        ),
        (
            "ipv4: 10.0.0.1, ipv6: 2001:db8::/64",
            "ipv4: 10.0.0.1, spi: 255",
            &["29:53: 255 is a reserved SPI (RFC 4303 §2.1; they begin with 256)"],
        ),
        (
            "ipv4: 10.0.0.1, ipv6: 2001:db8::/64",
            "teid: 4294966297, teidNetwork: other",
            &[
                "29:38: 1000 users from 4294966297 on reach beyond 4294967295",
                "29:63: no port is in the network `other` (known here: internet)",
            ],
        ),
        (
            "vlan: {port: access, id: 100}",
            "network: other\n      vlan: {port: access, id: 0}",
            &[
                "36:16: no port is in the network `other` (known here: internet)",
                "37:20: the port `access` is in the network `internet`",
                "37:32: 0 is not within 1..4094",
            ],
        ),
        (
            "vlan: {port: access, id: 100}",
            "network: internet\n      flow: {protocol: udb, source: 10.0.0.1, destination: \"::1\"}",
            &[
                "37:24: `udb` is not an IP protocol (did you mean `udp`?)",
                "37:60: source and destination are of one family",
            ],
        ),
        (
            "vlan: {port: access, id: 100}",
            "network: internet\n      \
             flow: {protocol: 17, source: 10.9.0.1, destination: 10.0.0.2, sourcePort: 5}",
            &["37:7: the key `destinationPort` is missing: the protocol has ports"],
        ),
        (
            "vlan: {port: access, id: 100}",
            "network: internet\n      \
             flow: {protocol: esp, source: 10.9.0.1, destination: 10.0.0.2, sourcePort: 5}",
            &["37:70: the protocol has no ports, so no `sourcePort`"],
        ),
    ]);
}

#[test]
fn of_users_known_by_the_same() {
    check(&[
        (
            "vlan: {port: access, id: 100}",
            "network: internet\n      ipv4: 10.0.3.232\n      ipv6: 2001:db8:0:3e7::1",
            &[
                "37:13: 10.0.3.232 belongs to user `ue` already",
                "38:13: 2001:db8:0:3e7::1 belongs to user `ue` already",
            ],
        ),
        (
            "vlan: {port: access, id: 100}",
            "network: internet\n      ipv4: 9.255.255.255\n    count: 2\n  - name: third\n    \
             match: {vlan: {port: core, id: 5}}\n    count: 5\n  - name: fourth\n    \
             match: {vlan: {port: core, id: 3}, port: core}\n    count: 3",
            &[
                "43:13: VLAN 5 belongs to user `third` already",
                "43:40: 3 users cannot share one `port` (give one user)",
            ],
        ),
        ("ipv4: 10.0.0.1,", "ipv4: 10.0.255.1,", &["29:38: 10.1.0.1 belongs to port `access`"]),
        (
            "ipv6: 2001:db8::/64",
            "ipv6: \"fd00:0:ffff:ffff::/64\"",
            &["29:54: fd00:1::1 belongs to port `access`"],
        ),
        (
            "vlan: {port: access, id: 100}",
            "port: access\n  - name: second\n    match: {port: access}",
            &["38:19: the port belongs to user `office` already"],
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
        ("rules: |", "rules: >", &["38:3: expected the end of the rule, found `from`"]),
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

#[test]
fn of_functions_in_processes() {
    let isolated = |process: &str| {
        let function =
            format!("count: {{function: counter, composition: process, process: {process}}}");
        said(&edited("count: {function: counter}", &function))
    };
    assert_eq!(isolated("{onFailure: hold, hold: 16, heartbeat: 10, checkpoint: 0}"), [""; 0]);
    assert_eq!(isolated("{start: elsewhere, tags: none, socket: /run/count.sock}"), [""; 0]);
    for (process, says) in [
        ("{heartbeat: 0}", "19:73: 0 is not within 1..60000"),
        ("{start: elsewhere}", "19:52: nobody else knows where the ring is (say it with `socket`)"),
        (
            "{tags: none}",
            "19:68: the node starts only functions that know NSH (write `start: elsewhere`, too)",
        ),
        (
            "{restart: {first: 20, longest: 10}}",
            "19:79: 20 ms are more than the longest pause, 10 ms",
        ),
        ("{socket: here}", "19:70: \"here\" is not the absolute path of a socket"),
    ] {
        assert_eq!(isolated(process), [says], "{process}");
    }
    assert_eq!(
        said(&edited(
            "count: {function: counter}",
            "count: {function: counter, process: {start: elsewhere, socket: /s, tags: none}}"
        )),
        ["19:76: a function without tags does not move (write `composition: process`)"]
    );
}

#[test]
fn of_virtual_functions() {
    let with = |nics: &str| said(&edited("ports:\n", &format!("nics: {nics}\nports:\n")));
    let one = |function: &str| {
        with(&format!("{{fast: {{device: eth0, virtualFunctions: {{{function}}}}}}}"))
    };
    assert_eq!(one("a: {mac: 02:00:00:00:01:00, trust: true, spoofCheck: false}"), [""; 0]);
    for (functions, says) in [
        ("", "5:29: 0 virtual functions are not within 1..256"),
        ("a: {mac: 03:00:00:00:01:00}", "5:57: this is not the MAC address of one station"),
        (
            "-a: {mac: 02:00:00:00:01:00}",
            "5:48: \"-a\" cannot be a name (a letter, then letters, digits, `_`, and `-` between them; 63 at most)",
        ),
        (
            "a: {mac: 02:00:00:00:01:00}, b: {mac: 02:00:00:00:01:00}",
            "5:86: `a` has this MAC address, too",
        ),
    ] {
        assert_eq!(one(functions), [says], "{functions}");
    }
    let virtual_functions = "virtualFunctions: {a: {mac: 02:00:00:00:01:00}}";
    assert_eq!(
        with(&format!("{{fast: {{device: ../eth0, {virtual_functions}}}}}")),
        ["5:23: \"../eth0\" is not the name of a device (a network interface, or a PCI address \
          such as 0000:01:00.0)"]
    );
    assert_eq!(
        with(&format!(
            "{{a: {{device: eth0, {virtual_functions}}}, b: {{device: eth1, {}}}}}",
            virtual_functions.replace("01:00", "01:01")
        )),
        ["5:113: `a` has a virtual function `a`, too (devices name it `vf:NAME`: rename one)"]
    );
    assert_eq!(
        said(&edited("device: ring:access", "device: vf:acces")),
        ["7:13: there is no virtual function `acces`"]
    );
}

#[test]
fn of_software_vf() {
    let with = |nics: &str| said(&edited("ports:\n", &format!("nics: {nics}\nports:\n")));
    let soft = |software: &str, function: &str| {
        with(&format!("{{s: {{software: {software}, virtualFunctions: {{a: {function}}}}}}}"))
    };
    let (here, right) = ("{sockets: /run/s}", "{mac: 02:00:00:00:01:00, rate: 1000}");
    assert_eq!(soft("{sockets: /run/s, core: 3, polling: busy, start: elsewhere}", right), [""; 0]);
    for (software, function, says) in [
        (
            here,
            "{mac: 02:00:00:00:01:00}",
            "5:60: it has no share of the switch (write `rate`, in frames per second)",
        ),
        (here, "{mac: 02:00:00:00:01:00, rate: 0}", "5:94: 0 is not within 1..100000000"),
        ("{sockets: here}", right, "5:32: \"here\" is not the absolute path of a folder"),
        ("{sockets: /run/s, core: 1024}", right, "5:46: 1024 is not within 0..1023"),
    ] {
        assert_eq!(soft(software, function), [says], "{software} {function}");
    }
    let long = format!("{{sockets: /{}}}", "x".repeat(95));
    assert_eq!(
        soft(&long, right),
        ["5:32: 109 octets are too many for the path of a socket in it (at most 107)"]
    );
    let functions = format!("virtualFunctions: {{a: {right}}}");
    assert_eq!(
        with(&format!("{{s: {{device: eth0, software: {here}, {functions}}}}}")),
        ["5:8: it is a NIC and there is none (leave out `device` or `software`)"]
    );
    assert_eq!(
        with(&format!("{{s: {{{functions}}}}}")),
        ["5:8: nobody says which NIC it is (write `device`, or `software` where there is none)"]
    );
    assert_eq!(
        with(&format!("{{s: {{device: eth0, {functions}}}}}")),
        [
            "5:79: the switch of a NIC gives no shares in frames (leave it out; it is for `software`)"
        ]
    );
}

#[test]
fn of_functions_behind_a_nic() {
    let behind = |vf: &str, process: &str| {
        let function = format!("count: {{function: counter, composition: vf, vf: {vf}{process}}}");
        said(&edited("count: {function: counter}", &function))
    };
    let mac = "02:00:00:00:01:00";
    let right =
        format!("{{port: access, device: '0000:02:10.0', transmit: net_null1, mac: {mac}}}");
    assert_eq!(behind(&right, ", process: {onFailure: bypass}"), [""; 0]);
    for (vf, says) in [
        (
            "{port: acces, device: net_null0, mac: MAC}",
            "19:58: there is no port `acces` (did you mean `access`?)",
        ),
        (
            "{port: access, device: net_null0}",
            "19:47: nobody says which MAC address the function has (write `mac`, or name a virtual \
             function of `nics` as its device)",
        ),
        (
            "{port: access, device: 'vf:count', mac: MAC}",
            "19:74: there is no virtual function `count`",
        ),
        (
            "{port: access, device: ring:core, mac: MAC}",
            "19:74: ring:core is the port `core` of the node",
        ),
        (
            "{port: access, device: net_null0, mac: MAC, timeout: 0}",
            "19:118: 0 is not within 1..60000",
        ),
        (
            "{port: access, device: net_null0, mac: MAC, descriptors: 2048}",
            "19:122: 2048 is not within 32..1024",
        ),
    ] {
        assert_eq!(behind(&vf.replace("MAC", mac), ""), [says], "{vf}");
    }
    assert_eq!(
        said(&edited("function: counter}", "function: counter, composition: vf}")),
        ["19:3: nobody says where the function is (write `vf: {port: …, device: …}`)"]
    );
    assert_eq!(
        said(&edited("function: counter}", &format!("function: counter, vf: {right}}}"))),
        ["19:30: the function is at no virtual function (write `composition: vf`)"]
    );
}
