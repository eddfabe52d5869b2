//! TCP segments (RFC 9293), as far as a node between the hosts looks at them.

use std::fmt;
use std::ops::{BitOr, Range};

use crate::checksum::{Change, PseudoHeader};
use crate::octets::{header, put_u16, put_u32, u16_at, u32_at};
use crate::options::Options;
use crate::{Error, Protocol};

/// Octets of a header without options.
pub const MIN_HEADER_LENGTH: usize = 20;
/// Octets of a header with as many options as fit.
pub const MAX_HEADER_LENGTH: usize = 60;

/// Control bits (RFC 9293 §3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// The sender has no more data.
    pub const FIN: Self = Self(0x01);
    /// Sequence numbers are synchronised.
    pub const SYN: Self = Self(0x02);
    /// The connection is reset.
    pub const RST: Self = Self(0x04);
    /// Data is pushed to the receiver.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgment number counts.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer counts.
    pub const URG: Self = Self(0x20);
    /// Congestion was seen by the receiver (RFC 3168 §6.1).
    pub const ECE: Self = Self(0x40);
    /// The sender reduced its congestion window (RFC 3168 §6.1).
    pub const CWR: Self = Self(0x80);

    const NAMES: [&'static str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];

    /// All of the other's bits are set here.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Flags {
    type Output = Self;

    #[inline]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for (bit, name) in Self::NAMES.iter().enumerate() {
            if self.0 & 1 << bit != 0 {
                write!(f, "{between}{name}")?;
                between = "+";
            }
        }
        if self.0 == 0 { f.write_str("none") } else { Ok(()) }
    }
}

mod field {
    use super::Range;

    pub const SOURCE_PORT: Range<usize> = 0..2;
    pub const DESTINATION_PORT: Range<usize> = 2..4;
    pub const SEQUENCE: Range<usize> = 4..8;
    pub const ACKNOWLEDGMENT: Range<usize> = 8..12;
    pub const DATA_OFFSET: usize = 12;
    pub const FLAGS: usize = 13;
    pub const WINDOW: Range<usize> = 14..16;
    pub const CHECKSUM: Range<usize> = 16..18;
    pub const URGENT_POINTER: Range<usize> = 18..20;
}

/// View of a segment.
#[derive(Clone, Copy, Debug)]
pub struct Segment<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Segment<T> {
    /// Checks the header's length. The bytes are the IP payload, no less and no
    /// more: TCP has no length of its own.
    ///
    /// # Errors
    /// [`Error::Truncated`], or [`Error::BadHeaderLength`] for a data offset
    /// below 5 words or beyond the bytes.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Error> {
        let length = bytes.as_ref().len();
        if length < MIN_HEADER_LENGTH {
            return Err(Error::Truncated);
        }
        let segment = Self { bytes };
        let header_length = segment.header_length();
        if header_length < MIN_HEADER_LENGTH || header_length > length {
            return Err(Error::BadHeaderLength);
        }
        Ok(segment)
    }

    /// The bytes that the view lies over.
    #[inline]
    pub fn into_inner(self) -> T {
        self.bytes
    }

    /// Source port.
    #[inline]
    pub fn source_port(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::SOURCE_PORT)
    }

    /// Destination port.
    #[inline]
    pub fn destination_port(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::DESTINATION_PORT)
    }

    /// Sequence number of the first octet of data.
    #[inline]
    pub fn sequence(&self) -> u32 {
        u32_at(self.bytes.as_ref(), field::SEQUENCE)
    }

    /// Next sequence number that the sender waits for.
    #[inline]
    pub fn acknowledgment(&self) -> u32 {
        u32_at(self.bytes.as_ref(), field::ACKNOWLEDGMENT)
    }

    /// Octets of the header with options, 20 to 60.
    #[inline]
    pub fn header_length(&self) -> usize {
        usize::from(self.bytes.as_ref()[field::DATA_OFFSET] >> 4) * 4
    }

    /// Control bits.
    #[inline]
    pub fn flags(&self) -> Flags {
        Flags(self.bytes.as_ref()[field::FLAGS])
    }

    /// Receive window, not scaled.
    #[inline]
    pub fn window(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::WINDOW)
    }

    /// Checksum.
    #[inline]
    pub fn checksum(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::CHECKSUM)
    }

    /// Where urgent data ends, from the sequence number on.
    #[inline]
    pub fn urgent_pointer(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::URGENT_POINTER)
    }

    /// Options with their padding; see [`options::walk`](crate::options::walk).
    #[inline]
    pub fn options(&self) -> &[u8] {
        self.bytes.as_ref().get(MIN_HEADER_LENGTH..self.header_length()).unwrap_or_default()
    }

    /// What the segment carries.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        self.bytes.as_ref().get(self.header_length()..).unwrap_or_default()
    }

    #[inline]
    fn compute_checksum(&self, pseudo_header: &PseudoHeader) -> u16 {
        pseudo_header.checksum(Protocol::TCP, self.bytes.as_ref())
    }

    /// Tests the checksum.
    ///
    /// # Errors
    /// [`Error::BadChecksum`].
    pub fn verify_checksum(&self, pseudo_header: &PseudoHeader) -> Result<(), Error> {
        if self.compute_checksum(pseudo_header) == 0 { Ok(()) } else { Err(Error::BadChecksum) }
    }
}

/// Setters change their field only; the checksum is repaired by
/// [`update_checksum`](Segment::update_checksum) or
/// [`fill_checksum`](Segment::fill_checksum).
impl<T: AsRef<[u8]> + AsMut<[u8]>> Segment<T> {
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

    /// Sets the sequence number.
    #[inline]
    pub fn set_sequence(&mut self, sequence: u32) {
        put_u32(self.bytes.as_mut(), field::SEQUENCE, sequence);
    }

    /// Sets the acknowledgment number.
    #[inline]
    pub fn set_acknowledgment(&mut self, acknowledgment: u32) {
        put_u32(self.bytes.as_mut(), field::ACKNOWLEDGMENT, acknowledgment);
    }

    /// Sets the control bits.
    #[inline]
    pub fn set_flags(&mut self, flags: Flags) {
        self.bytes.as_mut()[field::FLAGS] = flags.0;
    }

    /// Sets the receive window.
    #[inline]
    pub fn set_window(&mut self, window: u16) {
        put_u16(self.bytes.as_mut(), field::WINDOW, window);
    }

    /// Sets the checksum.
    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        put_u16(self.bytes.as_mut(), field::CHECKSUM, checksum);
    }

    /// Sets where urgent data ends.
    #[inline]
    pub fn set_urgent_pointer(&mut self, pointer: u16) {
        put_u16(self.bytes.as_mut(), field::URGENT_POINTER, pointer);
    }

    /// Computes the checksum.
    #[inline]
    pub fn fill_checksum(&mut self, pseudo_header: &PseudoHeader) {
        self.set_checksum(0);
        let checksum = self.compute_checksum(pseudo_header);
        self.set_checksum(checksum);
    }

    /// Repairs the checksum after fields that it covers changed.
    #[inline]
    pub fn update_checksum(&mut self, change: Change) {
        self.set_checksum(change.apply(self.checksum()));
    }

    /// Options with their padding.
    #[inline]
    pub fn options_mut(&mut self) -> &mut [u8] {
        let range = MIN_HEADER_LENGTH..self.header_length();
        self.bytes.as_mut().get_mut(range).unwrap_or_default()
    }

    /// What the segment carries.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let start = self.header_length();
        self.bytes.as_mut().get_mut(start..).unwrap_or_default()
    }
}

impl<T: AsRef<[u8]>> fmt::Display for Segment<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Repr::parse(self).fmt(f)
    }
}

/// A header as a value, without reserved bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Sequence number of the first octet of data.
    pub sequence: u32,
    /// Next sequence number that the sender waits for.
    pub acknowledgment: u32,
    /// Control bits.
    pub flags: Flags,
    /// Receive window, not scaled.
    pub window: u16,
    /// Where urgent data ends, from the sequence number on.
    pub urgent_pointer: u16,
    /// Options, padded.
    pub options: Options,
}

impl Repr {
    /// The header of a segment.
    pub fn parse<T: AsRef<[u8]>>(segment: &Segment<T>) -> Self {
        Self {
            source_port: segment.source_port(),
            destination_port: segment.destination_port(),
            sequence: segment.sequence(),
            acknowledgment: segment.acknowledgment(),
            flags: segment.flags(),
            window: segment.window(),
            urgent_pointer: segment.urgent_pointer(),
            options: Options::new(segment.options()).unwrap_or_default(),
        }
    }

    /// Octets that [`emit`](Self::emit) writes: the header with options.
    #[inline]
    pub fn buffer_len(&self) -> usize {
        MIN_HEADER_LENGTH + self.options.as_bytes().len()
    }

    /// Writes the header with a checksum of 0 to the front of the buffer.
    ///
    /// # Errors
    /// [`Error::BufferTooShort`] below [`buffer_len`](Self::buffer_len) octets.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let header_length = self.buffer_len();
        let bytes = header(buffer, header_length)?;
        bytes[field::DATA_OFFSET] = ((header_length / 4) as u8) << 4;
        bytes[MIN_HEADER_LENGTH..].copy_from_slice(self.options.as_bytes());
        let mut segment = Segment { bytes };
        segment.set_source_port(self.source_port);
        segment.set_destination_port(self.destination_port);
        segment.set_sequence(self.sequence);
        segment.set_acknowledgment(self.acknowledgment);
        segment.set_flags(self.flags);
        segment.set_window(self.window);
        segment.set_urgent_pointer(self.urgent_pointer);
        segment.set_checksum(0);
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source_port, destination_port, flags, sequence, acknowledgment, .. } = self;
        write!(f, "tcp {source_port} > {destination_port} {flags}")?;
        write!(f, " sequence {sequence} acknowledgment {acknowledgment} window {}", self.window)
    }
}

#[cfg(test)]
mod tests;
