//! Whether functions that are fused really run as one loop of machine code, or are called
//! one after the other: whichever takes fewer cycles.
//!
//! Both are measured on packets that come, in turn, each for [`SLICE`] packets at a time, so
//! that what else the machine does hits both alike. The faster one by the median of
//! neighbouring slices is taken, for [`AGAIN`]. Both work on the same contexts, so a turn
//! takes place between two bursts and nothing is copied.
//!
//! While nothing is measured, a visit costs one comparison more.

use arrayvec::ArrayVec;
use weft_dpdk::tsc;
use weft_fusion::FusedPlan;

use super::Function;
use crate::counters::{FusedChoice, FusedCosts};

/// Packets of a slice: tens of bursts, so some hundred microseconds at full load.
const SLICE: u64 = 1024;
/// Bursts at the beginning of a slice that count nowhere: the caches hold the other code.
const FIRST_BURSTS: u32 = 4;
/// Pairs of slices that decide; an odd number has a median.
const PAIRS: usize = 15;
/// Nanoseconds after which both are measured again: rates, users and their contexts change.
const AGAIN: u64 = 10_000_000_000;

/// Which way is taken, for each region of a [`FusedPlan`].
#[derive(Debug, Default)]
pub struct Choices {
    regions: Box<[Choice]>,
    measured: Option<Lap>,
}

#[derive(Debug, Default)]
struct Choice {
    is_fused: bool,
    /// The time from which on both are measured.
    again: u64,
    /// The slice that is open: its bursts, its cycles and its packets.
    bursts: u32,
    cycles: u64,
    packets: u64,
    /// Cycles per packet of slices: fused, and called.
    slices: [ArrayVec<f64, PAIRS>; 2],
}

/// The walk of one burst through a region, while that is measured.
#[derive(Debug)]
struct Lap {
    region: u16,
    packets: u64,
    cycles: u64,
    /// When the burst came in; none while it is elsewhere.
    since: Option<u64>,
}

impl Choices {
    /// What is to be found out about the regions of a plan; nothing where fused functions are
    /// always to run fused.
    pub fn new(plan: Option<&FusedPlan>, is_always: bool) -> Choices {
        let count = plan.filter(|_| !is_always).map_or(0, |plan| plan.regions.len());
        Choices { regions: (0..count).map(|_| Choice::measuring()).collect(), measured: None }
    }

    /// Whether packets that come to a region now, at `now`, are to pass it fused.
    #[inline]
    pub(super) fn is_fused(&self, region: u16) -> bool {
        self.regions.get(usize::from(region)).is_none_or(|choice| choice.is_fused)
    }

    /// So many packets come to a region at the time `now`, in nanoseconds. Returns whether they
    /// are to pass it fused.
    #[inline]
    pub(super) fn enter(&mut self, region: u16, packets: usize, now: u64) -> bool {
        let Some(choice) = self.regions.get(usize::from(region)) else { return true };
        match now >= choice.again {
            true => self.begin(region, packets as u64),
            false => choice.is_fused,
        }
    }

    #[cold]
    fn begin(&mut self, region: u16, packets: u64) -> bool {
        let now = tsc::now();
        match &mut self.measured {
            Some(lap) if lap.region == region => {
                lap.packets += packets;
                lap.since.get_or_insert(now);
            }
            // One at a time: the other is measured with the next burst.
            Some(_) => {}
            None => {
                self.measured = Some(Lap { region, packets, cycles: 0, since: Some(now) });
                self.regions[usize::from(region)].begin();
            }
        }
        self.is_fused(region)
    }

    /// Whether the burst at hand is measured.
    #[inline]
    pub(super) fn is_measured(&self) -> bool {
        self.measured.is_some()
    }

    /// The burst is visited by a function: one of the region that is measured, or another.
    #[cold]
    pub(super) fn follow(&mut self, function: u16, plan: &FusedPlan) {
        let Some(lap) = &mut self.measured else { return };
        let region = plan.regions.get(usize::from(lap.region));
        let is_inside = region.is_some_and(|region| region.functions.contains(&function));
        match (is_inside, lap.since) {
            (true, None) => lap.since = Some(tsc::now()),
            (false, Some(since)) => {
                lap.cycles += tsc::now().wrapping_sub(since);
                lap.since = None;
            }
            _ => {}
        }
    }

    /// The walk of the burst has ended, at the time `now`.
    #[cold]
    pub(super) fn leave(&mut self, now: u64, plan: &FusedPlan, functions: &[Function]) {
        let Some(lap) = self.measured.take() else { return };
        let last = lap.since.map_or(0, |since| tsc::now().wrapping_sub(since));
        let at = usize::from(lap.region);
        let head = plan.regions.get(at).and_then(|region| region.functions.first());
        let head = head.and_then(|head| functions.get(usize::from(*head)));
        if let (Some(choice), Some(head)) = (self.regions.get_mut(at), head) {
            choice.note(lap.cycles + last, lap.packets, now, &head.counters.fused);
        }
    }
}

impl Choice {
    fn measuring() -> Choice {
        Choice { is_fused: true, ..Choice::default() }
    }

    /// A burst is to be measured: the first slice is fused, whatever was chosen before.
    fn begin(&mut self) {
        if self.bursts == 0 && self.slices.iter().all(|slices| slices.is_empty()) {
            self.is_fused = is_fused_next(0);
        }
    }

    /// A burst has taken so many cycles.
    fn note(&mut self, cycles: u64, packets: u64, now: u64, costs: &FusedCosts) {
        if self.again == 0 {
            // What was found out of functions before them holds no longer.
            costs.clear();
        }
        self.bursts += 1;
        if self.bursts <= FIRST_BURSTS {
            return;
        }
        (self.cycles, self.packets) = (self.cycles + cycles, self.packets + packets);
        if self.packets < SLICE {
            return;
        }
        let cost = self.cycles as f64 / self.packets as f64;
        (self.bursts, self.cycles, self.packets) = (0, 0, 0);
        // Each is asked for no more often than it has room.
        let _ = self.slices[usize::from(!self.is_fused)].try_push(cost);
        let made = self.slices[0].len() + self.slices[1].len();
        match made < 2 * PAIRS {
            true => self.is_fused = is_fused_next(made),
            false => self.decide(now, costs),
        }
    }

    fn decide(&mut self, now: u64, costs: &FusedCosts) {
        let [fused, called] = &mut self.slices;
        let ratios = fused.iter().zip(called.iter()).map(|(fused, called)| fused / called);
        let ratio = median(&mut ratios.collect());
        self.is_fused = ratio <= 1.0;
        let choice = if self.is_fused { FusedChoice::Fused } else { FusedChoice::Called };
        costs.set(choice, median(fused), median(called));
        self.slices = Default::default();
        self.again = now.saturating_add(AGAIN);
    }
}

/// Whether the slice of that number is fused: in pairs, of which the first is fused and called
/// in turn, so that a drift hits both alike.
fn is_fused_next(number: usize) -> bool {
    number.div_ceil(2).is_multiple_of(2)
}

fn median(of: &mut ArrayVec<f64, PAIRS>) -> f64 {
    of.sort_unstable_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a choice bursts of 32 packets until it has decided.
    fn decide(choice: &mut Choice, costs: &FusedCosts, cost: impl Fn(bool, u64) -> u64) {
        let again = choice.again;
        for burst in 0..100_000 {
            if choice.again > again {
                return;
            }
            choice.begin();
            choice.note(cost(choice.is_fused, burst) * 32, 32, again + 7, costs);
        }
        panic!("nothing is decided");
    }

    fn decided(cost: impl Fn(bool, u64) -> u64) -> (Choice, FusedCosts) {
        let (mut choice, costs) = (Choice::measuring(), FusedCosts::default());
        decide(&mut choice, &costs, cost);
        (choice, costs)
    }

    #[test]
    fn the_way_that_takes_fewer_cycles_is_chosen() {
        let (choice, costs) = decided(|is_fused, _| if is_fused { 60 } else { 100 });
        assert!(choice.is_fused);
        assert_eq!(choice.again, 7 + AGAIN);
        assert_eq!(costs.get(), Some((FusedChoice::Fused, 60.0, 100.0)));
        let (choice, costs) = decided(|is_fused, _| if is_fused { 100 } else { 60 });
        assert!(!choice.is_fused);
        assert_eq!(costs.get(), Some((FusedChoice::Called, 100.0, 60.0)));
    }

    #[test]
    fn what_was_chosen_is_found_out_anew() {
        let (mut choice, costs) = decided(|is_fused, _| if is_fused { 100 } else { 60 });
        assert!(!choice.is_fused);
        for (fused, called) in [(110, 60), (50, 60), (70, 60)] {
            decide(&mut choice, &costs, |is_fused, _| if is_fused { fused } else { called });
            assert_eq!(choice.is_fused, fused < called);
            let (_, found, other) = costs.get().unwrap();
            assert_eq!((found, other), (fused as f64, called as f64));
        }
    }

    #[test]
    fn a_neighbour_that_comes_and_goes_and_first_bursts_do_not_matter() {
        // Every slice of some hundred is dearer, the machine grows slower, and what is new in
        // the caches is dear.
        let last = std::cell::Cell::new((true, 0));
        let (choice, _) = decided(|is_fused, burst| {
            let (before, since) = last.get();
            let since = if before == is_fused { since + 1 } else { 0 };
            last.set((is_fused, since));
            let disturbed = if burst / 100 % 3 == 0 { 500 } else { 0 };
            let cold = if since < 3 && is_fused { 5_000 } else { 0 };
            (if is_fused { 97 } else { 100 }) + disturbed + burst / 50 + cold
        });
        assert!(choice.is_fused);
    }

    #[test]
    fn both_have_as_many_slices_side_by_side() {
        let order: Vec<bool> = (0..2 * PAIRS).map(is_fused_next).collect();
        assert_eq!(order.iter().filter(|is_fused| **is_fused).count(), PAIRS);
        assert!(order.chunks(2).all(|pair| pair[0] != pair[1]));
        assert!(Choice::measuring().is_fused == order[0]);
    }

    #[test]
    fn without_a_region_nothing_is_measured() {
        let mut choices = Choices::new(None, false);
        assert!(choices.enter(0, 32, u64::MAX) && choices.is_fused(0));
        assert!(!choices.is_measured());
    }
}
