//! IPv4 packets (RFC 791; DSCP of RFC 2474, ECN of RFC 3168).

use std::fmt;
use std::net::Ipv4Addr;
use std::ops::Range;

use crate::Error;
use crate::checksum::{self, Change, PseudoHeader};
use crate::ip::{Dscp, Ecn, Fragment, Protocol, traffic_class};
use crate::octets::{array, put, put_u16, u16_at};

mod repr;

pub use repr::Repr;

/// Octets of a header without options.
pub const MIN_HEADER_LENGTH: usize = 20;
/// Octets of a header with as many options as fit.
pub const MAX_HEADER_LENGTH: usize = 60;

mod field {
    use super::Range;

    pub const VERSION_AND_LENGTH: usize = 0;
    pub const TYPE_OF_SERVICE: usize = 1;
    pub const TOTAL_LENGTH: Range<usize> = 2..4;
    pub const IDENTIFICATION: Range<usize> = 4..6;
    pub const FLAGS_AND_OFFSET: Range<usize> = 6..8;
    pub const TIME_TO_LIVE: usize = 8;
    pub const PROTOCOL: usize = 9;
    /// The 16-bit word of the two fields above, as the checksum sees it.
    pub const TIME_TO_LIVE_WORD: Range<usize> = 8..10;
    pub const CHECKSUM: Range<usize> = 10..12;
    pub const SOURCE: Range<usize> = 12..16;
    pub const DESTINATION: Range<usize> = 16..20;
}

mod mask {
    pub const DONT_FRAGMENT: u16 = 0x4000;
    pub const MORE_FRAGMENTS: u16 = 0x2000;
    /// In units of 8 octets.
    pub const FRAGMENT_OFFSET: u16 = 0x1fff;
}

/// View of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks version and lengths. The bytes may go on behind the packet, as
    /// Ethernet's padding does.
    ///
    /// # Errors
    /// [`Error::Truncated`], [`Error::BadVersion`], [`Error::BadHeaderLength`]
    /// below 5 words, or [`Error::BadTotalLength`].
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Error> {
        let length = bytes.as_ref().len();
        if length < MIN_HEADER_LENGTH {
            return Err(Error::Truncated);
        }
        let packet = Self { bytes };
        if packet.bytes.as_ref()[field::VERSION_AND_LENGTH] >> 4 != 4 {
            return Err(Error::BadVersion);
        }
        let header_length = packet.header_length();
        if header_length < MIN_HEADER_LENGTH {
            return Err(Error::BadHeaderLength);
        }
        if header_length > length {
            return Err(Error::Truncated);
        }
        let total_length = usize::from(packet.total_length());
        if total_length < header_length || total_length > length {
            return Err(Error::BadTotalLength);
        }
        Ok(packet)
    }

    /// The bytes that the view lies over.
    #[inline]
    pub fn into_inner(self) -> T {
        self.bytes
    }

    /// Octets of the header with options, 20 to 60.
    #[inline]
    pub fn header_length(&self) -> usize {
        usize::from(self.bytes.as_ref()[field::VERSION_AND_LENGTH] & 0x0f) * 4
    }

    /// How the packet wants to be forwarded.
    #[inline]
    pub fn dscp(&self) -> Dscp {
        Dscp::of_traffic_class(self.bytes.as_ref()[field::TYPE_OF_SERVICE])
    }

    /// Congestion notification.
    #[inline]
    pub fn ecn(&self) -> Ecn {
        Ecn::of_traffic_class(self.bytes.as_ref()[field::TYPE_OF_SERVICE])
    }

    /// Octets of the packet, header included.
    #[inline]
    pub fn total_length(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::TOTAL_LENGTH)
    }

    /// The same in all fragments of one datagram.
    #[inline]
    pub fn identification(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::IDENTIFICATION)
    }

    #[inline]
    fn flags_and_offset(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::FLAGS_AND_OFFSET)
    }

    /// Nobody may fragment the packet.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        self.flags_and_offset() & mask::DONT_FRAGMENT != 0
    }

    /// Another fragment of the datagram follows this one.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.flags_and_offset() & mask::MORE_FRAGMENTS != 0
    }

    /// Where in its datagram the payload begins, in octets; a multiple of 8.
    #[inline]
    pub fn fragment_offset(&self) -> u16 {
        (self.flags_and_offset() & mask::FRAGMENT_OFFSET) * 8
    }

    /// Which part of a datagram this is; `None` for a whole one.
    #[inline]
    pub fn fragment(&self) -> Option<Fragment> {
        let flags_and_offset = self.flags_and_offset();
        if flags_and_offset & (mask::MORE_FRAGMENTS | mask::FRAGMENT_OFFSET) == 0 {
            return None;
        }
        Some(Fragment {
            identification: u32::from(self.identification()),
            offset: self.fragment_offset(),
            more: self.more_fragments(),
        })
    }

    /// Routers that may still forward the packet.
    #[inline]
    pub fn time_to_live(&self) -> u8 {
        self.bytes.as_ref()[field::TIME_TO_LIVE]
    }

    /// What the packet carries.
    #[inline]
    pub fn protocol(&self) -> Protocol {
        Protocol(self.bytes.as_ref()[field::PROTOCOL])
    }

    /// Checksum of the header.
    #[inline]
    pub fn checksum(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::CHECKSUM)
    }

    /// Source address.
    #[inline]
    pub fn source(&self) -> Ipv4Addr {
        Ipv4Addr::from(array::<4>(self.bytes.as_ref(), field::SOURCE))
    }

    /// Destination address.
    #[inline]
    pub fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::from(array::<4>(self.bytes.as_ref(), field::DESTINATION))
    }

    /// Options with their padding; see [`options::walk`](crate::options::walk).
    #[inline]
    pub fn options(&self) -> &[u8] {
        self.bytes.as_ref().get(MIN_HEADER_LENGTH..self.header_length()).unwrap_or_default()
    }

    /// What the packet carries, without what follows the packet.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        self.bytes.as_ref().get(self.payload_range()).unwrap_or_default()
    }

    #[inline]
    fn payload_range(&self) -> Range<usize> {
        self.header_length()..usize::from(self.total_length())
    }

    /// The packet without what follows it in the bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.as_ref().get(..usize::from(self.total_length())).unwrap_or_default()
    }

    /// What the transport's checksum covers of this header.
    #[inline]
    pub fn pseudo_header(&self) -> PseudoHeader {
        PseudoHeader::V4 { source: self.source(), destination: self.destination() }
    }

    /// Tests the header's checksum.
    ///
    /// # Errors
    /// [`Error::BadChecksum`].
    #[inline]
    pub fn verify_checksum(&self) -> Result<(), Error> {
        if self.header_checksum() == 0 { Ok(()) } else { Err(Error::BadChecksum) }
    }

    #[inline]
    fn header_checksum(&self) -> u16 {
        if self.header_length() == MIN_HEADER_LENGTH
            && let Some(header) = self.bytes.as_ref().first_chunk()
        {
            return !checksum::sum20(header);
        }
        checksum::of(self.bytes.as_ref().get(..self.header_length()).unwrap_or_default())
    }
}

/// Setters change their field only; the checksum is repaired by
/// [`update_checksum`](Packet::update_checksum) or
/// [`fill_checksum`](Packet::fill_checksum).
impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets how the packet wants to be forwarded.
    #[inline]
    pub fn set_dscp(&mut self, dscp: Dscp) {
        let octet = traffic_class(dscp, self.ecn());
        self.bytes.as_mut()[field::TYPE_OF_SERVICE] = octet;
    }

    /// Sets the congestion notification.
    #[inline]
    pub fn set_ecn(&mut self, ecn: Ecn) {
        let octet = traffic_class(self.dscp(), ecn);
        self.bytes.as_mut()[field::TYPE_OF_SERVICE] = octet;
    }

    /// Sets the octets of the packet, header included.
    #[inline]
    pub fn set_total_length(&mut self, length: u16) {
        put_u16(self.bytes.as_mut(), field::TOTAL_LENGTH, length);
    }

    /// Sets what is the same in all fragments of one datagram.
    #[inline]
    pub fn set_identification(&mut self, identification: u16) {
        put_u16(self.bytes.as_mut(), field::IDENTIFICATION, identification);
    }

    #[inline]
    fn set_flags_and_offset(&mut self, mask: u16, value: u16) {
        let word = self.flags_and_offset() & !mask | value & mask;
        put_u16(self.bytes.as_mut(), field::FLAGS_AND_OFFSET, word);
    }

    /// Sets whether nobody may fragment the packet.
    #[inline]
    pub fn set_dont_fragment(&mut self, dont: bool) {
        self.set_flags_and_offset(mask::DONT_FRAGMENT, if dont { u16::MAX } else { 0 });
    }

    /// Sets whether another fragment follows.
    #[inline]
    pub fn set_more_fragments(&mut self, more: bool) {
        self.set_flags_and_offset(mask::MORE_FRAGMENTS, if more { u16::MAX } else { 0 });
    }

    /// Sets where in its datagram the payload begins, in octets, rounded down
    /// to a multiple of 8.
    #[inline]
    pub fn set_fragment_offset(&mut self, offset: u16) {
        self.set_flags_and_offset(mask::FRAGMENT_OFFSET, offset / 8);
    }

    /// Sets how many routers may still forward the packet.
    #[inline]
    pub fn set_time_to_live(&mut self, time_to_live: u8) {
        self.bytes.as_mut()[field::TIME_TO_LIVE] = time_to_live;
    }

    /// See [`decrement_time_to_live`].
    #[inline]
    pub fn decrement_time_to_live(&mut self) -> bool {
        self.bytes.as_mut().first_chunk_mut().is_some_and(decrement_time_to_live)
    }

    /// Sets what the packet carries.
    #[inline]
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.bytes.as_mut()[field::PROTOCOL] = protocol.0;
    }

    /// Sets the header's checksum.
    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        put_u16(self.bytes.as_mut(), field::CHECKSUM, checksum);
    }

    /// Computes the header's checksum.
    #[inline]
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let checksum = self.header_checksum();
        self.set_checksum(checksum);
    }

    /// Repairs the header's checksum after fields of it changed.
    #[inline]
    pub fn update_checksum(&mut self, change: Change) {
        self.set_checksum(change.apply(self.checksum()));
    }

    /// Sets the source address.
    #[inline]
    pub fn set_source(&mut self, address: Ipv4Addr) {
        put(self.bytes.as_mut(), field::SOURCE, &address.octets());
    }

    /// Sets the destination address.
    #[inline]
    pub fn set_destination(&mut self, address: Ipv4Addr) {
        put(self.bytes.as_mut(), field::DESTINATION, &address.octets());
    }

    /// What the packet carries, without what follows the packet.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let range = self.payload_range();
        self.bytes.as_mut().get_mut(range).unwrap_or_default()
    }
}

/// Counts one router in a header that was checked, and repairs its checksum.
/// Returns whether the packet may be forwarded; where not (RFC 1812 §5.3.1), the
/// header is left as it was.
#[inline]
pub fn decrement_time_to_live(header: &mut [u8; MIN_HEADER_LENGTH]) -> bool {
    if header[field::TIME_TO_LIVE] <= 1 {
        return false;
    }
    let word = u16_at(header, field::TIME_TO_LIVE_WORD);
    let change = Change::NONE.field16(word, word - 0x0100);
    let checksum = change.apply(u16_at(header, field::CHECKSUM));
    put_u16(header, field::TIME_TO_LIVE_WORD, word - 0x0100);
    put_u16(header, field::CHECKSUM, checksum);
    true
}

impl<T: AsRef<[u8]>> fmt::Display for Packet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use proptest::prelude::*;

    use super::*;
    use crate::options;
    use crate::testing::{hex, hostile};

    fn packet() -> Vec<u8> {
        hex("45b9 0020 1234 4000 40 11 3ba9 c0000201 c6336402 13880868000c19d5 77656674")
    }

    fn fragment() -> Vec<u8> {
        hex("4600 0020 0007 20b9 03 11 ee06 0a000001 0a000002 94040000 6162636465666768")
    }

    #[test]
    fn reads_a_packet() {
        let packet = Packet::new_checked(packet()).unwrap();
        let repr = Repr {
            source: Ipv4Addr::new(192, 0, 2, 1),
            destination: Ipv4Addr::new(198, 51, 100, 2),
            protocol: Protocol::UDP,
            payload_length: 12,
            dscp: Dscp::EF,
            ecn: Ecn::Ect1,
            identification: 0x1234,
            dont_fragment: true,
            ..Repr::default()
        };
        assert_eq!(Repr::parse(&packet), repr);
        assert_eq!(packet.verify_checksum(), Ok(()));
        assert_eq!(packet.fragment(), None);
        assert!(packet.options().is_empty());
        let text = "ipv4 192.0.2.1 > 198.51.100.2 udp ttl 64 dscp ef payload 12";
        assert_eq!(packet.to_string(), text);
    }

    #[test]
    fn reads_a_fragment_with_options() {
        let packet = Packet::new_checked(fragment()).unwrap();
        let fragment = Fragment { identification: 7, offset: 1480, more: true };
        assert_eq!(packet.fragment(), Some(fragment));
        assert!(!fragment.is_first() && !fragment.is_whole());
        assert_eq!(packet.payload(), b"abcdefgh");
        assert_eq!(packet.verify_checksum(), Ok(()));
        let alert = options::Item { kind: 0x94, data: &[0, 0] };
        assert_eq!(options::walk(packet.options()).next(), Some(Ok(alert)));
        assert!(packet.to_string().ends_with("payload 8 fragment 7 at 1480 more follow"));
    }

    #[test]
    fn padding_is_not_payload() {
        let mut bytes = packet();
        bytes.extend([0xee; 14]);
        let mut view = Packet::new_checked(&mut bytes[..]).unwrap();
        assert_eq!(view.payload().len(), 12);
        assert_eq!(view.payload_mut().len(), 12);
        assert_eq!(view.as_bytes(), packet());
    }

    /// Fault 13: a header length below 5, and a total length that is wrong.
    #[test]
    fn fault_13_lengths_that_lie() {
        let defect = |at: usize, octet: u8| {
            let mut bytes = packet();
            bytes[at] = octet;
            Packet::new_checked(bytes).unwrap_err()
        };
        assert_eq!(defect(0, 0x65), Error::BadVersion);
        assert_eq!(defect(0, 0x44), Error::BadHeaderLength);
        assert_eq!(defect(0, 0x49), Error::Truncated);
        assert_eq!(defect(0, 0x40), Error::BadHeaderLength);
        assert_eq!(defect(3, 19), Error::BadTotalLength);
        assert_eq!(defect(3, 33), Error::BadTotalLength);
        assert_eq!(defect(3, 0), Error::BadTotalLength);
        assert_eq!(Packet::new_checked(&packet()[..19]).unwrap_err(), Error::Truncated);
        assert_eq!(Packet::new_checked(&packet()[..31]).unwrap_err(), Error::BadTotalLength);
    }

    #[test]
    fn setters_change_their_field_only() {
        let mut packet = Packet::new_checked(packet()).unwrap();
        packet.set_dscp(Dscp::CS0);
        packet.set_ecn(Ecn::Ce);
        packet.set_total_length(31);
        packet.set_identification(0xabcd);
        packet.set_dont_fragment(false);
        packet.set_more_fragments(true);
        packet.set_fragment_offset(1487);
        packet.set_time_to_live(1);
        packet.set_protocol(Protocol::TCP);
        packet.set_checksum(0xffee);
        packet.set_source(Ipv4Addr::new(1, 2, 3, 4));
        packet.set_destination(Ipv4Addr::new(5, 6, 7, 8));
        assert_eq!(packet.payload().len(), 11);
        let header = hex("4503 001f abcd 20b9 01 06 ffee 01020304 05060708");
        assert_eq!(packet.into_inner()[..20], header);
    }

    #[test]
    fn a_wrong_checksum_is_noticed() {
        let mut bytes = packet();
        bytes[8] = 63;
        let mut packet = Packet::new_checked(&mut bytes[..]).unwrap();
        assert_eq!(packet.verify_checksum(), Err(Error::BadChecksum));
        packet.fill_checksum();
        assert_eq!(packet.checksum(), 0x3ca9);
        assert_eq!(packet.verify_checksum(), Ok(()));
    }

    #[test]
    fn a_packet_dies_at_its_last_router() {
        for time_to_live in [0, 1] {
            let mut bytes = packet();
            bytes[8] = time_to_live;
            let before = bytes.clone();
            assert!(!Packet::new_checked(&mut bytes[..]).unwrap().decrement_time_to_live());
            assert_eq!(bytes, before);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in hostile(fragment())) {
            if let Ok(packet) = Packet::new_checked(&bytes[..]) {
                black_box(packet.verify_checksum()).ok();
                black_box((packet.to_string(), packet.fragment()));
                prop_assert!(packet.as_bytes().ends_with(packet.payload()));
                let whole = packet.header_length() + packet.payload().len();
                prop_assert_eq!(whole, usize::from(packet.total_length()));
                options::walk(packet.options()).for_each(|option| { black_box(option).ok(); });
                let repr = Repr::parse(&packet);
                let mut copy = bytes.clone();
                repr.emit(&mut copy).unwrap();
                prop_assert_eq!(Repr::parse(&Packet::new_checked(&copy[..]).unwrap()), repr);
            }
        }

        #[test]
        fn no_setter_makes_an_accessor_panic(mut bytes in hostile(fragment()), length: u16) {
            if let Ok(mut packet) = Packet::new_checked(&mut bytes[..]) {
                packet.set_total_length(length);
                packet.fill_checksum();
                black_box((packet.payload_mut().len(), packet.as_bytes().len()));
                black_box(packet.to_string());
            }
        }
    }
}
