//! Heartbeats, associations and PFDs (§6.2).

use std::net::IpAddr;

use weft_functions::session::check::{is_domain, is_http_url};
use weft_functions::session::rules::{Name, SdfFilter};

use super::establish::borrowed;
use super::session::Record;
use super::{RELEASES, Sent, UserPlane};
use crate::associations::{Association, AssociationId, NodeKey};
use crate::codec::element::{
    AssociationRelease, GracePeriod, NodeReportType, PfdContents, RemoteGtpuPeer, Text, Time,
    UpFeatures,
};
use crate::codec::ie::*;
use crate::codec::message::{
    AssociationReleaseRequest, AssociationReleaseResponse, AssociationSetupRequest,
    AssociationSetupResponse, AssociationUpdateRequest, AssociationUpdateResponse, Heartbeat,
    NodeReportRequest, PathReport, PfdManagementRequest, PfdManagementResponse,
};
use crate::codec::{Cause, Message};
use crate::refusal::Refusal;
use crate::transactions::TransactionId;
use crate::translate::flow;

/// Most applications, and most filters of one.
const APPLICATIONS: usize = 4096;
const FILTERS: usize = 256;

/// A domain of a PFD.
fn domain_of(text: Text<'_>) -> Option<Name> {
    let text = std::str::from_utf8(text.0).ok()?.to_ascii_lowercase();
    is_domain(&text).then(|| Name::from(text.as_str()))
}

/// A URL of a PFD: of plain HTTP, as nothing else is seen in packets.
fn url_of(text: Text<'_>) -> Result<Name, Refusal> {
    let text = std::str::from_utf8(text.0).map_err(|_| Refusal::incorrect(PFD_CONTENTS))?;
    let (scheme, rest) = text.split_once("://").ok_or(Refusal::incorrect(PFD_CONTENTS))?;
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(Refusal::unsupported(PFD_CONTENTS));
    }
    // Hosts have no case, paths have.
    let at = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(at);
    let path = if path.is_empty() { "/" } else { path };
    let url = format!("http://{}{path}", authority.to_ascii_lowercase());
    match is_http_url(&url) {
        true => Ok(Name::from(url.as_str())),
        false => Err(Refusal::incorrect(PFD_CONTENTS)),
    }
}

impl UserPlane {
    pub(super) fn take_heartbeat(&mut self, now: u64, id: TransactionId, request: &Heartbeat<'_>) {
        let from = id.from.ip();
        let known = self.associations.iter().find(|(_, one)| one.address == from);
        if let Some((association, _)) = known {
            self.hear_recovery(now, association, request.recovery);
        }
        if self.answer_proxy(now, id) {
            return;
        }
        let response = Heartbeat { recovery: self.recovery, ..Heartbeat::default() };
        self.respond(id, None, &Message::HeartbeatResponse(response));
    }

    /// A control plane has said when it started.
    pub(super) fn hear_recovery(&mut self, now: u64, id: AssociationId, recovery: Time) {
        let heartbeat = self.next_heartbeat(now);
        let Some(association) = self.associations.get_mut(id) else { return };
        association.heartbeat = heartbeat;
        if association.recovery != recovery.0 {
            // It has lost its sessions, and will associate again (TS 23.527 §4.2).
            self.lose(now, id);
        } else if association.lost_until.take().is_some() {
            tracing::info!(peer = %association.node, "control plane answers again");
            self.keep_association(id);
        }
    }

    fn next_heartbeat(&self, now: u64) -> u64 {
        let interval = self.plan.heartbeat.map_or(0, |interval| interval.as_nanos() as u64);
        now.saturating_add(interval)
    }

    /// A control plane has restarted, or does not answer. Its sessions stay for a time.
    pub(super) fn lose(&mut self, now: u64, id: AssociationId) {
        let stay = u64::try_from(self.plan.restoration.as_nanos()).unwrap_or(u64::MAX);
        let Some(association) = self.associations.get_mut(id) else { return };
        if association.lost_until.is_none() {
            tracing::warn!(peer = %association.node, sessions = association.sessions.len(),
                "control plane has restarted or does not answer");
            association.lost_until = Some(now.saturating_add(stay));
            self.counts.lost += 1;
            self.keep_association(id);
        }
    }

    /// Sends heartbeats, and gives up sessions of control planes that did not come back.
    pub(super) fn look_after_associations(&mut self, now: u64) {
        let is_over = |one: &Association| one.lost_until.is_some_and(|until| until <= now);
        let over: Vec<_> =
            self.associations.iter().filter(|(_, one)| is_over(one)).map(|(id, _)| id).collect();
        for id in over {
            self.drop_association(id);
        }
        if self.plan.heartbeat.is_none() {
            return;
        }
        let next = self.next_heartbeat(now);
        let mut due: Vec<(AssociationId, IpAddr)> = Vec::new();
        for (id, one) in self.associations.iter_mut().filter(|(_, one)| one.heartbeat <= now) {
            one.heartbeat = next;
            due.push((id, one.address));
        }
        let heartbeat = Heartbeat { recovery: self.recovery, ..Heartbeat::default() };
        for (id, address) in due {
            let message = Message::HeartbeatRequest(heartbeat.clone());
            self.ask(now, address, None, &message, Sent::Heartbeat(id));
        }
    }

    pub(super) fn set_up(
        &mut self,
        now: u64,
        id: TransactionId,
        request: &AssociationSetupRequest<'_>,
    ) -> Result<(), Refusal> {
        let (node, from) = (NodeKey::of(&request.node), id.from.ip());
        let retains = request.retention.is_some();
        let retained = self.set_up_again(&node, from, request)?;
        if !retained {
            if self.associations.len() >= self.plan.associations {
                return Err(Refusal::cause(Cause::NO_RESOURCES));
            }
            let heartbeat = self.next_heartbeat(now);
            tracing::info!(peer = %node, address = %from, "control plane associated");
            let added = self.associations.add(Association {
                node,
                address: from,
                recovery: request.recovery.0,
                features: request.cp_features.unwrap_or_default(),
                sessions: Vec::new(),
                heartbeat,
                lost_until: None,
            });
            self.keep_association(added);
        }
        let own = self.node_id_owned();
        let response = AssociationSetupResponse {
            node: borrowed(&own),
            cause: Cause::ACCEPTED,
            recovery: self.recovery,
            up_features: Some(self.features()),
            flags: (retains && retained)
                .then_some(crate::codec::element::AssociationResponseFlags::PSREI),
            ..AssociationSetupResponse::default()
        };
        self.respond_kept(id, None, &Message::AssociationSetupResponse(response));
        Ok(())
    }

    /// A control plane that is known already: whether its association stays, with its sessions.
    fn set_up_again(
        &mut self,
        node: &NodeKey,
        from: IpAddr,
        request: &AssociationSetupRequest<'_>,
    ) -> Result<bool, Refusal> {
        let Some(known) = self.associations.of_node(node) else { return Ok(false) };
        let Some(association) = self.associations.get_mut(known) else { return Ok(false) };
        // Another sender has no right to the name while its owner answers.
        if association.address != from && association.lost_until.is_none() {
            self.counts.hijacks += 1;
            return Err(Refusal::cause(Cause::REJECTED));
        }
        let restarted = association.recovery != request.recovery.0;
        if restarted && request.retention.is_none() {
            // It has no sessions any more.
            self.drop_association(known);
            return Ok(false);
        }
        association.address = from;
        association.recovery = request.recovery.0;
        association.features = request.cp_features.unwrap_or_default();
        association.lost_until = None;
        self.keep_association(known);
        Ok(true)
    }

    /// What the node supports: nothing that it would refuse.
    pub(super) fn features(&self) -> UpFeatures {
        let always = UpFeatures::FTUP
            | UpFeatures::BUNDL
            | UpFeatures::EMPU
            | UpFeatures::PDIU
            | UpFeatures::DDND
            | UpFeatures::UDBC
            | UpFeatures::QUOAC
            | UpFeatures::MNOP
            | UpFeatures::VTIME
            | UpFeatures::IP6PL
            | UpFeatures::PFDM
            | UpFeatures::PFDE
            | UpFeatures::DLBD
            | UpFeatures::FRRT
            | UpFeatures::DPDRA
            | UpFeatures::SSET;
        let pools = if self.interfaces.has_pools() { UpFeatures::UEIP } else { UpFeatures(0) };
        let chains = if self.interfaces.has_chains() { UpFeatures::TRST } else { UpFeatures(0) };
        always | pools | chains
    }

    pub(super) fn update(
        &mut self,
        id: TransactionId,
        request: &AssociationUpdateRequest<'_>,
    ) -> Result<(), Refusal> {
        let known = self.associations.of_sender(&request.node, id.from.ip());
        let known = known.ok_or(Refusal::cause(Cause::NO_ASSOCIATION))?;
        if let Some(features) = request.cp_features
            && let Some(association) = self.associations.get_mut(known)
        {
            association.features = features;
        }
        self.keep_association(known);
        let own = self.node_id_owned();
        let response = AssociationUpdateResponse {
            node: borrowed(&own),
            cause: Cause::ACCEPTED,
            up_features: Some(self.features()),
            ..AssociationUpdateResponse::default()
        };
        self.respond_kept(id, None, &Message::AssociationUpdateResponse(response));
        Ok(())
    }

    pub(super) fn end(
        &mut self,
        id: TransactionId,
        request: &AssociationReleaseRequest<'_>,
    ) -> Result<(), Refusal> {
        let known = self.associations.of_sender(&request.node, id.from.ip());
        let known = known.ok_or(Refusal::cause(Cause::NO_ASSOCIATION))?;
        self.drop_association(known);
        let own = self.node_id_owned();
        let response = AssociationReleaseResponse {
            node: borrowed(&own),
            cause: Cause::ACCEPTED,
            refused: None,
        };
        self.respond_kept(id, None, &Message::AssociationReleaseResponse(response));
        Ok(())
    }

    /// Asks all control planes to release their associations within so many seconds, as the node
    /// stops (§6.2.8.3).
    pub fn ask_for_release(&mut self, now: u64, seconds: u64) {
        let own = self.node_id_owned();
        let message = Message::AssociationUpdateRequest(AssociationUpdateRequest {
            node: borrowed(&own),
            release: Some(AssociationRelease::SARR),
            grace: Some(GracePeriod::at_least(seconds)),
            ..AssociationUpdateRequest::default()
        });
        let up = self.associations.iter().filter(|(_, one)| one.lost_until.is_none());
        let to: Vec<_> = up.map(|(_, one)| one.address).collect();
        for address in to {
            self.ask(now, address, None, &message, Sent::ReleaseRequest);
        }
    }

    /// Takes the filters of applications. Rules of sessions that name them follow, some sessions
    /// at a time.
    pub(super) fn manage_pfds(
        &mut self,
        id: TransactionId,
        request: &PfdManagementRequest<'_>,
    ) -> Result<(), Refusal> {
        let from = id.from.ip();
        if !self.associations.iter().any(|(_, one)| one.address == from) {
            return Err(Refusal::cause(Cause::NO_ASSOCIATION));
        }
        let mut applications = self.applications.clone();
        if request.applications.is_empty() {
            // Without any, all are removed (§6.2.5.2).
            applications.clear();
        }
        for one in &request.applications {
            let name: String = one.application.name().collect();
            let contents = one.contexts.iter().flat_map(|context| &context.contents);
            let mut filters = Vec::new();
            for PfdContents { descriptions, urls, domains, custom } in contents {
                if custom.is_some() {
                    return Err(Refusal::unsupported(PFD_CONTENTS));
                }
                for text in urls {
                    let domain = Some(url_of(*text)?);
                    filters.push(SdfFilter { domain, ..SdfFilter::default() });
                }
                // Names are looked for in DNS and TLS, whichever protocol is said.
                for (domain, _) in domains {
                    let domain = domain_of(*domain).ok_or(Refusal::incorrect(PFD_CONTENTS))?;
                    filters.push(SdfFilter { domain: Some(domain), ..SdfFilter::default() });
                }
                for text in descriptions {
                    let flow = std::str::from_utf8(text.0).ok().and_then(flow::parse);
                    let flow = flow.ok_or(Refusal::incorrect(PFD_CONTENTS))?;
                    filters.push(SdfFilter { flow: Some(flow), ..SdfFilter::default() });
                }
            }
            if filters.is_empty() {
                applications.remove(name.as_str());
            } else {
                applications.insert(name.into(), filters);
            }
        }
        if applications.len() > APPLICATIONS
            || applications.values().any(|filters| filters.len() > FILTERS)
        {
            return Err(Refusal::cause(Cause::NO_RESOURCES));
        }
        let before = std::mem::replace(&mut self.applications, applications);
        self.keep_applications(&before);
        self.note_filters(&before);
        let response =
            PfdManagementResponse { cause: Cause::ACCEPTED, ..PfdManagementResponse::default() };
        self.respond_kept(id, None, &Message::PfdManagementResponse(response));
        Ok(())
    }

    /// Sessions whose PDRs name an application that has other filters now get them soon.
    fn note_filters(&mut self, before: &crate::translate::Applications) {
        let is_other = |name: &str| {
            let now = self.applications.get(name);
            now.is_some() && now != before.get(name)
        };
        let has_other = |record: &Record| {
            let pdrs = record.extras.iter().flat_map(|extras| &extras.pdrs);
            let mut names = pdrs.filter_map(|pdr| pdr.traits.application.as_deref());
            names.any(is_other)
        };
        let sessions = self.sessions.iter();
        let found: Vec<_> =
            sessions.filter(|(_, record)| has_other(record)).map(|(seid, _)| *seid).collect();
        self.filtering.extend(found);
    }

    /// Gives some of them their filters.
    pub(super) fn filter_some(&mut self) {
        let mut later = Vec::new();
        for _ in 0..RELEASES {
            let Some(seid) = self.filtering.pop() else { break };
            if !self.filter_anew(seid) {
                later.push(seid);
            }
        }
        self.filtering.extend(later);
    }

    /// A GTP-U peer has failed, or answers again: all control planes are told (§6.2.9).
    pub fn path_event(&mut self, now: u64, peer: IpAddr, failed: bool) {
        let address = match peer {
            IpAddr::V4(ipv4) => RemoteGtpuPeer { ipv4: Some(ipv4), ..RemoteGtpuPeer::default() },
            IpAddr::V6(ipv6) => RemoteGtpuPeer { ipv6: Some(ipv6), ..RemoteGtpuPeer::default() },
        };
        let paths = PathReport { peers: vec![address], refused: None };
        let own = self.node_id_owned();
        let (report, failed_paths, recovered) = if failed {
            (NodeReportType::UPFR, Some(paths), None)
        } else {
            (NodeReportType::UPRR, None, Some(paths))
        };
        let message = Message::NodeReportRequest(NodeReportRequest {
            node: borrowed(&own),
            report,
            failed: failed_paths,
            recovered,
            refused: None,
        });
        let to: Vec<_> = self.associations.iter().map(|(_, one)| one.address).collect();
        for address in to {
            self.ask(now, address, None, &message, Sent::NodeReport);
        }
    }
}
