//! Closed trials with a generator, for loads that no capture holds: those of a
//! million users, say.
//!
//! Generator and worker take turns in one thread. A *section* begins with a full
//! queue in front of the worker and ends when that is empty; only sections are
//! timed, so what the generator does costs nothing, every burst is full, and no
//! second core is needed. Sections make up [`Slices`], the quieter of which say what
//! a packet costs.

use std::cell::Cell;
use std::time::{Duration, Instant};

use weft_dpdk::{Batch, Pool, Port, PortOptions, TxQueue, tsc};
use weft_node::Worker;
use weft_traffic::{Load, Rate, Selection, Share, Source};

use crate::Burner;
use crate::Failure;
use crate::Rig;
use crate::machine::disturbance::Look;
use crate::machine::perf::Events;
use crate::machine::slices::Slices;
use crate::setup::{Devices, Setup};
use crate::trials::closed::{Cost, WARM_UP, taken};

/// Packets of a section, at most.
const SECTION: u16 = 1024;
/// Buffers of the generator.
const PACKETS: u32 = 2047;

impl Rig {
    /// What a packet of `load` costs the worker of a node; its rate does not
    /// matter. Beside it stands the share of the time that was taken.
    ///
    /// # Errors
    /// When the node cannot be built or forwards nothing, or no packets can be
    /// made for the load.
    pub fn cost_of_load(
        &self,
        setup: &Setup,
        load: &Load,
        length: Duration,
    ) -> Result<(Cost, f64), Failure> {
        self.cost_of_known(setup, load, 0, length)
    }

    /// The same of a node that has had `before` packets, of all users in turn.
    ///
    /// # Errors
    /// As [`Rig::cost_of_load`].
    pub fn cost_of_known(
        &self,
        setup: &Setup,
        load: &Load,
        before: u64,
        length: Duration,
    ) -> Result<(Cost, f64), Failure> {
        let ring = format!("ring:bench{}", self.serial());
        let core = format!("net_null{},no-rx=1", self.serial());
        let devices = Devices { access: vec![ring.clone()], core, descriptors: SECTION };
        let mut node = setup.build(self, &devices)?;
        let worker = &mut node.workers()[0];
        self.on_core(self.cores.system, || {
            let counters = worker.counters.clone();
            let sent = || counters.ports[1].transmitted.packets.get();
            self.sections((load, before), &ring, length, || worker.poll(), sent)
        })
    }

    /// The same of a worker that has its users already: packets come from `ring`, and leave by
    /// the port of that number.
    ///
    /// # Errors
    /// As [`Rig::cost_of_load`].
    pub fn cost_of_worker(
        &self,
        worker: &mut Worker,
        (ring, leaves): (&str, usize),
        load: &Load,
        length: Duration,
    ) -> Result<(Cost, f64), Failure> {
        self.on_core(self.cores.system, || {
            let counters = worker.counters.clone();
            let sent = || counters.ports[leaves].transmitted.packets.get();
            self.sections((load, 0), ring, length, || worker.poll(), sent)
        })
    }

    /// What it costs to receive a packet of `load` and to transmit it again on the
    /// same devices, and nothing else.
    ///
    /// # Errors
    /// As [`Rig::cost_of_load`].
    pub fn cost_of_devices(&self, load: &Load, length: Duration) -> Result<(Cost, f64), Failure> {
        let ring = format!("ring:bench{}", self.serial());
        let pool = Pool::new(self.eal, &format!("devices{}", self.serial()), PACKETS)?;
        let options = PortOptions { descriptors: SECTION, ..PortOptions::default() };
        let access = Port::open(self.eal, &ring, &options, &pool)?;
        let sink = format!("net_null{},no-rx=1", self.serial());
        let core = Port::open(self.eal, &sink, &options, &pool)?;
        let (mut rx, mut tx) = access.take_rx(0).zip(core.take_tx(0)).ok_or(NO_QUEUES)?;
        self.on_core(self.cores.system, || {
            let (mut batch, forwarded) = (Batch::new(), Cell::new(0));
            let poll = || {
                let received = rx.receive(&mut batch, 32);
                forwarded.set(forwarded.get() + received as u64);
                tx.transmit(&mut batch);
                received > 0
            };
            self.sections((load, 0), &ring, length, poll, || forwarded.get())
        })
    }

    /// Sections of what `poll` does, until it says that nothing was there; `sent`
    /// counts what it let go. Before them so many packets, of all flows in turn.
    fn sections(
        &self,
        (load, before): (&Load, u64),
        ring: &str,
        length: Duration,
        mut poll: impl FnMut() -> bool,
        sent: impl Fn() -> u64,
    ) -> Result<(Cost, f64), Failure> {
        let mut sections = Sections::new(self, &in_turn(load), ring)?;
        let begun = sent();
        sections.run(&mut poll, &sent, || sent() - begun >= before)?;
        sections.source = Source::of(&unlimited(load))?;
        sections.run(&mut poll, &sent, over(length.mul_f64(WARM_UP)))?;
        sections.forget(length);
        let (slow, look) = (self.probe.slowness(), Look::now(self.cores.system)?);
        sections.run(&mut poll, &sent, over(length))?;
        let between = look.since()?;
        Ok((
            sections.cost(between.disturbance())?,
            taken(&between).max(slow).max(self.probe.slowness()),
        ))
    }
}

/// A generator, and the sections so far.
struct Sections {
    source: Source,
    pool: Pool,
    tx: TxQueue,
    _port: Port,
    burner: Burner,
    events: Option<Events>,
    slices: Slices,
    /// Packets that were let go.
    packets: u64,
}

impl Sections {
    fn new(rig: &Rig, load: &Load, ring: &str) -> Result<Sections, Failure> {
        let pool = Pool::new(rig.eal, &format!("sections{}", rig.serial()), PACKETS)?;
        let options = PortOptions { descriptors: SECTION, ..PortOptions::default() };
        let port = Port::open(rig.eal, ring, &options, &pool)?;
        let tx = port.take_tx(0).ok_or(NO_QUEUES)?;
        let source = Source::of(&unlimited(load))?;
        let burner = Burner::new(rig.slow_down);
        let slices = Slices::of(Duration::ZERO);
        Ok(Sections { source, pool, tx, _port: port, burner, events: None, slices, packets: 0 })
    }

    fn run(
        &mut self,
        poll: &mut impl FnMut() -> bool,
        sent: &impl Fn() -> u64,
        is_over: impl Fn() -> bool,
    ) -> Result<(), Failure> {
        while !is_over() {
            let before = sent();
            let mut filled = 0;
            while filled + 32 < usize::from(SECTION) {
                match self.source.send(&mut self.tx, &self.pool) {
                    0 => break,
                    count => filled += count,
                }
            }
            self.events.iter_mut().try_for_each(Events::resume)?;
            self.burner.start();
            let start = tsc::now();
            while poll() {
                self.burner.burn();
            }
            let cycles = tsc::now().wrapping_sub(start);
            self.events.iter_mut().try_for_each(Events::pause)?;
            let packets = sent() - before;
            if packets == 0 {
                return Err(NOTHING.into());
            }
            self.slices.push(cycles, packets);
            self.packets += packets;
        }
        Ok(())
    }

    /// Forgets the sections of the warm-up; a trial of this length follows.
    fn forget(&mut self, length: Duration) {
        self.slices = Slices::of(length);
        self.packets = 0;
        self.events = Events::new();
    }

    /// What is taken is taken from sections as from the time between them.
    fn cost(self, taken: f64) -> Result<Cost, Failure> {
        let cost = Cost::of(&self.slices, self.slices.time(), taken).ok_or(NOTHING)?;
        let events = self.events.and_then(|events| events.per_packet(self.packets));
        Ok(Cost { events, ..cost })
    }
}

/// As much of a load as can be sent.
pub(crate) fn unlimited(load: &Load) -> Load {
    Load { rate: Rate::Unlimited, ..load.clone() }
}

/// The flows of a load in turn.
fn in_turn(load: &Load) -> Load {
    let turn = |share: &Share| Share { selection: Selection::RoundRobin, ..share.clone() };
    Load { shares: load.shares.iter().map(turn).collect(), ..load.clone() }
}

/// Whether so much time has passed from now on.
fn over(length: Duration) -> impl Fn() -> bool {
    let end = Instant::now() + length;
    move || Instant::now() >= end
}

const NO_QUEUES: &str = "a device without queues";
const NOTHING: &str = "the node under test forwarded nothing";
