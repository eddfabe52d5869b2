//! A worker of a node with functions at other nodes or behind NICs, as another process goes on: it
//! stops receiving packets of users first, and finishes then what is in flight.

use std::collections::VecDeque;
use std::thread;
use std::time::Instant;

use arrayvec::ArrayVec;
use weft_dpdk::{Batch, Packet};

use super::{BURSTS_AT_ONCE, LATE, digest};
use crate::counters::DropReason;
use crate::worker::{BURST, BurstState, Worker};

/// Buffers that packets in flight need beside those that wait.
pub(super) const SPARE: u32 = 4 * BURST as u32;

/// Packets, each with the number of its inlet.
pub(super) type OfInlets = VecDeque<(usize, Packet)>;

/// Packets that a worker has received, and not carried.
#[derive(Debug, Default)]
pub struct Uncarried {
    /// What came before it stopped receiving, and was not looked at yet.
    received: OfInlets,
    /// Those of users among it, which wait until functions have room.
    earlier: OfInlets,
    /// Those of users that came later: another process has received them as well.
    later: OfInlets,
}

impl Uncarried {
    /// How many are left to the other process.
    pub fn left(&self) -> usize {
        self.later.len()
    }
}

impl Worker {
    /// Whether functions are at other nodes or behind NICs: their packets go and come by ports.
    pub fn has_functions_at_ports(&self) -> bool {
        self.remote_queues.are_at_ports(|_| true)
    }

    /// Whether packets are there.
    pub fn waits_at_ports(&self) -> bool {
        self.remote_queues.are_at_ports(|queue| queue.away() > 0)
    }

    /// Calls functions back from their threads, and takes in what queues hold, but carries none of
    /// it yet: however slow functions are, this has an end. For each packet `note` is told the
    /// port and a number for its octets. False where buffers do not suffice.
    pub fn receive_all(
        &mut self,
        uncarried: &mut Uncarried,
        note: &mut dyn FnMut(u16, u64),
    ) -> bool {
        while let Some(busy) = self.recall() {
            if !busy {
                thread::yield_now();
            }
        }
        self.take_all_waiting(&mut |inlet, packet| uncarried.received.push_back((inlet, packet)));
        for inlet in 0..self.inlets.len() {
            let port = self.inlets[inlet].port;
            let mut received = BURST;
            // What comes behind a short burst came later.
            while received == BURST {
                if self.state.burst.pool.available() < SPARE {
                    return false;
                }
                received = self.receive(inlet);
                for packet in self.state.burst.packets.drain() {
                    note(port, digest(packet.data()));
                    uncarried.received.push_back((inlet, packet));
                }
            }
        }
        true
    }

    /// Carries on what is in flight: what was received before, as functions have room, and what
    /// comes back from functions, or is for the node itself. Packets of users that come are laid
    /// aside. Returns whether anything is in flight still. `note` is told of packets that came and
    /// are not laid aside.
    pub fn finish_in_flight(
        &mut self,
        uncarried: &mut Uncarried,
        note: &mut dyn FnMut(u16, u64),
    ) -> bool {
        let mut busy = self.apply_commands();
        let Uncarried { received, earlier, later } = uncarried;
        // What comes back goes on to functions at this node.
        while self.has_room_for_returns() {
            let Some(inlet) = self.take_burst(received) else { break };
            self.carry_returns(inlet, earlier, &mut |_, _| {});
        }
        for inlet in 0..self.inlets.len() {
            for _ in 0..BURSTS_AT_ONCE {
                let may_receive = received.is_empty() && self.has_room_for_returns();
                if !may_receive || self.receive(inlet) == 0 {
                    break;
                }
                self.carry_returns(inlet, later, note);
            }
        }
        busy |= self.drive_away();
        if self.remote_queues.have_room() {
            self.carry_burst_of(earlier);
        }
        busy |= self.take_over();
        busy |= self.drive_away();
        busy |= self.departure.relay();
        busy |= self.waits_for_functions() || self.waits_at_ports();
        busy || !received.is_empty() || !earlier.is_empty()
    }

    /// Carries all that was received, as no other process does it: as functions have room, for as
    /// long as that may take.
    pub fn carry_uncarried(&mut self, uncarried: &mut Uncarried) {
        let until = Instant::now() + LATE;
        loop {
            // Nothing is received before all that was received has been looked at.
            if uncarried.received.is_empty() {
                uncarried.earlier.append(&mut uncarried.later);
                if uncarried.earlier.is_empty() {
                    return;
                }
            }
            if Instant::now() < until {
                self.finish_in_flight(uncarried, &mut |_, _| {});
            } else {
                let Uncarried { received, earlier, .. } = uncarried;
                earlier.append(received);
                self.carry_burst_of(earlier);
            }
        }
    }

    /// Drops all that was received, as the node may not carry it.
    pub fn drop_uncarried(&mut self, uncarried: &mut Uncarried) {
        let Uncarried { received, earlier, later } = std::mem::take(uncarried);
        let count = received.len() + earlier.len() + later.len();
        self.counters.dropped(DropReason::Stopped, count);
    }

    fn has_room_for_returns(&mut self) -> bool {
        self.drive_away();
        self.remote_queues.have_room_at_node() && self.state.burst.pool.available() >= SPARE
    }

    /// Takes a burst of what came in at one inlet in hand.
    pub(super) fn take_burst(&mut self, from: &mut OfInlets) -> Option<usize> {
        let inlet = from.front().map(|(inlet, _)| *inlet)?;
        let count = from.iter().take(BURST).take_while(|(at, _)| *at == inlet).count();
        for (_, packet) in from.drain(..count) {
            // A batch has room for a burst.
            drop(self.state.burst.packets.push(packet));
        }
        if inlet >= self.inlets.len() {
            // Its device was taken away.
            self.counters.dropped(DropReason::PortGone, count);
            self.state.burst.packets.clear();
            return None;
        }
        self.state.watch.start();
        self.begin_burst();
        Some(inlet)
    }

    fn carry_burst_of(&mut self, earlier: &mut OfInlets) {
        if let Some(inlet) = self.take_burst(earlier) {
            self.carry_received(inlet);
            self.drive_away();
        }
    }

    /// Carries what has come back in the burst in hand, and lays packets of users aside.
    fn carry_returns(
        &mut self,
        inlet: usize,
        users: &mut OfInlets,
        note: &mut dyn FnMut(u16, u64),
    ) {
        let port = self.inlets[inlet].port;
        let packets = &self.state.burst.packets;
        let digests: ArrayVec<u64, { Batch::CAPACITY }> =
            packets.iter().map(|packet| digest(packet.data())).collect();
        let (transit, _) = self.parse(inlet);
        let BurstState { burst, framed, .. } = &mut self.state;
        let framed = std::mem::take(framed);
        for (position, packet) in burst.packets.drain().enumerate() {
            if transit.contains(position) {
                users.push_back((inlet, packet));
                continue;
            }
            note(port, digests[position]);
            if framed.contains(position)
                && let Some(service) = &mut self.departure.service
            {
                // There is room for as many as a batch has.
                drop(service.arrived.push(packet));
            }
        }
        self.serve_arrived();
        self.drive_away();
    }
}
