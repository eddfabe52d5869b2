//! Users who have an IPv6 prefix: what they and the gateway say about it.

use std::net::Ipv6Addr;

use crate::common::Rig;
use crate::common::gtpu::tunnelled;
use weft_wire::checksum::PseudoHeader;
use weft_wire::gtpu::{Message, Teid};
use weft_wire::{EtherType, MacAddress, Protocol, ethernet, icmpv6, ipv6};

const UPF: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: upf}
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
    addresses: ['2001:db8::fe/64']
    neighbours: {'2001:db8::1': 02:00:00:00:02:01}
functions:
  advertise:
    function: router-advertisement
    config: {linkLocal: 'fe80::99', mtu: 1440, nameServers: ['2001:db8::53'], interval: 600}
  from-radio: {function: gtpu-decapsulate}
  to-radio: {function: gtpu-encapsulate}
  relay: {function: gtpu-relay}
users:
  - name: ue
    count: 10
    chain: upf
    match: {ipv6: '2001:db8:45::/64', teid: 0x1000}
    functions:
      advertise: {prefix: '2001:db8:45::/64'}
      from-radio: {peer: 10.0.0.1, ipv6: '2001:db8:45::/64'}
      to-radio: {tunnel: {teid: 0x2000, peer: 10.0.0.1, local: 10.0.0.254}}
  - name: through
    chain: sgw
    match: {teid: 0x3000}
    functions:
      relay: {uplink: {teid: 0x5000, peer: '2001:db8::1', local: '2001:db8::fe'}}
rules: |
  chain upf = advertise
  chain sgw = relay
  from access when chain == upf -> upf
  from access when chain == sgw -> sgw
  from core -> upf
  from upf when direction == uplink -> from-radio
  from upf -> to-radio
  from from-radio -> core
  from sgw -> core
  from to-radio -> access
";

const UE: &str = "fe80::1234";

/// An ICMPv6 message of a user, in no tunnel.
fn icmp(source: &str, destination: &str, hop_limit: u8, message: &[u8]) -> Vec<u8> {
    let (source, destination): (Ipv6Addr, Ipv6Addr) =
        (source.parse().unwrap(), destination.parse().unwrap());
    let ip = ipv6::Repr {
        source,
        destination,
        next_header: Protocol::ICMPV6,
        payload_length: message.len() as u16,
        hop_limit,
        ..Default::default()
    };
    let mut bytes = vec![0; 40];
    ip.emit(&mut bytes).unwrap();
    bytes.extend(message);
    let pseudo = PseudoHeader::V6 { source, destination };
    icmpv6::Message::new_checked(&mut bytes[40..]).unwrap().fill_checksum(&pseudo);
    bytes
}

fn solicitation() -> Vec<u8> {
    icmp(UE, "ff02::2", 255, &[133, 0, 0, 0, 0, 0, 0, 0])
}

/// What left at the access port: the tunnel, and the advertisement's receiver and
/// message, after all that RFC 4861 §6.1.2 wants was tested; none for another packet.
type Left = (u32, Option<(Ipv6Addr, Vec<u8>)>);

fn advertisements(rig: &mut Rig) -> Vec<Left> {
    let frames = rig.receive(0);
    let open = |frame: &Vec<u8>| {
        let message = Message::new_checked(&frame[42..]).unwrap();
        let ip = ipv6::Packet::new_checked(message.payload()).unwrap();
        let Teid(teid) = message.teid();
        if ip.next_header() != Protocol::ICMPV6 {
            return (teid, None);
        }
        assert_eq!((ip.hop_limit(), ip.source()), (255, "fe80::99".parse().unwrap()));
        let icmp = icmpv6::Message::new_checked(ip.payload()).unwrap();
        icmp.verify_checksum(&ip.pseudo_header()).unwrap();
        assert_eq!(ip.payload()[..2], [134, 0]);
        (teid, Some((ip.destination(), ip.payload().to_vec())))
    };
    frames.iter().map(open).collect()
}

/// The option of that type in an advertisement.
fn option(message: &[u8], kind: u8) -> Option<&[u8]> {
    let mut rest = &message[16..];
    while let [this, length, ..] = *rest {
        let (option, behind) = rest.split_at(usize::from(length) * 8);
        if this == kind {
            return Some(option);
        }
        rest = behind;
    }
    None
}

fn downlink(user: u16) -> Vec<u8> {
    let mut frame = vec![0; 14 + 40 + 8];
    let link = ethernet::Repr {
        destination: MacAddress([2, 0, 0, 0, 0, 2]),
        source: MacAddress([2, 0, 0, 0, 2, 1]),
        ether_type: EtherType::IPV6,
    };
    link.emit(&mut frame).unwrap();
    let ip = ipv6::Repr {
        source: "2001:db8:99::1".parse().unwrap(),
        destination: Ipv6Addr::new(0x2001, 0xdb8, 0x45, user, 0, 0, 0, 7),
        next_header: Protocol(59),
        payload_length: 8,
        hop_limit: 64,
        ..Default::default()
    };
    ip.emit(&mut frame[14..]).unwrap();
    frame
}

#[test]
fn a_solicitation_is_answered_in_its_users_tunnel() {
    let mut rig = Rig::new(UPF);
    rig.send(0, &[tunnelled(0x1003, &solicitation())]);
    let all = advertisements(&mut rig);
    let [(0x2003, Some((to, message)))] = &all[..] else { panic!("{all:?}") };
    assert_eq!(*to, UE.parse::<Ipv6Addr>().unwrap());
    // The lifetime of the router, and the prefix: autonomous, not on-link, for ever.
    assert_eq!(message[6..8], 64_800_u16.to_be_bytes());
    let prefix = option(message, 3).expect("a prefix");
    assert_eq!((prefix[2], prefix[3]), (64, 0x40));
    assert_eq!(prefix[4..12], [0xff; 8]);
    let expected: Ipv6Addr = "2001:db8:45:3::".parse().unwrap();
    assert_eq!(prefix[16..], expected.octets());
    assert_eq!(option(message, 5).expect("an MTU")[4..], 1440_u32.to_be_bytes());
    let server: Ipv6Addr = "2001:db8::53".parse().unwrap();
    assert_eq!(option(message, 25).expect("a name server")[8..], server.octets());
    assert!(rig.receive(1).is_empty());
    // A second one at once is too much; after three seconds it is not.
    rig.send(0, &[tunnelled(0x1003, &solicitation())]);
    assert!(advertisements(&mut rig).is_empty());
    rig.advance(3_000_000_000);
    let unspecified = icmp("::", "ff02::2", 255, &[133, 0, 0, 0, 0, 0, 0, 0]);
    rig.send(0, &[tunnelled(0x1003, &unspecified)]);
    // A host without an address is told as all are; the node lets none without one in.
    let told = advertisements(&mut rig).len() as u64;
    assert_eq!(told + rig.drops("martian"), 1);
    let end = rig.node.stop();
    let came = end.received() + end.emitted + end.originated + end.fragments;
    assert_eq!(came, end.sent() + end.dropped() + end.local, "{:?}", end.drops);
}

#[test]
fn what_is_no_solicitation_is_dropped_by_name() {
    let mut rig = Rig::new(UPF);
    let forwarded = icmp(UE, "ff02::2", 254, &[133, 0, 0, 0, 0, 0, 0, 0]);
    rig.send(0, &[tunnelled(0x1000, &forwarded)]);
    assert_eq!(rig.drops("martian"), 1);
    let mut damaged = solicitation();
    damaged[42] ^= 1;
    let neighbour =
        icmp(UE, "fe80::99", 255, &[&[135, 0, 0, 0, 0, 0, 0, 0], &[0; 16][..]].concat());
    rig.send(0, &[tunnelled(0x1000, &damaged), tunnelled(0x1000, &neighbour)]);
    assert_eq!(rig.drops("link_scope"), 2);
    assert!(advertisements(&mut rig).is_empty() && rig.receive(1).is_empty());
}

/// A user is told in front of its first packet, and again when the interval is over.
#[test]
fn users_are_told_in_front_of_their_packets() {
    let mut rig = Rig::new(UPF);
    rig.send(1, &[downlink(2), downlink(2), downlink(3)]);
    let seen = |rig: &mut Rig| {
        let all = advertisements(rig);
        all.into_iter().map(|(teid, told)| (teid, told.map(|(to, _)| to))).collect::<Vec<_>>()
    };
    let nodes: Option<Ipv6Addr> = Some("ff02::1".parse().unwrap());
    assert_eq!(
        seen(&mut rig),
        [(0x2002, nodes), (0x2002, None), (0x2002, None), (0x2003, nodes), (0x2003, None)]
    );
    rig.advance(599_000_000_000);
    rig.receive(0);
    rig.send(1, &[downlink(2)]);
    assert_eq!(seen(&mut rig), [(0x2002, None)]);
    rig.advance(1_000_000_000);
    rig.receive(0);
    rig.send(1, &[downlink(2)]);
    assert_eq!(seen(&mut rig), [(0x2002, nodes), (0x2002, None)]);
}

/// A relay does not end the user's link: its neighbour discovery goes on.
#[test]
fn a_relay_passes_solicitations_on() {
    let mut rig = Rig::new(UPF);
    rig.send(0, &[tunnelled(0x3000, &solicitation())]);
    let frames = rig.receive(1);
    assert_eq!(frames.len(), 1);
    let message = Message::new_checked(&frames[0][62..]).unwrap();
    assert_eq!((message.teid(), message.payload()), (Teid(0x5000), &solicitation()[..]));
}
