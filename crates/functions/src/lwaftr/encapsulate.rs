//! IPv4 packets into softwires: RFC 2473, in fragments where the softwire is too narrow
//! (RFC 6333 §6.3).

use weft_function::{
    Emit, Headers as _, IpMut, Metadata, Packet, PacketMetadata, Position, Reason, Tunnel as _,
};
use weft_wire::ip::traffic_class;
use weft_wire::{Dscp, Ecn, EtherType, Protocol, ethernet, ipv6};

use super::{HOPS_USED_UP, INNER, Lwaftr, NO_ROOM, Problem, TOO_BIG};

const FRONT: usize = ethernet::HEADER_LENGTH;
const HEADER: usize = ipv6::HEADER_LENGTH;
/// Octets of a fragment header (RFC 8200 §4.5).
const FRAGMENT_HEADER: usize = 8;
/// Hops of a softwire's packets.
const HOPS: u8 = 64;

/// What the IPv6 headers of a packet have in common.
#[derive(Clone, Copy)]
struct Outer {
    class: u8,
    source: u128,
    destination: u128,
}

impl Outer {
    #[inline]
    fn write(self, bytes: &mut [u8], next: Protocol, length: usize) -> Option<()> {
        let header = bytes.first_chunk_mut::<HEADER>()?;
        let first = 6 << 28 | u32::from(self.class) << 20;
        header[..4].copy_from_slice(&first.to_be_bytes());
        header[4..6].copy_from_slice(&(length as u16).to_be_bytes());
        (header[6], header[7]) = (next.0, HOPS);
        header[8..24].copy_from_slice(&self.source.to_be_bytes());
        header[24..].copy_from_slice(&self.destination.to_be_bytes());
        Some(())
    }

    fn write_fragment(self, bytes: &mut [u8], length: usize, part: Part) -> Option<()> {
        self.write(bytes, Protocol::FRAGMENT, FRAGMENT_HEADER + length)?;
        let header = bytes.get_mut(HEADER..)?.first_chunk_mut::<FRAGMENT_HEADER>()?;
        let place = part.offset as u16 | u16::from(part.more);
        header[..2].copy_from_slice(&[Protocol::IPV4.0, 0]);
        header[2..4].copy_from_slice(&place.to_be_bytes());
        header[4..].copy_from_slice(&part.identification.to_be_bytes());
        Some(())
    }
}

/// Which part of a packet a fragment has.
#[derive(Clone, Copy)]
struct Part {
    identification: u32,
    /// Octets, a multiple of 8.
    offset: usize,
    more: bool,
}

impl Lwaftr {
    /// Sends an IPv4 packet into the softwire of a lwB4; its sender may be told why not.
    #[inline]
    pub(super) fn encapsulate(
        &mut self,
        packet: &mut Packet,
        b4: u128,
        tells: bool,
        emit: &mut Emit<'_>,
    ) -> Result<(), Reason> {
        let length = usize::from(packet.metadata().network_length);
        let too_long = length + HEADER > self.mtu;
        let Some(IpMut::V4(mut ip)) = packet.ip_mut() else { return Err(INNER) };
        let refused = match ip.time_to_live() {
            0 | 1 => Some((HOPS_USED_UP, Problem::TimeExceeded)),
            _ if too_long && ip.dont_fragment() => {
                Some((TOO_BIG, Problem::TooBig((self.mtu - HEADER) as u16)))
            }
            _ => None,
        };
        if let Some((reason, problem)) = refused {
            if tells {
                self.errors.tell(packet, problem, emit);
            }
            return Err(reason);
        }
        ip.decrement_time_to_live();
        let (dscp, ecn): (Dscp, Ecn) = (self.dscp.unwrap_or(ip.dscp()), ip.ecn());
        // Congestion is told of through the tunnel (RFC 6040 §4.1, normal mode).
        let class = traffic_class(dscp, ecn);
        let outer = Outer { class, source: self.address, destination: b4 };
        let network = usize::from(packet.metadata().network_offset);
        packet.truncate(network + length);
        if too_long {
            return self.fragment(packet, outer, emit);
        }
        let bytes = packet.wrap(network, HEADER, EtherType::IPV6).ok_or(NO_ROOM)?;
        outer.write(bytes, Protocol::IPV4, length).ok_or(NO_ROOM)?;
        annotate(packet.metadata_mut(), HEADER + length);
        packet.metadata_mut().transport_offset = (FRONT + HEADER) as u16;
        Ok(())
    }

    /// Sends it in fragments: this packet is the first of them.
    #[cold]
    fn fragment(
        &mut self,
        packet: &mut Packet,
        outer: Outer,
        emit: &mut Emit<'_>,
    ) -> Result<(), Reason> {
        const HEADERS: usize = HEADER + FRAGMENT_HEADER;
        let length = usize::from(packet.metadata().network_length);
        let network = usize::from(packet.metadata().network_offset);
        let size = (self.mtu - HEADERS) / 8 * 8;
        self.identification = self.identification.wrapping_add(1);
        let identification = self.identification;
        packet.wrap(network, HEADERS, EtherType::IPV6).ok_or(NO_ROOM)?;
        for offset in (size..length).step_by(size) {
            let end = (offset + size).min(length);
            let mut other = emit.allocate(packet.metadata()).ok_or(NO_ROOM)?;
            let bytes = other.append(FRONT + HEADERS + end - offset).ok_or(NO_ROOM)?;
            let (link, rest) = bytes.split_at_mut(FRONT);
            link.copy_from_slice(packet.data().get(..FRONT).ok_or(NO_ROOM)?);
            let from = FRONT + HEADERS;
            let part = packet.data().get(from + offset..from + end).ok_or(NO_ROOM)?;
            rest[HEADERS..].copy_from_slice(part);
            let part = Part { identification, offset, more: end < length };
            outer.write_fragment(rest, end - offset, part).ok_or(NO_ROOM)?;
            annotate(other.metadata_mut(), HEADERS + end - offset);
            other.metadata_mut().flags |= PacketMetadata::FRAGMENT;
            emit.send(other, Position::After);
        }
        packet.truncate(FRONT + HEADERS + size);
        let bytes = packet.data_mut().get_mut(FRONT..).ok_or(NO_ROOM)?;
        let first = Part { identification, offset: 0, more: true };
        outer.write_fragment(bytes, size, first).ok_or(NO_ROOM)?;
        annotate(packet.metadata_mut(), HEADERS + size);
        let metadata = packet.metadata_mut();
        metadata.flags |= PacketMetadata::FRAGMENT;
        metadata.transport_offset = (FRONT + HEADERS) as u16;
        Ok(())
    }
}

/// From here on it is an IPv6 packet of so many octets.
#[inline]
fn annotate(metadata: &mut PacketMetadata, length: usize) {
    metadata.ether_type = EtherType::IPV6.0;
    metadata.network_offset = FRONT as u16;
    metadata.network_length = length as u16;
    metadata.protocol = Protocol::IPV4.0;
    (metadata.transport_offset, metadata.outer_offset) = (0, 0);
    metadata.flags &= !PacketMetadata::FRAGMENT;
}
