//! Which node a new session goes to.
//!
//! A session that names an address of its own goes to the node whose address or pool that is.
//! Any other one goes by a hash of the control plane's F-SEID (rendezvous hashing, weighted by
//! the room that nodes have): the same request finds the same node, also at a proxy that has just
//! begun, and each node gets its share.

use std::hash::{BuildHasher, Hash};
use std::net::{IpAddr, SocketAddr};

use super::nodes::Node;
use super::relay::Placement;
use super::{Proxy, elements};
use crate::associations::{NodeKey, is_within};
use crate::codec::element::{FSeid, FTeid, NodeId, UeIpAddress};
use crate::codec::message::{MessageType, SessionEstablishmentRequest};
use crate::codec::{Cause, Frame, Message, ie};
use crate::refusal::Refusal;
use crate::transactions::TransactionId;

impl Proxy {
    /// Sends a new session to a node.
    pub(super) fn place(&mut self, now: u64, from: SocketAddr, frame: &Frame<'_>) {
        let key = (from, frame.header.sequence);
        let octets = frame.alone();
        let digest = foldhash::quality::FixedState::default().hash_one(frame.body);
        if let Some(known) = self.relays.placements.get(&key).filter(|one| one.digest == digest) {
            let node = known.node;
            self.counts.repeated += 1;
            return self.forward(node, from, &octets);
        }
        match self.choose(from, frame, &[]) {
            Ok(node) => {
                let until = now.saturating_add(self.patience());
                let placement =
                    Placement { node, digest, octets: octets.clone(), tried: vec![node], until };
                self.relays.place(key, placement, now);
                self.forward(node, from, &octets);
            }
            Err(refusal) => self.refuse_session(from, frame, refusal),
        }
    }

    /// Refuses a request about a session.
    pub(super) fn refuse_session(&mut self, from: SocketAddr, frame: &Frame<'_>, why: Refusal) {
        let Some(kind) = MessageType::from_number(frame.message) else { return };
        // The control plane's SEID is not known where the request does not say it (§7.2.2.4.2).
        let seid = elements::first::<FSeid>(frame.body, ie::F_SEID)
            .filter(|_| kind == MessageType::SessionEstablishmentRequest)
            .map_or(0, |fseid| fseid.seid);
        let id = TransactionId { from, sequence: frame.header.sequence };
        self.refuse(id, kind, Some(seid), why);
    }

    /// The node for a new session, other than those that were tried.
    pub(super) fn choose(
        &self,
        from: SocketAddr,
        frame: &Frame<'_>,
        tried: &[u16],
    ) -> Result<u16, Refusal> {
        let node = elements::first::<NodeId<'_>>(frame.body, ie::NODE_ID);
        let node = node
            .ok_or_else(|| Refusal::missing(ie::NODE_ID))
            .map_err(|missing| Refusal { cause: Cause::MANDATORY_IE_MISSING, ..missing })?;
        let key = self.sender(&node, from.ip())?;
        let Message::SessionEstablishmentRequest(request) = Message::parse(frame)? else {
            return Err(Refusal::cause(Cause::NOT_SUPPORTED));
        };
        let no_room = Refusal::cause(Cause::NO_RESOURCES);
        if let Some(owner) = self.owner(&request) {
            let is_free = self.takes(owner, &key) && !tried.contains(&owner.plan.number);
            return is_free.then_some(owner.plan.number).ok_or(no_room);
        }
        let all = self.nodes.values().filter(|node| self.takes(node, &key));
        let candidates: Vec<_> = all.filter(|node| !tried.contains(&node.plan.number)).collect();
        let has_capacities = candidates.iter().all(|node| node.plan.capacity > 0);
        let score = |node: &Node| {
            let content = (from.ip(), request.fseid.seid, node.plan.number);
            score(weight(node, has_capacities), content)
        };
        let best = candidates.into_iter().max_by(|a, b| score(a).total_cmp(&score(b)));
        best.map(|node| node.plan.number).ok_or(no_room)
    }

    /// Whether a node takes a new session of a control plane.
    fn takes(&self, node: &Node, key: &NodeKey) -> bool {
        node.is_ready()
            && !node.plan.is_cordoned
            && !node.is_leaving
            && node.associated.contains_key(key)
            && (node.applications == self.applications_version || self.applications.is_empty())
            && node.state.sessions < node.state.most
    }

    /// The node that an address of a session belongs to.
    fn owner(&self, request: &SessionEstablishmentRequest<'_>) -> Option<&Node> {
        let of_pdrs = request.pdrs.iter().map(|pdr| (&pdr.pdi.fteid, &pdr.pdi.ue_addresses));
        let of_endpoints = request.endpoints.iter().map(|one| (&one.fteid, &one.ue_addresses));
        let mut given = of_pdrs.chain(of_endpoints);
        given.find_map(|(fteid, addresses)| {
            let tunnel = fteid.iter().filter_map(|fteid| match fteid {
                FTeid::Given(given) => Some(addresses_of(given.ipv4, given.ipv6)),
                FTeid::Choose { .. } => None,
            });
            let of_tunnel = tunnel.flatten().find_map(|address| {
                self.nodes.values().find(|node| node.state.tunnels.contains(&address))
            });
            let of_user = || {
                let given =
                    addresses.iter().flat_map(|one: &UeIpAddress| addresses_of(one.ipv4, one.ipv6));
                given.into_iter().find_map(|address| {
                    self.nodes.values().find(|node| is_within(&node.state.pools, address))
                })
            };
            of_tunnel.or_else(of_user)
        })
    }
}

fn addresses_of(
    ipv4: Option<std::net::Ipv4Addr>,
    ipv6: Option<std::net::Ipv6Addr>,
) -> impl Iterator<Item = IpAddr> {
    ipv4.map(IpAddr::from).into_iter().chain(ipv6.map(IpAddr::from))
}

/// What a node's share follows from: its room, and how fast it is if all have said so. In steps
/// of an eighth, so that few sessions would find another node when a session comes or goes.
fn weight(node: &Node, has_capacities: bool) -> f64 {
    let (sessions, most) = (f64::from(node.state.sessions), f64::from(node.state.most.max(1)));
    let free = ((1.0 - sessions / most) * 8.0).ceil().clamp(1.0, 8.0) / 8.0;
    let size = if has_capacities { node.plan.capacity as f64 } else { most };
    free * size
}

/// The highest score of all nodes wins: each with a likelihood that is its weight's share.
fn score(weight: f64, content: impl Hash) -> f64 {
    let hash = foldhash::quality::FixedState::default().hash_one(content);
    // Between 0 and 1, both left out.
    let uniform = ((hash >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    -weight / uniform.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_weights_and_few_sessions_change_nodes() {
        let best = |weights: &[f64], session: u32| {
            let all = weights.iter().enumerate();
            let scored = all.map(|(nth, weight)| (nth, score(*weight, (session, nth))));
            scored.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap().0
        };
        let (before, after) = ([1.0, 1.0, 2.0], [1.0, 1.0, 1.75]);
        let count = 40_000;
        let of = |node| (0..count).filter(|one| best(&before, *one) == node).count();
        for (node, share) in [(0, 0.25), (1, 0.25), (2, 0.5)] {
            let found = of(node) as f64 / f64::from(count);
            assert!((found - share).abs() < 0.02, "node {node}: {found}");
        }
        let moved = (0..count).filter(|one| best(&before, *one) != best(&after, *one));
        assert!(moved.count() < count as usize / 20);
    }
}
