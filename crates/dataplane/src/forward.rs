//! The forwarding element: walks the packets of a burst through their
//! functions, as the rules say, and leaves each at the port where it goes out.
//!
//! It does not step over packets but over *states*: groups of packets that
//! stand at the same point of the same way. States are visited in ascending
//! order, which is a topological order of the rules, so packets of different
//! chains meet at a function they share and visit it together. A packet keeps
//! its position in the burst all the while, so those that took a longer way are
//! back in their place when the burst leaves.

mod ahead;
mod arrive;
mod away;
mod choice;
mod emission;
mod fused;
mod part;
mod route;
mod unpack;

use std::sync::Arc;

use arrayvec::ArrayVec;
use weft_compose::{Burst, Instance, Outcome, Positions};
use weft_dpdk::Batch;
use weft_fusion::{FusedOutcome, FusedPlan};
use weft_rules::{CachedRules, FunctionIndex, Next, Place, PortIndex, Program, RuleSet};

use self::away::Away;
pub use self::choice::Choices;
pub use self::part::{Configure, Part};
use self::route::Fork;
use crate::buffering::queues::Queues;
use crate::classify::Entry;
use crate::counters::{DropReason, FunctionCounters, Stopwatch, WorkerCounters};
use crate::offload::states::{LOOP_VISITS, StateGroups};
use crate::offload::{RemoteQueues, note_drop};
use crate::trace::{Point, Taps};

/// A function at its place in a node.
pub struct Function {
    /// Name of the instance.
    pub name: Arc<str>,
    /// What runs it.
    pub instance: Box<dyn Instance>,
    /// What is counted for it, at this worker.
    pub counters: Arc<FunctionCounters>,
    /// The queue to its process, where it has one, or to its stage while the stage has
    /// the instance.
    pub remote_queue: Option<u16>,
    /// The queue to its stage, where it has one.
    pub stage: Option<u16>,
}

/// How rules are looked up.
pub enum Forwarding {
    /// Compiled to states; only what a packet decides is left to look at.
    Compiled {
        /// The states.
        program: Program,
        /// Ways of the classes: entry `port * classes + class`.
        classes: usize,
    },
    /// One lookup per packet and hop, behind an exact-match cache (Pinczel et
    /// al. §IV.A), as a baseline.
    Lookup(CachedRules),
}

/// Everything that steers packets at one worker. A change of rules or functions
/// replaces it as a whole.
pub struct Plan {
    /// The rules as they were written.
    pub rules: Arc<RuleSet>,
    /// How they are looked up.
    pub forwarding: Forwarding,
    /// The functions, by [`FunctionIndex`].
    pub functions: Vec<Function>,
    /// What is fused of them.
    pub fused: Option<Arc<FusedPlan>>,
    /// Whether that really runs fused.
    pub choices: Choices,
}

/// What surrounds a walk: who counts, keeps, times and watches.
pub struct VisitContext<'a> {
    /// Counters of the worker.
    pub counters: &'a WorkerCounters,
    /// Where packets are kept.
    pub queues: &'a mut Queues,
    /// The stopwatch of the burst.
    pub watch: &'a mut Stopwatch,
    /// Traces and captures, if there are any.
    pub taps: &'a mut Option<Box<Taps>>,
    /// Functions in processes of their own.
    pub remote_queues: &'a mut RemoteQueues,
}

/// How the walk at hand looks up rules.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LookupMode {
    Compiled,
    Cached,
    /// Off the fast path: packets that a timer let go have no state.
    Interpreted,
}

/// The forwarding element of one worker.
pub struct Element {
    plan: Box<Plan>,
    /// Packets that wait for their next function, highest state first.
    pending: StateGroups,
    /// Where packets leave, by port.
    leaving: Box<[Positions]>,
    /// Ports that any packet leaves at.
    ports_used: ArrayVec<u16, { Batch::CAPACITY }>,
    /// The order in which packets leave; empty when it is that of positions.
    order: ArrayVec<u8, { Batch::CAPACITY }>,
    outcome: Outcome,
    fused: FusedOutcome,
    /// Lengths of the packets as they entered the element, and their sum.
    lengths: [u16; Batch::CAPACITY],
    total: u64,
    mode: LookupMode,
    /// Packets that go away to functions in processes of their own.
    away: Away,
    /// The function that packets met first of late.
    first: Option<u16>,
    /// The function whose contexts were asked for last.
    ahead: Option<u16>,
    /// Whether packets may have come on service paths.
    on_paths: bool,
    /// What is fused, while a function is on its way.
    withheld: Option<Arc<FusedPlan>>,
}

impl Element {
    /// An element that steers by `plan` at a node with so many ports.
    pub fn new(plan: Box<Plan>, ports: usize) -> Element {
        Element {
            plan,
            pending: ArrayVec::new(),
            leaving: vec![Positions::NONE; ports].into_boxed_slice(),
            ports_used: ArrayVec::new(),
            order: ArrayVec::new(),
            outcome: Outcome::default(),
            fused: FusedOutcome::default(),
            lengths: [0; Batch::CAPACITY],
            total: 0,
            mode: LookupMode::Interpreted,
            away: Away::default(),
            first: None,
            ahead: None,
            on_paths: false,
            withheld: None,
        }
    }

    /// Steers by `plan` from now on; gives back the plan until now. `parts` are
    /// its functions: instances at work already go on, and new ones take over
    /// the contexts of what had their name, if it was the same function.
    pub fn replace(&mut self, mut plan: Box<Plan>, parts: &mut Vec<Part>) -> Box<Plan> {
        if let Some(withheld) = self.withheld.take() {
            self.plan.fused = Some(withheld);
        }
        let is_alike = self.is_alike(&plan, parts);
        let old = &mut self.plan.functions;
        for Part { name, instance, counters, remote_queue, stage } in parts.drain(..) {
            let previous = old.iter().position(|function| function.name == name);
            let previous = previous.map(|at| old.swap_remove(at));
            let (instance, remote_queue) = match (instance, previous) {
                (Some(mut new), Some(mut previous)) => {
                    new.adopt(&mut *previous.instance);
                    (new, remote_queue)
                }
                (Some(one), None) => (one, remote_queue),
                (None, Some(previous)) => (previous.instance, previous.remote_queue),
                (None, None) => continue,
            };
            plan.functions.push(Function { name, instance, counters, remote_queue, stage });
        }
        self.away.follow(&plan, is_alike);
        self.first = None;
        std::mem::replace(&mut self.plan, plan)
    }

    /// The same, for packets that may come on service paths.
    pub fn with_paths(self, on_paths: bool) -> Element {
        Element { on_paths, ..self }
    }

    /// The plan it steers by.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The functions, to configure their contexts.
    pub fn functions_mut(&mut self) -> &mut [Function] {
        &mut self.plan.functions
    }

    /// Walks packets that came in.
    #[inline]
    pub fn forward(&mut self, burst: &mut Burst, entries: &[Entry], around: &mut VisitContext<'_>) {
        self.clear();
        self.mode = match &self.plan.forwarding {
            Forwarding::Compiled { .. } => LookupMode::Compiled,
            Forwarding::Lookup(_) => LookupMode::Cached,
        };
        if !around.remote_queues.is_empty() {
            around.remote_queues.begin();
        }
        for &Entry { port, class, mut positions } in entries {
            if !around.remote_queues.is_empty() {
                positions = self.admit(burst, port, class, positions, around);
            }
            let Forwarding::Compiled { program, classes } = &self.plan.forwarding else {
                self.look_up(burst, Place::Port(PortIndex(port)), positions, around);
                continue;
            };
            let entry = usize::from(port) * classes + usize::from(class);
            match program.entries.get(entry) {
                Some(Next::Go(target)) => self.go(burst, *target, positions, around),
                Some(Next::Branch(..)) => self.branch(burst, Fork::Entry(entry), positions, around),
                None => self.drop(burst, positions, DropReason::NoRule, around),
            }
        }
        self.walk(burst, around);
    }

    /// Walks packets on from behind `function`, as a timer let them go.
    pub fn resume(&mut self, burst: &mut Burst, function: u16, around: &mut VisitContext<'_>) {
        self.clear();
        self.mode = LookupMode::Interpreted;
        let all = Positions::first(burst.packets.len());
        self.look_up(burst, Place::Function(FunctionIndex(function)), all, around);
        self.walk(burst, around);
    }

    /// The ports at which packets of the last walk leave.
    #[inline]
    pub fn ports_used(&self) -> &[u16] {
        &self.ports_used
    }

    /// Which packets of the last walk leave at `port`.
    #[inline]
    pub fn leaving(&self, port: u16) -> Positions {
        self.leaving[usize::from(port)]
    }

    /// The port at which the packet at `position` leaves, if it does.
    pub fn port_of(&self, position: usize) -> Option<u16> {
        self.ports_used.iter().copied().find(|port| self.leaving(*port).contains(position))
    }

    /// The order in which the packets of the last walk leave; none when it is
    /// that of their positions.
    #[inline]
    pub fn order(&self) -> Option<&[u8]> {
        (!self.order.is_empty()).then_some(&self.order)
    }

    #[inline]
    fn clear(&mut self) {
        for port in self.ports_used.drain(..) {
            self.leaving[usize::from(port)] = Positions::NONE;
        }
        self.order.clear();
        self.pending.clear();
        self.away.clear();
    }

    /// Notes how long the packets are. Functions count bytes as they came in.
    #[inline]
    fn weigh(&mut self, burst: &Burst) {
        self.total = 0;
        for (length, packet) in self.lengths.iter_mut().zip(burst.packets.iter()) {
            *length = packet.len() as u16;
            self.total += u64::from(*length);
        }
    }

    /// Visits functions until no packet waits for one.
    fn walk(&mut self, burst: &mut Burst, around: &mut VisitContext<'_>) {
        if self.pending.is_empty() {
            return;
        }
        self.weigh(burst);
        self.walk_on(burst, around);
    }

    /// The same for packets that were weighed before.
    pub(crate) fn walk_on(&mut self, burst: &mut Burst, around: &mut VisitContext<'_>) {
        let states = match &self.plan.forwarding {
            Forwarding::Compiled { program, .. } => program.states.len(),
            Forwarding::Lookup(_) => self.plan.functions.len(),
        };
        self.first = self.pending.last().map(|(state, _)| self.function_of(*state));
        let mut visits_left = states + LOOP_VISITS;
        while let Some((state, positions)) = self.pending.pop() {
            if visits_left == 0 {
                self.drop(burst, positions, DropReason::Loop, around);
                continue;
            }
            visits_left -= 1;
            let function = self.function_of(state);
            if self.plan.choices.is_measured() {
                self.follow_choice(function);
            }
            let mut group = StateGroups::new();
            group.push((state, positions));
            let mut selected = positions;
            // Other states of the same function come next in order.
            while let Some(&(other, positions)) = self.pending.last()
                && self.function_of(other) == function
            {
                self.pending.pop();
                group.push((other, positions));
                selected = selected.or(positions);
            }
            if let Some(remote_queue) = self.plan.functions[usize::from(function)].remote_queue {
                self.send_away(burst, function, remote_queue, &group, around);
                continue;
            }
            if let Some(region) = self.region_at(function, around)
                && self.plan.choices.enter(region, selected.len(), burst.now)
            {
                self.visit_region(burst, region, &group, around);
                continue;
            }
            self.look_ahead(burst, function, state, selected, around);
            self.visit(burst, function, selected, around);
            self.finish_visit(burst, function, &mut group, around);
        }
        if self.plan.choices.is_measured() {
            self.end_choice(burst.now);
        }
    }

    /// Does what a function asked for, and sends on what it has visited.
    #[inline]
    pub(crate) fn finish_visit(
        &mut self,
        burst: &mut Burst,
        function: u16,
        group: &mut StateGroups,
        around: &mut VisitContext<'_>,
    ) {
        if !self.outcome.emissions.is_empty() {
            self.emit(burst, function, group, around);
        }
        let stopped = self.outcome.dropped.or(self.outcome.kept);
        for &(state, positions) in group.iter() {
            self.route(burst, state, positions.without(stopped), around);
        }
    }

    /// How long the packet at `position` was when it came in.
    #[inline]
    pub(crate) fn length_at(&self, position: usize) -> u16 {
        self.lengths[position]
    }

    #[inline]
    fn function_of(&self, state: u32) -> u16 {
        match (&self.plan.forwarding, self.mode) {
            (Forwarding::Compiled { program, .. }, LookupMode::Compiled) => {
                program.states[state as usize].function.0
            }
            // Without states, a packet's place is all there is.
            _ => state as u16,
        }
    }

    /// The functions that are fused from this one on. Packets that a tap
    /// watches are shown between functions, so they are called.
    #[inline]
    fn region_at(&self, function: u16, around: &VisitContext<'_>) -> Option<u16> {
        let fused = self.plan.fused.as_ref()?;
        let is_usual = self.mode == LookupMode::Compiled && around.taps.is_none();
        fused.heads[usize::from(function)].filter(|_| is_usual)
    }

    /// Whether packets pass functions fused from this one on.
    #[inline]
    fn is_fused_at(&self, function: u16, around: &VisitContext<'_>) -> bool {
        self.region_at(function, around).is_some_and(|region| self.plan.choices.is_fused(region))
    }

    #[inline]
    fn visit(
        &mut self,
        burst: &mut Burst,
        function: u16,
        selected: Positions,
        around: &mut VisitContext<'_>,
    ) {
        let at = &mut self.plan.functions[usize::from(function)];
        let bytes = match selected == Positions::first(burst.packets.len()) {
            true => self.total,
            false => selected.map(|position| u64::from(self.lengths[position])).sum(),
        };
        if let Some(taps) = around.taps {
            taps.at(Point::Before(function), selected, burst);
        }
        around.watch.lap(&around.counters.stages[crate::counters::Stage::Forward as usize], 0);
        self.outcome.clear();
        at.instance.visit(burst, selected, &mut self.outcome);
        around.watch.lap(&at.counters.cycles, selected.len());
        at.counters.handled.add(selected.len(), bytes);
        at.counters.bursts.add(1);
        let dropped = self.outcome.dropped;
        if let Some(taps) = around.taps {
            taps.at(Point::After(function), selected.without(dropped), burst);
        }
        if !dropped.is_empty() || !self.outcome.resets.is_empty() || self.outcome.refused > 0 {
            self.note_failures(function, around);
            if self.on_paths {
                let kind = self.plan.functions[usize::from(function)].instance.kind().name;
                for position in dropped {
                    note_drop(burst, position, self.outcome.reasons[position], kind);
                }
            }
            if let Some(taps) = around.taps {
                taps.at(Point::DroppedBy(function), dropped, burst);
            }
        }
    }

    /// Counts what a visit dropped, what panicked, and what found no room.
    #[cold]
    fn note_failures(&mut self, function: u16, around: &mut VisitContext<'_>) {
        let at = &self.plan.functions[usize::from(function)];
        for position in self.outcome.dropped {
            let reason = usize::from(self.outcome.reasons[position]);
            at.counters.drops[reason.min(at.counters.drops.len() - 1)].add(1);
        }
        around.counters.panics.add(self.outcome.resets.len() as u64);
        for slot in self.outcome.resets.drain(..) {
            around.queues.note_reset(function, slot);
        }
        around.counters.emitted.add(self.outcome.refused);
        around.counters.dropped(DropReason::BurstFull, self.outcome.refused as usize);
    }

    #[cold]
    pub(crate) fn drop(
        &mut self,
        burst: &mut Burst,
        positions: Positions,
        reason: DropReason,
        around: &mut VisitContext<'_>,
    ) {
        around.counters.dropped(reason, positions.len());
        if let Some(taps) = around.taps {
            taps.at(Point::Dropped(reason), positions, burst);
        }
    }
}

fn one(position: usize) -> Positions {
    Positions(1 << position)
}
