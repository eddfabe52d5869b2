//! Frames of users, neighbours and attackers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weft_wire::checksum::PseudoHeader;
use weft_wire::gtpu::{PORT, Signal};
use weft_wire::{
    EtherType, MacAddress, Protocol, arp, ethernet, icmpv4, icmpv6, ipv4, ipv6, udp as wire_udp,
};

/// The MAC address of the node's port at which something comes in.
fn port_mac(source: IpAddr) -> MacAddress {
    let is_of_core = match source {
        IpAddr::V4(v4) => v4.octets()[0] == 198,
        IpAddr::V6(v6) => v6.segments()[2] == 0xffff,
    };
    MacAddress([2, 0, 0, 0, 0, if is_of_core { 2 } else { 1 }])
}

/// A station's MAC address: that of the last octets of its address.
pub fn mac(address: IpAddr) -> MacAddress {
    let tail = match address {
        IpAddr::V4(v4) => v4.octets(),
        IpAddr::V6(v6) => *v6.octets().last_chunk().unwrap(),
    };
    MacAddress([2, 1, tail[0], tail[1], tail[2], tail[3]])
}

fn ethernet(destination: MacAddress, source: MacAddress, ether_type: EtherType) -> Vec<u8> {
    let mut frame = vec![0; 14];
    ethernet::Repr { destination, source, ether_type }.emit(&mut frame).unwrap();
    frame
}

/// An IP packet in a frame.
fn ip(
    (to_mac, from, to): (MacAddress, IpAddr, IpAddr),
    hops: u8,
    protocol: Protocol,
    payload: &[u8],
) -> Vec<u8> {
    let mut frame =
        ethernet(to_mac, mac(from), if from.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 });
    let length = payload.len() as u16;
    match (from, to) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let repr = ipv4::Repr {
                source,
                destination,
                protocol,
                payload_length: length,
                time_to_live: hops,
                dont_fragment: true,
                ..Default::default()
            };
            frame.resize(34, 0);
            repr.emit(&mut frame[14..]).unwrap();
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let repr = ipv6::Repr {
                source,
                destination,
                next_header: protocol,
                payload_length: length,
                hop_limit: hops,
                ..Default::default()
            };
            frame.resize(54, 0);
            repr.emit(&mut frame[14..]).unwrap();
        }
        _ => unreachable!("two families"),
    }
    frame.extend(payload);
    frame
}

fn pseudo(from: IpAddr, to: IpAddr, protocol: Protocol, length: usize) -> PseudoHeader {
    let frame = ip((MacAddress::default(), from, to), 1, protocol, &vec![0; length]);
    match from {
        IpAddr::V4(_) => ipv4::Packet::new_checked(&frame[14..]).unwrap().pseudo_header(),
        IpAddr::V6(_) => ipv6::Packet::new_checked(&frame[14..]).unwrap().pseudo_header(),
    }
}

fn datagram(from: IpAddr, to: IpAddr, ports: (u16, u16), hops: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 8 + payload.len()];
    let header = wire_udp::Repr {
        source_port: ports.0,
        destination_port: ports.1,
        payload_length: payload.len() as u16,
    };
    header.emit(&mut bytes).unwrap();
    bytes[8..].copy_from_slice(payload);
    let pseudo_header = pseudo(from, to, Protocol::UDP, bytes.len());
    wire_udp::Datagram::new_checked(&mut bytes[..]).unwrap().fill_checksum(&pseudo_header);
    ip((port_mac(from), from, to), hops, Protocol::UDP, &bytes)
}

/// A datagram of a user, or to one.
pub fn udp(from: IpAddr, to: IpAddr, hops: u8, payload: &[u8]) -> Vec<u8> {
    datagram(from, to, (1000, 2000), hops, payload)
}

/// A GTP-U message to the node.
pub fn gtpu(from: IpAddr, to: IpAddr, signal: Signal) -> Vec<u8> {
    let mut message = vec![0; signal.buffer_len()];
    signal.emit(&mut message).unwrap();
    datagram(from, to, (40000, PORT), 64, &message)
}

/// A G-PDU or another message in octets.
pub fn gtpu_octets(from: IpAddr, to: IpAddr, octets: &[u8]) -> Vec<u8> {
    datagram(from, to, (40000, PORT), 64, octets)
}

pub fn ping(from: IpAddr, to: IpAddr) -> Vec<u8> {
    let mut message = [8, 0, 0, 0, 0, 1, 0, 1, b'p', b'i', b'n', b'g'];
    if from.is_ipv6() {
        message[0] = 128;
        return icmp_v6(port_mac(from), from, to, 64, &message);
    }
    icmpv4::Message::new_checked(&mut message[..]).unwrap().fill_checksum();
    ip((port_mac(from), from, to), 64, Protocol::ICMP, &message)
}

fn icmp_v6(to_mac: MacAddress, from: IpAddr, to: IpAddr, hops: u8, message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    let pseudo_header = pseudo(from, to, Protocol::ICMPV6, message.len());
    icmpv6::Message::new_checked(&mut message[..]).unwrap().fill_checksum(&pseudo_header);
    ip((to_mac, from, to), hops, Protocol::ICMPV6, &message)
}

fn arp_frame(to: MacAddress, message: &arp::Repr) -> Vec<u8> {
    let mut frame = ethernet(to, message.sender_mac, EtherType::ARP);
    frame.resize(60, 0);
    message.emit(&mut frame[14..]).unwrap();
    frame
}

fn v6_message(repr: &icmpv6::Repr) -> Vec<u8> {
    let mut message = vec![0; repr.buffer_len()];
    repr.emit(&mut message).unwrap();
    message
}

/// A station asks who has `target`.
pub fn question(from: IpAddr, target: IpAddr) -> Vec<u8> {
    match (from, target) {
        (IpAddr::V4(sender_ip), IpAddr::V4(target_ip)) => {
            let message = arp::Repr {
                operation: arp::Operation::REQUEST,
                sender_mac: mac(from),
                sender_ip,
                target_mac: MacAddress::UNSPECIFIED,
                target_ip,
            };
            arp_frame(MacAddress::BROADCAST, &message)
        }
        (IpAddr::V6(_), IpAddr::V6(target)) => {
            let group = icmpv6::solicited_node(target);
            let repr = icmpv6::Repr::NeighbourSolicitation { target, source_mac: Some(mac(from)) };
            let to_mac = MacAddress::of_ipv6_multicast(group);
            icmp_v6(to_mac, from, group.into(), 255, &v6_message(&repr))
        }
        _ => unreachable!("two families"),
    }
}

/// A station says to the node at `node` where it is.
pub fn claim(from: IpAddr, node: IpAddr) -> Vec<u8> {
    let to_mac = port_mac(from);
    match (from, node) {
        (IpAddr::V4(sender_ip), IpAddr::V4(target_ip)) => {
            let message = arp::Repr {
                operation: arp::Operation::REPLY,
                sender_mac: mac(from),
                sender_ip,
                target_mac: to_mac,
                target_ip,
            };
            arp_frame(to_mac, &message)
        }
        (IpAddr::V6(target), IpAddr::V6(_)) => {
            let repr = icmpv6::Repr::NeighbourAdvertisement {
                target,
                target_mac: Some(mac(from)),
                router: true,
                solicited: true,
                replaces: true,
            };
            icmp_v6(to_mac, from, node, 255, &v6_message(&repr))
        }
        _ => unreachable!("two families"),
    }
}

/// What a frame of the node asks for: who asks, and for whom.
fn asked(frame: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let frame = ethernet::Frame::new_checked(frame).ok()?;
    match frame.ether_type() {
        EtherType::ARP => {
            let message = arp::Repr::parse(&arp::Packet::new_checked(frame.payload()).ok()?);
            let is_request = message.operation == arp::Operation::REQUEST;
            is_request.then(|| (message.sender_ip.into(), message.target_ip.into()))
        }
        EtherType::IPV6 => {
            let packet = ipv6::Packet::new_checked(frame.payload()).ok()?;
            let message = icmpv6::Message::new_checked(packet.payload()).ok()?;
            if packet.next_header() != Protocol::ICMPV6 {
                return None;
            }
            match icmpv6::Repr::parse(&message) {
                icmpv6::Repr::NeighbourSolicitation { target, .. } => {
                    Some((packet.source().into(), target.into()))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// The answer of the neighbour that a frame of the node asks for.
pub fn answer(frame: &[u8]) -> Option<Vec<u8>> {
    let (node, target) = asked(frame)?;
    Some(claim(target, node))
}

/// The `n`th of very many strangers on the access link.
pub fn stranger(is_v6: bool, n: u16) -> IpAddr {
    let [high, low] = n.to_be_bytes();
    match is_v6 {
        true => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0xbad, 0, 1, n).into(),
        false => Ipv4Addr::new(10, 0, 1 + high % 200, low.max(1)).into(),
    }
}
