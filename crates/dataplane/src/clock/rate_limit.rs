//! A token bucket for packets that the node sends of its own accord, so that
//! what it is sent cannot make it flood a link.

use std::num::NonZeroU32;

const NANOSECONDS: u64 = 1_000_000_000;

/// How much a token bucket lets pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Tokens per second; 0 lets nothing pass.
    pub rate: u32,
    /// Tokens that it holds.
    pub burst: u32,
}

/// A token bucket that is full at first.
///
/// It keeps no tokens but the moment at which the bucket will be full again
/// (the virtual scheduling of ITU-T I.371), so time is all that it computes
/// with.
#[derive(Clone, Copy, Debug)]
pub struct RateLimit {
    /// Nanoseconds that one token takes to come.
    interval: u64,
    /// How long before the bucket is full there is a token left, in nanoseconds.
    tolerance: u64,
    /// When the bucket will be full, in nanoseconds.
    full_at: u64,
}

impl RateLimit {
    /// A bucket that gets `rate` tokens per second and holds `burst`.
    pub const fn new(rate: NonZeroU32, burst: NonZeroU32) -> Self {
        let interval = NANOSECONDS / rate.get() as u64;
        Self { interval, tolerance: interval * (burst.get() as u64 - 1), full_at: 0 }
    }

    /// Takes a token if there is one at the moment `now`, in nanoseconds.
    pub fn take(&mut self, now: u64) -> bool {
        let full_at = self.full_at.max(now);
        if full_at - now > self.tolerance {
            return false;
        }
        self.full_at = full_at.saturating_add(self.interval);
        true
    }
}

impl From<Rate> for RateLimit {
    fn from(Rate { rate, burst }: Rate) -> Self {
        match (NonZeroU32::new(rate), NonZeroU32::new(burst)) {
            (Some(rate), Some(burst)) => Self::new(rate, burst),
            // It will never be full, so there is never a token.
            _ => Self { interval: 0, tolerance: 0, full_at: u64::MAX },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limit(rate: u32, burst: u32) -> RateLimit {
        RateLimit::new(NonZeroU32::new(rate).unwrap(), NonZeroU32::new(burst).unwrap())
    }

    fn taken_at(limit: &mut RateLimit, now: u64) -> usize {
        (0..1000).filter(|_| limit.take(now)).count()
    }

    #[test]
    fn a_burst_and_then_the_rate() {
        let mut limit = limit(100, 50);
        assert_eq!(taken_at(&mut limit, 0), 50);
        assert_eq!(taken_at(&mut limit, NANOSECONDS / 100 - 1), 0);
        assert_eq!(taken_at(&mut limit, NANOSECONDS / 100), 1);
        assert_eq!(taken_at(&mut limit, NANOSECONDS / 10), 9);
    }

    #[test]
    fn silence_saves_no_more_than_a_burst() {
        let mut limit = limit(10, 3);
        assert_eq!(taken_at(&mut limit, 5 * NANOSECONDS), 3);
        assert_eq!(taken_at(&mut limit, 500 * NANOSECONDS), 3);
    }

    #[test]
    fn a_rate_of_nothing_lets_nothing_pass() {
        for (rate, burst) in [(0, 5), (5, 0)] {
            let mut limit = RateLimit::from(Rate { rate, burst });
            assert_eq!(taken_at(&mut limit, 0) + taken_at(&mut limit, u64::MAX / 2), 0);
        }
    }

    proptest! {
        #[test]
        fn never_more_than_burst_and_rate_together(
            rate in 1u32..1000,
            burst in 1u32..100,
            mut moments in proptest::collection::vec(0..10 * NANOSECONDS, 1..500),
        ) {
            moments.sort_unstable();
            let mut limit = limit(rate, burst);
            let taken = moments.iter().filter(|now| limit.take(**now)).count() as u64;
            let interval = NANOSECONDS / u64::from(rate);
            let elapsed = moments[moments.len() - 1] - moments[0];
            prop_assert!(taken <= u64::from(burst) + elapsed / interval);
            prop_assert!(taken >= u64::from(burst).min(moments.len() as u64));
        }
    }
}
