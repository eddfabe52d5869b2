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
    let (pairs, last) = rest.as_chunks::<2>();
    for pair in pairs {
        total = add64(total, u64::from(u16::from_ne_bytes(*pair)));
    }
    if let [last] = last {
        total = add64(total, u64::from(u16::from_ne_bytes([*last, 0])));
    }
    u16::from_be(fold(total))
}

/// The [`sum`] of an IPv4 header without options: on the way of every packet,
/// so without a loop.
#[inline(always)]
pub fn sum20(header: &[u8; 20]) -> u16 {
    let (words, _) = header.as_chunks::<4>();
    let total: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    u16::from_be(fold(total))
}

/// The [`sum`] of words of 32 bits, in host order: of a header that is about to be written.
#[inline(always)]
pub fn sum_of_words<const COUNT: usize>(words: [u32; COUNT]) -> u16 {
    fold(words.into_iter().map(u64::from).sum())
}

#[inline]
fn add64(left: u64, right: u64) -> u64 {
    let (total, carry) = left.overflowing_add(right);
    // No second carry: a sum that overflowed is at most 2^64 - 2.
    total + u64::from(carry)
}

#[inline]
const fn fold(total: u64) -> u16 {
    // Each half is added to the other: the upper one then has the carry of the lower one.
    let total = total.wrapping_add(total.rotate_left(32));
    let half = (total >> 32) as u32;
    (half.wrapping_add(half.rotate_left(16)) >> 16) as u16
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

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;
    use crate::testing::{hex, word};

    /// Word by word, as RFC 1071 §4.1 has it.
    fn plain_sum(bytes: &[u8]) -> u16 {
        let mut total: u32 = 0;
        for pair in bytes.chunks(2) {
            total += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            total = (total & 0xffff) + (total >> 16);
        }
        total as u16
    }

    fn octets(words: &[u16]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn sum_of_rfc_1071_section_3() {
        assert_eq!(sum(&hex("0001 f203 f4f5 f6f7")), 0xddf2);
    }

    #[test]
    fn sum_of_the_longest_packet_does_not_overflow() {
        assert_eq!(sum(&[0xff; 65535]), plain_sum(&[0xff; 65535]));
        assert_eq!(sum(&[]), 0);
        assert_eq!(sum(&[0xab]), 0xab00);
    }

    #[test]
    fn update_of_rfc_1624_section_4() {
        assert_eq!(update16(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn both_zeros_are_told_apart_as_a_full_computation_does() {
        for (old, new) in [(0, 0xffff), (0xffff, 0), (0, 0), (0xffff, 0xffff), (0xbaff, 0)] {
            let before = of(&octets(&[0x4500, old]));
            assert_eq!(update16(before, old, new), of(&octets(&[0x4500, new])), "{old} {new}");
        }
    }

    /// TCP has no checksum that says there is none: the repaired one is that of a full
    /// computation, 0 included, from every checksum there is.
    #[test]
    fn tcp_checksums_are_those_of_a_full_computation() {
        let edges = [0, 1, 0x7fff, 0x8000, 0xfffe, 0xffff, 0x1234, 0xedcb];
        for rest in 1..=0xffff_u16 {
            for (old, new) in edges.iter().flat_map(|old| edges.map(|new| (*old, new))) {
                let before = of(&octets(&[rest, old]));
                let after = of(&octets(&[rest, new]));
                assert_eq!(update16(before, old, new), after, "{rest:#x}: {old:#x} to {new:#x}");
                // A sender that writes 0xffff for 0, as Linux does, is set right by any change of
                // the sum, in which 0 and 0xffff are one.
                if before == 0 && old % 0xffff != new % 0xffff {
                    assert_eq!(update16(0xffff, old, new), after, "{rest:#x}, sent as 0xffff");
                }
            }
        }
    }

    #[test]
    fn udp_zero_rules() {
        let change = Change::NONE.field16(1, 2);
        assert_eq!(change.apply_udp(0), 0);
        assert_eq!(udp(0), 0xffff);
        assert_eq!(udp(0x1234), 0x1234);
        // A change that would end in 0 is sent as 0xffff, and leads back again.
        let to_zero = Change::NONE.field16(0x0001, 0x1235);
        assert_eq!(to_zero.apply(0x1234), 0);
        assert_eq!(to_zero.apply_udp(0x1234), 0xffff);
        assert_eq!(Change::NONE.field16(0x1235, 0x0001).apply_udp(0xffff), 0x1234);
    }

    #[test]
    fn pseudo_headers() {
        let v4 = PseudoHeader::V4 {
            source: Ipv4Addr::new(192, 0, 2, 1),
            destination: Ipv4Addr::new(198, 51, 100, 2),
        };
        assert_eq!(v4.sum(Protocol::UDP, 12), plain_sum(&hex("c0000201 c6336402 00 11 000c")));
        let v6 = PseudoHeader::V6 {
            source: "2001:db8::1".parse().unwrap(),
            destination: "2001:db8::2".parse().unwrap(),
        };
        let bytes = hex("20010db8000000000000000000000001 20010db8000000000000000000000002 \
             00010000 000000 06");
        assert_eq!(v6.sum(Protocol::TCP, 65536), plain_sum(&bytes));
    }

    proptest! {
        #[test]
        fn sum_is_that_of_words(bytes in vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(sum(&bytes), plain_sum(&bytes));
        }

        #[test]
        fn incremental_is_full(
            mut words in vec(word(), 2..20),
            place in any::<Index>(),
            new in word(),
        ) {
            words[0] |= 1; // Not all zero, as no header is.
            let place = 1 + place.index(words.len() - 1);
            let before = of(&octets(&words));
            let old = std::mem::replace(&mut words[place], new);
            let full = of(&octets(&words));
            prop_assert_eq!(update16(before, old, new), full);
            let change = Change::NONE.field16(old, new);
            prop_assert_eq!(change.apply_udp(udp(before)), udp(full));
        }

        #[test]
        fn longer_changes_are_many_short_ones(
            old in vec(word(), 8..=8),
            new in vec(word(), 8..=8),
            rest in 1_u16..,
        ) {
            let before = of(&octets(&[&old[..], &[rest]].concat()));
            let after = of(&octets(&[&new[..], &[rest]].concat()));
            prop_assert_eq!(update_bytes(before, &octets(&old), &octets(&new)), after);
            let pair = |words: &[u16], at: usize| {
                u32::from(words[at]) << 16 | u32::from(words[at + 1])
            };
            let mut checksum = before;
            for at in [0, 2, 4, 6] {
                checksum = update32(checksum, pair(&old, at), pair(&new, at));
            }
            prop_assert_eq!(checksum, after);
        }
    }
}
