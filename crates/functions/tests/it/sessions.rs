//! Random sessions and packets, against a plain reference.

mod domains;
mod usage;

use std::net::IpAddr;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use weft_function::PacketMetadata;
use weft_wire::Protocol;
use weft_wire::gtpu::{ExtensionRepr, Extensions, MessageType, PduSession, Qfi, Repr, Teid};

use crate::common::testing::{NETWORK, Rig, Seen, Spec, metadata};
use weft_functions::kind;
use weft_functions::session::rules::{Session, Trigger, UrrId};
use weft_functions::session::usage::{Answer, NextReport, Question};

const USER: &str = "10.45.0.1";

/// The frame of a packet in a tunnel, with what a parser notes of it.
fn tunnelled(inside: &Spec, teid: u32, qfi: Option<u8>) -> (Vec<u8>, PacketMetadata) {
    let user = inside.frame();
    let noted = metadata(&user);
    let session = |qfi| ExtensionRepr::PduSession(PduSession::Uplink { qfi });
    let qfi = qfi.and_then(Qfi::new);
    let message = Repr {
        message_type: MessageType::G_PDU,
        teid: Teid(teid),
        extensions: qfi.map_or(Extensions::NONE, |qfi| Extensions::one(session(qfi))),
        payload_length: user.len() - NETWORK,
        ..Default::default()
    };
    let mut payload = vec![0; message.buffer_len()];
    message.emit(&mut payload).expect("there is room");
    let headers = payload.len();
    payload.extend_from_slice(&user[NETWORK..]);
    let outer = Spec { destination_port: 2152, ..Spec::udp(&payload) };
    let frame = outer.between("192.0.2.10", "192.0.2.1").frame();
    let moved = (NETWORK + 28 + headers - NETWORK) as u16;
    let transport = noted.transport_offset;
    let noted = PacketMetadata {
        outer_offset: NETWORK as u16,
        network_offset: noted.network_offset + moved,
        transport_offset: if transport == 0 { 0 } else { transport + moved },
        flags: noted.flags | PacketMetadata::TUNNELLED,
        ..noted
    };
    (frame, noted)
}

/// A packet of a user: in a tunnel or not.
#[derive(Clone, Debug)]
struct Sent {
    tunnel: Option<(u32, Option<u8>)>,
    protocol: Protocol,
    remote: &'static str,
    user: &'static str,
    remote_port: u16,
    user_port: u16,
}

impl Sent {
    fn spec(&self) -> Spec {
        let base = match self.protocol {
            Protocol::TCP => Spec::tcp(b"payload"),
            _ => Spec { protocol: self.protocol, ..Spec::udp(b"payload") },
        };
        match self.tunnel {
            Some(_) => Spec {
                source_port: self.user_port,
                destination_port: self.remote_port,
                ..base.between(self.user, self.remote)
            },
            None => Spec {
                source_port: self.remote_port,
                destination_port: self.user_port,
                ..base.between(self.remote, self.user)
            },
        }
    }

    fn send(&self, rig: &mut Rig) -> Seen {
        let spec = self.spec();
        match self.tunnel {
            Some((teid, qfi)) => {
                let (frame, noted) = tunnelled(&spec, teid, qfi);
                rig.send_bytes(&frame, noted)
            }
            None => rig.send(&spec),
        }
    }
}

fn packets() -> impl Strategy<Value = Vec<Sent>> {
    let tunnel = prop_oneof![
        2 => (1..4_u32, prop::option::of(0..3_u8)).prop_map(Some),
        1 => Just(None),
    ];
    let protocols = select(vec![Protocol::UDP, Protocol::TCP, Protocol::ICMP]);
    let addresses = select(vec![
        (USER, "192.0.2.7"),
        (USER, "198.51.100.7"),
        ("10.45.0.2", "192.0.2.7"),
        ("2001:db8::1", "2001:db8:1::7"),
        ("2001:db8:2::1", "2001:db8:1::7"),
    ]);
    let sent = (tunnel, protocols, addresses, 1..5_u16, 1..5_u16);
    let sent = sent.prop_map(|(tunnel, protocol, (user, remote), remote_port, user_port)| Sent {
        tunnel,
        protocol,
        remote,
        user,
        remote_port,
        user_port,
    });
    vec(sent, 1..20)
}

fn filter() -> impl Strategy<Value = Value> {
    let protocol = prop::option::of(select(vec![6, 17]));
    let prefix = prop::option::of(select(vec!["192.0.2.0/24", "0.0.0.0/0", "2001:db8:1::/48"]));
    let ports = prop::option::of((1..5_u16, 0..3_u16));
    (protocol, prefix, ports.clone(), ports).prop_map(|(protocol, prefix, remote, user)| {
        let ports = |range: Option<(u16, u16)>| match range {
            Some((first, more)) => json!([{"first": first, "last": first + more}]),
            None => json!([]),
        };
        json!({"flow": {
            "protocol": protocol,
            "remote": {"prefix": prefix, "ports": ports(remote)},
            "user": {"ports": ports(user)},
        }})
    })
}

/// Random rules. Each goes to a destination that tells it apart.
fn sessions() -> impl Strategy<Value = Value> {
    let ue = prop::option::of(select(vec![
        json!({"ipv4": USER}),
        json!({"ipv6": "2001:db8::/64"}),
        json!({"ipv4": USER, "ipv6": "2001:db8::/64"}),
    ]));
    let pdr = (0..4_u32, prop::option::of(1..4_u32), ue, vec(filter(), 0..3), vec(0..3_u8, 0..3));
    let pdr =
        pdr.prop_map(|(precedence, teid, ue, filters, qfis)| (precedence, teid, ue, filters, qfis));
    vec(pdr, 1..6).prop_map(|pdrs| {
        let pdrs: Vec<_> = pdrs
            .into_iter()
            .enumerate()
            .map(|(at, (precedence, teid, ue, filters, qfis))| {
                json!({
                    "id": at + 1,
                    "precedence": precedence,
                    "source": if teid.is_some() { "access" } else { "core" },
                    "local": teid.map(|teid| json!({"teid": teid})),
                    "removal": teid.map(|_| "gtpu"),
                    "ue": ue,
                    "filters": filters,
                    "qfis": if teid.is_some() { qfis } else { Vec::new() },
                    "far": 1,
                    "urrs": [1],
                })
            })
            .collect();
        json!({
            "pdrs": pdrs,
            "fars": [{"id": 1, "action": "forward", "forward": {"interface": "core"}}],
            "urrs": [{"id": 1, "method": {"volume": true}}],
        })
    })
}

/// The rule of a packet, written as TS 29.244 §5.2.1 says it: of all rules that match, the
/// one with the lowest precedence; of equal ones, the first.
fn reference(rules: &Value, sent: &Sent) -> Option<u64> {
    let lies = |prefix: &Value, address: &str| {
        let Some(text) = prefix.as_str() else { return true };
        let (network, length) = text.split_once('/').expect("a prefix");
        let (network, address): (IpAddr, IpAddr) =
            (network.parse().expect("an address"), address.parse().expect("an address"));
        let length: u32 = length.parse().expect("a length");
        match (network, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => (0..length)
                .all(|bit| (network.to_bits() ^ address.to_bits()) >> (31 - bit) & 1 == 0),
            (IpAddr::V6(network), IpAddr::V6(address)) => (0..length)
                .all(|bit| (network.to_bits() ^ address.to_bits()) >> (127 - bit) & 1 == 0),
            _ => false,
        }
    };
    let has_ports = [Protocol::UDP, Protocol::TCP].contains(&sent.protocol);
    let in_ranges = |ranges: &Value, port: u16| {
        let ranges = ranges.as_array().expect("a list");
        ranges.is_empty()
            || has_ports
                && ranges.iter().any(|range| {
                    let bound = |key: &str| range[key].as_u64().expect("a port");
                    (bound("first")..=bound("last")).contains(&port.into())
                })
    };
    let matches = |rule: &&Value| {
        let teid = rule["local"]["teid"].as_u64();
        if teid != sent.tunnel.map(|(teid, _)| teid.into()) {
            return false;
        }
        let (v4, v6) = (&rule["ue"]["ipv4"], &rule["ue"]["ipv6"]);
        let is_users = rule["ue"].is_null()
            || v4.as_str() == Some(sent.user)
            || v6.is_string() && lies(v6, sent.user);
        let qfis = rule["qfis"].as_array().expect("a list");
        let qfi = sent.tunnel.and_then(|(_, qfi)| qfi);
        let has_flow = qfis.is_empty() || qfi.is_some_and(|qfi| qfis.contains(&json!(qfi)));
        let filters = rule["filters"].as_array().expect("a list");
        let passes = |filter: &Value| {
            let flow = &filter["flow"];
            flow["protocol"].as_u64().is_none_or(|protocol| protocol == u64::from(sent.protocol.0))
                && lies(&flow["remote"]["prefix"], sent.remote)
                && in_ranges(&flow["remote"]["ports"], sent.remote_port)
                && in_ranges(&flow["user"]["ports"], sent.user_port)
        };
        is_users && has_flow && (filters.is_empty() || filters.iter().any(passes))
    };
    let rules = rules["pdrs"].as_array().expect("a list").iter();
    let found = rules.filter(matches).min_by_key(|rule| rule["precedence"].as_u64())?;
    found["id"].as_u64()
}

fn rig(rules: &Value) -> Rig {
    let kind = kind("session-detection").expect("it is registered");
    let mut rig = Rig::new(kind, json!({})).expect("it can be made");
    rig.configure(0, rules.clone(), 0, 1).expect("the rules are right");
    rig
}

/// A state whose time of day never comes: however slow the machine is, no time has passed since.
fn at_once(mut state: Vec<u8>) -> Vec<u8> {
    // The time of day stands in front of when the rules came.
    let at = state.len() - 16;
    let (day, _) = state[at..].split_first_chunk_mut().expect("two times");
    *day = i64::MAX.to_le_bytes();
    state
}

/// What the session at slot 0 answers.
fn ask(rig: &mut Rig, question: &Question) -> Answer {
    let mut answer = Vec::new();
    let now = rig.now;
    rig.instance.ask(0, now, &question.to_bytes(), &mut answer);
    Answer::read(&answer).expect("an answer")
}

proptest! {
    #[test]
    fn packets_find_the_rule_that_the_reference_finds(rules in sessions(), packets in packets()) {
        let mut rig = rig(&rules);
        let mut passed = [0; 2];
        let of_session = |sent: &&Sent| {
            // The classifier lets no packet of another tunnel come here.
            let teid = |rule: &Value| rule["local"]["teid"].as_u64();
            let known = |teid_of: u64| {
                rules["pdrs"].as_array().is_some_and(|all| all.iter().any(|rule| teid(rule) == Some(teid_of)))
            };
            sent.tunnel.is_none_or(|(teid, _)| known(teid.into()))
        };
        for sent in packets.iter().filter(of_session) {
            let seen = sent.send(&mut rig);
            match reference(&rules, sent) {
                Some(id) => {
                    prop_assert_eq!(seen.dropped, None, "{:?}", sent);
                    prop_assert_eq!(u64::from(rig.tag("pdr", &seen.metadata)), id, "{:?}", sent);
                    prop_assert_eq!(seen.metadata.outer_offset, 0);
                    let length = u64::from(seen.metadata.network_length);
                    passed[usize::from(sent.tunnel.is_none())] += length;
                }
                None => prop_assert_eq!(seen.dropped, Some("no_pdr"), "{:?}", sent),
            }
        }
        // What was measured is what passed.
        let usage = ask(&mut rig, &Question::All).usage;
        prop_assert_eq!(usage[0].volume.uplink_octets, passed[0]);
        prop_assert_eq!(usage[0].volume.downlink_octets, passed[1]);
    }

    /// The way of the usual session does what the search through rules does.
    #[test]
    fn the_usual_session_is_no_other_session(
        packets in packets(),
        rate in prop::option::of(1..100_u64),
        closed in any::<bool>(),
        qfi in any::<bool>(),
        threshold in 50..500_u64,
    ) {
        let ue = json!({"ipv4": USER, "ipv6": "2001:db8::/64"});
        let mut rules = json!({
            "pdrs": [
                {"id": 1, "precedence": 5, "source": "access", "local": {"teid": 1},
                 "removal": "gtpu", "ue": ue, "far": 1, "urrs": [1], "qers": [1]},
                {"id": 2, "precedence": 5, "source": "core", "ue": ue, "far": 2, "urrs": [1],
                 "qers": [1]},
            ],
            "fars": [
                {"id": 1, "action": "forward", "forward": {"interface": "core"}},
                {"id": 2, "action": "forward", "forward": {"interface": "access"}},
            ],
            "qers": [{"id": 1, "qfi": if qfi { Some(3) } else { None },
                      "maximum": {"uplink": rate}, "closed": {"downlink": closed}}],
            "urrs": [{"id": 1, "method": {"volume": true}, "triggers": ["volumeThreshold"],
                      "volumeThreshold": {"total": threshold}}],
        });
        let mut usual = rig(&rules);
        prop_assert_eq!(usual.shown(0, "usual"), 1);
        rules["pdrs"].as_array_mut().expect("a list").push(json!(
            {"id": 3, "precedence": 9, "source": "access", "local": {"teid": 99}, "far": 1}));
        let mut other = rig(&rules);
        prop_assert_eq!(other.shown(0, "usual"), 0);
        for sent in &packets {
            let sent = Sent { tunnel: sent.tunnel.map(|(_, qfi)| (1, qfi)), ..sent.clone() };
            usual.now += 1_000_000;
            other.now += 1_000_000;
            prop_assert_eq!(sent.send(&mut usual), sent.send(&mut other), "{:?}", sent);
            let (one, two) = (ask(&mut usual, &Question::Due), ask(&mut other, &Question::Due));
            prop_assert_eq!(one, two);
        }
        let (one, two) = (ask(&mut usual, &Question::All), ask(&mut other, &Question::All));
        prop_assert_eq!(one, two);
    }

    /// Nothing that a control plane sends makes the function panic, and what it does not
    /// refuse it carries out.
    #[test]
    fn rules_survive_being_written_and_moved(rules in sessions(), packets in packets()) {
        let read: Session = serde_json::from_value(rules.clone()).expect("rules");
        prop_assert_eq!(&serde_json::from_value::<Session>(
            serde_json::to_value(&read).expect("text")).expect("rules"), &read);
        let mut here = rig(&rules);
        for sent in &packets[..packets.len() / 2] {
            sent.send(&mut here);
        }
        let mut there = rig(&json!({"pdrs": [], "fars": []}));
        let whole = at_once(here.export(0));
        there.instance.import(0, there.now, &whole).expect("a whole context");
        for sent in &packets[packets.len() / 2..] {
            prop_assert_eq!(sent.send(&mut here), sent.send(&mut there));
        }
        let (one, two) = (ask(&mut here, &Question::All), ask(&mut there, &Question::All));
        prop_assert_eq!(one, two);
    }
}

#[test]
fn filters_look_at_what_they_name() {
    let rules = |filter: Value| {
        json!({
            "pdrs": [{"id": 1, "precedence": 1, "source": "core", "filters": [filter], "far": 1}],
            "fars": [{"id": 1, "action": "forward", "forward": {"interface": "access"}}],
        })
    };
    let udp = Spec::udp(b"payload");
    let ipv6 = udp.clone().between("2001:db8:1::7", "2001:db8::1");
    let esp = Spec { protocol: Protocol::ESP, ..Spec::udp(&[0, 0, 1, 2, 0, 0, 0, 1]) };
    let cases = [
        (json!({"tos": {"value": 0, "mask": 0xfc}}), &udp, true),
        (json!({"tos": {"value": 0xb8, "mask": 0xfc}}), &udp, false),
        (json!({"tos": {"value": 0xb8, "mask": 0}}), &udp, true),
        (json!({"spi": 0x0102}), &esp, true),
        (json!({"spi": 0x0103}), &esp, false),
        (json!({"spi": 0x0102}), &udp, false),
        (json!({"flowLabel": 0}), &ipv6, true),
        (json!({"flowLabel": 7}), &ipv6, false),
        (json!({"flowLabel": 0}), &udp, false),
        (json!({"flow": {"remote": {"prefix": "10.0.0.0/8"}}}), &udp, true),
        (json!({"flow": {"user": {"prefix": "10.0.0.0/8"}}}), &udp, false),
        (json!({"flow": {"remote": {"ports": [{"first": 1, "last": 9}]}}}), &esp, false),
    ];
    for (filter, spec, passes) in cases {
        let seen = rig(&rules(filter.clone())).send(spec);
        assert_eq!(seen.dropped.is_none(), passes, "{filter}");
    }
}

#[test]
fn an_end_marker_goes_on_in_the_next_tunnel_only() {
    let rules = |outer: Value| {
        json!({
            "pdrs": [{"id": 1, "precedence": 1, "source": "core", "local": {"teid": 1},
                      "removal": "gtpu", "far": 1, "urrs": [1]}],
            "fars": [{"id": 1, "action": "forward",
                      "forward": {"interface": "access", "outer": outer}}],
            "urrs": [{"id": 1, "method": {"volume": true}}],
        })
    };
    let (frame, mut noted) = tunnelled(&Spec::udp(b""), 1, None);
    noted.network_offset = noted.outer_offset;
    let next = json!({"gtpu": {"teid": 2, "peer": "192.0.2.20", "local": "192.0.2.1"}});
    for (outer, dropped) in [(next, None), (Value::Null, Some("end_marker"))] {
        let mut rig = rig(&rules(outer));
        assert_eq!(rig.send_bytes(&frame, noted).dropped, dropped);
        assert_eq!(ask(&mut rig, &Question::All).usage[0].volume.packets(), 0);
    }
}
