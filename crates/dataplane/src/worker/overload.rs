//! A worker that has more to do than it can: how long packets wait until it is their turn.
//!
//! A receive queue that is full delays every packet by all that stand before it. Where such a
//! queue has not been empty for an interval, and what the worker carries in the target time is less
//! than a queue holds, the worker takes all that has come, keeps as much as it can carry in that
//! time, fairly between users, and drops the rest as `overload`.

use weft_dpdk::{Batch, Packet, tsc};

use super::{BURST, Worker};
use crate::buffering::fair_queue::FairQueue;
use crate::command::attachment::Inlet;
use crate::counters::DropReason;

/// For how many times the target a queue is never empty until its packets are too many: the
/// target is 5 % of the interval (RFC 8289 §4.4).
const INTERVAL: u64 = 20;
/// Packets that the longest receive queue holds.
const LONGEST: u64 = 4096;
/// Bursts that are taken from a queue at once.
const BURSTS_AT_ONCE: usize = LONGEST as usize / BURST;
/// Packets behind which older ones count half in the rate.
const MEMORY: u64 = 1 << 14;

/// How long packets may wait in the receive queues of an overloaded worker.
#[derive(Debug)]
pub(crate) struct DelayBound {
    /// In nanoseconds.
    target: u64,
    /// By inlet.
    inlets: Vec<Standing>,
}

/// What is known of one receive queue.
#[derive(Debug, Default)]
struct Standing {
    /// When it was last empty, as far as it was looked at.
    empty_at: Option<u64>,
    /// Packets that were carried from it, and since when: newer ones count for more.
    carried: u64,
    since: u64,
    /// What was taken from it and waits, while it is overloaded.
    waiting: Option<Box<FairQueue>>,
}

impl DelayBound {
    /// Of so many nanoseconds.
    pub fn new(target: u64) -> DelayBound {
        DelayBound { target, inlets: Vec::new() }
    }

    fn standing(&mut self, inlet: usize) -> &mut Standing {
        if self.inlets.len() <= inlet {
            self.inlets.resize_with(inlet + 1, Standing::default);
        }
        &mut self.inlets[inlet]
    }
}

impl Standing {
    /// The queue is empty at `now`.
    fn is_empty_at(&mut self, now: u64) {
        (self.empty_at, self.since, self.carried) = (Some(now), now, 0);
    }

    /// For how long the queue has not been empty. It was when it is first looked at.
    fn stands_for(&mut self, now: u64) -> u64 {
        if self.empty_at.is_none() {
            self.is_empty_at(now);
        }
        now.saturating_sub(self.empty_at.unwrap_or(now))
    }

    /// Packets that are carried within `target`, at the rate of the last while.
    fn room(&self, target: u64, now: u64) -> u64 {
        let lasted = now.saturating_sub(self.since).max(1);
        (u128::from(target) * u128::from(self.carried) / u128::from(lasted)) as u64
    }

    fn note_carried(&mut self, count: usize, now: u64) {
        self.carried += count as u64;
        if self.carried > MEMORY {
            self.carried /= 2;
            self.since += now.saturating_sub(self.since) / 2;
        }
    }
}

impl Worker {
    /// [`carry`](Self::carry) where packets may not wait for longer than a target.
    #[cold]
    pub(super) fn carry_bounded(&mut self, inlet: usize) -> bool {
        let Some(mut bound) = self.delay_bound.take() else { return false };
        let target = bound.target;
        let standing = bound.standing(inlet);
        let busy = match standing.waiting {
            Some(_) => self.carry_waiting(inlet, standing, target),
            None => self.carry_and_watch(inlet, standing, target),
        };
        self.delay_bound = Some(bound);
        busy
    }

    /// Carries a burst as ever, and sees whether the queue behind it becomes too long.
    fn carry_and_watch(&mut self, inlet: usize, standing: &mut Standing, target: u64) -> bool {
        let count = self.receive(inlet);
        if count > 0 {
            self.carry_received(inlet);
        }
        let now = self.clock.now();
        if count < BURST {
            standing.is_empty_at(now);
            return count > 0;
        }
        let stands_for = standing.stands_for(now);
        standing.note_carried(count, now);
        if stands_for > INTERVAL * target && standing.room(target, now) < LONGEST {
            standing.waiting = Some(Box::new(FairQueue::new(tsc::now())));
        }
        true
    }

    /// Takes all that has come, and carries a burst of what waits.
    fn carry_waiting(&mut self, inlet: usize, standing: &mut Standing, target: u64) -> bool {
        let now = self.clock.now();
        let room = standing.room(target, now).clamp(BURST as u64, LONGEST) as usize;
        let Some(queue) = &mut standing.waiting else { return false };
        let (mut is_empty, mut dropped) = (false, 0);
        for _ in 0..BURSTS_AT_ONCE {
            let Inlet { port, queue: device, .. } = &mut self.inlets[inlet];
            let packets = &mut self.state.burst.packets;
            let count = device.receive(packets, BURST);
            if count == 0 {
                is_empty = true;
                break;
            }
            let direction = self.classifier.direction_at(*port);
            self.counters.bursts.note(count);
            let bytes = packets.iter().map(|packet| packet.len() as u64).sum();
            self.counters.ports[usize::from(*port)].received.add(count, bytes);
            for packet in packets.drain() {
                dropped += usize::from(queue.push(packet, direction, room).is_some());
            }
            is_empty = count < BURST;
            if is_empty {
                break;
            }
        }
        self.counters.dropped(DropReason::Overload, dropped);
        queue.take(&mut self.state.burst.packets, BURST);
        let count = self.state.burst.packets.len();
        if count > 0 {
            self.state.watch.start();
            self.begin_burst();
            self.carry_received(inlet);
        }
        standing.note_carried(count, now);
        if is_empty && standing.waiting.as_ref().is_some_and(|queue| queue.len() == 0) {
            standing.waiting = None;
            standing.is_empty_at(self.clock.now());
        }
        count > 0
    }

    /// Gives away all that was taken from queues and waits, with the numbers of its inlets.
    pub(crate) fn take_all_waiting(&mut self, take: &mut dyn FnMut(usize, Packet)) {
        let Some(bound) = &mut self.delay_bound else { return };
        for (inlet, standing) in bound.inlets.iter_mut().enumerate() {
            let Some(mut queue) = standing.waiting.take() else { continue };
            let mut packets = Batch::new();
            while queue.len() > 0 {
                queue.take(&mut packets, BURST);
                packets.drain().for_each(|packet| take(inlet, packet));
            }
        }
    }

    /// Carries all that was taken from queues and waits.
    pub(crate) fn carry_all_waiting(&mut self) {
        let Some(mut bound) = self.delay_bound.take() else { return };
        for (inlet, standing) in bound.inlets.iter_mut().enumerate() {
            let Some(mut queue) = standing.waiting.take() else { continue };
            while queue.len() > 0 && inlet < self.inlets.len() {
                queue.take(&mut self.state.burst.packets, BURST);
                self.begin_burst();
                self.carry_received(inlet);
            }
            // Its device was taken away.
            self.counters.dropped(DropReason::PortGone, queue.len());
        }
        self.delay_bound = Some(bound);
    }
}
