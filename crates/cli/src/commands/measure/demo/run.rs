//! Drives node and traffic, and gathers what was counted.

use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use weft_dpdk::{Eal, Pool};
use weft_node::Node;
use weft_node::show::Snapshot;
use weft_traffic::{Direction, Source, Stream, Tally};

use super::drive::Drive;
use super::end::End;
use super::machine::{Look, Taken};
use super::progress::{self, Progress};
use super::scene::{Plan, Scene, is_over};
use crate::failure::Failure;

/// Packets of the traffic's pool: as many as all queues hold.
pub const PACKETS: u32 = 32_767;
/// Turns between two looks at the clock.
const TURNS: u32 = 64;
/// Pause between two looks at what the node has counted.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Packets that do not arrive for so long do not arrive any more.
const PATIENCE: Duration = Duration::from_secs(2);

/// How the demo goes.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// How long packets are sent.
    pub duration: Duration,
    /// Whether the node runs in threads of its own, beside the traffic's.
    pub threads: bool,
}

/// All that was counted.
#[derive(Debug)]
pub struct Outcome {
    /// What the node says.
    pub node: Snapshot,
    /// By plan: what was sent, and what arrived.
    pub streams: Vec<(Tally, Stream)>,
    /// Packets with wrong checksums.
    pub damaged: u64,
    /// Packets of no stream.
    pub foreign: u64,
    /// Packets from the node that found a queue full.
    pub missed: u64,
    /// Every user in the chain.
    pub users: Vec<Account>,
    /// What the machine took from sender and node while packets were sent.
    pub taken: Taken,
    /// How long packets were sent, and how long until the last had arrived.
    pub sending: Duration,
    pub settled: Duration,
}

/// The packets of one user in the chain, both directions together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Whether it sends more than its rate.
    pub over: bool,
    pub sent: u64,
    pub received: u64,
    /// Packets that came to the chain, as its counter says. Only asked for where
    /// it matters: for users over their rate, or who lost packets.
    pub entered: Option<u64>,
}

/// Runs the scene for a moment, without a word.
///
/// # Errors
/// What the machine lacks.
pub fn trial(eal: &'static Eal, scene: &Scene, course: &Course) -> Result<Outcome, Failure> {
    thread::scope(|scope| {
        let traffic = scope.spawn(|| {
            let _registration = eal.register_thread();
            Rig::build(eal, scene, course)?.run(course, &Progress::default())
        });
        traffic.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Runs the scene.
///
/// # Errors
/// What the machine lacks.
pub fn run(eal: &'static Eal, scene: &Scene, course: &Course) -> Result<Outcome, Failure> {
    let progress = Progress::default();
    thread::scope(|scope| {
        let traffic = scope.spawn(|| {
            let _registration = eal.register_thread();
            Rig::build(eal, scene, course)?.run(course, &progress)
        });
        progress::show(&progress, course.duration, || traffic.is_finished());
        traffic.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Node and traffic, connected.
struct Rig<'a> {
    scene: &'a Scene,
    drive: Drive,
    pool: Pool,
    /// At the access and at the core port.
    ends: [End; 2],
}

/// A source for each stream of a direction.
fn sources(plans: &[Plan], direction: Direction) -> Result<Vec<Source>, Failure> {
    let sent = plans.iter().filter(|plan| plan.direction == direction);
    let sources = sent.map(|plan| Source::new(&plan.template, &plan.weights, plan.rate));
    sources.collect::<Result<_, _>>().map_err(Failure::broken)
}

impl<'a> Rig<'a> {
    fn build(eal: &'static Eal, scene: &'a Scene, course: &Course) -> Result<Rig<'a>, Failure> {
        let pool = Pool::new(eal, "traffic", PACKETS)?;
        let node = Node::build(eal, scene.blueprint.clone())?;
        let end = |port: usize, direction| {
            let device = &scene.blueprint.ports[port].device;
            let sources = sources(&scene.plans, direction)?;
            End::open(eal, device, &pool, &scene.plans, direction, sources)
        };
        let ends = [end(0, Direction::Uplink)?, end(1, Direction::Downlink)?];
        let drive = Drive::start(eal, node, course.threads).map_err(Failure::broken)?;
        Ok(Rig { scene, drive, pool, ends })
    }

    fn run(mut self, course: &Course, progress: &Progress) -> Result<Outcome, Failure> {
        let (look, start) = (Look::now(), Instant::now());
        while start.elapsed() < course.duration {
            for _ in 0..TURNS {
                self.ends.iter_mut().for_each(|end| end.turn(&self.pool));
                self.drive.step();
            }
            let elapsed = start.elapsed().as_millis() as u64;
            progress.elapsed.store(elapsed, Ordering::Relaxed);
            progress.sent.store(self.sent(), Ordering::Relaxed);
            progress.delivered.store(self.received(), Ordering::Relaxed);
        }
        self.ends.iter_mut().for_each(End::finish);
        let (sending, taken) = (start.elapsed(), look.since());
        self.settle()?;
        let settled = start.elapsed();
        let users = self.accounts()?;
        let node = self.drive.stop()?;
        let [access, core] = &self.ends;
        let pairs = [(access, core), (core, access)];
        let streams = pairs.into_iter().flat_map(|(from, to)| {
            let tallies = from.sources.iter().map(|source| source.tally());
            tallies.zip(to.receiver.streams().iter().cloned())
        });
        Ok(Outcome {
            node,
            streams: streams.collect(),
            damaged: self.ends.iter().map(|end| end.receiver.damaged()).sum(),
            foreign: self.ends.iter().map(|end| end.receiver.foreign()).sum(),
            missed: self.ends.iter().map(End::missed).sum(),
            users,
            taken,
            sending,
            settled,
        })
    }

    fn sent(&self) -> u64 {
        self.ends.iter().map(End::sent).sum()
    }

    fn received(&self) -> u64 {
        self.ends.iter().map(End::received).sum()
    }

    /// Waits until every packet has arrived or was counted as lost, or nothing
    /// happens any more.
    fn settle(&mut self) -> Result<(), Failure> {
        let sent = self.sent();
        let (mut known, mut since) = (0, Instant::now());
        loop {
            self.receive_for(LOOK_EVERY);
            let node = self.drive.ask(|agent| agent.snapshot())?;
            let lost: u64 = node.drops.iter().map(|drop| drop.packets).sum();
            let missed: u64 = self.ends.iter().map(End::missed).sum();
            let now_known = self.received() + lost + missed;
            if now_known != known {
                (known, since) = (now_known, Instant::now());
            }
            if known >= sent || since.elapsed() > PATIENCE {
                return Ok(());
            }
        }
    }

    fn receive_for(&mut self, time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            self.ends.iter_mut().for_each(End::receive);
            self.drive.step();
        }
    }

    /// What became of the packets of each user in the chain.
    fn accounts(&mut self) -> Result<Vec<Account>, Failure> {
        let [access, core] = &self.ends;
        // The first stream of each direction is that of the chain.
        let sent = [access, core].map(|end| &end.sources[0].streams()[0].flows);
        let flows = [core.receiver.streams()[0].flows(), access.receiver.streams()[0].flows()];
        let account = |user: usize| Account {
            over: is_over(user as u32),
            sent: sent.iter().map(|sent| sent[user]).sum(),
            received: flows.iter().map(|flows| flows[user].received).sum(),
            entered: None,
        };
        let mut accounts: Vec<_> = (0..self.scene.metered()).map(account).collect();
        self.ask_counter(&mut accounts)?;
        Ok(accounts)
    }

    /// Asks the chain's counter how many packets it has seen of the users for
    /// whom that matters.
    fn ask_counter(&mut self, accounts: &mut [Account]) -> Result<(), Failure> {
        let plan = &self.scene.blueprint.users[0];
        let matters = |one: &&mut Account| one.over || one.received != one.sent;
        let named = accounts.iter_mut().zip(0..).filter(|(one, _)| matters(one));
        let (accounts, names): (Vec<_>, Vec<_>) =
            named.map(|(account, user)| (account, plan.name_of(user))).unzip();
        let answers = self.drive.ask(move |agent| {
            names.iter().map(|name| agent.contexts_of(name)).collect::<Vec<_>>()
        })?;
        for (account, answer) in accounts.into_iter().zip(answers) {
            let Some(contexts) = answer.and_then(|(_, answer)| self.wait(&answer)) else {
                continue;
            };
            let counter = contexts.into_iter().find(|(function, _)| function == "count");
            let fields = counter.map_or_else(Vec::new, |(_, fields)| fields);
            account.entered = fields.iter().find(|one| one.0 == "packets").map(|one| one.1);
        }
        Ok(())
    }

    /// An answer of the node, unless it never comes.
    fn wait<T>(&mut self, answer: &Receiver<T>) -> Option<T> {
        let start = Instant::now();
        loop {
            match answer.try_recv() {
                Ok(answer) => return Some(answer),
                Err(_) if start.elapsed() > PATIENCE => return None,
                Err(_) => self.drive.step(),
            }
        }
    }
}
