//! How bursts are distributed: by their packets, and by the time they take. Each burst costs a
//! counter, and no packet anything.

use crate::counters::Counter;

/// Bursts by their packets: those of 1, of 2, of up to 4, 8, 16, 32, and more.
#[derive(Debug, Default)]
pub struct BurstSizes([Counter; BurstSizes::BOUNDS.len() + 1]);

impl BurstSizes {
    /// Most packets of the bursts that are counted together; the last ones have more.
    pub const BOUNDS: [u64; 6] = [1, 2, 4, 8, 16, 32];

    /// Counts a burst of so many packets, at least one.
    #[inline(always)]
    pub fn note(&self, packets: usize) {
        let power = (usize::BITS - packets.saturating_sub(1).leading_zeros()) as usize;
        self.0[power.min(Self::BOUNDS.len())].add(1);
    }

    /// All bursts.
    pub fn total(&self) -> u64 {
        self.0.iter().map(Counter::get).sum()
    }

    /// Bursts between one bound and the next, in their order.
    pub fn get(&self) -> Vec<u64> {
        self.0.iter().map(Counter::get).collect()
    }
}

/// Bursts by the time from their reception until their last packet was given to a device.
#[derive(Debug, Default)]
pub struct BurstTimes {
    bursts: [Counter; BurstTimes::BOUNDS.len() + 1],
    sum: Counter,
}

impl BurstTimes {
    /// Longest times of the bursts that are counted together, in nanoseconds; the last ones
    /// take longer.
    pub const BOUNDS: [u64; 15] = [
        1_000,
        2_500,
        5_000,
        10_000,
        25_000,
        50_000,
        100_000,
        250_000,
        500_000,
        1_000_000,
        2_500_000,
        5_000_000,
        10_000_000,
        25_000_000,
        100_000_000,
    ];

    /// Counts a burst that took so many nanoseconds.
    pub fn note(&self, time: u64) {
        self.bursts[Self::BOUNDS.partition_point(|bound| *bound < time)].add(1);
        self.sum.add(time);
    }

    /// Bursts between one bound and the next, in their order, and the sum of their times.
    pub fn get(&self) -> (Vec<u64>, u64) {
        (self.bursts.iter().map(Counter::get).collect(), self.sum.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_counted_at_the_bounds_of_their_sizes() {
        for packets in 1..=64 {
            let sizes = BurstSizes::default();
            sizes.note(packets);
            let bucket = sizes.get().iter().position(|count| *count == 1).expect("it is counted");
            let above = BurstSizes::BOUNDS.get(bucket).is_none_or(|most| packets as u64 <= *most);
            let below = bucket == 0 || packets as u64 > BurstSizes::BOUNDS[bucket - 1];
            assert!(above && below && sizes.total() == 1, "{packets} in {bucket}");
        }
    }

    #[test]
    fn times_are_counted_at_their_bounds() {
        let times = BurstTimes::default();
        for time in [0, 1_000, 1_001, 100_000_000, u64::from(u32::MAX)] {
            times.note(time);
        }
        let (bursts, sum) = times.get();
        assert_eq!((bursts[0], bursts[1], bursts[14], bursts[15]), (2, 1, 1, 1));
        assert_eq!(sum, 100_002_001 + u64::from(u32::MAX));
    }
}
