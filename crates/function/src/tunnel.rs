//! The GTP-U tunnel that a packet travels in.
//!
//! The node reads a tunnel that ends at one of its addresses and leaves it in
//! place: [`Headers`] show the user's packet inside, this trait
//! what is around it. A packet leaves with whatever tunnel is around it then.

use std::net::{IpAddr, Ipv4Addr};

use crate::headers::Headers;
use crate::metadata::{Metadata, PacketMetadata};
use arrayvec::ArrayVec;
use weft_dpdk::Packet;
use weft_wire::checksum::{self, Change, PseudoHeader, sum, sum20};
use weft_wire::gtpu::Teid;
use weft_wire::{Dscp, EtherType, Protocol, ethernet, gtpu, ipv4, ipv6, udp};

/// The far end of a tunnel that begins at the node (an F-TEID, TS 29.281 §4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelEnd {
    /// The TEID that the peer has given out.
    pub teid: Teid,
    /// Address of the peer.
    pub peer: IpAddr,
    /// Address of the node that the packets come from.
    pub local: IpAddr,
    /// UDP port that the packets come from.
    pub source_port: u16,
    /// UDP port that they are sent to: 2152, unless another is set.
    pub destination_port: u16,
}

impl TunnelEnd {
    /// Time to live and hop limit of packets that begin here.
    pub const HOPS: u8 = 64;
    /// What TEIDs are multiplied with, to spread them over source ports.
    pub const SPREAD: u32 = 0x9e37_79b1;

    /// The far end with this TEID and address, of packets from `local`. Networks
    /// spread tunnels over their paths by the source port: it hangs on the tunnel
    /// alone, so that nothing overtakes an End Marker.
    #[inline]
    pub fn new(teid: Teid, local: IpAddr, peer: IpAddr) -> TunnelEnd {
        let source_port = Self::port_of(teid);
        TunnelEnd { teid, peer, local, source_port, destination_port: gtpu::PORT }
    }

    /// The dynamic port (RFC 6335 §6) that a tunnel's packets come from, unless another
    /// is set: 14 bits of a multiplicative hash.
    #[inline]
    pub fn port_of(teid: Teid) -> u16 {
        0xc000 | (teid.0.wrapping_mul(Self::SPREAD) >> 18) as u16
    }

    /// What stands in front of the IP header.
    #[inline]
    pub fn ether_type(&self) -> EtherType {
        if self.peer.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 }
    }

    /// Octets of IP and UDP header.
    #[inline]
    pub fn headers_length(&self) -> usize {
        udp::HEADER_LENGTH
            + if self.peer.is_ipv4() { ipv4::MIN_HEADER_LENGTH } else { ipv6::HEADER_LENGTH }
    }

    /// Writes IP and UDP header to the front of `packet`, which the GTP-U message
    /// follows to the end. Over IPv4 there is no UDP checksum, and `number` is the
    /// identification; over IPv6 there is one, unless `zero_checksum` (RFC 6935 §5).
    /// False where the message is longer than a datagram can be, or the addresses
    /// are not of one family.
    #[inline]
    pub fn emit(&self, packet: &mut [u8], dscp: Dscp, number: u16, zero_checksum: bool) -> bool {
        let payload = packet.len().saturating_sub(self.headers_length());
        let Ok(payload_length) = u16::try_from(payload) else { return false };
        let Some(length) = payload_length.checked_add(udp::HEADER_LENGTH as u16) else {
            return false;
        };
        let TunnelEnd { source_port, destination_port, .. } = *self;
        let header = udp::Repr { source_port, destination_port, payload_length };
        match (self.local, self.peer) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let total = length.checked_add(ipv4::MIN_HEADER_LENGTH as u16);
                let parts = packet.split_first_chunk_mut().zip(total);
                let Some(((front, datagram), total)) = parts else { return false };
                *front = front_v4([source, destination], dscp, number, total);
                header.emit(datagram).is_ok()
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let ip = ipv6::Repr {
                    source,
                    destination,
                    next_header: Protocol::UDP,
                    payload_length: length,
                    hop_limit: Self::HOPS,
                    dscp,
                    flow_label: source_port.into(),
                    ..Default::default()
                };
                let pseudo_header = PseudoHeader::V6 { source, destination };
                let written =
                    ip.emit(packet).is_ok() && header.emit(&mut packet[ip.buffer_len()..]).is_ok();
                if written && !zero_checksum {
                    let datagram = udp::Datagram::new_checked(&mut packet[ip.buffer_len()..]);
                    return datagram
                        .map(|mut datagram| datagram.fill_checksum(&pseudo_header))
                        .is_ok();
                }
                written
            }
            _ => false,
        }
    }

    /// Whether the UDP checksum of a packet into this tunnel is left to the port that sends it,
    /// since a device may compute it; false for a tunnel over IPv4, where there is none. The answer
    /// changes as ports open and close: ask once for a packet.
    #[inline]
    pub fn may_owe(&self, zero_checksum: bool) -> bool {
        self.peer.is_ipv6() && !zero_checksum && weft_dpdk::devices_sum_udp()
    }
}

/// The header of an IPv4 packet of `length` octets with a UDP datagram, all at once:
/// what [`ipv4::Repr`] writes field by field.
#[inline]
fn front_v4(
    [source, destination]: [Ipv4Addr; 2],
    dscp: Dscp,
    identification: u16,
    length: u16,
) -> [u8; ipv4::MIN_HEADER_LENGTH] {
    let [length_high, length_low] = length.to_be_bytes();
    let [number_high, number_low] = identification.to_be_bytes();
    let [s0, s1, s2, s3] = source.octets();
    let [d0, d1, d2, d3] = destination.octets();
    #[rustfmt::skip]
    let mut header = [
        0x45, dscp.value() << 2, length_high, length_low,
        number_high, number_low, 0, 0,
        TunnelEnd::HOPS, Protocol::UDP.0, 0, 0,
        s0, s1, s2, s3,
        d0, d1, d2, d3,
    ];
    let checksum = !sum20(&header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    header
}

/// Octets of the shortest headers around a user's packet: IPv4, UDP and GTP-U with nothing else.
const SHORTEST: u16 =
    (ipv4::MIN_HEADER_LENGTH + udp::HEADER_LENGTH + gtpu::MIN_HEADER_LENGTH) as u16;

/// The tunnels of one context. Of more than these the node does not watch the peers.
pub type TunnelEnds = ArrayVec<TunnelEnd, 8>;

/// Access to the tunnel around a packet that was parsed.
pub trait Tunnel {
    /// Whether there is one.
    fn is_tunnelled(&self) -> bool;
    /// Whether nothing of a user is inside: an End Marker (TS 29.281 §7.3.2).
    fn is_end_marker(&self) -> bool;
    /// Source and destination address of the tunnel's packets.
    fn outer_addresses(&self) -> Option<(IpAddr, IpAddr)>;
    /// Whether the tunnel's packets come from this address.
    fn comes_from(&self, peer: IpAddr) -> bool;
    /// Where the GTP-U message begins in the frame.
    fn message_offset(&self) -> Option<usize>;
    /// Whether extension headers lie between the GTP-U header and what it carries.
    fn has_extensions(&self) -> bool;
    /// Whether a PDU session container (TS 38.415 §5.5.2) is the only extension header, over IPv4:
    /// a no is no answer yet.
    fn has_session_only(&self) -> bool;
    /// The GTP-U message, and all that follows it in the frame.
    fn message(&self) -> Option<gtpu::Message<&[u8]>>;
    /// Replaces everything in front of the byte at `offset` by an Ethernet
    /// header with the packet's MAC addresses and `length` bytes of 0 for the
    /// tunnel's headers, whose IP version `ether_type` says, and notes the tunnel.
    /// The user's packet stays where it is in memory. Returns the frame from those
    /// bytes on; none when the headroom does not suffice, and then nothing has
    /// changed.
    fn wrap(&mut self, offset: usize, length: usize, ether_type: EtherType) -> Option<&mut [u8]>;
    /// As [`wrap`](Self::wrap) does to an IP packet in no tunnel, over IPv4, but what is behind
    /// the packet goes, and the bytes are not set to 0: the caller writes all of them. None, and
    /// nothing has changed, where it is in a tunnel, not whole, or without room in front.
    fn wrap_whole<const LENGTH: usize>(&mut self) -> Option<&mut [u8; LENGTH]>;
    /// Takes the tunnel off, so that the user's packet follows the Ethernet
    /// header. False where nothing is inside.
    fn unwrap_tunnel(&mut self) -> bool;
}

impl Tunnel for Packet {
    #[inline(always)]
    fn is_tunnelled(&self) -> bool {
        self.metadata().outer_offset != 0
    }

    #[inline(always)]
    fn is_end_marker(&self) -> bool {
        let PacketMetadata { outer_offset, network_offset, .. } = *self.metadata();
        outer_offset != 0 && outer_offset == network_offset
    }

    #[inline]
    fn comes_from(&self, peer: IpAddr) -> bool {
        let source = |outer: &[u8]| match (peer, outer.first()? >> 4) {
            (IpAddr::V4(peer), 4) => Some(outer.get(12..16)? == peer.octets()),
            (IpAddr::V6(peer), 6) => Some(outer.get(8..24)? == peer.octets()),
            _ => None,
        };
        outer(self).and_then(source).unwrap_or(false)
    }

    #[inline]
    fn outer_addresses(&self) -> Option<(IpAddr, IpAddr)> {
        let outer = outer(self)?;
        if outer.first()? >> 4 == 4 {
            let ip = ipv4::Packet::new_checked(outer).ok()?;
            return Some((ip.source().into(), ip.destination().into()));
        }
        let ip = ipv6::Packet::new_checked(outer).ok()?;
        Some((ip.source().into(), ip.destination().into()))
    }

    #[inline]
    fn message_offset(&self) -> Option<usize> {
        let outer = outer(self)?;
        let first = *outer.first()?;
        let header = match first >> 4 {
            4 => usize::from(first & 0x0f) * 4,
            _ => ipv6::Packet::new_checked(outer).ok()?.upper_layer().ok()?.offset,
        };
        Some(usize::from(self.metadata().outer_offset) + header + udp::HEADER_LENGTH)
    }

    #[inline(always)]
    fn has_extensions(&self) -> bool {
        let PacketMetadata { outer_offset, network_offset, .. } = *self.metadata();
        // Headers as short as that have room for none.
        let is_shortest = network_offset.wrapping_sub(outer_offset) == SHORTEST;
        (!is_shortest || outer_offset == 0) && has_extension_flag(self)
    }

    #[inline(always)]
    fn has_session_only(&self) -> bool {
        const LENGTH: usize = SHORTEST as usize + 8;
        const FLAGS: usize = LENGTH - 16;
        let PacketMetadata { outer_offset, network_offset, .. } = *self.metadata();
        if usize::from(network_offset.wrapping_sub(outer_offset)) != LENGTH {
            return false;
        }
        let Some(head) = outer(self).and_then(|outer| outer.first_chunk::<LENGTH>()) else {
            return false;
        };
        // With an extension header and no optional field: of four octets, and no other behind.
        let [.., kind, length, _, _, next] = *head;
        head[0] == 0x45
            && head[FLAGS] == 0x30 | gtpu::EXTENSION_FLAG
            && gtpu::ExtensionType(kind) == gtpu::ExtensionType::PDU_SESSION
            && (length, next) == (1, 0)
    }

    #[inline]
    fn message(&self) -> Option<gtpu::Message<&[u8]>> {
        gtpu::Message::new_checked(self.data().get(self.message_offset()?..)?).ok()
    }

    #[inline]
    fn wrap(&mut self, offset: usize, length: usize, ether_type: EtherType) -> Option<&mut [u8]> {
        let addresses: [u8; 12] = *self.data().first_chunk()?;
        let front = ethernet::HEADER_LENGTH + length;
        match front.checked_sub(offset) {
            Some(missing) => drop(self.prepend(missing)?),
            None => drop(self.trim_front(offset - front)),
        }
        let moved = |at: u16| match at {
            0 => 0,
            at => (usize::from(at) + front).saturating_sub(offset) as u16,
        };
        let (bytes, metadata) = self.parts_mut();
        let alone = metadata.outer_offset != 0 && metadata.outer_offset == metadata.network_offset;
        metadata.network_offset = moved(metadata.network_offset);
        metadata.transport_offset = moved(metadata.transport_offset);
        metadata.outer_offset = ethernet::HEADER_LENGTH as u16;
        if alone {
            metadata.network_offset = metadata.outer_offset;
        }
        write_link(bytes, addresses, ether_type.0);
        let rest = bytes.get_mut(ethernet::HEADER_LENGTH..)?;
        rest.get_mut(..length)?.fill(0);
        Some(rest)
    }

    #[inline(always)]
    fn wrap_whole<const LENGTH: usize>(&mut self) -> Option<&mut [u8; LENGTH]> {
        let addresses: [u8; 12] = *self.data().first_chunk()?;
        let front = (ethernet::HEADER_LENGTH + LENGTH) as u16;
        let PacketMetadata { network_offset, outer_offset, .. } = *self.metadata();
        let length = usize::from(front) + self.ip_length();
        let offset = i32::from(network_offset) - i32::from(front);
        if outer_offset != 0 || !self.reframe(offset, length) {
            return None;
        }
        let (bytes, metadata) = self.parts_mut();
        metadata.network_offset = front;
        if metadata.transport_offset != 0 {
            let of_transport = metadata.transport_offset.wrapping_sub(network_offset);
            metadata.transport_offset = front.wrapping_add(of_transport);
        }
        metadata.outer_offset = ethernet::HEADER_LENGTH as u16;
        write_link(bytes, addresses, EtherType::IPV4.0);
        bytes.get_mut(ethernet::HEADER_LENGTH..)?.first_chunk_mut()
    }

    #[inline]
    fn unwrap_tunnel(&mut self) -> bool {
        if !self.is_tunnelled() || self.is_end_marker() {
            return false;
        }
        let Some(&addresses) = self.data().first_chunk::<12>() else { return false };
        let PacketMetadata { network_offset, network_length, .. } = *self.metadata();
        let extra = network_offset.saturating_sub(ethernet::HEADER_LENGTH as u16);
        let length = ethernet::HEADER_LENGTH + usize::from(network_length);
        if !self.reframe(extra.into(), length) {
            self.trim_front(extra.into());
            self.truncate(length);
        }
        let (bytes, metadata) = self.parts_mut();
        metadata.outer_offset = 0;
        metadata.network_offset -= extra;
        metadata.transport_offset = metadata.transport_offset.saturating_sub(extra);
        write_link(bytes, addresses, metadata.ether_type);
        true
    }
}

#[inline(never)]
fn has_extension_flag(packet: &Packet) -> bool {
    let flags = packet.message_offset().and_then(|offset| packet.data().get(offset));
    flags.is_some_and(|flags| flags & gtpu::EXTENSION_FLAG != 0)
}

#[inline]
fn write_link(bytes: &mut [u8], addresses: [u8; 12], ether_type: u16) {
    if let Some(link) = bytes.first_chunk_mut::<{ ethernet::HEADER_LENGTH }>() {
        link[..12].copy_from_slice(&addresses);
        link[12..].copy_from_slice(&ether_type.to_be_bytes());
    }
}

/// The frame from the tunnel's IP header on.
#[inline]
fn outer(packet: &Packet) -> Option<&[u8]> {
    let offset = usize::from(packet.metadata().outer_offset);
    if offset == 0 { None } else { packet.data().get(offset..) }
}

/// Repairs the UDP checksum of the tunnel after `change` of what is inside, as only
/// over IPv6 there is one (RFC 1624). A checksum of 0 is none, and stays.
pub fn repair_outer(packet: &mut Packet, change: Change) {
    let is_ipv6 = outer(packet).and_then(<[u8]>::first).is_some_and(|first| first >> 4 == 6);
    let Some(message) = packet.message_offset().filter(|_| is_ipv6) else { return };
    let checksum = message.checked_sub(2).and_then(|at| packet.data_mut().get_mut(at..message));
    if let Some(Ok(checksum)) = checksum.map(<&mut [u8; 2]>::try_from) {
        *checksum = change.apply_udp(u16::from_be_bytes(*checksum)).to_be_bytes();
    }
}

/// The UDP checksum that a packet [lacks](Packet::lacks_udp_checksum), of the tunnel around it,
/// and where it goes; none where that tunnel is gone.
#[cold]
pub fn owed_checksum(packet: &Packet) -> Option<(usize, [u8; 2])> {
    let ip = ipv6::Packet::new_checked(outer(packet)?).ok()?;
    let upper = ip.upper_layer().ok().filter(|upper| upper.protocol == Protocol::UDP)?;
    let datagram = ip.as_bytes().get(upper.offset..ip.total_length())?;
    if datagram.len() < udp::HEADER_LENGTH || datagram[6..8] != [0, 0] {
        return None;
    }
    let pseudo = PseudoHeader::V6 { source: ip.source(), destination: ip.destination() };
    let sum = checksum::udp(pseudo.checksum(Protocol::UDP, datagram));
    let at = usize::from(packet.metadata().outer_offset) + upper.offset + 6;
    Some((at, sum.to_be_bytes()))
}

/// The packet with the UDP checksum that it owes: it goes where no device computes it.
#[inline]
pub fn settle_checksum(packet: Packet) -> Packet {
    if packet.owes_udp_checksum() { settle(packet) } else { packet }
}

#[cold]
#[inline(never)]
fn settle(mut packet: Packet) -> Packet {
    packet.owe_udp_checksum(false);
    if let Some((at, sum)) = owed_checksum(&packet)
        && let Some(room) = packet.data_mut().get_mut(at..at + 2)
    {
        room.copy_from_slice(&sum);
    }
    packet
}

/// Leaves the UDP checksum that a packet owes to the device that sends it, at a port of this
/// MTU: it begins with its link and tunnel headers, and is not cut into fragments. Of another
/// it is computed.
pub fn leave_checksum_to_device(mut packet: Packet, mtu: usize) -> Packet {
    let Some((at, _)) = owed_place(&packet).filter(|(_, length)| *length <= mtu) else {
        return settle_checksum(packet);
    };
    packet.ask_for_udp_checksum(at, ipv6::HEADER_LENGTH as u16, false);
    packet
}

/// Where the tunnel's header of a packet begins, and the length of its IP packet, where
/// devices find both: right behind the Ethernet header, and right ahead of UDP.
#[inline]
fn owed_place(packet: &Packet) -> Option<(u16, usize)> {
    let at = packet.metadata().outer_offset;
    let ip = outer(packet)?.first_chunk::<{ ipv6::HEADER_LENGTH }>()?;
    let is_plain = usize::from(at) == ethernet::HEADER_LENGTH
        && ip[0] >> 4 == 6
        && Protocol(ip[6]) == Protocol::UDP;
    let length = ipv6::HEADER_LENGTH + usize::from(u16::from_be_bytes([ip[4], ip[5]]));
    is_plain.then_some((at, length))
}

/// Changes a user's packet where it is, and repairs the UDP checksum of the tunnel around it:
/// only over IPv6 there is one. The change keeps the length. A function that rewrites calls
/// it, since rules may lead packets through it that are in a tunnel already.
#[inline]
pub fn inside_tunnel<R>(packet: &mut Packet, change: impl FnOnce(&mut Packet) -> R) -> R {
    match packet.metadata().outer_offset {
        0 => change(packet),
        _ => inside_summed(packet, change),
    }
}

#[cold]
fn inside_summed<R>(packet: &mut Packet, change: impl FnOnce(&mut Packet) -> R) -> R {
    let inside = |packet: &Packet| {
        let start = usize::from(packet.metadata().network_offset);
        sum(packet.data().get(start..).unwrap_or_default())
    };
    let before = inside(packet);
    let done = change(packet);
    let after = inside(packet);
    if after != before {
        repair_outer(packet, Change::NONE.field16(before, after));
    }
    done
}

/// Makes the tunnel's IP header the one that [`Headers`] show:
/// the sender of a packet calls it. False where there is no tunnel.
#[inline]
pub fn surface(packet: &mut Packet) -> bool {
    let (bytes, metadata) = packet.parts_mut();
    let offset = usize::from(metadata.outer_offset);
    let Some(outer) = bytes.get(offset..).filter(|_| offset != 0) else { return false };
    // What was parsed, or written here, is sound.
    let (ether_type, length) = match outer.first_chunk::<{ ipv4::MIN_HEADER_LENGTH }>() {
        Some(ip) if ip[0] >> 4 == 4 => {
            (EtherType::IPV4, usize::from(u16::from_be_bytes([ip[2], ip[3]])))
        }
        _ => match ipv6::Packet::new_checked(outer) {
            Ok(ip) => (EtherType::IPV6, ip.total_length()),
            Err(_) => return false,
        },
    };
    metadata.network_offset = metadata.outer_offset;
    metadata.network_length = length as u16;
    metadata.ether_type = ether_type.0;
    metadata.transport_offset = 0;
    metadata.protocol = Protocol::UDP.0;
    metadata.flags &= !PacketMetadata::FRAGMENT;
    true
}
