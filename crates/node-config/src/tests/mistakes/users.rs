//! What is said of mistakes in users, and in what they are known by.

use super::check;

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
        (
            "name: office",
            "name: session-00000000000000ab",
            &["34:11: `session-00000000000000ab` is a name that the node gives to PFCP sessions \
               (choose another name)"],
        ),
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
