//! Comparisons of simulated runs on a machine that is now quiet and now busy, as
//! guests of a hypervisor are: what a packet costs jumps by half and back within
//! milliseconds, and for some runs more often than for others.

use fastrand::Rng;

use super::{Comparison, Terms, Verdict};
use crate::machine::Machine;
use crate::results::{Better, Point, Results, Series};
use weft_rig::Slices;

/// Rounds of a run, and milliseconds of a trial.
const ROUNDS: usize = 8;
const MILLISECONDS: usize = 100;
/// Cycles of a millisecond.
const CYCLES: f64 = 2.5e6;

/// The machine: busy for a share of the time, which differs from run to run.
struct Noise {
    random: Rng,
    /// The share of time in which it is busy.
    share: f64,
    is_busy: bool,
    /// Milliseconds until that changes.
    left: usize,
}

impl Noise {
    fn new(seed: u64) -> Noise {
        let mut random = Rng::with_seed(seed);
        let share = 0.2 + 0.5 * random.f64();
        Noise { random, share, is_busy: false, left: 0 }
    }

    /// How much dearer packets are in the next millisecond.
    fn factor(&mut self) -> f64 {
        if self.left == 0 {
            self.is_busy = self.random.f64() < self.share;
            // From a millisecond to a quarter of a second, all scales alike.
            self.left = (250.0_f64).powf(self.random.f64()) as usize + 1;
        }
        self.left -= 1;
        let jitter = 0.01 * self.random.f64();
        match self.is_busy {
            true => 1.3 + 0.3 * self.random.f64() + jitter,
            false => 1.0 + jitter,
        }
    }

    /// The cost that a trial of such packets finds.
    fn trial(&mut self, cycles: f64) -> f64 {
        let mut slices = Slices::with(2 * CYCLES as u64, MILLISECONDS);
        for _ in 0..MILLISECONDS {
            let packets = CYCLES / (cycles * self.factor());
            slices.push(CYCLES as u64, packets as u64);
        }
        slices.cost(0.0).unwrap().undisturbed
    }
}

/// A run with six configurations, of a build that costs so many times as much.
fn run(seed: u64, factor: f64) -> Vec<Results> {
    let mut noise = Noise::new(seed);
    let mut series = Series::new("weft, cycles", "components", "cycles/packet");
    series.better = Some(Better::Lower);
    let mut raw = vec![Vec::new(); 6];
    for _ in 0..ROUNDS {
        for (place, raw) in raw.iter_mut().enumerate() {
            raw.push(noise.trial((200.0 + 50.0 * place as f64) * factor));
            // Nodes are built meanwhile.
            (0..50).for_each(|_| {
                noise.factor();
            });
        }
    }
    for (x, raw) in (0..).zip(raw) {
        series.points.push(Point::of(x, raw).unwrap());
    }
    let mut results = Results::new("function-overhead", Machine::default());
    results.series.push(series);
    vec![results]
}

/// Of so many pairs of runs, how many have this verdict.
fn count(pairs: u64, factor: f64, verdict: Verdict) -> usize {
    let of = |seed: &u64| {
        let (a, b) = (run(2 * seed, 1.0), run(2 * seed + 1, factor));
        Comparison::between(&a, &b, &Terms::default()).verdict() == verdict
    };
    (0..pairs).filter(of).count()
}

#[test]
fn equal_builds_do_not_differ_on_a_machine_that_is_busy_at_times() {
    let same = count(40, 1.0, Verdict::NoDifference);
    assert!(same >= 38, "{same} of 40");
}

#[test]
fn a_tenth_is_seen_through_noise_of_half() {
    let found = count(40, 1.1, Verdict::Regression);
    assert!(found >= 38, "{found} of 40");
    let faster = count(10, 1.0 / 1.1, Verdict::Improved);
    assert!(faster >= 9, "{faster} of 10");
}
