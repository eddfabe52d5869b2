//! A stage: the thread's side.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use rtrb::{Consumer, Producer};
use weft_compose::Positions;
use weft_dataplane::classify::facts::PacketFacts;
use weft_dataplane::counters::{Cycles, Stopwatch};
use weft_dataplane::offload::note_drop;
use weft_dataplane::offload::stage::{DeployedFunction, Map, Order, Parcel, Reply};
use weft_dataplane::offload::states::{LOOP_VISITS, StateGroups, add_pending};
use weft_function::{Emission, EmissionKind, Metadata, Scope, TagSlot};
use weft_rules::{Next, NextHop, To};

use super::thread_carrier::ThreadEnd;

/// Parcels and orders of one worker that are handled before another's turn comes.
const TURN: usize = 16;

/// One more thread of a node, or what would be one.
#[derive(Default)]
pub struct FunctionThread {
    workers: Vec<ThreadWorker>,
}

impl FunctionThread {
    /// A stage that works for these workers.
    pub fn new(workers: Vec<ThreadWorker>) -> FunctionThread {
        FunctionThread { workers }
    }

    /// Handles what has come; returns whether there was anything.
    pub fn poll(&mut self) -> bool {
        self.workers.iter_mut().fold(false, |busy, worker| worker.poll() | busy)
    }

    /// Whether any functions are here.
    pub fn has_functions(&self) -> bool {
        self.workers.iter().any(|worker| !worker.functions.is_empty())
    }
}

/// What a stage does for one worker.
pub struct ThreadWorker {
    parcels: Consumer<Box<Parcel>>,
    answers: Consumer<Box<Parcel>>,
    /// Whether an answer of the worker has to come before anything else.
    waits: bool,
    orders: Receiver<(u32, Order)>,
    /// The next order, and the number of the last that was carried out.
    next: Option<(u32, Order)>,
    done: u32,
    back: Producer<Reply>,
    functions: Vec<DeployedFunction>,
    /// Position among `functions`, by the number of the function.
    at: Vec<Option<u16>>,
    map: Arc<Map>,
    watch: Stopwatch,
    /// Time between visits.
    between: Cycles,
    pending: StateGroups,
}

impl ThreadWorker {
    /// At the other end of a worker's queue.
    pub fn new(end: ThreadEnd) -> ThreadWorker {
        let ThreadEnd { parcels, answers, orders, back } = end;
        ThreadWorker {
            parcels,
            answers,
            waits: false,
            orders,
            next: None,
            done: 0,
            back,
            functions: Vec::new(),
            at: Vec::new(),
            map: Arc::default(),
            watch: Stopwatch::default(),
            between: Cycles::default(),
            pending: StateGroups::new(),
        }
    }

    fn poll(&mut self) -> bool {
        let mut busy = false;
        for _ in 0..TURN {
            if self.waits {
                let Ok(mut parcel) = self.answers.pop() else { break };
                self.waits = false;
                self.handle(&mut parcel);
                self.give_back(parcel);
            } else if let Ok(parcel) = self.parcels.peek() {
                let order = parcel.order;
                // They were given before, so they are there.
                while self.done != order && self.next_order() {
                    self.apply_order();
                }
                let Ok(mut parcel) = self.parcels.pop() else { break };
                self.handle(&mut parcel);
                self.give_back(parcel);
            } else {
                if !self.next_order() {
                    break;
                }
                // What was sent before this order is there by now, and comes first.
                let number = self.next.as_ref().map_or(self.done, |(number, _)| *number);
                let is_before = |order: u32| order.wrapping_sub(number) as i32 > -1;
                if self.parcels.peek().is_ok_and(|parcel| !is_before(parcel.order)) {
                    continue;
                }
                self.apply_order();
            }
            busy = true;
        }
        busy
    }

    #[inline]
    fn give_back(&mut self, parcel: Box<Parcel>) {
        self.waits = parcel.asked.is_some();
        // There are no more parcels than there is room.
        drop(self.back.push(Reply::Parcel(parcel)));
    }

    /// Whether there is an order to carry out.
    fn next_order(&mut self) -> bool {
        if self.next.is_none() {
            self.next = self.orders.try_recv().ok();
        }
        self.next.is_some()
    }

    #[cold]
    fn apply_order(&mut self) {
        let Some((number, order)) = self.next.take() else { return };
        self.done = number;
        match order {
            Order::Deploy(functions, map) => {
                (self.functions, self.map) = (functions, map);
                self.at.clear();
                for (at, deployed) in self.functions.iter().enumerate() {
                    let function = usize::from(deployed.function);
                    self.at.resize(self.at.len().max(function + 1), None);
                    self.at[function] = Some(at as u16);
                }
            }
            Order::Recall => {
                self.at.clear();
                drop(self.back.push(Reply::Recalled(std::mem::take(&mut self.functions))));
            }
            Order::Configure { function, slot, settings, nth } => {
                if let Some(deployed) = self.deployed(function) {
                    deployed.instance.configure(slot, &settings, nth);
                }
            }
            Order::Release { function, slot } => {
                if let Some(deployed) = self.deployed(function) {
                    deployed.instance.release(slot);
                }
            }
        }
    }

    #[inline]
    fn deployed(&mut self, function: u16) -> Option<&mut DeployedFunction> {
        let at = self.at.get(usize::from(function)).copied().flatten()?;
        self.functions.get_mut(usize::from(at))
    }

    fn handle(&mut self, parcel: &mut Parcel) {
        if let Some((function, slot)) = parcel.timer {
            return self.timer(parcel, function, slot);
        }
        self.pending.clear();
        for position in 0..parcel.burst.packets.len() {
            let state = parcel.places[position].state;
            add_pending(&mut self.pending, state, Positions(1 << position));
        }
        self.watch.start();
        let mut visits_left = self.map.0.len() + LOOP_VISITS;
        while let Some((state, positions)) = self.pending.pop() {
            if visits_left == 0 {
                parcel.looped = parcel.looped.or(positions);
                continue;
            }
            visits_left -= 1;
            let function = self.function_of(parcel, state);
            parcel.group.clear();
            parcel.group.push((state, positions));
            let mut selected = positions;
            while let Some(&(other, positions)) = self.pending.last()
                && self.function_of(parcel, other) == function
            {
                self.pending.pop();
                parcel.group.push((other, positions));
                selected = selected.or(positions);
            }
            if !self.visit(parcel, function, selected) {
                return self.leave_to_worker(parcel, function);
            }
            let left = selected.without(parcel.dropped);
            for at in 0..parcel.group.len() {
                let (state, positions) = parcel.group[at];
                self.route(parcel, state, positions.and(left));
            }
        }
    }

    #[inline]
    fn function_of(&self, parcel: &Parcel, state: u32) -> u16 {
        match self.map.0.get(state as usize) {
            Some(at) if parcel.places[0].plan != 0 => at.function,
            _ => state as u16,
        }
    }

    /// Lets packets visit a function. False when it asked for more than a verdict.
    #[inline]
    fn visit(&mut self, parcel: &mut Parcel, function: u16, selected: Positions) -> bool {
        let at = self.at.get(usize::from(function)).copied().flatten();
        let Some(deployed) = at.and_then(|at| self.functions.get_mut(usize::from(at))) else {
            // The worker sends nothing for functions that it has not deployed.
            parcel.dropped = parcel.dropped.or(selected);
            return true;
        };
        let Parcel { burst, outcome, .. } = &mut *parcel;
        deployed.instance.prefetch(&burst.packets, selected);
        self.watch.lap(&self.between, 0);
        outcome.clear();
        deployed.instance.visit(burst, selected, outcome);
        self.watch.lap(&deployed.counters.cycles, selected.len());
        let bytes = selected.map(|position| u64::from(parcel.lengths[position])).sum();
        deployed.counters.handled.add(selected.len(), bytes);
        deployed.counters.bursts.add(1);
        note_drops(parcel, deployed);
        parcel.outcome.emissions.is_empty() || take_notes(parcel, deployed)
    }

    #[cold]
    fn timer(&mut self, parcel: &mut Parcel, function: u16, slot: u32) {
        let Some(deployed) = self.deployed(function) else { return };
        let Parcel { burst, outcome, .. } = &mut *parcel;
        outcome.clear();
        deployed.instance.timer(slot, burst.now, &burst.pool, outcome);
        note_drops(parcel, deployed);
        parcel.asked = (!parcel.outcome.emissions.is_empty()).then_some(function);
        if parcel.asked.is_some() && take_notes(parcel, deployed) {
            parcel.asked = None;
        }
    }

    /// What a function asked for is the worker's to do, and what waits for others
    /// comes behind.
    #[cold]
    fn leave_to_worker(&mut self, parcel: &mut Parcel, function: u16) {
        parcel.asked = Some(function);
        for (state, positions) in self.pending.drain(..) {
            parcel.waiting = parcel.waiting.or(positions);
            positions.for_each(|position| parcel.places[position].state = state);
        }
    }

    /// Sends packets on from `state`, as long as they stay here.
    #[inline]
    fn route(&mut self, parcel: &mut Parcel, state: u32, positions: Positions) {
        if positions.is_empty() {
            return;
        }
        let map = self.map.clone();
        let at = map.0.get(state as usize).filter(|_| parcel.places[0].plan != 0);
        match at.map(|at| &at.next) {
            Some(Next::Go(target)) => self.go(&map, parcel, state, *target, positions),
            Some(next @ Next::Branch(..)) => {
                for position in positions {
                    let target = next.choose(&PacketFacts(&parcel.burst.packets[position]));
                    self.go(&map, parcel, state, target, Positions(1 << position));
                }
            }
            None => positions.for_each(|position| parcel.places[position].state = state),
        }
    }

    #[inline]
    fn go(
        &mut self,
        map: &Map,
        parcel: &mut Parcel,
        state: u32,
        target: NextHop,
        positions: Positions,
    ) {
        match target.to {
            To::State(next) if map.0[next.0 as usize].here => {
                if let Some(chain) = target.set_chain {
                    for position in positions {
                        let packet = &mut parcel.burst.packets[position];
                        TagSlot::CHAIN.set(packet.metadata_mut(), chain);
                    }
                }
                add_pending(&mut self.pending, next.0, positions);
            }
            _ => positions.for_each(|position| parcel.places[position].state = state),
        }
    }
}

/// Notes what a function asked for, if none of it concerns the order of packets.
#[cold]
fn take_notes(parcel: &mut Parcel, deployed: &DeployedFunction) -> bool {
    let concerns_order = |one: &Emission| {
        !matches!(
            one.what,
            EmissionKind::WakeAt(_) | EmissionKind::Answer(_) | EmissionKind::Report(_)
        )
    };
    let room = parcel.notes.remaining_capacity();
    let Parcel { burst, outcome, notes, timer, .. } = parcel;
    let emissions = &mut outcome.emissions;
    if emissions.len() > room || emissions.iter().any(concerns_order) {
        return false;
    }
    for Emission { parent, what } in emissions.drain(..) {
        let slot = match (&timer, deployed.instance.scope()) {
            (Some((_, slot)), _) => *slot,
            (None, Scope::Bearer) => burst.packets[parent].metadata().bearer,
            (None, Scope::User) => burst.packets[parent].metadata().user,
            (None, Scope::Group) => burst.packets[parent].metadata().group,
        };
        notes.push((deployed.function, slot, what));
    }
    true
}

/// Counts what a visit dropped; notes what panicked, and what found no room.
#[inline]
fn note_drops(parcel: &mut Parcel, deployed: &DeployedFunction) {
    let outcome = &mut parcel.outcome;
    if outcome.dropped.is_empty() && outcome.resets.is_empty() && outcome.refused == 0 {
        return;
    }
    for position in outcome.dropped {
        let reason = usize::from(outcome.reasons[position]);
        note_drop(&mut parcel.burst, position, reason as u8, deployed.instance.kind().name);
        deployed.counters.drops[reason.min(deployed.counters.drops.len() - 1)].add(1);
    }
    parcel.dropped = parcel.dropped.or(outcome.dropped);
    parcel.refused += std::mem::take(&mut outcome.refused);
    for slot in outcome.resets.drain(..) {
        // No more positions than this can panic in one burst.
        let _ = parcel.resets.try_push((deployed.function, slot));
    }
}
