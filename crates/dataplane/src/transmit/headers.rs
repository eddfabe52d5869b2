//! What a router changes in the headers of a packet that it sends.

use weft_dpdk::Packet;
use weft_function::tunnel::repair_outer;
use weft_function::{Headers, IpMut, Metadata, PacketMetadata};
use weft_wire::checksum::Change;
use weft_wire::{EtherType, MacAddress, ethernet, ipv4};

/// Undoes [`surface`](weft_function::tunnel::surface), given the metadata before; the frame may have lost
/// bytes in front since.
#[cold]
pub(super) fn dive(packet: &mut Packet, inside: &PacketMetadata) {
    let metadata = packet.metadata_mut();
    let moved = inside.outer_offset.wrapping_sub(metadata.network_offset);
    *metadata = PacketMetadata {
        outer_offset: metadata.network_offset,
        network_offset: inside.network_offset.wrapping_sub(moved),
        transport_offset: match inside.transport_offset {
            0 => 0,
            offset => offset.wrapping_sub(moved),
        },
        ..*inside
    };
}

/// False when the packet has no hop left; none when it is no IP packet.
#[inline]
pub(super) fn decrement_ttl(packet: &mut Packet) -> Option<bool> {
    if packet.metadata().ether_type == EtherType::IPV4.0 {
        let (bytes, metadata) = packet.parts_mut();
        let header = bytes.get_mut(usize::from(metadata.network_offset)..)?;
        return header.first_chunk_mut().map(ipv4::decrement_time_to_live);
    }
    match packet.ip_mut()? {
        IpMut::V6(mut ip) => Some(ip.decrement_hop_limit()),
        IpMut::V4(_) => None,
    }
}

/// As [`decrement_ttl`] of a packet that is in a tunnel already, whose UDP checksum
/// covers the hop limit. It covers the TTL as well, but with it the checksum of the
/// IPv4 header, and the two cancel out.
pub(super) fn decrement_ttl_inside(packet: &mut Packet) -> Option<bool> {
    let hops = packet.hop_limit()?;
    let is_left = decrement_ttl(packet)?;
    if is_left && packet.metadata().ether_type == EtherType::IPV6.0 {
        // The hop limit is the second octet of a word.
        let change = Change::NONE.field16(hops.into(), u16::from(hops) - 1);
        repair_outer(packet, change);
    }
    Some(is_left)
}

/// Gives the packet a fresh Ethernet header right before the IP header; VLAN
/// tags and padding end at a router.
#[inline]
pub(super) fn write_ethernet(packet: &mut Packet, destination: MacAddress, source: MacAddress) {
    let network = usize::from(packet.metadata().network_offset);
    let extra = network.saturating_sub(ethernet::HEADER_LENGTH);
    if extra > 0 {
        packet.trim_front(extra);
        let metadata = packet.metadata_mut();
        metadata.network_offset -= extra as u16;
        metadata.transport_offset = metadata.transport_offset.saturating_sub(extra as u16);
        metadata.outer_offset = metadata.outer_offset.saturating_sub(extra as u16);
    }
    let ether_type = EtherType(packet.metadata().ether_type);
    if let Ok(mut frame) = ethernet::Frame::new_checked(packet.data_mut()) {
        frame.set_destination(destination);
        frame.set_source(source);
        frame.set_ether_type(ether_type);
    }
    packet.truncate(ethernet::HEADER_LENGTH + packet.ip_length());
}
