//! Users that move between two base stations behind a gateway, with packets in flight.
//!
//! Three nodes stand in this process on memory ports, with a network between
//! them, a host and users behind them, and a controller whose messages
//! and the nodes' are the real ones. One thread has the nodes' workers and the network,
//! another the agents, the controller and the traffic; without a second core one
//! thread has all in turn. A radio goes from station to station at once: what a radio
//! takes is not the user plane's.

mod account;
mod control;
mod ends;
mod journal;
mod network;
mod nodes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;
use weft_dpdk::{Eal, Pool, pin_to_core, tsc};
use weft_functions::KINDS;
use weft_node::{Agent, Node, Worker};
use weft_node_config as config;
use weft_state::{Owner, Role, Store};

pub use self::account::{Disturbed, Dot, Handover, Phase};
use self::control::Control;
pub use self::ends::Ends;
pub use self::journal::{Faults, Passage};
pub use self::network::Far;
use self::network::{Network, Seen};
pub use self::nodes::{Chain, Devices, NUMBERS, document};
use crate::Cores;
use crate::machine::disturbance::Look;

/// Longest wait for an order, and for packets that are still on their way.
const PATIENCE: Duration = Duration::from_secs(30);
/// Packets that do not arrive for so long do not arrive any more.
pub(crate) const SILENCE: Duration = Duration::from_millis(300);
/// Users that are added at once.
const BLOCK: u32 = 128;
/// Packets that a host is late with at most whose thread carries them, too: one that the kernel
/// puts aside for a second would send more at once than gates and devices hold, and more than a
/// station hands a radio before it hears that the radio has left.
const MOST_LATE: u64 = 32;

/// Who moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scene {
    /// Users, who all move at once.
    pub users: u32,
    /// What stations do with their packets.
    pub chain: Chain,
    /// Octets of the packets' frames, without their checksum.
    pub frame_bytes: usize,
    /// Packet buffers of each node, and of host and users. Queues hold a quarter of it,
    /// gates all.
    pub buffers: u32,
    /// The gateway keeps its routes on the disk of the folder for temporary files.
    pub is_kept: bool,
}

impl Scene {
    /// Packet buffers in all.
    pub fn all_buffers(&self) -> u32 {
        4 * self.buffers
    }

    /// Packets that a queue holds.
    pub fn descriptors(&self) -> u16 {
        (self.buffers / 4).next_power_of_two().clamp(64, 8192) as u16
    }
}

/// Traffic, and moves while it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Course {
    /// Packets per second to all users together; as many come back.
    pub rate: f64,
    /// How often all users move.
    pub moves: u32,
    /// How long each move is waited with, so that what is usual can be seen.
    pub pause: Duration,
}

/// What came of a course.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Packets that were sent.
    pub packets: usize,
    /// What should not have happened.
    pub faults: Faults,
    /// The moves, in order.
    pub handovers: Vec<Handover>,
    /// What the nodes dropped, by reason.
    pub drops: Vec<String>,
    /// The share of the time that was taken from either core.
    pub disturbance: f64,
}

impl Outcome {
    /// The move whose packets were as late as in half of the moves; none of no moves.
    pub fn typical(&self) -> Option<&Handover> {
        let added = |one: &Handover| one.disturbed.first().map_or(0.0, |user| user.added);
        let mut moves: Vec<_> = self.handovers.iter().collect();
        moves.sort_by(|a, b| added(a).total_cmp(&added(b)));
        moves.get(moves.len() / 2).copied()
    }
}

/// A gateway, two stations, and all around them.
pub struct World {
    eal: &'static Eal,
    scene: Scene,
    cores: Cores,
    nodes: [Node; 3],
    network: Network,
    ends: Ends,
    control: Control,
    /// The station where the users are.
    station: usize,
    /// What the gateway keeps.
    _store: Option<TempDir>,
}

/// What one thread has: the nodes' workers and the network.
struct System<'w> {
    workers: Vec<&'w mut Worker>,
    network: &'w mut Network,
}

impl System<'_> {
    fn turn(&mut self) {
        for worker in &mut self.workers {
            worker.poll();
        }
        self.network.carry();
    }
}

/// What the other thread has, or one thread beside the first.
struct Session<'w> {
    /// Where there is no other thread.
    system: Option<System<'w>>,
    agents: Vec<&'w mut Agent>,
    control: &'w mut Control,
    ends: &'w mut Ends,
    seen: Arc<Seen>,
}

impl Session<'_> {
    fn turn(&mut self) {
        if let Some(system) = &mut self.system {
            system.turn();
        }
        self.ends.turn();
        self.control.turn(&mut self.agents, self.ends);
    }

    /// Goes on for so long.
    fn spend(&mut self, time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            self.turn();
        }
    }

    /// Goes on until something holds.
    fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) -> Result<(), String> {
        let start = Instant::now();
        while !holds(self) {
            if start.elapsed() > PATIENCE {
                return Err(format!("{what}: not within {} s", PATIENCE.as_secs()));
            }
            self.turn();
        }
        match self.control.failed.pop() {
            None => Ok(()),
            Some(why) => Err(format!("{what}: {why}")),
        }
    }

    /// Packets that have waited at gates so far.
    fn waited(&self) -> u64 {
        self.agents.iter().filter_map(|agent| agent.handover_view()).map(|view| view.waited).sum()
    }
}

impl World {
    /// Builds the nodes; `name` tells their ports from those of other worlds. The users
    /// are at the first station then.
    ///
    /// # Errors
    /// When the machine lacks something, or no node takes the users.
    pub fn build(
        eal: &'static Eal,
        cores: Cores,
        name: &str,
        scene: Scene,
    ) -> Result<World, String> {
        let devices = std::array::from_fn::<_, 3, _>(|node| Devices {
            network: format!("ring:{name}-network{node}"),
            outside: format!("ring:{name}-outside{node}"),
        });
        let [gateway, first, second] = &devices;
        let kept = if scene.is_kept { Some(tempfile::tempdir().map_err(text)?) } else { None };
        let node = |number, devices, folder| build_node(eal, number, devices, (scene, folder));
        let gateway = node(0, gateway, kept.as_ref())?;
        let mut nodes = [gateway, node(1, first, None)?, node(2, second, None)?];
        let pool = Pool::new(eal, &format!("{name}-ends"), scene.buffers).map_err(text)?;
        let far = |device: &str| Far::open(eal, device, scene.descriptors(), &pool).map_err(text);
        let [a, b, c] = &devices;
        let network = Network::new([far(&a.network)?, far(&b.network)?, far(&c.network)?]);
        let (host, radios) = (far(&a.outside)?, [far(&b.outside)?, far(&c.outside)?]);
        let ends = Ends::new(pool, host, radios, scene.users, scene.frame_bytes).map_err(text)?;
        let mut agents: Vec<_> = nodes.iter_mut().map(Node::agent).collect();
        let control = Control::new(&mut agents, scene.users).map_err(text)?;
        let mut world =
            World { eal, scene, cores, nodes, network, ends, control, station: 0, _store: kept };
        world.run(|session| {
            session.until("nodes say hello", |session| session.control.is_connected())?;
            for first in (0..scene.users).step_by(BLOCK as usize) {
                let block = first..scene.users.min(first + BLOCK);
                block.for_each(|user| session.control.add(user, 0));
                session.until("users are added", |session| session.control.is_at_rest())?;
            }
            Ok(())
        })?;
        Ok(world)
    }

    /// Sends traffic and moves all users to and fro.
    ///
    /// # Errors
    /// When a move fails, or takes for ever.
    pub fn perform(&mut self, course: &Course) -> Result<Outcome, String> {
        let (users, mut station, before) = (self.scene.users, self.station, self.drops());
        let whole = course.pause.as_secs_f64() * f64::from(course.moves + 2);
        let room = (course.rate * (whole + f64::from(course.moves) * 0.005)) as usize;
        let (mut handovers, disturbance) = self.run(|session| {
            session.ends.start(course.rate, room + 1000);
            let mut handovers = Vec::new();
            for _ in 0..course.moves {
                session.spend(course.pause);
                station = 1 - station;
                handovers.push(session.hand_over(users, station)?);
            }
            session.spend(course.pause);
            session.ends.stop();
            session.settle();
            Ok(handovers)
        })?;
        self.station = station;
        let journal = &self.ends.journal;
        handovers.iter_mut().for_each(|handover| handover.follow(journal.packets()));
        let (packets, faults) = (journal.packets().len(), journal.faults());
        let fresh = |(why, count): (String, u64)| {
            let count = count - before.get(&why).copied().unwrap_or(0);
            (count > 0).then(|| format!("{count} {why}"))
        };
        let mut drops: Vec<_> = self.drops().into_iter().filter_map(fresh).collect();
        if self.ends.unsent > 0 {
            drops.push(format!("{} without a buffer to be sent in", self.ends.unsent));
        }
        Ok(Outcome { packets, faults, handovers, drops, disturbance })
    }

    /// Runs something while the nodes do; also the share of the time that was taken.
    fn run<T: Send>(
        &mut self,
        work: impl FnOnce(&mut Session<'_>) -> Result<T, String> + Send,
    ) -> Result<(T, f64), String> {
        let World { eal, cores, nodes, network, ends, control, .. } = self;
        let (eal, seen) = (*eal, network.seen.clone());
        let (mut agents, mut workers) = (Vec::new(), Vec::new());
        for node in nodes {
            let (agent, of_node) = node.parts();
            agents.push(agent);
            workers.extend(of_node);
        }
        let system = System { workers, network };
        let mut session = Session { system: None, agents, control, ends, seen };
        let (Cores { system: core, traffic, .. }, done) = (*cores, AtomicBool::new(false));
        thread::scope(|scope| {
            let other = match traffic {
                Some(_) => Some(scope.spawn(|| run_system(eal, system, core, &done))),
                None => {
                    session.system = Some(system);
                    // Nothing carried packets while the thread was put aside.
                    session.ends.most_late = MOST_LATE;
                    None
                }
            };
            let session = scope.spawn(move || {
                let _registration = eal.register_thread();
                let core = traffic.unwrap_or(core);
                pin_to_core(core).map_err(|error| format!("core {core}: {error}"))?;
                let look = Look::now(core).map_err(text)?;
                let done = work(&mut session)?;
                Ok((done, look.since().map_err(text)?.disturbance()))
            });
            let outcome = session.join().unwrap_or_else(|_| Err(PANICKED.to_owned()));
            done.store(true, Ordering::Release);
            let taken = other
                .map_or(Ok(0.0), |other| other.join().unwrap_or_else(|_| Err(PANICKED.to_owned())));
            let (outcome, disturbance) = outcome?;
            Ok((outcome, disturbance.max(taken?)))
        })
    }

    /// What the nodes have dropped so far, by reason and node.
    fn drops(&mut self) -> BTreeMap<String, u64> {
        let mut drops = BTreeMap::new();
        for node in &mut self.nodes {
            let view = node.agent().snapshot();
            for one in view.drops {
                *drops.entry(format!("{} at {}", one.reason, view.node)).or_default() +=
                    one.packets;
            }
        }
        drops.insert("to no user".to_owned(), self.network.seen.astray());
        drops
    }
}

impl Session<'_> {
    /// Moves all users to a station.
    fn hand_over(&mut self, users: u32, station: usize) -> Result<Handover, String> {
        self.control.marks.clear();
        let (waited, forwarded) = (self.waited(), self.seen.forwarded());
        let ordered = tsc::now();
        self.control.move_all(users, station);
        self.until("a move", |session| session.control.is_at_rest())?;
        let settled = tsc::now();
        let (waited, forwarded) = (self.waited() - waited, self.seen.forwarded() - forwarded);
        let last = (forwarded > 0).then(|| self.seen.last());
        let marks = std::mem::take(&mut self.control.marks);
        Ok(Handover::new((ordered, settled), marks, (waited, forwarded, last)))
    }

    /// Waits for what is on its way.
    fn settle(&mut self) {
        let (mut since, mut faults) = (Instant::now(), self.ends.journal.faults());
        while !self.ends.journal.is_whole() && since.elapsed() < SILENCE {
            self.spend(Duration::from_millis(1));
            let now = self.ends.journal.faults();
            if now != faults {
                (since, faults) = (Instant::now(), now);
            }
        }
    }
}

const PANICKED: &str = "the measured thread panicked";

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn build_node(
    eal: &'static Eal,
    number: usize,
    devices: &Devices,
    (scene, store): (Scene, Option<&TempDir>),
) -> Result<Node, String> {
    let mut document = nodes::document(number, devices, scene);
    if store.is_some() {
        document["state"] = json!({"directory": "unused"});
    }
    let blueprint = config::read(&document.to_string(), "handover", KINDS).map_err(text)?;
    let Some(folder) = store else { return Node::build(eal, blueprint).map_err(text) };
    let owner = Owner { role: Role::Node, name: blueprint.name.clone() };
    let store = Store::open(folder.path(), &owner).map_err(text)?;
    Node::restore(eal, blueprint, store).map_err(text)
}

fn run_system(
    eal: &'static Eal,
    mut system: System<'_>,
    core: usize,
    done: &AtomicBool,
) -> Result<f64, String> {
    let _registration = eal.register_thread();
    pin_to_core(core).map_err(|error| format!("core {core}: {error}"))?;
    let look = Look::now(core).map_err(text)?;
    while !done.load(Ordering::Acquire) {
        system.turn();
    }
    Ok(look.since().map_err(text)?.disturbance())
}
