//! A function that is on its way: its packets wait at a queue, and go on from there.

use weft_compose::{Burst, Positions};

use super::Part;
use super::{Element, Forwarding, LookupMode, Plan, VisitContext, one};
use crate::offload::ResumePoint;
use crate::offload::states::{StateGroups, add_pending};

impl Element {
    /// All packets of a function go to this queue from now on. Nothing is fused meanwhile:
    /// machine code would let packets pass it.
    pub fn divert(&mut self, function: u16, remote_queue: u16) {
        if let Some(function) = self.plan.functions.get_mut(usize::from(function)) {
            function.remote_queue = Some(remote_queue);
        }
        self.withhold();
        self.away.find(&self.plan);
    }

    /// Calls what is fused until the function has [arrived](Self::arrive).
    pub fn withhold(&mut self) {
        self.withheld = self.plan.fused.take();
    }

    /// Packets visit the function where it is at hand.
    pub fn arrive(&mut self, function: u16) {
        if let Some(function) = self.plan.functions.get_mut(usize::from(function)) {
            function.remote_queue = None;
        }
        self.plan.fused = self.withheld.take();
        self.away.find(&self.plan);
    }

    /// Lets packets visit `function` that have waited for it, each at its place, and walks
    /// them on.
    pub fn enter(
        &mut self,
        burst: &mut Burst,
        function: u16,
        places: &[ResumePoint],
        around: &mut VisitContext<'_>,
    ) {
        self.clear();
        let present = places.iter().all(|place| place.plan == self.plan_number());
        self.mode = self.way_of(present);
        self.weigh(burst);
        let mut group = StateGroups::new();
        for (position, place) in places.iter().enumerate() {
            let state =
                if self.mode == LookupMode::Compiled { place.state } else { function.into() };
            add_pending(&mut group, state, one(position));
        }
        let all = Positions::first(places.len());
        self.visit(burst, function, all, around);
        self.finish_visit(burst, function, &mut group, around);
        if !self.pending.is_empty() {
            self.walk_on(burst, around);
        }
    }

    /// Lets packets visit `function` that it has kept, and walks them on.
    pub fn visit_again(&mut self, burst: &mut Burst, function: u16, around: &mut VisitContext<'_>) {
        self.clear();
        self.mode = LookupMode::Interpreted;
        self.weigh(burst);
        let all = Positions::first(burst.packets.len());
        let mut group = StateGroups::new();
        group.push((function.into(), all));
        self.visit(burst, function, all, around);
        self.finish_visit(burst, function, &mut group, around);
        if !self.pending.is_empty() {
            self.walk_on(burst, around);
        }
    }

    /// Whether states of `plan`, with these functions, are those of the plan at hand.
    pub(super) fn is_alike(&self, plan: &Plan, parts: &[Part]) -> bool {
        let same_rules = match (&self.plan.forwarding, &plan.forwarding) {
            (Forwarding::Compiled { program: old, .. }, Forwarding::Compiled { program, .. }) => {
                old == program
            }
            _ => false,
        };
        let old = self.plan.functions.iter().map(|function| &function.name);
        same_rules && old.eq(parts.iter().map(|part| &part.name))
    }
}
