//! What a worker is made from, and what it has in hand.

use std::collections::VecDeque;
use std::sync::Arc;

use rtrb::Consumer as Mailbox;
use weft_compose::{Burst, Positions};
use weft_dpdk::{Batch, Consumer, Pool};

use super::overload::DelayBound;
use super::transfer::Waiting;
use super::{Inlet, Worker};
use crate::buffering::limits::Limits;
use crate::buffering::queues::Queues;
use crate::classify::{Classified, Classifier};
use crate::clock::Clock;
use crate::command::{Command, Report, UserChange, Waker};
use crate::counters::{Stopwatch, WorkerCounters};
use crate::forward::Element;
use crate::offload::{RemoteQueue, RemoteQueues};
use crate::service_path::Service;
use crate::trace::Taps;
use crate::transmit::Departure;

/// What a worker has in hand.
pub struct BurstState {
    pub(crate) burst: Burst,
    pub(crate) classified: Classified,
    pub(crate) watch: Stopwatch,
    pub(crate) taps: Option<Box<Taps>>,
    /// Packets of the burst that may be refused as they leave.
    pub(super) doubtful: Positions,
    /// Frames of the burst with service headers, to be opened behind it.
    pub(super) framed: Positions,
    /// A list of changes that is not worked off yet, and how far it is.
    pub(crate) changing: Option<(Box<[UserChange]>, usize)>,
    /// Reports that found no room.
    pub(crate) unreported: VecDeque<Report>,
    /// Users that go, and have packets at functions.
    pub(crate) leaving: Vec<Waiting>,
    /// Queues that it does not poll, while the redirection table of their port is changed.
    pub(crate) held: Vec<Inlet>,
}

impl BurstState {
    /// Nothing goes on.
    pub fn new(pool: &Pool) -> BurstState {
        BurstState {
            burst: Burst { packets: Batch::new(), now: 0, pool: pool.clone() },
            classified: Classified::default(),
            watch: Stopwatch::default(),
            taps: None,
            doubtful: Positions::NONE,
            framed: Positions::NONE,
            changing: None,
            unreported: VecDeque::new(),
            leaving: Vec::new(),
            held: Vec::new(),
        }
    }
}

/// What a worker is made from.
pub struct WorkerParts {
    /// Queues it receives from.
    pub inlets: Vec<Inlet>,
    /// Rings from the other workers.
    pub crossings: Vec<Consumer>,
    /// Finds users.
    pub classifier: Classifier,
    /// Steers packets through functions.
    pub element: Element,
    /// Holds kept packets and timers.
    pub queues: Queues,
    /// Says what may wait for idle users.
    pub idle: Limits,
    /// How long packets may wait for an overloaded worker, in nanoseconds, where that is bounded.
    pub delay_bound: Option<u64>,
    /// Takes packets away.
    pub departure: Departure,
    /// What it counts.
    pub counters: Arc<WorkerCounters>,
    /// The time.
    pub clock: Clock,
    /// Commands from the agent.
    pub commands: Mailbox<Command>,
    /// Wakes the agent.
    pub waker: Waker,
    /// Where packets come from that it makes.
    pub pool: Pool,
}

impl Worker {
    /// A worker without functions and users; see [`start_with`](Self::start_with).
    pub fn new(parts: WorkerParts) -> Worker {
        let WorkerParts { inlets, crossings, classifier, element, queues, idle, .. } = parts;
        let WorkerParts { departure, counters, clock, commands, waker, pool, .. } = parts;
        let delay_bound = parts.delay_bound;
        Worker {
            inlets,
            crossings,
            classifier,
            element,
            queues,
            idle,
            departure,
            counters,
            clock,
            commands,
            remote_queues: RemoteQueues::default(),
            gates: None,
            waker,
            delay_bound: delay_bound.map(|target| Box::new(DelayBound::new(target))),
            copies: None,
            is_loading: false,
            wakeup: None,
            state: BurstState::new(&pool),
        }
    }

    /// Adds a way to a function elsewhere; its number.
    pub fn add_remote_queue(&mut self, remote_queue: RemoteQueue) -> u16 {
        self.remote_queues.add(remote_queue)
    }

    /// The service paths, where the node has any.
    pub fn service(&mut self) -> Option<&mut Service> {
        self.departure.service.as_deref_mut()
    }
}
