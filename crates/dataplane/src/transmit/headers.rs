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

/// Destination and source of frames, in the order of the wire: the first eight octets, and the
/// other four.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link(u64, u32);

impl Link {
    /// Those of frames to `destination`.
    #[inline]
    pub(super) fn new(destination: MacAddress, source: MacAddress) -> Link {
        let number = |mac: MacAddress| {
            let [a, b, c, d, e, f] = mac.0;
            u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
        };
        let source = number(source);
        Link(number(destination) | source << 48, (source >> 16) as u32)
    }

    /// Writes them, and what the frame carries.
    #[inline(always)]
    fn write(&self, head: &mut [u8; ethernet::HEADER_LENGTH], ether_type: u16) {
        head[..8].copy_from_slice(&self.0.to_le_bytes());
        head[8..12].copy_from_slice(&self.1.to_le_bytes());
        head[12..].copy_from_slice(&ether_type.to_be_bytes());
    }
}

/// Whether nothing but the ordinary happens to a packet as it leaves at a port that routes, has
/// this MTU and one next hop: it fits, and has hops left. A tunnel around it is over IPv4, right
/// behind the Ethernet header, as the node's own are.
#[inline(always)]
pub(super) fn is_ordinary(packet: &Packet, mtu: usize) -> bool {
    if packet.metadata().outer_offset != 0 {
        return is_ordinary_tunnelled(packet, mtu);
    }
    packet.ip_length() <= mtu && packet.hop_limit().is_some_and(|hops| hops > 1)
}

#[inline(always)]
fn is_ordinary_tunnelled(packet: &Packet, mtu: usize) -> bool {
    let PacketMetadata { outer_offset, flags, .. } = *packet.metadata();
    let Some(head) = packet.data().first_chunk::<TUNNEL_HEAD>() else { return false };
    let length = usize::from(outer_length(head));
    // What comes from another tunnel keeps its hops.
    let goes_on =
        flags & PacketMetadata::TUNNELLED != 0 || packet.hop_limit().is_some_and(|hops| hops > 1);
    usize::from(outer_offset) == ethernet::HEADER_LENGTH
        && head[ethernet::HEADER_LENGTH] >> 4 == 4
        && (ipv4::MIN_HEADER_LENGTH..=mtu).contains(&length)
        && goes_on
        && !packet.owes_udp_checksum()
}

/// Does to a packet that [is ordinary](is_ordinary) what a router does. Its metadata say no more
/// where its headers are.
#[inline(always)]
pub(super) fn route(packet: &mut Packet, link: &Link) {
    let PacketMetadata { outer_offset, flags, .. } = *packet.metadata();
    if outer_offset == 0 {
        decrement_ttl(packet);
        return write_ethernet(packet, link);
    }
    if flags & PacketMetadata::TUNNELLED == 0 {
        // Over IPv4 no checksum of the tunnel covers it.
        decrement_ttl(packet);
    }
    let Some(head) = packet.data_mut().first_chunk_mut::<TUNNEL_HEAD>() else { return };
    let length = outer_length(head);
    if let Some(head) = head.first_chunk_mut() {
        link.write(head, EtherType::IPV4.0);
    }
    packet.truncate(ethernet::HEADER_LENGTH + usize::from(length));
}

/// Octets of a frame up to the end of the tunnel's IPv4 header.
const TUNNEL_HEAD: usize = ethernet::HEADER_LENGTH + ipv4::MIN_HEADER_LENGTH;

#[inline(always)]
fn outer_length(head: &[u8; TUNNEL_HEAD]) -> u16 {
    u16::from_be_bytes([head[ethernet::HEADER_LENGTH + 2], head[ethernet::HEADER_LENGTH + 3]])
}

/// Where the tunnel of an [ordinary](is_ordinary) packet leads.
#[inline(always)]
pub(super) fn tunnel_destination(packet: &Packet) -> Option<u32> {
    let head = packet.data().first_chunk::<TUNNEL_HEAD>()?;
    head.last_chunk().map(|address| u32::from_be_bytes(*address))
}

/// Gives the packet a fresh Ethernet header right before the IP header; VLAN
/// tags and padding end at a router.
#[inline]
pub(super) fn write_ethernet(packet: &mut Packet, link: &Link) {
    if usize::from(packet.metadata().network_offset) > ethernet::HEADER_LENGTH {
        shorten_link(packet);
    }
    let ether_type = packet.metadata().ether_type;
    if let Some(head) = packet.data_mut().first_chunk_mut() {
        link.write(head, ether_type);
    }
    packet.truncate(ethernet::HEADER_LENGTH + packet.ip_length());
}

/// Takes off what the link header has beyond one of Ethernet.
#[inline(never)]
fn shorten_link(packet: &mut Packet) {
    let extra = packet.metadata().network_offset.saturating_sub(ethernet::HEADER_LENGTH as u16);
    packet.trim_front(extra.into());
    let metadata = packet.metadata_mut();
    metadata.network_offset -= extra;
    metadata.transport_offset = metadata.transport_offset.saturating_sub(extra);
    metadata.outer_offset = metadata.outer_offset.saturating_sub(extra);
}

#[cfg(test)]
mod tests;
