//! Other addresses and ports in a packet, with the checksums that cover them.

use weft_function::{Annotations, Packet};
use weft_wire::Protocol;
use weft_wire::checksum::{self, Change};

/// Which end of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Source,
    Destination,
}

impl End {
    fn address(self) -> usize {
        if self == End::Source { 12 } else { 16 }
    }

    fn port(self) -> usize {
        if self == End::Source { 0 } else { 2 }
    }
}

/// Octets of an IPv4 header without options.
const HEADER: usize = 20;
/// Octets of an ICMP header in front of what an error is about.
const ICMP_HEADER: usize = 8;
/// Octets of a quoted packet that can change: IP header with options, and as much of
/// the transport header as has the checksum.
const QUOTED: usize = 80;

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.first_chunk().copied().map(u16::from_be_bytes)
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

/// What an IPv4 header says.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    pub source: u32,
    pub destination: u32,
    pub protocol: u8,
    pub identification: u16,
    /// Whether the transport header is behind it: not in a later fragment.
    is_first: bool,
    /// Octets of the header.
    length: usize,
}

impl Header {
    #[inline(always)]
    fn read(bytes: &[u8]) -> Option<Header> {
        let header = bytes.first_chunk::<HEADER>()?;
        let address = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let length = usize::from(header[0] & 0xf) * 4;
        (header[0] >> 4 == 4 && length >= HEADER).then(|| Header {
            source: address(12),
            destination: address(16),
            protocol: header[9],
            identification: u16::from_be_bytes([header[4], header[5]]),
            is_first: u16::from_be_bytes([header[6], header[7]]) & 0x1fff == 0,
            length,
        })
    }

    /// That of a packet.
    #[inline(always)]
    pub fn of(packet: &Packet) -> Option<Header> {
        Header::read(packet.data().get(usize::from(packet.annotations().network_offset)..)?)
    }
}

/// What a packet is to a translator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TCP or UDP: source and destination port.
    Ports(u16, u16),
    /// A query of ICMP, or its answer: its identifier.
    Query(u16),
    /// An ICMP error about another packet.
    Error,
    /// A fragment without the transport header.
    Later,
    /// Nothing that can be translated.
    Other,
}

impl Kind {
    #[inline(always)]
    pub fn of(packet: &Packet, header: &Header) -> Kind {
        let annotations = packet.annotations();
        let start = usize::from(annotations.transport_offset);
        if start == 0 {
            let later = annotations.flags & Annotations::FRAGMENT != 0;
            return if later { Kind::Later } else { Kind::Other };
        }
        let transport = packet.data().get(start..).unwrap_or_default();
        match Protocol(header.protocol) {
            Protocol::TCP | Protocol::UDP => match transport.first_chunk::<4>() {
                Some(&[a, b, c, d]) => {
                    Kind::Ports(u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
                }
                None => Kind::Other,
            },
            Protocol::ICMP => Kind::of_icmp(transport),
            _ => Kind::Other,
        }
    }

    fn of_icmp(message: &[u8]) -> Kind {
        let Some(identifier) = word(message, 4) else { return Kind::Other };
        match message[0] {
            // Echo, timestamp, information and address mask (RFC 5508 §3.1).
            0 | 8 | 13..=18 => Kind::Query(identifier),
            // Destination unreachable, time exceeded, parameter problem (§4).
            3 | 11 | 12 => Kind::Error,
            _ => Kind::Other,
        }
    }
}

/// Gives one end of a packet another address and, where it has the transport header,
/// another port or identifier. False for a packet that is not as its parser said.
#[inline]
pub fn rewrite(packet: &mut Packet, end: End, address: u32, port: Option<u16>) -> bool {
    let (bytes, annotations) = packet.parts_mut();
    let (network, transport) =
        (usize::from(annotations.network_offset), usize::from(annotations.transport_offset));
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

/// Whether the checksum of an ICMP error is right, and that of the IP header in it. That
/// of the segment behind is not looked at.
pub fn is_sound(packet: &Packet) -> bool {
    let annotations = packet.annotations();
    let (network, transport) =
        (usize::from(annotations.network_offset), usize::from(annotations.transport_offset));
    let end = network + usize::from(annotations.network_length);
    let Some(message) = packet.data().get(transport..end) else { return false };
    let about = message.get(ICMP_HEADER..).unwrap_or_default();
    let header = Header::read(about).and_then(|header| about.get(..header.length));
    // Over what holds its own checksum the sum is zero (RFC 1071 §1).
    checksum::of(message) == 0 && header.is_some_and(|header| checksum::of(header) == 0)
}

/// One end of the packet that an ICMP error is about: address, port or identifier,
/// and protocol.
pub fn quoted(packet: &Packet, end: End) -> Option<(u32, u16, u8)> {
    let start = usize::from(packet.annotations().transport_offset) + ICMP_HEADER;
    let bytes = packet.data().get(start..)?;
    let header = Header::read(bytes).filter(|header| header.is_first)?;
    let segment = bytes.get(header.length..)?;
    let port = match Protocol(header.protocol) {
        Protocol::TCP | Protocol::UDP => word(segment, end.port())?,
        Protocol::ICMP => word(segment, 4)?,
        _ => return None,
    };
    let address = if end == End::Source { header.source } else { header.destination };
    Some((address, port, header.protocol))
}

/// Gives one end of the packet that an ICMP error is about another address and port
/// (RFC 5508 §4.2), and the error's checksum what follows from that.
pub fn rewrite_quoted(packet: &mut Packet, end: End, address: u32, port: u16) -> bool {
    let start = usize::from(packet.annotations().transport_offset);
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
