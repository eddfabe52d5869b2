//! What a routed port owes its links as a router, on memory ports.

use crate::common::{Rig, udp_to};
use weft_wire::{MacAddress, Protocol, icmpv4, ipv4};

const ROUTER: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: router}
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
    mtu: 600
    addresses: [198.51.100.254/24]
    neighbours: {198.51.100.1: 02:00:00:00:02:01}
users:
  - {name: ue, match: {ipv4: 10.0.0.1}}
rules: |
  from access -> core
  from core -> access
";

const USER: [u8; 4] = [10, 0, 0, 1];
const ACCESS: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

/// A packet of 1,000 octets of payload from the user, which may be cut or not.
fn long(dont_fragment: bool) -> Vec<u8> {
    let mut frame = udp_to(ACCESS, USER, [198, 51, 100, 1], 64, &[7; 1000]);
    let mut ip = ipv4::Packet::new_checked(&mut frame[14..]).unwrap();
    ip.set_dont_fragment(dont_fragment);
    ip.fill_checksum();
    frame
}

/// An echo request from the user.
fn echo_request(destination: [u8; 4]) -> Vec<u8> {
    let mut frame = udp_to(ACCESS, USER, destination, 64, &[]);
    let mut ip = ipv4::Packet::new_checked(&mut frame[14..]).unwrap();
    ip.set_protocol(Protocol::ICMP);
    ip.fill_checksum();
    ip.payload_mut()[..2].copy_from_slice(&[icmpv4::Type::ECHO_REQUEST.0, 0]);
    icmpv4::Message::new_checked(ip.payload_mut()).unwrap().fill_checksum();
    frame
}

/// The source, type and code of the ICMP message in a frame.
fn icmp(frame: &[u8]) -> ([u8; 4], u8, u8) {
    let ip = ipv4::Packet::new_checked(&frame[14..]).unwrap();
    assert_eq!(ip.protocol(), Protocol::ICMP);
    (ip.source().octets(), ip.payload()[0], ip.payload()[1])
}

#[test]
fn a_long_packet_leaves_in_fragments_unless_its_sender_forbids_them() {
    let mut rig = Rig::new(ROUTER);
    rig.send(0, &[long(false)]);
    let lengths: Vec<_> = rig.receive(1).iter().map(Vec::len).collect();
    assert_eq!(lengths, [14 + 596, 14 + 20 + 1008 - 576]);
    rig.send(0, &[long(true)]);
    assert!(rig.receive(1).is_empty());
    assert_eq!(rig.drops("packet_too_big"), 1);
    // Fragmentation needed and DF set (RFC 792).
    let answers: Vec<_> = rig.receive(0).iter().map(|frame| icmp(frame)).collect();
    assert_eq!(answers, [([10, 0, 0, 254], 3, 4)]);
}

#[test]
fn the_node_answers_at_any_port_for_the_addresses_of_all() {
    let mut rig = Rig::new(ROUTER);
    let own = [[10, 0, 0, 254], [198, 51, 100, 254]];
    rig.send(0, &own.map(echo_request));
    let answers: Vec<_> = rig.receive(0).iter().map(|frame| icmp(frame)).collect();
    assert_eq!(answers, own.map(|address| (address, 0, 0)));
}

#[test]
fn martians_and_directed_broadcasts_end_here() {
    let mut rig = Rig::new(ROUTER);
    let nowhere = [
        [0, 0, 0, 1],
        [127, 0, 0, 1],
        [169, 254, 1, 1],
        [224, 0, 0, 5],
        [240, 0, 0, 1],
        [255, 255, 255, 255],
        [198, 51, 100, 255],
    ];
    rig.send(0, &nowhere.map(|to| udp_to(ACCESS, USER, to, 64, b"")));
    assert_eq!(rig.drops("martian"), nowhere.len() as u64);
    assert!(rig.receive(1).is_empty() && rig.receive(0).is_empty());
}

#[test]
fn a_sender_learns_that_there_is_no_route() {
    let mut rig = Rig::new(ROUTER);
    rig.send(0, &[udp_to(ACCESS, USER, [203, 0, 113, 1], 64, b"")]);
    assert_eq!(rig.drops("no_route"), 1);
    // Network unreachable (RFC 792).
    let answers: Vec<_> = rig.receive(0).iter().map(|frame| icmp(frame)).collect();
    assert_eq!(answers, [([10, 0, 0, 254], 3, 0)]);
}
