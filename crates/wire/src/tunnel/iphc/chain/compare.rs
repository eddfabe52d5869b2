//! What of headers may change within a flow.

use super::random::Octets;
use super::{Chain, Layer, Transport};

/// Sets of octets, the first in the lowest bit: those of a header that are sent or
/// inferred.
mod volatile {
    /// Length, identification, checksum.
    pub const IPV4: u64 = 0b1100_0011_1100;
    /// Length.
    pub const IPV6: u64 = 0b11_0000;
    /// Length, checksum.
    pub const UDP: u64 = 0b1111_0000;
}

impl Chain {
    /// Octets that are compared: TCP up to its ports.
    #[inline]
    fn compared(&self) -> usize {
        match self.transport {
            Transport::Tcp => self.transport_offset() + 4,
            _ => self.length(),
        }
    }

    /// Whether no NOCHANGE octet differs between `old`, a chain of this or
    /// another form, and `new`; one of them is of this form. In front of TCP the
    /// ECN bits of the last IP header may differ, which a compressed header has
    /// room for.
    ///
    /// Without TCP the two are of one form then, since what tells the form is
    /// NOCHANGE.
    #[inline]
    pub fn unchanged(&self, old: &[u8], new: &[u8]) -> bool {
        if self.is_special() {
            return self.special_unchanged(old, new);
        }
        let end = self.compared();
        let (Some(old), Some(new)) = (old.get(..end), new.get(..end)) else { return false };
        for (block, (one, other)) in old.chunks(64).zip(new.chunks(64)).enumerate() {
            let changed = differing(one, other);
            if changed != 0 && !self.may_differ(changed, block * 64, old, new) {
                return false;
            }
        }
        self.same_udp(old, new)
    }

    /// Whether a packet that begins with `new` has headers of this form, in which
    /// no NOCHANGE octet differs from `old`, headers of this form.
    #[inline]
    pub fn is_of(&self, old: &[u8], new: &[u8]) -> bool {
        let same_length = || {
            let at = self.transport_offset() + 12;
            let length = |header: &[u8]| header.get(at).map(|octet| octet >> 4);
            self.transport != Transport::Tcp || length(old) == length(new)
        };
        new.len() >= self.length() && self.unchanged(old, new) && same_length()
    }

    /// Whether the ECN bits of the last IP header are the same in two headers of
    /// this form.
    #[inline]
    pub fn same_ecn(&self, old: &[u8], new: &[u8]) -> bool {
        let Some((at, shift)) = self.ecn() else { return true };
        let ecn = |header: &[u8]| header.get(at).map(|octet| octet >> shift & 3);
        ecn(old) == ecn(new)
    }

    /// The same where headers or extension headers are sent as they are: forms are
    /// told by walking both.
    #[cold]
    fn special_unchanged(&self, old: &[u8], new: &[u8]) -> bool {
        let is_it = |bytes: &[u8]| {
            let form = Chain::walk(bytes);
            form.is_some_and(|form| Chain { length: self.length, ..form } == *self)
        };
        let end = self.compared();
        let (true, Some(old), Some(new)) =
            (is_it(old) && is_it(new), old.get(..end), new.get(..end))
        else {
            return false;
        };
        let volatile = self.may_change(old);
        let ecn = self.ecn().filter(|_| self.transport == Transport::Tcp);
        let fixed = |at: usize| match ecn {
            Some((place, shift)) if place == at => !(3 << shift),
            _ if volatile.has(at) => 0,
            _ => 0xff,
        };
        let changed = |at: &usize| (old[*at] ^ new[*at]) & fixed(*at) != 0;
        volatile == self.may_change(new)
            && !(0..end).any(|at| changed(&at))
            && self.same_udp(old, new)
    }

    /// The octets of headers of this form that are sent or inferred.
    fn may_change(&self, header: &[u8]) -> Octets {
        let mut octets = self.sent(header, true);
        for layer in self.layers() {
            let at = layer.length_field();
            octets.add(at..at + 2);
            if layer.0 & Layer::KIND == 0 {
                octets.add(layer.offset() + 10..layer.offset() + 12);
            }
        }
        if self.transport == Transport::Udp {
            octets.add(self.transport_offset() + 4..self.transport_offset() + 6);
        }
        octets
    }

    /// Whether octets may differ: a set of them, of the 64 from a place on.
    #[inline]
    fn may_differ(&self, changed: u64, from: usize, old: &[u8], new: &[u8]) -> bool {
        let fixed = changed & !self.volatile(from);
        if fixed == 0 {
            return true;
        }
        let Some((at, shift)) = self.ecn() else { return false };
        self.transport == Transport::Tcp
            && at.checked_sub(from).is_some_and(|place| place < 64 && fixed == 1 << place)
            && (old[at] ^ new[at]) & !(3 << shift) == 0
    }

    /// The octets that are sent or inferred, of the 64 from a place on.
    #[inline]
    fn volatile(&self, from: usize) -> u64 {
        let placed = |set: u64, at: usize| match at.checked_sub(from) {
            Some(ahead) => set.checked_shl(ahead as u32).unwrap_or(0),
            None => set.checked_shr((from - at) as u32).unwrap_or(0),
        };
        let udp = match self.transport {
            Transport::Udp => placed(volatile::UDP, self.transport_offset()),
            _ => 0,
        };
        self.layers().iter().fold(udp, |all, layer| {
            let set = if layer.is_v6() { volatile::IPV6 } else { volatile::IPV4 };
            all | placed(set, layer.offset())
        })
    }

    /// A flow has UDP checksums or has none (RFC 2507 §7.11).
    #[inline]
    fn same_udp(&self, old: &[u8], new: &[u8]) -> bool {
        let Some(at) = self.udp_checksum() else { return true };
        let zero = |header: &[u8]| header.get(at..at + 2) == Some(&[0, 0]);
        zero(old) == zero(new)
    }
}

/// Which octets differ, of at most 64; their number is a multiple of four.
#[inline]
fn differing(one: &[u8], other: &[u8]) -> u64 {
    let (words, last) = one.as_chunks::<8>();
    let (other_words, other_last) = other.as_chunks::<8>();
    let (mut changed, mut place) = (0, 0);
    for (one, other) in words.iter().zip(other_words) {
        let word = u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other);
        if word != 0 {
            changed |= occupied(word) << place;
        }
        place += 8;
    }
    if let (Some(one), Some(other)) = (last.first_chunk(), other_last.first_chunk()) {
        let word = u32::from_le_bytes(*one) ^ u32::from_le_bytes(*other);
        changed |= occupied(word.into()) << place;
    }
    changed
}

/// Which octets of a word are not zero: the first is the lowest bit.
#[inline]
fn occupied(word: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let high = (((word & LOW) + LOW) | word) & !LOW;
    (high >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}
