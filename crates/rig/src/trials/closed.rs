//! Closed trials: a worker that always finds packets, and what one costs it.
//!
//! The packets come from a capture without end (`net_pcap` with `infinite_rx`) and
//! end in `net_null`, so no poll is empty and no second core is needed. Cycles are
//! those of the time-stamp counter in the quieter of many short [`Slices`]: the same
//! measure that is taken of another program.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weft_dpdk::{pin_to_core, tsc};
use weft_node::Worker;

use crate::Burner;
use crate::Failure;
use crate::Rig;
use crate::machine::disturbance::{Between, Look};
use crate::machine::perf::{Events, PerPacket};
use crate::machine::slices::{Measured, Slices};
use crate::setup::{Devices, Setup};

/// Rounds of a worker between two looks at the clock: some tens of microseconds.
const ROUNDS_AT_ONCE: usize = 16;

/// The share of a closed trial that may be taken: its quieter slices are not.
const TAKEN_AT_MOST: f64 = 0.5;

/// How long a neighbour works between two looks at whether it is still needed.
const WHILE: Duration = Duration::from_millis(1);

/// The part of a trial that goes before it, to fill caches.
pub(crate) const WARM_UP: f64 = 0.25;

/// What a packet costs a worker.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Cycles of the time-stamp counter.
    pub cycles: Measured,
    /// Packets per second, counted in the same trial.
    pub rate: Measured,
    /// What the processor counted, where it does.
    pub events: Option<PerPacket>,
}

impl Cost {
    /// What slices say of a trial of such a length, from which a share was taken; none
    /// without a packet.
    pub(crate) fn of(slices: &Slices, length: Duration, taken: f64) -> Option<Cost> {
        let (cycles, rate) = (slices.cost(taken)?, slices.rate(length)?);
        Some(Cost { cycles, rate, events: None })
    }

    /// Millions of packets per second.
    pub fn mpps(&self) -> Measured {
        self.rate.map(|rate| rate / 1e6)
    }
}

impl Rig {
    /// What a packet of `capture` costs the worker of a node; see
    /// [`Spoilt`](crate::Spoilt) for what comes with it.
    ///
    /// # Errors
    /// When the node cannot be built, or forwards nothing.
    pub fn cost(
        &self,
        setup: &Setup,
        capture: &Path,
        length: Duration,
    ) -> Result<(Cost, f64), Failure> {
        let mut node = setup.build(self, &self.endless(&[capture.to_owned()]))?;
        let worker = &mut node.workers()[0];
        self.on_core(self.cores.system, || {
            let mut burner = Burner::new(self.slow_down);
            spin(worker, &mut burner, length.mul_f64(WARM_UP));
            let slow = self.probe.slowness();
            let (cost, taken) = self.cost_of(worker, &mut burner, self.cores.system, length)?;
            Ok((cost, taken.max(slow).max(self.probe.slowness())))
        })
    }

    /// The same while the worker of another node, with a capture of its own, is busy on
    /// the core that traffic has elsewhere. That it may slow this one down is what is
    /// asked, so only time that is taken away is a disturbance.
    ///
    /// # Errors
    /// As [`Rig::cost`], of either node, or when the machine has one core only.
    pub fn cost_beside(
        &self,
        node: (&Setup, &Path),
        neighbour: (&Setup, &Path),
        length: Duration,
    ) -> Result<(Cost, f64), Failure> {
        let (core, other_core) = (self.cores.system, self.cores.traffic()?);
        let build = |(setup, capture): (&Setup, &Path)| {
            setup.build(self, &self.endless(&[capture.to_owned()]))
        };
        let (mut node, mut other) = (build(node)?, build(neighbour)?);
        let (worker, other, done) =
            (&mut node.workers()[0], &mut other.workers()[0], AtomicBool::new(false));
        let keep_busy = || {
            let (look, mut burner) = (Look::now(other_core)?, Burner::new(self.slow_down));
            while !done.load(Ordering::Acquire) {
                spin(other, &mut burner, WHILE);
            }
            Ok(look.since()?.disturbance())
        };
        let (cost, beside) = thread::scope(|scope| {
            let beside = scope
                .spawn(|| self.on_core(other_core, keep_busy).map_err(|error| error.to_string()));
            let cost = self.on_core(core, || {
                let mut burner = Burner::new(self.slow_down);
                spin(worker, &mut burner, length.mul_f64(WARM_UP));
                self.cost_of(worker, &mut burner, core, length)
            });
            done.store(true, Ordering::Release);
            (cost, beside.join())
        });
        let (cost, disturbance) = cost?;
        let beside = beside.map_err(|_| "the neighbour's thread panicked")??;
        Ok((cost, disturbance.max(beside)))
    }

    /// What a packet costs a warm worker in the calling thread, which runs on `core`.
    fn cost_of(
        &self,
        worker: &mut Worker,
        burner: &mut Burner,
        core: usize,
        length: Duration,
    ) -> Result<(Cost, f64), Failure> {
        let counters = worker.counters.clone();
        let sent = || counters.ports[1].transmitted.packets.get();
        let received = || counters.ports[0].received.packets.get();
        let mut events = Events::new();
        events.iter_mut().try_for_each(Events::resume)?;
        let (before, came) = (sent(), received());
        let look = Look::now(core)?;
        let mut slices = Slices::of(length);
        let end = Instant::now() + length;
        let (mut at, mut gone) = (tsc::now(), before);
        // Once at least: others may have the core for all of a short trial.
        loop {
            turn(worker, burner);
            let (now, total) = (tsc::now(), sent());
            slices.push(now.wrapping_sub(at), total - gone);
            (at, gone) = (now, total);
            if Instant::now() >= end {
                break;
            }
        }
        let (between, packets) = (look.since()?, sent() - before);
        // A packet that is dropped costs less than one that is forwarded.
        let dropped = (received() - came).saturating_sub(packets);
        if packets == 0 || dropped > 0 {
            let what = format!("forwarded {packets} packets and dropped {dropped}");
            return Err(format!("the node under test {what}: nothing to measure").into());
        }
        let cost = Cost::of(&slices, between.length, between.disturbance());
        let cost = cost.ok_or("a trial without a packet")?;
        let events = events.and_then(|events| events.per_packet(packets));
        Ok((Cost { events, ..cost }, taken(&between)))
    }

    /// Packets per second of a node with a worker for each capture, each in a
    /// thread of its own.
    ///
    /// # Errors
    /// As [`Rig::cost`].
    pub fn rate(&self, captures: &[PathBuf], length: Duration) -> Result<f64, Failure> {
        let setup = Setup::forwarding(crate::USERS);
        let running = setup.build(self, &self.endless(captures))?.start(self.eal)?;
        let handle = running.handle();
        thread::sleep(length.mul_f64(WARM_UP));
        let sent = || handle.ask(|agent| (agent.snapshot().sent(), Instant::now()));
        let (before, start) = sent()?;
        thread::sleep(length);
        let (after, end) = sent()?;
        drop(handle);
        running.stop();
        Ok((after - before) as f64 / (end - start).as_secs_f64())
    }

    /// Devices that read these captures again and again, one for each worker, and a sink.
    pub fn endless(&self, captures: &[PathBuf]) -> Devices {
        let source = |capture: &PathBuf| {
            format!("net_pcap{},rx_pcap={},infinite_rx=1", self.serial(), capture.display())
        };
        Devices {
            access: captures.iter().map(source).collect(),
            core: format!("net_null{},no-rx=1", self.serial()),
            descriptors: 1024,
        }
    }

    /// Runs `work` in a thread at `core`.
    ///
    /// # Errors
    /// Those of `work`, or of the thread where it cannot be at that core.
    pub fn on_core<T: Send>(
        &self,
        core: usize,
        work: impl FnOnce() -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        thread::scope(|scope| {
            let work = scope.spawn(|| {
                let _registration = self.eal.register_thread();
                pin_to_core(core).map_err(|error| format!("core {core}: {error}"))?;
                work().map_err(|error| error.to_string())
            });
            let done = work.join().map_err(|_| "the measured thread panicked".to_owned());
            Ok(done??)
        })
    }
}

/// Polls for so long.
pub(crate) fn spin(worker: &mut Worker, burner: &mut Burner, length: Duration) {
    let end = Instant::now() + length;
    while Instant::now() < end {
        turn(worker, burner);
    }
}

/// Polls some times.
fn turn(worker: &mut Worker, burner: &mut Burner) {
    for _ in 0..ROUNDS_AT_ONCE {
        worker.poll();
        burner.burn();
    }
}

/// How disturbed a closed trial is by what was taken from it.
pub(crate) fn taken(between: &Between) -> f64 {
    (between.disturbance() - TAKEN_AT_MOST).max(0.0)
}
