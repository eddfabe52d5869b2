//! Reorder density (RFC 5236 §4): how far packets arrive from where they would have
//! in order.
//!
//! The displacement of a packet is its place among all that arrive less its number,
//! numbers that are lost left out: late packets have a positive one, early ones a
//! negative. Whether a number is lost is known only when more packets have come than a
//! packet may be displaced by, so the receiver judges each packet when so many have
//! come behind it.

use std::collections::BTreeMap;

/// Displacements that are told from losses, where there are not many flows.
const THRESHOLD: usize = 64;
/// Numbers that all flows remember together.
const NUMBERS: usize = 1 << 23;

/// How many packets have which displacement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Density {
    /// The largest displacement that is told from a loss, packets; 0 where there are
    /// too many flows to remember any.
    pub threshold: usize,
    /// Packets by displacement, without displacements that none has.
    pub counts: BTreeMap<i32, u64>,
    /// Packets that were displaced by more.
    pub beyond: u64,
}

impl Density {
    /// The share of packets with this displacement, of all that arrived within the
    /// threshold.
    pub fn share(&self, displacement: i32) -> f64 {
        let all: u64 = self.counts.values().sum();
        let count = self.counts.get(&displacement).copied().unwrap_or(0);
        count as f64 / all.max(1) as f64
    }
}

/// The reorder density of all flows of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Displacements {
    threshold: usize,
    flows: Vec<Flow>,
    /// Numbers that have come and are not judged yet, a ring of each flow.
    windows: Vec<u32>,
    /// Numbers that came early, and whose place has not come yet, of each flow.
    early: Vec<u32>,
    /// By displacement, from the least on.
    counts: Vec<u64>,
    beyond: u64,
}

/// What is known of one flow.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// The place of the next packet that is judged.
    place: u32,
    /// Where the oldest number of the window stands, and how many there are.
    first: u32,
    count: u32,
    early: u32,
    /// Whether the numbers of the window follow each other from `place` on, and none
    /// came early: then the window need not be looked at.
    is_disordered: bool,
}

impl Displacements {
    /// So many flows of which nothing has arrived.
    pub fn new(flows: usize) -> Displacements {
        let threshold = (NUMBERS / 2 / flows.max(1)).min(THRESHOLD + 1).saturating_sub(1);
        let remembered = if threshold > 0 { flows } else { 0 };
        Displacements {
            threshold,
            flows: vec![Flow::default(); remembered],
            windows: vec![0; remembered * (threshold + 1)],
            early: vec![0; remembered * threshold],
            counts: vec![0; 2 * threshold + 1],
            beyond: 0,
        }
    }

    /// Notes a packet that had not arrived before.
    #[inline]
    pub fn arrive(&mut self, flow: u32, number: u32) {
        let size = self.threshold as u32 + 1;
        let Some(state) = self.flows.get_mut(flow as usize) else { return };
        if !state.is_disordered && number == state.place.wrapping_add(state.count) {
            if state.count < size {
                state.count += 1;
            } else {
                state.place = state.place.wrapping_add(1);
                self.counts[self.threshold] += 1;
            }
            return;
        }
        self.arrive_in_disorder(flow, number);
    }

    #[cold]
    fn arrive_in_disorder(&mut self, flow: u32, number: u32) {
        let mut one = OneFlow::of(self, flow);
        one.write_window();
        if (number.wrapping_sub(one.state.place) as i32) < 0 || one.has(number) {
            // Too late for any place, or a copy that was not told.
            *one.beyond += 1;
            return;
        }
        if one.state.count as usize > one.threshold {
            one.judge();
        }
        one.push(number);
        one.look_for_order();
    }

    /// The density, with what has not been judged yet.
    pub fn density(&self) -> Density {
        let mut all = self.clone();
        for flow in 0..all.flows.len() as u32 {
            let mut one = OneFlow::of(&mut all, flow);
            one.write_window();
            while one.state.count > 0 {
                one.judge();
            }
        }
        let threshold = all.threshold as i32;
        let counts = (-threshold..).zip(&all.counts).filter(|(_, count)| **count > 0);
        let counts = counts.map(|(displacement, count)| (displacement, *count)).collect();
        Density { threshold: all.threshold, counts, beyond: all.beyond }
    }
}

/// One flow with all that belongs to it.
struct OneFlow<'a> {
    threshold: usize,
    state: &'a mut Flow,
    window: &'a mut [u32],
    early: &'a mut [u32],
    counts: &'a mut [u64],
    beyond: &'a mut u64,
}

impl OneFlow<'_> {
    fn of(all: &mut Displacements, flow: u32) -> OneFlow<'_> {
        let (flow, threshold) = (flow as usize, all.threshold);
        OneFlow {
            threshold,
            state: &mut all.flows[flow],
            window: &mut all.windows[flow * (threshold + 1)..][..threshold + 1],
            early: &mut all.early[flow * threshold..][..threshold],
            counts: &mut all.counts,
            beyond: &mut all.beyond,
        }
    }

    /// Writes down the numbers that were only counted while all was in order.
    fn write_window(&mut self) {
        if !self.state.is_disordered {
            let numbers = (0..self.state.count).map(|n| self.state.place.wrapping_add(n));
            self.window.iter_mut().zip(numbers).for_each(|(slot, number)| *slot = number);
            (self.state.first, self.state.is_disordered) = (0, true);
        }
    }

    /// Only counts again, where all is in order.
    fn look_for_order(&mut self) {
        let numbers = (0..self.state.count).map(|n| self.state.place.wrapping_add(n));
        let in_order = self.numbers().eq(numbers);
        self.state.is_disordered = self.state.early > 0 || !in_order;
    }

    /// The numbers of the window, the oldest first.
    fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        let (first, size) = (self.state.first as usize, self.window.len());
        (0..self.state.count as usize).map(move |n| self.window[(first + n) % size])
    }

    fn early(&self) -> &[u32] {
        &self.early[..self.state.early as usize]
    }

    fn has(&self, number: u32) -> bool {
        self.early().contains(&number) || self.numbers().any(|other| other == number)
    }

    fn push(&mut self, number: u32) {
        let place = (self.state.first + self.state.count) as usize % self.window.len();
        self.window[place] = number;
        self.state.count += 1;
    }

    fn pop(&mut self) -> u32 {
        let number = self.window[self.state.first as usize];
        self.state.first = (self.state.first + 1) % self.window.len() as u32;
        self.state.count -= 1;
        number
    }

    /// Judges the oldest packet of the window.
    fn judge(&mut self) {
        // Numbers that neither came nor come any more are lost and have no place.
        if !self.has(self.state.place) {
            let place = self.state.place;
            let others = self.numbers().chain(self.early().iter().copied());
            let ahead = others.map(|number| number.wrapping_sub(place));
            // What is late has no place of its own any more.
            let skipped = ahead.filter(|ahead| (*ahead as i32) > 0).min();
            self.state.place = place.wrapping_add(skipped.unwrap_or(0));
        }
        let number = self.pop();
        let displacement = self.state.place.wrapping_sub(number) as i32;
        if displacement.unsigned_abs() as usize > self.threshold {
            *self.beyond += 1;
            return;
        }
        self.counts[(self.threshold as i32 + displacement) as usize] += 1;
        if let Some(at) = self.early().iter().position(|other| *other == self.state.place) {
            self.state.early -= 1;
            self.early.swap(at, self.state.early as usize);
        }
        if displacement < 0
            && let Some(slot) = self.early.get_mut(self.state.early as usize)
        {
            *slot = number;
            self.state.early += 1;
        }
        self.state.place = self.state.place.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn density(numbers: &[u32]) -> Density {
        let mut all = Displacements::new(1);
        numbers.iter().for_each(|number| all.arrive(0, *number));
        all.density()
    }

    fn counts(numbers: &[u32]) -> Vec<(i32, u64)> {
        density(numbers).counts.into_iter().collect()
    }

    #[test]
    fn packets_in_order_have_no_displacement() {
        let numbers: Vec<u32> = (0..1000).collect();
        assert_eq!(counts(&numbers), [(0, 1000)]);
        assert_eq!(density(&numbers).threshold, 64);
    }

    #[test]
    fn early_packets_are_negative_and_late_ones_positive() {
        // Numbers from 0: places are 0 to 7.
        assert_eq!(counts(&[0, 3, 1, 4, 2, 5, 6, 7]), [(-2, 1), (-1, 1), (0, 4), (1, 1), (2, 1)]);
    }

    #[test]
    fn what_is_lost_has_no_place() {
        assert_eq!(counts(&[0, 1, 5, 6, 9]), [(0, 5)]);
        let far: Vec<u32> = (0..100).chain(5000..5100).collect();
        assert_eq!(counts(&far), [(0, 200)]);
    }

    #[test]
    fn a_packet_that_is_later_than_the_threshold_is_as_good_as_lost() {
        let late: Vec<u32> = (1..200).chain([0]).chain(200..300).collect();
        let found = density(&late);
        assert_eq!((found.counts.get(&0), found.beyond), (Some(&299), 1));
    }

    #[test]
    fn so_many_flows_that_nothing_is_remembered() {
        let mut all = Displacements::new(NUMBERS);
        all.arrive(7, 0);
        assert_eq!(all.density(), Density::default());
        assert!(Displacements::new(1_000_000).threshold > 0);
    }

    #[test]
    fn numbers_may_begin_again() {
        let mut all = Displacements::new(1);
        all.flows[0].place = u32::MAX - 1;
        [u32::MAX - 1, 0, u32::MAX, 1].into_iter().for_each(|number| all.arrive(0, number));
        let counts: Vec<_> = all.density().counts.into_iter().collect();
        assert_eq!(counts, [(-1, 1), (0, 2), (1, 1)]);
    }

    /// By definition, from all arrivals: the nth has the nth least number's place.
    fn by_definition(numbers: &[u32]) -> BTreeMap<i32, u64> {
        let mut places = numbers.to_vec();
        places.sort_unstable();
        let mut counts = BTreeMap::new();
        for (place, number) in places.iter().zip(numbers) {
            *counts.entry(*place as i32 - *number as i32).or_insert(0) += 1;
        }
        counts
    }

    proptest! {
        #[test]
        fn the_density_is_what_its_definition_says(
            sent in proptest::collection::vec((0..20_u32, 0..10_u32), 1..400),
        ) {
            // Each number is held back by up to so many; one in ten is lost.
            let mut arrivals: Vec<(u32, u32)> = (0..)
                .zip(&sent)
                .filter(|(_, (_, lost))| *lost > 0)
                .map(|(number, (held, _)): (u32, _)| (number + held, number))
                .collect();
            arrivals.sort();
            let numbers: Vec<u32> = arrivals.into_iter().map(|(_, number)| number).collect();
            let found = density(&numbers);
            prop_assert_eq!(&found.counts, &by_definition(&numbers));
            prop_assert_eq!(found.beyond, 0);
        }
    }
}
