//! The way of a frame: taken from the ring of its virtual function, queued for another by
//! destination MAC, given to that one's ring.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weft_dpdk::{Batch, Packet, Pool, Port, RxQueue, TxQueue};

use crate::share::{Share, visits};
use crate::statistics::{Counters, DropReason};

/// Frames of one visit at a port, of the one with the greatest rate.
const VISIT: usize = 64;
/// Frames taken or given at once.
const BURST: usize = 32;
/// Rounds between two looks at whether a front end is attached.
const ROUNDS: u32 = 256;
/// Octets of an Ethernet header.
const HEADER: usize = 14;
/// Frames that wait for one port.
pub(crate) const WAITING: usize = weft_vf::QUEUE as usize;

/// A port of the switch.
pub(crate) struct Outlet {
    pub rx: RxQueue,
    pub tx: TxQueue,
    pub port: Port,
    pub mac: [u8; 6],
    pub spoof_check: bool,
    pub rate: u64,
    pub counters: Arc<Counters>,
}

/// A port at work.
struct At {
    outlet: Outlet,
    attached: bool,
    /// Frames of one visit.
    visit: usize,
    /// What it may send, and what it may be sent.
    sends: Share,
    receives: Share,
    /// What waits for it.
    queue: VecDeque<Packet>,
    /// What left the queue and the ring did not take yet.
    leaving: Batch,
}

/// Ports, and frames between them.
pub(crate) struct Fabric {
    ports: Vec<At>,
    macs: Vec<[u8; 6]>,
    /// For copies of frames that go to several.
    pool: Pool,
    coming: Batch,
    /// The port that a round begins with.
    first: usize,
    rounds: u32,
}

impl Fabric {
    /// A switch of these ports; `hz` and `now` are those of the clock that rounds go by.
    pub fn new(outlets: Vec<Outlet>, pool: Pool, hz: u64, now: u64) -> Fabric {
        let rates: Vec<u64> = outlets.iter().map(|outlet| outlet.rate).collect();
        let macs = outlets.iter().map(|outlet| outlet.mac).collect();
        let at = |(outlet, visit): (Outlet, usize)| At {
            attached: false,
            visit,
            sends: Share::new(outlet.rate, hz, now),
            receives: Share::new(outlet.rate, hz, now),
            queue: VecDeque::with_capacity(WAITING),
            leaving: Batch::new(),
            outlet,
        };
        let ports = outlets.into_iter().zip(visits(&rates, VISIT)).map(at).collect();
        Fabric { ports, macs, pool, coming: Batch::new(), first: 0, rounds: 0 }
    }

    /// One visit at each port in both directions; returns whether anything passed.
    pub fn round(&mut self, now: u64) -> bool {
        if self.rounds.is_multiple_of(ROUNDS) {
            self.look();
        }
        self.rounds = self.rounds.wrapping_add(1);
        let count = self.ports.len();
        let mut any = false;
        for step in 0..count {
            any |= self.take((self.first + step) % count, now);
        }
        self.first = (self.first + 1) % count.max(1);
        for port in &mut self.ports {
            any |= port.give(now);
        }
        any
    }

    /// Sees who is attached.
    fn look(&mut self) {
        for port in &mut self.ports {
            port.look();
            if !port.attached {
                port.forget();
            }
        }
    }

    /// Takes frames from a port, within its share, and queues them for others.
    fn take(&mut self, from: usize, now: u64) -> bool {
        let mut coming = std::mem::take(&mut self.coming);
        let mut any = false;
        let visit = self.ports[from].visit;
        let mut may = self.ports[from].sends.frames(now, visit);
        while may > 0 {
            let wanted = may.min(BURST);
            let port = &mut self.ports[from];
            let came = port.outlet.rx.receive(&mut coming, wanted);
            if came == 0 {
                break;
            }
            any = true;
            may -= came;
            port.sends.spend(came);
            let bytes: usize = coming.iter().map(|frame| frame.len()).sum();
            port.outlet.counters.tx[0].add(came as u64);
            port.outlet.counters.tx[1].add(bytes as u64);
            for frame in coming.drain() {
                self.direct(from, frame);
            }
            if came < wanted {
                break;
            }
        }
        self.coming = coming;
        any
    }

    /// Queues a frame for whom it goes to.
    #[inline]
    fn direct(&mut self, from: usize, frame: Packet) {
        let source = &self.ports[from].outlet;
        let data = frame.data();
        if data.len() < HEADER {
            return source.counters.lose(DropReason::FrameTooShort, 1);
        }
        if source.spoof_check && data[6..12] != source.mac {
            return source.counters.lose(DropReason::SourceSpoofed, 1);
        }
        if data[0] & 1 == 1 {
            return self.flood(from, &frame);
        }
        match self.macs.iter().position(|mac| *mac == data[..6]) {
            Some(to) if to != from => self.ports[to].queue(frame),
            _ => source.counters.lose(DropReason::DestinationUnknown, 1),
        }
    }

    /// A frame for all goes to all others that are there.
    #[cold]
    fn flood(&mut self, from: usize, frame: &Packet) {
        let others = self.ports.iter_mut().enumerate().filter(|(number, _)| *number != from);
        for (_, port) in others.filter(|(_, port)| port.attached) {
            match frame.duplicate(&self.pool) {
                Some(copy) => port.queue(copy),
                None => port.outlet.counters.lose(DropReason::NoBuffer, 1),
            }
        }
    }
}

impl At {
    /// Sees whether a front end is attached.
    #[cold]
    fn look(&mut self) {
        self.attached = self.outlet.port.link().up;
        self.outlet.counters.attached.store(self.attached, Ordering::Relaxed);
    }

    /// Queues a frame.
    #[inline]
    fn queue(&mut self, frame: Packet) {
        // A front end that has just come must not lose the first frames.
        if !self.attached {
            self.look();
        }
        let counters = &self.outlet.counters;
        if !self.attached {
            counters.lose(DropReason::DestinationAbsent, 1);
        } else if self.queue.len() >= WAITING {
            counters.lose(DropReason::QueueFull, 1);
        } else {
            self.queue.push_back(frame);
        }
    }

    /// Gives the port what waits for it, within its share.
    fn give(&mut self, now: u64) -> bool {
        if self.queue.is_empty() && self.leaving.is_empty() {
            return false;
        }
        let may = self.receives.frames(now, self.visit.min(BURST));
        let free = BURST.saturating_sub(self.leaving.len());
        let count = may.min(free).min(self.queue.len());
        for frame in self.queue.drain(..count) {
            // There is room.
            drop(self.leaving.push(frame));
        }
        self.receives.spend(count);
        let lengths = |batch: &Batch| batch.iter().map(|frame| frame.len()).sum::<usize>();
        let before = lengths(&self.leaving);
        let gone = self.outlet.tx.transmit(&mut self.leaving);
        let counters = &self.outlet.counters;
        counters.rx[0].add(gone as u64);
        counters.rx[1].add((before - lengths(&self.leaving)) as u64);
        counters.waiting.set((self.queue.len() + self.leaving.len()) as u64);
        gone > 0
    }

    /// Drops what waits for a port without a front end.
    fn forget(&mut self) {
        let waiting = self.queue.len() + self.leaving.len();
        if waiting > 0 {
            self.outlet.counters.lose(DropReason::DestinationAbsent, waiting as u64);
            self.queue.clear();
            self.leaving.clear();
            self.outlet.counters.waiting.set(0);
        }
    }
}
