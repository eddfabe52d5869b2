//! What reaches a gateway by mistake or by malice: messages, packets inside of
//! tunnels, and floods. The numbers are those of the list of faults that the tests
//! of other crates name too.

use crate::common::gtpu::{HOST, NODE, datagram, message, tunnelled};
use crate::common::{Rig, udp_to};
use proptest::prelude::*;
use weft_wire::gtpu::{Extensions, Message, MessageType, Signal};
use weft_wire::{MacAddress, ipv4};

/// A UPF of two users, and a serving gateway for a third.
const GATEWAY: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: gateway}
memory: {packets: 4095}
ports:
  access:
    device: 'ring:access'
    direction: uplink
    mac: 02:00:00:00:00:01
    addresses: [10.0.0.254/24]
    neighbours: {10.0.0.1: 02:00:00:00:01:01}
  core:
    device: 'ring:core'
    direction: downlink
    mac: 02:00:00:00:00:02
    addresses: [198.51.100.254/24]
    neighbours: {198.51.100.1: 02:00:00:00:02:01}
functions:
  from-radio: {function: gtpu-decapsulate}
  to-radio: {function: gtpu-encapsulate}
  relay: {function: gtpu-relay}
users:
  - name: ue
    count: 2
    chain: upf
    match: {ipv4: 10.45.0.1, teid: 0x1000}
    functions:
      from-radio: {ipv4: 10.45.0.1, peer: 10.0.0.1}
      to-radio: {tunnel: {teid: 0x2000, peer: 10.0.0.1, local: 10.0.0.254}, qfi: 9}
  - name: through
    chain: sgw
    match: {teid: 0x3000}
    functions:
      relay:
        uplink: {teid: 0x5000, peer: 198.51.100.1, local: 198.51.100.254}
rules: |
  chain upf = from-radio
  chain sgw = relay
  from access when chain == upf -> upf
  from access when chain == sgw -> sgw
  from upf -> core
  from sgw -> core
  from core -> to-radio
  from to-radio -> access
";

const UE: [u8; 4] = [10, 45, 0, 1];

/// A packet of a user to the host behind the node.
fn inside(from: [u8; 4], to: [u8; 4]) -> Vec<u8> {
    udp_to(NODE, from, to, 64, b"up").split_off(14)
}

/// That a good packet still passes.
fn still_works(rig: &mut Rig) {
    rig.receive(1);
    rig.send(0, &[tunnelled(0x1000, &inside(UE, HOST))]);
    assert_eq!(rig.receive(1).len(), 1);
}

/// Fault 1, of a whole packet: cut off at every octet, nothing of it leaves.
#[test]
fn fault_01_every_truncation() {
    let mut rig = Rig::new(GATEWAY);
    let whole = message(MessageType::G_PDU, 0x1000, Extensions::NONE, &inside(UE, HOST));
    let cut: Vec<_> = (0..whole.len()).map(|end| datagram(&whole[..end])).collect();
    rig.send(0, &cut);
    assert!(rig.receive(0).is_empty() && rig.receive(1).is_empty());
    still_works(&mut rig);
}

/// Fault 10: a G-PDU without a packet, and one in another.
#[test]
fn fault_10_nothing_inside() {
    let mut rig = Rig::new(GATEWAY);
    let empty = message(MessageType::G_PDU, 0x1000, Extensions::NONE, b"");
    let nested = message(MessageType::G_PDU, 0x1000, Extensions::NONE, &empty);
    rig.send(0, &[datagram(&empty), datagram(&nested)]);
    assert_eq!(rig.drops("gtpu_payload_unknown"), 2);
    assert!(rig.receive(1).is_empty());
    still_works(&mut rig);
}

/// Fault 13, in a tunnel: a header length below 5, a total length beyond the end.
#[test]
fn fault_13_malformed_inside() {
    let mut rig = Rig::new(GATEWAY);
    let good = inside(UE, HOST);
    let with = |place: usize, octet: u8| {
        let mut bytes = good.clone();
        bytes[place] = octet;
        tunnelled(0x1000, &bytes)
    };
    rig.send(0, &[with(0, 0x44), with(0, 0x4f), with(2, 0xff), with(3, 0)]);
    assert_eq!(rig.drops("ipv4_malformed"), 4);
    assert!(rig.receive(1).is_empty());
    still_works(&mut rig);
}

/// Fault 16, in a tunnel: fragments of a user leave as they came.
#[test]
fn fault_16_fragments_inside() {
    let mut rig = Rig::new(GATEWAY);
    let mut last = inside(UE, HOST);
    last[6..8].copy_from_slice(&[0, 100]);
    ipv4::Packet::new_checked(&mut last[..]).unwrap().fill_checksum();
    rig.send(0, &[tunnelled(0x1000, &last)]);
    let frames = rig.receive(1);
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0][14 + 6..14 + 8], [0, 100]);
    still_works(&mut rig);
}

/// Fault 18: a G-PDU to the node itself in a user's tunnel goes nowhere.
#[test]
fn fault_18_a_tunnel_in_a_tunnel() {
    let mut rig = Rig::new(GATEWAY);
    let mut own = tunnelled(0x1001, &inside([10, 45, 0, 2], HOST)).split_off(14);
    let mut ip = ipv4::Packet::new_checked(&mut own[..]).unwrap();
    ip.set_source(UE.into());
    ip.fill_checksum();
    rig.send(0, &[tunnelled(0x1000, &own)]);
    assert_eq!(rig.drops("tunnelled_to_us"), 1);
    assert!(rig.receive(0).is_empty() && rig.receive(1).is_empty());
}

/// Fault 21: a flood of Echo Requests is answered as far as there is room, and
/// users' packets pass meanwhile.
#[test]
fn fault_21_an_echo_flood() {
    let mut rig = Rig::new(GATEWAY);
    let request = Signal::EchoRequest { sequence: 1 };
    let mut bytes = vec![0; request.buffer_len()];
    request.emit(&mut bytes).unwrap();
    for _ in 0..100 {
        let mut burst = vec![datagram(&bytes); 31];
        burst.push(tunnelled(0x1000, &inside(UE, HOST)));
        rig.send(0, &burst);
        assert_eq!(rig.receive(1).len(), 1);
        assert!(rig.receive(0).len() <= 31);
    }
}

/// Fault 24: End Markers that are duplicate, early or of no tunnel. A relay passes on
/// those of its bearers, a UPF's end there; no packet is lost for them.
#[test]
fn fault_24_end_markers() {
    let mut rig = Rig::new(GATEWAY);
    let marker = |teid| datagram(&message(MessageType::END_MARKER, teid, Extensions::NONE, b""));
    let packet = tunnelled(0x3000, &inside([10, 45, 0, 9], HOST));
    rig.send(0, &[marker(0x3000), packet.clone(), marker(0x3000), marker(0x3000), packet]);
    let types: Vec<_> = rig
        .receive(1)
        .iter()
        .map(|frame| Message::new_checked(&frame[42..]).unwrap().message_type())
        .collect();
    let (marker_type, packet_type) = (MessageType::END_MARKER, MessageType::G_PDU);
    assert_eq!(types, [marker_type, packet_type, marker_type, marker_type, packet_type]);
    rig.send(0, &[marker(0x1000), marker(0xbad), marker(0)]);
    assert!(rig.receive(0).is_empty() && rig.receive(1).is_empty());
    still_works(&mut rig);
}

/// Fault 9: a PDU session container that is none, and one of another QoS flow.
#[test]
fn fault_09_pdu_session_containers() {
    let qfi = "      from-radio: {ipv4: 10.45.0.1, peer: 10.0.0.1}";
    let mut rig = Rig::new(&GATEWAY.replace(qfi, &qfi.replace("}", ", qfi: 9}")));
    let container = |content: &[u8]| {
        let mut bytes = vec![0x34, 255, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0x85];
        bytes.push((content.len() as u8 + 2) / 4);
        bytes.extend(content);
        bytes.push(0);
        bytes.extend(inside(UE, HOST));
        let length = (bytes.len() - 8) as u16;
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        datagram(&bytes)
    };
    // Uplink is type 1 (TS 38.415 §5.5.2.2); a type that there is not, and one that is
    // longer than it is told to be.
    rig.send(0, &[container(&[0xf0, 9]), container(&[0x12, 9])]);
    assert_eq!(rig.drops("gtpu_malformed"), 2);
    rig.send(0, &[container(&[0x10, 8]), tunnelled(0x1000, &inside(UE, HOST))]);
    assert_eq!(rig.drops("wrong_qfi"), 2);
    assert!(rig.receive(1).is_empty());
    rig.send(0, &[container(&[0x10, 9])]);
    assert_eq!(rig.receive(1).len(), 1);
}

/// An IPv6 packet of a user, with this next header and content.
fn inside_v6(next_header: u8, length: usize, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 40];
    bytes[0] = 0x60;
    bytes[4..6].copy_from_slice(&(length as u16).to_be_bytes());
    (bytes[6], bytes[7]) = (next_header, 64);
    bytes[8..24].copy_from_slice(&[0x20, 1, 0xd, 0xb8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    bytes[24..40].copy_from_slice(&[0x20, 1, 0xd, 0xb8, 0, 0x99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    bytes.extend(content);
    bytes
}

/// Fault 14, in a tunnel: a payload of length 0 in front of a header; and 15: extension
/// headers without end, cut off, out of place, and a jumbogram (RFC 2675).
#[test]
fn fault_14_15_ipv6_inside() {
    let mut rig = Rig::new(GATEWAY);
    let options = |next: u8| [next, 0, 1, 4, 0, 0, 0, 0];
    let many: Vec<u8> = std::iter::repeat_n(options(60), 100).flatten().collect();
    let jumbo = [17, 0, 0xc2, 4, 0, 1, 0, 0];
    let bad = [
        inside_v6(17, 0, &[0; 16]),
        inside_v6(0, 0, &jumbo),
        inside_v6(60, many.len(), &many),
        inside_v6(60, 8, &[17, 200, 1, 4, 0, 0, 0, 0]),
        inside_v6(60, 4, &[17, 0, 1, 4]),
        inside_v6(60, 16, &[options(0), options(17)].concat()),
        inside_v6(17, 9, &[0; 4]),
    ];
    for packet in &bad {
        rig.send(0, &[tunnelled(0x3000, packet)]);
    }
    assert_eq!(rig.drops("ipv6_malformed"), bad.len() as u64);
    assert!(rig.receive(1).is_empty());
    // As many as are read pass, whatever they lead to; a jumbo option with a length is
    // for the receiver to refuse.
    let few: Vec<u8> = [options(60), options(60), options(59)].concat();
    rig.send(0, &[tunnelled(0x3000, &inside_v6(60, few.len(), &few))]);
    assert_eq!(rig.receive(1).len(), 1);
    still_works(&mut rig);
}

/// Fault 20: from user to user. The packet leaves at the core, where the router beyond
/// decides, and comes back as any other.
#[test]
fn fault_20_from_user_to_user() {
    let mut rig = Rig::new(GATEWAY);
    rig.send(0, &[tunnelled(0x1000, &inside(UE, [10, 45, 0, 2]))]);
    // No subnet of the core port leads there, and it has no gateway: the user is told.
    assert_eq!(rig.drops("no_route"), 1);
    assert_eq!(rig.receive(0).len(), 1);
    let mut rig = Rig::new(&GATEWAY.replace(
        "addresses: [198.51.100.254/24]",
        "addresses: [198.51.100.254/24]\n    gateways: [198.51.100.1]",
    ));
    rig.send(0, &[tunnelled(0x1000, &inside(UE, [10, 45, 0, 2]))]);
    let mut frames = rig.receive(1);
    assert_eq!(frames.len(), 1);
    frames[0][..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    rig.send(1, &frames);
    let back = rig.receive(0);
    assert_eq!(back.len(), 1);
    let message = Message::new_checked(&back[0][42..]).unwrap();
    assert_eq!(message.teid(), weft_wire::gtpu::Teid(0x2001));
    let ip = ipv4::Packet::new_checked(message.payload()).unwrap();
    assert_eq!((ip.source().octets(), ip.time_to_live()), (UE, 62));
}

/// Fragments of tunnels are dropped under a name of their own: the link between peer
/// and node has to carry whole ones.
#[test]
fn fragments_of_tunnels_are_dropped_by_name() {
    let mut rig = Rig::new(GATEWAY);
    let whole = tunnelled(0x1000, &inside(UE, HOST));
    let with = |bits: [u8; 2]| {
        let mut frame = whole.clone();
        frame[20..22].copy_from_slice(&bits);
        ipv4::Packet::new_checked(&mut frame[14..]).unwrap().fill_checksum();
        frame
    };
    rig.send(0, &[with([0x20, 0]), with([0x20, 5]), with([0, 9])]);
    assert_eq!(rig.drops("outer_fragment"), 3);
    assert!(rig.receive(0).is_empty() && rig.receive(1).is_empty());
    still_works(&mut rig);
}

/// Fault 21, while the agent is busy elsewhere: what is beyond the rate of a sender is dropped
/// by name.
#[test]
fn fault_21_an_echo_flood_without_an_agent() {
    let mut rig = Rig::new(GATEWAY);
    let request = crate::common::gtpu::signal(Signal::EchoRequest { sequence: 1 });
    // The agent knows the next hop, and has told the worker.
    still_works(&mut rig);
    for _ in 0..100 {
        let mut burst = vec![request.clone(); 31];
        burst.push(tunnelled(0x1000, &inside(UE, HOST)));
        rig.offer(0, &burst);
        while rig.node.workers()[0].poll() {}
        assert_eq!(rig.receive(1).len(), 1);
    }
    assert!(rig.drops("local_source_rate") > 0);
    rig.settle();
    let answered = rig.receive(0).len() as u64;
    let counts = rig.node.agent().snapshot();
    assert_eq!(counts.signals.echo_requests_answered, counts.local);
    assert!(answered <= counts.local && answered > 0);
    still_works(&mut rig);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Frames that are good but for some octets, in bursts of any size: nothing
    /// panics, every packet is accounted for, and a good one passes afterwards.
    #[test]
    fn damaged_frames_are_accounted_for(
        damage in prop::collection::vec((0..4usize, prop::collection::vec((12..90usize, any::<u8>()), 0..4)), 1..64),
        uplink in prop::collection::vec(any::<bool>(), 64),
    ) {
        let mut rig = Rig::new(GATEWAY);
        let request = Signal::EchoRequest { sequence: 1 };
        let mut echo = vec![0; request.buffer_len()];
        request.emit(&mut echo).unwrap();
        let good = [
            tunnelled(0x1000, &inside(UE, HOST)),
            tunnelled(0x3000, &inside(UE, HOST)),
            datagram(&echo),
            udp_to(MacAddress([2, 0, 0, 0, 0, 2]), HOST, UE, 64, b"down"),
        ];
        for (number, (which, octets)) in damage.iter().enumerate() {
            let mut frame = good[*which].clone();
            for (place, octet) in octets {
                if let Some(at) = frame.get_mut(*place) {
                    *at = *octet;
                }
            }
            rig.send(usize::from(uplink[number]), &[frame]);
        }
        still_works(&mut rig);
        rig.receive(0);
        let end = rig.node.stop();
        let came = end.received() + end.emitted + end.originated + end.fragments;
        prop_assert_eq!(end.received(), damage.len() as u64 + 1);
        prop_assert_eq!(came, end.sent() + end.dropped() + end.local, "{:?}", end.drops);
    }
}

/// What nothing comes of is counted by its cause, of both IP versions.
#[test]
fn what_nothing_comes_of_is_counted_by_name() {
    let mut rig = Rig::new(GATEWAY);
    let to = |port: u16, payload: &[u8]| {
        let mut frame = datagram(payload);
        frame[36..38].copy_from_slice(&port.to_be_bytes());
        // No checksum.
        frame[40..42].fill(0);
        frame
    };
    let mut other_protocol = to(2152, b"payload that is long enough");
    other_protocol[23] = 89;
    let mut ping = to(2152, b"payload that is long enough");
    ping[23] = 1;
    // An echo reply, a redirect, an echo request with a wrong checksum.
    let icmp = |kind: u8| {
        let mut frame = ping.clone();
        frame[34..38].copy_from_slice(&[kind, 0, 0, 0]);
        frame
    };
    let arp = |operation: u8| {
        let mut frame = vec![0xff; 6];
        frame.extend([2, 0, 0, 0, 0, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, operation]);
        frame.extend([2, 0, 0, 0, 0, 9, 10, 0, 0, 9, 0, 0, 0, 0, 0, 0, 10, 0, 0, 254]);
        frame
    };
    // An Error Indication that says nothing of what was wrong.
    let empty = message(MessageType(26), 0, Extensions::NONE, b"");
    let cases = [
        ("port_unknown", to(53, b"who?")),
        ("port_unknown", to(0xd000, b"who?")),
        ("protocol_unknown", other_protocol),
        ("icmp_unknown", icmp(0)),
        ("icmp_unknown", icmp(5)),
        ("icmp_malformed", icmp(8)),
        ("neighbour_refused", arp(9)),
        ("gtpu_malformed", to(2152, &empty)),
    ];
    for (number, (cause, frame)) in cases.into_iter().enumerate() {
        let count = |rig: &mut Rig| {
            let ignored = rig.node.agent().snapshot().ignored;
            ignored.iter().find(|one| one.cause == cause).map_or(0, |one| one.packets)
        };
        let before = count(&mut rig);
        let mut frame = frame;
        if frame[12..14] == [8, 0] {
            frame[24..26].fill(0);
            let sum = weft_wire::checksum::of(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        rig.send(0, &[frame]);
        let snapshot = rig.node.agent().snapshot();
        assert_eq!(
            count(&mut rig),
            before + 1,
            "case {number}, {cause}: {:?} {:?}",
            snapshot.ignored,
            snapshot.drops
        );
    }
    still_works(&mut rig);
}
