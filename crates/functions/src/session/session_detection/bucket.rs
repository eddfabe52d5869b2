//! Token buckets of maximum bit rates and packet rates, of one word of state each.
//!
//! A bucket is known by the time at which it will be full again. A packet passes if the
//! bucket would not lack more than its depth then: the generic cell rate algorithm (ITU-T
//! I.371 Annex A) as a token bucket.

use crate::session::rules::PacketRate;

/// Parts of a nanosecond that time is counted in, as a power of two.
const TICKS: u32 = 6;
/// Fractions of a tick that an octet costs, as a power of two.
const FRACTION: u32 = 24;
/// Octets that may pass at once, however low the rate is: one packet of any length that
/// ports send.
const LEAST_BURST: u64 = 9_216;

/// A bucket of octets; the default lets everything pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// When it is full, in ticks.
    pub full_at: u64,
    /// Ticks that an octet costs, as a fraction; 0 for nothing.
    pub per_octet: u64,
}

impl Bucket {
    /// A full bucket of a rate above 0, in kbit/s.
    pub fn of_rate(rate: u64) -> Bucket {
        // An octet is 8 bits; kbit/s are bits in a millisecond.
        let numerator = (8_u128 * 1_000_000) << (TICKS + FRACTION);
        let per_octet = numerator / u128::from(rate.max(1));
        Bucket { full_at: 0, per_octet: u64::try_from(per_octet).unwrap_or(u64::MAX).max(1) }
    }

    /// Whether a packet may pass at `now`, in nanoseconds; `burst` is the depth in nanoseconds.
    #[inline(always)]
    pub fn has_room(&self, now: u64, octets: u64, burst: u64) -> bool {
        let now = now << TICKS;
        let lack = self.full_at.saturating_sub(now).saturating_add(self.cost(octets));
        // Only at low rates the burst holds no packet of any length.
        lack <= burst << TICKS || lack <= self.cost(LEAST_BURST)
    }

    /// Takes the tokens of a packet.
    #[inline(always)]
    pub fn take(&mut self, now: u64, octets: u64) {
        self.full_at = self.full_at.max(now << TICKS).saturating_add(self.cost(octets));
    }

    #[inline(always)]
    fn cost(&self, octets: u64) -> u64 {
        let cost = (u128::from(octets) * u128::from(self.per_octet)) >> FRACTION;
        u64::try_from(cost).unwrap_or(u64::MAX)
    }

    /// The clock is another: it shows `now` in place of `then`.
    pub fn rebase(&mut self, then: u64, now: u64) {
        let lack = self.full_at.saturating_sub(then << TICKS);
        self.full_at = (now << TICKS).saturating_add(lack);
    }
}

/// A bucket of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketBucket {
    /// When it is full, in nanoseconds.
    pub full_at: u64,
}

impl PacketBucket {
    /// Whether one more packet may pass.
    pub fn has_room(&self, now: u64, rate: PacketRate) -> bool {
        let (cost, depth) = Self::of(rate);
        self.full_at.saturating_sub(now).saturating_add(cost) <= depth
    }

    /// Takes a packet's token.
    pub fn take(&mut self, now: u64, rate: PacketRate) {
        self.full_at = self.full_at.max(now).saturating_add(Self::of(rate).0);
    }

    /// What a packet costs, and what the bucket holds.
    fn of(rate: PacketRate) -> (u64, u64) {
        let depth = u64::from(rate.seconds) * 1_000_000_000;
        // No packet passes at a rate of 0.
        (depth.checked_div(rate.packets.into()).unwrap_or(u64::MAX), depth)
    }

    /// The clock is another: it shows `now` in place of `then`.
    pub fn rebase(&mut self, then: u64, now: u64) {
        self.full_at = now.saturating_add(self.full_at.saturating_sub(then));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Octets that pass in `seconds` at a rate, of packets that come at twice the rate.
    fn passed(rate: u64, length: u64, seconds: u64, burst: u64) -> u64 {
        let mut bucket = Bucket::of_rate(rate);
        let gap = length * 8 * 1_000_000 / rate / 2;
        let mut octets = 0;
        let mut now = 1_000_000_000;
        let end = now + seconds * 1_000_000_000;
        while now < end {
            if bucket.has_room(now, length, burst) {
                bucket.take(now, length);
                octets += length;
            }
            now += gap.max(1);
        }
        octets
    }

    #[test]
    fn a_rate_is_held_to_a_percent_beyond_the_burst() {
        for (rate, length) in [(128, 500), (1_000, 1_500), (20_000, 64), (10_000_000, 1_500)] {
            let seconds = if rate > 1_000_000 { 1 } else { 20 };
            let burst = 50_000_000;
            let octets = passed(rate, length, seconds, burst);
            let wanted = rate * 125 * seconds;
            let extra = (rate * 125 / 20).max(LEAST_BURST);
            assert!(octets >= wanted * 99 / 100, "{rate}: {octets} of {wanted}");
            assert!(octets <= wanted * 101 / 100 + extra, "{rate}: {octets} of {wanted}");
        }
    }

    #[test]
    fn a_bucket_keeps_its_lack_on_another_clock() {
        let mut bucket = Bucket::of_rate(8);
        bucket.take(1_000, 500);
        let mut moved = bucket;
        moved.rebase(1_000, 77_000_000_000);
        for (then, now) in [(1_000, 77_000_000_000_u64), (2_000_000_000, 78_999_999_000)] {
            assert_eq!(bucket.has_room(then, 9_000, 0), moved.has_room(now, 9_000, 0));
        }
    }

    #[test]
    fn packets_pass_at_their_rate() {
        let rate = PacketRate { packets: 10, seconds: 60 };
        let mut bucket = PacketBucket::default();
        let mut count = 0;
        for second in 0..120_u64 {
            let now = second * 1_000_000_000;
            if bucket.has_room(now, rate) {
                bucket.take(now, rate);
                count += 1;
            }
        }
        // Ten at once, and one each six seconds.
        assert!((29..=30).contains(&count), "{count}");
        assert!(!PacketBucket::default().has_room(0, PacketRate { packets: 0, seconds: 60 }));
    }
}
