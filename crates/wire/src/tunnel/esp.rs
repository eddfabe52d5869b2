//! The header of an encapsulated security payload (ESP, RFC 4303 §2); what it says of
//! itself in clear. Only the owner of the key can read what is encrypted behind it.

use std::fmt;
use std::ops::Range;

use crate::Error;
use crate::octets::{header, put_u32, u32_at};

/// Octets of the header.
pub const HEADER_LENGTH: usize = 8;

/// A security parameters index: which security association a packet belongs to. The
/// receiver gives it out (RFC 4303 §2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Spi(pub u32);

impl Spi {
    /// The first one that may be given out; those below are reserved.
    pub const FIRST: Self = Self(256);
}

impl fmt::Display for Spi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

mod field {
    use super::Range;

    pub const SPI: Range<usize> = 0..4;
    pub const SEQUENCE_NUMBER: Range<usize> = 4..8;
}

/// View of a header and what follows it to the end of the IP packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks that the header is there. The bytes are the payload of an IP packet.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Error> {
        match bytes.as_ref().len() {
            HEADER_LENGTH.. => Ok(Self { bytes }),
            _ => Err(Error::Truncated),
        }
    }

    /// The security association.
    #[inline]
    pub fn spi(&self) -> Spi {
        Spi(u32_at(self.bytes.as_ref(), field::SPI))
    }

    /// The sequence number, or the low half of an extended one (RFC 4303 §2.2.1).
    #[inline]
    pub fn sequence_number(&self) -> u32 {
        u32_at(self.bytes.as_ref(), field::SEQUENCE_NUMBER)
    }

    /// What follows the header: initialization vector, ciphertext, integrity check value.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        self.bytes.as_ref().get(HEADER_LENGTH..).unwrap_or_default()
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Packet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)
    }
}

/// A header as a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Repr {
    /// The security association.
    pub spi: Spi,
    /// The sequence number, or the low half of an extended one.
    pub sequence_number: u32,
}

impl Repr {
    /// The header as a value.
    #[inline]
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Self {
        Self { spi: packet.spi(), sequence_number: packet.sequence_number() }
    }

    /// Octets that [`emit`](Self::emit) writes.
    #[inline]
    pub const fn buffer_len(&self) -> usize {
        HEADER_LENGTH
    }

    /// Writes the header to the front of the buffer.
    ///
    /// # Errors
    /// [`Error::BufferTooShort`] below [`buffer_len`](Self::buffer_len) octets.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let bytes = header(buffer, self.buffer_len())?;
        put_u32(bytes, field::SPI, self.spi.0);
        put_u32(bytes, field::SEQUENCE_NUMBER, self.sequence_number);
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "esp spi {} sequence {}", self.spi, self.sequence_number)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::hex;

    #[test]
    fn reads_what_is_in_clear() {
        let packet = Packet::new_checked(hex("0000a5f8 0000000a facedbad")).unwrap();
        assert_eq!((packet.spi(), packet.sequence_number()), (Spi(0xa5f8), 10));
        assert_eq!(packet.payload(), hex("facedbad"));
        assert_eq!(packet.to_string(), "esp spi 0x0000a5f8 sequence 10");
    }

    #[test]
    fn a_header_is_whole_or_refused() {
        assert_eq!(Packet::new_checked([0; 7]).unwrap_err(), Error::Truncated);
        assert_eq!(Packet::new_checked([0; 8]).unwrap().payload(), []);
        assert_eq!(Repr::default().emit(&mut [0; 7]), Err(Error::BufferTooShort));
    }

    proptest! {
        #[test]
        fn parse_reads_what_emit_wrote(spi in any::<u32>(), sequence_number in any::<u32>()) {
            let repr = Repr { spi: Spi(spi), sequence_number };
            let mut bytes = [0; HEADER_LENGTH];
            repr.emit(&mut bytes).unwrap();
            prop_assert_eq!(Repr::parse(&Packet::new_checked(bytes).unwrap()), repr);
        }
    }
}
