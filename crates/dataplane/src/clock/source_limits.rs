//! Token buckets for senders, in a table that does not grow with their number.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use super::rate_limit::{Rate, RateLimit};

/// A token bucket for each sender. There are as many buckets as were asked for, and an
/// address finds its own by a hash with a seed: who does not know the seed cannot choose
/// an address that takes away the tokens of another.
#[derive(Debug)]
pub struct SourceLimits {
    buckets: Box<[RateLimit]>,
    seed: RandomState,
}

impl SourceLimits {
    /// So many buckets, rounded up to a power of two, that each let pass `rate`.
    pub fn new(buckets: u32, rate: Rate) -> SourceLimits {
        let count = buckets.max(1).next_power_of_two() as usize;
        let buckets = vec![RateLimit::from(rate); count].into_boxed_slice();
        SourceLimits { buckets, seed: RandomState::new() }
    }

    /// Takes a token of a sender if there is one at the moment `now`, in nanoseconds.
    pub fn take(&mut self, sender: IpAddr, now: u64) -> bool {
        let last = self.buckets.len() - 1;
        self.buckets[self.seed.hash_one(sender) as usize & last].take(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    #[test]
    fn a_sender_has_its_burst_whatever_another_has_taken() {
        let mut limits = SourceLimits::new(1 << 12, Rate { rate: 10, burst: 3 });
        let taken = |limits: &mut SourceLimits, who| {
            (0..1000).filter(|_| limits.take(address(who), 0)).count()
        };
        assert_eq!(taken(&mut limits, 1), 3);
        // Two of them may share a bucket, but hardly all.
        assert!((2..20).filter(|who| taken(&mut limits, *who) == 3).count() > 10);
    }

    #[test]
    fn senders_without_number_share_what_buckets_there_are() {
        let mut limits = SourceLimits::new(60, Rate { rate: 1, burst: 2 });
        let all = (0..100_000).filter(|who| limits.take(address(*who), 0)).count();
        assert_eq!(all, 64 * 2);
    }
}
