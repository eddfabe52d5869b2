//! The network service header (RFC 8300): which service path a packet is on,
//! how far it is, and what travels with it.

use std::fmt;
use std::ops::Range;

use crate::Error;
use crate::octets::{header, put_u16, put_u32, u16_at, u32_at};

/// Octets of base header and service path header.
pub const MIN_HEADER_LENGTH: usize = 8;
/// Octets of the context header of MD type 1 (RFC 8300 §2.4).
pub const FIXED_CONTEXT_LENGTH: usize = 16;
/// Octets of context headers that the length field has room for.
pub const MAX_CONTEXT_LENGTH: usize = 63 * 4 - MIN_HEADER_LENGTH;
/// TTL of a packet that enters a service path (RFC 8300 §2.2).
pub const DEFAULT_TTL: u8 = 63;

/// A service path, 0 to 2²⁴ − 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServicePathId(u32);

impl ServicePathId {
    /// The service path of a number; `None` above 24 bits.
    #[inline]
    pub const fn new(value: u32) -> Option<Self> {
        if value < 1 << 24 { Some(Self(value)) } else { None }
    }

    /// The number.
    #[inline]
    pub const fn value(self) -> u32 {
        self.0
    }
}

impl fmt::Display for ServicePathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What follows an NSH (RFC 8300 §9.1.6), or a VXLAN-GPE header, where the first
/// four numbers mean the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NextProtocol(pub u8);

impl NextProtocol {
    /// IPv4.
    pub const IPV4: Self = Self(1);
    /// IPv6.
    pub const IPV6: Self = Self(2);
    /// Ethernet.
    pub const ETHERNET: Self = Self(3);
    /// NSH.
    pub const NSH: Self = Self(4);
    /// MPLS.
    pub const MPLS: Self = Self(5);
}

impl fmt::Display for NextProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::IPV4 => f.write_str("ipv4"),
            Self::IPV6 => f.write_str("ipv6"),
            Self::ETHERNET => f.write_str("ethernet"),
            Self::NSH => f.write_str("nsh"),
            Self::MPLS => f.write_str("mpls"),
            Self(number) => write!(f, "protocol {number}"),
        }
    }
}

mod field {
    use super::Range;

    pub const BASE: Range<usize> = 0..2;
    pub const MD_TYPE: usize = 2;
    pub const NEXT_PROTOCOL: usize = 3;
    pub const PATH: Range<usize> = 4..8;
    pub const INDEX: usize = 7;
    pub const FIXED_CONTEXT: Range<usize> = 8..24;
}

mod mask {
    pub const VERSION: u16 = 0xc000;
    pub const OAM: u16 = 0x2000;
    pub const TTL: u16 = 0x0fc0;
    pub const LENGTH: u16 = 0x003f;
    pub const MD_TYPE: u8 = 0x0f;
    pub const CONTEXT_LENGTH: u8 = 0x7f;
}

const MD_FIXED: u8 = 1;
const MD_VARIABLE: u8 = 2;

/// View of a header and what follows it.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks version, metadata type and lengths, those of context headers too.
    ///
    /// # Errors
    /// [`Error::Truncated`], [`Error::BadNsh`] or [`Error::BadContextHeader`].
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Error> {
        let packet = Self { bytes };
        let octets = packet.bytes.as_ref();
        if octets.len() < MIN_HEADER_LENGTH {
            return Err(Error::Truncated);
        }
        let length = packet.header_length();
        let fits = match packet.md_type() {
            MD_FIXED => length == MIN_HEADER_LENGTH + FIXED_CONTEXT_LENGTH,
            MD_VARIABLE => length >= MIN_HEADER_LENGTH,
            _ => false,
        };
        if packet.base() & mask::VERSION != 0 || !fits || length > octets.len() {
            return Err(Error::BadNsh);
        }
        packet.contexts().try_for_each(|context| context.map(|_| ()))?;
        Ok(packet)
    }

    /// The bytes that the view lies over.
    #[inline]
    pub fn into_inner(self) -> T {
        self.bytes
    }

    #[inline]
    fn base(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::BASE)
    }

    #[inline]
    fn md_type(&self) -> u8 {
        self.bytes.as_ref()[field::MD_TYPE] & mask::MD_TYPE
    }

    /// The packet is for operation and maintenance (O bit).
    #[inline]
    pub fn is_oam(&self) -> bool {
        self.base() & mask::OAM != 0
    }

    /// Forwarders that the packet may still pass, 0 to 63.
    #[inline]
    pub fn time_to_live(&self) -> u8 {
        ((self.base() & mask::TTL) >> 6) as u8
    }

    /// Octets of the header with context headers.
    #[inline]
    pub fn header_length(&self) -> usize {
        usize::from(self.base() & mask::LENGTH) * 4
    }

    /// What follows the header.
    #[inline]
    pub fn next_protocol(&self) -> NextProtocol {
        NextProtocol(self.bytes.as_ref()[field::NEXT_PROTOCOL])
    }

    /// The service path.
    #[inline]
    pub fn path(&self) -> ServicePathId {
        ServicePathId(u32_at(self.bytes.as_ref(), field::PATH) >> 8)
    }

    /// How far the packet is on it; functions count down.
    #[inline]
    pub fn index(&self) -> u8 {
        self.bytes.as_ref()[field::INDEX]
    }

    /// The context header of MD type 1.
    #[inline]
    pub fn fixed_context(&self) -> Option<&[u8; FIXED_CONTEXT_LENGTH]> {
        let fixed = self.md_type() == MD_FIXED;
        self.bytes.as_ref().get(field::FIXED_CONTEXT)?.first_chunk().filter(|_| fixed)
    }

    /// The context headers of MD type 2.
    #[inline]
    pub fn contexts(&self) -> Contexts<'_> {
        let end = if self.md_type() == MD_VARIABLE { self.header_length() } else { 0 };
        Contexts { rest: self.bytes.as_ref().get(MIN_HEADER_LENGTH..end).unwrap_or_default() }
    }

    /// What follows the header.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        self.bytes.as_ref().get(self.header_length()..).unwrap_or_default()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    #[inline]
    fn set_time_to_live(&mut self, time_to_live: u8) {
        let base = self.base() & !mask::TTL | u16::from(time_to_live) << 6 & mask::TTL;
        put_u16(self.bytes.as_mut(), field::BASE, base);
    }

    /// Counts a forwarder (RFC 8300 §2.2): 0 becomes 63, as those who do not
    /// know the field send 0. False, when the packet must not go on.
    #[inline]
    pub fn decrement_time_to_live(&mut self) -> bool {
        let time_to_live = self.time_to_live().wrapping_sub(1) & 0x3f;
        self.set_time_to_live(time_to_live);
        time_to_live != 0
    }

    /// Sets how far the packet is on its service path.
    #[inline]
    pub fn set_index(&mut self, index: u8) {
        self.bytes.as_mut()[field::INDEX] = index;
    }

    /// Says that the packet is for operation and maintenance (O bit).
    #[inline]
    pub fn set_oam(&mut self) {
        let base = self.base() | mask::OAM;
        put_u16(self.bytes.as_mut(), field::BASE, base);
    }

    /// Says what follows the header.
    #[inline]
    pub fn set_next_protocol(&mut self, next_protocol: NextProtocol) {
        self.bytes.as_mut()[field::NEXT_PROTOCOL] = next_protocol.0;
    }

    /// What follows the header.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let start = self.header_length();
        self.bytes.as_mut().get_mut(start..).unwrap_or_default()
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Packet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)
    }
}

/// One context header of MD type 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context<'a> {
    /// Who gives the type its meaning (RFC 8300 §9.1.4).
    pub class: u16,
    /// What it is.
    pub kind: u8,
    /// The metadata, without padding; at most 127 octets.
    pub content: &'a [u8],
}

impl Context<'_> {
    /// Octets that [`emit`](Self::emit) writes, padding included.
    #[inline]
    pub const fn buffer_len(&self) -> usize {
        4 + self.content.len().next_multiple_of(4)
    }

    /// Writes the context header to the front of the buffer.
    ///
    /// # Errors
    /// [`Error::BufferTooShort`] below [`buffer_len`](Self::buffer_len) octets;
    /// [`Error::PayloadTooLong`] above 127 octets of content.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let length = u8::try_from(self.content.len()).ok();
        let length = length.filter(|length| *length <= mask::CONTEXT_LENGTH);
        let length = length.ok_or(Error::PayloadTooLong)?;
        let bytes = header(buffer, self.buffer_len())?;
        bytes.fill(0);
        put_u16(bytes, 0..2, self.class);
        bytes[2] = self.kind;
        bytes[3] = length;
        bytes[4..4 + self.content.len()].copy_from_slice(self.content);
        Ok(())
    }
}

/// The context headers of a packet, in order. After
/// [`Error::BadContextHeader`] the walk is over; a checked header has none.
#[derive(Clone, Debug)]
pub struct Contexts<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Contexts<'a> {
    type Item = Result<Context<'a>, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let rest = std::mem::take(&mut self.rest);
        if rest.is_empty() {
            return None;
        }
        let context = split(rest);
        self.rest = context.map_or(&[], |(_, rest)| rest);
        Some(context.map(|(context, _)| context).ok_or(Error::BadContextHeader))
    }
}

#[inline]
fn split(octets: &[u8]) -> Option<(Context<'_>, &[u8])> {
    let [class_high, class_low, kind, length, rest @ ..] = octets else { return None };
    let length = usize::from(length & mask::CONTEXT_LENGTH);
    let (content, rest) = rest.split_at_checked(length.next_multiple_of(4))?;
    let class = u16::from_be_bytes([*class_high, *class_low]);
    Some((Context { class, kind: *kind, content: &content[..length] }, rest))
}

/// What travels with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metadata {
    /// MD type 1.
    Fixed([u8; FIXED_CONTEXT_LENGTH]),
    /// MD type 2: context headers follow the header, which are the caller's.
    Variable {
        /// Their octets: a multiple of 4, at most [`MAX_CONTEXT_LENGTH`].
        length: u8,
    },
}

/// A header as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repr {
    /// The packet is for operation and maintenance.
    pub oam: bool,
    /// Forwarders that the packet may still pass; the lower six bits count.
    pub time_to_live: u8,
    /// What follows the header.
    pub next_protocol: NextProtocol,
    /// The service path.
    pub path: ServicePathId,
    /// How far the packet is on it.
    pub index: u8,
    /// What travels with the packet.
    pub metadata: Metadata,
}

impl Repr {
    /// The header as a value.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Self {
        let length = packet.header_length().saturating_sub(MIN_HEADER_LENGTH) as u8;
        let variable = Metadata::Variable { length };
        Self {
            oam: packet.is_oam(),
            time_to_live: packet.time_to_live(),
            next_protocol: packet.next_protocol(),
            path: packet.path(),
            index: packet.index(),
            metadata: packet.fixed_context().map_or(variable, |octets| Metadata::Fixed(*octets)),
        }
    }

    /// Octets of base header, service path header and context headers.
    #[inline]
    pub const fn header_length(&self) -> usize {
        MIN_HEADER_LENGTH
            + match self.metadata {
                Metadata::Fixed(_) => FIXED_CONTEXT_LENGTH,
                Metadata::Variable { length } => length as usize,
            }
    }

    /// Octets that [`emit`](Self::emit) writes: all but the context headers of
    /// MD type 2.
    #[inline]
    pub const fn buffer_len(&self) -> usize {
        match self.metadata {
            Metadata::Fixed(_) => MIN_HEADER_LENGTH + FIXED_CONTEXT_LENGTH,
            Metadata::Variable { .. } => MIN_HEADER_LENGTH,
        }
    }

    /// Writes the header to the front of the buffer.
    ///
    /// # Errors
    /// [`Error::BufferTooShort`] below [`buffer_len`](Self::buffer_len) octets;
    /// [`Error::PayloadTooLong`] where the context headers' octets are no
    /// multiple of 4, or more than fit.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let length = self.header_length();
        if !length.is_multiple_of(4) || length > MIN_HEADER_LENGTH + MAX_CONTEXT_LENGTH {
            return Err(Error::PayloadTooLong);
        }
        let bytes = header(buffer, self.buffer_len())?;
        let oam = if self.oam { mask::OAM } else { 0 };
        let time_to_live = u16::from(self.time_to_live) << 6 & mask::TTL;
        put_u16(bytes, field::BASE, oam | time_to_live | (length / 4) as u16);
        bytes[field::MD_TYPE] = match self.metadata {
            Metadata::Fixed(_) => MD_FIXED,
            Metadata::Variable { .. } => MD_VARIABLE,
        };
        bytes[field::NEXT_PROTOCOL] = self.next_protocol.0;
        put_u32(bytes, field::PATH, self.path.0 << 8 | u32::from(self.index));
        if let Metadata::Fixed(octets) = self.metadata {
            bytes[field::FIXED_CONTEXT].copy_from_slice(&octets);
        }
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, index, time_to_live, next_protocol, .. } = self;
        let oam = if self.oam { " oam" } else { "" };
        write!(f, "nsh path {path} index {index} ttl {time_to_live}{oam} {next_protocol}")
    }
}

#[cfg(test)]
mod tests;
