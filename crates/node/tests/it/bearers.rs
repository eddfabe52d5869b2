//! Bearers that come and go by commands, and users that are idle.

use crate::common::gtpu::{HOST, datagram, message};
use crate::common::{Rig, udp, udp_to};
use serde_json::json;
use weft_node::bearer::{BearerId, Event, WrittenCommand};
use weft_wire::MacAddress;
use weft_wire::gtpu::{ExtensionRepr, Extensions, Message, MessageType, PduSession, Qfi};

const UPF: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: upf}
memory: {packets: 2047}
limits: {users: 8, bearers: 8, waitingPackets: 4, waitingBytes: 400, waitingInAll: 6}
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
functions:
  from-radio: {function: gtpu-decapsulate}
  count: {function: tally, config: {scope: bearer}}
  to-radio: {function: gtpu-encapsulate}
users:
  - name: ue
    match: {ipv4: 10.45.0.1, teid: 0x1000}
    functions: {to-radio: {tunnel: {teid: 0x2000, peer: 10.0.0.1, local: 10.0.0.254}}}
rules: |
  from access -> from-radio
  from from-radio -> count
  from core -> count
  from count when direction == downlink -> to-radio
  from count -> core
  from to-radio -> access
";

/// Applies commands, and says what is wrong with them.
fn apply(rig: &mut Rig, commands: serde_json::Value) -> Result<(), String> {
    let commands: Vec<WrittenCommand> = serde_json::from_value(commands).unwrap();
    let done = rig.node.agent().change_written(&commands);
    rig.settle();
    done.map(|_| ()).map_err(|error| error.to_string())
}

/// A user of its own address and tunnel.
fn user(id: u64, number: u8) -> serde_json::Value {
    json!({"add": {
        "id": id, "like": "ue",
        "match": {"ipv4": format!("10.45.1.{number}"), "teid": 0x3000 + u32::from(number)},
        "functions": {"to-radio": {"tunnel":
            {"teid": 0x4000 + u32::from(number), "peer": "10.0.0.1", "local": "10.0.0.254"}}}
    }})
}

fn uplink(teid: u32, number: u8, qfi: Option<u8>, payload: &[u8]) -> Vec<u8> {
    let inside = udp([10, 45, 1, number], HOST, payload).split_off(14);
    let session = |qfi| ExtensionRepr::PduSession(PduSession::Uplink { qfi });
    let extensions =
        qfi.and_then(Qfi::new).map_or(Extensions::NONE, |qfi| Extensions::one(session(qfi)));
    datagram(&message(MessageType::G_PDU, teid, extensions, &inside))
}

fn downlink(number: u8, payload: &[u8]) -> Vec<u8> {
    udp_to(MacAddress([2, 0, 0, 0, 0, 2]), HOST, [10, 45, 1, number], 64, payload)
}

/// TEID and payload of the tunnelled datagrams that left at `access`.
fn left(rig: &mut Rig) -> Vec<(u32, String)> {
    let frames = rig.receive(0);
    let open = |frame: &Vec<u8>| {
        let message = Message::new_checked(&frame[42..]).unwrap();
        let payload = String::from_utf8_lossy(&message.payload()[28..]).into_owned();
        (message.teid().0, payload)
    };
    frames.iter().map(open).collect()
}

#[test]
fn a_bearer_comes_changes_and_goes() {
    let mut rig = Rig::new(UPF);
    apply(&mut rig, json!([user(7, 1)])).unwrap();
    rig.send(0, &[uplink(0x3001, 1, None, b"up")]);
    assert_eq!(rig.receive(1).len(), 1);
    rig.send(1, &[downlink(1, b"down")]);
    assert_eq!(left(&mut rig), [(0x4001, "down".to_owned())]);
    let tunnel = json!({"teid": 0x5001, "peer": "10.0.0.2", "local": "10.0.0.254"});
    let change = json!({"change": {"id": 7, "functions": {"to-radio": {"tunnel": tunnel}}}});
    apply(&mut rig, json!([change])).unwrap();
    rig.send(1, &[downlink(1, b"moved")]);
    assert_eq!(left(&mut rig), [(0x5001, "moved".to_owned())]);
    apply(&mut rig, json!([{"change": {"id": 7, "action": "drop"}}])).unwrap();
    rig.send(0, &[uplink(0x3001, 1, None, b"up")]);
    rig.send(1, &[downlink(1, b"down")]);
    assert_eq!(rig.drops("bearer_drop"), 2);
    apply(&mut rig, json!([{"remove": 7}])).unwrap();
    rig.send(0, &[uplink(0x3001, 1, None, b"up")]);
    rig.send(1, &[downlink(1, b"down")]);
    assert_eq!((rig.drops("unknown_teid"), rig.drops("unknown_user")), (1, 1));
    assert!(rig.receive(1).is_empty());
}

#[test]
fn tunnels_begin_at_an_address_of_a_port() {
    let elsewhere = UPF.replace("local: 10.0.0.254", "local: 10.0.0.253");
    let mistakes = weft_node_config::read(&elsewhere, "upf.yaml", &crate::common::KINDS)
        .unwrap_err()
        .to_string();
    assert_eq!(
        mistakes,
        "upf.yaml:29:74: no port has the address 10.0.0.253 (the ports have 10.0.0.254, 198.51.100.254)"
    );
    let mut rig = Rig::new(UPF);
    apply(&mut rig, json!([user(1, 1)])).unwrap();
    let tunnel = json!({"teid": 1, "peer": "10.0.0.2", "local": "10.0.0.253"});
    let change = json!([{"change": {"id": 1, "functions": {"to-radio": {"tunnel": tunnel}}}}]);
    let refused = apply(&mut rig, change).unwrap_err();
    assert!(refused.contains("to-radio: no port has the address 10.0.0.253"), "{refused}");
}

#[test]
fn a_batch_with_a_mistake_changes_nothing() {
    let mut rig = Rig::new(UPF);
    apply(&mut rig, json!([user(1, 1), user(2, 2)])).unwrap();
    let tunnel = json!({"teid": 0, "peer": "10.0.0.2", "local": "10.0.0.254"});
    let mistakes = [
        (user(3, 1), "10.45.1.1 belongs to another user already"),
        (user(1, 9), "there is such a bearer already; change it, or remove it first"),
        (json!({"remove": 9}), "no command has added such a bearer"),
        (
            json!({"add": {"id": 3, "like": "eu", "match": {"teid": 9}}}),
            "no users of the configuration are called `eu`; name a plan to be like",
        ),
        (
            json!({"add": {"id": 3, "like": "ue", "nth": 4, "match": {"teid": 9}}}),
            "nth: 4 is beyond the users called `ue`; there are 1, counted from 0",
        ),
        (
            json!({"add": {"id": 3, "like": "ue", "match": {"teid": 0x1000}}}),
            "TEID 0x1000 belongs to another user already",
        ),
        (
            json!({"add": {"id": 3, "like": "ue", "match": {"teid": 0}}}),
            "0 is not the TEID of a tunnel",
        ),
        (
            json!({"add": {"id": 3, "like": "ue", "match": {"ipv4": "10.0.0.254"}}}),
            "10.0.0.254 is an address of the node",
        ),
        (
            json!({"add": {"id": 3, "like": "ue", "match": {"ipv6": "2001:db8::1/64"}}}),
            "`2001:db8::1/64` is neither an IPv6 address nor a prefix such as 2001:db8::/64",
        ),
        (
            json!({"add": {"id": 3, "like": "ue", "match": {}}}),
            "nothing can match it; give a teid, ipv4, ipv6 or flow",
        ),
        (
            json!({"add": {"id": 3, "of": 9, "match": {"qfi": 1}}}),
            "bearer 9 is not the default bearer of a user",
        ),
        (
            json!({"add": {"id": 3, "of": 1, "match": {"flow": {}}}}),
            "a filter gives at least one of protocol, remote, remotePort, userPort",
        ),
        (
            json!({"change": {"id": 1, "functions": {"to-radio": {"tunnel": tunnel}}}}),
            "functions.to-radio.tunnel.teid: 0 is not the TEID of a tunnel",
        ),
        (
            json!({"change": {"id": 1, "functions": {"to-sea": {}}}}),
            "there is no function `to-sea`",
        ),
    ];
    for (mistake, wrong) in mistakes {
        // What came before it in the batch is taken back.
        let batch = json!([
            {"remove": 2},
            user(2, 5),
            {"add": {"id": 4, "of": 2, "match": {"qfi": 4}}},
            {"change": {"id": 1, "action": "drop"}},
            mistake
        ]);
        let said = apply(&mut rig, batch).unwrap_err();
        assert!(said.starts_with("command 5 (bearer "), "{said}");
        assert_eq!(said.split_once("): ").unwrap().1, wrong);
    }
    rig.send(0, &[uplink(0x3001, 1, None, b"up"), uplink(0x3002, 2, None, b"up")]);
    assert_eq!(rig.receive(1).len(), 2);
    // The slots are all there: six more users fit, and not one of them is lost.
    apply(&mut rig, (3..8).map(|number| user(number.into(), number)).collect()).unwrap();
    let said = apply(&mut rig, json!([user(9, 9)])).unwrap_err();
    assert!(said.contains("limits.users"), "{said}");
}

#[test]
fn dedicated_bearers_are_found_by_flow_and_by_qfi() {
    let mut rig = Rig::new(UPF);
    let dedicated = |id: u64, selector: serde_json::Value| {
        json!({"add": {"id": id, "of": 1, "match": selector,
                       "functions": {"count": {"start": 100 * id}}}})
    };
    let voice = json!({"flow": {"protocol": 17, "remote": "198.51.100.1", "remotePort": 2000}});
    apply(
        &mut rig,
        json!([user(1, 1), user(5, 2), dedicated(2, json!({"qfi": 3})), dedicated(3, voice)]),
    )
    .unwrap();
    // The flow is more telling than the QoS flow identifier.
    rig.send(0, &[uplink(0x3001, 1, Some(3), b"flow")]);
    assert_eq!(count(&mut rig, 3), 301);
    apply(&mut rig, json!([{"remove": 3}])).unwrap();
    rig.send(0, &[uplink(0x3001, 1, Some(3), b"qfi"), uplink(0x3001, 1, Some(4), b"default")]);
    assert_eq!((count(&mut rig, 2), count(&mut rig, 1)), (201, 1));
    // The same selector of another user is no way in.
    rig.send(0, &[uplink(0x3002, 2, Some(3), b"other")]);
    assert_eq!((count(&mut rig, 2), count(&mut rig, 5)), (201, 1));
    let said = apply(&mut rig, json!([{"remove": 1}])).unwrap_err();
    assert!(said.contains("1 dedicated bearers"), "{said}");
    apply(&mut rig, json!([{"remove": 2}, {"remove": 1}])).unwrap();
}

/// What the tally of a bearer shows.
fn count(rig: &mut Rig, id: u64) -> u64 {
    let (_, answer) = rig.node.agent().bearer(BearerId(id)).expect("there is such a bearer");
    rig.settle();
    answer.recv().unwrap().iter().find(|(name, _)| name == "count").unwrap().1[0].1
}

/// Fault 26: what waits for an idle user is bounded, told once, and leaves in
/// order when the user is active.
#[test]
fn fault_26_a_downlink_flood_to_an_idle_user() {
    let mut rig = Rig::new(UPF);
    let idle = |id: u64| json!({"change": {"id": id, "action": "notify"}});
    apply(&mut rig, json!([user(1, 1), user(2, 2), user(3, 3), idle(1), idle(2)])).unwrap();
    let events = rig.node.agent().listen();
    let flood: Vec<_> = (0..100).map(|nth| downlink(1, format!("{nth:02}").as_bytes())).collect();
    rig.send(1, &flood);
    assert!(left(&mut rig).is_empty());
    assert_eq!(rig.drops("buffer_full"), 96);
    let told: Vec<_> = events.try_iter().collect();
    assert!(matches!(told[..], [Event::DownlinkData { bearer: BearerId(1), .. }]), "{told:?}");
    // The bound of all bearers, and the bytes of one.
    rig.send(1, &[downlink(2, &[b'x'; 400])]);
    assert_eq!(rig.drops("buffer_full"), 97);
    rig.send(1, &[downlink(2, b"a"), downlink(2, b"b"), downlink(2, b"c")]);
    assert_eq!(rig.drops("buffers_exhausted"), 1);
    // Others are not touched, and the idle user's uplink is not either.
    rig.send(1, &[downlink(3, b"other")]);
    assert_eq!(left(&mut rig), [(0x4003, "other".to_owned())]);
    rig.send(0, &[uplink(0x3001, 1, None, b"up")]);
    assert_eq!(rig.receive(1).len(), 1);
    let payloads =
        |rig: &mut Rig| left(rig).into_iter().map(|(_, payload)| payload).collect::<Vec<_>>();
    apply(&mut rig, json!([{"change": {"id": 1, "action": "forward"}}])).unwrap();
    assert_eq!(payloads(&mut rig), ["00", "01", "02", "03"]);
    // What waited comes first, though the next packet is there before the worker
    // has read the command.
    let active = json!({"change": {"id": 2, "action": "forward"}});
    let commands: Vec<WrittenCommand> = serde_json::from_value(json!([active])).unwrap();
    rig.node.agent().change_written(&commands).unwrap();
    rig.send(1, &[downlink(2, b"last")]);
    assert_eq!(payloads(&mut rig), ["a", "b", "last"]);
    // The next time it is told again.
    apply(&mut rig, json!([idle(1)])).unwrap();
    rig.send(1, &[downlink(1, b"a"), downlink(1, b"b")]);
    assert_eq!(events.try_iter().count(), 2);
    // What waits for a bearer that goes is dropped with it.
    apply(&mut rig, json!([{"remove": 1}])).unwrap();
    assert_eq!(rig.drops("user_removed"), 2);
    let snapshot = rig.node.agent().snapshot();
    assert_eq!(snapshot.received(), snapshot.sent() + snapshot.dropped());
}

#[test]
fn bearers_outlive_a_change_of_configuration() {
    let mut rig = Rig::new(UPF);
    apply(&mut rig, json!([user(1, 1)])).unwrap();
    let ring = rig.node.agent().blueprint().ports[0].device.clone();
    let prefix = ring.trim_end_matches("access");
    let yaml = UPF.replace("ring:", prefix);
    // The function of the tunnel has another number and another configuration.
    let other = yaml
        .replace("  from-radio: {", "  first: {function: pass}\n  from-radio: {")
        .replace("gtpu-encapsulate}", "gtpu-encapsulate, config: {dscp: ef}}");
    let read = |yaml: &str| weft_node_config::read(yaml, "t.yaml", &crate::common::KINDS).unwrap();
    rig.node.agent().apply(read(&other)).unwrap();
    rig.settle();
    rig.send(1, &[downlink(1, b"down")]);
    assert_eq!(left(&mut rig), [(0x4001, "down".to_owned())]);
    let taken = other.replace("ipv4: 10.45.0.1", "ipv4: 10.45.1.1");
    let refused = rig.node.agent().apply(read(&taken)).unwrap_err().to_string();
    assert!(refused.contains("belongs to bearer 1"), "{refused}");
    rig.send(1, &[downlink(1, b"still")]);
    assert_eq!(left(&mut rig), [(0x4001, "still".to_owned())]);
}
