//! Maximum bit rates that rules of several sessions share (QER Correlation ID, 3GPP TS 29.244
//! §8.2.10). The sessions may be of several workers, so these buckets are atomics; only packets
//! of rules with such a number meet them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::bucket::Bucket;

/// Buckets of both directions, uplink and downlink.
#[derive(Debug, Default)]
pub struct SharedBuckets {
    full_at: [AtomicU64; 2],
}

impl SharedBuckets {
    /// The bucket of a direction, with the rate of one of the rules.
    pub fn like(&self, direction: usize, own: &Bucket) -> Bucket {
        Bucket { full_at: self.full_at[direction].load(Ordering::Relaxed), ..*own }
    }

    /// Takes the tokens of a packet.
    pub fn take(&self, direction: usize, own: &Bucket, now: u64, octets: u64) {
        let taken = |full_at| {
            let mut bucket = Bucket { full_at, ..*own };
            bucket.take(now, octets);
            Some(bucket.full_at)
        };
        // The change never fails, as there always is a next value.
        let _ = self.full_at[direction].fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken);
    }
}

/// Those that are in use. Rules come with them and go without a word, so what is left of them is
/// cleared away once there are twice as many as were in use the last time.
#[derive(Default)]
struct Known {
    buckets: HashMap<u64, Weak<SharedBuckets>>,
    bound: usize,
}

/// The buckets of a number.
pub fn of(correlation: u64) -> Arc<SharedBuckets> {
    static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(shared) = known.buckets.get(&correlation).and_then(Weak::upgrade) {
        return shared;
    }
    if known.buckets.len() >= known.bound {
        known.buckets.retain(|_, one| one.strong_count() > 0);
        known.bound = 64.max(known.buckets.len() * 2);
    }
    let shared = Arc::new(SharedBuckets::default());
    known.buckets.insert(correlation, Arc::downgrade(&shared));
    shared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_one_number_share_what_they_take() {
        let rate = Bucket::of_rate(800);
        let (one, other, third) = (of(77), of(77), of(78));
        // 10,000 octets are 100 ms of the rate.
        one.take(0, &rate, 0, 10_000);
        assert!(!other.like(0, &rate).has_room(0, 1_000, 100_000_000));
        assert!(other.like(1, &rate).has_room(0, 1_000, 100_000_000));
        assert!(third.like(0, &rate).has_room(0, 1_000, 100_000_000));
        assert!(other.like(0, &rate).has_room(20_000_000, 1_000, 100_000_000));
        // It lasts as long as a rule has it.
        drop((one, other));
        assert!(of(77).like(0, &rate).has_room(0, 1_000, 100_000_000));
    }

    #[test]
    fn numbers_that_no_rule_has_are_forgotten() {
        let first = of(1 << 40);
        for number in 0..10_000 {
            drop(of(1 << 41 | number));
        }
        assert!(Arc::ptr_eq(&first, &of(1 << 40)));
    }
}
