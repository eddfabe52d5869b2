//! Answers to control planes that associate: once all nodes that answer have.

use super::Proxy;
use super::elements::node_id;
use crate::associations::NodeKey;
use crate::codec::element::{AssociationResponseFlags, UpFeatures};
use crate::codec::message::{AssociationSetupResponse, MessageType};
use crate::codec::{Cause, Message};
use crate::refusal::Refusal;

impl Proxy {
    /// What all nodes of a control plane support; none if it has none.
    pub(super) fn features(&self, key: &NodeKey) -> Option<UpFeatures> {
        let features = self.nodes.values().filter_map(|node| node.associated.get(key));
        features.copied().reduce(|all, one| UpFeatures(all.0 & one.0))
    }

    /// Answers those of whom all is known, or whose time is over.
    pub(super) fn settle(&mut self, now: u64) {
        let is_settled = |key: &NodeKey| {
            let has = |node: &super::Node| {
                node.associated.contains_key(key) || node.refused.contains_key(key)
            };
            // A proxy that has just begun has not heard its nodes yet.
            let mut ready = self.nodes.values().filter(|node| node.is_ready()).peekable();
            ready.peek().is_some() && ready.all(has)
        };
        let pending = self.peers.iter().filter_map(|(key, peer)| {
            let (id, until) = peer.pending?;
            (until <= now || is_settled(key)).then(|| (key.clone(), id))
        });
        let settled: Vec<_> = pending.collect();
        for (key, id) in settled {
            let retained = self.peers.get_mut(&key).and_then(|peer| {
                peer.pending = None;
                peer.retained
            });
            let Some(features) = self.features(&key) else {
                self.refuse_set_up(&key, id);
                continue;
            };
            let name = self.name.clone();
            let response = AssociationSetupResponse {
                node: node_id(&self.settings.node_id, &name),
                cause: Cause::ACCEPTED,
                recovery: self.recovery,
                up_features: Some(features),
                flags: retained.filter(|all| *all).map(|_| AssociationResponseFlags::PSREI),
                ..AssociationSetupResponse::default()
            };
            self.respond(id, None, &Message::AssociationSetupResponse(response));
        }
    }

    /// No node takes it: there is no association.
    fn refuse_set_up(&mut self, key: &NodeKey, id: crate::transactions::TransactionId) {
        let causes = self.nodes.values().filter_map(|node| node.refused.get(key));
        let cause = causes.map(|(cause, _)| *cause).find(|cause| *cause != Cause::SYSTEM_FAILURE);
        self.peers.remove(key);
        self.keep_peer(key);
        let why = Refusal::cause(cause.unwrap_or(Cause::NO_RESOURCES));
        self.refuse(id, MessageType::AssociationSetupRequest, None, why);
    }
}
