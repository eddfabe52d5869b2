//! Packets of bearers that do not forward now: dropped, or kept until they do.

use weft_compose::Positions;
use weft_dpdk::Packet;
use weft_function::{Metadata, PacketMetadata};

use super::{BURST, Worker};
use crate::buffering::limits::WAITING;
use crate::classify::Action;
use crate::command::Report;
use crate::counters::DropReason;
use crate::trace::Point;

impl Worker {
    /// Sees to the packets of the burst that are not to be forwarded now.
    #[cold]
    pub(crate) fn hold(&mut self) {
        let held = self.state.classified.held;
        for position in held {
            let packet = &self.state.burst.packets[position];
            let PacketMetadata { bearer, step, .. } = *packet.metadata();
            let action = step.get::<Action>();
            let refused = match action {
                Action::Drop => Err(DropReason::BearerDrop),
                _ => self.idle.take(bearer, packet.len()),
            };
            match refused {
                Ok(()) => {
                    // A burst has no more packets than the queues can note.
                    self.queues.keep_waiting(bearer, position);
                    if action == Action::Notify && self.idle.is_untold(bearer) {
                        self.tell(bearer);
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
    fn tell(&mut self, bearer: u32) {
        if self.departure.report(Report::DownlinkData(bearer)).is_ok() {
            self.idle.note_told(bearer);
        }
    }

    /// The action of the bearer at `slot` is `action` from now on: what waits
    /// for it goes its way, oldest first, before any other packet of it.
    pub(crate) fn act(&mut self, slot: u32, action: Action) {
        if !self.idle.holds(slot) {
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
}
