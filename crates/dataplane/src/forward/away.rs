//! Packets on their way to functions in processes of their own, and back.

use weft_compose::{Burst, Positions};
use weft_dpdk::Batch;
use weft_rules::{FunctionIndex, Next, NextHop, Place as At, State, To};

use super::{Element, Forwarding, LookupMode, Plan, VisitContext, one};
use crate::counters::DropReason;
use crate::offload::states::StateGroups;
use crate::offload::{Leaving, Policy, QueuesAhead, REMOTE_QUEUES, ResumePoint};
use crate::trace::Point;

/// What goes away of the burst at hand, and which queues lie on which way.
#[derive(Debug)]
pub(super) struct Away {
    positions: Positions,
    places: [(u16, ResumePoint); Batch::CAPACITY],
    /// Number of the plan: packets that come back under another are steered by
    /// the rules as they were written.
    plan: u32,
    /// RemoteQueues that a packet may come to from each entry, and behind each state.
    entries: Box<[u64]>,
    states: Box<[u64]>,
    /// Behind each state: the state that all its packets go to next, and the queues that they
    /// come to in a row then. Empty where no queue follows another.
    ahead: Box<[(u32, QueuesAhead)]>,
    /// Whether a tap watches packets of the burst at hand.
    watched: bool,
    /// All queues.
    all: u64,
}

const NOWHERE: (u16, ResumePoint) = (0, ResumePoint { state: 0, plan: 0, onward: 0 });

impl Default for Away {
    fn default() -> Self {
        Away {
            positions: Positions::NONE,
            places: [NOWHERE; Batch::CAPACITY],
            plan: 0,
            entries: Box::default(),
            states: Box::default(),
            ahead: Box::default(),
            watched: false,
            all: 0,
        }
    }
}

impl Away {
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.positions = Positions::NONE;
    }

    /// A new plan; states of one that is alike are those of the plan before.
    pub(super) fn follow(&mut self, plan: &Plan, is_alike: bool) {
        if !is_alike {
            self.plan = self.plan.wrapping_add(1);
        }
        self.find(plan);
    }

    /// Finds which queues lie on which way.
    pub(super) fn find(&mut self, plan: &Plan) {
        let remote_queues: Vec<u64> = plan
            .functions
            .iter()
            .map(|function| function.remote_queue.or(function.stage))
            .map(|remote_queue| {
                remote_queue
                    .map_or(0, |remote_queue| 1 << (usize::from(remote_queue) % REMOTE_QUEUES))
            })
            .collect();
        self.all = remote_queues.iter().fold(0, |all, remote_queue| all | remote_queue);
        self.entries = Box::default();
        self.states = Box::default();
        self.ahead = Box::default();
        let Forwarding::Compiled { program, .. } = &plan.forwarding else { return };
        if self.all == 0 {
            return;
        }
        let states = &program.states;
        let mut behind = vec![0u64; states.len()];
        let reach = |to: To, behind: &[u64]| match to {
            To::State(state) => {
                let function = usize::from(states[state.0 as usize].function.0);
                behind[state.0 as usize] | remote_queues[function]
            }
            _ => 0,
        };
        // States behind come later, but for loops: those take more than one round.
        loop {
            let before = behind.clone();
            for state in (0..states.len()).rev() {
                let targets = states[state].next.targets();
                behind[state] = targets.fold(0, |all, target| all | reach(target.to, &behind));
            }
            if behind == before {
                break;
            }
        }
        let entries = program
            .entries
            .iter()
            .map(|entry| entry.targets().fold(0, |all, target| all | reach(target.to, &behind)));
        self.entries = entries.collect();
        self.states = behind.into();
        self.ahead = ahead(plan, states);
    }

    /// Where a packet of a state goes by itself behind the function of that state.
    #[inline]
    fn ahead_of(&self, place: ResumePoint) -> QueuesAhead {
        match self.ahead.get(place.state as usize) {
            Some((_, ahead)) if place.plan == self.plan => *ahead,
            _ => QueuesAhead::default(),
        }
    }
}

/// See [`Away::ahead`].
fn ahead(plan: &Plan, states: &[State]) -> Box<[(u32, QueuesAhead)]> {
    let remote_queue_of = |state: u32| {
        let function = usize::from(states[state as usize].function.0);
        plan.functions[function].remote_queue
    };
    let next = |state: u32| match &states[state as usize].next {
        Next::Go(NextHop { set_chain: None, to: To::State(next) }) => {
            remote_queue_of(next.0).map(|remote_queue| (next.0, remote_queue))
        }
        _ => None,
    };
    let all = (0..states.len() as u32).map(|state| {
        let mut ahead = QueuesAhead::default();
        let first = next(state).filter(|_| remote_queue_of(state).is_some());
        let mut at = first;
        while let Some((state, remote_queue)) = at
            && ahead.push(remote_queue)
        {
            at = next(state);
        }
        (first.map_or(state, |(next, _)| next), ahead)
    });
    let all: Box<[(u32, QueuesAhead)]> = all.collect();
    if all.iter().all(|(_, ahead)| ahead.is_empty()) { Box::default() } else { all }
}

impl Element {
    /// Where a packet stands that was sent away from a place and came back by itself from so
    /// many functions further on.
    #[inline]
    pub fn place_behind(&self, place: ResumePoint, functions: u8) -> ResumePoint {
        if functions == 0 || place.plan != self.away.plan {
            return place;
        }
        let next =
            |state: u32| self.away.ahead.get(state as usize).map_or(state, |(next, _)| *next);
        ResumePoint { state: (0..functions).fold(place.state, |state, _| next(state)), ..place }
    }

    /// Lets packets of an entry in, as far as every function on their way has room
    /// for them; drops the others before any work is done for them.
    #[inline]
    pub(super) fn admit(
        &mut self,
        burst: &mut Burst,
        port: u16,
        class: u16,
        positions: Positions,
        around: &mut VisitContext<'_>,
    ) -> Positions {
        let reach = match &self.plan.forwarding {
            Forwarding::Compiled { classes, .. } => {
                let entry = usize::from(port) * classes + usize::from(class);
                self.away.entries.get(entry).copied().unwrap_or(0)
            }
            Forwarding::Lookup(_) => self.away.all,
        };
        if reach == 0 {
            return positions;
        }
        let admitted = around.remote_queues.admit(reach, positions.len());
        if admitted == positions.len() {
            return positions;
        }
        let mut refused = positions;
        for _ in 0..admitted {
            let _ = refused.next();
        }
        self.drop(burst, refused, DropReason::Backpressure, around);
        positions.without(refused)
    }

    /// Sends packets away to the function's process; or does what its policy says
    /// while the process is not there.
    #[inline]
    pub(super) fn send_away(
        &mut self,
        burst: &mut Burst,
        function: u16,
        remote_queue: u16,
        group: &StateGroups,
        around: &mut VisitContext<'_>,
    ) {
        if let Some(policy) = around.remote_queues.instead(remote_queue) {
            return self.do_without(burst, policy, group, around);
        }
        self.away.watched = around.taps.is_some();
        for &(state, positions) in group {
            if let Some(taps) = around.taps {
                taps.at(Point::Before(function), positions, burst);
            }
            // Room here is given back before it is taken again.
            let onward = match self.mode {
                LookupMode::Compiled => self.away.states[state as usize] & !(1 << remote_queue),
                _ => 0,
            };
            // A packet that was steered by the rules as written has no state.
            let plan = if self.mode == LookupMode::Interpreted { 0 } else { self.away.plan };
            for position in positions {
                self.away.places[position] = (remote_queue, ResumePoint { state, plan, onward });
            }
            self.away.positions = self.away.positions.or(positions);
        }
    }

    #[cold]
    fn do_without(
        &mut self,
        burst: &mut Burst,
        policy: Policy,
        group: &StateGroups,
        around: &mut VisitContext<'_>,
    ) {
        for &(state, positions) in group {
            match policy {
                Policy::Bypass => self.route(burst, state, positions, around),
                _ => self.drop(burst, positions, DropReason::FunctionDown, around),
            }
        }
    }

    /// How packets are steered that are back, of the plan at hand or of one before.
    pub(super) fn way_of(&self, present: bool) -> LookupMode {
        match (present, &self.plan.forwarding) {
            (false, _) => LookupMode::Interpreted,
            (true, Forwarding::Compiled { .. }) => LookupMode::Compiled,
            (true, Forwarding::Lookup(_)) => LookupMode::Cached,
        }
    }

    /// Number of the plan at hand.
    pub(super) fn plan_number(&self) -> u32 {
        self.away.plan
    }

    /// Packets of the last walk that go away.
    #[inline(always)]
    pub fn away(&self) -> Positions {
        self.away.positions
    }

    /// Where the packet at `position` goes that goes away.
    #[inline]
    pub fn away_at(&self, position: usize) -> Option<Leaving> {
        let away = &self.away;
        away.positions.contains(position).then(|| {
            let (remote_queue, place) = away.places[position];
            let (ahead, watched) = (away.ahead_of(place), away.watched);
            Leaving { remote_queue, place, length: self.length_at(position), ahead, watched }
        })
    }

    /// Walks packets on that came back, each from behind a function and its place.
    #[inline]
    pub fn rejoin(
        &mut self,
        burst: &mut Burst,
        places: &[(u16, ResumePoint)],
        around: &mut VisitContext<'_>,
    ) {
        self.clear();
        let present = places.iter().all(|(_, place)| place.plan == self.away.plan);
        self.mode = self.way_of(present);
        if self.mode != LookupMode::Compiled {
            for (position, (function, _)) in places.iter().enumerate() {
                let at = At::Function(FunctionIndex(*function));
                self.look_up(burst, at, one(position), around);
            }
            return self.walk(burst, around);
        }
        let (mut at, mut run) = (0, Positions::NONE);
        for (position, (_, place)) in places.iter().enumerate() {
            if place.state != at {
                self.route(burst, at, run, around);
                (at, run) = (place.state, Positions::NONE);
            }
            run = run.or(one(position));
        }
        self.route(burst, at, run, around);
        self.walk(burst, around);
    }
}
