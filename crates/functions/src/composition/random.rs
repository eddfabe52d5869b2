//! Random functions of a chain, and random packets.

use std::net::Ipv4Addr;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Around, Member, Sent};
use crate::testing::{CONTEXTS, specs};
use weft_function::PacketMetadata;

fn meters() -> impl Strategy<Value = Value> {
    let rate = 1_000_u64..50_000_000_000;
    let burst = prop_oneof![0_u64..200, 0_u64..100_000, Just(2 << 30)];
    prop_oneof![
        (rate.clone(), burst.clone(), burst.clone())
            .prop_map(|(rate, committed, excess)| {
                json!({ "singleRate": { "committedRate": rate, "committedBurst": committed + 1,
                                    "excessBurst": excess.min(2 << 30) } })
            })
            .prop_filter("bursts fit", |meter| meter["singleRate"]["committedBurst"].as_u64()
                <= Some(2 << 30)),
        (rate.clone(), rate, burst.clone(), burst).prop_map(|(one, other, committed, peak)| {
            json!({ "twoRate": { "committedRate": one.min(other), "peakRate": one.max(other),
                                 "committedBurst": committed.clamp(1, 1 << 30),
                                 "peakBurst": peak.clamp(1, 1 << 30) } })
        }),
    ]
}

fn markers() -> impl Strategy<Value = Member> {
    let settings = vec((0..CONTEXTS as u32, meters()), 0..3);
    let scope = prop::sample::select(vec!["user", "bearer", "group"]);
    let drop = prop::sample::select(vec!["none", "red", "yellowAndRed"]);
    (prop::option::of(meters()), any::<bool>(), scope, drop, settings).prop_map(
        |(meter, aware, scope, drop, settings)| Member {
            name: "marker",
            config: json!({ "meter": meter, "colourAware": aware, "scope": scope, "drop": drop }),
            settings: settings
                .into_iter()
                .map(|(slot, meter)| (slot, json!({ "meter": meter })))
                .collect(),
            sets: None,
        },
    )
}

/// Counters that write, at places that packets have and at some that they lack.
fn counters() -> impl Strategy<Value = Member> {
    (0_u16..80, any::<bool>()).prop_map(|(offset, wide)| Member {
        name: "counter",
        config: json!({ "payload": { "offset": offset, "width": if wide { 8 } else { 4 } } }),
        settings: Vec::new(),
        sets: None,
    })
}

/// Addresses that meet often.
fn address() -> impl Strategy<Value = Ipv4Addr> {
    prop_oneof![
        (0_u8..4, 0_u8..4).prop_map(|(c, d)| Ipv4Addr::new(10, 0, c, d)),
        Just(Ipv4Addr::UNSPECIFIED),
        Just(Ipv4Addr::BROADCAST),
        any::<u32>().prop_map(Ipv4Addr::from_bits),
    ]
}

fn rewriters() -> impl Strategy<Value = Member> {
    let translation = (0_u8..4, 0_u8..8).prop_map(|(from, to)| {
        json!({ "from": format!("10.0.{from}.0/24"), "to": format!("10.0.{to}.0/24") })
    });
    let table = vec(translation, 0..3).prop_filter("no two lead to one", |table| {
        let mut seen = Vec::new();
        table.iter().all(|one| {
            let new = !seen.contains(&one["to"]);
            seen.push(one["to"].clone());
            new
        })
    });
    let own = (address(), prop::option::of(address()), any::<bool>()).prop_map(
        |(address, original, is_source)| match is_source {
            true => json!({ "source": address, "originalSource": original }),
            false => json!({ "destination": address, "originalDestination": original }),
        },
    );
    let settings = vec((0..CONTEXTS as u32, own), 0..4);
    (table.clone(), table, any::<bool>(), settings).prop_map(
        |(source, destination, reverse, settings)| Member {
            name: "rewrite-address",
            config: json!({ "source": source, "destination": destination, "reverse": reverse }),
            settings,
            sets: None,
        },
    )
}

fn filters() -> impl Strategy<Value = Member> {
    let action = prop::sample::select(vec!["allow", "deny"]);
    let rule = (
        action.clone(),
        prop::option::of((0_u8..4).prop_map(|c| format!("10.0.{c}.0/24"))),
        prop::option::of(prop::sample::select(vec!["tcp", "udp"])),
        prop::option::of((0_u16..4, 0_u16..4)),
        prop::option::of(any::<u16>()),
    );
    let rule = rule.prop_map(|(action, prefix, protocol, ports, port)| {
        json!({ "action": action, "source": prefix, "protocol": protocol,
                "sourcePorts": ports.map(|(first, more)| format!("{first}-{}", first + more)),
                "destinationPorts": port })
    });
    (vec(rule, 0..6), action, any::<bool>()).prop_map(|(rules, default, deny)| Member {
        name: "filter",
        config: json!({ "rules": rules, "default": default, "denyShortFragments": deny }),
        settings: Vec::new(),
        sets: None,
    })
}

fn decapsulators() -> impl Strategy<Value = Member> {
    let own = (
        prop::option::weighted(0.5, address()),
        prop::option::weighted(0.1, 0_u8..64),
        prop::option::weighted(0.5, address()),
        prop::option::weighted(0.2, Just("2001:db8::/32")),
    );
    let own = own.prop_map(
        |(peer, qfi, ipv4, ipv6)| json!({ "peer": peer, "qfi": qfi, "ipv4": ipv4, "ipv6": ipv6 }),
    );
    vec((0..CONTEXTS as u32, own), 0..4).prop_map(|settings| Member {
        name: "gtpu-decapsulate",
        config: Value::Null,
        settings,
        sets: None,
    })
}

/// The far end of a tunnel.
fn far_end() -> impl Strategy<Value = Value> {
    let host = || {
        prop_oneof![
            (1_u8..4).prop_map(|d| Ipv4Addr::new(10, 0, 0, d)),
            (1_u32..0xe000_0000).prop_map(Ipv4Addr::from_bits),
        ]
    };
    let ends = prop_oneof![
        8 => (host(), host()).prop_map(|(peer, local)| (peer.to_string(), local.to_string())),
        1 => Just(("2001:db8::1".to_owned(), "2001:db8::2".to_owned())),
    ];
    (1_u32.., ends)
        .prop_map(|(teid, (peer, local))| json!({ "teid": teid, "peer": peer, "local": local }))
}

/// How tunnels are written.
fn outer() -> impl Strategy<Value = Value> {
    let dscp = prop::option::weighted(0.3, 0_u8..64);
    let source_port = prop::option::weighted(0.3, prop_oneof![Just(2152), 0xc000..=u16::MAX]);
    (dscp, source_port).prop_map(
        |(dscp, port)| json!({ "dscp": dscp.map(|dscp| dscp.to_string()), "sourcePort": port }),
    )
}

fn encapsulators() -> impl Strategy<Value = Member> {
    let qfi = prop::option::weighted(0.4, 0_u8..64);
    let own = (far_end(), qfi).prop_map(|(end, qfi)| json!({ "tunnel": end, "qfi": qfi }));
    (outer(), vec((0..CONTEXTS as u32, own), 0..8)).prop_map(|(config, settings)| Member {
        name: "gtpu-encapsulate",
        config,
        settings,
        sets: None,
    })
}

fn relays() -> impl Strategy<Value = Member> {
    let end = || prop::option::weighted(0.8, far_end());
    let own = (end(), end()).prop_map(|(up, down)| json!({ "uplink": up, "downlink": down }));
    (outer(), vec((0..CONTEXTS as u32, own), 0..8)).prop_map(|(config, settings)| Member {
        name: "gtpu-relay",
        config,
        settings,
        sets: None,
    })
}

pub(super) fn members() -> impl Strategy<Value = Member> {
    let plain = |name, config| Member { name, config, settings: Vec::new(), sets: None };
    let mac = "02:00:00:00:00:07";
    let member = prop_oneof![
        2 => Just(plain("counter", Value::Null)),
        2 => counters(),
        1 => Just(plain("pass", Value::Null)),
        1 => Just(plain("synthetic", json!({ "cycles": 40 }))),
        1 => Just(plain("forward", Value::Null)),
        1 => Just(plain("forward", json!({ "source": mac }))),
        1 => Just(plain("forward", json!({ "destination": mac, "source": mac }))),
        4 => markers(),
        6 => rewriters(),
        4 => filters(),
        4 => decapsulators(),
        4 => encapsulators(),
        4 => relays(),
    ];
    (member, prop::option::weighted(0.2, 0_u32..3)).prop_map(|(mut member, sets)| {
        member.sets = sets;
        member
    })
}

fn around() -> impl Strategy<Value = Around> {
    let first = prop_oneof![8 => Just(0x45_u8), 1 => Just(0x46), 1 => Just(0x60)];
    let first = (first, any::<u8>()).prop_map(|(first, second)| [first, second]);
    // A PDU session container with what its flags may be; then the type behind it.
    let content = prop_oneof![
        (0_u8..64).prop_map(|qfi| [0, qfi]),
        (0_u8..64).prop_map(|qfi| [0x10, qfi]),
        any::<[u8; 2]>(),
    ];
    let container = (content, prop_oneof![6 => Just(0_u8), 1 => any::<u8>()])
        .prop_map(|([kind, qfi], next)| [0, 7, 0, 0x85, 1, kind, qfi, next]);
    let header = prop_oneof![
        5 => Just((0_u8, None)),
        1 => (0_u8..16).prop_map(|flags| (flags, None)),
        4 => container.prop_map(|octets| (4, Some(octets))),
        1 => (0_u8..16, any::<[u8; 8]>()).prop_map(|(flags, octets)| (flags, Some(octets))),
    ];
    let longer = prop_oneof![
        8 => Just(0_u16),
        1 => (0_u16..20).prop_map(|less| 0_u16.wrapping_sub(less)),
        1 => any::<u16>(),
    ];
    let padding = prop_oneof![Just(0), 0_usize..20];
    (address(), first, header, longer, padding, prop::bool::weighted(0.1)).prop_map(
        |(source, first, (flags, optional), longer, padding, is_end_marker)| Around {
            source,
            first,
            flags,
            optional,
            longer,
            padding,
            is_end_marker,
        },
    )
}

pub(super) fn sent() -> impl Strategy<Value = Sent> {
    let group = prop_oneof![Just(PacketMetadata::NONE), 0..2 * CONTEXTS as u32 + 4];
    let odd = prop::option::weighted(
        0.15,
        (0_u8..9, prop_oneof![0_u16..80, Just(6), Just(17), Just(0x0800), any::<u16>()]),
    );
    let ports = prop_oneof![3 => (0_u16..6, any::<u16>()), 1 => any::<(u16, u16)>()];
    let addresses = prop::option::weighted(0.8, (address(), address()));
    let tags = (0_u32..3, 0_u32..4);
    let tunnel = prop::option::weighted(0.4, around());
    (specs(), 0..CONTEXTS as u32 + 2, group, tags, (odd, tunnel), addresses, ports).prop_map(
        |(mut spec, user, group, tags, (odd, tunnel), addresses, ports)| {
            if let Some((source, destination)) = addresses {
                (spec.source, spec.destination) = (source.into(), destination.into());
            }
            (spec.source_port, spec.destination_port) = ports;
            // Plain packets are what is fused.
            if user % 2 == 0 {
                (spec.options, spec.fragment) = (0, None);
            }
            Sent { spec, user, group, tags, tunnel, odd }
        },
    )
}
