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

    /// Routers must not fragment the packet.
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

    /// Sets whether fragmenting the packet is forbidden.
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
    header[field::TIME_TO_LIVE] -= 1;
    // As a change of the word by 0x0100 repairs it (RFC 1624 §3).
    let checksum = u16_at(header, field::CHECKSUM);
    let carry = u16::from(checksum >= 0xfeff);
    put_u16(header, field::CHECKSUM, checksum.wrapping_add(0x0100 + carry));
    true
}

impl<T: AsRef<[u8]>> fmt::Display for Packet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)
    }
}

#[cfg(test)]
mod tests;
