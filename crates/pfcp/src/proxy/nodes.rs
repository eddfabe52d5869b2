//! Nodes: whether they answer, what they have, and what becomes of their sessions.
//!
//! A node whose Recovery Time Stamp changes has lost its sessions, and one that is not heard for
//! the lease is given up. Control planes are told by a Session Set Deletion Request with the
//! node's number (TS 23.007 §23), and it gets no session before all have answered, or have not in
//! time: so no new session has the number of one that is to be deleted. A node that was given up
//! and comes back with its sessions has to let them go first: no control plane knows them any more.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::{Ask, NodePlan, Proxy, ToNode, ToPeer};
use crate::associations::NodeKey;
use crate::codec::element::{FqCsid, NodeAddress, UpFeatures};
use crate::codec::message::{
    AssociationReleaseRequest, Heartbeat, MessageType, SessionSetDeletionRequest,
};
use crate::codec::vendor::NodeState;
use crate::codec::{Cause, Message};

/// After how long a node that has refused an association is asked again, ns.
const AGAIN: u64 = 5_000_000_000;
/// Octets of applications that a request has, about: more go in a further one.
const APPLICATIONS: usize = 8192;

/// What is kept of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NodeRecord {
    /// Its Recovery Time Stamp.
    pub recovery: u32,
    /// Whether control planes are to believe that its sessions are gone.
    pub is_given_up: bool,
}

/// A node behind the proxy.
#[derive(Debug)]
pub(super) struct Node {
    pub plan: NodePlan,
    /// None until it was heard first.
    pub record: Option<NodeRecord>,
    /// The time stamp that it has said last.
    pub recovery: u32,
    /// Whether it answers.
    pub is_up: bool,
    /// When it was heard, or the proxy began.
    pub heard: u64,
    pub heartbeat: u64,
    pub state: NodeState,
    /// Control planes that it is associated with, and what it supports for them.
    pub associated: BTreeMap<NodeKey, UpFeatures>,
    /// Control planes of which it is asked.
    pub asking: BTreeSet<NodeKey>,
    /// Control planes that it has refused: with which cause, and when it is asked again.
    pub refused: BTreeMap<NodeKey, (Cause, u64)>,
    /// Control planes whose sessions it has to let go.
    pub releasing: Option<BTreeSet<NodeKey>>,
    /// The version of the applications that it has.
    pub applications: u64,
    /// It stops, and takes no sessions.
    pub is_leaving: bool,
    /// Control planes are being told that its sessions are gone.
    pub is_lost: bool,
}

impl Node {
    fn new(now: u64, plan: NodePlan, record: Option<NodeRecord>) -> Node {
        Node {
            plan,
            record,
            recovery: 0,
            is_up: false,
            heard: now,
            heartbeat: now,
            state: NodeState::default(),
            associated: BTreeMap::new(),
            asking: BTreeSet::new(),
            refused: BTreeMap::new(),
            releasing: None,
            applications: 0,
            is_leaving: false,
            is_lost: false,
        }
    }

    pub fn is_given_up(&self) -> bool {
        self.record.is_some_and(|record| record.is_given_up)
    }

    /// Whether it may be associated.
    pub fn is_ready(&self) -> bool {
        self.is_up && !self.is_lost && !self.is_given_up()
    }

    /// What it is, in a word.
    pub fn state_name(&self) -> &'static str {
        match () {
            () if self.is_given_up() => "given-up",
            () if self.is_lost => "restarted",
            () if !self.is_up => "silent",
            () if self.plan.is_cordoned => "cordoned",
            () if self.is_leaving => "leaving",
            () => "up",
        }
    }
}

impl Proxy {
    pub(super) fn restore_node(&mut self, number: u16, record: NodeRecord) {
        self.remembered.insert(number, record);
    }

    pub(super) fn add_node(&mut self, now: u64, plan: NodePlan) {
        let record = self.remembered.remove(&plan.number);
        tracing::info!(node = %plan.name, address = %plan.address, "N4: a node");
        let number = plan.number;
        self.nodes.insert(number, Node::new(now, plan, record));
        // One that was given up when the proxy ended: who has not been told is told now.
        if record.is_some_and(|record| record.is_given_up) {
            self.tell_loss(now, number);
        }
    }

    /// A node is none of the site any more.
    pub(super) fn forget_node(&mut self, now: u64, number: u16) {
        let Some(node) = self.nodes.remove(&number) else { return };
        tracing::info!(node = %node.plan.name, "N4: a node is no more");
        self.by_address.retain(|_, known| *known != number);
        if let Some(record) = node.record {
            self.remember_gone(now, number, record);
        }
    }

    /// Nodes that were there in the proxy's last life, and are not any more.
    pub(super) fn forget_remembered(&mut self, now: u64) {
        let remembered = self.remembered.iter().map(|(number, record)| (*number, *record));
        let gone: Vec<_> = remembered.filter(|(_, record)| !record.is_given_up).collect();
        gone.into_iter().for_each(|(number, record)| self.remember_gone(now, number, record));
    }

    /// The sessions of a node are gone, and it may be back: one that has them still has to let
    /// them go first.
    fn remember_gone(&mut self, now: u64, number: u16, record: NodeRecord) {
        self.remembered.insert(number, NodeRecord { is_given_up: true, ..record });
        self.keep_node(number);
        if !record.is_given_up {
            self.tell_loss(now, number);
        }
    }

    /// Heartbeats, leases, and what nodes have to know.
    pub(super) fn look_after_nodes(&mut self, now: u64) {
        let numbers: Vec<u16> = self.nodes.keys().copied().collect();
        for number in numbers {
            self.beat(now, number);
            self.expire(now, number);
            self.bring_up(now, number);
        }
    }

    fn beat(&mut self, now: u64, number: u16) {
        let Some(node) = self.nodes.get_mut(&number).filter(|node| node.heartbeat <= now) else {
            return;
        };
        node.heartbeat = now.saturating_add(self.settings.heartbeat);
        if self.to_nodes.any(|what| *what == ToNode::Heartbeat(number)) {
            return;
        }
        let heartbeat = Heartbeat { recovery: self.recovery, ..Heartbeat::default() };
        let message = Message::HeartbeatRequest(heartbeat);
        self.ask_node(now, None, number, Ask::Message(None, &message), ToNode::Heartbeat(number));
    }

    /// Gives a node up that was not heard for its lease.
    fn expire(&mut self, now: u64, number: u16) {
        let lease = self.settings.lease;
        // Where nothing at all is heard, the proxy is cut off, or its address is elsewhere.
        let is_reached = now.saturating_sub(self.heard) <= self.patience();
        let reached = self.reached;
        let Some(node) = self.nodes.get_mut(&number) else { return };
        let since = node.heard.max(reached);
        let may_be_lost = is_reached && !node.is_up && !node.plan.is_moving;
        let is_over = may_be_lost && now.saturating_sub(since) >= lease;
        let Some(record) = node.record.filter(|record| is_over && !record.is_given_up) else {
            return;
        };
        tracing::warn!(node = %node.plan.name, "N4: a node is not heard and given up: control \
            planes are told that its sessions are gone");
        node.record = Some(NodeRecord { is_given_up: true, ..record });
        node.associated.clear();
        node.state.sessions = 0;
        self.keep_node(number);
        self.tell_loss(now, number);
    }

    /// Tells all control planes that the sessions of a node are gone.
    fn tell_loss(&mut self, now: u64, number: u16) {
        self.counts.losses += 1;
        if let Some(node) = self.nodes.get_mut(&number) {
            node.is_lost = true;
        }
        let to: Vec<_> = self.peers.iter().map(|(key, one)| (key.clone(), one.address)).collect();
        for (key, address) in to {
            let set = self.set_of(number, address);
            let name = self.name.clone();
            let message = Message::SessionSetDeletionRequest(SessionSetDeletionRequest {
                node: super::elements::node_id(&self.settings.node_id, &name),
                sets: vec![set],
                refused: None,
            });
            let to = SocketAddr::new(address, crate::PORT);
            self.ask_peer(now, to, &message, ToPeer::Loss(number, key));
        }
        self.end_loss(now, number);
    }

    /// The set of the sessions of a node, as a control plane at `peer` knows it.
    pub(super) fn set_of(&self, number: u16, peer: std::net::IpAddr) -> FqCsid {
        let node = NodeAddress::Address(self.own_address(peer));
        FqCsid { node, identifiers: vec![number] }
    }

    /// Whether all have answered who were told of a loss: then the node may come back.
    pub(super) fn end_loss(&mut self, now: u64, number: u16) {
        let is_told =
            !self.to_peers.any(|what| matches!(what, ToPeer::Loss(of, _) if *of == number));
        let Some(node) = self.nodes.get_mut(&number).filter(|node| node.is_lost && is_told) else {
            return;
        };
        node.is_lost = false;
        if let Some(record) = &mut node.record
            && !record.is_given_up
        {
            record.recovery = node.recovery;
            self.keep_node(number);
        }
        self.bring_up(now, number);
    }

    /// A node has answered a heartbeat.
    pub(super) fn hear_node(
        &mut self,
        now: u64,
        number: u16,
        recovery: u32,
        state: Option<NodeState>,
    ) {
        let Some(node) = self.nodes.get_mut(&number) else { return };
        if !node.is_up {
            tracing::info!(node = %node.plan.name, "N4: a node answers");
            // What it has refused, it may take now.
            node.refused.clear();
            // It may have missed something.
            node.applications = 0;
        }
        (node.is_up, node.heard) = (true, now);
        if node.recovery != recovery {
            node.is_leaving = false;
        }
        node.recovery = recovery;
        if let Some(state) = state {
            node.state = state;
        }
        match node.record {
            None => {
                node.record = Some(NodeRecord { recovery, is_given_up: false });
                self.keep_node(number);
            }
            Some(record) if record.is_given_up => self.welcome_back(now, number, record, recovery),
            Some(record) if record.recovery != recovery && !node.is_lost => {
                tracing::warn!(node = %node.plan.name, "N4: a node has started anew: control \
                    planes are told that its sessions are gone");
                node.associated.clear();
                self.tell_loss(now, number);
            }
            Some(_) => {}
        }
        self.bring_up(now, number);
    }

    /// A node that was given up answers: what it has of before has to go.
    fn welcome_back(&mut self, now: u64, number: u16, record: NodeRecord, recovery: u32) {
        let peers: Vec<_> = self.peers.keys().cloned().collect();
        let Some(node) = self.nodes.get_mut(&number).filter(|node| !node.is_lost) else { return };
        if record.recovery == recovery && node.releasing.is_none() {
            node.releasing = Some(peers.iter().cloned().collect());
            for peer in peers {
                self.release_at(now, number, peer);
            }
        }
        self.end_releasing(number);
    }

    fn release_at(&mut self, now: u64, number: u16, peer: NodeKey) {
        let Some(one) = self.peers.get(&peer) else { return };
        let (address, setup) = (one.address, one.setup.clone());
        let Some(node) = super::associations::node_of(&setup) else { return };
        let request = AssociationReleaseRequest { node, refused: None };
        let message = Message::AssociationReleaseRequest(request);
        let what = ToNode::Release(number, peer);
        self.ask_node(now, Some(address), number, Ask::Message(None, &message), what);
    }

    /// A node has let go what it had of a control plane, or has not answered.
    pub(super) fn released(&mut self, number: u16, peer: &NodeKey, is_done: bool) {
        let Some(node) = self.nodes.get_mut(&number) else { return };
        match (&mut node.releasing, is_done) {
            (Some(waiting), true) => drop(waiting.remove(peer)),
            // It is asked again when it answers again.
            (releasing, _) => *releasing = None,
        }
        if is_done {
            self.end_releasing(number);
        }
    }

    fn end_releasing(&mut self, number: u16) {
        let Some(node) = self.nodes.get_mut(&number) else { return };
        let is_same = node.record.is_some_and(|record| record.recovery == node.recovery);
        if is_same && node.releasing.as_ref().is_none_or(|waiting| !waiting.is_empty()) {
            return;
        }
        node.releasing = None;
        node.record = Some(NodeRecord { recovery: node.recovery, is_given_up: false });
        self.keep_node(number);
    }

    /// Gives a node what it lacks: associations, and applications behind the first.
    pub(super) fn bring_up(&mut self, now: u64, number: u16) {
        let Some(node) = self.nodes.get(&number).filter(|node| node.is_ready()) else { return };
        let lacks = |key: &NodeKey| {
            let waits = node.refused.get(key).is_some_and(|(_, until)| *until > now);
            !node.associated.contains_key(key) && !node.asking.contains(key) && !waits
        };
        let lacking: Vec<_> = self.peers.keys().filter(|key| lacks(key)).cloned().collect();
        let (has_any, has_applications) = (
            node.associated.keys().next().cloned(),
            node.applications == self.applications_version,
        );
        for key in lacking {
            let Some(peer) = self.peers.get(&key) else { continue };
            let (address, setup) = (peer.address, peer.setup.clone());
            let ask = Ask::Body(MessageType::AssociationSetupRequest, &setup);
            self.ask_node(now, Some(address), number, ask, ToNode::Setup(number, key.clone()));
            if let Some(node) = self.nodes.get_mut(&number) {
                node.asking.insert(key);
            }
        }
        if let (Some(key), false) = (has_any, has_applications) {
            self.give_applications(now, number, &key);
        }
    }

    /// Gives a node the applications of control planes, in the name of one.
    fn give_applications(&mut self, now: u64, number: u16, key: &NodeKey) {
        let version = self.applications_version;
        let is_given = |what: &ToNode| matches!(what, ToNode::Applications(of, _) if *of == number);
        let Some(peer) = self.peers.get(key).map(|peer| peer.address) else { return };
        if self.to_nodes.any(is_given) {
            return;
        }
        // One without any removes what the node has of before (§6.2.5.2).
        let mut bodies = vec![Vec::new()];
        for element in self.applications.values() {
            let last = bodies.len() - 1;
            if bodies[last].len() + element.len() > APPLICATIONS || last == 0 {
                bodies.push(Vec::new());
            }
            let last = bodies.len() - 1;
            super::elements::keep(
                crate::codec::ie::APPLICATION_IDS_PFDS,
                element,
                &mut bodies[last],
            );
        }
        for body in bodies {
            let ask = Ask::Body(MessageType::PfdManagementRequest, &body);
            self.ask_node(now, Some(peer), number, ask, ToNode::Applications(number, version));
        }
    }

    /// A node has answered a request of the proxy.
    pub(super) fn take_answer(&mut self, now: u64, what: ToNode, message: &Message<'_>) {
        match (what, message) {
            (ToNode::Setup(number, key), Message::AssociationSetupResponse(response)) => {
                let Some(node) = self.nodes.get_mut(&number) else { return };
                // A set-up that was begun anew meanwhile is asked again.
                if !node.asking.remove(&key) || !self.peers.contains_key(&key) {
                    return;
                }
                if response.cause.accepted() {
                    let features = response.up_features.unwrap_or_default();
                    node.associated.insert(key.clone(), features);
                } else {
                    tracing::warn!(node = %node.plan.name, peer = %key, cause = %response.cause,
                        "N4: a node refuses an association");
                    node.refused.insert(key.clone(), (response.cause, now.saturating_add(AGAIN)));
                }
                if let Some(peer) = self.peers.get_mut(&key) {
                    peer.note_answer(response);
                }
                self.bring_up(now, number);
            }
            (ToNode::Release(number, key), Message::AssociationReleaseResponse(_)) => {
                self.released(number, &key, true);
                self.bring_up(now, number);
            }
            (ToNode::Applications(number, version), Message::PfdManagementResponse(response)) => {
                if !response.cause.accepted() {
                    tracing::warn!(node = number, cause = %response.cause,
                        "N4: a node refuses applications");
                }
                let is_last = !self
                    .to_nodes
                    .any(|what| matches!(what, ToNode::Applications(of, _) if *of == number));
                if let Some(node) = self.nodes.get_mut(&number).filter(|_| is_last) {
                    node.applications = version;
                }
            }
            _ => {}
        }
    }

    /// A node has not answered a request of the proxy.
    pub(super) fn node_is_silent(&mut self, now: u64, what: ToNode) {
        self.counts.unanswered += 1;
        match what {
            ToNode::Heartbeat(number) => {
                let Some(node) = self.nodes.get_mut(&number) else { return };
                if std::mem::replace(&mut node.is_up, false) {
                    tracing::warn!(node = %node.plan.name, "N4: a node does not answer");
                }
                node.heartbeat = now;
            }
            ToNode::Setup(number, key) => {
                if let Some(node) = self.nodes.get_mut(&number) {
                    node.asking.remove(&key);
                    node.refused.insert(key, (Cause::SYSTEM_FAILURE, now.saturating_add(AGAIN)));
                }
            }
            ToNode::Release(number, key) => self.released(number, &key, false),
            ToNode::Applications(..) | ToNode::Deletion => {}
        }
    }
}
