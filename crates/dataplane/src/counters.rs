//! What a worker counts. One thread writes, any may read: a counter is a plain
//! load and store for the worker, and readers add the workers up.

mod drop_reason;
mod fused;
mod histogram;
mod ignored;
mod stopwatch;

use std::sync::atomic::{AtomicU64, Ordering};

pub use self::drop_reason::DropReason;
pub use self::fused::{FusedChoice, FusedCosts};
pub use self::histogram::{BurstSizes, BurstTimes};
pub use self::ignored::Ignored;
pub use self::stopwatch::{Cycles, Stopwatch};

/// A number that only one thread changes.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it; for its own thread.
    #[inline(always)]
    pub fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    /// Sets it; for its own thread.
    #[inline(always)]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Its value at some recent moment.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Causes for which the agent gets packets.
pub const PUNTS: usize = 12;

/// The stages of the way of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Stage {
    Receive,
    Parse,
    Classify,
    Forward,
    Transmit,
}

impl Stage {
    /// All stages, in the order packets meet them.
    pub const ALL: [Stage; 5] =
        [Stage::Receive, Stage::Parse, Stage::Classify, Stage::Forward, Stage::Transmit];

    /// Name, as `weft show runtime` prints it.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Receive => "receive",
            Stage::Parse => "parse",
            Stage::Classify => "classify",
            Stage::Forward => "forward",
            Stage::Transmit => "transmit",
        }
    }
}

/// Packets and bytes.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Packets.
    pub packets: Counter,
    /// Their bytes, from the Ethernet header on.
    pub bytes: Counter,
}

impl Traffic {
    /// Counts some packets.
    #[inline(always)]
    pub fn add(&self, packets: usize, bytes: u64) {
        self.packets.add(packets as u64);
        self.bytes.add(bytes);
    }
}

/// What a worker counts for one port.
#[derive(Debug, Default)]
pub struct PortCounters {
    /// Received by this worker.
    pub received: Traffic,
    /// Taken by the device.
    pub transmitted: Traffic,
    /// Received here and owned by another worker.
    pub misdirected: Counter,
}

/// What a worker counts for one function.
#[derive(Debug)]
pub struct FunctionCounters {
    /// Packets handled.
    pub handled: Traffic,
    /// Visits: bursts of which at least one packet came here.
    pub bursts: Counter,
    /// Time spent, sampled.
    pub cycles: Cycles,
    /// Packets dropped, by the function's reasons, and behind them by those of
    /// the code that runs it ([`weft_compose::REASONS`]).
    pub drops: Box<[Counter]>,
    /// Of the functions that are fused from this one on, if any are.
    pub fused: FusedCosts,
}

impl FunctionCounters {
    /// For a function with so many drop reasons.
    pub fn new(reasons: usize) -> FunctionCounters {
        FunctionCounters {
            handled: Traffic::default(),
            bursts: Counter::default(),
            cycles: Cycles::default(),
            drops: (0..reasons).map(|_| Counter::default()).collect(),
            fused: FusedCosts::default(),
        }
    }
}

/// All that one worker counts, but for its functions.
#[derive(Debug)]
pub struct WorkerCounters {
    /// By port.
    pub ports: Box<[PortCounters]>,
    /// By [`DropReason`].
    pub drops: Box<[Counter]>,
    /// By [`Stage`], sampled.
    pub stages: [Cycles; Stage::ALL.len()],
    /// Bursts that held a packet.
    pub bursts: BurstSizes,
    /// The time that timed bursts spend in the node.
    pub times: BurstTimes,
    /// Polls that found nothing.
    pub empty_polls: Counter,
    /// Packets handed to another worker.
    pub handed_over: Counter,
    /// Packets that functions generated or copied.
    pub emitted: Counter,
    /// Fragments made of packets longer than the MTU, less those packets.
    pub fragments: Counter,
    /// Packets given to the node itself: ARP, neighbour discovery, and what is
    /// sent to one of its addresses.
    pub local: Counter,
    /// Packets that the node itself sent: answers, requests and ICMP errors.
    pub originated: Counter,
    /// Answers that were owed and that the agent was not asked for, by the number of the
    /// `Punt` that would have asked.
    pub withheld: [Counter; PUNTS],
    /// Packets among `local` of which nothing comes.
    pub ignored: [Counter; Ignored::ALL.len()],
    /// End Markers that the node itself sent; among `emitted`.
    pub end_markers: Counter,
    /// Panics caught in functions.
    pub panics: Counter,
    /// Kept packets that went to another node with their users.
    pub moved_out: Counter,
    /// Kept packets that came from another node with their users.
    pub moved_in: Counter,
    /// Packets that waited at gates of users that move.
    pub waited: Counter,
}

impl WorkerCounters {
    /// For a node with so many ports.
    pub fn new(ports: usize) -> WorkerCounters {
        WorkerCounters {
            ports: (0..ports).map(|_| PortCounters::default()).collect(),
            drops: DropReason::ALL.iter().map(|_| Counter::default()).collect(),
            stages: Default::default(),
            bursts: BurstSizes::default(),
            times: BurstTimes::default(),
            empty_polls: Counter::default(),
            handed_over: Counter::default(),
            emitted: Counter::default(),
            fragments: Counter::default(),
            local: Counter::default(),
            originated: Counter::default(),
            withheld: Default::default(),
            ignored: Default::default(),
            end_markers: Counter::default(),
            panics: Counter::default(),
            moved_out: Counter::default(),
            moved_in: Counter::default(),
            waited: Counter::default(),
        }
    }

    /// Counts `count` packets dropped by the node.
    #[inline]
    pub fn dropped(&self, reason: DropReason, count: usize) {
        self.drops[reason as usize].add(count as u64);
    }

    /// Counts a packet dropped, if it was.
    #[inline]
    pub fn note(&self, taken: Result<(), DropReason>) {
        if let Err(reason) = taken {
            self.dropped(reason, 1);
        }
    }
}
