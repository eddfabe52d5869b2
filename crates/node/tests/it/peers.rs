//! What a gateway and its GTP-U peers tell each other: whether they are there, which
//! tunnels are gone, and where the last packet of a tunnel is.

use std::net::IpAddr;

use crate::common::gtpu::{ACCESS, HOST, Left, STATION, left, signal};
use crate::common::{Rig, udp, udp_to};
use serde_json::json;
use weft_node::bearer::{BearerId, Event, WrittenCommand};
use weft_node::gtpu_peers::PathState;
use weft_wire::MacAddress;
use weft_wire::gtpu::{Message, MessageType, Signal, Teid};

const UPF: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: upf}
memory: {packets: 2047}
limits: {users: 8, bearers: 8}
gtpu: {errorIndication: keep}
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
  to-radio: {function: gtpu-encapsulate}
users:
  - name: ue
    count: 2
    match: {ipv4: 10.45.0.1, teid: 0x1000}
    functions: {to-radio: {tunnel: {teid: 0x2000, peer: 10.0.0.1, local: 10.0.0.254}}}
rules: |
  from access -> from-radio
  from from-radio -> core
  from core -> to-radio
  from to-radio -> access
";

/// A serving gateway; a base station and a PDN gateway on one link.
const SGW: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: sgw}
memory: {packets: 2047}
limits: {users: 8}
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
  relay: {function: gtpu-relay, config: {dscp: ef}}
users:
  - name: ue
    match: {teid: 0x1000}
    functions:
      relay:
        uplink: {teid: 0x5000, peer: 198.51.100.1, local: 198.51.100.254}
        downlink: {teid: 0x6000, peer: 10.0.0.1, local: 10.0.0.254}
rules: |
  from access -> relay
  from core -> relay
  from relay when direction == uplink -> core
  from relay when direction == downlink -> access
";

const SECOND: u64 = 1_000_000_000;
const OTHER_STATION: [u8; 4] = [10, 0, 0, 2];

fn written(commands: serde_json::Value) -> Vec<WrittenCommand> {
    serde_json::from_value(commands).unwrap()
}

fn apply(rig: &mut Rig, commands: serde_json::Value) {
    rig.node.agent().change_written(&written(commands)).unwrap();
    rig.settle();
}

/// A bearer like those of the configuration, to the base station.
fn bearer(id: u64, number: u8) -> serde_json::Value {
    json!({"add": {
        "id": id, "like": "ue",
        "match": {"ipv4": format!("10.45.1.{number}"), "teid": 0x3000 + u32::from(number)},
        "functions": {"to-radio": {"tunnel":
            {"teid": 0x4000 + u32::from(number), "peer": "10.0.0.1", "local": "10.0.0.254"}}}
    }})
}

fn downlink(user: [u8; 4], payload: &[u8]) -> Vec<u8> {
    udp_to(MacAddress([2, 0, 0, 0, 0, 2]), HOST, user, 64, payload)
}

/// Whether a packet to the user comes out, and in which tunnel.
fn passes(rig: &mut Rig, user: [u8; 4]) -> Option<u32> {
    rig.receive(0);
    rig.send(1, &[downlink(user, b"down")]);
    left(&rig.receive(0)).first().map(|left| left.teid)
}

/// Sequence numbers of the Echo Requests that left.
fn requests(rig: &mut Rig) -> Vec<u16> {
    let frames = rig.receive(0);
    let read = |frame: &Vec<u8>| {
        assert_eq!((&frame[26..30], &frame[30..34]), (&ACCESS[..], &STATION[..]));
        let message = Message::new_checked(&frame[42..]).unwrap();
        match Signal::parse(&message).unwrap() {
            Signal::EchoRequest { sequence } => sequence,
            other => panic!("{other}"),
        }
    };
    frames.iter().map(read).collect()
}

#[test]
fn a_peer_is_asked_fails_and_returns() {
    let mut rig = Rig::new(UPF);
    let events = rig.node.agent().listen();
    let state = |rig: &mut Rig| {
        let peers = rig.node.agent().peers();
        assert_eq!((peers.len(), peers[0].peer, peers[0].watched), (1, STATION.into(), true));
        peers[0].state
    };
    let response = |sequence| signal(Signal::EchoResponse { sequence, recovery: 7 });
    rig.advance(59 * SECOND);
    assert_eq!((requests(&mut rig), state(&mut rig)), (vec![], PathState::Untested));
    rig.advance(SECOND);
    let [first] = requests(&mut rig)[..] else { panic!("not one request") };
    // Another peer's answer, and one that no request asked for.
    let mut forged = response(first);
    let mut ip = weft_wire::ipv4::Packet::new_checked(&mut forged[14..]).unwrap();
    ip.set_source([10, 0, 0, 9].into());
    ip.fill_checksum();
    rig.send(0, &[forged, response(first.wrapping_add(1))]);
    assert_eq!(state(&mut rig), PathState::Untested);
    rig.send(0, &[response(first)]);
    assert_eq!(state(&mut rig), PathState::Up);
    assert_eq!(events.try_iter().count(), 0);
    // The next one is not answered: it is sent three times, then the peer has failed.
    rig.advance(60 * SECOND);
    let mut sent = requests(&mut rig);
    for _ in 0..3 {
        assert_eq!(state(&mut rig), PathState::Up);
        rig.advance(3 * SECOND);
        sent.extend(requests(&mut rig));
    }
    assert_eq!((sent.len(), sent[0] == sent[2]), (3, true));
    assert_eq!(state(&mut rig), PathState::Down);
    let counts = rig.node.agent().snapshot().signals;
    assert_eq!((counts.echo_requests, counts.echo_responses), (4, 1));
    assert_eq!((counts.echo_responses_ignored, counts.peer_failures), (2, 1));
    assert_eq!(counts.peers_down, 1);
    rig.advance(60 * SECOND);
    let [next] = requests(&mut rig)[..] else { panic!("not one request") };
    rig.send(0, &[response(next)]);
    assert_eq!(state(&mut rig), PathState::Up);
    let (local, peer) = (IpAddr::from(ACCESS), IpAddr::from(STATION));
    let told: Vec<_> = events.try_iter().collect();
    assert!(
        matches!(
            told[..],
            [
                Event::PeerFailed { local: l1, peer: p1, .. },
                Event::PeerReturned { local: l2, peer: p2, .. }
            ] if (l1, p1) == (local, peer) && (l2, p2) == (local, peer)
        ),
        "{told:?}"
    );
}

/// Peers come and go with the bearers that have tunnels to them.
#[test]
fn peers_are_those_of_bearers() {
    let mut rig = Rig::new(UPF);
    let peers = |rig: &mut Rig| {
        let peers = rig.node.agent().peers();
        peers.iter().map(|peer| (peer.peer.to_string(), peer.tunnels)).collect::<Vec<_>>()
    };
    let station = |tunnels| ("10.0.0.1".to_owned(), tunnels);
    assert_eq!(peers(&mut rig), [station(1)]);
    apply(&mut rig, json!([bearer(1, 1), bearer(2, 2)]));
    assert_eq!(peers(&mut rig), [station(3)]);
    let tunnel = json!({"teid": 9, "peer": "10.0.0.2", "local": "10.0.0.254"});
    apply(&mut rig, json!([{"change": {"id": 1, "functions": {"to-radio": {"tunnel": tunnel}}}}]));
    assert_eq!(peers(&mut rig), [station(2), ("10.0.0.2".to_owned(), 1)]);
    // A batch with a mistake leaves all as it was.
    let mistake = json!([{"remove": 1}, {"remove": 2}, {"remove": 3}]);
    assert!(rig.node.agent().change_written(&written(mistake)).is_err());
    assert_eq!(peers(&mut rig), [station(2), ("10.0.0.2".to_owned(), 1)]);
    apply(&mut rig, json!([{"remove": 1}, {"remove": 2}]));
    assert_eq!(peers(&mut rig), [station(1)]);
}

fn error(teid: u32, peer: [u8; 4], udp_port: Option<u16>) -> Vec<u8> {
    signal(Signal::ErrorIndication { teid: Teid(teid), peer: peer.into(), udp_port })
}

/// Another configuration of the same node.
fn reconfigure(rig: &mut Rig, yaml: &str) {
    let ring = rig.node.agent().blueprint().ports[0].device.clone();
    let yaml = yaml.replace("ring:", ring.trim_end_matches("access"));
    let read = weft_node_config::read(&yaml, "t.yaml", &crate::common::KINDS).unwrap();
    rig.node.agent().apply(read).unwrap();
    rig.settle();
}

#[test]
fn an_error_indication_stops_a_bearer_of_the_configuration_until_it_is_applied_again() {
    let mut rig = Rig::new(&UPF.replace("keep", "drop"));
    let events = rig.node.agent().listen();
    let source_port = {
        rig.send(1, &[downlink([10, 45, 0, 2], b"")]);
        let frames = rig.receive(0);
        u16::from_be_bytes([frames[0][34], frames[0][35]])
    };
    rig.send(0, &[error(0x2001, STATION, Some(source_port))]);
    let (peer, user) = (IpAddr::from(STATION), Some("ue-1".to_owned()));
    let told: Vec<_> = events.try_iter().collect();
    assert!(
        matches!(
            &told[..],
            [Event::ErrorIndication { bearer: None, user: u, teid: 0x2001, peer: p, .. }]
                if *u == user && *p == peer
        ),
        "{told:?}"
    );
    assert_eq!(passes(&mut rig, [10, 45, 0, 2]), None);
    assert_eq!(rig.drops("bearer_drop"), 1);
    assert_eq!(passes(&mut rig, [10, 45, 0, 1]), Some(0x2000));
    // The second one is no news.
    rig.send(0, &[error(0x2001, STATION, None)]);
    assert_eq!(events.try_iter().count(), 0);
    reconfigure(&mut rig, UPF);
    assert_eq!(passes(&mut rig, [10, 45, 0, 2]), Some(0x2001));
    // It is told all the same where bearers are kept as they are.
    rig.send(0, &[error(0x2001, STATION, None)]);
    assert_eq!(events.try_iter().count(), 1);
    assert_eq!(passes(&mut rig, [10, 45, 0, 2]), Some(0x2001));
}

#[test]
fn an_error_indication_makes_a_bearer_wait_for_a_new_tunnel() {
    let mut rig = Rig::new(&UPF.replace("keep", "notify"));
    apply(&mut rig, json!([bearer(7, 1)]));
    let events = rig.node.agent().listen();
    rig.send(0, &[error(0x4001, STATION, None)]);
    assert_eq!(passes(&mut rig, [10, 45, 1, 1]), None);
    let told: Vec<_> = events.try_iter().collect();
    let seven = BearerId(7);
    assert!(
        matches!(
            &told[..],
            [
                Event::ErrorIndication { bearer: Some(one), user: None, teid: 0x4001, .. },
                Event::DownlinkData { bearer: other, .. }
            ] if *one == seven && *other == seven
        ),
        "{told:?}"
    );
    // A new tunnel: what waits goes there.
    let tunnel = json!({"teid": 9, "peer": "10.0.0.2", "local": "10.0.0.254"});
    let functions = json!({"to-radio": {"tunnel": tunnel}});
    apply(&mut rig, json!([{"change": {"id": 7, "action": "forward", "functions": functions}}]));
    let all = left(&rig.receive(0));
    assert_eq!((all.len(), all[0].teid, all[0].to), (1, 9, OTHER_STATION));
    // No bearer has the old tunnel any more.
    rig.send(0, &[error(0x4001, STATION, None)]);
    assert_eq!(rig.node.agent().snapshot().signals.error_indications_ignored, 1);
}

/// Fault 23: what does not come from the tunnel's own peer, or is about no tunnel of
/// the node, is counted and changes nothing.
#[test]
fn fault_23_forged_error_indications() {
    let mut rig = Rig::new(&UPF.replace("keep", "drop"));
    apply(&mut rig, json!([bearer(7, 1)]));
    let events = rig.node.agent().listen();
    let mut elsewhere = error(0x2000, STATION, None);
    let mut ip = weft_wire::ipv4::Packet::new_checked(&mut elsewhere[14..]).unwrap();
    ip.set_source(OTHER_STATION.into());
    ip.fill_checksum();
    let forged = [
        elsewhere,
        error(0x2000, OTHER_STATION, None),
        error(0x2002, STATION, None),
        error(0, STATION, None),
        error(0x1000, STATION, None),
        error(0x2000, STATION, Some(1)),
        error(0x4001, STATION, Some(1)),
    ];
    rig.send(0, &forged);
    let counts = rig.node.agent().snapshot().signals;
    assert_eq!((counts.error_indications, counts.error_indications_ignored), (7, 7));
    assert_eq!(events.try_iter().count(), 0);
    assert_eq!(passes(&mut rig, [10, 45, 0, 1]), Some(0x2000));
    assert_eq!(passes(&mut rig, [10, 45, 1, 1]), Some(0x4001));
    // None of them was answered.
    assert!(rig.receive(0).is_empty());
}

/// Peers such as osmo-ggsn, go-gtp and Open5GS answer to the port that the packet came
/// from: it is heard there if it is the tunnel's own, and counted if it is not.
#[test]
fn fault_23_error_indications_at_the_source_port() {
    let to_port = |port: u16| {
        let mut frame = error(0x2001, STATION, None);
        frame[36..38].copy_from_slice(&port.to_be_bytes());
        frame
    };
    let mut rig = Rig::new(&UPF.replace("keep", "drop"));
    rig.send(1, &[downlink([10, 45, 0, 2], b"")]);
    let frames = rig.receive(0);
    let source_port = u16::from_be_bytes([frames[0][34], frames[0][35]]);
    assert!(source_port >= 49_152);
    // Ports that are none of this tunnel's.
    rig.send(0, &[to_port(source_port ^ 1), to_port(65_535), to_port(4000)]);
    let counts = rig.node.agent().snapshot().signals;
    assert_eq!((counts.error_indications, counts.error_indications_ignored), (2, 2));
    assert_eq!(passes(&mut rig, [10, 45, 0, 2]), Some(0x2001));
    rig.send(0, &[to_port(source_port)]);
    let counts = rig.node.agent().snapshot().signals;
    assert_eq!((counts.error_indications, counts.error_indications_ignored), (3, 2));
    assert_eq!(passes(&mut rig, [10, 45, 0, 2]), None);
    // Nothing else is GTP-U there.
    let echo = signal(Signal::EchoRequest { sequence: 7 });
    let mut elsewhere = echo.clone();
    elsewhere[36..38].copy_from_slice(&source_port.to_be_bytes());
    rig.send(0, &[elsewhere]);
    assert!(rig.receive(0).is_empty());
}

/// libgtp 1.9 refuses a message with the UDP Port extension header: without it the port of
/// the packet is 2152.
#[test]
fn an_error_indication_about_a_packet_from_2152_has_no_extension_header() {
    let mut rig = Rig::new(UPF);
    let told = |rig: &mut Rig, from_port: u16| {
        let mut frame =
            crate::common::gtpu::tunnelled(0xbad, &udp([10, 45, 0, 1], HOST, b"").split_off(14));
        frame[34..36].copy_from_slice(&from_port.to_be_bytes());
        rig.send(0, &[frame]);
        let frames = rig.receive(0);
        let message = Message::new_checked(&frames[0][42..]).unwrap();
        match Signal::parse(&message) {
            Ok(Signal::ErrorIndication { teid: Teid(0xbad), udp_port, .. }) => udp_port,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(told(&mut rig, 40_000), Some(40_000));
    assert_eq!(told(&mut rig, 2152), None);
}

fn packet(teid: u32, to: [u8; 4], payload: &str) -> Left {
    Left { to, message_type: MessageType::G_PDU, teid, payload: payload.to_owned() }
}

fn marker(teid: u32, to: [u8; 4]) -> Left {
    Left { to, message_type: MessageType::END_MARKER, teid, payload: String::new() }
}

/// The End Marker is the last packet on the old path.
#[test]
fn an_end_marker_ends_the_old_tunnel() {
    let mut rig = Rig::new(UPF);
    apply(&mut rig, json!([bearer(7, 1), bearer(8, 2)]));
    let user = [10, 45, 1, 1];
    rig.offer(1, &[downlink(user, b"a"), downlink(user, b"b")]);
    rig.settle();
    let change = |teid: u32, peer: &str| {
        let tunnel = json!({"teid": teid, "peer": peer, "local": "10.0.0.254"});
        json!([{"change": {"id": 7, "endMarker": true, "functions": {"to-radio": {"tunnel": tunnel}}}}])
    };
    apply(&mut rig, change(0x77, "10.0.0.2"));
    rig.send(1, &[downlink(user, b"c"), downlink([10, 45, 1, 2], b"other")]);
    let frames = rig.receive(0);
    assert_eq!(
        left(&frames),
        [
            packet(0x4001, STATION, "a"),
            packet(0x4001, STATION, "b"),
            marker(0x4001, STATION),
            packet(0x77, OTHER_STATION, "c"),
            packet(0x4002, STATION, "other"),
        ]
    );
    // It goes the way of the tunnel's packets, from the same port.
    assert_eq!(frames[2][34..36], frames[1][34..36]);
    assert_eq!(rig.node.agent().snapshot().signals.end_markers, 1);
    // The same tunnel again does not end.
    apply(&mut rig, change(0x77, "10.0.0.2"));
    assert!(rig.receive(0).is_empty());
    // What waited has not been on the old path, and comes behind the End Marker.
    apply(&mut rig, json!([{"change": {"id": 7, "action": "buffer"}}]));
    rig.send(1, &[downlink(user, b"d")]);
    let mut last = change(0x78, "10.0.0.1");
    last[0]["change"]["action"] = json!("forward");
    apply(&mut rig, last);
    assert_eq!(left(&rig.receive(0)), [marker(0x77, OTHER_STATION), packet(0x78, STATION, "d")]);
    let end = rig.node.stop();
    let came = end.received() + end.emitted + end.originated + end.fragments;
    assert_eq!(came, end.sent() + end.dropped() + end.local);
}

/// While packets come without a pause, none is behind the End Marker on the old
/// path, and none before it on the new one.
#[test]
fn an_end_marker_comes_between_packets_that_do_not_wait_for_it() {
    let mut rig = Rig::new(UPF);
    apply(&mut rig, json!([bearer(7, 1)]));
    let tunnel = json!({"teid": 0x77, "peer": "10.0.0.2", "local": "10.0.0.254"});
    let functions = json!({"to-radio": {"tunnel": tunnel}});
    let change = json!([{"change": {"id": 7, "endMarker": true, "functions": functions}}]);
    for nth in 0..20 {
        if nth == 8 {
            rig.node.agent().change_written(&written(change.clone())).unwrap();
        }
        rig.offer(1, &[downlink([10, 45, 1, 1], format!("{nth:02}").as_bytes())]);
        rig.node.step();
    }
    rig.settle();
    let all = left(&rig.receive(0));
    let at = all.iter().position(|left| left.message_type == MessageType::END_MARKER).unwrap();
    let (old, new) = (&all[..at], &all[at + 1..]);
    assert!((8..20).contains(&at) && old.iter().all(|left| left.teid == 0x4001), "{all:?}");
    assert!(new.iter().all(|left| left.teid == 0x77), "{all:?}");
    let payloads: Vec<_> = old.iter().chain(new).map(|left| left.payload.clone()).collect();
    assert_eq!(payloads, (0..20).map(|nth| format!("{nth:02}")).collect::<Vec<_>>());
}

/// A relay ends the tunnel of the direction that changed, and no other.
#[test]
fn a_relay_ends_the_tunnel_that_changes() {
    let mut rig = Rig::new(SGW);
    let uplink = json!({"teid": 0x5001, "peer": "198.51.100.1", "local": "198.51.100.254"});
    let downlink =
        |teid: u32, peer: &str| json!({"teid": teid, "peer": peer, "local": "10.0.0.254"});
    let relay = |downlink| json!({"relay": {"uplink": uplink, "downlink": downlink}});
    apply(
        &mut rig,
        json!([{"add": {"id": 1, "like": "ue", "match": {"teid": 0x2000},
                        "functions": relay(downlink(0x61, "10.0.0.1"))}}]),
    );
    let mut inside = udp(HOST, [10, 45, 0, 1], b"x").split_off(14);
    inside = crate::common::gtpu::message(
        MessageType::G_PDU,
        0x2000,
        weft_wire::gtpu::Extensions::NONE,
        &inside,
    );
    let mut frame = udp_to(MacAddress([2, 0, 0, 0, 0, 2]), HOST, [198, 51, 100, 254], 64, &inside);
    weft_wire::udp::Datagram::new_checked(&mut frame[34..]).unwrap().set_destination_port(2152);
    rig.send(1, &[frame.clone()]);
    let functions = relay(downlink(0x62, "10.0.0.2"));
    apply(&mut rig, json!([{"change": {"id": 1, "endMarker": true, "functions": functions}}]));
    rig.send(1, &[frame]);
    let frames = rig.receive(0);
    let expected =
        [packet(0x61, STATION, "x"), marker(0x61, STATION), packet(0x62, OTHER_STATION, "x")];
    assert_eq!(left(&frames), expected);
    // Of the class that the relay is told to mark with.
    assert_eq!(frames[1][15] >> 2, 46);
    assert!(rig.receive(1).is_empty());
}
