//! The world in which a run takes place: its parties, its clock and its log.

mod check;
mod documents;
mod etcd;
mod faults;
mod links;
mod node;
mod operator;
mod pair;
mod replica;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use weft_etcd::model::Model;
use weft_mobility_protocol::{AnchorPosture, EndMarker, Envelope, NodeId, TimerKey, User};
use weft_mobility_simulator::Random;
use weft_mobility_transport::Event as Arrived;
use weft_mobility_transport::note::Upgrade;

use crate::history::SiteHistory;
use crate::processes::{Ended, ProcessId, Processes, own, pause};
use crate::scenario::{Outcome, Promise, Scenario, Statistics, Violation};
use documents::Documents;
use etcd::{Asked, Member, Said};
use node::{Node, PAIR};
use replica::Replica;

/// How often it is looked at leases and leaders, in microseconds.
const TICK: u64 = 20_000;
/// A second.
const SECOND: u64 = 1_000_000;
/// How long it may take after the last fault until all is well.
const PATIENCE: u64 = 900 * SECOND;

/// Who can be cut off from whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Party {
    Replica(usize),
    Member(usize),
    Node(NodeId),
}

/// What happens.
enum Event {
    Wake {
        process: ProcessId,
        generation: u64,
    },
    /// A replica starts.
    Begin(usize),
    Tick,
    /// A request reaches its member of etcd.
    Arrives(u64),
    /// Its answer reaches who has asked.
    Answers(u64, Result<Said, weft_etcd::EtcdError>),
    /// From a controller to a node, on a connection.
    ToNode {
        node: NodeId,
        link: u64,
        envelope: Envelope,
    },
    /// From a node to its controller.
    ToController {
        replica: usize,
        link: u64,
        node: NodeId,
        arrived: Box<Arrived>,
    },
    /// A controller tells a node that a process of it is to go, or asks which one it is.
    Upgrade {
        node: NodeId,
        link: u64,
        upgrade: Upgrade,
    },
    /// A controller tells a node how to run.
    Settings {
        node: NodeId,
        link: u64,
        told: (u64, String),
    },
    /// Nodes say how they run and what they carry.
    Say,
    /// A node of the pair says what it is, in this life.
    Claim(NodeId, u32),
    /// From node to node.
    Between {
        to: NodeId,
        envelope: Envelope,
    },
    Marker {
        to: NodeId,
        user: User,
        marker: EndMarker,
    },
    Timer {
        node: NodeId,
        key: TimerKey,
        generation: u64,
    },
    /// A node looks for the controller that leads.
    Dial(NodeId),
    /// A connection ends at one of its ends.
    NodeLost {
        node: NodeId,
        link: u64,
    },
    ControllerLost {
        replica: usize,
        node: NodeId,
        link: u64,
    },
    /// A node that is dead starts.
    Restart(NodeId),
    /// An operator orders or asks something.
    Order,
    Ask,
    Fault,
    /// It is looked whether all is well, after the last fault.
    Look,
    /// A fault of etcd ends.
    MemberBack(usize),
    NotFull,
}

struct Scheduled {
    at: Reverse<(u64, u64)>,
    event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Scheduled) -> bool {
        self.at == other.at
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Scheduled) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Scheduled) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

/// What has to be done outside of the world.
enum Action {
    Nothing,
    Resume(ProcessId),
    Start(usize),
    Kill(Vec<ProcessId>),
    End,
}

/// A process that waits.
#[derive(Clone, Copy)]
struct Waits {
    replica: usize,
    generation: u64,
}

/// A process that another one begins.
type Work = Box<dyn FnOnce() + Send>;

struct World {
    scenario: Scenario,
    random: Random,
    now: Arc<AtomicU64>,
    number: u64,
    queue: BinaryHeap<Scheduled>,
    waits: BTreeMap<ProcessId, Waits>,
    begun: Vec<(usize, Work)>,
    model: Model,
    members: Vec<Member>,
    /// Until when etcd has no leader.
    leaderless: u64,
    requests: BTreeMap<u64, (usize, ProcessId, usize, Asked)>,
    answers: BTreeMap<u64, Result<Said, weft_etcd::EtcdError>>,
    watches: Vec<(ProcessId, usize, String, u64)>,
    replicas: Vec<Replica>,
    nodes: BTreeMap<NodeId, Node>,
    /// When the last message between two parties arrives.
    last: BTreeMap<(Party, Party), u64>,
    cuts: BTreeMap<(Party, Party), u64>,
    /// What the anchor does, while it lives.
    postures: BTreeMap<User, AnchorPosture>,
    history: SiteHistory,
    documents: Documents,
    orders: u64,
    /// When the last fault ended, once no more come.
    calm: Option<u64>,
    own: Option<Weak<Shared>>,
    /// Why all is not well yet.
    unwell: (Promise, String),
    is_well: bool,
    statistics: Statistics,
    violation: Option<Violation>,
    log: VecDeque<String>,
}

/// The world, for all that take part.
struct Shared {
    world: Mutex<World>,
    now: Arc<AtomicU64>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, World> {
        // A process that is killed holds no lock.
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn time(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// Ends the turn of the process that calls until then, or until it is woken.
    fn wait_until(&self, time: u64) {
        let Some(id) = own() else { return };
        self.lock().block(id, time);
        pause();
    }
}

/// Runs a scenario. The same scenario and seed give the same outcome.
pub fn run(scenario: &Scenario, seed: u64) -> Outcome {
    let now: Arc<AtomicU64> = Arc::default();
    let world = Mutex::new(World::new(*scenario, seed, now.clone()));
    let shared = Arc::new(Shared { world, now });
    let mut processes = Processes::default();
    shared.introduce();
    shared.lock().begin();
    loop {
        let action = shared.lock().step();
        match action {
            Action::Nothing => {}
            Action::Resume(id) => {
                let ended = processes.resume(id);
                shared.lock().ended(id, ended);
            }
            Action::Start(replica) => {
                let own = shared.clone();
                start(&shared, &mut processes, replica, Box::new(move || own.lead(replica)));
            }
            Action::Kill(killed) => killed.into_iter().for_each(|id| processes.kill(id)),
            Action::End => break,
        }
        let begun = std::mem::take(&mut shared.lock().begun);
        for (replica, work) in begun {
            start(&shared, &mut processes, replica, work);
        }
    }
    drop(processes);
    let mut world = shared.lock();
    // Those who lead know the world.
    world.replicas.clear();
    world.queue.clear();
    world.conclude();
    Outcome {
        statistics: world.statistics,
        violation: world.violation.take(),
        log: world.log.drain(..).collect(),
    }
}

fn start(shared: &Shared, processes: &mut Processes, replica: usize, work: Work) {
    let started = processes.start(work);
    let mut world = shared.lock();
    match started {
        Ok(id) => world.started(id, replica),
        Err(error) => world.violated(Promise::Sound, format!("no thread: {error}")),
    }
}

impl World {
    fn new(scenario: Scenario, seed: u64, now: Arc<AtomicU64>) -> World {
        World {
            scenario,
            random: Random::new(seed),
            now,
            number: 0,
            queue: BinaryHeap::new(),
            waits: BTreeMap::new(),
            begun: Vec::new(),
            model: Model::default(),
            members: vec![Member::default(); 3],
            leaderless: 0,
            requests: BTreeMap::new(),
            answers: BTreeMap::new(),
            watches: Vec::new(),
            replicas: (0..scenario.replicas.max(1)).map(|_| Replica::default()).collect(),
            nodes: BTreeMap::new(),
            last: BTreeMap::new(),
            cuts: BTreeMap::new(),
            postures: BTreeMap::new(),
            history: SiteHistory::default(),
            documents: Documents::default(),
            orders: 0,
            calm: None,
            own: None,
            unwell: (Promise::Placed, String::new()),
            is_well: false,
            statistics: Statistics::default(),
            violation: None,
            log: VecDeque::new(),
        }
    }

    fn begin(&mut self) {
        for number in (1..=self.scenario.nodes.max(3)).map(NodeId).chain(PAIR) {
            self.nodes.insert(number, Node::new(number));
            let at = self.random.between(0, 50_000);
            self.after(at, Event::Restart(number));
        }
        for replica in 0..self.replicas.len() {
            self.replicas[replica].member = replica % self.members.len();
            let at = self.random.between(0, 50_000);
            self.after(at, Event::Begin(replica));
        }
        self.after(TICK, Event::Tick);
        self.after(SECOND, Event::Say);
        self.after(2 * SECOND, Event::Order);
        self.after(2 * SECOND, Event::Ask);
        self.after(3 * SECOND, Event::Fault);
    }

    fn time(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// Makes something happen later.
    fn after(&mut self, delay: u64, event: Event) {
        self.at(self.time() + delay, event);
    }

    fn at(&mut self, time: u64, event: Event) {
        self.number += 1;
        self.queue.push(Scheduled { at: Reverse((time, self.number)), event });
    }

    /// The next event happens.
    fn step(&mut self) -> Action {
        if self.violation.is_some() || self.is_well {
            return Action::End;
        }
        let Some(Scheduled { at: Reverse((time, _)), event }) = self.queue.pop() else {
            return Action::End;
        };
        self.now.store(time.max(self.time()), Ordering::Relaxed);
        self.statistics.events += 1;
        self.statistics.time = self.time();
        if self.calm.is_some_and(|calm| time > calm + PATIENCE) {
            let (promise, what) = &self.unwell;
            let what = format!("{} s after the last fault: {what}", PATIENCE / SECOND);
            self.violated(*promise, what);
            return Action::End;
        }
        self.happen(event)
    }

    fn happen(&mut self, event: Event) -> Action {
        match event {
            Event::Wake { process, generation } => return self.wake(process, generation),
            Event::Begin(replica) => return self.begin_replica(replica),
            Event::Fault => return self.fault(),
            Event::Tick => self.tick(),
            Event::Arrives(id) => self.arrives(id),
            Event::Answers(id, said) => self.answers(id, said),
            Event::ToNode { node, link, envelope } => self.arrive_at_node(node, link, envelope),
            Event::ToController { replica, link, node, arrived } => {
                self.arrive_at_controller(replica, link, node, *arrived);
            }
            Event::Upgrade { node, link, upgrade } => self.upgrade(node, link, upgrade),
            Event::Settings { node, link, told } => self.settings(node, link, told),
            Event::Say => self.say_all(),
            Event::Claim(node, life) => self.claim(node, life),
            Event::Between { to, envelope } => self.message(to, envelope),
            Event::Marker { to, user, marker } => self.marker(to, user, marker),
            Event::Timer { node, key, generation } => self.timer(node, key, generation),
            Event::Dial(node) => self.dial(node),
            Event::NodeLost { node, link } => self.node_lost(node, link),
            Event::ControllerLost { replica, node, link } => {
                self.controller_lost(replica, node, link);
            }
            Event::Restart(node) => self.restart(node),
            Event::Order => self.order(),
            Event::Ask => self.ask(),
            Event::Look => self.look(),
            Event::MemberBack(member) => self.members[member].is_dead = false,
            Event::NotFull => self.model.set_full(false),
        }
        Action::Nothing
    }

    fn tick(&mut self) {
        self.after(TICK, Event::Tick);
        self.expire_leases();
        self.look_at_leaders();
        self.check_bounds();
    }

    /// A process has been made.
    fn started(&mut self, id: ProcessId, replica: usize) {
        self.replicas[replica].processes.push(id);
        self.waits.insert(id, Waits { replica, generation: 0 });
        self.after(0, Event::Wake { process: id, generation: 0 });
    }

    /// The turn of a process has ended.
    fn ended(&mut self, id: ProcessId, ended: Ended) {
        match ended {
            Ended::Waits => return,
            Ended::Over => {}
            Ended::Panicked(what) => self.violated(Promise::Sound, format!("a panic: {what}")),
        }
        self.forget(id);
    }

    fn forget(&mut self, id: ProcessId) {
        if let Some(waits) = self.waits.remove(&id)
            && let Some(replica) = self.replicas.get_mut(waits.replica)
        {
            replica.processes.retain(|one| *one != id);
        }
        self.watches.retain(|(process, ..)| *process != id);
        self.requests.values_mut().filter(|(_, process, ..)| *process == id).for_each(|request| {
            // It is carried out, and nothing waits for its answer.
            request.1 = ProcessId(0);
        });
    }

    fn block(&mut self, id: ProcessId, time: u64) {
        let Some(waits) = self.waits.get_mut(&id) else { return };
        waits.generation += 1;
        let generation = waits.generation;
        self.at(time.max(self.time()), Event::Wake { process: id, generation });
    }

    /// A process that waits goes on.
    fn notify(&mut self, id: ProcessId) {
        if let Some(waits) = self.waits.get(&id) {
            let generation = waits.generation;
            self.after(0, Event::Wake { process: id, generation });
        }
    }

    fn wake(&mut self, process: ProcessId, generation: u64) -> Action {
        let time = self.time();
        let Some(waits) = self.waits.get_mut(&process) else { return Action::Nothing };
        if waits.generation != generation {
            return Action::Nothing;
        }
        let stands = self.replicas[waits.replica].stands_until;
        if stands > time {
            self.at(stands, Event::Wake { process, generation });
            return Action::Nothing;
        }
        waits.generation += 1;
        Action::Resume(process)
    }

    fn violated(&mut self, promise: Promise, what: String) {
        self.note(|| format!("VIOLATION: {promise}: {what}"));
        let time = self.time();
        if self.violation.is_none() {
            self.violation = Some(Violation { promise, time, what });
        }
    }

    /// A line of the log, if there is to be one.
    fn note(&mut self, line: impl FnOnce() -> String) {
        if self.scenario.log == 0 {
            return;
        }
        if self.log.len() == self.scenario.log {
            self.log.pop_front();
        }
        let (second, micro) = (self.time() / SECOND, self.time() % SECOND);
        self.log.push_back(format!("{second:3}.{micro:06} {}", line()));
    }
}
