//! VXLAN generic protocol extension (draft-ietf-nvo3-vxlan-gpe): what NSH
//! travels in between hosts.

use std::fmt;
use std::ops::Range;

use crate::Error;
use crate::nsh::NextProtocol;
use crate::octets::{header, put, put_u32, u32_at};

/// UDP port that packets are sent to.
pub const PORT: u16 = 4790;
/// Octets of the header.
pub const HEADER_LENGTH: usize = 8;

mod field {
    use super::Range;

    pub const FLAGS: usize = 0;
    pub const RESERVED: Range<usize> = 1..3;
    pub const NEXT_PROTOCOL: usize = 3;
    pub const NETWORK: Range<usize> = 4..8;
}

mod flag {
    pub const VERSION: u8 = 0x30;
    pub const INSTANCE: u8 = 0x08;
    pub const NEXT_PROTOCOL: u8 = 0x04;
    pub const OAM: u8 = 0x01;
}

/// View of a header and what follows it.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks that the header is there and of the version that is read. The
    /// bytes are a UDP payload.
    ///
    /// # Errors
    /// [`Error::Truncated`] or [`Error::UnsupportedVxlan`].
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Error> {
        match bytes.as_ref() {
            octets if octets.len() < HEADER_LENGTH => Err(Error::Truncated),
            [flags, ..] if flags & flag::VERSION != 0 => Err(Error::UnsupportedVxlan),
            _ => Ok(Self { bytes }),
        }
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

    /// The packet is for operation and maintenance.
    #[inline]
    pub fn is_oam(&self) -> bool {
        self.has(flag::OAM)
    }

    /// The virtual network, 24 bits, if there is one.
    #[inline]
    pub fn network(&self) -> Option<u32> {
        self.has(flag::INSTANCE).then(|| u32_at(self.bytes.as_ref(), field::NETWORK) >> 8)
    }

    /// What follows the header: Ethernet unless the header says otherwise, as
    /// in plain VXLAN (RFC 7348).
    #[inline]
    pub fn next_protocol(&self) -> NextProtocol {
        match self.has(flag::NEXT_PROTOCOL) {
            true => NextProtocol(self.bytes.as_ref()[field::NEXT_PROTOCOL]),
            false => NextProtocol::ETHERNET,
        }
    }

    /// What follows the header.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.bytes.as_ref()[HEADER_LENGTH..]
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
    /// The packet is for operation and maintenance.
    pub oam: bool,
    /// The virtual network; the lower 24 bits are emitted.
    pub network: Option<u32>,
    /// What follows the header.
    pub next_protocol: NextProtocol,
}

impl Repr {
    /// The header as a value.
    #[inline]
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Self {
        Self {
            oam: packet.is_oam(),
            network: packet.network(),
            next_protocol: packet.next_protocol(),
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
    /// [`Error::BufferTooShort`] below [`buffer_len`](Self::buffer_len) octets.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let bytes = header(buffer, self.buffer_len())?;
        bytes[field::FLAGS] = flag::NEXT_PROTOCOL
            | if self.network.is_some() { flag::INSTANCE } else { 0 }
            | if self.oam { flag::OAM } else { 0 };
        put(bytes, field::RESERVED, &[0; 2]);
        bytes[field::NEXT_PROTOCOL] = self.next_protocol.0;
        put_u32(bytes, field::NETWORK, self.network.unwrap_or_default() << 8);
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("vxlan-gpe")?;
        if let Some(network) = self.network {
            write!(f, " network {network}")?;
        }
        write!(f, "{} {}", if self.oam { " oam" } else { "" }, self.next_protocol)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{hex, hostile};

    /// Network 10, NSH, as Wireshark reads it.
    fn nsh() -> Vec<u8> {
        hex("0c 0000 04 00000a 00 0fc2")
    }

    #[test]
    fn reads_a_header() {
        let packet = Packet::new_checked(nsh()).unwrap();
        let next_protocol = NextProtocol::NSH;
        let repr = Repr { oam: false, network: Some(10), next_protocol };
        assert_eq!(Repr::parse(&packet), repr);
        assert_eq!(packet.payload(), hex("0fc2"));
        assert_eq!(packet.to_string(), "vxlan-gpe network 10 nsh");
        let plain = Packet::new_checked(hex("08 0000 00 00000a 00")).unwrap();
        assert_eq!(plain.next_protocol(), NextProtocol::ETHERNET);
    }

    #[test]
    fn defects_are_named() {
        assert_eq!(Packet::new_checked([0; 7]).unwrap_err(), Error::Truncated);
        assert_eq!(Packet::new_checked([0x10; 8]).unwrap_err(), Error::UnsupportedVxlan);
        assert_eq!(Repr::default().emit(&mut [0; 7]), Err(Error::BufferTooShort));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in hostile(nsh())) {
            if let Ok(packet) = Packet::new_checked(&bytes[..]) {
                prop_assert_eq!(packet.payload().len() + HEADER_LENGTH, bytes.len());
                prop_assert!(packet.to_string().starts_with("vxlan-gpe"));
            }
        }

        #[test]
        fn parse_of_emit(
            oam: bool,
            network in proptest::option::of(0..1_u32 << 24),
            next: u8,
        ) {
            let repr = Repr { oam, network, next_protocol: NextProtocol(next) };
            let mut bytes = vec![0xff; repr.buffer_len()];
            repr.emit(&mut bytes).unwrap();
            prop_assert_eq!(Repr::parse(&Packet::new_checked(&bytes[..]).unwrap()), repr);
        }
    }
}
