//! Tunnels that end at a node, on memory ports.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::common::gtpu::{ACCESS, HOST, NODE, STATION, datagram, message, tunnelled};
use crate::common::{Rig, udp, udp_to};
use weft_wire::checksum::PseudoHeader;
use weft_wire::gtpu::{
    ExtensionRepr, Extensions, Message, MessageType, PORT, PduSession, Qfi, Signal, Teid,
};
use weft_wire::{EtherType, MacAddress, Protocol, ethernet, ipv4, ipv6, udp as wire_udp};

/// A UPF: tunnels from a base station, and a network behind.
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
    addresses: [198.51.100.254/24]
    neighbours: {198.51.100.1: 02:00:00:00:02:01}
functions:
  from-radio: {function: gtpu-decapsulate}
  to-radio: {function: gtpu-encapsulate}
users:
  - name: ue
    count: 10
    match: {ipv4: 10.45.0.1, teid: 0x1000}
    functions:
      from-radio: {ipv4: 10.45.0.1, peer: 10.0.0.1}
      to-radio: {tunnel: {teid: 0x2000, peer: 10.0.0.1, local: 10.0.0.254}, qfi: 9}
rules: |
  from access -> from-radio
  from from-radio -> core
  from core -> to-radio
  from to-radio -> access
";

/// A gateway between two tunnels, IPv4 on one side and IPv6 on the other.
const SGW: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: sgw}
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
  relay: {function: gtpu-relay}
users:
  - name: ue
    match: {teid: 0x1000}
    functions:
      relay:
        uplink: {teid: 0x5000, peer: '2001:db8::1', local: '2001:db8::fe'}
        downlink: {teid: 0x6000, peer: 10.0.0.1, local: 10.0.0.254}
rules: |
  from access -> relay
  from core -> relay
  from relay when direction == uplink -> core
  from relay when direction == downlink -> access
";

/// A packet between two hosts, in a tunnel from the base station.
fn between(teid: u32, from: [u8; 4], to: [u8; 4]) -> Vec<u8> {
    tunnelled(teid, &udp(from, to, b"up").split_off(14))
}

/// What is in a frame: the IP packet's ends and its UDP datagram, after all of
/// its checksums were tested.
fn open(frame: &[u8]) -> (IpAddr, IpAddr, wire_udp::Datagram<&[u8]>) {
    let link = ethernet::Frame::new_checked(frame).unwrap();
    let (from, to, pseudo_header, payload): (IpAddr, IpAddr, PseudoHeader, &[u8]) =
        match link.ether_type() {
            EtherType::IPV4 => {
                let ip = ipv4::Packet::new_checked(&frame[14..]).unwrap();
                ip.verify_checksum().unwrap();
                assert_eq!(usize::from(ip.total_length()), frame.len() - 14);
                (ip.source().into(), ip.destination().into(), ip.pseudo_header(), &frame[34..])
            }
            _ => {
                let ip = ipv6::Packet::new_checked(&frame[14..]).unwrap();
                assert_eq!(ip.next_header(), Protocol::UDP);
                assert_eq!(ip.total_length(), frame.len() - 14);
                (ip.source().into(), ip.destination().into(), ip.pseudo_header(), &frame[54..])
            }
        };
    let datagram = wire_udp::Datagram::new_checked(payload).unwrap();
    datagram.verify_checksum(&pseudo_header).unwrap();
    (from, to, datagram)
}

/// The message that the node sent to the base station, and the port it went to.
fn answer(rig: &mut Rig) -> Option<(Signal, u16)> {
    let frames = rig.receive(0);
    assert!(frames.len() < 2);
    let frame = frames.first()?;
    let (from, to, datagram) = open(frame);
    assert_eq!((from, to), (ACCESS.into(), STATION.into()));
    let message = Message::new_checked(datagram.payload()).unwrap();
    Some((Signal::parse(&message).unwrap(), datagram.destination_port()))
}

#[test]
fn uplink_packets_leave_their_tunnel() {
    let mut rig = Rig::new(UPF);
    rig.send(0, &[between(0x1003, [10, 45, 0, 4], HOST)]);
    let frames = rig.receive(1);
    assert_eq!(frames.len(), 1);
    // Padding to 60 octets is the device's.
    let ip = ipv4::Packet::new_checked(&frames[0][14..]).unwrap();
    ip.verify_checksum().unwrap();
    assert_eq!((ip.source().octets(), ip.time_to_live()), ([10, 45, 0, 4], 63));
    assert_eq!(&ip.payload()[8..], b"up");
    assert_eq!(frames[0].len(), 14 + usize::from(ip.total_length()));
}

#[test]
fn downlink_packets_enter_their_tunnel() {
    let mut rig = Rig::new(UPF);
    let mut frame = udp_to(MacAddress([2, 0, 0, 0, 0, 2]), HOST, [10, 45, 0, 3], 64, b"down");
    let inside = frame[14..].to_vec();
    frame.resize(60, 0xff);
    rig.send(1, &[frame]);
    let frames = rig.receive(0);
    assert_eq!(frames.len(), 1);
    let (from, to, datagram) = open(&frames[0]);
    assert_eq!((from, to), (ACCESS.into(), STATION.into()));
    assert_eq!((datagram.destination_port(), datagram.checksum()), (PORT, 0));
    assert!(datagram.source_port() >= 49152);
    let message = Message::new_checked(datagram.payload()).unwrap();
    assert_eq!((message.message_type(), message.teid()), (MessageType::G_PDU, Teid(0x2002)));
    let qfi = Qfi::new(9).unwrap();
    let session = PduSession::Downlink { qfi, reflective: false, paging_policy: None };
    assert_eq!(message.pdu_session(), Ok(Some(session)));
    let ip = ipv4::Packet::new_checked(message.payload()).unwrap();
    ip.verify_checksum().unwrap();
    assert_eq!(ip.time_to_live(), 63);
    assert_eq!(message.payload()[12..], inside[12..]);
}

/// A packet longer than the MTU with its tunnel is cut, as IPv4 may be.
#[test]
fn a_long_packet_with_its_tunnel_leaves_in_fragments() {
    let mut rig = Rig::new(UPF);
    let node = MacAddress([2, 0, 0, 0, 0, 2]);
    rig.send(1, &[udp_to(node, HOST, [10, 45, 0, 1], 64, &[7; 1472])]);
    let lengths: Vec<_> = rig.receive(0).iter().map(Vec::len).collect();
    // 1,500 octets and 28 + 16 around them; an IPv4 header for each piece.
    assert_eq!(lengths.iter().map(|length| length - 34).sum::<usize>(), 1500 + 8 + 16);
    assert_eq!(lengths.len(), 2);
    assert_eq!(rig.drops("packet_too_big"), 0);
}

#[test]
fn a_relay_moves_packets_and_end_markers_in_order() {
    let mut rig = Rig::new(SGW);
    let qfi = Qfi::new(5).unwrap();
    let container = Extensions::one(ExtensionRepr::PduSession(PduSession::Uplink { qfi }));
    let inside = udp([10, 45, 0, 1], HOST, b"up").split_off(14);
    let packet = message(MessageType::G_PDU, 0x1000, container, &inside);
    let marker = message(MessageType::END_MARKER, 0x1000, Extensions::NONE, b"");
    rig.send(0, &[datagram(&packet), datagram(&marker)]);
    let frames = rig.receive(1);
    assert_eq!(frames.len(), 2);
    let ends: (Ipv6Addr, Ipv6Addr) =
        ("2001:db8::fe".parse().unwrap(), "2001:db8::1".parse().unwrap());
    let mut ports = Vec::new();
    for (frame, sent) in frames.iter().zip([packet, marker]) {
        let (from, to, datagram) = open(frame);
        assert_eq!((from, to), (ends.0.into(), ends.1.into()));
        ports.push(datagram.source_port());
        let message = Message::new_checked(datagram.payload()).unwrap();
        assert_eq!(message.teid(), Teid(0x5000));
        // But for the TEID nothing has changed.
        assert_eq!(datagram.payload()[..4], sent[..4]);
        assert_eq!(datagram.payload()[8..], sent[8..]);
    }
    assert_eq!(ports[0], ports[1]);
}

#[test]
fn a_relay_moves_packets_back_over_ipv4() {
    let mut rig = Rig::new(SGW);
    let inside = udp(HOST, [10, 45, 0, 1], b"down").split_off(14);
    let payload = message(MessageType::G_PDU, 0x1000, Extensions::NONE, &inside);
    rig.send(1, &[datagram_v6(&payload)]);
    let frames = rig.receive(0);
    assert_eq!(frames.len(), 1);
    let (from, to, datagram) = open(&frames[0]);
    assert_eq!((from, to), (ACCESS.into(), STATION.into()));
    let message = Message::new_checked(datagram.payload()).unwrap();
    assert_eq!((message.teid(), message.payload()), (Teid(0x6000), &inside[..]));
}

fn datagram_v6(payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 14 + 40 + 8 + payload.len()];
    let link = ethernet::Repr {
        destination: MacAddress([2, 0, 0, 0, 0, 2]),
        source: MacAddress([2, 0, 0, 0, 2, 1]),
        ether_type: EtherType::IPV6,
    };
    link.emit(&mut frame).unwrap();
    let ip = ipv6::Repr {
        source: "2001:db8::1".parse().unwrap(),
        destination: "2001:db8::fe".parse().unwrap(),
        next_header: Protocol::UDP,
        payload_length: 8 + payload.len() as u16,
        ..Default::default()
    };
    ip.emit(&mut frame[14..]).unwrap();
    let header = wire_udp::Repr {
        source_port: PORT,
        destination_port: PORT,
        payload_length: payload.len() as u16,
    };
    header.emit(&mut frame[54..]).unwrap();
    frame[62..].copy_from_slice(payload);
    frame
}

#[test]
fn an_echo_request_is_answered_at_the_port_it_came_from() {
    let mut rig = Rig::new(UPF);
    let request = Signal::EchoRequest { sequence: 77 };
    let mut bytes = vec![0; request.buffer_len()];
    request.emit(&mut bytes).unwrap();
    rig.send(0, &[datagram(&bytes)]);
    let response = Signal::EchoResponse { sequence: 77, recovery: 0 };
    assert_eq!(answer(&mut rig), Some((response, 40000)));
    // What is an answer itself is not answered.
    bytes[1] = MessageType::ECHO_RESPONSE.0;
    rig.send(0, &[datagram(&bytes)]);
    assert_eq!(answer(&mut rig), None);
}

/// Faults 12 and 22: unknown TEIDs are told, at a bounded rate, but not TEID 0.
#[test]
fn fault_12_22_unknown_teids() {
    let mut rig = Rig::new(UPF);
    rig.send(0, &[between(0xbad, [10, 45, 0, 1], HOST)]);
    let error = Signal::ErrorIndication {
        teid: Teid(0xbad),
        peer: IpAddr::V4(Ipv4Addr::from(ACCESS)),
        udp_port: Some(40000),
    };
    assert_eq!(answer(&mut rig), Some((error, PORT)));
    rig.send(0, &[between(0, [10, 45, 0, 1], HOST)]);
    assert_eq!(answer(&mut rig), None);
    // An address that some user has is no way in without a TEID of the user's.
    assert!(rig.receive(1).is_empty());
    let flood: Vec<_> = (0..500).map(|nth| between(0xf000 + nth, STATION, HOST)).collect();
    rig.send(0, &flood);
    let answered = rig.receive(0).len();
    assert!((1..=50).contains(&answered), "{answered}");
    assert_eq!(rig.drops("unknown_teid"), 502);
    let marker = message(MessageType::END_MARKER, 0xbad, Extensions::NONE, b"");
    rig.advance(10_000_000_000);
    rig.send(0, &[datagram(&marker)]);
    assert_eq!(answer(&mut rig), None);
}

/// Fault 23: unless told to, the node stops nothing for an Error Indication, and it
/// never answers one.
#[test]
fn fault_23_a_forged_error_indication() {
    let mut rig = Rig::new(UPF);
    let (teid, peer) = (Teid(0x2000), IpAddr::from(STATION));
    let error = Signal::ErrorIndication { teid, peer, udp_port: None };
    let mut bytes = vec![0; error.buffer_len()];
    error.emit(&mut bytes).unwrap();
    rig.send(0, &[datagram(&bytes), between(0x1000, [10, 45, 0, 1], HOST)]);
    assert_eq!(answer(&mut rig), None);
    assert_eq!(rig.receive(1).len(), 1);
}

/// Faults 1 to 11: what is malformed is dropped by name.
#[test]
fn fault_01_to_11_malformed_messages() {
    let mut rig = Rig::new(UPF);
    let good =
        message(MessageType::G_PDU, 0x1000, Extensions::NONE, &udp(STATION, HOST, b"")[14..]);
    let with = |place: usize, octet: u8| {
        let mut bytes = good.clone();
        bytes[place] = octet;
        datagram(&bytes)
    };
    let cut = (0..8).map(|end| datagram(&good[..end]));
    let bad: Vec<_> =
        cut.chain([with(3, 0xff), with(0, 0x50), with(0, 0x20), with(0, 0x34)]).collect();
    rig.send(0, &bad);
    assert_eq!(rig.drops("gtpu_malformed"), bad.len() as u64);
    let nothing = message(MessageType::G_PDU, 0x1000, Extensions::NONE, b"");
    rig.send(0, &[datagram(&nothing), with(8, 0x75)]);
    assert_eq!(rig.drops("gtpu_payload_unknown"), 2);
    rig.send(0, &[with(3, 27)]);
    assert_eq!(rig.drops("ipv4_malformed"), 1);
    // A message of no known type is ignored.
    rig.send(0, &[with(1, 99)]);
    assert!(rig.receive(0).is_empty() && rig.receive(1).is_empty());
}

/// Fault 7: an extension header that all must know and the node does not.
#[test]
fn fault_07_unknown_extension_headers() {
    let mut rig = Rig::new(UPF);
    let inside = udp([10, 45, 0, 1], HOST, b"").split_off(14);
    let with = |kind: u8| {
        let container = ExtensionRepr::ServiceClass(0);
        let extensions = Extensions::one(container);
        let mut bytes = message(MessageType::G_PDU, 0x1000, extensions, &inside);
        bytes[11] = kind;
        datagram(&bytes)
    };
    rig.send(0, &[with(0xff)]);
    let Some((Signal::SupportedExtensionHeaders { types }, PORT)) = answer(&mut rig) else {
        panic!("no notification")
    };
    assert!(types.as_slice().iter().all(|kind| kind.is_known()));
    assert_eq!(rig.drops("gtpu_extension_unknown"), 1);
    rig.send(0, &[with(0xbf)]);
    assert_eq!(rig.drops("unknown_extension"), 1);
    assert!(rig.receive(1).is_empty());
    rig.send(0, &[with(0x3f), with(0x7f)]);
    assert_eq!(rig.receive(1).len(), 2);
}

/// Fault 7, at a relay: of unknown extension headers those go on that an intermediate
/// node passes on (TS 29.281 §5.2.1), and the others are taken out.
#[test]
fn fault_07_unknown_extension_headers_at_a_relay() {
    let mut rig = Rig::new(SGW);
    let inside = udp([10, 45, 0, 1], HOST, b"up").split_off(14);
    let with = |kinds: &[u8]| {
        let mut bytes = vec![0x34, 255, 0, 0, 0, 0, 0x10, 0, 0, 0, 0];
        for kind in kinds {
            bytes.extend([*kind, 1, *kind, 0]);
        }
        bytes.push(0);
        bytes.extend(&inside);
        let length = (bytes.len() - 8) as u16;
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        datagram(&bytes)
    };
    let passes = |rig: &mut Rig, kinds: &[u8]| {
        rig.send(0, &[with(kinds)]);
        let frames = rig.receive(1);
        let (_, _, datagram) = open(frames.first()?);
        let message = Message::new_checked(datagram.payload()).unwrap();
        assert_eq!((message.teid(), message.payload()), (Teid(0x5000), &inside[..]));
        Some(message.extensions().map(|one| one.kind.0).collect::<Vec<_>>())
    };
    assert_eq!(passes(&mut rig, &[0x3f]), Some(vec![0x3f]));
    assert_eq!(passes(&mut rig, &[0x7f]), Some(vec![]));
    assert_eq!(passes(&mut rig, &[0xbf]), Some(vec![0xbf]));
    assert_eq!(passes(&mut rig, &[0x3f, 0x7f, 0x7e, 0xbf]), Some(vec![0x3f, 0xbf]));
    assert_eq!(passes(&mut rig, &[0x7f, 0xff]), None);
    assert_eq!(rig.drops("gtpu_extension_unknown"), 1);
}

/// Faults 17 to 19, and 25.
#[test]
fn fault_17_18_19_25_spoofing() {
    let mut rig = Rig::new(UPF);
    rig.send(0, &[between(0x1000, [10, 45, 0, 2], HOST)]);
    assert_eq!(rig.drops("spoofed_address"), 1);
    rig.send(0, &[between(0x1000, [10, 45, 0, 1], ACCESS)]);
    rig.send(0, &[between(0x1000, [10, 45, 0, 1], [198, 51, 100, 254])]);
    assert_eq!(rig.drops("tunnelled_to_us"), 2);
    rig.send(0, &[between(0x1000, [10, 45, 0, 1], [127, 0, 0, 1])]);
    assert_eq!(rig.drops("martian"), 1);
    let mut other = between(0x1000, [10, 45, 0, 1], HOST);
    let mut ip = ipv4::Packet::new_checked(&mut other[14..]).unwrap();
    ip.set_source([10, 0, 0, 9].into());
    ip.fill_checksum();
    rig.send(0, &[other]);
    assert_eq!(rig.drops("wrong_peer"), 1);
    assert!(rig.receive(1).is_empty());
}

/// A user's packet on its last hop is answered in its user's tunnel, and nowhere else.
#[test]
fn a_user_is_told_in_its_tunnel() {
    let mut rig = Rig::new(UPF);
    let inside = udp_to(NODE, [10, 45, 0, 1], HOST, 1, b"up").split_off(14);
    rig.send(0, &[datagram(&message(MessageType::G_PDU, 0x1000, Extensions::NONE, &inside))]);
    assert_eq!(rig.drops("ttl_exceeded"), 1);
    assert!(rig.receive(1).is_empty());
    let frames = rig.receive(0);
    assert_eq!(frames.len(), 1);
    let (from, to, datagram) = open(&frames[0]);
    assert_eq!((from, to), (ACCESS.into(), STATION.into()));
    let message = Message::new_checked(datagram.payload()).unwrap();
    assert_eq!((message.message_type(), message.teid()), (MessageType::G_PDU, Teid(0x2000)));
    let ip = ipv4::Packet::new_checked(message.payload()).unwrap();
    ip.verify_checksum().unwrap();
    assert_eq!((ip.source().octets(), ip.destination().octets()), (ACCESS, [10, 45, 0, 1]));
    // Time to live exceeded in transit (RFC 792), about the packet as it was sent.
    assert_eq!(ip.payload()[..2], [11, 0]);
    assert_eq!(ip.payload()[8..28], inside[..20]);
    let end = rig.node.stop();
    let came = end.received() + end.emitted + end.originated + end.fragments;
    assert_eq!(came, end.sent() + end.dropped() + end.local);
}

/// Over IPv6 no router fragments: the sender learns what is left of the MTU inside the
/// tunnel.
#[test]
fn a_packet_too_long_for_its_tunnel_is_told_the_mtu_inside() {
    let yaml = UPF
        .replace("[10.0.0.254/24]", "[10.0.0.254/24, '2001:db8::fe/64']")
        .replace("{10.0.0.1: 02:00:00:00:01:01}", "{'2001:db8::1': 02:00:00:00:01:01}")
        .replace("peer: 10.0.0.1, local: 10.0.0.254", "peer: '2001:db8::1', local: '2001:db8::fe'");
    let mut rig = Rig::new(&yaml);
    let node = MacAddress([2, 0, 0, 0, 0, 2]);
    rig.send(1, &[udp_to(node, HOST, [10, 45, 0, 1], 64, &[7; 1436 - 28])]);
    assert_eq!(rig.receive(0).iter().map(Vec::len).collect::<Vec<_>>(), [1514]);
    let mut frame = udp_to(node, HOST, [10, 45, 0, 1], 64, &[7; 1436 - 27]);
    let mut ip = ipv4::Packet::new_checked(&mut frame[14..]).unwrap();
    ip.set_dont_fragment(true);
    ip.fill_checksum();
    rig.send(1, &[frame]);
    assert_eq!(rig.drops("packet_too_big"), 1);
    let told = rig.receive(1);
    let icmp = ipv4::Packet::new_checked(&told[0][14..]).unwrap();
    // Fragmentation needed and DF set (RFC 792), with the MTU (RFC 1191 §4).
    assert_eq!(icmp.payload()[..2], [3, 4]);
    assert_eq!(icmp.payload()[6..8], 1436_u16.to_be_bytes());
    // What it is about is the sender's packet.
    assert_eq!(icmp.payload()[8 + 12..8 + 16], HOST);
}
