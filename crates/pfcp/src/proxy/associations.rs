//! Control planes: their associations with the proxy, which nodes have one each of, too.

use std::net::{IpAddr, SocketAddr};

use super::{Proxy, ToPeer};
use crate::associations::NodeKey;
use crate::codec::element::{CpFeatures, NodeId};
use crate::codec::message::{AssociationSetupRequest, AssociationSetupResponse, Heartbeat};
use crate::codec::{Cause, Frame, Message, Value, ie};
use crate::refusal::Refusal;
use crate::transactions::TransactionId;

/// Octets of the elements of an Association Setup Request, at most: nodes that join get them.
const SETUP: usize = 2048;

/// Octets of the name of a control plane or an application, at most.
pub(super) const NAME: usize = 255;

/// A control plane.
#[derive(Debug)]
pub(super) struct ControlPlane {
    /// Where its messages come from, and requests go.
    pub address: IpAddr,
    /// The elements of its Association Setup Request.
    pub setup: Vec<u8>,
    pub features: CpFeatures,
    /// The time stamp that it has said last.
    pub recovery: u32,
    /// Whether it answers.
    pub is_heard: bool,
    pub heartbeat: u64,
    /// A set-up that is to be answered, and when at the latest.
    pub pending: Option<(TransactionId, u64)>,
    /// Whether it asked that sessions are kept, and all nodes have said that they are.
    pub retained: Option<bool>,
}

/// The Node ID in the elements of a request.
pub(super) fn node_of(setup: &[u8]) -> Option<NodeId<'_>> {
    super::elements::first(setup, ie::NODE_ID)
}

impl ControlPlane {
    /// One that associates, or did in the proxy's last life; none if its elements cannot be read.
    pub fn read(address: IpAddr, setup: Vec<u8>) -> Option<ControlPlane> {
        let request = AssociationSetupRequest::parse(0, &setup).ok()?;
        let (recovery, retained) = (request.recovery.0, request.retention.as_ref().map(|_| true));
        let features = request.cp_features.unwrap_or_default();
        Some(ControlPlane {
            address,
            setup,
            features,
            recovery,
            is_heard: true,
            heartbeat: 0,
            pending: None,
            retained,
        })
    }

    /// A node has answered its set-up.
    pub fn note_answer(&mut self, response: &AssociationSetupResponse<'_>) {
        use crate::codec::element::AssociationResponseFlags;
        let keeps = response.flags.is_some_and(|flags| flags.has(AssociationResponseFlags::PSREI));
        self.retained = self.retained.map(|before| before && keeps);
    }
}

impl Proxy {
    /// The control plane at an address.
    pub(super) fn peer_at(&self, address: IpAddr) -> Option<(&NodeKey, &ControlPlane)> {
        self.peers.iter().find(|(_, one)| one.address == address)
    }

    /// The control plane that a request's Node ID names, if the request comes from there.
    pub(super) fn sender(&self, node: &NodeId<'_>, from: IpAddr) -> Result<NodeKey, Refusal> {
        let key = NodeKey::of(node);
        let is_there = self.peers.get(&key).is_some_and(|one| one.address == from);
        is_there.then_some(key).ok_or(Refusal::cause(Cause::NO_ASSOCIATION))
    }

    pub(super) fn take_heartbeat(&mut self, now: u64, from: SocketAddr, frame: &Frame<'_>) {
        let Ok(Message::HeartbeatRequest(request)) = Message::parse(frame) else {
            self.counts.unreadable += 1;
            return;
        };
        self.hear_peer(now, from.ip(), request.recovery.0);
        let response = Heartbeat { recovery: self.recovery, ..Heartbeat::default() };
        let header = crate::codec::Header { seid: None, ..frame.header };
        self.send(from, &header, &Message::HeartbeatResponse(response));
    }

    /// A control plane has said when it started: nodes hear that with their next heartbeat.
    fn hear_peer(&mut self, now: u64, address: IpAddr, recovery: u32) {
        let next = now.saturating_add(self.settings.heartbeat);
        for peer in self.peers.values_mut().filter(|one| one.address == address) {
            (peer.is_heard, peer.heartbeat, peer.recovery) = (true, next, recovery);
        }
    }

    /// Sends heartbeats.
    pub(super) fn look_after_peers(&mut self, now: u64) {
        let next = now.saturating_add(self.settings.heartbeat);
        let mut due = Vec::new();
        for (key, peer) in self.peers.iter_mut().filter(|(_, one)| one.heartbeat <= now) {
            peer.heartbeat = next;
            due.push((key.clone(), peer.address));
        }
        for (key, address) in due {
            let what = ToPeer::Heartbeat(key);
            if self.to_peers.any(|waiting| *waiting == what) {
                continue;
            }
            let heartbeat = Heartbeat { recovery: self.recovery, ..Heartbeat::default() };
            let to = SocketAddr::new(address, crate::PORT);
            self.ask_peer(now, to, &Message::HeartbeatRequest(heartbeat), what);
        }
    }

    /// A control plane has answered a request of the proxy itself.
    pub(super) fn take_peer_response(&mut self, now: u64, from: SocketAddr, frame: &Frame<'_>) {
        let Some(what) = self.to_peers.answered(from, frame.header.sequence) else {
            self.counts.unexpected += 1;
            return;
        };
        match (what, Message::parse(frame)) {
            (ToPeer::Heartbeat(_), Ok(Message::HeartbeatResponse(response))) => {
                self.hear_peer(now, from.ip(), response.recovery.0);
            }
            (ToPeer::Heartbeat(_), _) => self.counts.unreadable += 1,
            // What it says is the same to the node: it was told.
            (ToPeer::Loss(number, _), _) => self.end_loss(now, number),
        }
    }

    pub(super) fn peer_is_silent(&mut self, now: u64, what: ToPeer) {
        self.counts.unanswered += 1;
        match what {
            ToPeer::Heartbeat(key) => {
                if let Some(peer) = self.peers.get_mut(&key)
                    && std::mem::replace(&mut peer.is_heard, false)
                {
                    tracing::warn!(peer = %key, "N4: a control plane does not answer");
                }
            }
            ToPeer::Loss(number, _) => self.end_loss(now, number),
        }
    }

    /// A control plane associates: nodes do so as well, and then it is answered.
    pub(super) fn set_up(
        &mut self,
        now: u64,
        id: TransactionId,
        frame: &Frame<'_>,
        request: &AssociationSetupRequest<'_>,
    ) -> Result<(), Refusal> {
        let (key, from) = (NodeKey::of(&request.node), id.from.ip());
        let known = self.peers.get(&key);
        // Another sender has no right to the name while its owner answers.
        if known.is_some_and(|one| one.address != from && one.is_heard) {
            self.counts.hijacks += 1;
            return Err(Refusal::cause(Cause::REJECTED));
        }
        let is_full = known.is_none() && self.peers.len() >= self.settings.associations;
        if is_full || frame.body.len() > SETUP || key.to_string().len() > NAME {
            return Err(Refusal::cause(Cause::NO_RESOURCES));
        }
        let peer = ControlPlane::read(from, frame.body.to_vec());
        let mut peer = peer.ok_or(Refusal::cause(Cause::SYSTEM_FAILURE))?;
        peer.heartbeat = now.saturating_add(self.settings.heartbeat);
        peer.pending = Some((id, now.saturating_add(self.patience())));
        tracing::info!(peer = %key, address = %from, "N4: a control plane associates");
        for node in self.nodes.values_mut() {
            node.associated.remove(&key);
            node.asking.remove(&key);
            node.refused.remove(&key);
        }
        self.peers.insert(key.clone(), peer);
        self.keep_peer(&key);
        let numbers: Vec<u16> = self.nodes.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.bring_up(now, number));
        Ok(())
    }
}
