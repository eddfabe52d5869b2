//! PPP over Ethernet, session stage (RFC 2516 §6), and the PPP protocol numbers
//! of compressed IP headers (RFC 3544 §2.2).
//!
//! Only frames of a session that stands are known here; discovery is not.

use std::fmt;
use std::ops::Range;

use crate::Error;
use crate::octets::{header, put_u16, u16_at};

/// Octets of the PPPoE header and the PPP protocol number.
pub const HEADER_LENGTH: usize = 8;
/// Octets of the PPP protocol number, which the length field counts.
const PROTOCOL_LENGTH: usize = 2;
/// Version 1, type 1 (RFC 2516 §4).
const VERSION_AND_TYPE: u8 = 0x11;
/// Code of session frames (RFC 2516 §6).
const SESSION: u8 = 0;

/// What a frame carries: a PPP protocol number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PppProtocol(pub u16);

impl PppProtocol {
    /// An IPv4 packet (RFC 1332 §2).
    pub const IPV4: Self = Self(0x0021);
    /// An IPv6 packet (RFC 5072 §2).
    pub const IPV6: Self = Self(0x0057);
    /// FULL_HEADER.
    pub const FULL_HEADER: Self = Self(0x0061);
    /// COMPRESSED_TCP.
    pub const COMPRESSED_TCP: Self = Self(0x0063);
    /// COMPRESSED_NON_TCP.
    pub const COMPRESSED_NON_TCP: Self = Self(0x0065);
    /// COMPRESSED_TCP_NODELTA.
    pub const COMPRESSED_TCP_NODELTA: Self = Self(0x2063);
    /// CONTEXT_STATE.
    pub const CONTEXT_STATE: Self = Self(0x2065);
}

impl fmt::Display for PppProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::IPV4 => f.write_str("ipv4"),
            Self::IPV6 => f.write_str("ipv6"),
            Self::FULL_HEADER => f.write_str("full-header"),
            Self::COMPRESSED_TCP => f.write_str("compressed-tcp"),
            Self::COMPRESSED_NON_TCP => f.write_str("compressed-non-tcp"),
            Self::COMPRESSED_TCP_NODELTA => f.write_str("compressed-tcp-nodelta"),
            Self::CONTEXT_STATE => f.write_str("context-state"),
            Self(number) => write!(f, "ppp protocol 0x{number:04x}"),
        }
    }
}

mod field {
    use super::Range;

    pub const VERSION_AND_TYPE: usize = 0;
    pub const CODE: usize = 1;
    pub const SESSION: Range<usize> = 2..4;
    pub const LENGTH: Range<usize> = 4..6;
    pub const PROTOCOL: Range<usize> = 6..8;
}

/// View of a header and what follows it, up to the padding of Ethernet.
#[derive(Clone, Copy, Debug)]
pub struct Frame<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Frame<T> {
    /// Checks version, code and length. The bytes are an Ethernet payload.
    ///
    /// # Errors
    /// [`Error::Truncated`] or [`Error::BadPppoe`].
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Error> {
        let octets = bytes.as_ref();
        if octets.len() < HEADER_LENGTH {
            return Err(Error::Truncated);
        }
        let length = usize::from(u16_at(octets, field::LENGTH));
        let session =
            octets[field::VERSION_AND_TYPE] == VERSION_AND_TYPE && octets[field::CODE] == SESSION;
        let fits = length >= PROTOCOL_LENGTH && field::LENGTH.end + length <= octets.len();
        if session && fits { Ok(Self { bytes }) } else { Err(Error::BadPppoe) }
    }

    /// The session, which both ends agreed on.
    #[inline]
    pub fn session(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::SESSION)
    }

    /// What the frame carries.
    #[inline]
    pub fn protocol(&self) -> PppProtocol {
        PppProtocol(u16_at(self.bytes.as_ref(), field::PROTOCOL))
    }

    /// Octets of header and payload.
    #[inline]
    pub fn total_length(&self) -> usize {
        field::LENGTH.end + usize::from(u16_at(self.bytes.as_ref(), field::LENGTH))
    }

    /// What follows the header.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        self.bytes.as_ref().get(HEADER_LENGTH..self.total_length()).unwrap_or_default()
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Frame<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)
    }
}

/// A header as a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Repr {
    /// The session.
    pub session: u16,
    /// What the frame carries.
    pub protocol: PppProtocol,
    /// Octets behind the header, at most 65,533.
    pub payload_length: u16,
}

impl Repr {
    /// The header as a value.
    #[inline]
    pub fn parse<T: AsRef<[u8]>>(frame: &Frame<T>) -> Self {
        Self {
            session: frame.session(),
            protocol: frame.protocol(),
            payload_length: frame.payload().len() as u16,
        }
    }

    /// Octets that [`emit`](Self::emit) writes.
    #[inline]
    pub const fn buffer_len(&self) -> usize {
        HEADER_LENGTH
    }

    /// Writes the header to the front of the buffer.
    ///
    /// # Errors
    /// [`Error::BufferTooShort`] below [`buffer_len`](Self::buffer_len) octets;
    /// [`Error::PayloadTooLong`].
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let bytes = header(buffer, self.buffer_len())?;
        let length = self.payload_length.checked_add(PROTOCOL_LENGTH as u16);
        bytes[field::VERSION_AND_TYPE] = VERSION_AND_TYPE;
        bytes[field::CODE] = SESSION;
        put_u16(bytes, field::SESSION, self.session);
        put_u16(bytes, field::LENGTH, length.ok_or(Error::PayloadTooLong)?);
        put_u16(bytes, field::PROTOCOL, self.protocol.0);
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { session, protocol, payload_length } = self;
        write!(f, "pppoe session {session} {protocol} length {payload_length}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{hex, hostile};

    /// Session 7, COMPRESSED_NON_TCP, four octets and padding.
    fn compressed() -> Vec<u8> {
        hex("11 00 0007 0006 0065 01020304 0000")
    }

    #[test]
    fn reads_a_frame_without_its_padding() {
        let frame = Frame::new_checked(compressed()).unwrap();
        let protocol = PppProtocol::COMPRESSED_NON_TCP;
        assert_eq!(Repr::parse(&frame), Repr { session: 7, protocol, payload_length: 4 });
        assert_eq!(frame.payload(), [1, 2, 3, 4]);
        assert_eq!(frame.to_string(), "pppoe session 7 compressed-non-tcp length 4");
    }

    #[test]
    fn defects_are_named() {
        assert_eq!(Frame::new_checked([0x11; 7]).unwrap_err(), Error::Truncated);
        for (place, octet) in [(0, 0x21), (1, 0x09), (5, 1), (5, 9)] {
            let mut bytes = compressed();
            bytes[place] = octet;
            assert_eq!(Frame::new_checked(bytes).unwrap_err(), Error::BadPppoe);
        }
        assert_eq!(Repr::default().emit(&mut [0; 7]), Err(Error::BufferTooShort));
        let long = Repr { payload_length: 0xfffe, ..Repr::default() };
        assert_eq!(long.emit(&mut [0; 8]), Err(Error::PayloadTooLong));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in hostile(compressed())) {
            if let Ok(frame) = Frame::new_checked(&bytes[..]) {
                prop_assert!(frame.total_length() <= bytes.len());
                prop_assert!(frame.to_string().starts_with("pppoe"));
            }
        }

        #[test]
        fn parse_of_emit(session: u16, protocol: u16, payload_length in 0..100_u16) {
            let repr = Repr { session, protocol: PppProtocol(protocol), payload_length };
            let mut bytes = vec![0xff; HEADER_LENGTH + usize::from(payload_length)];
            repr.emit(&mut bytes).unwrap();
            prop_assert_eq!(Repr::parse(&Frame::new_checked(&bytes[..]).unwrap()), repr);
        }
    }
}
