//! The world in which a run takes place: its parties, its clock and its log.

mod carry;
mod disk;

use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use weft_mobility_protocol::controller::Record;
use weft_mobility_protocol::plane::{AnchorPlane, Limits, StationPlane};
use weft_mobility_protocol::{
    Anchor, Arrival, Controller, Direction, Envelope, Epoch, Incarnation, NodeId, Output, Settings,
    Station, TimerKey, User,
};

use crate::check::{Promise, Violation};
use crate::event::{Event, Packet, Scheduled};
use crate::functions::Functions;
use crate::random::Random;
use crate::scenario::{Mutation, Scenario};
use crate::statistics::Statistics;
use crate::user::UserState;
use crate::world::disk::Disk;

/// Virtual time after which a run that does not come to rest is a failure, in
/// microseconds.
const PATIENCE: u64 = 600_000_000;
/// Virtual time between two looks at which users are whole again.
const SURVEY: u64 = 10_000;

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What happened.
    pub statistics: Statistics,
    /// The first promise that was broken; the run ends with it.
    pub violation: Option<Violation>,
    /// The last lines of the log, oldest first; those of the violation's user and
    /// of no particular user.
    pub log: Vec<String>,
}

/// Runs a scenario. The same scenario and seed give the same outcome.
pub fn run(scenario: &Scenario, seed: u64) -> Outcome {
    let mut world = World::new(*scenario, seed);
    world.live();
    let about = world.violation.as_ref().and_then(|violation| violation.user);
    let concerned =
        |(user, _): &(Option<User>, String)| about.is_none() || user.is_none() || *user == about;
    world.statistics.time = world.time;
    Outcome {
        statistics: world.statistics,
        violation: world.violation,
        log: world.log.into_iter().filter(concerned).map(|(_, line)| line).collect(),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Orders and faults.
    Running,
    /// No orders and no faults any more; traffic for a little while.
    Draining,
    /// All is at rest; some packets show that all ways are open.
    Probing,
}

#[derive(Debug)]
pub(crate) struct StationNode {
    pub life: u32,
    /// `None` while it is dead.
    pub machine: Option<Station>,
    pub plane: StationPlane<Packet>,
    pub functions: BTreeMap<User, Functions>,
    pub disk: Disk,
}

#[derive(Debug)]
pub(crate) struct AnchorNode {
    pub life: u32,
    pub machine: Option<Anchor>,
    pub plane: AnchorPlane<Packet>,
    pub disk: Disk,
}

#[derive(Debug)]
pub(crate) struct Write {
    pub user: User,
    pub record: Option<Record>,
    pub next_epoch: Epoch,
}

#[derive(Debug, Default)]
pub(crate) struct ControllerNode {
    pub life: u32,
    pub machine: Option<Controller>,
    /// What is durable.
    pub records: BTreeMap<User, Record>,
    pub next_epoch: Epoch,
    /// What becomes durable, in this order.
    pub writes: VecDeque<Write>,
    pub last_write: u64,
}

pub(crate) struct World {
    pub scenario: Scenario,
    pub settings: Settings,
    pub random: Random,
    pub time: u64,
    pub number: u64,
    queue: BinaryHeap<Scheduled>,
    pub phase: Phase,
    /// When the last phase began.
    pub since: u64,
    next_survey: u64,
    pub stations: BTreeMap<NodeId, StationNode>,
    pub anchors: BTreeMap<NodeId, AnchorNode>,
    pub controller: ControllerNode,
    pub users: BTreeMap<User, UserState>,
    /// When the last packet on a link arrives.
    pub links: BTreeMap<(NodeId, NodeId), u64>,
    pub air: BTreeMap<(User, NodeId), u64>,
    /// Until when two parties cannot reach each other.
    pub cuts: BTreeMap<(NodeId, NodeId), u64>,
    pub timers: BTreeMap<(NodeId, TimerKey), u64>,
    /// Nodes that are dead for good until they come back after all, and their
    /// successors once declared.
    pub gone: BTreeMap<NodeId, Option<NodeId>>,
    pub statistics: Statistics,
    pub violation: Option<Violation>,
    log: VecDeque<(Option<User>, String)>,
}

impl World {
    fn new(scenario: Scenario, seed: u64) -> World {
        let mut random = Random::new(seed);
        let mut settings = Settings::default();
        if random.one_in_thousand(125) {
            (settings.prepared, settings.window, settings.ahead) = (2, 2, 2);
        }
        if Random::new(!seed).one_in_thousand(500) {
            settings.arrival = Arrival::Uplink;
        }
        let mut world = World {
            scenario,
            settings,
            random,
            time: 0,
            number: 0,
            queue: BinaryHeap::new(),
            phase: Phase::Running,
            since: 0,
            next_survey: SURVEY,
            stations: BTreeMap::new(),
            anchors: BTreeMap::new(),
            controller: ControllerNode::default(),
            users: BTreeMap::new(),
            links: BTreeMap::new(),
            air: BTreeMap::new(),
            cuts: BTreeMap::new(),
            timers: BTreeMap::new(),
            gone: BTreeMap::new(),
            statistics: Statistics::default(),
            violation: None,
            log: VecDeque::new(),
        };
        world.people();
        world
    }

    fn people(&mut self) {
        let Scenario { stations, anchors, users, .. } = self.scenario;
        let limits = self.limits();
        self.restart(NodeId::CONTROLLER);
        for id in (1..=stations.max(2)).map(NodeId) {
            let plane = StationPlane::new(limits);
            let functions = BTreeMap::new();
            let disk = Disk::default();
            self.stations
                .insert(id, StationNode { life: 0, machine: None, plane, functions, disk });
            self.restart(id);
        }
        for id in (1..=anchors.max(1)).map(|at| NodeId(1000 + at)) {
            let plane = AnchorPlane::new(limits);
            self.anchors
                .insert(id, AnchorNode { life: 0, machine: None, plane, disk: Disk::default() });
            self.restart(id);
        }
        for user in (1..=users).map(User) {
            let anchor = self.any_anchor();
            let station = self.any_station();
            self.users.insert(user, UserState::new(user, anchor, station));
            let at = self.random.between(2_000, 5_000);
            self.after(at, Event::Add(user));
            for direction in Direction::ALL {
                self.after(at, Event::Traffic { user, direction });
            }
        }
        self.after(10_000, Event::Order);
        self.after(20_000, Event::Fault);
    }

    /// What a node may keep waiting.
    pub fn limits(&self) -> Limits {
        let Scenario { gate, node_gates, policy, .. } = self.scenario;
        Limits { user: gate, node: node_gates, policy }
    }

    fn live(&mut self) {
        while self.violation.is_none() {
            let Some(Scheduled { time, event, .. }) = self.queue.pop() else {
                if self.rest() {
                    return;
                }
                continue;
            };
            self.time = time;
            self.statistics.events += 1;
            if self.phase != Phase::Running && time > self.since + PATIENCE {
                let next =
                    format!("no rest {} s after the last fault: {event:?}", PATIENCE / 1_000_000);
                return self.violated(Promise::Settled, None, next);
            }
            if time >= self.next_survey {
                self.next_survey = time + SURVEY;
                self.survey();
                self.checkpoint();
            }
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Message { to, bytes } => self.deliver_message(to, &bytes),
            Event::Data { to, item } => self.arrive(to, item),
            Event::Timer { node, key, generation } => self.fire(node, key, generation),
            Event::Emerge { node, entry, packet } => self.emerge(node, entry, packet),
            Event::Exported { node, entry, user, epoch } => self.exported(node, entry, user, epoch),
            Event::Imported { node, entry, user, epoch, contexts } => {
                self.imported(node, entry, user, epoch, contexts);
            }
            Event::Stored { life } => self.stored(life),
            Event::Kept { node, life } => self.kept(node, life),
            Event::Traffic { user, direction } => self.traffic(user, direction),
            Event::Drained { node, user, epoch } => {
                self.input(node, Some(user), |machine, out| {
                    if let Machine::Station(station) = machine {
                        station.drained(user, epoch, out);
                    }
                });
            }
            Event::Radio(user) => self.move_radio(user),
            Event::Add(user) => self.add(user),
            Event::Order => self.order(),
            Event::Fault => self.fault(),
            Event::Restart(node) => self.restart(node),
            Event::DeclareGone(node) => self.declare_gone(node),
        }
    }

    /// Makes something happen later.
    pub fn after(&mut self, delay: u64, event: Event) {
        self.at(self.time + delay, event);
    }

    pub fn at(&mut self, time: u64, event: Event) {
        self.number += 1;
        self.queue.push(Scheduled { time, number: self.number, event });
    }

    /// A number that was not given before.
    pub fn unique(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Whether stations are told of radios, or see by themselves where they are.
    pub fn radios_are_told(&self) -> bool {
        self.settings.arrival == Arrival::Order
    }

    pub fn is(&self, mutation: Mutation) -> bool {
        self.scenario.mutation == Some(mutation)
    }

    pub fn violated(&mut self, promise: Promise, user: Option<User>, what: String) {
        let time = self.time;
        self.note(user, || format!("VIOLATION: {promise}: {what}"));
        if self.violation.is_none() {
            self.violation = Some(Violation { promise, user, time, what });
        }
    }

    /// A line of the log, if there is to be one.
    pub fn note(&mut self, user: Option<User>, line: impl FnOnce() -> String) {
        if self.scenario.log == 0 {
            return;
        }
        if self.log.len() == self.scenario.log {
            self.log.pop_front();
        }
        let name = user.map_or(String::new(), |user| format!("{user}: "));
        let (second, micro) = (self.time / 1_000_000, self.time % 1_000_000);
        self.log.push_back((user, format!("{second:3}.{micro:06} {name}{}", line())));
    }

    /// Starts a node that is dead, in a new life.
    pub fn restart(&mut self, node: NodeId) {
        self.gone.remove(&node);
        let settings = self.settings;
        let again = u32::from(!self.is(Mutation::SameIncarnation));
        let mut out = Vec::new();
        if node == NodeId::CONTROLLER {
            return self.restart_controller();
        } else if let Some(station) = self.stations.get_mut(&node) {
            if station.machine.is_some() {
                return;
            }
            station.life = (station.life + again).max(1);
            let life = Incarnation(station.life);
            let mut machine = Station::new(node, life, settings, &mut out);
            station.disk.users().for_each(|(user, kept)| machine.remember(user, kept));
            station.machine = Some(machine);
        } else if let Some(anchor) = self.anchors.get_mut(&node) {
            if anchor.machine.is_some() {
                return;
            }
            anchor.life = (anchor.life + again).max(1);
            let life = Incarnation(anchor.life);
            let mut machine = Anchor::new(node, life, settings, &mut out);
            for (user, route) in anchor.disk.routes() {
                machine.remember(user, route, &mut out);
            }
            anchor.machine = Some(machine);
        }
        self.note(None, || format!("{node} starts"));
        self.carry_out(node, None, out);
    }

    fn restart_controller(&mut self) {
        let controller = &mut self.controller;
        if controller.machine.is_some() {
            return;
        }
        controller.life += 1;
        let mut next_epoch = controller.next_epoch;
        if self.scenario.mutation == Some(Mutation::ForgetEpochs) {
            next_epoch = Epoch(1);
        }
        let records: Vec<_> = self.controller.records.iter().map(|(u, r)| (*u, *r)).collect();
        let mut out = Vec::new();
        let machine = Controller::new(self.settings, records, next_epoch, &mut out);
        self.controller.machine = Some(machine);
        self.note(None, || "the controller starts".to_owned());
        self.carry_out(NodeId::CONTROLLER, None, out);
        self.repeat_orders();
    }

    fn deliver_message(&mut self, to: NodeId, bytes: &[u8]) {
        let mut envelope = match Envelope::parse(bytes) {
            Ok((envelope, length)) if length == bytes.len() => envelope,
            other => {
                return self.violated(Promise::Transitions, None, format!("message: {other:?}"));
            }
        };
        if self.is(Mutation::IgnoreIncarnation) && envelope.to_incarnation.0 > 0 {
            let life = self.stations.get(&to).map(|node| node.life);
            let life = life.or(self.anchors.get(&to).map(|node| node.life));
            envelope.to_incarnation = Incarnation(life.unwrap_or_default());
        }
        if self.is(Mutation::TrustRecords) {
            self.trust_records(to, &mut envelope.message);
        }
        let about = match &envelope.message {
            weft_mobility_protocol::Message::Handover { user, .. } => Some(*user),
            _ => None,
        };
        let (from, said) = (envelope.from, envelope.message.clone());
        self.note(about, || format!("{from} -> {to}: {}", carry::word(&said)));
        self.input(to, about, |machine, out| match machine {
            Machine::Station(station) => station.message(envelope, out),
            Machine::Anchor(anchor) => anchor.message(envelope, out),
            Machine::Controller(controller) => controller.message(envelope, out),
        });
    }

    fn fire(&mut self, node: NodeId, key: TimerKey, generation: u64) {
        if self.timers.get(&(node, key)) != Some(&generation) {
            return;
        }
        self.timers.remove(&(node, key));
        self.note(key.user, || format!("{node}: timer {:?}", key.kind));
        self.input(node, key.user, |machine, out| match machine {
            Machine::Station(station) => station.timer(key, out),
            Machine::Anchor(anchor) => anchor.timer(key, out),
            Machine::Controller(controller) => controller.timer(key, out),
        });
    }

    /// Gives a machine an input, if its node lives, and carries out what it asks.
    pub fn input(
        &mut self,
        node: NodeId,
        about: Option<User>,
        input: impl FnOnce(Machine<'_>, &mut Vec<Output>),
    ) {
        let mut out = Vec::new();
        let machine = if node == NodeId::CONTROLLER {
            self.controller.machine.as_mut().map(Machine::Controller)
        } else if let Some(station) = self.stations.get_mut(&node) {
            station.machine.as_mut().map(Machine::Station)
        } else {
            let anchor = self.anchors.get_mut(&node);
            anchor.and_then(|anchor| anchor.machine.as_mut()).map(Machine::Anchor)
        };
        if let Some(machine) = machine {
            input(machine, &mut out);
            self.carry_out(node, about, out);
        }
    }
}

/// A party's machine.
pub(crate) enum Machine<'a> {
    Station(&'a mut Station),
    Anchor(&'a mut Anchor),
    Controller(&'a mut Controller),
}
