//! Other addresses and ports in a packet, with the checksums that cover them.

use weft_function::{Metadata, Packet, PacketMetadata};
use weft_wire::checksum::Change;
use weft_wire::{EtherType, Protocol};

use crate::common::shared_ports::{End, HEADER, Header, ICMP_HEADER, Kind, Plain, word};

/// Octets of a quoted packet that can change: IP header with options, and as much of
/// the transport header as has the checksum.
const QUOTED: usize = 80;

fn put(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

/// The IPv4 header of a packet.
#[inline(always)]
pub fn header_of(packet: &Packet) -> Option<Header> {
    Header::read(packet.data().get(usize::from(packet.metadata().network_offset)..)?)
}

/// What a packet is to a translator.
#[inline(always)]
pub fn kind_of(packet: &Packet, header: &Header) -> Kind {
    let start = usize::from(packet.metadata().transport_offset);
    Kind::of(header, packet.data().get(start..).filter(|_| start != 0))
}

/// Both ends of a packet, where it is plain and as its parser said.
#[inline(always)]
pub fn plain_of(packet: &Packet) -> Option<Plain> {
    let metadata = packet.metadata();
    let network = usize::from(metadata.network_offset);
    let as_parsed = metadata.ether_type == EtherType::IPV4.0
        && usize::from(metadata.transport_offset) == network + HEADER
        && metadata.flags & PacketMetadata::FRAGMENT == 0;
    Plain::read(packet.data().get(network..)?).filter(|_| as_parsed)
}

/// Gives one end of a [`Plain`] packet another address and port; the address of its other
/// end. None for a packet that ends before the checksum behind its ports: it is as it was.
#[inline(always)]
pub fn rewrite_plain(
    packet: &mut Packet,
    protocol: u8,
    end: End,
    address: u32,
    port: u16,
) -> Option<u32> {
    let network = usize::from(packet.metadata().network_offset);
    let ip = packet.data_mut().get_mut(network..)?;
    match Protocol(protocol) {
        Protocol::UDP => {
            let headers = ip.first_chunk_mut::<{ HEADER + 8 }>()?;
            Some(exchange(headers, HEADER + 6, end, address, port))
        }
        _ => {
            let headers = ip.first_chunk_mut::<{ HEADER + 18 }>()?;
            Some(exchange(headers, HEADER + 16, end, address, port))
        }
    }
}

/// The same within headers whose checksum behind the ports is at `sum`.
#[inline(always)]
fn exchange<const N: usize>(
    headers: &mut [u8; N],
    sum: usize,
    end: End,
    address: u32,
    port: u16,
) -> u32 {
    let get = |headers: &[u8; N], at: usize| u16::from_be_bytes([headers[at], headers[at + 1]]);
    let get32 = |headers: &[u8; N], at: usize| {
        u32::from(get(headers, at)) << 16 | u32::from(get(headers, at + 2))
    };
    let other = if end == End::Source { End::Destination } else { End::Source };
    let (at, port_at) = (end.address(), HEADER + end.port());
    let addresses = Change::NONE.field32(get32(headers, at), address);
    let all = addresses.field16(get(headers, port_at), port);
    let checksum = addresses.apply(get(headers, 10));
    headers[10..12].copy_from_slice(&checksum.to_be_bytes());
    let before = get(headers, sum);
    let checksum = if N == HEADER + 8 { all.apply_udp(before) } else { all.apply(before) };
    headers[sum..sum + 2].copy_from_slice(&checksum.to_be_bytes());
    headers[at..at + 4].copy_from_slice(&address.to_be_bytes());
    headers[port_at..port_at + 2].copy_from_slice(&port.to_be_bytes());
    get32(headers, other.address())
}

/// Gives one end of a packet another address and, where it has the transport header,
/// another port or identifier. False for a packet that is not as its parser said.
#[inline]
pub fn rewrite(packet: &mut Packet, end: End, address: u32, port: Option<u16>) -> bool {
    let (bytes, metadata) = packet.parts_mut();
    let (network, transport) =
        (usize::from(metadata.network_offset), usize::from(metadata.transport_offset));
    let Some(ip) = bytes.get_mut(network..) else { return false };
    let Some(ip) = ip.first_chunk_mut::<HEADER>() else { return false };
    let (change, protocol) = (address_change(ip, end, address), ip[9]);
    let (Some(port), true) = (port, transport != 0) else { return true };
    let Some(segment) = bytes.get_mut(transport..) else { return false };
    rewrite_transport(segment, protocol, end, port, change);
    true
}

/// Changes an address in an IP header and its checksum; what has changed for others.
#[inline(always)]
fn address_change(ip: &mut [u8; HEADER], end: End, address: u32) -> Change {
    let at = end.address();
    let old = u32::from_be_bytes([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]]);
    let change = Change::NONE.field32(old, address);
    ip[at..at + 4].copy_from_slice(&address.to_be_bytes());
    let checksum = change.apply(u16::from_be_bytes([ip[10], ip[11]]));
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    change
}

/// Changes a port or identifier and the checksum, as far as the segment has them.
#[inline(always)]
fn rewrite_transport(segment: &mut [u8], protocol: u8, end: End, port: u16, change: Change) {
    let (place, sum) = match Protocol(protocol) {
        Protocol::UDP => (end.port(), 6),
        Protocol::TCP => (end.port(), 16),
        // No addresses in its checksum.
        _ => (4, 2),
    };
    let Some(old) = word(segment, place) else { return };
    put(segment, place, port);
    let Some(checksum) = word(segment, sum) else { return };
    let checksum = match Protocol(protocol) {
        Protocol::UDP if checksum == 0 => return,
        Protocol::UDP => change.field16(old, port).apply_udp(checksum),
        Protocol::TCP => change.field16(old, port).apply(checksum),
        _ => Change::NONE.field16(old, port).apply(checksum),
    };
    put(segment, sum, checksum);
}

/// Gives one end of the packet that an ICMP error is about another address and port
/// (RFC 5508 §4.2), and the error's checksum what follows from that.
pub fn rewrite_quoted(packet: &mut Packet, end: End, address: u32, port: u16) -> bool {
    let start = usize::from(packet.metadata().transport_offset);
    let bytes = packet.data_mut();
    let Some(message) = bytes.get_mut(start..) else { return false };
    let Some((icmp, about)) = message.split_at_mut_checked(ICMP_HEADER) else { return false };
    let Some(header) = Header::read(about) else { return false };
    let reach = about.len().min(QUOTED);
    let mut before = [0; QUOTED];
    before[..reach].copy_from_slice(&about[..reach]);
    let Some(ip) = about.first_chunk_mut::<HEADER>() else { return false };
    let change = address_change(ip, end, address);
    if let Some(segment) = about.get_mut(header.length..) {
        rewrite_transport(segment, header.protocol, end, port, change);
    }
    let change = Change::NONE.bytes(&before[..reach], &about[..reach]);
    if let Some(checksum) = word(icmp, 2) {
        put(icmp, 2, change.apply(checksum));
    }
    true
}
