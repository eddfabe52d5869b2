//! What reaches a gateway by mistake or by malice: messages, packets inside of
//! tunnels, and floods. The numbers are those of the list of faults that the tests
//! of other crates name too.

mod common;

use common::gtpu::{HOST, NODE, datagram, message, tunnelled};
use common::{Rig, udp_to};
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

/// Fault 24: End Markers that are duplicate, early or of nobody. A relay passes on
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
