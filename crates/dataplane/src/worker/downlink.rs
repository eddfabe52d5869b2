//! Packets of bearers that do not forward now: dropped, or kept until they do; and of users whose
//! contexts are still being read.

use weft_compose::Positions;
use weft_dpdk::Packet;
use weft_function::{Metadata, PacketMetadata};

use super::{BURST, Worker};
use crate::buffering::limits::WAITING;
use crate::classify::Action;
use crate::command::Report;
use crate::command::contexts::{Load, LoadedContext};
use crate::counters::DropReason;
use crate::trace::Point;

impl Worker {
    /// Sees to the packets of the burst that are not to be forwarded now.
    #[cold]
    pub(crate) fn hold(&mut self) {
        let held = self.state.classified.held;
        for position in held {
            let packet = &self.state.burst.packets[position];
            let PacketMetadata { user, bearer, step, .. } = *packet.metadata();
            let action = step.get::<Action>();
            // All of a user wait in one queue for contexts: that of the default bearer.
            let bearer = if action == Action::Forward { user } else { bearer };
            let refused = match action {
                Action::Drop => Err(DropReason::BearerDrop),
                Action::Forward => {
                    let taken = self.idle.take(user, packet.len());
                    taken.map_err(|_| DropReason::NotLoaded)
                }
                Action::Buffer | Action::Notify => self.idle.take(bearer, packet.len()),
            };
            match refused {
                Ok(()) => {
                    // A burst has no more packets than the queues can note.
                    self.queues.keep_waiting(bearer, position);
                    if action != Action::Buffer && self.idle.is_untold(bearer) {
                        self.tell(bearer, action);
                    }
                }
                Err(reason) => {
                    self.counters.dropped(reason, 1);
                    let one = Positions(1 << position);
                    if let Some(taps) = &mut self.state.taps {
                        taps.at(Point::Dropped(reason), one, &self.state.burst);
                    }
                }
            }
        }
    }

    /// Tells the agent of the first packet that waits. A report that finds no
    /// room is made with the next packet.
    fn tell(&mut self, bearer: u32, action: Action) {
        let report = match action {
            Action::Forward => Report::Wanted(bearer),
            _ => Report::DownlinkData(bearer),
        };
        if self.departure.report(report).is_ok() {
            self.idle.note_told(bearer);
        }
    }

    /// The action of the bearer at `slot` is `action` from now on: what waits
    /// for it goes its way, oldest first, before any other packet of it.
    pub(crate) fn act(&mut self, slot: u32, action: Action) {
        // What waits for contexts meets the action when they are there.
        if !self.idle.holds(slot) || self.classifier.is_loading(slot) {
            return;
        }
        match action {
            Action::Buffer | Action::Notify => {}
            Action::Drop => {
                self.idle.settle(slot);
                let lost = self.queues.forget(WAITING, slot);
                self.counters.dropped(DropReason::BearerDrop, lost);
            }
            Action::Forward => {
                self.idle.settle(slot);
                while self.take_waiting(slot) {
                    self.carry_on();
                }
            }
        }
    }

    /// A packet that waited for the bearer at `slot` at another node, which has told of
    /// it, waits on.
    pub(crate) fn wait_again(&mut self, slot: u32, packet: Packet) {
        match self.idle.take(slot, packet.len()) {
            Ok(()) if self.queues.wait_again(slot, packet) => self.idle.note_told(slot),
            Ok(()) => self.counters.dropped(DropReason::KeptFull, 1),
            Err(reason) => self.counters.dropped(reason, 1),
        }
    }

    /// Takes up to a burst of what waits for the bearer at `slot` in hand.
    fn take_waiting(&mut self, slot: u32) -> bool {
        let burst = &mut self.state.burst;
        while burst.packets.len() < BURST
            && let Some(packet) = self.queues.take(WAITING, slot)
        {
            // There is room: the burst was empty.
            let _ = burst.packets.push(packet);
        }
        !burst.packets.is_empty()
    }

    /// Drops what waits for the bearer at `slot`, which is gone.
    pub(crate) fn forget_waiting(&mut self, slot: u32) {
        if self.idle.holds(slot) {
            self.idle.settle(slot);
            let lost = self.queues.forget(WAITING, slot);
            self.counters.dropped(DropReason::UserRemoved, lost);
        }
    }

    /// Packets of users wait until their contexts are there ([`Command::Load`]): of those whose
    /// index is below `users`. Before any packet comes.
    ///
    /// [`Command::Load`]: crate::command::Command::Load
    pub fn begin_loading(&mut self, users: usize) {
        self.classifier.begin_loading(users);
        self.is_loading = true;
    }

    /// Whether contexts of users are still to come.
    pub fn is_loading(&self) -> bool {
        self.is_loading
    }

    /// Gives functions contexts that were read, and lets packets of the users go that have all of
    /// theirs now.
    pub(crate) fn load(&mut self, mut load: Box<Load>) {
        let now = self.clock.now();
        for (at, LoadedContext { function, slot, octets, .. }) in load.contexts.iter().enumerate() {
            let functions = self.element.functions_mut();
            let Some(function) = functions.get_mut(usize::from(*function)) else { continue };
            let octets = load.octets.get(octets.clone()).unwrap_or_default();
            match function.instance.import(*slot, now, octets) {
                Ok(()) => {
                    (0..load.crashes).for_each(|_| function.instance.go_on_at(*slot, now));
                }
                Err(error) => load.refused.push((at, error)),
            }
        }
        load.settings.iter().for_each(|configure| self.configure_one(configure));
        for slot in &load.users {
            self.classifier.end_loading(*slot);
            self.let_waiting_go(*slot);
        }
        self.is_loading &= !load.is_last;
        let answer = load.answer.clone();
        // The agent may have stopped.
        drop(answer.send(load));
    }

    /// Carries on what has waited for contexts of the user at `slot`, oldest first. Some of it may
    /// wait on, for its bearer.
    fn let_waiting_go(&mut self, slot: u32) {
        if !self.idle.holds(slot) {
            return;
        }
        self.idle.settle(slot);
        let mut left = self.queues.length(WAITING, slot);
        while left > 0 {
            let burst = &mut self.state.burst;
            let count = left.min(BURST);
            for packet in (0..count).filter_map(|_| self.queues.take(WAITING, slot)) {
                // There is room: the burst was empty.
                let _ = burst.packets.push(packet);
            }
            left -= count;
            self.carry_on();
        }
    }
}
