//! PFCP sessions: rules from commands to packets.

mod features;
mod marks;
mod refused;
mod shown;

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use crate::common::gtpu::{HOST, datagram, left, message};
use crate::common::{Rig, udp, udp_to};
use serde_json::{Value, json};
use weft_functions::session::rules::{FarId, PdrId, Session, Trigger, UrrId};
use weft_functions::session::usage::Usage;
use weft_node::bearer::session::{Query, SessionCommand, SessionEvent, SessionId, SessionsChanged};
use weft_wire::MacAddress;
use weft_wire::gtpu::{ExtensionRepr, Extensions, Message, MessageType, PduSession, Qfi};

pub(crate) const UPF: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: upf}
memory: {packets: 2047}
limits: {users: 64, keptPackets: 16}
ports:
  access:
    device: 'ring:access'
    direction: uplink
    descriptors: 256
    mac: 02:00:00:00:00:01
    addresses: [10.0.0.254/24]
    neighbours: {10.0.0.1: 02:00:00:00:01:01, 10.0.0.2: 02:00:00:00:01:02}
  core:
    device: 'ring:core'
    direction: downlink
    descriptors: 256
    mac: 02:00:00:00:00:02
    addresses: [198.51.100.254/24]
    neighbours: {198.51.100.1: 02:00:00:00:02:01}
  edge:
    device: 'ring:edge'
    direction: downlink
    network: edge
    descriptors: 256
    mac: 02:00:00:00:00:03
    addresses: [203.0.113.254/24]
    neighbours: {203.0.113.1: 02:00:00:00:03:01}
functions:
  detect: {function: session-detection}
  count: {function: counter}
  act: {function: session-forwarding}
users:
  - {name: session, count: 0}
rules: |
  chain counted = count
  from access -> detect
  from core -> detect
  from edge -> detect
  from detect when chain == counted -> counted
  from detect -> act
  from counted -> act
  from act when interface == access -> access
  from act when network == edge -> edge
  from act -> core
";

/// The node, with what it tells of sessions.
struct Upf {
    rig: Rig,
    events: Receiver<SessionEvent>,
    /// What was told beside what was waited for.
    told: Vec<SessionEvent>,
}

impl Upf {
    fn new() -> Upf {
        let mut rig = Rig::new(UPF);
        let events = rig.node.agent().listen_to_sessions();
        Upf { rig, events, told: Vec::new() }
    }

    /// Applies commands; what the events say that come of them, but for that of the batch.
    fn change(
        &mut self,
        commands: &[SessionCommand],
    ) -> (SessionsChanged, Vec<(SessionId, Vec<Usage>)>) {
        let changed = self.rig.node.agent().change_sessions(commands);
        self.rig.settle();
        let mut usage = Vec::new();
        let mut applied = false;
        for event in self.events() {
            match event {
                SessionEvent::Applied { batch, usage: of_batch, .. } if batch == changed.batch => {
                    (applied, usage) = (true, of_batch);
                }
                event => self.told.push(event),
            }
        }
        assert!(applied, "all workers have made the changes");
        (changed, usage)
    }

    fn establish(&mut self, id: u64, rules: Value) {
        let (changed, _) = self.change(&[establish(id, rules)]);
        assert_eq!(changed.results, [Ok(())]);
    }

    fn modify(&mut self, id: u64, rules: Value) -> Vec<Usage> {
        self.modify_with(id, rules, &[], Query::None)
    }

    fn modify_with(&mut self, id: u64, rules: Value, ended: &[u32], query: Query) -> Vec<Usage> {
        let command = SessionCommand::Modify {
            id: SessionId(id),
            rules: read(rules),
            end_markers: ended.iter().map(|far| FarId(*far)).collect(),
            query,
            drop_waiting: false,
        };
        let (changed, usage) = self.change(&[command]);
        assert_eq!(changed.results, [Ok(())]);
        usage.into_iter().flat_map(|(_, usage)| usage).collect()
    }

    fn remove(&mut self, id: u64) -> Vec<Usage> {
        let (changed, usage) = self.change(&[SessionCommand::Remove { id: SessionId(id) }]);
        assert_eq!(changed.results, [Ok(())]);
        usage.into_iter().flat_map(|(_, usage)| usage).collect()
    }

    /// What the node has told since the last look.
    fn events(&mut self) -> Vec<SessionEvent> {
        self.rig.settle();
        let told = std::mem::take(&mut self.told);
        told.into_iter().chain(self.events.try_iter()).collect()
    }
}

pub(crate) fn read(rules: Value) -> Arc<Session> {
    Arc::new(serde_json::from_value(rules).unwrap())
}

pub(crate) fn establish(id: u64, rules: Value) -> SessionCommand {
    SessionCommand::Establish { id: SessionId(id), like: "session".into(), rules: read(rules) }
}

/// The usual session of user `n`: a tunnel from the base station, and one to it.
pub(crate) fn usual(n: u8) -> Value {
    let address = format!("10.45.0.{n}");
    json!({
        "pdrs": [
            {"id": 1, "precedence": 255, "source": "access", "removal": "gtpu", "far": 1,
             "local": {"teid": 0x1000 + u32::from(n), "ipv4": "10.0.0.254"},
             "ue": {"ipv4": address}, "urrs": [1], "qers": [1]},
            {"id": 2, "precedence": 255, "source": "core", "far": 2,
             "ue": {"ipv4": address}, "urrs": [1], "qers": [1]},
        ],
        "fars": [
            {"id": 1, "action": "forward", "forward": {"interface": "core"}},
            {"id": 2, "action": "forward", "forward": {"interface": "access", "outer":
                {"gtpu": {"teid": 0x2000 + u32::from(n), "peer": "10.0.0.1", "local": "10.0.0.254"}}}},
        ],
        "qers": [{"id": 1, "qfi": 9}],
        "urrs": [{"id": 1, "method": {"volume": true}}],
    })
}

pub(crate) fn uplink(teid: u32, source: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let inside = udp(source, HOST, payload).split_off(14);
    let session = ExtensionRepr::PduSession(PduSession::Uplink { qfi: Qfi::new(9).unwrap() });
    datagram(&message(MessageType::G_PDU, teid, Extensions::one(session), &inside))
}

pub(crate) fn downlink(n: u8, payload: &[u8]) -> Vec<u8> {
    udp_to(MacAddress([2, 0, 0, 0, 0, 2]), HOST, [10, 45, 0, n], 64, payload)
}

/// TEID, payload and QoS flow of what left at the access port.
fn radio(rig: &mut Rig) -> Vec<(u32, String, Option<u8>)> {
    let frames = rig.receive(0);
    let open = |frame: &Vec<u8>| {
        let message = Message::new_checked(&frame[42..]).unwrap();
        let payload = message.payload().get(28..).unwrap_or_default();
        let flow = message.pdu_session().unwrap().map(|session| session.qfi().value());
        (message.teid().0, String::from_utf8_lossy(payload).into_owned(), flow)
    };
    frames.iter().map(open).collect()
}

fn payloads(frames: &[Vec<u8>]) -> Vec<String> {
    crate::common::payloads(frames)
}

/// Uplink and downlink octets and packets.
fn volume(usage: &Usage) -> [u64; 4] {
    let volume = usage.volume;
    [volume.uplink_octets, volume.downlink_octets, volume.uplink_packets, volume.downlink_packets]
}

#[test]
fn a_session_comes_carries_both_ways_and_goes() {
    let mut upf = Upf::new();
    upf.establish(1, usual(1));
    upf.rig.send(0, &[uplink(0x1001, [10, 45, 0, 1], b"up")]);
    assert_eq!(payloads(&upf.rig.receive(1)), ["up"]);
    upf.rig.send(1, &[downlink(1, b"down")]);
    assert_eq!(radio(&mut upf.rig), [(0x2001, "down".to_owned(), Some(9))]);
    // Spoofed, and of another user.
    upf.rig
        .send(0, &[uplink(0x1001, [10, 45, 0, 2], b"up"), uplink(0x1002, [10, 45, 0, 2], b"up")]);
    assert_eq!((upf.rig.drops("no_pdr"), upf.rig.drops("unknown_teid")), (1, 1));
    let usage = upf.remove(1);
    assert_eq!(usage.len(), 1);
    assert_eq!((usage[0].urr, volume(&usage[0])), (UrrId(1), [30, 32, 1, 1]));
    assert!(usage[0].triggers.has(Trigger::Termination));
    upf.rig.send(0, &[uplink(0x1001, [10, 45, 0, 1], b"up")]);
    upf.rig.send(1, &[downlink(1, b"down")]);
    assert_eq!((upf.rig.drops("unknown_teid"), upf.rig.drops("unknown_user")), (2, 1));
    assert!(upf.rig.receive(1).is_empty());
}

#[test]
fn a_handover_ends_the_old_tunnel() {
    let mut upf = Upf::new();
    upf.establish(1, usual(1));
    upf.rig.send(1, &[downlink(1, b"one")]);
    let mut rules = usual(1);
    rules["fars"][1]["forward"]["outer"]["gtpu"] =
        json!({"teid": 0x3001, "peer": "10.0.0.2", "local": "10.0.0.254"});
    upf.modify_with(1, rules, &[2], Query::None);
    upf.rig.send(1, &[downlink(1, b"two")]);
    let frames = upf.rig.receive(0);
    let seen: Vec<_> =
        left(&frames).iter().map(|one| (one.message_type, one.teid, one.to[3])).collect();
    let (data, end) = (MessageType::G_PDU, MessageType::END_MARKER);
    assert_eq!(seen, [(data, 0x2001, 1), (end, 0x2001, 1), (data, 0x3001, 2)]);
}

#[test]
fn packets_of_an_idle_session_wait_in_order_and_are_told_each_time() {
    let mut upf = Upf::new();
    upf.establish(1, usual(1));
    let mut idle = usual(1);
    idle["fars"][1] = json!({"id": 2, "action": "notify"});
    for round in 0..2 {
        upf.modify(1, idle.clone());
        let frames: Vec<_> =
            (0..5).map(|n| downlink(1, format!("{round}{n}").as_bytes())).collect();
        upf.rig.send(1, &frames);
        assert!(radio(&mut upf.rig).is_empty());
        let told = SessionEvent::DownlinkData { session: SessionId(1), pdr: PdrId(2) };
        assert_eq!(upf.events(), [told]);
        // Uplink goes on meanwhile.
        upf.rig.send(0, &[uplink(0x1001, [10, 45, 0, 1], b"up")]);
        assert_eq!(payloads(&upf.rig.receive(1)), ["up"]);
        upf.modify(1, usual(1));
        let payloads: Vec<_> =
            radio(&mut upf.rig).into_iter().map(|(_, payload, _)| payload).collect();
        assert_eq!(payloads, (0..5).map(|n| format!("{round}{n}")).collect::<Vec<_>>());
    }
    // What has waited was measured as it passed.
    let usage = upf.remove(1);
    assert_eq!(volume(&usage[0]), [60, 300, 2, 10]);
}

#[test]
fn a_buffering_rule_bounds_what_waits() {
    let mut upf = Upf::new();
    let mut idle = usual(1);
    idle["fars"][1] = json!({"id": 2, "action": "notify", "bar": 1});
    idle["bars"] = json!([{"id": 1, "packets": 3, "delay": 50}]);
    upf.establish(1, idle);
    let frames: Vec<_> = (0..5).map(|n| downlink(1, &[b'0' + n])).collect();
    upf.rig.send(1, &frames);
    assert_eq!(upf.rig.drops("session_buffer_full"), 2);
    // The report comes after the delay.
    assert!(upf.events().is_empty());
    upf.rig.advance(50_000_000);
    assert_eq!(upf.events().len(), 1);
    upf.modify(1, usual(1));
    assert_eq!(radio(&mut upf.rig).len(), 3);
}

#[test]
fn gates_close_and_rates_hold() {
    let mut upf = Upf::new();
    let mut rules = usual(1);
    rules["qers"][0]["closed"] = json!({"uplink": true});
    upf.establish(1, rules.clone());
    upf.rig.send(0, &[uplink(0x1001, [10, 45, 0, 1], b"up")]);
    upf.rig.send(1, &[downlink(1, b"down")]);
    assert_eq!((upf.rig.drops("gate_closed"), radio(&mut upf.rig).len()), (1, 1));
    // 800 kbit/s are 100 octets in a millisecond, and one packet of 100 may always pass.
    rules["qers"][0] = json!({"id": 1, "qfi": 9, "maximum": {"downlink": 800}});
    upf.modify(1, rules);
    let frame = downlink(1, &[7; 72]);
    let mut passed = 0;
    for _ in 0..2_000 {
        upf.rig.send(1, &[frame.clone(), frame.clone()]);
        passed += upf.rig.receive(0).len();
        upf.rig.advance(1_000_000);
    }
    // Two seconds of the rate, and the burst of 100 ms.
    assert!((1_990..=2_120).contains(&passed), "{passed}");
    assert_eq!(upf.rig.drops("bit_rate"), 4_000 - passed as u64);
}

#[test]
fn reports_add_up_to_what_has_passed() {
    let mut upf = Upf::new();
    let mut rules = usual(1);
    rules["urrs"][0]["triggers"] = json!(["volumeThreshold", "periodic"]);
    rules["urrs"][0]["volumeThreshold"] = json!({"total": 300});
    rules["urrs"][0]["period"] = json!(10);
    upf.establish(1, rules.clone());
    let (mut sum, mut passed) = ([0; 4], 0);
    let mut reports = Vec::new();
    let mut take = |usage: &[Usage], reports: &mut Vec<(u32, Vec<Trigger>)>| {
        for one in usage {
            sum = std::array::from_fn(|at| sum[at] + volume(one)[at]);
            reports.push((one.sequence, one.triggers.iter().collect()));
        }
    };
    for round in 0..40_u32 {
        upf.rig.send(0, &[uplink(0x1001, [10, 45, 0, 1], b"0123456789")]);
        upf.rig.send(1, &[downlink(1, b"0123456789"), downlink(1, b"0123456789")]);
        passed += 1;
        upf.rig.advance(700_000_000);
        for event in upf.events() {
            let SessionEvent::Usage { usage, .. } = event else { panic!("{event:?}") };
            take(&usage, &mut reports);
        }
        match round % 8 {
            3 => {
                // To a rule list that is not usual, and back.
                let mut other = rules.clone();
                if round % 16 == 3 {
                    other["pdrs"][0]["qfis"] = json!([9]);
                }
                take(&upf.modify(1, other), &mut reports);
            }
            5 => {
                let usage = upf.modify_with(1, rules.clone(), &[], Query::All);
                assert!(usage[0].triggers.has(Trigger::Immediate));
                take(&usage, &mut reports);
            }
            _ => {}
        }
        for event in upf.events() {
            let SessionEvent::Usage { usage, .. } = event else { panic!("{event:?}") };
            take(&usage, &mut reports);
        }
    }
    take(&upf.remove(1), &mut reports);
    assert_eq!(sum, [38 * passed, 76 * passed, passed, 2 * passed]);
    let numbers: Vec<_> = reports.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (0..numbers.len() as u32).collect::<Vec<_>>());
    let has = |trigger| reports.iter().any(|(_, triggers)| triggers.contains(&trigger));
    assert!(has(Trigger::VolumeThreshold) && has(Trigger::Periodic), "{reports:?}");
}

#[test]
fn nothing_passes_beyond_a_quota_until_another_is_granted() {
    let mut upf = Upf::new();
    let mut rules = usual(1);
    rules["urrs"][0]["triggers"] = json!(["volumeQuota"]);
    rules["urrs"][0]["volumeQuota"] = json!({"total": 100});
    upf.establish(1, rules.clone());
    let frame = downlink(1, b"0123456789");
    for _ in 0..5 {
        upf.rig.send(1, std::slice::from_ref(&frame));
    }
    // 38 octets each: the third reaches the quota.
    assert_eq!((upf.rig.receive(0).len(), upf.rig.drops("quota_used")), (3, 2));
    let events = upf.events();
    let [SessionEvent::Usage { usage, .. }] = &events[..] else { panic!("{events:?}") };
    assert!(usage[0].triggers.has(Trigger::VolumeQuota));
    assert_eq!(volume(&usage[0]), [0, 114, 0, 3]);
    rules["urrs"][0]["grant"] = json!(1);
    upf.modify(1, rules);
    upf.rig.send(1, std::slice::from_ref(&frame));
    assert_eq!(upf.rig.receive(0).len(), 1);
}

#[test]
fn filters_lead_flows_to_other_destinations_and_chains() {
    let mut upf = Upf::new();
    let mut rules = usual(1);
    // An uplink classifier: what is for 203.0.113.0/24 leaves at the edge.
    rules["pdrs"].as_array_mut().unwrap().push(json!({
        "id": 3, "precedence": 10, "source": "access", "removal": "gtpu", "far": 3,
        "local": {"teid": 0x1001}, "ue": {"ipv4": "10.45.0.1"}, "urrs": [1], "chain": "counted",
        "filters": [{"flow": {"protocol": 17, "remote": {"prefix": "203.0.113.0/24",
            "ports": [{"first": 1999, "last": 2000}]}}}]
    }));
    rules["fars"].as_array_mut().unwrap().push(json!({
        "id": 3, "action": "forward", "forward": {"interface": "core", "network": "edge"}}));
    upf.establish(1, rules);
    let at_edge = udp([10, 45, 0, 1], [203, 0, 113, 1], b"edge").split_off(14);
    let at_edge = datagram(&message(MessageType::G_PDU, 0x1001, Extensions::NONE, &at_edge));
    upf.rig.send(0, &[at_edge, uplink(0x1001, [10, 45, 0, 1], b"core")]);
    assert_eq!(payloads(&upf.rig.receive(2)), ["edge"]);
    assert_eq!(payloads(&upf.rig.receive(1)), ["core"]);
    let counted = upf.rig.node.agent().snapshot().functions;
    let counted = counted.iter().find(|function| function.name == "count").unwrap().packets;
    assert_eq!(counted, 1);
}

#[test]
fn an_intermediate_user_plane_moves_packets_from_tunnel_to_tunnel() {
    let mut upf = Upf::new();
    let tunnel = |teid: u32, peer: &str, local: &str| json!({"gtpu": {"teid": teid, "peer": peer, "local": local}});
    upf.establish(
        1,
        json!({
            "pdrs": [
                {"id": 1, "precedence": 1, "source": "access", "removal": "gtpu", "far": 1,
                 "local": {"teid": 0x1001}},
                {"id": 2, "precedence": 1, "source": "core", "removal": "gtpu", "far": 2,
                 "local": {"teid": 0x1002}},
            ],
            "fars": [
                {"id": 1, "action": "forward", "forward": {"interface": "core",
                 "outer": tunnel(0x5001, "198.51.100.1", "198.51.100.254")}},
                {"id": 2, "action": "forward", "forward": {"interface": "access",
                 "outer": tunnel(0x2001, "10.0.0.1", "10.0.0.254")}},
            ],
        }),
    );
    upf.rig.send(0, &[uplink(0x1001, [10, 45, 0, 1], b"up")]);
    let frames = upf.rig.receive(1);
    let message = Message::new_checked(&frames[0][42..]).unwrap();
    // The QoS flow that the base station has set is still there.
    assert_eq!(message.teid().0, 0x5001);
    assert_eq!(message.pdu_session().unwrap().unwrap().qfi().value(), 9);
}

#[test]
fn inactivity_and_unknown_tunnels_are_told() {
    let mut upf = Upf::new();
    let mut rules = usual(1);
    rules["inactivity"] = json!(5);
    upf.establish(1, rules);
    upf.rig.advance(3_000_000_000);
    upf.rig.send(1, &[downlink(1, b"down")]);
    upf.rig.advance(3_000_000_000);
    assert!(upf.events().is_empty());
    upf.rig.advance(3_000_000_000);
    assert_eq!(upf.events(), [SessionEvent::Inactive { session: SessionId(1) }]);
    let indication = weft_wire::gtpu::Signal::ErrorIndication {
        teid: weft_wire::gtpu::Teid(0x2001),
        peer: [10, 0, 0, 1].into(),
        udp_port: None,
    };
    upf.rig.send(0, &[crate::common::gtpu::signal(indication)]);
    let peer = [10, 0, 0, 1].into();
    let told = SessionEvent::ErrorIndication { session: SessionId(1), teid: 0x2001, peer };
    assert_eq!(upf.events(), [told]);
}
