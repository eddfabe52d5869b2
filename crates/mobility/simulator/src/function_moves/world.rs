//! The two nodes, what happens to them, and when.

mod actions;
mod packets;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};

use weft_mobility_protocol::function_move::{
    Coordinator, Destination, MoveKey, Order, OrderOutcome, Outcome as Came, Output, Participant,
    Settings,
};
use weft_mobility_protocol::{Envelope, Epoch, Incarnation, NodeId};

use self::actions::Done;
use self::packets::{Far, Packet, Plane};
use super::{Mutation, Outcome, Scenario, Statistics};
use crate::check::{Promise, Violation};
use crate::random::Random;

/// The node whose rules name the function, and the node that serves it.
const NEAR: NodeId = NodeId(1);
const FAR: NodeId = NodeId(2);

/// The function.
const FUNCTION: &str = "count";

/// Virtual time after which a run that does not come to rest is a failure, in microseconds.
const PATIENCE: u64 = 600_000_000;

/// What happens.
pub(crate) enum Event {
    Message {
        to: NodeId,
        bytes: Vec<u8>,
    },
    Timer {
        key: MoveKey,
        life: u32,
        generation: u64,
    },
    /// What a node was asked for is done.
    Done {
        node: NodeId,
        life: u32,
        key: MoveKey,
        done: Done,
    },
    /// A user sends a packet.
    Traffic(u64),
    /// A packet comes to the node that serves.
    ToFar {
        packet: Packet,
        life: u32,
    },
    /// It comes back, or is missed.
    Back {
        packet: Packet,
        life: u32,
        is_lost: bool,
    },
    /// A command asks for a move, or again for the same.
    Ask {
        order: Order,
        life: u32,
        again: bool,
    },
    Fault,
    Restart(NodeId),
}

/// A run.
pub(super) struct World {
    pub scenario: Scenario,
    pub random: Random,
    pub time: u64,
    number: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: HashMap<u64, Event>,
    timers: HashMap<MoveKey, u64>,
    pub near_life: u32,
    pub far_life: u32,
    pub coordinator: Option<Coordinator>,
    pub participant: Option<Participant>,
    pub plane: Plane,
    pub far: Far,
    /// Packets that each user has sent, and the last that has arrived of each.
    pub sent: BTreeMap<u64, u64>,
    pub last: BTreeMap<u64, u64>,
    /// What the context in use has to hold of each user.
    pub truth: BTreeMap<u64, u64>,
    /// The same before the node that served died, where its contexts are being copied.
    pub before: Option<BTreeMap<u64, u64>>,
    is_running: bool,
    /// Orders that are still to be given.
    asks: u64,
    pub statistics: Statistics,
    violation: Option<Violation>,
    log: VecDeque<String>,
}

impl World {
    pub fn new(scenario: Scenario, seed: u64) -> World {
        let mut world = World {
            scenario,
            random: Random::new(seed),
            time: 0,
            number: 0,
            queue: BinaryHeap::new(),
            events: HashMap::new(),
            timers: HashMap::new(),
            near_life: 0,
            far_life: 0,
            coordinator: None,
            participant: None,
            plane: Plane::default(),
            far: Far::default(),
            sent: BTreeMap::new(),
            last: BTreeMap::new(),
            truth: BTreeMap::new(),
            before: None,
            is_running: true,
            asks: 0,
            statistics: Statistics::default(),
            violation: None,
            log: VecDeque::new(),
        };
        world.restart(NEAR);
        world.restart(FAR);
        for user in 1..=scenario.users {
            world.after(user * 100, Event::Traffic(user));
        }
        let mut time = 5_000;
        for _ in 0..scenario.orders {
            let order = world.any_order();
            world.after(time, Event::Ask { order, life: 0, again: false });
            time += world.random.between(1_000, 300_000);
        }
        if scenario.faults.deaths {
            world.after(10_000, Event::Fault);
        }
        world
    }

    fn any_order(&mut self) -> Order {
        let there = self.random.one_in_thousand(500);
        let destination = if there { Destination::Peer } else { Destination::Here };
        let anew = !there && self.random.one_in_thousand(100);
        let peer = (!anew).then(|| "far".to_owned());
        Order { destination, peer, kind: "counter".to_owned() }
    }

    pub fn live(mut self) -> Outcome {
        while self.violation.is_none() {
            let Some(Reverse((time, number))) = self.queue.pop() else {
                if !self.is_running {
                    self.at_rest();
                    break;
                }
                // No orders and no faults any more; one packet of each user shows that all ways
                // are open.
                self.is_running = false;
                self.restart(NEAR);
                self.restart(FAR);
                (1..=self.scenario.users).for_each(|user| self.after(1, Event::Traffic(user)));
                continue;
            };
            self.time = time;
            self.statistics.events += 1;
            if time > PATIENCE {
                self.violated(Promise::Settled, "no rest".to_owned());
                break;
            }
            if let Some(event) = self.events.remove(&number) {
                self.asks -= u64::from(matches!(event, Event::Ask { .. }));
                self.happen(event);
            }
        }
        self.statistics.time = self.time;
        let (statistics, violation) = (self.statistics, self.violation);
        Outcome { statistics, violation, log: self.log.into() }
    }

    /// Whether there are still orders, and so faults and traffic.
    fn is_busy(&self) -> bool {
        self.is_running && self.asks > 0
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Message { to, bytes } => self.deliver_message(to, &bytes),
            Event::Timer { key, life, generation } => self.fire(&key, life, generation),
            Event::Done { node, life, key, done } => self.done(node, life, &key, done),
            Event::Traffic(user) => {
                self.send_packet(user);
                if self.is_busy() {
                    // Where many wait, further ones show nothing new.
                    let most = if self.plane.held.len() < 50 { 4_000 } else { 4_000_000 };
                    let gap = self.random.between(100, most);
                    self.after(gap, Event::Traffic(user));
                }
            }
            Event::ToFar { packet, life } => self.at_far(packet, life),
            Event::Back { packet, life, is_lost } => self.back(packet, life, is_lost),
            Event::Ask { order, life, again } => self.ask(order, life, again),
            Event::Fault => {
                if self.is_busy() {
                    let node = if self.random.one_in_thousand(500) { NEAR } else { FAR };
                    self.kill(node);
                    let gap = self.random.between(20_000, 1_500_000);
                    self.after(gap, Event::Fault);
                }
            }
            Event::Restart(node) => self.restart(node),
        }
    }

    fn ask(&mut self, order: Order, life: u32, again: bool) {
        if again && life != self.near_life {
            return;
        }
        let Some(coordinator) = &mut self.coordinator else {
            return self.after(50_000, Event::Ask { order, life, again: false });
        };
        let mut out = Vec::new();
        if again && matches!(coordinator.outcome(FUNCTION), Some(Came::Failed(_)) | None) {
            // It heard why.
            return;
        }
        let answer = coordinator.order(FUNCTION, order.clone(), &mut out);
        self.note(|| format!("command: {order:?}, again {again}: {answer:?}"));
        self.carry_out(NEAR, out);
        match answer {
            OrderOutcome::Busy => return,
            OrderOutcome::Done => {
                self.statistics.joined += 1;
                if self.plane.place != order.destination {
                    self.violated(Promise::Settled, format!("it is said to be {order:?}"));
                }
                return;
            }
            OrderOutcome::Joined => self.statistics.joined += 1,
            OrderOutcome::Begun => {}
        }
        if self.scenario.faults.deaths && self.random.one_in_thousand(300) {
            // The command dies, and nothing else happens.
            self.statistics.command_deaths += 1;
            return;
        }
        let (life, gap) = (self.near_life, self.random.between(500, 20_000));
        self.after(gap, Event::Ask { order, life, again: true });
    }

    fn kill(&mut self, node: NodeId) {
        let pause = self.random.between(1_000, 300_000);
        match node {
            NEAR if self.coordinator.is_some() => {
                self.coordinator = None;
                self.lose_near();
            }
            FAR if self.participant.is_some() => {
                self.participant = None;
                self.lose_far();
            }
            _ => return,
        }
        self.statistics.deaths += 1;
        self.note(|| format!("{node} dies"));
        self.after(pause, Event::Restart(node));
    }

    fn restart(&mut self, node: NodeId) {
        let settings = Settings::default();
        if node == NEAR && self.coordinator.is_none() {
            self.near_life += 1;
            // Epochs rise with the clock, unless it was set back.
            let set_back = self.random.one_in_thousand(300);
            let first = Epoch(if set_back { 1 } else { self.time + 1 });
            let life = Incarnation(self.near_life);
            self.coordinator = Some(Coordinator::new(NEAR, life, first, settings));
        } else if node == FAR && self.participant.is_none() {
            self.far_life += 1;
            let life = Incarnation(self.far_life);
            self.participant = Some(Participant::new(FAR, life, settings));
        } else {
            return;
        }
        self.note(|| format!("{node} starts"));
    }

    /// A message goes on its way: it may be lost, doubled, late.
    pub fn send_message(&mut self, envelope: &Envelope, to: NodeId) {
        self.statistics.messages += 1;
        let faulty = self.scenario.faults.messages;
        if faulty && self.random.one_in_thousand(100) {
            self.statistics.messages_lost += 1;
            return;
        }
        let mut bytes = Vec::new();
        if envelope.emit(&mut bytes).is_err() {
            return self.violated(Promise::Transitions, format!("{envelope:?} has no form"));
        }
        let copies = if faulty && self.random.one_in_thousand(80) { 2 } else { 1 };
        self.statistics.messages_doubled += copies - 1;
        for _ in 0..copies {
            let delay = self.random.between(100, 500);
            let times = match faulty && self.random.one_in_thousand(50) {
                // Some come after all else is over.
                true => self.random.between(2, 10_000),
                false => 1,
            };
            self.after(delay * times, Event::Message { to, bytes: bytes.clone() });
        }
    }

    fn deliver_message(&mut self, to: NodeId, bytes: &[u8]) {
        let envelope = match Envelope::parse(bytes) {
            Ok((envelope, length)) if length == bytes.len() => envelope,
            other => return self.violated(Promise::Transitions, format!("message: {other:?}")),
        };
        self.note(|| format!("to {to}: {:?}", envelope.message));
        let mut out = Vec::new();
        match (to, &mut self.coordinator, &mut self.participant) {
            (NEAR, Some(coordinator), _) => coordinator.message(envelope, &mut out),
            (FAR, _, Some(participant)) => participant.message(envelope, &mut out),
            _ => {}
        }
        self.carry_out(to, out);
    }

    pub fn set_timer(&mut self, key: MoveKey, after: u64) {
        let generation = self.unique();
        self.timers.insert(key.clone(), generation);
        let life = if key.coordinator.is_none() { self.near_life } else { self.far_life };
        self.after(after, Event::Timer { key, life, generation });
    }

    pub fn cancel_timer(&mut self, key: &MoveKey) {
        self.timers.remove(key);
    }

    fn fire(&mut self, key: &MoveKey, life: u32, generation: u64) {
        let node = if key.coordinator.is_none() { NEAR } else { FAR };
        if self.timers.get(key) != Some(&generation) || life != self.life(node) {
            return;
        }
        self.timers.remove(key);
        self.note(|| format!("{node}: timer of {}", key.epoch));
        let mut out = Vec::new();
        match (node, &mut self.coordinator, &mut self.participant) {
            (NEAR, Some(coordinator), _) => coordinator.timer(key, &mut out),
            (FAR, _, Some(participant)) => participant.timer(key, &mut out),
            _ => {}
        }
        self.carry_out(node, out);
    }

    pub fn life(&self, node: NodeId) -> u32 {
        if node == NEAR { self.near_life } else { self.far_life }
    }

    pub fn after(&mut self, delay: u64, event: Event) {
        let number = self.unique();
        self.asks += u64::from(matches!(event, Event::Ask { .. }));
        self.queue.push(Reverse((self.time + delay, number)));
        self.events.insert(number, event);
    }

    fn unique(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    pub fn is(&self, mutation: Mutation) -> bool {
        self.scenario.mutation == Some(mutation)
    }

    pub fn violated(&mut self, promise: Promise, what: String) {
        self.note(|| format!("VIOLATION: {promise}: {what}"));
        let time = self.time;
        self.violation.get_or_insert(Violation { promise, user: None, time, what });
    }

    /// A line of the log, if there is to be one.
    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if self.scenario.log == 0 {
            return;
        }
        if self.log.len() == self.scenario.log {
            self.log.pop_front();
        }
        let (second, micro) = (self.time / 1_000_000, self.time % 1_000_000);
        self.log.push_back(format!("{second:3}.{micro:06} {}", line()));
    }

    /// All is over: nothing is left anywhere, and each packet has arrived or died with a node.
    fn at_rest(&mut self) {
        let moving = self.coordinator.iter().flat_map(Coordinator::moving).count();
        let sessions = self.participant.iter().flat_map(Participant::moving).count();
        if moving + sessions > 0 || self.plane.gate.is_some() {
            let what = format!("{moving} moves, {sessions} sessions, {:?}", self.plane.gate);
            self.violated(Promise::Settled, what);
        }
        if !self.plane.held.is_empty() || !self.plane.away.is_empty() {
            let what = format!("{:?} and {:?}", self.plane.held, self.plane.away);
            self.violated(Promise::NothingHeld, what);
        }
        let Statistics { packets, delivered, lost, .. } = self.statistics;
        if packets != delivered + lost {
            let what = format!("of {packets} packets {delivered} arrived, {lost} died");
            self.violated(Promise::NothingLost, what);
        }
    }

    pub fn ended(&mut self, key: &MoveKey) {
        let Some(coordinator) = &self.coordinator else { return };
        match coordinator.outcome(&key.function) {
            Some(Came::Moved { .. }) => self.statistics.moves += 1,
            Some(Came::Failed(reason)) => {
                self.statistics.failed += 1;
                self.note(|| format!("it stays: {reason}"));
            }
            other => self.violated(Promise::Settled, format!("a move has ended as {other:?}")),
        }
        if self.plane.gate.is_some() {
            self.violated(Promise::NothingHeld, "a move has ended with its gate".to_owned());
        }
    }

    pub fn carry_out(&mut self, node: NodeId, out: Vec<Output>) {
        for output in out {
            self.carry_out_one(node, output);
        }
    }
}
