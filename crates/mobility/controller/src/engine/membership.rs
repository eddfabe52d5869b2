//! Nodes that register, and nodes of which nothing is heard.
//!
//! A node's lease begins when its connection ends, and with the controller. A node that is not
//! back before it ends is given up: where the configuration says so, other stations adopt its
//! users. An adoption raises the epochs of users at their anchor first, which shuts the node out:
//! what it still sends for them is dropped there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use weft_mobility_protocol::{NodeId, User};
use weft_mobility_transport::Registered;

use super::Engine;
use super::events::Happening;
use crate::journal;
use crate::members::Members;

/// After how long it is tried again to let users be adopted.
const AGAIN: Duration = Duration::from_secs(1);

/// Leases of nodes that are not connected.
#[derive(Debug)]
pub struct Leases {
    /// How long one lasts; none where nodes are waited for for ever.
    lasts: Option<Duration>,
    /// When those that run end.
    ends: BTreeMap<NodeId, Instant>,
    /// Nodes whose leases have ended.
    ended: BTreeSet<NodeId>,
}

impl Leases {
    /// All nodes are to connect in time.
    pub fn new(lasts: Option<Duration>, members: &Members, now: Instant) -> Leases {
        let ends = lasts.map(|lasts| now + lasts);
        let all = members.all().into_iter();
        let ends = all.filter_map(|member| Some((member.number, ends?))).collect();
        Leases { lasts, ends, ended: BTreeSet::new() }
    }

    /// A node is connected, or is no longer.
    pub fn connected(&mut self, node: NodeId, is: bool, now: Instant) {
        self.ends.remove(&node);
        if is {
            self.ended.remove(&node);
        } else if let Some(lasts) = self.lasts {
            self.ends.insert(node, now + lasts);
        }
    }

    /// When the next one ends.
    pub fn next(&self) -> Option<Instant> {
        self.ends.values().min().copied()
    }

    /// One that has ended.
    fn due(&mut self, now: Instant) -> Option<NodeId> {
        let (node, _) = self.ends.iter().find(|(_, at)| **at <= now)?;
        let node = *node;
        self.ends.remove(&node);
        Some(node)
    }

    fn forget(&mut self, node: NodeId) {
        self.ends.remove(&node);
        self.ended.remove(&node);
    }
}

/// Why a node cannot be removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRemoved {
    /// It is in the controller's file.
    #[error("it is in the controller's file: take it out there")]
    Configured,
    /// It would register again at once.
    #[error("it is connected, and would register again: stop it first")]
    Connected,
    /// It has users, or stands before some.
    #[error(
        "it has users, or is the anchor of some: drain it, or say who takes them (`weft ctl gone`)"
    )]
    Users,
    /// Another node has its PFCP sessions.
    #[error("its share of N4 is at {0}, with all sessions: drain {0}, or delete that node")]
    Share(String),
    /// Its PFCP sessions, or another node's, are on their way.
    #[error("a share of N4 moves from or to it; try again")]
    Moves,
}

impl Engine {
    /// A node says of itself where and what it is. It is told of and welcome once that is
    /// durable.
    pub(super) fn registered(&mut self, said: Registered) {
        let (node, name) = (said.node, said.name.clone());
        match self.members.register(said) {
            Ok(Some(member)) => {
                tracing::info!(node = node.0, name, address = member.address, "a node registers");
                if member.has_registered {
                    self.changes.push(journal::member(&member));
                    self.joining.push(member.place());
                }
                self.tell_event(Happening::registered(name));
            }
            Ok(None) => {}
            // It is refused again and again, so the log says it at most once for each name.
            Err(unfit) => {
                if self.unfit.len() < UNFIT && self.unfit.insert(name.clone()) {
                    tracing::warn!(node = node.0, name, "a node cannot register: {unfit}");
                }
            }
        }
    }

    /// Registrations are durable: these nodes are welcome, and others are told of them.
    pub(super) fn join(&mut self) {
        for place in std::mem::take(&mut self.joining) {
            self.transport.place(place);
        }
    }

    /// Leases that have ended.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some(node) = self.leases.due(now) {
            if self.leases.ended.insert(node) {
                let name = self.name(node);
                tracing::warn!(node = node.0, name, "the lease of a node has ended");
                self.tell_event(Happening::expired(name));
            }
            if self.adopts && !self.adopt(node) {
                self.leases.ends.insert(node, now + AGAIN);
            }
        }
    }

    /// Whether nothing was heard of a node for as long as its lease.
    pub fn has_expired(&self, node: NodeId) -> bool {
        self.leases.ended.contains(&node)
    }

    /// Lets another station have the users of a node; false if that has to be tried again.
    fn adopt(&mut self, node: NodeId) -> bool {
        if self.successor(node).is_some() || !self.has_users(node) {
            return true;
        }
        let mut stations = self.stations();
        stations.remove(&node);
        let Some(successor) = self.emptiest(&stations) else { return false };
        let (name, successor_name) = (self.name(node), self.name(successor));
        tracing::warn!(name, successor = successor_name, "users of a node are adopted");
        self.node_gone(node, successor).is_ok()
    }

    /// Whether a node owns users, or is to. One that others rely on as their anchor does not.
    fn has_users(&self, node: NodeId) -> bool {
        self.machine.users_at(node, User(0)).next().is_some()
    }

    /// A node that had registered is one no longer. Its PFCP sessions are lost.
    ///
    /// # Errors
    /// [`NotRemoved`].
    pub fn remove_node(&mut self, node: NodeId) -> Result<(), NotRemoved> {
        let Some(member) = self.members.get(node).filter(|member| member.has_registered) else {
            return Err(NotRemoved::Configured);
        };
        if self.transport.is_connected(node) {
            return Err(NotRemoved::Connected);
        }
        if self.machine.is_anchor(node) || self.has_users(node) {
            return Err(NotRemoved::Users);
        }
        if let Some(holder) = self.shares.elsewhere(&member.name) {
            return Err(NotRemoved::Share(holder.to_owned()));
        }
        if self.shares.moves_at(&member.name) {
            return Err(NotRemoved::Moves);
        }
        self.lose_share(&member.name);
        self.forget_behind(&member.name);
        self.changes.push(journal::no_member(member.number));
        self.members.forget(node);
        self.transport.displace(node);
        self.leases.forget(node);
        self.desired.forget(&member.name);
        Ok(())
    }
}

/// Names of refused nodes that are remembered.
pub(super) const UNFIT: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Configuration;

    #[test]
    fn a_lease_ends_unless_its_node_comes_back() {
        let text = "apiVersion: weft/v1\nkind: Controller\nmetadata: {name: test}\n\
                    listen: 127.0.0.1:0\ntokenFile: token\nrecords: records\n\
                    nodes:\n  a: {number: 1, address: 'x:1'}\n  b: {number: 2, address: 'x:1'}\n";
        let members = Members::new(&Configuration::read(text, "file").unwrap());
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut leases = Leases::new(Some(5 * second), &members, start);
        leases.connected(NodeId(1), true, start);
        assert_eq!(leases.next(), Some(start + 5 * second));
        assert_eq!(leases.due(start + 4 * second), None);
        assert_eq!(leases.due(start + 5 * second), Some(NodeId(2)));
        assert_eq!(leases.next(), None);
        leases.connected(NodeId(1), false, start + 6 * second);
        assert_eq!(leases.next(), Some(start + 11 * second));
        leases.connected(NodeId(1), true, start + 7 * second);
        assert_eq!(leases.due(start + 20 * second), None);
        // Without leases nodes are waited for.
        let mut none = Leases::new(None, &members, start);
        none.connected(NodeId(1), false, start);
        assert_eq!(none.next(), None);
    }
}
