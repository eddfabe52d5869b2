//! The Internet checksum: in full (RFC 1071), and repaired in place (RFC 1624).
//!
//! A *sum* is the ones-complement sum of 16-bit words; a *checksum* is its
//! complement, as it stands in a header. Both are in host order.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::Protocol;

/// Ones-complement sum of the bytes as big-endian 16-bit words; an odd last
/// byte counts as if a zero followed.
#[inline]
pub fn sum(bytes: &[u8]) -> u16 {
    // The sum of words in either byte order has the same bytes (RFC 1071 §2 B),
    // so words are added as they lie in memory and the sum is turned at the end.
    let (words, rest) = bytes.as_chunks::<8>();
    let mut total = 0;
    for word in words {
        total = add64(total, u64::from_ne_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    u16::from_be(fold(add64(total, u64::from_ne_bytes(last))))
}

#[inline]
fn add64(left: u64, right: u64) -> u64 {
    let (total, carry) = left.overflowing_add(right);
    // No second carry: a sum that overflowed is at most 2^64 - 2.
    total + u64::from(carry)
}

#[inline]
const fn fold(total: u64) -> u16 {
    let total = (total >> 32) + (total & 0xffff_ffff);
    let total = (total >> 16) + (total & 0xffff);
    let total = (total >> 16) + (total & 0xffff);
    ((total >> 16) + (total & 0xffff)) as u16
}

/// Ones-complement sum of two sums.
#[inline]
pub const fn add(left: u16, right: u16) -> u16 {
    let (total, carry) = left.overflowing_add(right);
    total + carry as u16
}

/// The checksum of the bytes: the complement of their [`sum`]. Over bytes with
/// their own checksum in place it is 0 when that is right.
#[inline]
pub fn of(bytes: &[u8]) -> u16 {
    !sum(bytes)
}

/// What TCP, UDP and ICMPv6 checksums cover of the IP header
/// (RFC 9293 §3.1, RFC 768, RFC 8200 §8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PseudoHeader {
    /// Over IPv4.
    V4 {
        /// Source address.
        source: Ipv4Addr,
        /// Destination address.
        destination: Ipv4Addr,
    },
    /// Over IPv6.
    V6 {
        /// Source address.
        source: Ipv6Addr,
        /// Final destination: behind a routing header, its last address.
        destination: Ipv6Addr,
    },
}

impl PseudoHeader {
    /// Sum of the pseudo-header for a transport packet of `length` octets.
    #[inline]
    pub fn sum(&self, protocol: Protocol, length: usize) -> u16 {
        let addresses = match self {
            Self::V4 { source, destination } => {
                add(sum(&source.octets()), sum(&destination.octets()))
            }
            Self::V6 { source, destination } => {
                add(sum(&source.octets()), sum(&destination.octets()))
            }
        };
        add(addresses, add(fold(length as u64), u16::from(protocol.0)))
    }

    /// Checksum over the pseudo-header and a whole transport packet.
    #[inline]
    pub fn checksum(&self, protocol: Protocol, bytes: &[u8]) -> u16 {
        !add(self.sum(protocol, bytes.len()), sum(bytes))
    }
}

/// Fields that changed, gathered so that every checksum that covers them can be
/// repaired without reading the packet again.
///
/// ```
/// use weft_wire::checksum::Change;
///
/// // TTL 64 -> 63 beside protocol 17, in a header whose checksum was 0xb861.
/// assert_eq!(Change::NONE.field16(0x4011, 0x3f11).apply(0xb861), 0xb961);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change(u16);

impl Change {
    /// Nothing changed.
    pub const NONE: Self = Self(0);

    /// And a field of 16 bits, at an even offset.
    #[inline]
    pub const fn field16(self, old: u16, new: u16) -> Self {
        Self(add(self.0, add(!old, new)))
    }

    /// And a field of 32 bits, at an even offset.
    #[inline]
    pub const fn field32(self, old: u32, new: u32) -> Self {
        self.field16((old >> 16) as u16, (new >> 16) as u16).field16(old as u16, new as u16)
    }

    /// And bytes at an even offset, such as an address. Both sides have the
    /// same even length; what one has more than the other counts as zeros.
    #[inline]
    pub fn bytes(self, old: &[u8], new: &[u8]) -> Self {
        Self(add(self.0, add(!sum(old), sum(new))))
    }

    /// The repaired checksum: `HC' = ~(~HC + ~m + m')` (RFC 1624 §3).
    ///
    /// Equal to a full computation, unless all that the checksum covers is zero.
    #[inline]
    pub const fn apply(self, checksum: u16) -> u16 {
        !add(!checksum, self.0)
    }

    /// As [`apply`](Self::apply) under UDP's rules: 0 says that there is no
    /// checksum and stays, and a checksum that comes out as 0 is sent as 0xffff
    /// (RFC 768).
    #[inline]
    pub const fn apply_udp(self, checksum: u16) -> u16 {
        if checksum == 0 { 0 } else { udp(self.apply(checksum)) }
    }
}

/// A computed checksum as UDP sends it: 0 becomes 0xffff (RFC 768).
#[inline]
pub const fn udp(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

/// The checksum after one field of 16 bits changed; see [`Change::apply`].
#[inline]
pub const fn update16(checksum: u16, old: u16, new: u16) -> u16 {
    Change::NONE.field16(old, new).apply(checksum)
}

/// The checksum after one field of 32 bits changed; see [`Change::apply`].
#[inline]
pub const fn update32(checksum: u16, old: u32, new: u32) -> u16 {
    Change::NONE.field32(old, new).apply(checksum)
}

/// The checksum after bytes of an even length changed; see [`Change::bytes`].
#[inline]
pub fn update_bytes(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    Change::NONE.bytes(old, new).apply(checksum)
}
