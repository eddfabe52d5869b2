//! What the node carries at most on one core: the same chains, driven with full bursts.
//!
//! Generator and node take turns in one thread, so that a machine with one core will do and
//! the node never waits. Only the node's turns are counted, and the meters have no limit
//! here: what comes in goes out, and a packet that is lost is a failed check. What a machine
//! does beside makes a packet dearer and never cheaper, and it comes and goes within
//! milliseconds: so all figures are those of the cheaper of many short slices.

use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use weft_dpdk::{Eal, Pool, tsc};
use weft_node::Node;
use weft_traffic::{Arrivals, Direction, Load, Rate, Selection, Share, Source};

use super::check::Check;
use super::cost::{Cost, Counts};
use super::end::End;
use super::scene::{Plan, Scene};
use crate::failure::Failure;
use crate::number::count;

/// Packets of the generator.
pub const PACKETS: u32 = 4095;
/// How long it lasts at most.
const LONGEST: Duration = Duration::from_secs(3);
/// The part of it that goes before, to fill caches.
const WARM_UP: f64 = 0.1;
/// Bursts at each port in a turn: an odd number in all, so that those whose stages the node
/// times, one in sixteen, are by and by at every place of a turn.
const BURSTS: [usize; 2] = [9, 8];
/// How long the node's turns of a slice take.
const SLICE: Duration = Duration::from_micros(500);
/// The part of the slices whose figures count: the cheapest.
const CHEAPEST: f64 = 0.1;

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Capacity {
    /// Packets per second that one core carries.
    pub packets_per_second: f64,
    /// Cycles of a packet on its whole way through the node.
    pub cycles_per_packet: f64,
    /// The same over all slices, with all that disturbed them.
    pub mean_cycles_per_packet: f64,
    /// Packets sent, and those that came out.
    pub sent: u64,
    pub delivered: u64,
    /// Seconds, those of the generator's turns included.
    pub seconds: f64,
    /// By stage and function.
    pub cost: Cost,
}

/// Measures it with the users and chains of a scene, for as long as the scene takes but no
/// longer than some seconds.
///
/// # Errors
/// What the machine lacks.
pub fn run(eal: &'static Eal, scene: &Scene, length: Duration) -> Result<Capacity, Failure> {
    thread::scope(|scope| {
        let measured = scope.spawn(|| {
            let _registration = eal.register_thread();
            Rig::build(eal, scene)?.run(length.min(LONGEST))
        });
        measured.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A node and the generator at its ports.
struct Rig {
    node: Node,
    ends: [End; 2],
    pool: Pool,
}

/// Turns of the node that follow each other.
#[derive(Default)]
struct Slice {
    cycles: u64,
    packets: u64,
    counts: Counts,
}

impl Slice {
    fn cost(&self) -> f64 {
        self.cycles as f64 / self.packets.max(1) as f64
    }

    fn sum<'a>(slices: impl IntoIterator<Item = &'a Slice>) -> Option<Slice> {
        let slices = slices.into_iter().map(|one| Slice { counts: one.counts.clone(), ..*one });
        slices.reduce(|sum, one| Slice {
            cycles: sum.cycles + one.cycles,
            packets: sum.packets + one.packets,
            counts: sum.counts.and(&one.counts),
        })
    }
}

impl Rig {
    fn build(eal: &'static Eal, scene: &Scene) -> Result<Rig, Failure> {
        let pool = Pool::new(eal, "capacity", PACKETS)?;
        let blueprint = scene.unlimited();
        let node = Node::build(eal, blueprint.clone())?;
        let end = |port: usize, direction| {
            let sources = vec![source(&scene.plans, direction)?];
            End::open(eal, &blueprint.ports[port].device, &pool, &scene.plans, direction, sources)
        };
        let ends = [end(0, Direction::Uplink)?, end(1, Direction::Downlink)?];
        Ok(Rig { node, ends, pool })
    }

    fn run(mut self, length: Duration) -> Result<Capacity, Failure> {
        let start = Instant::now();
        let mut slices = Vec::new();
        while start.elapsed() < length {
            let slice = self.slice();
            if start.elapsed() > length.mul_f64(WARM_UP) || slices.is_empty() {
                slices.push(slice);
            }
        }
        // What is left in the node comes out.
        while self.node.step() {}
        self.ends.iter_mut().for_each(End::receive);
        let seconds = start.elapsed().as_secs_f64();
        slices.sort_by(|one, other| one.cost().total_cmp(&other.cost()));
        let cheapest = (slices.len() as f64 * CHEAPEST).ceil() as usize;
        let sums = Slice::sum(&slices[..cheapest]).zip(Slice::sum(&slices));
        let (cheapest, all) =
            sums.ok_or_else(|| Failure::broken("there was no time to measure"))?;
        Ok(Capacity {
            packets_per_second: tsc::hz() as f64 / cheapest.cost(),
            cycles_per_packet: cheapest.cost(),
            mean_cycles_per_packet: all.cost(),
            sent: self.ends.iter().map(End::sent).sum(),
            delivered: self.ends.iter().map(End::received).sum(),
            seconds,
            cost: cheapest.counts.cost(&self.node.stop()),
        })
    }

    /// Turns until the node's have taken as long as a slice.
    fn slice(&mut self) -> Slice {
        let mut slice = Slice::default();
        let length = (SLICE.as_secs_f64() * tsc::hz() as f64) as u64;
        let before = Counts::of(&self.node.agent().snapshot());
        while slice.cycles < length {
            let (cycles, packets) = self.turn();
            slice.cycles += cycles;
            slice.packets += packets;
        }
        slice.counts = Counts::of(&self.node.agent().snapshot()).since(&before);
        slice
    }

    /// A turn of the generator and one of the node; returns the node's cycles, and the packets
    /// that it sent in them.
    fn turn(&mut self) -> (u64, u64) {
        for (end, bursts) in self.ends.iter_mut().zip(BURSTS) {
            (0..bursts).for_each(|_| end.send(&self.pool));
        }
        let worker = &mut self.node.workers()[0];
        let counters = worker.counters.clone();
        let sent = || counters.ports.iter().map(|port| port.transmitted.packets.get()).sum::<u64>();
        let (before, begin) = (sent(), tsc::now());
        for _ in 0..BURSTS[0] {
            worker.poll();
        }
        let cycles = tsc::now().wrapping_sub(begin);
        self.node.agent().poll();
        self.ends.iter_mut().for_each(End::receive);
        (cycles, sent() - before)
    }
}

/// Both chains' packets of one direction, in turn and as many as the port takes.
fn source(plans: &[Plan], direction: Direction) -> Result<Source, Failure> {
    let shares = plans.iter().filter(|plan| plan.direction == direction).map(|plan| Share {
        template: plan.template.clone(),
        users: plan.weights.len() as u32,
        selection: Selection::Weighted(plan.weights.clone()),
        weight: plan.weights.iter().sum(),
    });
    let load = Load {
        rate: Rate::Unlimited,
        arrivals: Arrivals::Constant,
        shares: shares.collect(),
        captured: Vec::new(),
        seed: 1,
    };
    Source::of(&load).map_err(Failure::broken)
}

impl Capacity {
    /// That what is said to be carried was carried.
    pub fn check(&self) -> Check {
        Check {
            name: "at full bursts no packet was lost",
            passed: self.sent > 0 && self.sent == self.delivered,
            numbers: format!("{} sent, {} delivered", count(self.sent), count(self.delivered)),
        }
    }
}
