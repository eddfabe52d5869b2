//! Messages about one session, and reports: they pass, and nothing of them stays but what their
//! answers need.

use std::collections::VecDeque;
use std::net::SocketAddr;

use super::elements::{edited, keep, renumber};
use super::expiring::Expiring;
use super::{Ask, Proxy, ToNode};
use crate::associations::is_within;
use crate::codec::element::{AssociationRelease, FSeid};
use crate::codec::group::put;
use crate::codec::message::{
    AssociationUpdateResponse, Heartbeat, MessageType, SessionDeletionRequest,
    SessionReportResponse,
};
use crate::codec::rule::OverloadControl;
use crate::codec::vendor::{BEHIND_NUMBER, Forwarded, NodeState};
use crate::codec::{Cause, Frame, Header, Message, Value, ie};
use crate::refusal::Refusal;

/// Reports that are remembered until their responses have had their time, at most.
pub(super) const REPORTS: usize = 65_536;
/// New sessions of which is remembered where they went, at most.
const PLACEMENTS: usize = 65_536;

/// Where a new session went.
#[derive(Debug)]
pub(super) struct Placement {
    pub node: u16,
    pub digest: u64,
    /// The request, until a node has done it.
    pub octets: Vec<u8>,
    /// Nodes that had it.
    pub tried: Vec<u16>,
    /// When another node gets it.
    pub until: u64,
}

/// A request of a node that went to a control plane.
#[derive(Clone, Copy, Debug)]
struct Report {
    node: u16,
    /// The number that the node knows it by.
    sequence: u32,
    peer: SocketAddr,
}

/// What is under way.
#[derive(Debug)]
pub(super) struct Relays {
    pub placements: Expiring<(SocketAddr, u32), Placement>,
    waiting: VecDeque<(u64, (SocketAddr, u32))>,
    reports: Expiring<u32, Report>,
    /// Their numbers, by node, control plane and the node's number.
    numbers: Expiring<(u16, SocketAddr, u32), u32>,
}

impl Relays {
    /// All of it is remembered so long, ns.
    pub fn new(keep: u64) -> Relays {
        Relays {
            placements: Expiring::new(PLACEMENTS, keep),
            waiting: VecDeque::new(),
            reports: Expiring::new(REPORTS, keep),
            numbers: Expiring::new(REPORTS, keep),
        }
    }

    /// Whether a report has this sequence number.
    pub fn is_taken(&self, sequence: u32) -> bool {
        self.reports.contains(&sequence)
    }

    fn wait(&mut self, until: u64, key: (SocketAddr, u32)) {
        self.waiting.push_back((until, key));
        if self.waiting.len() > 2 * PLACEMENTS {
            // Its placement has made room as well.
            self.waiting.pop_front();
        }
    }

    /// Remembers where a session went.
    pub fn place(&mut self, key: (SocketAddr, u32), placement: Placement, now: u64) {
        self.wait(placement.until, key);
        self.placements.put(key, placement, now);
    }
}

impl Proxy {
    /// A request about a session that there is goes to its node.
    pub(super) fn pass_to_node(&mut self, from: SocketAddr, kind: MessageType, frame: &Frame<'_>) {
        let number = (frame.header.seid.unwrap_or(0) >> BEHIND_NUMBER) as u16;
        let is_there = self.nodes.get(&number).is_some_and(|node| !node.is_given_up());
        debug_assert!(kind.has_seid());
        if is_there {
            return self.forward(number, from, &frame.alone());
        }
        self.counts.no_node += 1;
        self.refuse_session(from, frame, Refusal::cause(Cause::SESSION_NOT_FOUND));
    }

    /// The response of a control plane to a report goes to the node that has made it.
    pub(super) fn pass_back(&mut self, now: u64, from: SocketAddr, frame: &Frame<'_>) {
        let report = self.relays.reports.get(&frame.header.sequence).copied();
        let Some(report) = report.filter(|report| report.peer.ip() == from.ip()) else {
            // It may answer the proxy itself.
            return self.take_peer_response(now, from, frame);
        };
        let mut octets = frame.alone();
        renumber(&mut octets, report.sequence);
        self.forward(report.node, report.peer, &octets);
    }

    /// A datagram of a node.
    pub(super) fn take_of_node(
        &mut self,
        now: u64,
        number: u16,
        from: SocketAddr,
        datagram: &[u8],
    ) {
        let Some((forwarded, plain)) = Forwarded::unwrap(datagram) else {
            return self.take_own(now, number, from, datagram);
        };
        let kind = |frame: &Frame<'_>| MessageType::from_number(frame.message);
        let frame = Frame::parse(&plain).ok().map(|(frame, _)| frame);
        let (Some(frame), Some(kind)) = (frame, frame.as_ref().and_then(kind)) else {
            self.counts.unreadable += 1;
            return;
        };
        let peers = &self.settings.peers;
        if forwarded.node != number || !peers.is_empty() && !is_within(peers, forwarded.peer.ip()) {
            self.counts.unlisted += 1;
            return;
        }
        if !kind.is_request() && forwarded.peer.port() == 0 {
            return self.take_answered(now, from, &frame);
        }
        match kind {
            MessageType::SessionReportRequest | MessageType::NodeReportRequest => {
                self.pass_report(now, number, forwarded.peer, kind, &frame);
            }
            MessageType::HeartbeatRequest => self.answer_heartbeat(number, forwarded.peer, &frame),
            MessageType::AssociationUpdateRequest => {
                self.take_leave(number, forwarded.peer, &frame);
            }
            MessageType::SessionEstablishmentResponse => {
                self.placed(now, number, forwarded.peer, &frame);
            }
            MessageType::SessionModificationResponse | MessageType::SessionDeletionResponse => {
                self.pass_response(number, forwarded.peer, kind, &frame);
            }
            kind if !kind.is_request() => self.gather(number, forwarded.peer, &frame),
            _ => self.counts.unexpected += 1,
        }
    }

    /// A message of a node that speaks for itself: the answer to a heartbeat.
    fn take_own(&mut self, now: u64, number: u16, from: SocketAddr, datagram: &[u8]) {
        let frame = Frame::parse(datagram).ok().map(|(frame, _)| frame);
        let response = frame.as_ref().and_then(|frame| Some((frame, Message::parse(frame).ok()?)));
        let Some((frame, Message::HeartbeatResponse(response))) = response else {
            self.counts.unexpected += 1;
            return;
        };
        match self.to_nodes.answered(from, frame.header.sequence) {
            Some(ToNode::Heartbeat(of)) if of == number => {
                let state = NodeState::find(frame.body);
                self.hear_node(now, number, response.recovery.0, state);
            }
            _ => self.counts.unexpected += 1,
        }
    }

    fn take_answered(&mut self, now: u64, from: SocketAddr, frame: &Frame<'_>) {
        match (self.to_nodes.answered(from, frame.header.sequence), Message::parse(frame)) {
            (Some(what), Ok(message)) => self.take_answer(now, what, &message),
            (Some(what), Err(_)) => {
                self.counts.unreadable += 1;
                self.node_is_silent(now, what);
            }
            (None, _) => self.counts.unexpected += 1,
        }
    }

    /// A node asks for a control plane's heartbeat: it is answered as long as that one answers.
    fn answer_heartbeat(&mut self, number: u16, peer: SocketAddr, frame: &Frame<'_>) {
        let known = self.peer_at(peer.ip()).filter(|(_, one)| one.is_heard);
        let Some(recovery) = known.map(|(_, one)| one.recovery) else { return };
        let recovery = crate::codec::element::Time(recovery);
        let response = Heartbeat { recovery, ..Heartbeat::default() };
        self.answer_node(number, peer, frame, None, &Message::HeartbeatResponse(response));
    }

    /// A node that stops asks for the end of its associations: the others stay.
    fn take_leave(&mut self, number: u16, peer: SocketAddr, frame: &Frame<'_>) {
        let Ok(Message::AssociationUpdateRequest(request)) = Message::parse(frame) else {
            self.counts.unreadable += 1;
            return;
        };
        let is_leaving = request.release.is_some_and(|flags| flags.has(AssociationRelease::SARR));
        if let Some(node) = self.nodes.get_mut(&number) {
            node.is_leaving |= is_leaving;
        }
        let name = self.name.clone();
        let response = AssociationUpdateResponse {
            node: super::elements::node_id(&self.settings.node_id, &name),
            cause: Cause::ACCEPTED,
            ..AssociationUpdateResponse::default()
        };
        self.answer_node(number, peer, frame, None, &Message::AssociationUpdateResponse(response));
    }

    fn answer_node(
        &mut self,
        number: u16,
        peer: SocketAddr,
        frame: &Frame<'_>,
        seid: Option<u64>,
        message: &Message<'_>,
    ) {
        let header = Header { seid, sequence: frame.header.sequence, priority: None };
        let mut octets = Vec::with_capacity(64);
        message.emit(&header, &mut octets);
        self.forward(number, peer, &octets);
    }

    /// A report of a node goes to its control plane, with a number of the proxy.
    fn pass_report(
        &mut self,
        now: u64,
        number: u16,
        peer: SocketAddr,
        kind: MessageType,
        frame: &Frame<'_>,
    ) {
        let is_session = kind == MessageType::SessionReportRequest;
        if is_session && self.nodes.get(&number).is_some_and(super::Node::is_given_up) {
            // No control plane knows the session any more.
            let cause = Cause::SESSION_NOT_FOUND;
            let response = SessionReportResponse { cause, ..SessionReportResponse::default() };
            let message = Message::SessionReportResponse(response);
            return self.answer_node(number, peer, frame, Some(0), &message);
        }
        let key = (number, peer, frame.header.sequence);
        let known = self.relays.numbers.get(&key).copied();
        let known = known.filter(|known| self.relays.is_taken(*known));
        let Some(sequence) = known.or_else(|| self.peer_sequence()) else { return };
        match self.as_of_proxy(peer, kind, number, frame) {
            Ok(mut octets) => {
                renumber(&mut octets, sequence);
                let report = Report { node: number, sequence: frame.header.sequence, peer };
                self.relays.reports.put(sequence, report, now);
                self.relays.numbers.put(key, sequence, now);
                self.counts.reports += u64::from(known.is_none());
                self.pass(peer, octets);
            }
            Err(_) => self.counts.unreadable += 1,
        }
    }

    fn pass_response(
        &mut self,
        number: u16,
        peer: SocketAddr,
        kind: MessageType,
        frame: &Frame<'_>,
    ) {
        let Ok(octets) = self.as_of_proxy(peer, kind, number, frame) else {
            self.counts.unreadable += 1;
            return;
        };
        let cause = super::elements::first::<Cause>(frame.body, ie::CAUSE);
        let is_done = cause.is_some_and(Cause::accepted);
        if is_done && kind == MessageType::SessionDeletionResponse {
            self.counts.deleted += 1;
            if let Some(node) = self.nodes.get_mut(&number) {
                node.state.sessions = node.state.sessions.saturating_sub(1);
            }
        }
        self.pass(peer, octets);
    }

    fn pass(&mut self, to: SocketAddr, octets: Vec<u8>) {
        self.counts.sent += 1;
        self.datagrams.push(super::Datagram { to, octets, waits: false });
    }

    /// A node has answered a new session.
    fn placed(&mut self, now: u64, number: u16, peer: SocketAddr, frame: &Frame<'_>) {
        let key = (peer, frame.header.sequence);
        let cause = super::elements::first::<Cause>(frame.body, ie::CAUSE).unwrap_or(Cause(0));
        let fseid = super::elements::first::<FSeid>(frame.body, ie::F_SEID);
        let stray = fseid.filter(|_| cause.accepted());
        let placement = self.relays.placements.get(&key);
        if placement.is_some_and(|placement| placement.node != number) {
            // Another node has it by now.
            self.counts.unexpected += 1;
            return self.delete_stray(now, number, peer, stray);
        }
        if let Some(fseid) = stray
            && fseid.seid >> BEHIND_NUMBER != u64::from(number)
        {
            // Nothing that is said of it would find the node.
            self.counts.wrong_seids += 1;
            self.delete_stray(now, number, peer, stray);
            let seid = frame.header.seid;
            let refusal = Refusal::cause(Cause::SYSTEM_FAILURE);
            let id = crate::transactions::TransactionId { from: peer, sequence: key.1 };
            return self.refuse(id, MessageType::SessionEstablishmentRequest, seid, refusal);
        }
        let is_full = [Cause::NO_RESOURCES, Cause::CONGESTION, Cause::ADDRESSES_OCCUPIED];
        if is_full.contains(&cause) && self.place_again(now, key) {
            return;
        }
        if let Some(placement) = self.relays.placements.get_mut(&key)
            && !placement.octets.is_empty()
        {
            placement.octets = Vec::new();
            if cause.accepted() {
                self.counts.established += 1;
                if let Some(node) = self.nodes.get_mut(&number) {
                    node.state.sessions = node.state.sessions.saturating_add(1);
                }
            }
        }
        self.pass_response(number, peer, MessageType::SessionEstablishmentResponse, frame);
    }

    fn delete_stray(&mut self, now: u64, node: u16, peer: SocketAddr, stray: Option<FSeid>) {
        let Some(fseid) = stray else { return };
        let message = Message::SessionDeletionRequest(SessionDeletionRequest { refused: None });
        let ask = Ask::Message(Some(fseid.seid), &message);
        self.ask_node(now, Some(peer.ip()), node, ask, ToNode::Deletion);
    }

    /// A new session goes to another node; false if there is none.
    fn place_again(&mut self, now: u64, key: (SocketAddr, u32)) -> bool {
        let Some(placement) = self.relays.placements.get(&key) else { return false };
        let Ok((frame, _)) = Frame::parse(&placement.octets) else { return false };
        let Ok(node) = self.choose(key.0, &frame, &placement.tried) else { return false };
        let octets = placement.octets.clone();
        let until = now.saturating_add(self.patience());
        if let Some(placement) = self.relays.placements.get_mut(&key) {
            (placement.node, placement.until) = (node, until);
            placement.tried.push(node);
        }
        self.relays.wait(until, key);
        self.counts.placed_again += 1;
        self.forward(node, key.0, &octets);
        true
    }

    /// New sessions that no node has answered in time go to another one.
    pub(super) fn look_after_relays(&mut self, now: u64) {
        while self.relays.waiting.front().is_some_and(|(until, _)| *until <= now)
            && let Some((until, key)) = self.relays.waiting.pop_front()
        {
            let placement = self.relays.placements.get(&key);
            let is_waiting =
                placement.is_some_and(|one| one.until == until && !one.octets.is_empty());
            if is_waiting && !self.place_again(now, key) {
                self.give_placement_up(key);
            }
        }
    }

    /// No node answers: the control plane hears so, and need not repeat it.
    fn give_placement_up(&mut self, key: (SocketAddr, u32)) {
        let Some(placement) = self.relays.placements.get(&key) else { return };
        let octets = placement.octets.clone();
        let Ok((frame, _)) = Frame::parse(&octets) else { return };
        self.refuse_session(key.0, &frame, Refusal::cause(Cause::SYSTEM_FAILURE));
    }

    /// A message of a node as the proxy's: Node ID, address of the F-SEID, set, and load.
    fn as_of_proxy(
        &self,
        peer: SocketAddr,
        kind: MessageType,
        number: u16,
        frame: &Frame<'_>,
    ) -> Result<Vec<u8>, crate::codec::Error> {
        let own = self.own_address(peer.ip());
        let set = self.set_of(number, peer.ip());
        let load = self.load.control();
        let name = self.name.clone();
        let node = super::elements::node_id(&self.settings.node_id, &name);
        let answering = self.load.answering.max(1);
        let is_establishment = kind == MessageType::SessionEstablishmentResponse;
        let mut has_session = false;
        let edit = |element: u16, octets: &[u8], out: &mut Vec<u8>| match element {
            ie::NODE_ID => put(element, &node, out),
            ie::F_SEID if is_establishment => match FSeid::parse(element, octets) {
                Ok(fseid) => {
                    has_session = true;
                    put(element, &FSeid::at(fseid.seid, own), out);
                }
                Err(_) => keep(element, octets, out),
            },
            ie::LOAD_CONTROL_INFORMATION => put(element, &load, out),
            ie::OVERLOAD_CONTROL_INFORMATION => {
                if let Ok(one) = OverloadControl::parse(element, octets) {
                    // One of several nodes: so much less of all.
                    let metric = usize::from(one.metric).div_ceil(answering).min(100) as u8;
                    put(element, &OverloadControl { metric, ..one }, out);
                }
            }
            _ => keep(element, octets, out),
        };
        let octets = edited(frame, edit, |_| ())?;
        if !has_session {
            return Ok(octets);
        }
        let mut element = Vec::new();
        put(ie::FQ_CSID, &set, &mut element);
        let with_set = crate::codec::vendor::with_elements(&octets, octets.len(), &element);
        Ok(with_set.unwrap_or(octets))
    }
}
