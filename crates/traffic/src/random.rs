//! Numbers drawn at random, the same ones for the same seed.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A sequence of numbers that follows from its seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Random {
        Random(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A number below `bound`, or 0 when there is none. The highest of 2³²
    /// values may come less often by one part in 2³².
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.0.next_u32()) * u64::from(bound)) >> 32) as u32
    }

    /// A number above 0 and at most 1.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        const STEPS: f64 = (1_u64 << 53) as f64;
        ((self.0.next_u64() >> 11) + 1) as f64 / STEPS
    }

    /// A number with exponential distribution and mean 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -self.unit().ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_sequence() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            [random.below(1000), random.below(1000), random.below(1000)]
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn numbers_lie_where_they_should() {
        let mut random = Random::new(7);
        let mut counts = [0_u32; 5];
        (0..50_000).for_each(|_| counts[random.below(5) as usize] += 1);
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        assert_eq!(random.below(0), 0);
        let mean = (0..50_000).map(|_| random.exponential()).sum::<f64>() / 50_000.0;
        assert!((0.97..1.03).contains(&mean), "{mean}");
    }
}
