//! Nodes: the machines of an anchor and of stations, without packets. Contexts of a user are a
//! number that grows with each import.

use std::collections::{BTreeMap, BTreeSet};

use weft_mobility_protocol::{
    Anchor, Contexts, EndMarker, Envelope, Epoch, Incarnation, Message, NodeId, Output, Station,
    TimerKey, User,
};
use weft_mobility_transport::Event as Arrived;

use super::{Event, Party, World};

/// The number of the anchor.
pub(super) const ANCHOR: NodeId = NodeId(1);

/// The two nodes, by the names `n101` and `n102`.
pub(super) const PAIR: [NodeId; 2] = [NodeId(101), NodeId(102)];
/// Whether a node is one of the two.
pub(super) fn is_of_pair(node: NodeId) -> bool {
    PAIR.contains(&node)
}

pub(super) enum Machine {
    Station(Station),
    Anchor(Anchor),
    Pair(PairNode),
}

/// One node of the pair.
#[derive(Debug, Default)]
pub(super) struct PairNode {
    pub epoch: Epoch,
    /// Up to when it may carry packets, by its clock; 0 for not at all.
    pub until: u64,
    /// It has met the other one, and so has all records.
    pub has_all: bool,
}

/// How a node runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    /// Generation of the settings that it says it runs by, and by which it does.
    pub says: u64,
    pub runs: u64,
    pub refused: u64,
    /// It drops packets because of them.
    pub harm: bool,
    /// Nanoseconds since it started.
    pub uptime: u64,
    pub received: u64,
    pub dropped: u64,
}

/// A node.
pub(super) struct Node {
    pub number: NodeId,
    pub life: u32,
    /// None while it is dead.
    pub machine: Option<Machine>,
    timers: BTreeMap<TimerKey, u64>,
    contexts: BTreeMap<User, u64>,
    /// By which epoch it treats packets of a user.
    pub epochs: BTreeMap<User, u64>,
    /// Replica and number of its connection.
    pub link: Option<(usize, u64)>,
    /// The highest term that it has met.
    pub term: u64,
    pub dials: usize,
    /// The number of its process.
    pub process: u64,
    /// Requests by which it went over to another one.
    pub upgrades: Vec<u64>,
    /// How it runs, and what it carries.
    pub settings: Settings,
}

impl Node {
    pub fn new(number: NodeId) -> Node {
        Node {
            number,
            life: 0,
            machine: None,
            timers: BTreeMap::new(),
            contexts: BTreeMap::new(),
            epochs: BTreeMap::new(),
            link: None,
            term: 0,
            dials: number.0 as usize,
            process: 1,
            upgrades: Vec::new(),
            settings: Settings::default(),
        }
    }

    /// Whether it takes users.
    pub fn is_station(&self) -> bool {
        self.number != ANCHOR && !is_of_pair(self.number)
    }

    pub fn owns(&self, user: User) -> bool {
        matches!(&self.machine, Some(Machine::Station(station)) if station.owns(user))
    }
}

impl World {
    /// A node that is dead starts.
    pub(super) fn restart(&mut self, number: NodeId) {
        let Some(node) = self.nodes.get_mut(&number).filter(|node| node.machine.is_none()) else {
            return;
        };
        let mut out = Vec::new();
        node.life += 1;
        let (incarnation, settings) = (Incarnation(node.life), Default::default());
        let life = node.life;
        node.machine = Some(match number == ANCHOR {
            true => Machine::Anchor(Anchor::new(number, incarnation, settings, &mut out)),
            false if is_of_pair(number) => Machine::Pair(PairNode::default()),
            false => Machine::Station(Station::new(number, incarnation, settings, &mut out)),
        });
        self.note(|| format!("{number} starts"));
        self.after(0, Event::Dial(number));
        if is_of_pair(number) {
            self.after(0, Event::Claim(number, life));
        }
        self.carry_out_of(number, out);
    }

    /// A node dies.
    pub(super) fn kill_node(&mut self, number: NodeId) {
        let Some(node) = self.nodes.get_mut(&number) else { return };
        let (life, term, process) = (node.life, node.term, node.process + 1);
        let upgrades = std::mem::take(&mut node.upgrades);
        let link = node.link.take();
        let users: Vec<_> = node.epochs.keys().copied().collect();
        // The highest term lies in the node's folder.
        *node = Node { life, term, process, upgrades, ..Node::new(number) };
        if number == ANCHOR {
            self.postures.clear();
        }
        self.statistics.deaths[1] += 1;
        self.note(|| format!("{number} dies"));
        if let Some((replica, link)) = link {
            self.after(1000, Event::ControllerLost { replica, node: number, link });
        }
        let all: Vec<_> =
            if number == ANCHOR { self.history.users().map(User).collect() } else { users };
        all.into_iter().for_each(|user| self.look_at_owner(user));
    }

    /// A message has come to a node.
    pub(super) fn message(&mut self, to: NodeId, envelope: Envelope) {
        if let Message::Standby(step) = &envelope.message {
            return self.answered_pair(to, step);
        }
        self.drive(to, |machine, out| match machine {
            Machine::Station(station) => station.message(envelope, out),
            Machine::Anchor(anchor) => anchor.message(envelope, out),
            Machine::Pair(_) => {}
        });
    }

    pub(super) fn marker(&mut self, to: NodeId, user: User, marker: EndMarker) {
        self.drive(to, |machine, out| match machine {
            Machine::Station(station) => station.end_marker(user, marker, out),
            Machine::Anchor(anchor) => anchor.end_marker(user, marker, out),
            Machine::Pair(_) => {}
        });
    }

    pub(super) fn timer(&mut self, number: NodeId, key: TimerKey, generation: u64) {
        let Some(node) = self.nodes.get_mut(&number) else { return };
        if node.timers.get(&key) != Some(&generation) {
            return;
        }
        node.timers.remove(&key);
        self.drive(number, |machine, out| match machine {
            Machine::Station(station) => station.timer(key, out),
            Machine::Anchor(anchor) => anchor.timer(key, out),
            Machine::Pair(_) => {}
        });
    }

    fn drive(&mut self, number: NodeId, input: impl FnOnce(&mut Machine, &mut Vec<Output>)) {
        let mut out = Vec::new();
        let machine = self.nodes.get_mut(&number).and_then(|node| node.machine.as_mut());
        let Some(machine) = machine else { return };
        input(machine, &mut out);
        self.carry_out_of(number, out);
    }

    fn station(&mut self, number: NodeId, input: impl FnOnce(&mut Station, &mut Vec<Output>)) {
        self.drive(number, |machine, out| {
            if let Machine::Station(station) = machine {
                input(station, out);
            }
        });
    }

    fn carry_out_of(&mut self, number: NodeId, out: Vec<Output>) {
        let mut touched = BTreeSet::new();
        for output in out {
            match output {
                Output::Send(envelope) if envelope.to == NodeId::CONTROLLER => {
                    self.send_up(number, Arrived::Message(envelope));
                }
                Output::Send(envelope) => {
                    let to = envelope.to;
                    if self.reach(Party::Node(number), Party::Node(to)) {
                        let at = self.in_order(Party::Node(number), Party::Node(to));
                        self.at(at, Event::Between { to, envelope });
                    }
                }
                Output::SendEndMarker { user, to, marker } => {
                    if self.reach(Party::Node(number), Party::Node(to)) {
                        let at = self.in_order(Party::Node(number), Party::Node(to));
                        self.at(at, Event::Marker { to, user, marker });
                    }
                }
                Output::SetTimer(key, after) => {
                    self.number += 1;
                    let generation = self.number;
                    if let Some(node) = self.nodes.get_mut(&number) {
                        node.timers.insert(key, generation);
                    }
                    let after = after.as_micros() as u64;
                    self.after(after, Event::Timer { node: number, key, generation });
                }
                Output::CancelTimer(key) => {
                    if let Some(node) = self.nodes.get_mut(&number) {
                        node.timers.remove(&key);
                    }
                }
                Output::Steer(user, posture) => {
                    touched.insert(user);
                    if let Some(node) = self.nodes.get_mut(&number) {
                        node.epochs.insert(user, posture.epoch.0);
                    }
                }
                Output::SteerAnchor(user, posture) => {
                    touched.insert(user);
                    self.postures.insert(user, posture);
                }
                Output::Discard(user) => {
                    touched.insert(user);
                    self.discard(number, user);
                }
                Output::Changed(user, change) => {
                    touched.insert(user);
                    let (from, to, event) = (change.from, change.to, change.event);
                    self.note(|| format!("{user} at {number}: {from} to {to} by {event}"));
                    // The radio goes as soon as the target has the user.
                    if to == "Forwarding" {
                        self.station(number, |station, out| station.radio_left(user, out));
                    }
                }
                output => self.contexts(number, output),
            }
        }
        touched.into_iter().for_each(|user| self.look_at_owner(user));
    }

    fn discard(&mut self, number: NodeId, user: User) {
        if number == ANCHOR {
            self.postures.remove(&user);
        }
        if let Some(node) = self.nodes.get_mut(&number) {
            node.contexts.remove(&user);
            node.epochs.remove(&user);
        }
    }

    fn contexts(&mut self, number: NodeId, output: Output) {
        let Some(node) = self.nodes.get_mut(&number) else { return };
        match output {
            Output::Export { user, epoch } => {
                let moves = node.contexts.get(&user).copied().unwrap_or(0);
                let octets = moves.to_be_bytes().to_vec();
                self.station(number, |station, out| station.exported(user, epoch, octets, out));
            }
            Output::Import { user, epoch, contexts } => {
                let moves = match contexts {
                    Contexts::Exported(octets) => octets.try_into().map(u64::from_be_bytes).ok(),
                    Contexts::Kept | Contexts::New => Some(0),
                };
                if let Some(moves) = moves {
                    node.contexts.insert(user, moves + 1);
                }
                self.station(number, |station, out| {
                    station.imported(user, epoch, moves.is_some(), out);
                    // The radio is there at once.
                    station.radio_arrived(user, out);
                });
            }
            // Nothing is in the air.
            Output::Drain { user, epoch } => {
                self.station(number, |station, out| station.drained(user, epoch, out));
            }
            _ => {}
        }
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} in life {}", self.number, self.life)
    }
}
