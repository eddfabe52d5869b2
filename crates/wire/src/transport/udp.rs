//! UDP datagrams (RFC 768).

use std::fmt;
use std::ops::Range;

use crate::checksum::{self, Change, PseudoHeader};
use crate::octets::{header, put_u16, u16_at};
use crate::{Error, Protocol};

/// Octets of the header.
pub const HEADER_LENGTH: usize = 8;

mod field {
    use super::Range;

    pub const SOURCE_PORT: Range<usize> = 0..2;
    pub const DESTINATION_PORT: Range<usize> = 2..4;
    pub const LENGTH: Range<usize> = 4..6;
    pub const CHECKSUM: Range<usize> = 6..8;
}

/// View of a datagram.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Datagram<T> {
    /// Checks the length. The bytes are the IP payload, which may go on behind
    /// the datagram.
    ///
    /// # Errors
    /// [`Error::Truncated`] or [`Error::BadDatagramLength`].
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Error> {
        let datagram = Self::new_checked_fragment(bytes)?;
        if usize::from(datagram.length()) > datagram.bytes.as_ref().len() {
            return Err(Error::BadDatagramLength);
        }
        Ok(datagram)
    }

    /// As [`new_checked`](Self::new_checked), for a first fragment: the rest of
    /// the datagram travels in other packets. The view shows what is here, and
    /// its checksum can be repaired but not computed.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::BadDatagramLength`] for a length below 8.
    #[inline]
    pub fn new_checked_fragment(bytes: T) -> Result<Self, Error> {
        if bytes.as_ref().len() < HEADER_LENGTH {
            return Err(Error::Truncated);
        }
        let datagram = Self { bytes };
        if usize::from(datagram.length()) < HEADER_LENGTH {
            return Err(Error::BadDatagramLength);
        }
        Ok(datagram)
    }

    /// The bytes that the view lies over.
    #[inline]
    pub fn into_inner(self) -> T {
        self.bytes
    }

    /// Source port; 0 where no answer is wanted.
    #[inline]
    pub fn source_port(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::SOURCE_PORT)
    }

    /// Destination port.
    #[inline]
    pub fn destination_port(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::DESTINATION_PORT)
    }

    /// Octets of the datagram, header included.
    #[inline]
    pub fn length(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::LENGTH)
    }

    /// Checksum; 0 where there is none.
    #[inline]
    pub fn checksum(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::CHECKSUM)
    }

    /// What the datagram carries, as far as it is here.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        self.bytes.as_ref().get(HEADER_LENGTH..self.end()).unwrap_or_default()
    }

    /// Where the datagram ends in the bytes.
    #[inline]
    fn end(&self) -> usize {
        usize::from(self.length()).min(self.bytes.as_ref().len())
    }

    #[inline]
    fn compute_checksum(&self, pseudo_header: &PseudoHeader) -> u16 {
        pseudo_header.checksum(Protocol::UDP, &self.bytes.as_ref()[..self.end()])
    }

    /// Tests the checksum; over IPv4 there need not be one.
    ///
    /// # Errors
    /// [`Error::BadChecksum`]; [`Error::ZeroChecksum`] for none over IPv6
    /// (RFC 8200 §8.1).
    pub fn verify_checksum(&self, pseudo_header: &PseudoHeader) -> Result<(), Error> {
        match (self.checksum(), pseudo_header) {
            (0, PseudoHeader::V4 { .. }) => Ok(()),
            (0, PseudoHeader::V6 { .. }) => Err(Error::ZeroChecksum),
            _ if self.compute_checksum(pseudo_header) == 0 => Ok(()),
            _ => Err(Error::BadChecksum),
        }
    }
}

/// Setters change their field only; the checksum is repaired by
/// [`update_checksum`](Datagram::update_checksum) or
/// [`fill_checksum`](Datagram::fill_checksum).
impl<T: AsRef<[u8]> + AsMut<[u8]>> Datagram<T> {
    /// Sets the source port.
    #[inline]
    pub fn set_source_port(&mut self, port: u16) {
        put_u16(self.bytes.as_mut(), field::SOURCE_PORT, port);
    }

    /// Sets the destination port.
    #[inline]
    pub fn set_destination_port(&mut self, port: u16) {
        put_u16(self.bytes.as_mut(), field::DESTINATION_PORT, port);
    }

    /// Sets the octets of the datagram, header included.
    #[inline]
    pub fn set_length(&mut self, length: u16) {
        put_u16(self.bytes.as_mut(), field::LENGTH, length);
    }

    /// Sets the checksum as it is; 0 says that there is none.
    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        put_u16(self.bytes.as_mut(), field::CHECKSUM, checksum);
    }

    /// Computes the checksum.
    #[inline]
    pub fn fill_checksum(&mut self, pseudo_header: &PseudoHeader) {
        self.set_checksum(0);
        let checksum = self.compute_checksum(pseudo_header);
        self.set_checksum(checksum::udp(checksum));
    }

    /// Repairs the checksum after fields that it covers changed. Where there is
    /// none, none is made.
    #[inline]
    pub fn update_checksum(&mut self, change: Change) {
        self.set_checksum(change.apply_udp(self.checksum()));
    }

    /// What the datagram carries, as far as it is here.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let range = HEADER_LENGTH..self.end();
        self.bytes.as_mut().get_mut(range).unwrap_or_default()
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Datagram<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)
    }
}

/// A header as a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Octets that follow the header, in other fragments too.
    pub payload_length: u16,
}

impl Repr {
    /// The header of a datagram.
    #[inline]
    pub fn parse<T: AsRef<[u8]>>(datagram: &Datagram<T>) -> Self {
        Self {
            source_port: datagram.source_port(),
            destination_port: datagram.destination_port(),
            payload_length: datagram.length().saturating_sub(HEADER_LENGTH as u16),
        }
    }

    /// Octets that [`emit`](Self::emit) writes.
    #[inline]
    pub const fn buffer_len(&self) -> usize {
        HEADER_LENGTH
    }

    /// Writes the header with a checksum of 0 to the front of the buffer.
    ///
    /// # Errors
    /// [`Error::BufferTooShort`] below [`buffer_len`](Self::buffer_len) octets;
    /// [`Error::PayloadTooLong`] above 65527 octets of payload.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let length =
            self.payload_length.checked_add(HEADER_LENGTH as u16).ok_or(Error::PayloadTooLong)?;
        let mut datagram = Datagram { bytes: header(buffer, self.buffer_len())? };
        datagram.set_source_port(self.source_port);
        datagram.set_destination_port(self.destination_port);
        datagram.set_length(length);
        datagram.set_checksum(0);
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source_port, destination_port, payload_length } = self;
        write!(f, "udp {source_port} > {destination_port} payload {payload_length}")
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{hex, hostile};

    const V4: PseudoHeader = PseudoHeader::V4 {
        source: Ipv4Addr::new(192, 0, 2, 1),
        destination: Ipv4Addr::new(198, 51, 100, 2),
    };
    const V6: PseudoHeader = PseudoHeader::V6 {
        source: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
        destination: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
    };

    /// Over IPv4.
    fn datagram() -> Vec<u8> {
        hex("1388 0868 000c 19d5 77656674")
    }

    const REPR: Repr = Repr { source_port: 5000, destination_port: 2152, payload_length: 4 };

    #[test]
    fn reads_a_datagram() {
        let datagram = Datagram::new_checked(datagram()).unwrap();
        assert_eq!(Repr::parse(&datagram), REPR);
        assert_eq!(datagram.payload(), b"weft");
        assert_eq!(datagram.verify_checksum(&V4), Ok(()));
        assert_eq!(datagram.to_string(), "udp 5000 > 2152 payload 4");
    }

    #[test]
    fn writes_a_datagram() {
        let mut bytes = [0xaa; 12];
        REPR.emit(&mut bytes).unwrap();
        bytes[8..].copy_from_slice(b"weft");
        let mut view = Datagram::new_checked(&mut bytes[..]).unwrap();
        assert_eq!(view.checksum(), 0);
        view.fill_checksum(&V4);
        assert_eq!(view.into_inner(), datagram());
        Datagram::new_checked(&mut bytes[..]).unwrap().fill_checksum(&V6);
        assert_eq!(bytes[6..8], hex("aa97"));
        assert_eq!(REPR.emit(&mut bytes[..7]), Err(Error::BufferTooShort));
        let long = Repr { payload_length: 65528, ..REPR };
        assert_eq!(long.emit(&mut bytes), Err(Error::PayloadTooLong));
    }

    #[test]
    fn what_follows_the_datagram_is_not_payload() {
        let mut bytes = datagram();
        bytes.extend([0xee; 3]);
        let mut view = Datagram::new_checked(&mut bytes[..]).unwrap();
        assert_eq!(view.payload_mut(), b"weft");
        assert_eq!(view.verify_checksum(&V4), Ok(()));
    }

    #[test]
    fn lengths_that_lie() {
        let mut bytes = datagram();
        assert_eq!(Datagram::new_checked(&bytes[..7]).unwrap_err(), Error::Truncated);
        for length in [0, 7, 13] {
            bytes[5] = length;
            assert_eq!(Datagram::new_checked(&bytes).unwrap_err(), Error::BadDatagramLength);
        }
    }

    #[test]
    fn a_first_fragment_shows_what_is_here() {
        let mut bytes = datagram();
        bytes[4..6].copy_from_slice(&1000_u16.to_be_bytes());
        let datagram = Datagram::new_checked_fragment(&bytes[..]).unwrap();
        assert_eq!(datagram.payload(), b"weft");
        assert_eq!(Repr::parse(&datagram).payload_length, 992);
        bytes[4..6].copy_from_slice(&7_u16.to_be_bytes());
        let error = Datagram::new_checked_fragment(&bytes).unwrap_err();
        assert_eq!(error, Error::BadDatagramLength);
    }

    #[test]
    fn checksums_that_are_wrong_or_missing() {
        let mut datagram = Datagram::new_checked(datagram()).unwrap();
        datagram.set_source_port(5001);
        assert_eq!(datagram.verify_checksum(&V4), Err(Error::BadChecksum));
        datagram.set_checksum(0);
        assert_eq!(datagram.verify_checksum(&V4), Ok(()));
        assert_eq!(datagram.verify_checksum(&V6), Err(Error::ZeroChecksum));
        datagram.update_checksum(Change::NONE.field16(5000, 5001));
        assert_eq!(datagram.checksum(), 0);
    }

    #[test]
    fn a_computed_zero_is_sent_as_ones() {
        // The second port is what makes the sum 0xffff.
        let rest = !(checksum::add(V4.sum(Protocol::UDP, 8), 8));
        let repr = Repr { source_port: 0, destination_port: rest, payload_length: 0 };
        let mut bytes = [0; 8];
        repr.emit(&mut bytes).unwrap();
        let mut datagram = Datagram::new_checked(&mut bytes[..]).unwrap();
        datagram.fill_checksum(&V4);
        assert_eq!(datagram.checksum(), 0xffff);
        assert_eq!(datagram.verify_checksum(&V4), Ok(()));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in hostile(datagram()), length: u16) {
            if let Ok(datagram) = Datagram::new_checked_fragment(&bytes[..]) {
                prop_assert!(bytes[HEADER_LENGTH..].starts_with(datagram.payload()));
                black_box(datagram.verify_checksum(&V4)).ok();
                black_box(datagram.verify_checksum(&V6)).ok();
                black_box(datagram.to_string());
            }
            if let Ok(datagram) = Datagram::new_checked(&bytes[..]) {
                let (repr, mut copy) = (Repr::parse(&datagram), bytes.clone());
                repr.emit(&mut copy).unwrap();
                let mut datagram = Datagram::new_checked(&mut copy[..]).unwrap();
                prop_assert_eq!(Repr::parse(&datagram), repr);
                datagram.set_length(length);
                datagram.fill_checksum(&V6);
                black_box((datagram.payload_mut().len(), datagram.to_string()));
            }
        }

        #[test]
        fn parse_of_emit(source_port: u16, destination_port: u16, payload_length in 0..2000_u16) {
            let repr = Repr { source_port, destination_port, payload_length };
            let mut bytes = vec![0xff; repr.buffer_len() + usize::from(payload_length)];
            repr.emit(&mut bytes).unwrap();
            prop_assert_eq!(Repr::parse(&Datagram::new_checked(&bytes[..]).unwrap()), repr);
        }

        #[test]
        fn rewriting_repairs_the_checksum(
            old: (Ipv6Addr, u16),
            new: (Ipv6Addr, u16),
            payload in vec(any::<u8>(), 0..64),
        ) {
            let destination = Ipv6Addr::LOCALHOST;
            let pseudo_header = |source| PseudoHeader::V6 { source, destination };
            let payload_length = payload.len() as u16;
            let repr = Repr { source_port: old.1, destination_port: 53, payload_length };
            let mut bytes = [vec![0; HEADER_LENGTH], payload].concat();
            repr.emit(&mut bytes).unwrap();
            let mut datagram = Datagram::new_checked(&mut bytes[..]).unwrap();
            datagram.fill_checksum(&pseudo_header(old.0));
            datagram.set_source_port(new.1);
            let addresses = Change::NONE.bytes(&old.0.octets(), &new.0.octets());
            datagram.update_checksum(addresses.field16(old.1, new.1));
            let repaired = datagram.checksum();
            datagram.fill_checksum(&pseudo_header(new.0));
            prop_assert_eq!(datagram.checksum(), repaired);
        }
    }
}
