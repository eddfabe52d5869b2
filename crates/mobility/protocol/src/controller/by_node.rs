//! Users by the nodes that own them or are to: there may be many users and many nodes, so what
//! concerns one node must cost what that node has.

use std::collections::{BTreeMap, BTreeSet};

use super::{Controller, Managed, Stage};
use crate::identity::{NodeId, User};
use crate::record::{Intent, Record};

/// What one node has to do with users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OfNode {
    /// Users that it owns, or is to own.
    users: BTreeSet<User>,
    /// How many of these will be there once moves have ended.
    staying: usize,
    /// How many users have it as their anchor.
    anchored: usize,
}

/// Users by node, as their records say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ByNode(BTreeMap<NodeId, OfNode>);

impl ByNode {
    pub fn insert(&mut self, user: User, record: &Record) {
        self.0.entry(record.anchor).or_default().anchored += 1;
        let [owner, target] = nodes(record);
        for node in [owner, target].into_iter().flatten() {
            self.0.entry(node).or_default().users.insert(user);
        }
        if let Some(node) = target.or(owner) {
            self.0.entry(node).or_default().staying += 1;
        }
    }

    pub fn remove(&mut self, user: User, record: &Record) {
        let [owner, target] = nodes(record);
        self.change(record.anchor, |of| of.anchored = of.anchored.saturating_sub(1));
        if let Some(node) = target.or(owner) {
            self.change(node, |of| of.staying = of.staying.saturating_sub(1));
        }
        for node in [owner, target].into_iter().flatten() {
            self.change(node, |of| _ = of.users.remove(&user));
        }
    }

    /// Changes an entry, and removes one that says nothing.
    fn change(&mut self, node: NodeId, change: impl FnOnce(&mut OfNode)) {
        let Some(of) = self.0.get_mut(&node) else { return };
        change(of);
        if of.users.is_empty() && of.anchored == 0 {
            self.0.remove(&node);
        }
    }

    /// Users from one on that a node owns or is to own, in order.
    pub fn users(&self, node: NodeId, first: User) -> impl Iterator<Item = User> {
        self.0.get(&node).into_iter().flat_map(move |of| of.users.range(first..).copied())
    }

    pub fn staying(&self, node: NodeId) -> usize {
        self.0.get(&node).map_or(0, |of| of.staying)
    }

    pub fn anchored(&self, node: NodeId) -> usize {
        self.0.get(&node).map_or(0, |of| of.anchored)
    }
}

impl Controller {
    /// Users from one on that a node owns or is to own, in order: costs what that node has.
    pub fn users_at(
        &self,
        node: NodeId,
        first: User,
    ) -> impl Iterator<Item = (User, Record, Stage)> {
        self.by_node.users(node, first).filter_map(|user| {
            self.users.get(&user).map(|managed| (user, managed.record, managed.stage))
        })
    }

    /// How many users a node has once all moves have ended as they should.
    pub fn staying(&self, node: NodeId) -> usize {
        self.by_node.staying(node)
    }

    /// Whether a node is the anchor of a user.
    pub fn is_anchor(&self, node: NodeId) -> bool {
        self.by_node.anchored(node) > 0
    }

    pub(super) fn insert(&mut self, user: User, managed: Managed) {
        self.by_node.insert(user, &managed.record);
        self.users.insert(user, managed);
    }

    /// Changes a record, and nothing else does once it is there.
    pub(super) fn change_record(&mut self, user: User, change: impl FnOnce(&mut Record)) {
        let Some(managed) = self.users.get_mut(&user) else { return };
        self.by_node.remove(user, &managed.record);
        change(&mut managed.record);
        self.by_node.insert(user, &managed.record);
    }
}

/// The node that owns a user, and the one that is to.
fn nodes(record: &Record) -> [Option<NodeId>; 2] {
    let target = match record.intent {
        Intent::Move { target, .. } => Some(target.node),
        Intent::Settled | Intent::Remove { .. } => None,
    };
    [record.owner.map(|leg| leg.node), target]
}
