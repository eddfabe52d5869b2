//! What a packet costs while nothing disturbs.
//!
//! What a machine does beside a trial (the other thread of a core, an interrupt, a
//! clock that is lowered, a hypervisor) makes a packet dearer and never cheaper, and
//! it comes and goes within milliseconds. So a trial is cut into slices, and its cost
//! is a low percentile of theirs: the mean says more of the neighbours of that moment
//! than of the program. What is so rare that it falls into few slices is not
//! seen in it.

use std::time::Duration;

use weft_dpdk::tsc;

use crate::statistics;

/// How long a slice is: hundreds of times what it takes to look at the counters.
pub const SLICE: Duration = Duration::from_millis(2);

/// The percentile of the slices that is the cost of a trial: low enough that one
/// quiet slice in twenty will do, and not the least, which one mistaken look at a
/// clock would decide.
const PERCENT: f64 = 5.0;

/// The slices of a trial.
#[derive(Clone, Debug)]
pub struct Slices {
    /// Cycles of a slice.
    length: u64,
    /// Cycles and packets of the slice that is not full yet.
    open: (u64, u64),
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
    pub(crate) fn with(length: u64, count: usize) -> Slices {
        Slices { length, open: (0, 0), costs: Vec::with_capacity(count) }
    }

    /// Adds what was done next: so many packets in so many cycles.
    #[inline]
    pub fn push(&mut self, cycles: u64, packets: u64) {
        let (all, count) = (self.open.0 + cycles, self.open.1 + packets);
        self.open = (all, count);
        if all >= self.length && count > 0 {
            self.costs.push(all as f64 / count as f64);
            self.open = (0, 0);
        }
    }

    /// Cycles per packet; none where no packet came.
    pub fn cost(&self) -> Option<f64> {
        // A trial that is shorter than a slice is one slice.
        let (cycles, packets) = self.open;
        let rest = (packets > 0).then(|| cycles as f64 / packets as f64);
        statistics::percentile(&self.costs, PERCENT).or(rest)
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
        assert_eq!(slices.cost(), Some(200.0));
    }

    #[test]
    fn what_is_short_is_added_up() {
        let mut slices = slices(1000);
        [(400, 2), (0, 0), (500, 3), (300, 1), (10, 9)]
            .into_iter()
            .for_each(|(c, p)| slices.push(c, p));
        assert_eq!(slices.costs, [200.0]);
        assert_eq!(slices.cost(), Some(200.0));
    }

    #[test]
    fn a_short_trial_is_one_slice_and_an_empty_one_costs_nothing() {
        let mut empty = slices(1000);
        assert_eq!(empty.cost(), None);
        empty.push(5000, 0);
        assert_eq!(empty.cost(), None);
        let mut slices = slices(1000);
        slices.push(300, 3);
        assert_eq!(slices.cost(), Some(100.0));
    }
}
