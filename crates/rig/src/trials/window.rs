//! Closed trials of chains that are run in any way: what a packet costs the core of the
//! node, wherever its functions are.
//!
//! A generator in the node's thread sees to it that so many packets are always on their
//! way, no more than a node lets be away at a function ([`WINDOW`]): none is dropped, and
//! the node waits for nothing but the functions. Only rounds with something to do are
//! timed, so neither the generator costs anything, nor to look in vain for what functions
//! elsewhere have not done yet. Between two rounds the node leaves functions elsewhere to
//! themselves for a while: what comes back comes in bursts then, as it does to a core at its
//! limit, which has no time to look for single packets.

use std::cell::Cell;
use std::time::{Duration, Instant};

use weft_dpdk::{Pool, Port, PortOptions, tsc};
use weft_traffic::{Load, Source};

use crate::Burner;
use crate::Failure;
use crate::Rig;
use crate::machine::disturbance::Look;
use crate::machine::slices::{Measured, Slices};
use crate::setup::{Devices, Setup};
use crate::trials::closed::{WARM_UP, taken};
use crate::trials::sections::unlimited;

/// Packets that are on their way: what a node lets be away, less a burst that is let in.
pub const WINDOW: u64 = 224;
/// Packets that the generator sends at once.
const BURST: u64 = 32;
/// Buffers of the generator, and packets that the ring holds.
const PACKETS: u32 = 2047;
const DESCRIPTORS: u16 = 1024;
/// How long functions elsewhere are left to themselves between two rounds.
const PAUSE: Duration = Duration::from_micros(30);
/// Turns between two looks at the clock.
const TURNS: u32 = 16;
/// How long nothing may leave.
const PATIENCE: Duration = Duration::from_secs(5);

impl Rig {
    /// Cycles that a packet of `load` costs the worker of a node whose functions are run as
    /// the setup says; see [`Spoilt`](crate::Spoilt) for what comes with it.
    ///
    /// # Errors
    /// When the node cannot be built, or does not forward everything.
    pub fn cost_of_composed(
        &self,
        setup: &Setup,
        load: &Load,
        length: Duration,
    ) -> Result<(Measured, f64), Failure> {
        let ring = format!("ring:bench-window{}", self.serial());
        let core = format!("net_null{},no-rx=1", self.serial());
        let devices = Devices { access: vec![ring.clone()], core, descriptors: DESCRIPTORS };
        // It goes last: a pool whose packets others hold cannot be freed.
        let pool = Pool::new(self.eal, &format!("window{}", self.serial()), PACKETS)?;
        let mut composed = setup.compose(self, &devices)?;
        let options = PortOptions { descriptors: DESCRIPTORS, ..PortOptions::default() };
        let port = Port::open(self.eal, &ring, &options, &pool)?;
        let mut tx = port.take_tx(0).ok_or("a device without queues")?;
        let mut source = Source::of(&unlimited(load))?;
        let worker = &mut composed.node.workers()[0];
        let measured = self.on_core(self.cores.system, || {
            let counters = worker.counters.clone();
            let gone = || counters.ports[1].transmitted.packets.get();
            let (mut given, mut burner) = (gone(), Burner::new(self.slow_down));
            let last = Cell::new(Instant::now());
            let pause = if setup.composition.is_elsewhere() { PAUSE } else { Duration::ZERO };
            let mut turn = |slices: &mut Slices| {
                let before = gone();
                while given + BURST <= before + WINDOW {
                    match source.send(&mut tx, &pool) {
                        0 => break,
                        count => given += count as u64,
                    }
                }
                wait(pause);
                burner.start();
                let start = tsc::now();
                let busy = worker.poll();
                burner.burn();
                let took = tsc::now().wrapping_sub(start);
                let left = gone() - before;
                slices.push(if busy { took } else { 0 }, left);
                match left {
                    0 if last.get().elapsed() > PATIENCE => Err(NOTHING),
                    0 => Ok(()),
                    _ => {
                        last.set(Instant::now());
                        Ok(())
                    }
                }
            };
            let begun = gone();
            let mut slices = Slices::of(length);
            spin(&mut turn, &mut slices, length.mul_f64(WARM_UP), || gone() >= begun + WINDOW)?;
            let (slow, look) = (self.probe.slowness(), Look::now(self.cores.system)?);
            let (begun, mut slices) = (gone(), Slices::of(length));
            spin(&mut turn, &mut slices, length, || gone() > begun)?;
            let between = look.since()?;
            // What is on its way comes back, for the same reason.
            let end = Instant::now() + PATIENCE;
            while gone() < given && Instant::now() < end {
                worker.poll();
            }
            let cost = slices.cost(between.disturbance()).ok_or(NOTHING)?;
            Ok((cost, taken(&between).max(slow).max(self.probe.slowness())))
        })?;
        let dropped = composed.node.agent().snapshot().dropped();
        match dropped {
            0 => Ok(measured),
            _ => Err(format!("the node under test dropped {dropped} packets").into()),
        }
    }
}

/// Waits without giving the core away.
fn wait(pause: Duration) {
    let until = Instant::now() + pause;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

/// Makes turns for so long, and until `is_enough`.
fn spin(
    turn: &mut impl FnMut(&mut Slices) -> Result<(), &'static str>,
    slices: &mut Slices,
    length: Duration,
    is_enough: impl Fn() -> bool,
) -> Result<(), Failure> {
    let end = Instant::now() + length;
    while Instant::now() < end || !is_enough() {
        for _ in 0..TURNS {
            turn(slices)?;
        }
    }
    Ok(())
}

const NOTHING: &str = "the node under test forwarded nothing";
