//! Control planes that speak to the node through a [proxy](crate::proxy).
//!
//! A datagram of a proxy says for which control plane it speaks, and is taken as if it came from
//! there: who may do what, and which request is a repetition, follows from the control plane and
//! not from the proxy. What goes to that control plane goes to the proxy, with the same word.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use super::{Datagram, UserPlane};
use crate::associations::{AssociationId, is_within};
use crate::codec::message::{Heartbeat, MessageType};
use crate::codec::vendor::{BEHIND_NUMBER, Forwarded, NodeState};
use crate::codec::{Frame, Message};
use crate::transactions::TransactionId;

/// Addresses of control planes that are reached through proxies, at most.
const ROUTES: usize = 4096;
/// Attempts at a SEID that no session has: one in 10^13 fails with a million sessions, and one in
/// 10^9 behind a proxy.
const ATTEMPTS: usize = 4;

/// Where a control plane is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Route {
    /// The proxy.
    pub proxy: SocketAddr,
    /// The number of this node there.
    pub node: u16,
}

/// Control planes behind proxies.
#[derive(Debug, Default)]
pub(super) struct Proxied {
    routes: HashMap<IpAddr, Route>,
    /// When a proxy was heard last.
    heard: u64,
}

impl Proxied {
    /// A control plane is reached so from now on.
    pub fn note(&mut self, peer: IpAddr, route: Route) -> bool {
        let has_room = self.routes.len() < ROUTES || self.routes.contains_key(&peer);
        if has_room {
            self.routes.insert(peer, route);
        }
        has_room
    }

    /// Where a control plane is reached, if that is not where it is.
    pub fn route(&self, peer: IpAddr) -> Option<Route> {
        self.routes.get(&peer).copied()
    }

    /// Another address of the same control plane is reached in the same way.
    pub fn note_alike(&mut self, other: IpAddr, peer: IpAddr) {
        if other != peer
            && let Some(route) = self.route(peer)
            && !self.routes.contains_key(&other)
        {
            self.note(other, route);
        }
    }

    /// A SEID for a session of a control plane, made of a random number: behind a proxy, the
    /// first bits say which node has the session.
    pub fn seid(&self, peer: IpAddr, random: u64) -> u64 {
        match self.route(peer) {
            Some(route) => {
                u64::from(route.node) << BEHIND_NUMBER | random & ((1 << BEHIND_NUMBER) - 1)
            }
            None => random,
        }
    }

    fn wrap(&self, datagram: &mut Datagram) {
        let Some(route) = self.route(datagram.to.ip()) else { return };
        let forwarded = Forwarded { peer: datagram.to, node: route.node };
        if let Some(octets) = forwarded.wrap(&datagram.octets) {
            (datagram.octets, datagram.to) = (octets, route.proxy);
        }
    }
}

impl UserPlane {
    /// Takes a datagram of a proxy that speaks for a control plane; false if it is another one.
    pub(super) fn take_forwarded(&mut self, now: u64, from: SocketAddr, datagram: &[u8]) -> bool {
        if self.plan.proxies.is_empty() || !is_within(&self.plan.proxies, from.ip()) {
            self.meet_directly(from.ip(), datagram);
            return false;
        }
        let Some((forwarded, plain)) = Forwarded::unwrap(datagram) else { return false };
        if !self.is_peer(forwarded.peer.ip()) {
            self.counts.unlisted += 1;
            return true;
        }
        let Ok((frame, _)) = Frame::parse(&plain) else { return false };
        self.counts.received += 1;
        self.proxied.heard = now;
        let (peer, route) = (forwarded.peer.ip(), Route { proxy: from, node: forwarded.node });
        if !self.proxied.note(peer, route) {
            // Those that say nothing of associations make room for one that does.
            let associations = &self.associations;
            let is_known = |peer: &IpAddr| associations.iter().any(|(_, one)| one.address == *peer);
            self.proxied.routes.retain(|peer, _| is_known(peer));
            self.proxied.note(peer, route);
        }
        self.take_message(now, forwarded.peer, &frame, &plain);
        true
    }

    /// Whether a datagram is a Heartbeat Request and nothing else, of a proxy or of a control plane
    /// that has neither restarted nor been lost: to answer it changes nothing that is kept.
    pub(crate) fn is_mere_heartbeat(&self, from: SocketAddr, datagram: &[u8]) -> bool {
        let forwarded = match is_within(&self.plan.proxies, from.ip()) {
            true => Forwarded::unwrap(datagram),
            false => None,
        };
        let (from, octets) = match &forwarded {
            Some((forwarded, plain)) => (forwarded.peer, plain.as_slice()),
            None => (from, datagram),
        };
        let Ok((frame, None)) = Frame::parse(octets) else { return false };
        if frame.message != MessageType::HeartbeatRequest as u8 {
            return false;
        }
        let Ok(Message::HeartbeatRequest(request)) = Message::parse(&frame) else { return false };
        let known = self.associations.iter().find(|(_, one)| one.address == from.ip());
        known.is_none_or(|(_, one)| one.lost_until.is_none() && one.recovery == request.recovery.0)
    }

    /// A control plane that associates by itself is not behind a proxy any more.
    fn meet_directly(&mut self, from: IpAddr, datagram: &[u8]) {
        let setup = MessageType::AssociationSetupRequest as u8;
        if !self.proxied.routes.is_empty() && datagram.get(1) == Some(&setup) {
            self.proxied.routes.remove(&from);
        }
    }

    /// A control plane has not answered heartbeats: it is lost, unless nothing was heard of its
    /// proxy either. Sessions outlive a time in which no controller leads.
    pub(super) fn miss_heartbeat(&mut self, now: u64, id: AssociationId) {
        let address = self.associations.get(id).map(|one| one.address);
        let is_proxied = address.is_some_and(|address| self.proxied.route(address).is_some());
        let patience = self.plan.t1.saturating_mul(self.plan.n1.into()).as_nanos();
        let is_silent = u128::from(now.saturating_sub(self.proxied.heard)) >= patience;
        if !(is_proxied && is_silent) {
            self.lose(now, id);
        }
    }

    /// A report goes the way of its session's owner, also where the session has another address.
    pub(super) fn route_report(&mut self, seid: u64, to: IpAddr) {
        if self.proxied.routes.is_empty() {
            return;
        }
        let owner = self.sessions.get(&seid).and_then(|record| record.association);
        if let Some(owner) = owner.and_then(|id| self.associations.get(id)) {
            self.proxied.note_alike(to, owner.address);
        }
    }

    /// A SEID that no session has.
    pub(super) fn draw_seid(&mut self, peer: IpAddr) -> Option<u64> {
        let UserPlane { entropy, proxied, sessions, .. } = self;
        let mut drawn = (0..ATTEMPTS).map(|_| proxied.seid(peer, entropy()));
        drawn.find(|seid| *seid != 0 && !sessions.contains_key(seid))
    }

    /// Answers a heartbeat of a proxy, which learns how full the node is and what is its own.
    pub(super) fn answer_proxy(&mut self, now: u64, id: TransactionId) -> bool {
        if !is_within(&self.plan.proxies, id.from.ip()) {
            return false;
        }
        self.proxied.heard = now;
        let response = Heartbeat { recovery: self.recovery, ..Heartbeat::default() };
        let mut octets = self.response(id, None, &Message::HeartbeatResponse(response));
        let interfaces = &self.plan.interfaces;
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let state = NodeState {
            sessions: number(self.sessions.len()),
            most: number(self.plan.sessions),
            pools: interfaces.iter().flat_map(|one| one.pools.clone()).collect(),
            tunnels: interfaces.iter().flat_map(|one| one.addresses.clone()).collect(),
        };
        state.append(&mut octets);
        self.incoming.answer(id, &octets);
        self.datagrams.push(Datagram { to: id.from, octets, waits: false });
        true
    }

    /// The datagrams to be sent.
    pub fn take_datagrams(&mut self) -> Vec<Datagram> {
        let mut datagrams = std::mem::take(&mut self.datagrams);
        if !self.proxied.routes.is_empty() {
            datagrams.iter_mut().for_each(|datagram| self.proxied.wrap(datagram));
        }
        datagrams
    }
}
