//! Requests about the whole: all nodes get them, and their answers become one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::{Proxy, elements};
use crate::associations::NodeKey;
use crate::codec::element::Text;
use crate::codec::message::{
    AssociationSetupRequest, AssociationUpdateRequest, AssociationUpdateResponse, MessageType,
};
use crate::codec::{Cause, Elements, Frame, Message, Value, ie};
use crate::refusal::Refusal;
use crate::transactions::TransactionId;

/// Applications, and octets of all of them, at most.
const APPLICATIONS: usize = 4096;
const OCTETS: usize = 4 << 20;

/// A request that nodes work on.
#[derive(Debug)]
struct FanOut {
    kind: MessageType,
    key: NodeKey,
    octets: Vec<u8>,
    waiting: BTreeSet<u16>,
    /// The first refusal.
    refusal: Option<Refusal>,
    /// Whether a node has not answered that may have sessions.
    is_partial: bool,
    sent: u8,
    next: u64,
}

/// All of them, by where they came from and their number.
#[derive(Debug, Default)]
pub(super) struct FanOuts(BTreeMap<(SocketAddr, u32), FanOut>);

impl Proxy {
    pub(super) fn begin(
        &mut self,
        now: u64,
        id: TransactionId,
        kind: MessageType,
        frame: &Frame<'_>,
    ) -> Result<(), Refusal> {
        let message = Message::parse(frame)?;
        if let Some(element) = message.refused() {
            return Err(Refusal::unsupported(element));
        }
        let from = id.from.ip();
        let key = match &message {
            Message::AssociationSetupRequest(request) => {
                return self.set_up(now, id, frame, request);
            }
            Message::AssociationUpdateRequest(request) => {
                let key = self.sender(&request.node, from)?;
                self.update(&key, request);
                key
            }
            Message::AssociationReleaseRequest(request) => self.sender(&request.node, from)?,
            Message::SessionSetDeletionRequest(request) => self.sender(&request.node, from)?,
            Message::SessionSetModificationRequest(request) => self.sender(&request.node, from)?,
            Message::PfdManagementRequest(_) => {
                self.has_room_for(frame)?;
                let known = self.peer_at(from).map(|(key, _)| key.clone());
                known.ok_or(Refusal::cause(Cause::NO_ASSOCIATION))?
            }
            _ => return Err(Refusal::cause(Cause::NOT_SUPPORTED)),
        };
        self.fan_out(now, id, kind, key, frame.alone());
        Ok(())
    }

    fn fan_out(
        &mut self,
        now: u64,
        id: TransactionId,
        kind: MessageType,
        key: NodeKey,
        octets: Vec<u8>,
    ) {
        let is_told = |node: &super::Node| node.is_ready() && node.associated.contains_key(&key);
        let waiting: BTreeSet<u16> =
            self.nodes.values().filter(|node| is_told(node)).map(|node| node.plan.number).collect();
        // What a silent node has of sets would stay.
        let is_silent = |node: &super::Node| {
            !node.is_up && node.record.is_some_and(|record| !record.is_given_up)
        };
        let is_partial = self.nodes.values().any(is_silent);
        let sent = 1;
        let next = now.saturating_add(self.settings.t1);
        for number in &waiting {
            self.forward(*number, id.from, &octets);
        }
        let is_over = waiting.is_empty();
        let refusal = None;
        let fan_out = FanOut { kind, key, octets, waiting, refusal, is_partial, sent, next };
        self.fan_outs.0.insert((id.from, id.sequence), fan_out);
        if is_over {
            self.finish((id.from, id.sequence));
        }
    }

    /// A node has answered one of them.
    pub(super) fn gather(&mut self, number: u16, peer: SocketAddr, frame: &Frame<'_>) {
        let at = (peer, frame.header.sequence);
        let Some(fan_out) =
            self.fan_outs.0.get_mut(&at).filter(|fan_out| fan_out.waiting.contains(&number))
        else {
            self.counts.unexpected += 1;
            return;
        };
        let cause = elements::first::<Cause>(frame.body, ie::CAUSE);
        let offending = elements::first::<u16>(frame.body, ie::OFFENDING_IE);
        match cause {
            Some(cause) if cause.accepted() => {}
            cause => {
                let cause = cause.unwrap_or(Cause::SYSTEM_FAILURE);
                fan_out.refusal =
                    fan_out.refusal.or(Some(Refusal { cause, offending, rule: None }));
            }
        }
        fan_out.waiting.remove(&number);
        if fan_out.waiting.is_empty() {
            self.finish(at);
        }
    }

    /// Requests are sent again to nodes that have not answered, and end.
    pub(super) fn look_after_fan_outs(&mut self, now: u64) {
        let due: Vec<_> = self
            .fan_outs
            .0
            .iter()
            .filter(|(_, fan_out)| fan_out.next <= now)
            .map(|(at, _)| *at)
            .collect();
        for at in due {
            let Some(fan_out) = self.fan_outs.0.get_mut(&at) else { continue };
            if fan_out.sent >= self.settings.n1 {
                fan_out.is_partial = true;
                self.finish(at);
                continue;
            }
            fan_out.sent += 1;
            fan_out.next = now.saturating_add(self.settings.t1);
            let (octets, waiting) = (fan_out.octets.clone(), fan_out.waiting.clone());
            for number in waiting {
                self.counts.sent_again += 1;
                self.forward(number, at.0, &octets);
            }
        }
    }

    fn finish(&mut self, at: (SocketAddr, u32)) {
        let Some(fan_out) = self.fan_outs.0.remove(&at) else { return };
        let id = TransactionId { from: at.0, sequence: at.1 };
        let is_of_sets = matches!(
            fan_out.kind,
            MessageType::SessionSetDeletionRequest | MessageType::SessionSetModificationRequest
        );
        let refusal = match fan_out.refusal {
            // Sessions of a node that did not answer stay as they are: it is to be asked again.
            None if is_of_sets && fan_out.is_partial => Some(Refusal::cause(Cause::SYSTEM_FAILURE)),
            refusal => refusal,
        };
        match fan_out.kind {
            MessageType::AssociationReleaseRequest => self.end_association(&fan_out.key),
            MessageType::PfdManagementRequest if refusal.is_none() => {
                self.take_applications(&fan_out.octets);
                // Those that did not answer get them when they answer again.
                let version = self.applications_version;
                let is_in_time = |node: &super::Node| !fan_out.waiting.contains(&node.plan.number);
                for node in self.nodes.values_mut().filter(|node| is_in_time(node)) {
                    if node.applications + 1 == version {
                        node.applications = version;
                    }
                }
            }
            _ => {}
        }
        if fan_out.kind == MessageType::AssociationUpdateRequest && refusal.is_none() {
            let name = self.name.clone();
            let response = AssociationUpdateResponse {
                node: elements::node_id(&self.settings.node_id, &name),
                cause: Cause::ACCEPTED,
                up_features: self.features(&fan_out.key),
                ..AssociationUpdateResponse::default()
            };
            return self.respond(id, None, &Message::AssociationUpdateResponse(response));
        }
        // The response that refuses is the one that accepts, with another cause.
        let accepted = Refusal::cause(Cause::ACCEPTED);
        self.counts.refused += u64::from(refusal.is_some());
        self.answer(id, fan_out.kind, None, refusal.unwrap_or(accepted));
    }

    fn end_association(&mut self, key: &NodeKey) {
        tracing::info!(peer = %key, "N4: an association ends");
        self.peers.remove(key);
        self.keep_peer(key);
        for node in self.nodes.values_mut() {
            node.associated.remove(key);
            node.asking.remove(key);
            node.refused.remove(key);
        }
    }

    /// What a control plane supports: nodes that join hear that.
    fn update(&mut self, key: &NodeKey, request: &AssociationUpdateRequest<'_>) {
        let (Some(features), Some(peer)) = (request.cp_features, self.peers.get_mut(key)) else {
            return;
        };
        peer.features = features;
        if let Ok(setup) = AssociationSetupRequest::parse(0, &peer.setup) {
            let mut body = Vec::with_capacity(peer.setup.len());
            AssociationSetupRequest { cp_features: Some(features), ..setup }.emit(&mut body);
            peer.setup = body;
        }
        self.keep_peer(key);
    }

    fn has_room_for(&self, frame: &Frame<'_>) -> Result<(), Refusal> {
        let octets: usize = self.applications.values().map(Vec::len).sum();
        let more = Elements::new(frame.body).count();
        let mut names = Elements::new(frame.body)
            .flatten()
            .filter_map(|(_, octets)| elements::first::<Text<'_>>(octets, ie::APPLICATION_ID));
        let is_long = names.any(|name| name.0.len() > super::associations::NAME);
        let is_full = is_long
            || self.applications.len() + more > APPLICATIONS
            || octets + frame.body.len() > OCTETS;
        if is_full { Err(Refusal::cause(Cause::NO_RESOURCES)) } else { Ok(()) }
    }

    /// Remembers the applications that all nodes have taken.
    fn take_applications(&mut self, octets: &[u8]) {
        let Ok((frame, _)) = Frame::parse(octets) else { return };
        let elements: Vec<_> = Elements::new(frame.body)
            .flatten()
            .filter(|(number, _)| *number == ie::APPLICATION_IDS_PFDS)
            .collect();
        let mut changed: Vec<Vec<u8>> = Vec::new();
        if elements.is_empty() {
            // Without any, all are removed (§6.2.5.2).
            changed.extend(std::mem::take(&mut self.applications).into_keys());
        }
        for (_, octets) in elements {
            let Some(name) = elements::first::<Text<'_>>(octets, ie::APPLICATION_ID) else {
                continue;
            };
            let is_removed =
                !Elements::new(octets).flatten().any(|(number, _)| number == ie::PFD_CONTEXT);
            match is_removed {
                true => drop(self.applications.remove(name.0)),
                false => drop(self.applications.insert(name.0.to_vec(), octets.to_vec())),
            }
            changed.push(name.0.to_vec());
        }
        self.applications_version += 1;
        changed.iter().for_each(|name| self.keep_application(name));
    }
}
