//! What a worker does with the functions that stages run for it.

use std::time::{Duration, Instant};

use weft_function::EmissionKind;

use crate::command::{Command, UserChange};
use crate::counters::DropReason;
use crate::offload::stage::{DeployedFunction, Deployment, Order, Parcel, StageQueue};
use crate::offload::{CreditReservations, Placeholder};
use crate::worker::apply_commands::CHANGES_AT_ONCE;
use crate::worker::{BurstState, Worker};

/// How long a worker that stops waits for what is away.
const LAST_WAIT: Duration = Duration::from_secs(2);

impl Worker {
    /// Deploys functions to their stages, or recalls them, as the next command needs it.
    /// During a recall the worker does nothing else: the answer is then whether anything
    /// came.
    #[inline]
    pub(crate) fn drive_stages(&mut self) -> Option<bool> {
        match self.remote_queues.deployment {
            Deployment::Deployed if !self.needs_recall() => None,
            Deployment::Local if self.needs_recall() => None,
            Deployment::Local => {
                self.deploy();
                None
            }
            _ => self.recall(),
        }
    }

    /// Whether any functions are at stages.
    #[inline]
    pub(crate) fn has_deployed(&self) -> bool {
        self.remote_queues.has_stages() && self.remote_queues.deployment != Deployment::Local
    }

    /// Whether what comes next is done with functions that are at hand.
    #[inline]
    pub(crate) fn needs_recall(&self) -> bool {
        let changes = match (&self.state.changing, self.commands.peek()) {
            (Some((changes, next)), _) => &changes[*next..],
            (None, Ok(Command::Users(changes))) => &changes[..],
            (None, Ok(command)) => {
                let is_tied = self.state.taps.is_some() || self.remote_queues.lifted.is_some();
                return is_tied || needs_local_functions(command);
            }
            (None, Err(_)) => &[],
        };
        let mut changes = changes.iter().take(CHANGES_AT_ONCE);
        self.state.taps.is_some()
            || self.remote_queues.lifted.is_some()
            || !self.state.leaving.is_empty()
            || changes.any(|change| {
                matches!(
                    change,
                    UserChange::EndTunnels { .. }
                        | UserChange::Ask { .. }
                        | UserChange::Forget { .. }
                        | UserChange::Remove { .. }
                        | UserChange::RemoveGroup { .. }
                )
            })
    }

    /// Deploys the functions of each stage.
    #[cold]
    fn deploy(&mut self) {
        self.remote_queues.deployment = Deployment::Deployed;
        let mut functions: Vec<Vec<DeployedFunction>> =
            self.remote_queues.stages.iter().map(|_| Vec::new()).collect();
        for (number, function) in self.element.functions_mut().iter_mut().enumerate() {
            let Some(remote_queue) = function.stage else { continue };
            let stage = self.remote_queues.stage_number(remote_queue);
            let orders = self.remote_queues.stages[stage].carrier.context_orders(number as u16);
            let (kind, scope) = (function.instance.kind(), function.instance.scope());
            let placeholder = Placeholder::new(kind, scope, orders);
            let instance = std::mem::replace(&mut function.instance, Box::new(placeholder));
            let counters = function.counters.clone();
            function.remote_queue = Some(remote_queue);
            functions[stage].push(DeployedFunction { function: number as u16, instance, counters });
        }
        for (stage, functions) in self.remote_queues.stages.iter_mut().zip(functions) {
            if let Some(map) = &stage.map
                && !functions.is_empty()
            {
                stage.has_functions = true;
                stage.carrier.order(Order::Deploy(functions, map.clone()));
            }
        }
    }

    /// Lets all that is away at stages come back and go its way, and then the functions.
    /// None when they are here.
    #[cold]
    pub fn recall(&mut self) -> Option<bool> {
        if self.remote_queues.deployment == Deployment::Local {
            return None;
        }
        let mut busy = self.take_parcels();
        busy |= self.departure.relay();
        if self.remote_queues.deployment == Deployment::Deployed {
            self.remote_queues.deployment = Deployment::Draining;
        }
        if self.remote_queues.deployment == Deployment::Draining {
            if self.remote_queues.stages.iter().any(|stage| stage.away() > 0) {
                return Some(busy);
            }
            self.remote_queues.deployment = Deployment::Recalled;
            for stage in self.remote_queues.stages.iter_mut().filter(|stage| stage.has_functions) {
                stage.carrier.order(Order::Recall);
            }
        }
        if self.remote_queues.stages.iter().any(|stage| stage.has_functions) {
            return Some(busy);
        }
        for DeployedFunction { function, instance, .. } in self.remote_queues.recalled.drain(..) {
            if let Some(at) = self.element.functions_mut().get_mut(usize::from(function)) {
                (at.instance, at.remote_queue) = (instance, None);
            }
        }
        self.remote_queues.deployment = Deployment::Local;
        None
    }

    /// Takes what came back from stages, and carries it on.
    #[inline]
    pub(crate) fn take_parcels(&mut self) -> bool {
        let mut busy = false;
        for stage in 0..self.remote_queues.stages.len() {
            let remote_queues = &mut self.remote_queues;
            if let Some(parcel) = remote_queues.stages[stage].collect(&mut remote_queues.recalled) {
                busy = true;
                match parcel.weight() {
                    0 => remote_queues.stages[stage].settle(parcel, 0),
                    weight => self.unpack(stage, parcel, weight),
                }
            }
        }
        busy
    }

    #[inline]
    fn unpack(&mut self, stage: usize, mut parcel: Box<Parcel>, weight: usize) {
        self.note_outcome(&mut parcel);
        let is_asked = parcel.asked.is_some();
        let BurstState { burst, classified, watch, .. } = &mut self.state;
        std::mem::swap(&mut burst.packets, &mut parcel.burst.packets);
        burst.now = self.clock.now();
        classified.clear();
        watch.start();
        self.departure.originals.extend(parcel.originals.drain(..));
        let mut kept = CreditReservations::default();
        let places = &parcel.places[..burst.packets.len()];
        places.iter().for_each(|place| kept.add(*place));
        self.remote_queues.release(&kept);
        self.visit_and_then(
            |element, burst, _, context| {
                element.unpack(burst, &mut parcel, context);
                // What goes to this stage again finds its room.
                context.remote_queues.stages[stage].settle(parcel, weight);
                context.remote_queues.stages[stage].is_asked = is_asked;
            },
            |remote_queues| {
                if is_asked {
                    remote_queues.stages[stage].answer();
                }
            },
        );
    }

    /// Counts what panicked at a stage and what found no room there.
    #[inline]
    fn note_outcome(&mut self, parcel: &mut Parcel) {
        if parcel.resets.is_empty() && parcel.refused == 0 && parcel.notes.is_empty() {
            return;
        }
        for (function, slot, what) in parcel.notes.drain(..) {
            match what {
                EmissionKind::WakeAt(time) => self.queues.wake_at(time, function, slot),
                EmissionKind::Report(code) => self.queues.report(function, slot, code),
                EmissionKind::Answer(packet) => {
                    self.counters.emitted.add(1);
                    if !self.queues.answer(packet) {
                        self.counters.dropped(DropReason::BurstFull, 1);
                    }
                }
                EmissionKind::Send(..) | EmissionKind::Keep | EmissionKind::Release(_) => {}
            }
        }
        self.counters.panics.add(parcel.resets.len() as u64);
        for (function, slot) in parcel.resets.drain(..) {
            self.queues.note_reset(function, slot);
        }
        self.counters.emitted.add(parcel.refused);
        self.counters.dropped(DropReason::BurstFull, parcel.refused as usize);
    }

    /// Lets the stage that has a function call its timer. None when it is at hand,
    /// false when there is no room for it now.
    pub(crate) fn wake_at_stage(&mut self, function: u16, slot: u32, now: u64) -> Option<bool> {
        if self.remote_queues.lifted.is_some_and(|lifted| lifted.function() == function) {
            return Some(false);
        }
        let at = self.element.plan().functions.get(usize::from(function))?;
        let remote_queue =
            at.stage.filter(|_| self.remote_queues.deployment != Deployment::Local)?;
        let stage = self.remote_queues.stage_number(remote_queue);
        Some(self.remote_queues.stages[stage].wake(function, slot, now))
    }

    /// Stops: what is in flight leaves, and what still waits is counted.
    pub fn finish(&mut self) {
        self.carry_all_waiting();
        // What is in the rings, from workers that stop as well.
        while self.take_over() | self.departure.relay() {}
        self.finish_stages();
        self.finish_remote_queues();
        self.departure.finish();
        self.counters.dropped(DropReason::Stopped, self.queues.clear());
        let gated = self.gates.as_mut().map_or(0, |gates| gates.clear());
        self.counters.dropped(DropReason::Stopped, gated);
    }

    /// Waits for what is away at stages, as the worker stops; the rest is counted.
    pub(crate) fn finish_stages(&mut self) {
        let until = Instant::now() + LAST_WAIT;
        while let Some(busy) = self.recall()
            && Instant::now() < until
        {
            if !busy {
                std::thread::yield_now();
            }
        }
        let away = self.remote_queues.stages.iter().map(StageQueue::away).sum();
        self.counters.dropped(DropReason::Stopped, away);
    }
}

/// Whether a command is carried out with functions that are at hand.
fn needs_local_functions(command: &Command) -> bool {
    match command {
        Command::Replace(_)
        | Command::Lift { .. }
        | Command::Order(_)
        | Command::Drain(_)
        | Command::Redirect(_)
        | Command::TakeOut(_)
        | Command::TakeIn(_)
        | Command::ReadContexts { .. }
        | Command::ShowContexts { .. }
        | Command::WriteContexts { .. }
        | Command::Load(_)
        | Command::Tap(..)
        | Command::Show { .. } => true,
        Command::Users(_)
        | Command::Configure(_)
        | Command::Neighbour { .. }
        | Command::Detach { .. }
        | Command::Attach(_)
        | Command::Transmit { .. }
        | Command::Originate { .. }
        | Command::Answer(_)
        | Command::Untap(_) => false,
    }
}
