//! What a packet costs, three ways.
//!
//! What a machine does beside a trial (the other thread of a core, an interrupt, a
//! clock that is lowered, a hypervisor) makes a packet dearer and never cheaper, and
//! it comes and goes within milliseconds. So a trial is cut into slices. The headline is
//! the mean over the whole trial, less only what the kernel says was taken from it. The
//! median of the slices stands beside it, and a low percentile of them as the cost while
//! nothing disturbs: what is so rare that it falls into few slices is not seen in that.

use std::ops::Sub;
use std::time::Duration;

use weft_dpdk::tsc;

use crate::statistics;

/// How long a slice is: hundreds of times what it takes to look at the counters.
pub const SLICE: Duration = Duration::from_millis(2);

/// The percentile of the slices that is undisturbed: low enough that one quiet slice in
/// twenty will do, and not the least, which one mistaken look at a clock would decide.
const UNDISTURBED: f64 = 5.0;

/// What a trial measured of each packet or of each second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Over the whole trial.
    pub mean: f64,
    /// The median of its slices.
    pub median: f64,
    /// That of its undisturbed slices.
    pub undisturbed: f64,
}

impl Measured {
    /// The same of a number that is computed from this one.
    pub fn map(self, of: impl Fn(f64) -> f64) -> Measured {
        Measured { mean: of(self.mean), median: of(self.median), undisturbed: of(self.undisturbed) }
    }
}

impl Sub for Measured {
    type Output = Measured;

    fn sub(self, other: Measured) -> Measured {
        Measured {
            mean: self.mean - other.mean,
            median: self.median - other.median,
            undisturbed: self.undisturbed - other.undisturbed,
        }
    }
}

/// The slices of a trial.
#[derive(Clone, Debug)]
pub struct Slices {
    /// Cycles of a slice.
    length: u64,
    /// Cycles and packets of the slice that is not full yet.
    open: (u64, u64),
    /// Cycles and packets of all.
    all: (u64, u64),
    /// Cycles per packet of each.
    costs: Vec<f64>,
}

impl Slices {
    /// Room for the slices of a trial of this length: to push allocates nothing.
    pub fn of(trial: Duration) -> Slices {
        let count = (trial.as_secs_f64() / SLICE.as_secs_f64()).ceil() as usize + 1;
        Slices::with((SLICE.as_secs_f64() * tsc::hz() as f64) as u64, count)
    }

    /// Room for so many slices of so many cycles.
    pub fn with(length: u64, count: usize) -> Slices {
        Slices { length, open: (0, 0), all: (0, 0), costs: Vec::with_capacity(count) }
    }

    /// Adds what was done next: so many packets in so many cycles.
    #[inline]
    pub fn push(&mut self, cycles: u64, packets: u64) {
        self.all = (self.all.0 + cycles, self.all.1 + packets);
        let (spent, count) = (self.open.0 + cycles, self.open.1 + packets);
        self.open = (spent, count);
        if spent >= self.length && count > 0 {
            self.costs.push(spent as f64 / count as f64);
            self.open = (0, 0);
        }
    }

    /// Cycles per packet, of a trial from which such a share of its time was taken (0 to
    /// 1); none where no packet came.
    pub fn cost(&self, taken: f64) -> Option<Measured> {
        let (cycles, packets) = self.all;
        if packets == 0 {
            return None;
        }
        let all = cycles as f64 / packets as f64;
        // A trial that is shorter than a slice is one slice.
        let at = |percent| statistics::percentile(&self.costs, percent).unwrap_or(all);
        let mean = all * (1.0 - taken.clamp(0.0, 1.0));
        Some(Measured { mean, median: at(50.0), undisturbed: at(UNDISTURBED) })
    }

    /// Packets per second: those of a trial of such a length were counted, those of its
    /// slices follow from cycles. None where no packet came.
    pub fn rate(&self, length: Duration) -> Option<Measured> {
        let of_core = |cycles| tsc::hz() as f64 / cycles;
        let mean = self.all.1 as f64 / length.as_secs_f64().max(1e-9);
        Some(Measured { mean, ..self.cost(0.0)?.map(of_core) })
    }

    /// The time that its slices took.
    pub fn time(&self) -> Duration {
        Duration::from_secs_f64(self.all.0 as f64 / tsc::hz() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slices(length: u64) -> Slices {
        Slices::with(length, 0)
    }

    #[test]
    fn a_quiet_slice_in_ten_is_enough() {
        let mut slices = slices(1000);
        for slice in 0..100 {
            let cost = if slice % 10 == 3 { 200 } else { 290 + slice };
            slices.push(cost * 5, 5);
        }
        assert_eq!(slices.cost(0.0).unwrap().undisturbed, 200.0);
    }

    #[test]
    fn what_is_short_is_added_up() {
        let mut slices = slices(1000);
        [(400, 2), (0, 0), (500, 3), (300, 1), (10, 9)]
            .into_iter()
            .for_each(|(c, p)| slices.push(c, p));
        assert_eq!(slices.costs, [200.0]);
        assert_eq!(slices.cost(0.0).unwrap().median, 200.0);
    }

    #[test]
    fn a_short_trial_is_one_slice_and_an_empty_one_costs_nothing() {
        let mut empty = slices(1000);
        assert_eq!(empty.cost(0.0), None);
        empty.push(5000, 0);
        assert_eq!(empty.cost(0.0), None);
        let mut slices = slices(1000);
        slices.push(300, 3);
        assert_eq!(
            slices.cost(0.0),
            Some(Measured { mean: 100.0, median: 100.0, undisturbed: 100.0 })
        );
    }

    #[test]
    fn the_mean_is_of_all_cycles_but_those_that_were_taken() {
        let mut slices = slices(1000);
        for slice in 0..100 {
            slices.push(if slice % 2 == 0 { 1000 } else { 3000 }, 10);
        }
        assert_eq!(slices.cost(0.0).unwrap().mean, 200.0);
        let cost = slices.cost(0.25).unwrap();
        assert_eq!((cost.mean, cost.undisturbed), (150.0, 100.0));
    }

    #[test]
    fn a_rate_is_of_packets_that_were_counted() {
        let mut slices = slices(1000);
        (0..100).for_each(|_| slices.push(1000, 10));
        let rate = slices.rate(Duration::from_millis(500)).unwrap();
        assert_eq!(rate.mean, 2000.0);
        assert_eq!(rate.undisturbed, tsc::hz() as f64 / 100.0);
    }
}
