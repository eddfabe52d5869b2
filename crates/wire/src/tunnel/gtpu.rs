//! GTP-U messages (TS 29.281): packets of users in tunnels, and what the ends
//! of tunnels tell each other.
//!
//! [`Message`] is a view of any message: header, optional fields, extension
//! headers, and what they carry. [`Repr`] is the header as a value; [`Signal`]
//! is a whole message that carries no packet of a user.

mod extension;
mod header;
mod information;
mod session;
mod signal;

use std::fmt;
use std::ops::Range;

pub use extension::{
    Comprehension, Extension, ExtensionRepr, ExtensionType, Extensions, MAX_EXTENSION_HEADERS,
    Walk, discard_extensions,
};
pub use header::Repr;
pub use information::{Element, Elements, elements};
pub use session::{PduSession, Qfi};
pub use signal::{ExtensionTypes, Signal};

use crate::Error;
use crate::octets::{put_u16, put_u32, u16_at, u32_at};

/// UDP port that messages are sent to (TS 29.281 §4.4.2).
pub const PORT: u16 = 2152;
/// Octets of the header that is always there.
pub const MIN_HEADER_LENGTH: usize = 8;
/// Octets of the header with sequence number, N-PDU number and the type of the
/// first extension header: all are there when one is announced.
pub const OPTIONAL_HEADER_LENGTH: usize = 12;

/// A tunnel endpoint identifier. The receiver has given it out; 0 is no tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Teid(pub u32);

impl Teid {
    /// No tunnel: the message is about the path.
    pub const PATH: Self = Self(0);
}

impl fmt::Display for Teid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

/// What a message is (TS 29.281 §6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageType(pub u8);

impl MessageType {
    /// The peer is asked whether it is there.
    pub const ECHO_REQUEST: Self = Self(1);
    /// It is.
    pub const ECHO_RESPONSE: Self = Self(2);
    /// A packet came for a tunnel that is not known.
    pub const ERROR_INDICATION: Self = Self(26);
    /// Which extension headers the sender knows.
    pub const SUPPORTED_EXTENSION_HEADERS: Self = Self(31);
    /// The last packet on a path has been sent.
    pub const END_MARKER: Self = Self(254);
    /// A packet of a user.
    pub const G_PDU: Self = Self(255);
}

impl fmt::Display for MessageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ECHO_REQUEST => f.write_str("echo request"),
            Self::ECHO_RESPONSE => f.write_str("echo response"),
            Self::ERROR_INDICATION => f.write_str("error indication"),
            Self::SUPPORTED_EXTENSION_HEADERS => f.write_str("supported extension headers"),
            Self::END_MARKER => f.write_str("end marker"),
            Self::G_PDU => f.write_str("g-pdu"),
            Self(number) => write!(f, "type {number}"),
        }
    }
}

mod field {
    use super::Range;

    pub const FLAGS: usize = 0;
    pub const MESSAGE_TYPE: usize = 1;
    pub const LENGTH: Range<usize> = 2..4;
    pub const TEID: Range<usize> = 4..8;
    pub const SEQUENCE: Range<usize> = 8..10;
    pub const N_PDU: usize = 10;
    pub const NEXT_TYPE: usize = 11;
}

/// In the first octet: an extension header follows (the E flag, TS 29.281 §5.1).
pub const EXTENSION_FLAG: u8 = 0x04;

mod flag {
    /// Version 1 and protocol type GTP; the spare bit is not looked at.
    pub const VERSION: u8 = 0x30;
    pub const VERSION_MASK: u8 = 0xf0;
    pub const EXTENSION: u8 = super::EXTENSION_FLAG;
    pub const SEQUENCE: u8 = 0x02;
    pub const N_PDU: u8 = 0x01;
    pub const OPTIONAL: u8 = EXTENSION | SEQUENCE | N_PDU;
}

/// View of a message.
#[derive(Clone, Copy, Debug)]
pub struct Message<T> {
    bytes: T,
    /// Where what the message carries begins.
    payload: u16,
}

impl<T: AsRef<[u8]>> Message<T> {
    /// Checks the header with its extension headers. The bytes are a UDP
    /// payload, which may go on behind the message.
    ///
    /// # Errors
    /// [`Error::Truncated`], [`Error::UnsupportedGtp`], [`Error::BadGtpLength`],
    /// [`Error::BadGtpExtension`], or [`Error::TooManyGtpExtensions`].
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Error> {
        let octets = bytes.as_ref();
        if octets.len() < MIN_HEADER_LENGTH {
            return Err(Error::Truncated);
        }
        let flags = octets[field::FLAGS];
        if flags & flag::VERSION_MASK != flag::VERSION {
            return Err(Error::UnsupportedGtp);
        }
        let end = MIN_HEADER_LENGTH + usize::from(u16_at(octets, field::LENGTH));
        let Some(message) = octets.get(..end) else { return Err(Error::BadGtpLength) };
        let payload = match flags & flag::OPTIONAL {
            0 => MIN_HEADER_LENGTH,
            _ => extension::end_of_header(message)?,
        };
        Ok(Self { bytes, payload: payload as u16 })
    }

    /// The bytes that the view lies over.
    #[inline]
    pub fn into_inner(self) -> T {
        self.bytes
    }

    #[inline]
    fn has(&self, flag: u8) -> bool {
        self.bytes.as_ref()[field::FLAGS] & flag != 0
    }

    /// What the message is.
    #[inline]
    pub fn message_type(&self) -> MessageType {
        MessageType(self.bytes.as_ref()[field::MESSAGE_TYPE])
    }

    /// Octets behind the first eight.
    #[inline]
    pub fn length(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::LENGTH)
    }

    /// The receiver's end of the tunnel.
    #[inline]
    pub fn teid(&self) -> Teid {
        Teid(u32_at(self.bytes.as_ref(), field::TEID))
    }

    /// Sequence number, if there is one.
    #[inline]
    pub fn sequence(&self) -> Option<u16> {
        self.has(flag::SEQUENCE).then(|| u16_at(self.bytes.as_ref(), field::SEQUENCE))
    }

    /// N-PDU number, if there is one.
    #[inline]
    pub fn n_pdu(&self) -> Option<u8> {
        self.has(flag::N_PDU).then(|| self.bytes.as_ref()[field::N_PDU])
    }

    /// Octets of the header with extension headers.
    #[inline]
    pub fn header_length(&self) -> usize {
        usize::from(self.payload)
    }

    /// The extension headers.
    #[inline]
    pub fn extensions(&self) -> Walk<'_> {
        let header = self.bytes.as_ref().get(..self.header_length()).unwrap_or_default();
        match self.has(flag::EXTENSION) {
            true => Walk::over(header),
            false => Walk::default(),
        }
    }

    /// The PDU session container, if there is one (TS 38.415 §5.5.2).
    ///
    /// # Errors
    /// [`Error::BadGtpExtensionContent`].
    #[inline]
    pub fn pdu_session(&self) -> Result<Option<PduSession>, Error> {
        let of_type = |extension: &Extension<'_>| extension.kind == ExtensionType::PDU_SESSION;
        let container = self.extensions().find(of_type);
        container.map(|container| PduSession::parse(container.content)).transpose()
    }

    /// What the message carries: a user's packet, or information elements.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        self.bytes.as_ref().get(self.header_length()..self.end()).unwrap_or_default()
    }

    /// Where the message ends in the bytes.
    #[inline]
    fn end(&self) -> usize {
        (MIN_HEADER_LENGTH + usize::from(self.length())).min(self.bytes.as_ref().len())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Message<T> {
    /// Sets the receiver's end of the tunnel.
    #[inline]
    pub fn set_teid(&mut self, teid: Teid) {
        put_u32(self.bytes.as_mut(), field::TEID, teid.0);
    }

    /// Sets the octets behind the first eight.
    #[inline]
    pub fn set_length(&mut self, length: u16) {
        put_u16(self.bytes.as_mut(), field::LENGTH, length);
    }

    /// What the message carries.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let range = self.header_length()..self.end();
        self.bytes.as_mut().get_mut(range).unwrap_or_default()
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Message<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)
    }
}

#[cfg(test)]
mod tests;
