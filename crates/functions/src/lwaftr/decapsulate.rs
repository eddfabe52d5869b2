//! What comes from softwires: IPv4 in IPv6, perhaps in fragments, and errors from the
//! way there.

use std::net::Ipv6Addr;

use weft_function::{
    Emit, Headers as _, IpView, Metadata, Packet, PacketMetadata, Reason, Tunnel as _,
};
use weft_wire::checksum::{self, PseudoHeader};
use weft_wire::ip::Fragment;
use weft_wire::{Dscp, Ecn, EtherType, Protocol, icmpv4, icmpv6, ipv4, ipv6, tcp, udp};

use super::reassembly::{Outcome, Piece};
use super::{
    BAD_FRAGMENT, CONGESTION, INNER, Lwaftr, NO_ROOM, NO_SOFTWIRE, NOT_SOFTWIRE, Problem, REFUSED,
    TUNNEL_ERROR, WAITS, ip_of, total_length,
};
use crate::common::congestion::{after_tunnel, mark};
use crate::common::shared_ports::{End, Header, Kind};

const HEADER: usize = ipv6::HEADER_LENGTH;
/// Octets of a fragment header (RFC 8200 §4.5).
const FRAGMENT_HEADER: usize = 8;
/// Octets of an ICMP header, of either version.
const ICMP_HEADER: usize = 8;
/// Octets of an error over IPv4, with its IP header (RFC 1812 §4.3.2.3).
const LONGEST_ERROR: usize = 576;
const ERROR_HEADERS: usize = ipv4::MIN_HEADER_LENGTH + ICMP_HEADER;
/// Time to live of an error.
const HOPS: u8 = 64;
/// Internetwork control, at which errors are sent over IPv4 (RFC 1812 §4.3.2.5).
const CS6: Dscp = Dscp::of_traffic_class(0xc0);

impl Lwaftr {
    /// IPv6 from the softwires' side: what is for another address passes.
    #[inline]
    pub(super) fn leave_softwire(
        &mut self,
        packet: &mut Packet,
        emit: &mut Emit<'_>,
    ) -> Result<(), Reason> {
        if packet.ipv6_destination() != Some(self.address) {
            return Ok(());
        }
        if packet.metadata().flags & PacketMetadata::FRAGMENT != 0 {
            self.reassemble(packet)?;
        }
        match Protocol(packet.metadata().protocol) {
            Protocol::IPV4 => {}
            Protocol::ICMPV6 => return self.relay_error(packet),
            _ => return Err(NOT_SOFTWIRE),
        }
        let outer = ip_of(packet).ok_or(INNER)?;
        let (class, source) = class_and_source(outer).ok_or(INNER)?;
        let start = usize::from(packet.metadata().transport_offset);
        let network = usize::from(packet.metadata().network_offset);
        let inner = start.checked_sub(network).and_then(|at| outer.get(at..)).ok_or(INNER)?;
        let header = sound_header(inner).ok_or(INNER)?;
        let inner = &inner[..total_length(inner)];
        let transport = has_transport(inner, &header).ok_or(INNER)?;
        // RFC 7596 §6.2: address and port are those of this softwire.
        let noted = self.bindings.noted(emit.note());
        match noted.map_or_else(|| self.owner(inner, &header, End::Source), Ok) {
            Ok(b4) if b4 == source => {}
            Ok(_) | Err(NO_SOFTWIRE) => {
                if self.icmp.refused {
                    self.errors.tell(packet, Problem::SourceRefused, emit);
                }
                return Err(REFUSED);
            }
            Err(reason) => return Err(reason),
        }
        let before = Ecn::of_traffic_class(inner[1]);
        let ecn = after_tunnel(Ecn::of_traffic_class(class), before).ok_or(CONGESTION)?;
        let length = inner.len();
        unwrap(packet, start, length, &header, transport);
        if ecn != before {
            mark(packet, ecn);
        }
        if self.hairpinning && self.bindings.contains(header.destination) {
            return self.turn(packet, &header, emit);
        }
        Ok(())
    }

    /// From one softwire into another (RFC 7596 §6.2).
    fn turn(
        &mut self,
        packet: &mut Packet,
        header: &Header,
        emit: &mut Emit<'_>,
    ) -> Result<(), Reason> {
        let b4 = self.owner(ip_of(packet).ok_or(INNER)?, header, End::Destination)?;
        self.encapsulate(packet, b4, false, emit)
    }

    /// Puts the packet of a fragment together, if it was the last one missing.
    #[cold]
    fn reassemble(&mut self, packet: &mut Packet) -> Result<(), Reason> {
        let network = usize::from(packet.metadata().network_offset);
        let Some(IpView::V6(ip)) = packet.ip() else { return Err(BAD_FRAGMENT) };
        let upper = ip.upper_layer().map_err(|_| BAD_FRAGMENT)?;
        // Nothing but IPv4 directly behind the fragment header.
        let is_plain = ip.next_header() == Protocol::FRAGMENT
            && ip.payload().first() == Some(&Protocol::IPV4.0);
        let Some(Fragment { identification, offset, more }) = upper.fragment.filter(|_| is_plain)
        else {
            return Err(BAD_FRAGMENT);
        };
        let octets = ip.as_bytes().get(HEADER + FRAGMENT_HEADER..).ok_or(BAD_FRAGMENT)?;
        let (source, ecn) = (ip.source().to_bits(), ip.ecn());
        let piece = Piece { source, identification, offset: offset.into(), more, ecn, octets };
        let (whole, ecn) = match self.reassembly.take(piece, self.now) {
            Outcome::Waits => return Err(WAITS),
            Outcome::Bad => return Err(BAD_FRAGMENT),
            Outcome::Whole(octets, ecn) => (octets, ecn),
        };
        packet.truncate(network + HEADER);
        packet.append(whole.len()).ok_or(NO_ROOM)?.copy_from_slice(whole);
        let (bytes, metadata) = packet.parts_mut();
        let header = bytes.get_mut(network..).ok_or(NO_ROOM)?;
        header[4..6].copy_from_slice(&(whole.len() as u16).to_be_bytes());
        header[6] = Protocol::IPV4.0;
        header[1] = header[1] & 0xcf | (ecn as u8) << 4;
        metadata.network_length = (HEADER + whole.len()) as u16;
        metadata.transport_offset = (network + HEADER) as u16;
        metadata.protocol = Protocol::IPV4.0;
        metadata.flags &= !PacketMetadata::FRAGMENT;
        Ok(())
    }

    /// Tells the sender of an IPv4 packet what has become of it in the tunnel (RFC 2473
    /// §8): the ICMPv6 error becomes one of ICMPv4.
    #[cold]
    fn relay_error(&mut self, packet: &mut Packet) -> Result<(), Reason> {
        let (at, found) = self.read_error(packet)?;
        let own = self.ipv4.ok_or(TUNNEL_ERROR)?;
        let inner = packet.data().get(at..).ok_or(TUNNEL_ERROR)?;
        let header = Header::read(inner).ok_or(TUNNEL_ERROR)?;
        let quoted = inner.len().min(total_length(inner)).min(LONGEST_ERROR - ERROR_HEADERS);
        packet.truncate(at + quoted);
        let bytes = packet.wrap(at, ERROR_HEADERS, EtherType::IPV4).ok_or(NO_ROOM)?;
        let repr = ipv4::Repr {
            source: own.into(),
            destination: header.source.into(),
            protocol: Protocol::ICMP,
            payload_length: (ICMP_HEADER + quoted) as u16,
            time_to_live: HOPS,
            dscp: CS6,
            dont_fragment: true,
            ..ipv4::Repr::default()
        };
        repr.emit(bytes).map_err(|_| NO_ROOM)?;
        let message = &mut bytes[ipv4::MIN_HEADER_LENGTH..];
        found.emit(message).map_err(|_| NO_ROOM)?;
        icmpv4::Message::new_checked(message).map_err(|_| NO_ROOM)?.fill_checksum();
        let metadata = packet.metadata_mut();
        let network = metadata.outer_offset;
        metadata.ether_type = EtherType::IPV4.0;
        metadata.protocol = Protocol::ICMP.0;
        metadata.network_offset = network;
        metadata.network_length = (ERROR_HEADERS + quoted) as u16;
        metadata.transport_offset = network + ipv4::MIN_HEADER_LENGTH as u16;
        metadata.outer_offset = 0;
        Ok(())
    }

    /// Where the IPv4 packet begins that an ICMPv6 error is about, and what its sender
    /// is to be told.
    fn read_error(&self, packet: &Packet) -> Result<(usize, icmpv4::Repr), Reason> {
        let start = usize::from(packet.metadata().transport_offset);
        let Some(IpView::V6(ip)) = packet.ip() else { return Err(NOT_SOFTWIRE) };
        let message = packet.transport().ok_or(NOT_SOFTWIRE)?;
        let message = icmpv6::Message::new_checked(message).map_err(|_| NOT_SOFTWIRE)?;
        if !message.message_type().is_error() {
            return Err(NOT_SOFTWIRE);
        }
        let pseudo_header = PseudoHeader::V6 { source: ip.source(), destination: ip.destination() };
        message.verify_checksum(&pseudo_header).map_err(|_| TUNNEL_ERROR)?;
        let about = packet.transport().and_then(|message| message.get(ICMP_HEADER..));
        let about = about.ok_or(TUNNEL_ERROR)?;
        let own = about.first().is_some_and(|first| first >> 4 == 6)
            && about.get(8..24) == Some(&self.address.to_be_bytes()[..]);
        let front = match about.get(6).copied().map(Protocol).filter(|_| own) {
            Some(Protocol::IPV4) => HEADER,
            Some(Protocol::FRAGMENT) if about.get(42..44) == Some(&[0, 1]) => {
                HEADER + FRAGMENT_HEADER
            }
            _ => return Err(TUNNEL_ERROR),
        };
        let inner = about.get(front..).ok_or(TUNNEL_ERROR)?;
        let header = Header::read(inner).ok_or(TUNNEL_ERROR)?;
        let kind = Kind::of(&header, inner.get(header.length..).filter(|_| header.is_first));
        let is_to = about.get(24..40).and_then(|b4| b4.first_chunk().copied());
        let is_to = is_to.map(|b4| Ipv6Addr::from(b4).to_bits());
        // No error answers an error, or what was not sent from here.
        let port = match kind {
            Kind::Ports(_, port) | Kind::Query(port) => Some(port),
            _ => None,
        };
        let b4 = port.and_then(|port| self.bindings.find(header.destination, port));
        if b4.is_none() || b4 != is_to {
            return Err(TUNNEL_ERROR);
        }
        let dont_fragment = inner[6] & 0x40 != 0;
        let found = match message.message_type() {
            // What may be fragmented is from now on, by the one who sends it through.
            icmpv6::Type::PACKET_TOO_BIG if !dont_fragment => return Err(TUNNEL_ERROR),
            icmpv6::Type::PACKET_TOO_BIG => {
                let mtu = message.mtu().clamp(1280, 0xffff) as u16 - HEADER as u16;
                unreachable(icmpv4::Unreachable::FRAGMENTATION_NEEDED, mtu)
            }
            _ => unreachable(icmpv4::Unreachable::HOST, 0),
        };
        Ok((start + ICMP_HEADER + front, found))
    }
}

fn unreachable(reason: icmpv4::Unreachable, mtu: u16) -> icmpv4::Repr {
    icmpv4::Repr::DestinationUnreachable { reason, mtu }
}

/// Traffic class and source address of an IPv6 header.
#[inline]
fn class_and_source(outer: &[u8]) -> Option<(u8, u128)> {
    let header = outer.first_chunk::<HEADER>()?;
    let class = header[0] << 4 | header[1] >> 4;
    Some((class, u128::from_be_bytes(*header[8..].first_chunk()?)))
}

/// The header of a whole IPv4 packet (RFC 1812 §5.2.2).
#[inline]
fn sound_header(inner: &[u8]) -> Option<Header> {
    let header = Header::read(inner)?;
    let fits = (header.length..=inner.len()).contains(&total_length(inner));
    let sum = match inner.first_chunk() {
        Some(plain) if header.length == ipv4::MIN_HEADER_LENGTH => Some(!checksum::sum20(plain)),
        _ => inner.get(..header.length).map(checksum::of),
    };
    (fits && sum == Some(0)).then_some(header)
}

/// Whether the transport header is there; none where it should be and is not.
#[inline]
fn has_transport(ip: &[u8], header: &Header) -> Option<bool> {
    if !header.is_first {
        return Some(false);
    }
    let transport = &ip[header.length..];
    let there = match Protocol(header.protocol) {
        Protocol::UDP if header.is_fragment => {
            udp::Datagram::new_checked_fragment(transport).is_ok()
        }
        Protocol::UDP => udp::Datagram::new_checked(transport).is_ok(),
        Protocol::TCP => tcp::Segment::new_checked(transport).is_ok(),
        _ => true,
    };
    (there || header.is_fragment).then_some(there)
}

/// Takes off everything in front of the IPv4 packet at `start`.
#[inline]
fn unwrap(packet: &mut Packet, start: usize, length: usize, header: &Header, transport: bool) {
    let metadata = packet.metadata_mut();
    metadata.outer_offset = metadata.network_offset;
    metadata.network_offset = start as u16;
    metadata.network_length = length as u16;
    metadata.ether_type = EtherType::IPV4.0;
    metadata.protocol = header.protocol;
    metadata.transport_offset = (start + header.length) as u16;
    metadata.flags &= !PacketMetadata::FRAGMENT;
    if header.is_fragment {
        metadata.flags |= PacketMetadata::FRAGMENT;
    }
    packet.unwrap_tunnel();
    if !transport {
        packet.metadata_mut().transport_offset = 0;
    }
}
