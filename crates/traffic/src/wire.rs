//! A wire that does harm on purpose, so that a receiver can be tried.

use std::collections::VecDeque;
use std::time::Duration;

use weft_dpdk::{Batch, Packet, Pool, RxQueue, TxQueue, tsc};

use crate::random::Random;
use crate::receiver::arrived::Arrived;

/// Packets that are taken at once.
const BURST: usize = 32;
/// Packets of different flows that are held back at the same time.
const MOST_HELD: usize = 64;

/// What a wire does to packets that carry a stamp. A packet suffers at most one
/// of loss, damage, duplication and reordering; shares are of all packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Harm {
    /// Share that is lost.
    pub loss: f64,
    /// Share of which one bit is turned.
    pub damage: f64,
    /// Share of which a copy follows.
    pub duplication: f64,
    /// Share that is held back until later packets of the same flow have passed.
    /// While one packet of a flow is held back no other is.
    pub reordering: f64,
    /// How many packets pass one that is held back: drawn from 1 to this.
    pub extent: u32,
    /// How long every packet takes.
    pub delay: Duration,
}

/// What a wire has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Packets taken in.
    pub carried: u64,
    /// Packets lost.
    pub lost: u64,
    /// Packets of which a bit was turned.
    pub damaged: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Packets put behind later ones of their flow: the nth number counts those
    /// that n packets passed, which is their reordering extent (RFC 4737 §4.2).
    pub extents: Vec<u64>,
    /// Packets and copies that the port did not take.
    pub refused: u64,
}

impl Done {
    /// Packets put behind later ones.
    pub fn reordered(&self) -> u64 {
        self.extents.iter().sum()
    }
}

/// Carries packets from one queue to another. What it does follows from its seed
/// and the packets, and is counted.
#[derive(Debug)]
pub struct Wire {
    harm: Harm,
    delay: u64,
    random: Random,
    done: Done,
    held: Vec<Held>,
    /// Packets on their way, and the cycle in which each has come to its end.
    line: VecDeque<(u64, Packet)>,
}

/// A packet that waits for others to pass.
#[derive(Debug)]
struct Held {
    flow: (u16, u32),
    passed: u32,
    wanted: u32,
    packet: Packet,
}

/// What becomes of one packet.
enum Fate {
    Lost,
    Damaged,
    Duplicated,
    Held,
    Whole,
}

impl Wire {
    /// A wire that does `harm`. The environment must have been started.
    pub fn new(harm: Harm, seed: u64) -> Wire {
        Wire {
            harm,
            delay: (harm.delay.as_secs_f64() * tsc::hz() as f64).round() as u64,
            random: Random::new(seed),
            done: Done { extents: vec![0; harm.extent as usize + 1], ..Done::default() },
            held: Vec::with_capacity(MOST_HELD),
            line: VecDeque::new(),
        }
    }

    /// Takes a burst from `rx`, and sends what has come to its end to `tx`;
    /// returns how many packets were taken.
    pub fn carry(&mut self, rx: &mut RxQueue, tx: &mut TxQueue, pool: &Pool) -> usize {
        let mut batch = Batch::new();
        let count = rx.receive(&mut batch, BURST);
        let end = tsc::now() + self.delay;
        batch.drain().for_each(|packet| self.enter(packet, end, pool));
        self.send(tx);
        count
    }

    /// Lets go what is held back, and sends what has come to its end; returns how
    /// many packets are still on their way.
    pub fn finish(&mut self, tx: &mut TxQueue) -> usize {
        let end = tsc::now() + self.delay;
        for held in std::mem::take(&mut self.held) {
            self.release(held, end);
        }
        self.send(tx);
        self.line.len()
    }

    /// What it has done so far.
    pub fn done(&self) -> &Done {
        &self.done
    }

    /// Takes a packet that will come to its end in cycle `end`.
    fn enter(&mut self, mut packet: Packet, end: u64, pool: &Pool) {
        self.done.carried += 1;
        let Ok(Arrived { stamp, .. }) = Arrived::read(packet.data()) else {
            self.line.push_back((end, packet));
            return;
        };
        let flow = (stamp.stream, stamp.flow);
        match self.fate(flow) {
            Fate::Lost => self.done.lost += 1,
            Fate::Damaged => {
                // The last octet is the stamp's or padding: a checksum covers it.
                if let Some(octet) = packet.data_mut().last_mut() {
                    *octet ^= 1;
                }
                self.done.damaged += 1;
                self.line.push_back((end, packet));
            }
            Fate::Duplicated => {
                let copy = packet.duplicate(pool);
                self.pass(flow, packet, end);
                if let Some(copy) = copy {
                    self.done.duplicated += 1;
                    self.line.push_back((end, copy));
                }
            }
            Fate::Held => {
                let wanted = 1 + self.random.below(self.harm.extent);
                self.held.push(Held { flow, passed: 0, wanted, packet });
            }
            Fate::Whole => self.pass(flow, packet, end),
        }
    }

    /// Draws what becomes of a packet.
    fn fate(&mut self, flow: (u16, u32)) -> Fate {
        let Harm { loss, damage, duplication, reordering, extent, .. } = self.harm;
        let mut draw = self.random.unit();
        let mut hits = |share: f64| {
            let hit = draw <= share;
            draw -= share;
            hit
        };
        if hits(loss) {
            Fate::Lost
        } else if hits(damage) {
            Fate::Damaged
        } else if hits(duplication) {
            Fate::Duplicated
        } else if hits(reordering) && extent > 0 && self.may_hold(flow) {
            Fate::Held
        } else {
            Fate::Whole
        }
    }

    fn may_hold(&self, flow: (u16, u32)) -> bool {
        self.held.len() < MOST_HELD && self.held.iter().all(|held| held.flow != flow)
    }

    /// Sends a packet on its way, and behind it one that has waited for it.
    fn pass(&mut self, flow: (u16, u32), packet: Packet, end: u64) {
        self.line.push_back((end, packet));
        let Some(place) = self.held.iter().position(|held| held.flow == flow) else { return };
        self.held[place].passed += 1;
        if self.held[place].passed == self.held[place].wanted {
            let held = self.held.swap_remove(place);
            self.release(held, end);
        }
    }

    /// Sends on its way what was held back.
    fn release(&mut self, held: Held, end: u64) {
        if held.passed > 0 {
            self.done.extents[held.passed as usize] += 1;
        }
        self.line.push_back((end, held.packet));
    }

    /// Sends what has come to its end.
    fn send(&mut self, tx: &mut TxQueue) {
        loop {
            let mut batch = Batch::new();
            let now = tsc::now();
            while batch.len() < BURST && self.line.front().is_some_and(|(end, _)| *end <= now) {
                batch.extend(self.line.pop_front().map(|(_, packet)| packet));
            }
            if batch.is_empty() {
                return;
            }
            tx.transmit(&mut batch);
            self.done.refused += batch.len() as u64;
        }
    }
}
