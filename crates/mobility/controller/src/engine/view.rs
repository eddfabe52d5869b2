//! What is shown, and what is changed, of nodes and users.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use weft_mobility_protocol::controller::{Intent, Record, Refusal, Stage};
use weft_mobility_protocol::output::Counter;
use weft_mobility_protocol::{Leg, NodeId, User};

use super::Engine;
use super::load::NodeLoad;
use crate::journal::{Entry, Gone};

/// A node as it is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeView {
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: NodeId,
    /// Where others connect to it.
    pub address: String,
    /// What it can carry, in packets a second; 0 where it has not said so.
    pub capacity: u64,
    /// What it carries; none where it has not said so of late.
    pub load: Option<NodeLoad>,
    /// Version of its program; empty where it has not said so.
    pub version: String,
    /// Whether it has registered, and is not in the controller's file.
    pub has_registered: bool,
    /// Whether its lease has ended.
    pub has_expired: bool,
    /// Whether it is connected with the controller.
    pub connected: bool,
    /// When something of it was last heard, since 1970 (UTC).
    pub last_heard: Option<Duration>,
    /// The number of its life, once it has said so: higher each time it starts.
    pub incarnation: Option<u32>,
    /// Who takes its users, as it does not come back.
    pub successor: Option<NodeId>,
    /// Whether it takes no further users.
    pub cordoned: bool,
    /// Users that it owns and that stay.
    pub users: usize,
    /// Users whose moves begin or end at it, or would.
    pub moving: usize,
}

/// A user as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserView {
    /// Its number.
    pub user: User,
    /// The node that stands before the stations.
    pub anchor: NodeId,
    /// Who owns it, or did when what is under way began.
    pub owner: Option<NodeId>,
    /// The number of its ownership, or of what is under way.
    pub epoch: u64,
    /// The number of the owner's ownership; 0 without an owner.
    pub owned: u64,
    /// Where it is to go.
    pub target: Option<NodeId>,
    /// Where the controller is with it; `Waiting` for its nodes.
    pub state: &'static str,
}

/// All counters, at 0: one that came with its first event would hide that event from rates.
pub(super) fn nothing_counted() -> BTreeMap<&'static str, u64> {
    Counter::ALL.map(|counter| (counter.name(), 0)).into()
}

/// Where a user is to go.
pub(super) fn target(record: &Record) -> Option<Leg> {
    match record.intent {
        Intent::Move { target, .. } => Some(target),
        Intent::Settled | Intent::Remove { .. } => None,
    }
}

fn view(user: User, record: &Record, stage: Stage) -> UserView {
    UserView {
        user,
        anchor: record.anchor,
        owner: record.owner.map(|leg| leg.node),
        epoch: record.epoch().0,
        owned: record.owner.map_or(0, |leg| leg.epoch.0),
        target: target(record).map(|leg| leg.node),
        state: stage.name(),
    }
}

impl Engine {
    /// All nodes, in the order of the configuration.
    pub fn nodes(&self) -> Vec<NodeView> {
        let mut counts: HashMap<NodeId, (usize, usize)> = HashMap::new();
        for (_, record, stage) in self.machine.users_from(User(0)) {
            let owner = record.owner.map(|leg| leg.node);
            if stage == Stage::Settled {
                counts.entry(owner.unwrap_or_default()).or_default().0 += 1;
                continue;
            }
            for node in owner.into_iter().chain(target(&record).map(|leg| leg.node)) {
                counts.entry(node).or_default().1 += 1;
            }
        }
        let now = self.clock.now();
        let node = |node: crate::members::Member| {
            let (users, moving) = counts.get(&node.number).copied().unwrap_or_default();
            NodeView {
                name: node.name,
                number: node.number,
                address: node.address,
                capacity: node.capacity,
                load: self.loads.of(node.number, now),
                version: node.version,
                has_registered: node.has_registered,
                has_expired: self.has_expired(node.number),
                connected: self.transport.is_connected(node.number),
                last_heard: self.transport.last_heard(node.number),
                incarnation: self.machine.incarnation(node.number).map(|number| number.0),
                successor: self.successor(node.number),
                cordoned: self.is_cordoned(node.number),
                users,
                moving,
            }
        };
        self.members.all().into_iter().map(node).collect()
    }

    pub(super) fn successor(&self, node: NodeId) -> Option<NodeId> {
        let (_, last, successor) = self.machine.gone().find(|(gone, ..)| *gone == node)?;
        let is_back = self.machine.incarnation(node).is_some_and(|known| known > last);
        (!is_back).then_some(successor)
    }

    /// Users from a number on, of one owner or of all: so many at most.
    pub fn users(&self, owner: Option<NodeId>, first: User, count: usize) -> Vec<UserView> {
        let view = |(user, record, stage): (User, Record, Stage)| view(user, &record, stage);
        let Some(owner) = owner else {
            return self.machine.users_from(first).map(view).take(count).collect();
        };
        let users = self.machine.users_at(owner, first).map(view);
        users.filter(|view| view.owner == Some(owner)).take(count).collect()
    }

    /// One user; also one that waits for its nodes.
    pub fn user(&self, user: User) -> Option<UserView> {
        if let Some((record, stage)) = self.machine.record(user).zip(self.machine.stage(user)) {
            return Some(view(user, &record, stage));
        }
        let (anchor, node) = self.seeds.place(user)?;
        let (target, state) = (Some(node), "Waiting");
        Some(UserView { user, anchor, owner: None, epoch: 0, owned: 0, target, state })
    }

    /// The most users that the controller takes, if it has as many: those that wait for
    /// their nodes count as well.
    pub fn full(&self) -> Option<usize> {
        let most = self.configuration.most_users;
        (self.machine.user_count() + self.waiting() >= most).then_some(most)
    }

    /// A user is to exist, behind an anchor, owned by a node.
    ///
    /// # Errors
    /// When there is such a user, or a node is not there.
    pub fn add(&mut self, user: User, anchor: NodeId, node: NodeId) -> Result<(), Refusal> {
        if self.user(user).is_some() {
            return Err(Refusal::KnownUser);
        }
        if [anchor, node].iter().any(|node| self.machine.incarnation(*node).is_none()) {
            return Err(Refusal::UnknownNode);
        }
        self.seeds.returned(user);
        self.drive(|machine, out| machine.add(user, anchor, node, out));
        Ok(())
    }

    /// A user is to be forgotten.
    ///
    /// # Errors
    /// When there is none.
    pub fn remove(&mut self, user: User) -> Result<(), Refusal> {
        if self.machine.record(user).is_some() {
            self.drive(|machine, out| machine.remove(user, out));
            return Ok(());
        }
        if !self.seeds.remove(user) {
            return Err(Refusal::UnknownUser);
        }
        // It was only in the configuration, and is not to begin after a restart.
        self.press(Entry::Record(user, None));
        Ok(())
    }

    /// A node does not come back: its users are its successor's.
    ///
    /// # Errors
    /// When the successor is not there.
    pub fn node_gone(&mut self, node: NodeId, successor: NodeId) -> Result<(), Refusal> {
        if self.machine.incarnation(successor).is_none() {
            return Err(Refusal::UnknownNode);
        }
        self.drive(|machine, out| machine.node_gone(node, successor, out));
        let named = self.machine.gone().find(|(gone, ..)| *gone == node);
        if let Some((node, incarnation, successor)) = named {
            self.press(Entry::Gone(node, Gone { incarnation, successor }));
        }
        self.orders.target_gone(node);
        Ok(())
    }

    /// What was counted, by name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let sent = self.transport.statistics();
        let transport = [
            ("messages_sent", sent.sent),
            ("messages_received", sent.received),
            ("messages_unconnected", sent.unconnected),
            ("messages_queue_full", sent.queue_full),
            ("messages_unread", sent.unread),
            ("connections_violated", sent.violations),
        ];
        let own = self.counters.iter().map(|(name, count)| (*name, *count));
        own.chain(transport).collect()
    }

    /// Users that wait for their nodes.
    pub fn waiting(&self) -> usize {
        self.seeds.len()
    }
}
