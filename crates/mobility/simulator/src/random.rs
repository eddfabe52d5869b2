//! Numbers drawn at random, the same ones for the same seed.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A sequence of numbers that follows from its seed.
#[derive(Clone, Debug)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Random {
        Random(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A number from `low` to below `high`; `low` when there is none.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        let span = u128::from(high.saturating_sub(low));
        low + ((u128::from(self.0.next_u64()) * span) >> 64) as u64
    }

    /// True so many times in a thousand.
    pub fn one_in_thousand(&mut self, times: u64) -> bool {
        times > 0 && self.between(0, 1000) < times
    }

    /// One of them; `None` when there is none.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        of.get(self.between(0, of.len() as u64) as usize).copied()
    }
}
