//! How fast the core is at the moment.
//!
//! A guest does not see that its core is shared with the other thread of the
//! processor, or that its clock was lowered; neither is steal time. A fixed piece of
//! work, timed before and after each trial, tells: where it takes longer than it ever
//! took, so does everything else.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_dpdk::tsc;

/// Times that the work is done; the fastest counts, so no interrupt does.
const TIMES: u32 = 16;
/// Steps of the work: about 20 microseconds.
const STEPS: u64 = 16_384;

/// Slowness up to here is no disturbance: clocks vary by some hundredths.
const TOLERATED: f64 = 0.08;

/// The fastest that the work ever was.
#[derive(Debug)]
pub struct Probe {
    fastest: AtomicU64,
}

impl Probe {
    /// Nothing is known yet.
    pub fn new() -> Probe {
        Probe { fastest: AtomicU64::new(u64::MAX) }
    }

    /// How much slower than it ever was the calling thread's core is now, beyond
    /// what is tolerated: 0.5 is half as much time again.
    pub fn slowness(&self) -> f64 {
        let now = (0..TIMES).map(|_| time()).min().unwrap_or(u64::MAX);
        let fastest = self.fastest.fetch_min(now, Ordering::Relaxed).min(now);
        (now as f64 / fastest.max(1) as f64 - 1.0 - TOLERATED).max(0.0)
    }
}

/// Cycles of work that keeps all of a core busy: four chains of multiplications
/// side by side, which get half of the multiplier when another thread shares it.
fn time() -> u64 {
    let start = tsc::now();
    let mut chains = [1_u64, 2, 3, 4];
    for step in 0..STEPS {
        for chain in &mut chains {
            *chain = chain.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ step;
        }
    }
    black_box(chains);
    tsc::now().wrapping_sub(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_look_is_the_fastest_so_far() {
        let probe = Probe::new();
        assert_eq!(probe.slowness(), 0.0);
        assert_ne!(probe.fastest.into_inner(), u64::MAX);
    }

    #[test]
    fn what_was_faster_before_is_slow_now() {
        let probe = Probe { fastest: AtomicU64::new(1) };
        assert!(probe.slowness() > 1.0);
    }
}
