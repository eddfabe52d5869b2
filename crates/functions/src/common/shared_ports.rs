//! What tells apart who shares an IPv4 address: ports, identifiers of ICMP queries, and
//! those of the packet that an ICMP error is about.

use weft_wire::Protocol;
use weft_wire::checksum;

/// Which end of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Where it comes from.
    Source,
    /// Where it goes.
    Destination,
}

impl End {
    /// Where its address is in an IPv4 header.
    #[inline(always)]
    pub fn address(self) -> usize {
        if self == End::Source { 12 } else { 16 }
    }

    /// Where its port is in a header of TCP or UDP.
    #[inline(always)]
    pub fn port(self) -> usize {
        if self == End::Source { 0 } else { 2 }
    }
}

/// Octets of an IPv4 header without options.
pub const HEADER: usize = 20;
/// Octets of an ICMP header in front of what an error is about.
pub const ICMP_HEADER: usize = 8;

/// Two octets as a number.
pub fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.first_chunk().copied().map(u16::from_be_bytes)
}

/// What an IPv4 header says.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// Source address.
    pub source: u32,
    /// Destination address.
    pub destination: u32,
    /// Protocol of what is behind it.
    pub protocol: u8,
    /// The same in all fragments of a datagram.
    pub identification: u16,
    /// Whether it is one of several fragments.
    pub is_fragment: bool,
    /// Whether the transport header is behind it: not in a later fragment.
    pub is_first: bool,
    /// Octets of the header.
    pub length: usize,
}

impl Header {
    /// That of a packet that begins with it.
    #[inline(always)]
    pub fn read(bytes: &[u8]) -> Option<Header> {
        let header = bytes.first_chunk::<HEADER>()?;
        let address = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let length = usize::from(header[0] & 0xf) * 4;
        let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
        (header[0] >> 4 == 4 && length >= HEADER).then(|| Header {
            source: address(12),
            destination: address(16),
            protocol: header[9],
            identification: u16::from_be_bytes([header[4], header[5]]),
            is_fragment: fragment != 0,
            is_first: fragment & 0x1fff == 0,
            length,
        })
    }
}

/// Both ends of a plain packet: of TCP or UDP, over IPv4 without options, no fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain {
    /// Of what is behind the header.
    pub protocol: u8,
    source: (u32, u16),
    destination: (u32, u16),
}

impl Plain {
    /// Those of a packet that begins with its IP header; none where it is not plain.
    #[inline(always)]
    pub fn read(ip: &[u8]) -> Option<Plain> {
        let header = ip.first_chunk::<{ HEADER + 4 }>()?;
        let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
        let has_ports = header[9] == Protocol::UDP.0 || header[9] == Protocol::TCP.0;
        let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let address = |at: usize| u32::from(port(at)) << 16 | u32::from(port(at + 2));
        (header[0] == 0x45 && fragment == 0 && has_ports).then(|| Plain {
            protocol: header[9],
            source: (address(12), port(HEADER)),
            destination: (address(16), port(HEADER + 2)),
        })
    }

    /// Address and port of one of them.
    #[inline(always)]
    pub fn end(self, end: End) -> (u32, u16) {
        if end == End::Source { self.source } else { self.destination }
    }
}

/// What a packet is to a function that tells users apart by ports.
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
    /// Nothing that has either.
    Other,
}

impl Kind {
    /// That of a packet with this transport header, which may be in another fragment.
    #[inline(always)]
    pub fn of(header: &Header, transport: Option<&[u8]>) -> Kind {
        let Some(transport) = transport else {
            return if header.is_first { Kind::Other } else { Kind::Later };
        };
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

/// Whether the checksum of an ICMP error is right, and that of the IP header in it (RFC
/// 5508 REQ-3). That of the segment behind is not looked at.
pub fn is_sound(message: &[u8]) -> bool {
    let about = message.get(ICMP_HEADER..).unwrap_or_default();
    let header = Header::read(about).and_then(|header| about.get(..header.length));
    // Over what holds its own checksum the sum is zero (RFC 1071 §1).
    checksum::of(message) == 0 && header.is_some_and(|header| checksum::of(header) == 0)
}

/// One end of the packet that an ICMP error is about: address, port or identifier,
/// and protocol.
pub fn quoted(message: &[u8], end: End) -> Option<(u32, u16, u8)> {
    let about = message.get(ICMP_HEADER..)?;
    let header = Header::read(about).filter(|header| header.is_first)?;
    let segment = about.get(header.length..)?;
    let port = match Protocol(header.protocol) {
        Protocol::TCP | Protocol::UDP => word(segment, end.port())?,
        Protocol::ICMP => word(segment, 4)?,
        _ => return None,
    };
    let address = if end == End::Source { header.source } else { header.destination };
    Some((address, port, header.protocol))
}
