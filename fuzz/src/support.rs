//! What several targets use.

use std::net::{Ipv4Addr, Ipv6Addr};

use weft_dpdk::{Eal, EalOptions};
use weft_function::PacketMetadata;
use weft_wire::checksum::PseudoHeader;
use weft_wire::{EtherType, Protocol, ipv4, ipv6, tcp, udp};

/// DPDK's environment, which all targets of a process share: without huge pages, and with
/// memory for all of them.
pub(crate) fn eal() -> &'static Eal {
    let options = EalOptions { memory_megabytes: 512, huge_pages: false, ..EalOptions::default() };
    Eal::start(&options).expect("the environment starts")
}

/// Takes a record off the front of an input: an octet that says what is done, one that says
/// how many octets follow, and those. From 240 on the length is in steps of 512 octets,
/// which is enough for a jumbo frame.
pub(crate) fn record<'i>(input: &mut &'i [u8]) -> Option<(u8, &'i [u8])> {
    let [what, length, behind @ ..] = *input else { return None };
    let length = match length {
        0..240 => usize::from(*length),
        _ => 512 * (1 + usize::from(length - 240)),
    };
    let (octets, behind) = behind.split_at(length.min(behind.len()));
    *input = behind;
    Some((*what, octets))
}

/// Octets in front of the IP header.
pub(crate) const NETWORK: usize = 14;

/// A frame with an IP header whose fields are right, of one of 256 hosts to another, and
/// these octets behind it. The checksum of TCP or UDP is right where there is room for it.
pub(crate) fn frame(v6: bool, protocol: Protocol, ends: [u8; 2], transport: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    let payload_length = transport.len() as u16;
    if v6 {
        let host = |last: u8| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last.into());
        let [source, destination] = ends.map(host);
        let next_header = protocol;
        let repr =
            ipv6::Repr { source, destination, next_header, payload_length, ..Default::default() };
        frame.extend(EtherType::IPV6.0.to_be_bytes());
        frame.resize(NETWORK + ipv6::HEADER_LENGTH, 0);
        repr.emit(&mut frame[NETWORK..]).expect("room");
    } else {
        let [source, destination] = ends.map(|last| Ipv4Addr::new(10, 0, 0, last));
        let repr =
            ipv4::Repr { source, destination, protocol, payload_length, ..Default::default() };
        frame.extend(EtherType::IPV4.0.to_be_bytes());
        frame.resize(NETWORK + ipv4::MIN_HEADER_LENGTH, 0);
        repr.emit(&mut frame[NETWORK..]).expect("room");
    }
    frame.extend_from_slice(transport);
    fill_checksums(&mut frame);
    frame
}

/// Makes the lengths and checksums of a frame right, as far as its headers are sound.
pub(crate) fn fill_checksums(frame: &mut [u8]) {
    let is_v4 = frame[NETWORK] >> 4 == 4;
    let length = (frame.len() - NETWORK) as u16;
    if is_v4 {
        frame[NETWORK + 2..NETWORK + 4].copy_from_slice(&length.to_be_bytes());
        if let Ok(mut packet) = ipv4::Packet::new_checked(&mut frame[NETWORK..]) {
            packet.fill_checksum();
        }
    } else {
        let payload = length.saturating_sub(ipv6::HEADER_LENGTH as u16);
        frame[NETWORK + 4..NETWORK + 6].copy_from_slice(&payload.to_be_bytes());
    }
    let Some(found) = metadata(frame) else { return };
    let at = usize::from(found.transport_offset);
    if at == 0 {
        return;
    }
    let (header, transport) = frame.split_at_mut(at);
    let network = &header[NETWORK..];
    let pseudo_header = match is_v4 {
        true => PseudoHeader::V4 {
            source: octets(network, 12).into(),
            destination: octets(network, 16).into(),
        },
        false => PseudoHeader::V6 {
            source: octets(network, 8).into(),
            destination: octets(network, 24).into(),
        },
    };
    match Protocol(found.protocol) {
        Protocol::TCP => {
            if let Ok(mut segment) = tcp::Segment::new_checked(transport) {
                segment.fill_checksum(&pseudo_header);
            }
        }
        Protocol::UDP => {
            let length = (transport.len() as u16).to_be_bytes();
            if let Some(field) = transport.get_mut(4..6) {
                field.copy_from_slice(&length);
            }
            if let Ok(mut datagram) = udp::Datagram::new_checked(transport) {
                datagram.fill_checksum(&pseudo_header);
            }
        }
        _ => {}
    }
}

fn octets<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("a whole header")
}

/// What the parser of a node would note of a frame that is one IP packet; none for what it
/// would drop.
pub(crate) fn metadata(frame: &[u8]) -> Option<PacketMetadata> {
    let ether_type = u16::from_be_bytes(frame.get(12..NETWORK)?.try_into().ok()?);
    let network = &frame[NETWORK..];
    let (protocol, offset, length, fragment) = match EtherType(ether_type) {
        EtherType::IPV4 => {
            let ip = ipv4::Packet::new_checked(network).ok()?;
            let length = usize::from(ip.total_length());
            (ip.protocol(), ip.header_length(), length, ip.fragment())
        }
        _ => {
            let ip = ipv6::Packet::new_checked(network).ok()?;
            let upper = ip.upper_layer().ok()?;
            (upper.protocol, upper.offset, ip.total_length(), upper.fragment)
        }
    };
    let fragment = fragment.filter(|fragment| !fragment.is_whole());
    let transport = network.get(offset..length)?;
    let has_header = match protocol {
        Protocol::UDP => udp::Datagram::new_checked_fragment(transport).is_ok(),
        Protocol::TCP => tcp::Segment::new_checked(transport).is_ok(),
        _ => true,
    };
    let is_first = fragment.is_none_or(|fragment| fragment.is_first());
    Some(PacketMetadata {
        user: 0,
        bearer: 0,
        group: 0,
        network_offset: NETWORK as u16,
        network_length: length as u16,
        transport_offset: if has_header && is_first { (NETWORK + offset) as u16 } else { 0 },
        ether_type,
        protocol: protocol.0,
        flags: if fragment.is_some() { PacketMetadata::FRAGMENT } else { 0 },
        ..PacketMetadata::default()
    })
}
