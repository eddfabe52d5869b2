//! Visits of functions that are fused.

use arrayvec::ArrayVec;
use weft_compose::{Burst, Instance, Positions};
use weft_fusion::{FusedOutcome, MAX_FUNCTIONS, Region, RegionWay};

use super::{Element, Function, VisitContext};
use crate::counters::{DropReason, Stage};
use crate::offload::note_drop;
use crate::offload::states::StateGroups;

impl Element {
    /// The burst, whose walk is measured, goes on to a function.
    #[cold]
    pub(super) fn follow_choice(&mut self, function: u16) {
        if let Some(fused) = &self.plan.fused {
            self.plan.choices.follow(function, fused);
        }
    }

    /// The walk of the burst, which was measured, has ended.
    #[cold]
    pub(super) fn end_choice(&mut self, now: u64) {
        if let Some(fused) = &self.plan.fused {
            self.plan.choices.leave(now, fused, &self.plan.functions);
        }
    }

    /// Lets packets pass all functions of a region, and routes them on from the
    /// last function of their way.
    pub(super) fn visit_region(
        &mut self,
        burst: &mut Burst,
        region: u16,
        group: &StateGroups,
        around: &mut VisitContext<'_>,
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
                    run(way, functions, burst, *positions, outcome);
                }
            }
            // What shares a context meets it in the order it came.
            _ => {
                for (way, positions) in region.in_order(group, selected) {
                    run(way, functions, burst, positions, outcome);
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
        group: &StateGroups,
        around: &mut VisitContext<'_>,
    ) {
        let verdicts = &self.fused.verdicts;
        let mut reached = [Positions::NONE; MAX_FUNCTIONS];
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
    fn note_fused_failures(&mut self, region: &Region, around: &mut VisitContext<'_>) {
        around.counters.panics.add(self.fused.resets.len() as u64);
        for (function, slot) in self.fused.resets.drain(..) {
            around.queues.note_reset(region.functions[usize::from(function)], slot);
        }
        around.counters.emitted.add(self.fused.refused);
        around.counters.dropped(DropReason::BurstFull, self.fused.refused as usize);
    }
}

/// Lets packets go one way through a region.
fn run(
    way: &RegionWay,
    functions: &mut [Function],
    burst: &mut Burst,
    positions: Positions,
    outcome: &mut FusedOutcome,
) {
    let mut places: [Option<&mut dyn Instance>; MAX_FUNCTIONS] = [const { None }; MAX_FUNCTIONS];
    for (function, place) in functions.iter_mut().zip(&way.places) {
        // Those that are not on the way have no place there.
        if let Some(place) = places.get_mut(usize::from(*place)) {
            *place = Some(&mut *function.instance);
        }
    }
    let mut instances: ArrayVec<&mut dyn Instance, MAX_FUNCTIONS> =
        places.into_iter().take(way.functions.len()).flatten().collect();
    // All functions of a plan have an instance once it is at work.
    if instances.len() == way.functions.len() {
        let before = outcome.resets.len();
        way.fused.visit(burst, positions, &mut instances, outcome);
        for (function, _) in &mut outcome.resets[before..] {
            *function = way.functions[usize::from(*function)];
        }
    }
}
