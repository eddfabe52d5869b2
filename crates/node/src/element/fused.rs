//! Visits of functions that are fused.

use arrayvec::ArrayVec;
use weft_compose::{Burst, FusedOutcome, Instance, MAX_FUSED, Positions};

use super::{Element, Function, Group, Surroundings, one};
use crate::counters::{DropReason, Stage};
use crate::fuse::{Region, RegionWay};
use crate::service::note_drop;

impl Element {
    /// Lets packets pass all functions of a region, and routes them on from the
    /// last function of their way.
    pub(super) fn visit_region(
        &mut self,
        burst: &mut Burst,
        region: u16,
        group: &Group,
        around: &mut Surroundings<'_>,
    ) {
        // Taken out for the time being: what is in it is needed all along.
        let Some(fused) = self.plan.fused.take() else { return };
        let functions = &mut self.plan.functions;
        let region = &fused.regions[usize::from(region)];
        around.watch.lap(&around.counters.stages[Stage::Forward as usize], 0);
        let outcome = &mut self.fused;
        outcome.clear();
        let selected = group.iter().fold(Positions::NONE, |all, (_, some)| all.or(*some));
        match &group[..] {
            [(state, positions)] => {
                if let Some(way) = region.way(*state) {
                    run(region, way, functions, burst, *positions, outcome);
                }
            }
            // What shares a context meets it in the order it came.
            _ => {
                for (way, positions) in region.in_order(group, selected) {
                    run(region, way, functions, burst, positions, outcome);
                }
            }
        }
        let head = &functions[usize::from(region.functions[0])];
        around.watch.lap(&head.counters.cycles, selected.len());
        self.count_region(burst, region, group, around);
        let dropped = Positions(self.fused.verdicts.dropped);
        for &(state, positions) in group {
            if let Some(way) = region.way(state) {
                self.route(burst, way.last, positions.without(dropped), around);
            }
        }
        self.plan.fused = Some(fused);
    }

    /// Counts for each function what came to it and what it dropped.
    fn count_region(
        &mut self,
        burst: &mut Burst,
        region: &Region,
        group: &Group,
        around: &mut Surroundings<'_>,
    ) {
        let verdicts = &self.fused.verdicts;
        let mut reached = [Positions::NONE; MAX_FUSED];
        for (state, positions) in group {
            let (Some(way), mut left) = (region.way(*state), *positions) else { continue };
            for (number, function) in way.functions.iter().enumerate() {
                let reached = &mut reached[usize::from(*function)];
                *reached = reached.or(left);
                for position in left.and(Positions(verdicts.dropped)) {
                    if usize::from(verdicts.reasons[position].function) == number {
                        left.remove(position);
                        let at = &self.plan.functions
                            [usize::from(region.functions[usize::from(*function)])];
                        let reason = usize::from(verdicts.reasons[position].reason);
                        at.counters.drops[reason.min(at.counters.drops.len() - 1)].add(1);
                        if self.on_paths {
                            note_drop(burst, position, reason as u8, at.instance.kind().name);
                        }
                    }
                }
            }
        }
        let all = Positions::first(burst.packets.len());
        for (function, reached) in region.functions.iter().zip(reached) {
            if reached.is_empty() {
                continue;
            }
            let bytes = match reached == all {
                true => self.total,
                false => reached.map(|position| u64::from(self.lengths[position])).sum(),
            };
            let counters = &self.plan.functions[usize::from(*function)].counters;
            counters.handled.add(reached.len(), bytes);
            counters.bursts.add(1);
        }
        if !self.fused.resets.is_empty() || self.fused.refused > 0 {
            self.note_fused_failures(region, around);
        }
    }

    /// Counts what panicked and what found no room.
    #[cold]
    fn note_fused_failures(&mut self, region: &Region, around: &mut Surroundings<'_>) {
        around.counters.panics.add(self.fused.resets.len() as u64);
        for (function, slot) in self.fused.resets.drain(..) {
            around.keeper.note_reset(region.functions[usize::from(function)], slot);
        }
        around.counters.emitted.add(self.fused.refused);
        around.counters.dropped(DropReason::BurstFull, self.fused.refused as usize);
    }
}

/// Lets packets go one way through a region.
fn run(
    region: &Region,
    way: &RegionWay,
    functions: &mut [Function],
    burst: &mut Burst,
    positions: Positions,
    outcome: &mut FusedOutcome,
) {
    let mut places: [Option<&mut dyn Instance>; MAX_FUSED] = [const { None }; MAX_FUSED];
    for (number, function) in functions.iter_mut().enumerate() {
        let in_region = region.functions.iter().position(|one| usize::from(*one) == number);
        let on_way =
            in_region.and_then(|at| way.functions.iter().position(|one| usize::from(*one) == at));
        if let Some(place) = on_way {
            places[place] = Some(&mut *function.instance);
        }
    }
    let mut instances: ArrayVec<&mut dyn Instance, MAX_FUSED> =
        places.into_iter().flatten().collect();
    // All functions of a plan have an instance once it is at work.
    if instances.len() == way.functions.len() {
        let before = outcome.resets.len();
        way.fused.visit(burst, positions, &mut instances, outcome);
        for (function, _) in &mut outcome.resets[before..] {
            *function = way.functions[usize::from(*function)];
        }
    }
}

impl Region {
    /// The way that begins at a state.
    #[inline]
    fn way(&self, state: u32) -> Option<&RegionWay> {
        self.ways.iter().find(|way| way.first == state)
    }

    /// Packets of several ways, in order: those in a row that go the same way at
    /// once.
    fn in_order<'a>(
        &'a self,
        group: &'a Group,
        selected: Positions,
    ) -> impl Iterator<Item = (&'a RegionWay, Positions)> {
        let mut left = selected;
        std::iter::from_fn(move || {
            let first = left.lowest()?;
            let (state, of_state) = group.iter().find(|(_, some)| some.contains(first))?;
            let others = left.without(*of_state);
            // Up to the first packet that goes another way.
            let row = match others.lowest() {
                Some(other) => left.and(Positions(one(other).0 - 1)),
                None => left,
            };
            left = left.without(row);
            Some((self.way(*state)?, row))
        })
    }
}
