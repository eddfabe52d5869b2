//! Extension headers (TS 29.281 §5.2).

use std::fmt;

use super::session::PduSession;
use super::{MIN_HEADER_LENGTH, Message, OPTIONAL_HEADER_LENGTH, field, flag};
use crate::Error;
use crate::octets::put_u16;

/// Extension headers of one message that are read at most.
pub const MAX_EXTENSION_HEADERS: usize = 8;

/// What an extension header is (TS 29.281 §5.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExtensionType(pub u8);

impl ExtensionType {
    /// No more extension headers.
    pub const NONE: Self = Self(0x00);
    /// Long PDCP PDU number, for a receiver that need not know it.
    pub const LONG_PDCP_NUMBER_OPTIONAL: Self = Self(0x03);
    /// Service class indicator.
    pub const SERVICE_CLASS: Self = Self(0x20);
    /// UDP source port of the packet that an Error Indication is about.
    pub const UDP_PORT: Self = Self(0x40);
    /// RAN container.
    pub const RAN_CONTAINER: Self = Self(0x81);
    /// Long PDCP PDU number.
    pub const LONG_PDCP_NUMBER: Self = Self(0x82);
    /// Xw RAN container.
    pub const XW_RAN_CONTAINER: Self = Self(0x83);
    /// NR RAN container.
    pub const NR_RAN_CONTAINER: Self = Self(0x84);
    /// PDU session container (TS 38.415).
    pub const PDU_SESSION: Self = Self(0x85);
    /// PDCP PDU number.
    pub const PDCP_NUMBER: Self = Self(0xc0);

    /// Whether this crate names it.
    #[inline]
    pub const fn is_known(self) -> bool {
        matches!(
            self,
            Self::LONG_PDCP_NUMBER_OPTIONAL
                | Self::SERVICE_CLASS
                | Self::UDP_PORT
                | Self::RAN_CONTAINER
                | Self::LONG_PDCP_NUMBER
                | Self::XW_RAN_CONTAINER
                | Self::NR_RAN_CONTAINER
                | Self::PDU_SESSION
                | Self::PDCP_NUMBER
        )
    }

    /// Who must know it: its two highest bits say so.
    #[inline]
    pub const fn comprehension(self) -> Comprehension {
        match self.0 >> 6 {
            0 => Comprehension::Forwarded,
            1 => Comprehension::Discarded,
            2 => Comprehension::ByEndpoint,
            _ => Comprehension::ByAll,
        }
    }
}

/// Who must know an extension header (TS 29.281 figure 5.2.1-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comprehension {
    /// No node needs to know it; an intermediate node that does not passes it on.
    Forwarded,
    /// No node needs to know it; an intermediate node that does not takes it out.
    Discarded,
    /// The endpoint; an intermediate node passes it on.
    ByEndpoint,
    /// Endpoint and intermediate nodes.
    ByAll,
}

/// One extension header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// What it is.
    pub kind: ExtensionType,
    /// What stands between its length and the next type: 4n − 2 octets.
    pub content: &'a [u8],
}

/// The extension headers of a message, in order.
#[derive(Clone, Debug, Default)]
pub struct Walk<'a> {
    kind: ExtensionType,
    rest: &'a [u8],
}

impl<'a> Walk<'a> {
    /// Of a checked header that announces extension headers.
    #[inline]
    pub(super) fn over(header: &'a [u8]) -> Self {
        let kind = header.get(field::NEXT_TYPE).copied().unwrap_or_default();
        let rest = header.get(OPTIONAL_HEADER_LENGTH..).unwrap_or_default();
        Self { kind: ExtensionType(kind), rest }
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = Extension<'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let kind = self.kind;
        if kind == ExtensionType::NONE {
            return None;
        }
        let length = usize::from(*self.rest.first()?) * 4;
        let (extension, rest) = self.rest.split_at_checked(length)?;
        let [_, content @ .., next] = extension else { return None };
        *self = Self { kind: ExtensionType(*next), rest };
        Some(Extension { kind, content })
    }
}

/// Takes the extension headers that `unwanted` says out of a message, as an
/// intermediate node must whose tunnels go on (TS 29.281 §5.2.1). What is in front
/// of them moves back, so that what the message carries stays where it is. Returns
/// where the message begins then.
///
/// # Errors
/// Those of [`Message::new_checked`]; nothing has changed then.
pub fn discard_extensions(
    bytes: &mut [u8],
    unwanted: impl Fn(ExtensionType) -> bool,
) -> Result<usize, Error> {
    let message = Message::new_checked(&*bytes)?;
    let (end, length) = (message.header_length(), message.length());
    let mut places = [(ExtensionType::NONE, 0, 0); MAX_EXTENSION_HEADERS];
    let (mut count, mut at) = (0, OPTIONAL_HEADER_LENGTH);
    for (place, extension) in places.iter_mut().zip(message.extensions()) {
        let length = extension.content.len() + 2;
        *place = (extension.kind, at, at + length);
        (count, at) = (count + 1, at + length);
    }
    if places[..count].iter().all(|(kind, ..)| !unwanted(*kind)) {
        return Ok(0);
    }
    // From the last to the first, each against the one behind it.
    let (mut start, mut next) = (end, ExtensionType::NONE);
    for &(kind, from, to) in places[..count].iter().rev().filter(|(kind, ..)| !unwanted(*kind)) {
        start -= to - from;
        bytes.copy_within(from..to, start);
        bytes[start + (to - from) - 1] = next.0;
        next = kind;
    }
    bytes[field::NEXT_TYPE] = next.0;
    if next == ExtensionType::NONE {
        bytes[field::FLAGS] &= !flag::EXTENSION;
    }
    // Without any of the flags the optional fields are not there (§5.1).
    let front = match bytes[field::FLAGS] & flag::OPTIONAL {
        0 => MIN_HEADER_LENGTH,
        _ => OPTIONAL_HEADER_LENGTH,
    };
    start -= front;
    put_u16(bytes, field::LENGTH, length - start as u16);
    bytes.copy_within(..front, start);
    Ok(start)
}

/// Where the header of a message with optional fields ends, extension headers
/// included.
pub(super) fn end_of_header(message: &[u8]) -> Result<usize, Error> {
    if message.len() < OPTIONAL_HEADER_LENGTH {
        return Err(Error::BadGtpLength);
    }
    let mut end = OPTIONAL_HEADER_LENGTH;
    // Without the flag the type is not looked at, whatever it is (§5.1).
    if message[field::FLAGS] & flag::EXTENSION == 0 {
        return Ok(end);
    }
    let mut next = message[field::NEXT_TYPE];
    for _ in 0..MAX_EXTENSION_HEADERS {
        if next == ExtensionType::NONE.0 {
            return Ok(end);
        }
        let length = usize::from(*message.get(end).ok_or(Error::BadGtpExtension)?) * 4;
        end += length;
        match message.get(end - 1) {
            Some(&behind) if length != 0 => next = behind,
            _ => return Err(Error::BadGtpExtension),
        }
    }
    if next == ExtensionType::NONE.0 { Ok(end) } else { Err(Error::TooManyGtpExtensions) }
}

/// An extension header as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExtensionRepr {
    /// UDP source port of the packet that an Error Indication is about (§5.2.2.1).
    UdpPort(u16),
    /// PDCP PDU number of the packet (§5.2.2.2).
    PdcpNumber(u16),
    /// PDCP PDU number of 18 bits (§5.2.2.2A); the lower 18 count.
    LongPdcpNumber(u32),
    /// Service class indicator (§5.2.2.3).
    ServiceClass(u8),
    /// PDU session container (§5.2.2.7).
    PduSession(PduSession),
}

impl ExtensionRepr {
    /// An extension header as a value; none if it is of another type.
    ///
    /// # Errors
    /// [`Error::BadGtpExtensionContent`].
    pub fn parse(extension: &Extension<'_>) -> Result<Option<Self>, Error> {
        Ok(Some(match (extension.kind, extension.content) {
            (ExtensionType::UDP_PORT, &[high, low]) => {
                Self::UdpPort(u16::from_be_bytes([high, low]))
            }
            (ExtensionType::PDCP_NUMBER, &[high, low]) => {
                Self::PdcpNumber(u16::from_be_bytes([high, low]))
            }
            (
                ExtensionType::LONG_PDCP_NUMBER | ExtensionType::LONG_PDCP_NUMBER_OPTIONAL,
                &[high, middle, low, ..],
            ) => Self::LongPdcpNumber(u32::from_be_bytes([0, high & 3, middle, low])),
            (ExtensionType::SERVICE_CLASS, &[class, _]) => Self::ServiceClass(class),
            (ExtensionType::PDU_SESSION, content) => Self::PduSession(PduSession::parse(content)?),
            (
                ExtensionType::UDP_PORT
                | ExtensionType::PDCP_NUMBER
                | ExtensionType::LONG_PDCP_NUMBER
                | ExtensionType::LONG_PDCP_NUMBER_OPTIONAL
                | ExtensionType::SERVICE_CLASS,
                _,
            ) => return Err(Error::BadGtpExtensionContent),
            _ => return Ok(None),
        }))
    }

    /// What it is.
    #[inline]
    pub const fn kind(&self) -> ExtensionType {
        match self {
            Self::UdpPort(_) => ExtensionType::UDP_PORT,
            Self::PdcpNumber(_) => ExtensionType::PDCP_NUMBER,
            Self::LongPdcpNumber(_) => ExtensionType::LONG_PDCP_NUMBER,
            Self::ServiceClass(_) => ExtensionType::SERVICE_CLASS,
            Self::PduSession(_) => ExtensionType::PDU_SESSION,
        }
    }

    /// Octets with length and next type.
    #[inline]
    pub const fn buffer_len(&self) -> usize {
        match self {
            Self::LongPdcpNumber(_) => 8,
            Self::PduSession(session) => session.buffer_len() + 2,
            _ => 4,
        }
    }

    /// Writes it, followed by the type of the next, over exactly
    /// [`buffer_len`](Self::buffer_len) octets.
    #[inline]
    pub(super) fn emit(&self, bytes: &mut [u8], next: ExtensionType) {
        bytes.fill(0);
        let [length, content @ .., behind] = bytes else { return };
        *length = (self.buffer_len() / 4) as u8;
        *behind = next.0;
        match *self {
            Self::UdpPort(number) | Self::PdcpNumber(number) => {
                content.copy_from_slice(&number.to_be_bytes());
            }
            Self::LongPdcpNumber(number) => {
                let [_, octets @ ..] = (number & 0x3_ffff).to_be_bytes();
                content[..3].copy_from_slice(&octets);
            }
            Self::ServiceClass(class) => content[0] = class,
            Self::PduSession(session) => session.emit(content),
        }
    }
}

impl fmt::Display for ExtensionRepr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UdpPort(port) => write!(f, "udp port {port}"),
            Self::PdcpNumber(number) => write!(f, "pdcp {number}"),
            Self::LongPdcpNumber(number) => write!(f, "long pdcp {number}"),
            Self::ServiceClass(class) => write!(f, "service class {class}"),
            Self::PduSession(session) => session.fmt(f),
        }
    }
}

/// The extension headers of one message as an owned list, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Extensions {
    list: [Option<ExtensionRepr>; MAX_EXTENSION_HEADERS],
}

impl Extensions {
    /// No extension headers.
    pub const NONE: Self = Self { list: [None; MAX_EXTENSION_HEADERS] };

    /// One extension header.
    #[inline]
    pub const fn one(extension: ExtensionRepr) -> Self {
        let mut extensions = Self::NONE;
        extensions.list[0] = Some(extension);
        extensions
    }

    /// Adds one behind the others; false when there is no room.
    #[inline]
    pub fn push(&mut self, extension: ExtensionRepr) -> bool {
        let room = self.list.iter_mut().find(|place| place.is_none());
        room.map(|place| *place = Some(extension)).is_some()
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.list[0].is_none()
    }

    /// The extension headers, in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &ExtensionRepr> {
        self.list.iter().flatten()
    }

    /// Type of the first, if there is one.
    #[inline]
    pub(super) const fn first(&self) -> ExtensionType {
        match &self.list[0] {
            Some(extension) => extension.kind(),
            None => ExtensionType::NONE,
        }
    }
}
