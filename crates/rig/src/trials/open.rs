//! Open trials: a generator on one core sends at a set rate whatever happens, the
//! node runs on another, and a receiver beside the generator says what came of
//! every packet.
//!
//! What could not be *sent* is counted apart from what was *lost*. The worker's
//! loop takes the time of every round: rounds without a packet are no work, and a
//! round that lasts longer than the queue in front of it holds packets is a gap
//! that the machine made.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use weft_dpdk::{Pool, Port, PortOptions, RxQueue, TxQueue, pin_to_core, tsc};
use weft_node::{Idle, Node, Worker};
use weft_traffic::{Expected, Load, Rate, Receiver, Source, Stream};

use crate::Burner;
use crate::Composed;
use crate::Failure;
use crate::Look;
use crate::Rig;
use crate::machine::control_group::ControlGroup;
use crate::search::{SystemUnderTest, Trial};
use crate::setup::{Devices, Setup};
use crate::traffic::offered::uplink;
use crate::trials::seen::Seen;

/// Packets of the traffic's pool: as many as both queues hold, and some.
const PACKETS: u32 = 4095;
/// Turns between two looks at the clock.
const TURNS: u32 = 64;
/// Packets that do not arrive for so long do not arrive any more.
const PATIENCE: Duration = Duration::from_millis(20);

/// The far ends of a system's two sides, and what is sent there.
#[derive(Debug)]
pub struct Ends {
    pool: Pool,
    tx: TxQueue,
    rx: RxQueue,
    /// Streams sent so far, which number the next.
    streams: u16,
    /// They close with the last of port and queues.
    _ports: [Port; 2],
}

/// What is offered.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// The packets.
    pub load: Load,
    /// How long they are sent.
    pub duration: Duration,
}

impl Offer {
    /// So many packets per second of the shortest frames, of all users at random,
    /// to a transparent port.
    pub fn new(rate: f64, duration: Duration) -> Offer {
        Offer { load: uplink(crate::USERS, 64, Rate::Packets(rate)), duration }
    }

    /// The same packets at another rate.
    pub fn at(mut self, rate: Rate) -> Offer {
        self.load.rate = rate;
        self
    }
}

/// What came of the packets of a load.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// Packets that were sent.
    pub sent: u64,
    /// Packets that were due and could not be sent.
    pub unsent: u64,
    /// Different packets that arrived.
    pub received: u64,
    /// Packets that arrived twice.
    pub duplicated: u64,
    /// Packets that arrived behind a later one of their user (RFC 4737 §3.3).
    pub reordered: u64,
    /// Delays in nanoseconds (RFC 7679).
    pub delays: Histogram<u64>,
    /// How long packets were sent.
    pub sending: Duration,
    /// Of the traffic's core: the share of the time that was taken.
    pub disturbance: f64,
    /// The same by stream, in the order of the load.
    pub streams: Vec<Arrived>,
}

/// What came of one stream.
#[derive(Clone, Debug)]
pub struct Arrived {
    /// Different packets that arrived.
    pub received: u64,
    /// Delays in nanoseconds (RFC 7679).
    pub delays: Histogram<u64>,
}

impl Arrivals {
    /// Packets that were sent and did not arrive.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }

    /// Packets that were sent, as a share of those that were due; one that was due as the
    /// trial ended does not count.
    pub fn share_sent(&self) -> f64 {
        let due = self.sent + self.unsent;
        (self.sent + 1).min(due) as f64 / due.max(1) as f64
    }

    /// Packets per second that were really sent.
    pub fn rate_sent(&self) -> f64 {
        self.sent as f64 / self.sending.as_secs_f64().max(1e-9)
    }

    /// Packets per second that arrived.
    pub fn goodput(&self) -> f64 {
        self.received as f64 / self.sending.as_secs_f64().max(1e-9)
    }

    /// Whether the generator could not send what it should have, or everything
    /// that it sent arrived: the system can do more than was seen.
    pub fn is_limited_by_generator(&self) -> bool {
        self.unsent > 0 && self.lost() * 50 <= self.sent
    }
}

/// What a node did meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Cycles of rounds with packets, per packet received; none without any.
    pub cycles: Option<f64>,
    /// Packets dropped at the entry, before they were parsed: they found its queue full, or waited
    /// there behind more than the worker carries in time (`overload`).
    pub missed: u64,
    /// Packets that were received and classified, and then dropped since a function of
    /// their chain had no room (`backpressure`).
    pub refused: u64,
    /// Cycles that the worker spent on each of these: to receive, parse and classify a
    /// packet, from a sample of the bursts; none without a sample.
    pub refused_cycles: Option<f64>,
    /// Packets dropped further on, after functions worked on them.
    pub dropped: u64,
    /// The share of the time that went in gaps longer than the queue holds.
    pub disturbance: f64,
    /// The share of the time that the worker's thread had its core; none where traffic takes turns
    /// with it.
    pub running: Option<f64>,
}

/// A node between a generator and a receiver.
pub struct OpenLoop<'r> {
    rig: &'r Rig,
    composed: Composed,
    /// Whether traffic takes turns with the node, because functions have the other core.
    is_shared: bool,
    ends: Ends,
    descriptors: u16,
    /// What the node's worker is in, if it is in a container.
    group: Option<ControlGroup>,
}

/// The devices at the far ends of a system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FarDevices {
    /// Where packets are sent.
    pub access: String,
    /// Where they arrive.
    pub core: String,
}

impl Ends {
    /// Opens the far ends.
    ///
    /// # Errors
    /// When a device cannot be opened.
    pub fn open(rig: &Rig, devices: &FarDevices, descriptors: u16) -> Result<Ends, Failure> {
        let pool = Pool::new(rig.eal, &format!("traffic{}", rig.serial()), PACKETS)?;
        let options = PortOptions { descriptors, ..PortOptions::default() };
        let access = Port::open(rig.eal, &devices.access, &options, &pool)?;
        let core = Port::open(rig.eal, &devices.core, &options, &pool)?;
        let queues = access.take_tx(0).zip(core.take_rx(0));
        let (tx, rx) = queues.ok_or("a device without queues")?;
        Ok(Ends { pool, tx, rx, streams: 0, _ports: [access, core] })
    }

    /// Sends what is offered and receives what comes of it, in the calling thread
    /// at `core`, until nothing comes any more.
    ///
    /// # Errors
    /// When no packets can be made for the load.
    pub fn run(&mut self, offer: &Offer, core: usize) -> Result<Arrivals, Failure> {
        self.run_beside(offer, core, || {})
    }

    /// The same, taking turns with `other`.
    ///
    /// # Errors
    /// As [`Ends::run`].
    fn run_beside(
        &mut self,
        offer: &Offer,
        core: usize,
        mut other: impl FnMut(),
    ) -> Result<Arrivals, Failure> {
        let mut load = offer.load.clone();
        for share in &mut load.shares {
            // What an earlier trial left behind is foreign to this one.
            self.streams = self.streams.wrapping_add(1);
            share.template.stream = self.streams;
        }
        let mut source = Source::of(&load)?;
        let expected = load.shares.iter().map(|share| Expected::of(&share.template, share.users));
        let mut receiver = Receiver::new(expected);
        let look = Look::now(core)?;
        let start = Instant::now();
        while start.elapsed() < offer.duration {
            for _ in 0..TURNS {
                source.send(&mut self.tx, &self.pool);
                other();
                receiver.receive(&mut self.rx);
            }
        }
        source.finish();
        let sending = start.elapsed();
        let disturbance = look.since()?.disturbance();
        self.settle(&mut receiver, other);
        let sum = |field: fn(&Stream) -> u64| receiver.streams().iter().map(field).sum();
        let mut delays = receiver.streams()[0].delays.clone();
        for stream in &receiver.streams()[1..] {
            delays.add(&stream.delays)?;
        }
        let tally = source.tally();
        Ok(Arrivals {
            sent: tally.sent,
            unsent: tally.unsent(),
            received: sum(|stream| stream.received),
            duplicated: sum(|stream| stream.duplicated),
            reordered: sum(|stream| stream.reordered),
            delays,
            sending,
            disturbance,
            streams: receiver
                .streams()
                .iter()
                .map(|one| Arrived { received: one.received, delays: one.delays.clone() })
                .collect(),
        })
    }

    /// Receives until nothing comes any more.
    fn settle(&mut self, receiver: &mut Receiver, mut other: impl FnMut()) {
        let mut since = Instant::now();
        while since.elapsed() < PATIENCE {
            other();
            if receiver.receive(&mut self.rx) > 0 {
                since = Instant::now();
            }
        }
    }
}

impl Rig {
    /// Sends an offer from one far end to the other.
    ///
    /// # Errors
    /// When the machine has one core only, or no packets can be made.
    pub fn offer(&self, ends: &mut Ends, offer: &Offer) -> Result<Arrivals, Failure> {
        let core = self.cores.traffic()?;
        self.on_core(core, || ends.run(offer, core))
    }
}

impl<'r> OpenLoop<'r> {
    /// A node between two memory rings, with a generator and a receiver at their
    /// far ends. Where functions have the core that traffic has elsewhere, generator and
    /// receiver take turns with the node.
    ///
    /// # Errors
    /// When the machine has one core only, or lacks something else.
    pub fn rings(rig: &'r Rig, setup: &Setup, descriptors: u16) -> Result<Self, Failure> {
        let ring = |side: &str| format!("ring:bench-{side}{}", rig.serial());
        let (access, core) = (ring("access"), ring("core"));
        let near = Devices { access: vec![access.clone()], core: core.clone(), descriptors };
        let composed = setup.compose(rig, &near)?;
        let ends = Ends::open(rig, &FarDevices { access, core }, descriptors)?;
        let is_shared = setup.composition.is_elsewhere();
        Ok(OpenLoop { rig, composed, is_shared, ends, descriptors, group: None })
    }

    /// A node that was built with so many descriptors for each queue, and a
    /// generator and a receiver at those devices.
    ///
    /// # Errors
    /// As [`OpenLoop::rings`].
    pub fn around(
        rig: &'r Rig,
        node: Node,
        descriptors: u16,
        far: &FarDevices,
    ) -> Result<Self, Failure> {
        rig.cores.traffic()?;
        let ends = Ends::open(rig, far, descriptors)?;
        let composed = Composed::alone(node);
        Ok(OpenLoop { rig, composed, is_shared: false, ends, descriptors, group: None })
    }

    /// The same with its worker in a control group.
    pub fn within(self, group: Option<ControlGroup>) -> Self {
        OpenLoop { group, ..self }
    }

    /// Offers a load. What is returned beside what came of it is how disturbed the
    /// trial was.
    ///
    /// # Errors
    /// When no packets can be made for the load, or a thread fails.
    pub fn offer(&mut self, offer: &Offer) -> Result<((Arrivals, Work), f64), Failure> {
        let before = Seen::of(&self.composed.node.agent().snapshot());
        let longest = self.longest_round(&offer.load);
        let mut round = Rounds::new(longest, Burner::new(self.rig.slow_down), self.composed.pause);
        let (arrivals, running) = match self.is_shared {
            true => (self.in_turn(offer, &mut round)?, None),
            false => self.side_by_side(offer, &mut round)?,
        };
        let after = Seen::of(&self.composed.node.agent().snapshot());
        let received = after.received - before.received;
        let work = Work {
            cycles: (received > 0).then(|| round.busy as f64 / received as f64),
            missed: after.missed - before.missed,
            refused: after.refused - before.refused,
            refused_cycles: after.cycles_to_classify(&before),
            dropped: after.dropped - before.dropped,
            disturbance: round.in_gaps as f64 / round.all.max(1) as f64,
            running,
        };
        let disturbance = work.disturbance.max(arrivals.disturbance);
        Ok(((arrivals, work), disturbance))
    }

    /// Node and traffic on a core each; also the share of the time that the node had its core.
    fn side_by_side(
        &mut self,
        offer: &Offer,
        round: &mut Rounds,
    ) -> Result<(Arrivals, Option<f64>), Failure> {
        let (worker, ends, done) =
            (&mut self.composed.node.workers()[0], &mut self.ends, AtomicBool::new(false));
        let (rig, polls, group) = (self.rig, AtomicBool::new(false), self.group.as_ref());
        thread::scope(|scope| {
            let system = scope.spawn(|| {
                let _registration = rig.eal.register_thread();
                pin_to_core(rig.cores.system)?;
                group.map_or(Ok(()), ControlGroup::enter)?;
                let look = Look::now(rig.cores.system)?;
                polls.store(true, Ordering::Release);
                round.run(worker, &done);
                Ok::<_, std::io::Error>(look.since()?.share_running())
            });
            // A thread may be late to get its core, and traffic would be over before it has.
            while !polls.load(Ordering::Acquire) && !system.is_finished() {
                thread::yield_now();
            }
            let arrivals = rig.offer(ends, offer);
            done.store(true, Ordering::Release);
            let running = system.join().map_err(|_| "the measured thread panicked")??;
            Ok((arrivals?, Some(running)))
        })
    }

    /// Node and traffic on the node's core, in turn.
    fn in_turn(&mut self, offer: &Offer, round: &mut Rounds) -> Result<Arrivals, Failure> {
        let (worker, ends) = (&mut self.composed.node.workers()[0], &mut self.ends);
        let core = self.rig.cores.system;
        self.rig.on_core(core, || ends.run_beside(offer, core, || round.turn(worker)))
    }

    /// Cycles in which the load fills the entry's queue.
    fn longest_round(&self, load: &Load) -> u64 {
        match load.rate {
            Rate::Packets(rate) => {
                (f64::from(self.descriptors) / rate.max(1.0) * tsc::hz() as f64) as u64
            }
            // It is always full.
            Rate::Link { .. } | Rate::Unlimited => tsc::hz() / 1000,
        }
    }
}

impl OpenLoop<'_> {
    /// Frames that the switch before the functions has dropped so far; none where there is
    /// no such switch.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn dropped_by_switch(&self) -> Result<Option<u64>, Failure> {
        let Some(switch) = self.composed.switch() else { return Ok(None) };
        let functions = switch.statistics()?.functions;
        let drops = functions.iter().flat_map(|function| &function.drops);
        Ok(Some(drops.map(|(_, count)| count).sum()))
    }
}

impl SystemUnderTest for OpenLoop<'_> {
    type Error = Failure;

    fn offer(&mut self, rate: f64, duration: Duration) -> Result<Trial, Failure> {
        let ((arrivals, _), _) = OpenLoop::offer(self, &Offer::new(rate, duration))?;
        let (sent, unsent, lost) = (arrivals.sent, arrivals.unsent, arrivals.lost());
        Ok(Trial { rate, duration, sent, unsent, lost })
    }
}

/// The loop of a measured worker, in cycles.
struct Rounds {
    burner: Burner,
    /// A round that takes longer is a gap.
    longest: u64,
    /// Of rounds with packets.
    busy: u64,
    in_gaps: u64,
    all: u64,
    /// What the worker does between packets, if it sleeps.
    idle: Option<Idle>,
}

impl Rounds {
    fn new(longest: u64, burner: Burner, pause: Option<Duration>) -> Rounds {
        let idle = pause.map(|longest| Idle::new(Some(longest)));
        Rounds { burner, longest, busy: 0, in_gaps: 0, all: 0, idle }
    }

    /// One round of a worker that does not have its core alone.
    #[inline]
    fn turn(&mut self, worker: &mut Worker) {
        let start = tsc::now();
        self.burner.start();
        let busy = worker.poll();
        self.burner.burn();
        let took = tsc::now().wrapping_sub(start);
        self.all += took;
        if took > self.longest {
            self.in_gaps += took;
        } else if busy {
            self.busy += took;
        }
    }

    fn run(&mut self, worker: &mut Worker, done: &AtomicBool) {
        let start = tsc::now();
        let mut last = start;
        while !done.load(Ordering::Acquire) {
            let busy = worker.poll();
            self.burner.burn();
            let now = tsc::now();
            let round = now.wrapping_sub(last);
            last = now;
            if round > self.longest {
                self.in_gaps += round;
            } else if busy {
                self.busy += round;
            }
            match &mut self.idle {
                None => {}
                Some(idle) if busy => idle.reset(),
                Some(idle) => {
                    idle.wait();
                    last = tsc::now();
                }
            }
        }
        self.all = last.wrapping_sub(start);
    }
}
