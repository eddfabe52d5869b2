//! The end of many sessions at once: of an association, of sets (§6.2.8, TS 23.007 §23).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::establish::borrowed;
use super::{RELEASES, UserPlane};
use crate::associations::AssociationId;
use crate::codec::element::FqCsid;
use crate::codec::ie::*;
use crate::codec::message::{
    SessionSetDeletionRequest, SessionSetDeletionResponse, SessionSetModificationRequest,
    SessionSetModificationResponse,
};
use crate::codec::{Cause, Message};
use crate::refusal::Refusal;
use crate::transactions::TransactionId;

impl UserPlane {
    /// Ends an association at once, and its sessions one after the other.
    pub(super) fn drop_association(&mut self, id: AssociationId) {
        let Some(association) = self.associations.remove(id) else { return };
        self.keep_association(id);
        tracing::info!(peer = %association.node, sessions = association.sessions.len(),
            "association ended");
        for seid in &association.sessions {
            if let Some(record) = self.sessions.get_mut(seid) {
                record.association = None;
            }
        }
        self.releasing.extend(association.sessions);
    }

    /// Gives up some of the sessions that are to be given up.
    pub(super) fn release_some(&mut self) {
        let mut later = Vec::new();
        for _ in 0..RELEASES {
            let Some(seid) = self.releasing.pop() else { break };
            if !self.give_up(seid) {
                later.push(seid);
            }
        }
        self.releasing.extend(later);
    }

    pub(super) fn delete_sets(
        &mut self,
        id: TransactionId,
        request: &SessionSetDeletionRequest<'_>,
    ) -> Result<(), Refusal> {
        let known = self.associations.of_sender(&request.node, id.from.ip());
        let known = known.ok_or(Refusal::cause(Cause::NO_ASSOCIATION))?;
        if request.sets.is_empty() {
            return Err(Refusal::missing(FQ_CSID));
        }
        let found = self.of_sets(known, &request.sets);
        self.releasing.extend(found);
        let own = self.node_id_owned();
        let response = SessionSetDeletionResponse {
            node: borrowed(&own),
            cause: Cause::ACCEPTED,
            ..SessionSetDeletionResponse::default()
        };
        self.respond_kept(id, None, &Message::SessionSetDeletionResponse(response));
        Ok(())
    }

    /// The sessions of an association that are in one of the sets.
    fn of_sets(&self, id: AssociationId, sets: &[FqCsid]) -> Vec<u64> {
        let Some(association) = self.associations.get(id) else { return Vec::new() };
        let is_in = |own: &FqCsid| {
            sets.iter().any(|set| {
                set.node == own.node
                    && set.identifiers.iter().any(|one| own.identifiers.contains(one))
            })
        };
        let of_session = |seid: &&u64| {
            let record = self.sessions.get(*seid);
            let extras = record.and_then(|record| record.extras.as_ref());
            extras.is_some_and(|extras| extras.sets.iter().any(is_in))
        };
        association.sessions.iter().filter(of_session).copied().collect()
    }

    /// Reports of sessions go to another control plane of the set from now on.
    pub(super) fn move_sets(
        &mut self,
        id: TransactionId,
        request: &SessionSetModificationRequest<'_>,
    ) -> Result<(), Refusal> {
        let known = self.associations.of_sender(&request.node, id.from.ip());
        let known = known.ok_or(Refusal::cause(Cause::NO_ASSOCIATION))?;
        if request.changes.is_empty() {
            return Err(Refusal::missing(PFCP_SESSION_CHANGE_INFO));
        }
        let mut moves = Vec::new();
        for change in &request.changes {
            if !change.groups.is_empty() {
                return Err(Refusal::unsupported(GROUP_ID));
            }
            let wrong = Refusal::incorrect(ALTERNATIVE_SMF_IP_ADDRESS);
            let to = address_of(change.alternative.0).ok_or(wrong)?;
            let mut found = self.of_sets(known, &change.sets);
            let addresses: Vec<_> =
                change.addresses.iter().filter_map(|octets| address_of(octets.0)).collect();
            let all = change.sets.is_empty() && addresses.is_empty();
            let association = self.associations.get(known);
            for seid in association.map_or(&[][..], |one| one.sessions.as_slice()) {
                let record = self.sessions.get(seid);
                if all || record.is_some_and(|one| addresses.contains(&one.cp_address)) {
                    found.push(*seid);
                }
            }
            moves.push((found, to));
        }
        for (sessions, to) in moves {
            self.proxied.note_alike(to, id.from.ip());
            for seid in sessions {
                if let Some(record) = self.sessions.get_mut(&seid) {
                    record.cp_address = to;
                    let kept = self.session_to_keep(seid);
                    self.keep_all(kept.into_iter().collect());
                }
            }
        }
        let own = self.node_id_owned();
        let response = SessionSetModificationResponse {
            node: borrowed(&own),
            cause: Cause::ACCEPTED,
            ..SessionSetModificationResponse::default()
        };
        self.respond_kept(id, None, &Message::SessionSetModificationResponse(response));
        Ok(())
    }
}

/// The first address of Alternative SMF IP Address or CP IP Address: flags (V6, V4), IPv4, IPv6
/// (§8.2.118, §8.2.204).
fn address_of(octets: &[u8]) -> Option<IpAddr> {
    let (flags, rest) = octets.split_first()?;
    if flags & 0x02 != 0 {
        return rest.first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets).into());
    }
    if flags & 0x01 != 0 {
        return rest.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets).into());
    }
    None
}
