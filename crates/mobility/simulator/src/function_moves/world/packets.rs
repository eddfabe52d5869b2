//! Packets, the contexts that count them, and the gate at which they wait.

use std::collections::{BTreeMap, VecDeque};

use weft_mobility_protocol::NodeId;
use weft_mobility_protocol::function_move::{Destination, MoveKey};

use super::{Event, FAR, NEAR, World};
use crate::check::Promise;
use crate::function_moves::Mutation;

/// Virtual time from node to node, and until a packet is missed, in microseconds.
const LINK: u64 = 300;
const MISSED: u64 = 2_000;

/// A packet: the user's, with its number, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub user: u64,
    pub number: u64,
}

/// Packets of each user that a function has counted.
pub(crate) type Contexts = BTreeMap<u64, u64>;

/// Where packets wait.
#[derive(Debug)]
pub(crate) struct Gate {
    pub key: MoveKey,
    pub destination: Destination,
    /// None is at the function any more.
    pub is_lifted: bool,
    /// What has come of the contexts.
    pub incoming: Contexts,
    /// The life of the other node in which it took all contexts.
    pub taken_in: u32,
}

/// The node that steers the packets.
#[derive(Debug)]
pub(crate) struct Plane {
    /// Where the function is.
    pub place: Destination,
    pub contexts: Contexts,
    pub gate: Option<Gate>,
    pub held: VecDeque<Packet>,
    pub away: VecDeque<Packet>,
}

impl Default for Plane {
    fn default() -> Plane {
        Plane {
            place: Destination::Here,
            contexts: Contexts::new(),
            gate: None,
            held: VecDeque::new(),
            away: VecDeque::new(),
        }
    }
}

/// The node that serves.
#[derive(Debug, Default)]
pub(crate) struct Far {
    pub contexts: Contexts,
}

impl World {
    pub fn send_packet(&mut self, user: u64) {
        let next = self.sent.entry(user).or_default();
        let packet = Packet { user, number: *next };
        *next += 1;
        self.statistics.packets += 1;
        if self.coordinator.is_none() {
            self.statistics.lost += 1;
        } else if self.plane.gate.is_some() && !self.is(Mutation::NoGate) {
            self.statistics.held += 1;
            self.plane.held.push_back(packet);
        } else {
            self.route(packet);
        }
    }

    fn route(&mut self, packet: Packet) {
        match self.plane.place {
            Destination::Here => {
                self.process(NEAR, packet);
                self.deliver(packet);
            }
            Destination::Peer => {
                self.plane.away.push_back(packet);
                let life = self.near_life;
                self.after(LINK, Event::ToFar { packet, life });
            }
        }
    }

    pub fn at_far(&mut self, packet: Packet, life: u32) {
        let is_lost = self.participant.is_none();
        if !is_lost && life == self.near_life && self.coordinator.is_some() {
            self.process(FAR, packet);
        }
        let delay = if is_lost { MISSED } else { LINK };
        self.after(delay, Event::Back { packet, life, is_lost });
    }

    pub fn back(&mut self, packet: Packet, life: u32, is_lost: bool) {
        // What was under way when the node died was counted then.
        if life != self.near_life || self.coordinator.is_none() {
            return;
        }
        self.plane.away.retain(|one| *one != packet);
        match is_lost {
            true => self.statistics.lost += 1,
            false => self.deliver(packet),
        }
        self.look_at_gate();
    }

    /// A packet meets the context that is in use.
    fn process(&mut self, node: NodeId, Packet { user, number }: Packet) {
        let owner = if self.plane.place == Destination::Here { NEAR } else { FAR };
        if node != owner {
            self.violated(Promise::OneOwner, format!("{node} processes, not {owner}"));
        }
        let contexts = if node == NEAR { &mut self.plane.contexts } else { &mut self.far.contexts };
        let count = contexts.entry(user).or_default();
        let truth = self.truth.entry(user).or_default();
        if count != truth {
            let what = format!("user {user}, packet {number}: {count} at {node}, not {truth}");
            return self.violated(Promise::Contexts, what);
        }
        *count += 1;
        *truth += 1;
    }

    fn deliver(&mut self, Packet { user, number }: Packet) {
        self.statistics.delivered += 1;
        let last = self.last.insert(user, number);
        match last {
            Some(last) if last == number => {
                self.violated(Promise::NothingDoubled, format!("user {user}, packet {number}"));
            }
            Some(last) if last > number => {
                self.violated(Promise::Order, format!("user {user}: {number} behind {last}"));
            }
            _ => {}
        }
    }

    /// Packets go on, at `place`.
    pub fn open_gate(&mut self, place: Destination) {
        self.plane.place = place;
        self.plane.gate = None;
        self.before = None;
        let held = std::mem::take(&mut self.plane.held);
        if !self.is(Mutation::LoseHeld) {
            held.into_iter().for_each(|packet| self.route(packet));
        }
    }

    /// The node that steers has died: what was there is gone, the function is here again, as the
    /// configuration says.
    pub fn lose_near(&mut self) {
        self.statistics.lost += (self.plane.held.len() + self.plane.away.len()) as u64;
        self.plane = Plane::default();
        self.truth.clear();
        self.before = None;
    }

    /// The node that serves has died, with the contexts that were there.
    pub fn lose_far(&mut self) {
        self.far.contexts.clear();
        if self.plane.place == Destination::Peer {
            // What was copied in time goes on.
            let was = std::mem::take(&mut self.truth);
            if self.plane.gate.is_some() {
                self.before.get_or_insert(was);
            }
        }
    }
}
