//! Session establishment (§6.3.2), and the common end of all changes.

use std::sync::Arc;

use weft_functions::session::rules::{PdrId, Session, Urr};
use weft_functions::session::usage::Usage;
use weft_node::bearer::session::{SessionCommand, SessionError, SessionId};

use super::UserPlane;
use super::refusing::refusing;
use super::session::{Change, Record, Work};
use crate::associations::AssociationId;
use crate::codec::element::{AdditionalReports, FSeid, NodeId, PdnType, Text};
use crate::codec::ie::*;
use crate::codec::message::{
    MessageType, SessionDeletionResponse, SessionEstablishmentRequest,
    SessionEstablishmentResponse, SessionModificationResponse,
};
use crate::codec::{Cause, Message};
use crate::refusal::Refusal;
use crate::transactions::TransactionId;
use crate::translate::{Draft, Drafted, Extras, Owner, Surroundings, keys, rule_of_pdr};

/// Refuses what is no session of this node.
fn can_be(request: &SessionEstablishmentRequest<'_>) -> Result<(), Refusal> {
    if let Some(PdnType::NON_IP | PdnType::ETHERNET) = request.pdn_type {
        return Err(Refusal::unsupported(PDN_TYPE));
    }
    let missing = match (request.pdrs.is_empty(), request.fars.is_empty()) {
        (true, _) => CREATE_PDR,
        (false, true) => CREATE_FAR,
        (false, false) => return Ok(()),
    };
    Err(Refusal { cause: Cause::MANDATORY_IE_MISSING, ..Refusal::missing(missing) })
}

impl UserPlane {
    pub(super) fn establish(
        &mut self,
        id: TransactionId,
        request: &SessionEstablishmentRequest<'_>,
    ) -> Result<(), Refusal> {
        let from = id.from.ip();
        let association = self.associations.of_sender(&request.node, from);
        let association = association.ok_or(Refusal::cause(Cause::NO_ASSOCIATION))?;
        can_be(request)?;
        if self.sessions.len() >= self.plan.sessions {
            return Err(Refusal::cause(Cause::NO_RESOURCES));
        }
        let mut draft = self.draft(Session::default(), Extras::default(), Some(association));
        draft.extras.sets.clone_from(&request.sets);
        draft.rules.inactivity =
            request.inactivity.map(|seconds| seconds.0).filter(|seconds| *seconds > 0);
        let outcome = fill(&mut draft, request);
        draft.choose_chains();
        let drafted = draft.finish(outcome)?;
        let Drafted { rules, extras, created, created_endpoints, acquired, .. } = drafted;
        let chosen = self.draw_seid(from);
        let admits = |plane: &mut UserPlane| plane.admission.begin(&Session::default(), &rules);
        let Some(seid) = chosen.filter(|_| admits(self)) else {
            acquired.give_back(&mut self.interfaces);
            return Err(Refusal::cause(Cause::NO_RESOURCES));
        };
        if let Some(address) = request.fseid.like(from) {
            self.proxied.note_alike(address, from);
        }
        let rules = Arc::new(rules);
        let place = self.associations.get_mut(association).map_or(0, |association| {
            association.sessions.push(seid);
            association.sessions.len() as u32 - 1
        });
        self.sessions.insert(
            seid,
            Record {
                cp_seid: request.fseid.seid,
                cp_address: request.fseid.like(from).unwrap_or(from),
                association: Some(association),
                place,
                is_committing: true,
                rules: rules.clone(),
                extras: (extras != Extras::default()).then(|| Box::new(extras)),
            },
        );
        self.commands.push(SessionCommand::Establish {
            id: SessionId(seid),
            like: self.like.clone(),
            rules,
        });
        self.works.push(Work::Establish { seid, id, created, created_endpoints, acquired });
        Ok(())
    }

    /// A change of rules of a session that belongs to this control plane.
    pub(super) fn draft(
        &mut self,
        rules: Session,
        extras: Extras,
        owner: Option<AssociationId>,
    ) -> Draft<'_> {
        let node = Surroundings {
            owner: Owner { listen: &self.plan.listen, association: owner },
            known: &mut self.known,
            interfaces: &mut self.interfaces,
            applications: &self.applications,
            entropy: &mut self.entropy,
            most_rules: self.plan.rules,
        };
        Draft::new(rules, extras, node)
    }

    /// Whether a session's change is not committed yet.
    pub(super) fn is_committing(&self, seid: u64) -> bool {
        self.sessions.get(&seid).is_some_and(|record| record.is_committing)
    }

    /// The agent has taken a command.
    pub(super) fn commit(&mut self, mut work: Work) -> Work {
        match &mut work {
            Work::Establish { seid, .. } => {
                if let Some(record) = self.sessions.get_mut(seid) {
                    record.is_committing = false;
                }
                self.counts.established += 1;
            }
            Work::Change(change) => self.commit_change(change),
            Work::Delete { seid, record, .. } => {
                *record = self.forget(*seid).map(Box::new);
                self.counts.deleted += 1;
            }
        }
        work
    }

    fn commit_change(&mut self, change: &mut Change) {
        let Some(record) = self.sessions.get_mut(&change.seid) else { return };
        record.is_committing = false;
        let before = std::mem::replace(&mut record.rules, change.rules.clone());
        let extras = std::mem::replace(&mut record.extras, change.extras.take());
        self.admission.end(&record.rules, &before);
        let is_gone = |old: &&Urr| record.rules.urrs.iter().all(|urr| !urr.is(old));
        change.gone = before.urrs.iter().filter(is_gone).map(|urr| urr.id).collect();
        if let Some((seid, address)) = change.cp {
            (record.cp_seid, record.cp_address) = (seid, address);
        }
        let (old_tunnels, old_addresses) = keys(&before, extras.as_deref());
        let (tunnels, addresses) = keys(&record.rules, record.extras.as_deref());
        for (network, tunnel) in old_tunnels {
            if !tunnels.contains(&(network.clone(), tunnel)) {
                self.interfaces.release(Some(&network), tunnel);
            }
        }
        for address in old_addresses {
            if !addresses.contains(&address) {
                self.interfaces.release_address(address);
            }
        }
        self.counts.modified += 1;
    }

    /// Removes what is known of a session, and gives back its tunnels and addresses.
    pub(super) fn forget(&mut self, seid: u64) -> Option<Record> {
        let record = self.sessions.remove(&seid)?;
        self.admission.end(&Session::default(), &record.rules);
        let association = record.association.and_then(|id| self.associations.get_mut(id));
        if let Some(association) = association {
            let place = record.place as usize;
            if association.sessions.get(place) == Some(&seid) {
                association.sessions.swap_remove(place);
                if let Some(moved) = association.sessions.get(place)
                    && let Some(moved) = self.sessions.get_mut(moved)
                {
                    moved.place = record.place;
                }
            }
        }
        let (tunnels, addresses) = keys(&record.rules, record.extras.as_deref());
        for (network, tunnel) in tunnels {
            self.interfaces.release(Some(&network), tunnel);
        }
        for address in addresses {
            self.interfaces.release_address(address);
        }
        Some(record)
    }

    /// The agent has refused a command: everything is as it was before the request.
    pub(super) fn abandon(&mut self, work: Work, error: &SessionError) {
        match work {
            Work::Establish { seid, id, acquired, .. } => {
                let record = self.sessions.get(&seid);
                let (cp_seid, refusal) = match record {
                    Some(record) => (record.cp_seid, refusal_of(error, &record.rules)),
                    None => (0, Refusal::cause(Cause::SYSTEM_FAILURE)),
                };
                // Its keys may be another session's: only what was taken for it is given back.
                if let Some(record) = self.sessions.get_mut(&seid) {
                    self.admission.end(&Session::default(), &record.rules);
                    record.rules = Arc::default();
                    record.extras = None;
                }
                self.forget(seid);
                acquired.give_back(&mut self.interfaces);
                let kind = MessageType::SessionEstablishmentRequest;
                self.refuse(id, kind, Some(cp_seid), refusal);
            }
            Work::Change(change) => {
                let Change { seid, cp_seid, id, rules, acquired, .. } = *change;
                if let Some(record) = self.sessions.get_mut(&seid) {
                    record.is_committing = false;
                    self.admission.end(&record.rules, &rules);
                }
                acquired.give_back(&mut self.interfaces);
                if let Some(id) = id {
                    let refusal = refusal_of(error, &rules);
                    let kind = MessageType::SessionModificationRequest;
                    self.refuse(id, kind, Some(cp_seid), refusal);
                }
            }
            Work::Delete { seid, cp_seid, id, .. } => {
                if let Some(record) = self.sessions.get_mut(&seid) {
                    record.is_committing = false;
                }
                match (id, error) {
                    // It is gone already.
                    (_, SessionError::Unknown(_)) => {
                        self.forget(seid);
                    }
                    // Tried again in the next round.
                    (None, _) => self.releasing.push(seid),
                    (Some(_), _) => {}
                }
                if let Some(id) = id {
                    let refusal = refusal_of(error, &Session::default());
                    self.refuse(id, MessageType::SessionDeletionRequest, Some(cp_seid), refusal);
                }
            }
        }
    }

    /// Packets see a batch of commands: their requests are answered.
    pub(super) fn applied(&mut self, batch: u64, usage: Vec<(SessionId, Vec<Usage>)>) {
        let Some(works) = self.applying.remove(&batch) else { return };
        let usage: std::collections::HashMap<_, _> = usage.into_iter().collect();
        for (work, kept) in works {
            self.keep_all(kept);
            match work {
                Work::Establish { seid, id, created, created_endpoints, .. } => {
                    self.answer_establishment(id, seid, created, created_endpoints);
                }
                Work::Change(change) => {
                    let usage = usage.get(&SessionId(change.seid)).map_or(&[][..], Vec::as_slice);
                    self.answer_change(*change, usage);
                }
                Work::Delete { seid, cp_seid, id, record } => {
                    let usage = usage.get(&SessionId(seid)).map_or(&[][..], Vec::as_slice);
                    let Some(id) = id else { continue };
                    let Some(record) = record else { continue };
                    let (load, overload) = self.load_for(id.from.ip());
                    let reports = usage.iter().map(|one| self.usage_report(one, &record, None));
                    let response = SessionDeletionResponse {
                        cause: Cause::ACCEPTED,
                        load,
                        overload,
                        reports: reports.collect(),
                        additional: None,
                        ..SessionDeletionResponse::default()
                    };
                    let response = Message::SessionDeletionResponse(response);
                    self.respond_kept(id, Some(cp_seid), &response);
                }
            }
        }
    }

    fn answer_establishment(
        &mut self,
        id: TransactionId,
        seid: u64,
        created: Vec<crate::codec::rule::CreatedPdr>,
        created_endpoints: Vec<crate::codec::rule::CreatedTrafficEndpoint>,
    ) {
        let node = self.node_id_owned();
        let cp_seid = self.sessions.get(&seid).map_or(0, |record| record.cp_seid);
        let (load, overload) = self.load_for(id.from.ip());
        let response = SessionEstablishmentResponse {
            node: borrowed(&node),
            cause: Cause::ACCEPTED,
            load,
            overload,
            fseid: Some(FSeid::at(seid, self.own_address(id.from.ip()))),
            created,
            created_endpoints,
            ..SessionEstablishmentResponse::default()
        };
        self.respond_kept(id, Some(cp_seid), &Message::SessionEstablishmentResponse(response));
    }

    fn answer_change(&mut self, change: Change, usage: &[Usage]) {
        self.keep_reported(change.seid, usage);
        let Some(id) = change.id else { return };
        let (load, overload) = self.load_for(id.from.ip());
        let Some(record) = self.sessions.get(&change.seid) else {
            let refusal = Refusal::cause(Cause::SESSION_NOT_FOUND);
            let kind = MessageType::SessionModificationRequest;
            return self.refuse(id, kind, Some(change.cp_seid), refusal);
        };
        let reports = usage.iter().map(|one| self.usage_report(one, record, change.query));
        let response = SessionModificationResponse {
            cause: Cause::ACCEPTED,
            load,
            overload,
            created: change.created,
            updated: change.updated,
            created_endpoints: change.created_endpoints,
            reports: reports.collect(),
            additional: None::<AdditionalReports>,
            ..SessionModificationResponse::default()
        };
        let seid = record.cp_seid;
        self.respond_kept(id, Some(seid), &Message::SessionModificationResponse(response));
    }

    /// Answers that a request is not done.
    pub(super) fn refuse(
        &mut self,
        id: TransactionId,
        kind: MessageType,
        seid: Option<u64>,
        refusal: Refusal,
    ) {
        self.counts.refused += 1;
        if refusal.cause == Cause::CONGESTION {
            self.load.note_overload();
        }
        let Refusal { cause, offending, .. } = &refusal;
        tracing::debug!(peer = %id.from, request = kind.name(), %cause, ?offending, "refused");
        let own = self.node_id_owned();
        let Some(message) = refusing(kind, borrowed(&own), self.recovery, refusal) else { return };
        let seid = kind.has_seid().then(|| seid.unwrap_or(0));
        self.respond(id, seid, &message);
    }

    /// The node's identity, apart from the rest of it.
    pub(super) fn node_id_owned(&self) -> OwnNode {
        match self.node_id() {
            NodeId::Address(address) => OwnNode::Address(address),
            NodeId::Fqdn(Text(name)) => OwnNode::Name(name.to_vec()),
        }
    }
}

/// The node's identity.
pub(super) enum OwnNode {
    Address(std::net::IpAddr),
    Name(Vec<u8>),
}

pub(super) fn borrowed(node: &OwnNode) -> NodeId<'_> {
    match node {
        OwnNode::Address(address) => NodeId::Address(*address),
        OwnNode::Name(name) => NodeId::Fqdn(Text(name)),
    }
}

fn fill(draft: &mut Draft<'_>, request: &SessionEstablishmentRequest<'_>) -> Result<(), Refusal> {
    draft.note_user(request.endpoints.iter().flat_map(|endpoint| &endpoint.ue_addresses));
    draft.note_user(request.pdrs.iter().flat_map(|pdr| &pdr.pdi.ue_addresses));
    request.bar.iter().try_for_each(|bar| draft.create_bar(bar))?;
    request.endpoints.iter().try_for_each(|endpoint| draft.create_endpoint(endpoint))?;
    request.urrs.iter().try_for_each(|urr| draft.create_urr(urr))?;
    request.qers.iter().try_for_each(|qer| draft.create_qer(qer))?;
    request.fars.iter().try_for_each(|far| draft.create_far(far))?;
    request.pdrs.iter().try_for_each(|pdr| draft.create_pdr(pdr))
}

/// What the control plane is told of a command that the agent has refused.
fn refusal_of(error: &SessionError, rules: &Session) -> Refusal {
    let pdr = |index: usize| rules.pdrs.get(index).map_or(PdrId(0), |pdr| pdr.id);
    match error {
        SessionError::Exists(_) => Refusal::cause(Cause::REJECTED),
        SessionError::Unknown(_) => Refusal::cause(Cause::SESSION_NOT_FOUND),
        SessionError::NoFunction | SessionError::NoPlan(_) => {
            tracing::error!("a PFCP session cannot be had: {error}");
            Refusal::cause(Cause::SYSTEM_FAILURE)
        }
        SessionError::Rule { path, message } => {
            tracing::debug!("{path}: {message}");
            let mut parts = path.split('.');
            let index = |text: Option<&str>| text.and_then(|text| text.parse().ok()).unwrap_or(0);
            match (parts.next(), index(parts.next())) {
                (Some("fars"), index) => {
                    let far = rules.fars.get(index).map(|far| far.id).unwrap_or_default();
                    Refusal::rule(crate::translate::rule_of_far(far))
                }
                (Some("urrs"), index) => {
                    let urr = rules.urrs.get(index).map(|urr| urr.id).unwrap_or_default();
                    Refusal::rule(crate::translate::rule_of_urr(urr))
                }
                (Some("qers"), index) => {
                    let qer = rules.qers.get(index).map(|qer| qer.id).unwrap_or_default();
                    Refusal::rule(crate::translate::rule_of_qer(qer))
                }
                (_, index) => Refusal::rule(rule_of_pdr(pdr(index))),
            }
        }
        SessionError::KeyTaken(_) | SessionError::NoKey => Refusal::rule(rule_of_pdr(pdr(0))),
        SessionError::NoRoom => Refusal::cause(Cause::NO_RESOURCES),
        SessionError::Busy => Refusal::cause(Cause::CONGESTION),
    }
}
