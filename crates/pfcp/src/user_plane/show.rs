//! What the node shows of PFCP.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weft_node::bearer::session::SessionId;

use super::UserPlane;
use super::session::Record;
use crate::codec::message::MessageType;
use crate::codec::{Cause, Message};

/// What was counted since the node started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Datagrams of control planes.
    pub received: u64,
    /// Messages to them.
    pub sent: u64,
    /// Requests to them that were sent again.
    pub sent_again: u64,
    /// Requests to them that were not answered.
    pub unanswered: u64,
    /// Datagrams of senders that the configuration does not list: dropped.
    pub unlisted: u64,
    /// Datagrams and messages that could not be read.
    pub unreadable: u64,
    /// Messages of types that the node does not know: dropped.
    pub unknown_messages: u64,
    /// Requests that had come before.
    pub repeated: u64,
    /// Responses to nothing.
    pub unexpected: u64,
    /// Requests, of either side, for which there was no room.
    pub no_transaction: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Association requests under the name of another control plane: refused.
    pub hijacks: u64,
    /// Control planes that restarted or did not answer.
    pub lost: u64,
    /// Sessions that were established.
    pub established: u64,
    /// Sessions that were changed.
    pub modified: u64,
    /// Sessions that ended.
    pub deleted: u64,
    /// Datagrams that came while too many waited: dropped.
    pub queue_full: u64,
    /// Session reports of usage.
    pub usage_reports: u64,
    /// Session reports of downlink data.
    pub downlink_data_reports: u64,
    /// Session reports of Error Indications.
    pub error_reports: u64,
    /// Session reports of inactivity.
    pub inactivity_reports: u64,
}

impl Counts {
    /// Session reports.
    #[must_use]
    pub fn reports(&self) -> u64 {
        self.usage_reports
            + self.downlink_data_reports
            + self.error_reports
            + self.inactivity_reports
    }
}

/// Messages of one type, and responses of one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageCount {
    /// The type, such as `session_report_request`.
    pub message: String,
    /// `rx` or `tx`.
    pub direction: String,
    /// Number of the cause (§8.2.1), of a response that has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// How many.
    pub count: u64,
}

/// Messages that were received and sent, by type and cause.
#[derive(Debug)]
pub(super) struct Messages(BTreeMap<(MessageDirection, MessageType, Option<Cause>), u64>);

/// Which way a message went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MessageDirection {
    Received,
    Sent,
}

/// What every control plane sends, and what accepts it.
const USUAL: [(MessageType, MessageType); 5] = [
    (MessageType::AssociationSetupRequest, MessageType::AssociationSetupResponse),
    (MessageType::AssociationReleaseRequest, MessageType::AssociationReleaseResponse),
    (MessageType::SessionEstablishmentRequest, MessageType::SessionEstablishmentResponse),
    (MessageType::SessionModificationRequest, MessageType::SessionModificationResponse),
    (MessageType::SessionDeletionRequest, MessageType::SessionDeletionResponse),
];

impl Default for Messages {
    /// A rate needs counts from before the first message, so the usual ones begin with 0.
    fn default() -> Messages {
        let both = |(request, response)| {
            [
                ((MessageDirection::Received, request, None), 0),
                ((MessageDirection::Sent, response, Some(Cause::ACCEPTED)), 0),
            ]
        };
        Messages(USUAL.into_iter().flat_map(both).collect())
    }
}

impl Messages {
    /// One was received.
    pub fn received(&mut self, kind: MessageType, cause: Option<Cause>) {
        *self.0.entry((MessageDirection::Received, kind, cause)).or_default() += 1;
    }

    /// One was sent, or sent again.
    pub fn sent(&mut self, message: &Message<'_>) {
        *self
            .0
            .entry((MessageDirection::Sent, message.message_type(), message.cause()))
            .or_default() += 1;
    }

    fn view(&self) -> Vec<MessageCount> {
        let one = |((direction, kind, cause), count): (
            &(MessageDirection, MessageType, Option<Cause>),
            &u64,
        )| {
            MessageCount {
                message: kind.name().to_lowercase().replace(' ', "_"),
                direction: if *direction == MessageDirection::Received { "rx" } else { "tx" }
                    .to_owned(),
                cause: cause.map(|cause| cause.0.to_string()),
                count: *count,
            }
        };
        self.0.iter().map(one).collect()
    }
}

/// An association.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AssociationView {
    /// Node ID of the control plane.
    pub node: String,
    /// Its address.
    pub address: String,
    /// When it started, in seconds since 1970.
    pub started: u64,
    /// What it supports.
    pub features: Vec<String>,
    /// How many sessions it has.
    pub sessions: usize,
    /// Whether it answers.
    pub up: bool,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionView {
    /// Its name as a user of the node.
    #[serde(default)]
    pub name: String,
    /// The node's SEID, in hexadecimal digits.
    pub seid: String,
    /// The control plane's SEID, in hexadecimal digits.
    pub cp_seid: String,
    /// The control plane's address.
    pub cp_address: String,
    /// The user's addresses.
    pub ue_addresses: Vec<String>,
    /// Tunnels of the node.
    pub teids: Vec<u32>,
    /// Numbers of PDRs, FARs, QERs and URRs.
    pub rules: [usize; 4],
}

/// Associations and counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PfcpView {
    /// The control planes.
    pub associations: Vec<AssociationView>,
    /// How many sessions there are.
    pub sessions: usize,
    /// Requests whose responses are kept, and requests that wait for one.
    pub transactions: [usize; 2],
    /// What the node says that it supports.
    pub features: Vec<String>,
    /// What was counted.
    pub counts: Counts,
    /// Messages by type and cause.
    #[serde(default)]
    pub messages: Vec<MessageCount>,
}

impl UserPlane {
    /// Associations and counts.
    #[must_use]
    pub fn view(&self) -> PfcpView {
        let associations = self.associations.iter().map(|(_, one)| AssociationView {
            node: one.node.to_string(),
            address: one.address.to_string(),
            started: crate::codec::element::Time(one.recovery).unix(),
            features: one.features.names().map(str::to_owned).collect(),
            sessions: one.sessions.len(),
            up: one.lost_until.is_none(),
        });
        PfcpView {
            associations: associations.collect(),
            sessions: self.sessions.len(),
            transactions: [self.incoming.len(), self.outgoing.len()],
            features: self.features().names().map(str::to_owned).collect(),
            counts: self.counts,
            messages: self.messages.view(),
        }
    }

    /// At most so many sessions behind the first ones, in no order.
    #[must_use]
    pub fn sessions_view(&self, first: usize, most: usize) -> Vec<SessionView> {
        let some = self.sessions.iter().skip(first).take(most);
        some.map(|(seid, record)| view_of(*seid, record)).collect()
    }

    /// Looks for sessions.
    #[must_use]
    pub fn find_sessions(&self, search: &Search) -> Found {
        let mut found = Found::default();
        let looked_at = self.sessions.iter().enumerate().skip(search.first).take(LOOKED_AT);
        for (position, (seid, record)) in looked_at {
            if found.sessions.len() >= search.count {
                return Found { next: Some(position), ..found };
            }
            if search.is_met(record) {
                found.sessions.push(view_of(*seid, record));
            }
        }
        let next = search.first.saturating_add(LOOKED_AT);
        Found { next: Some(next).filter(|next| *next < self.sessions.len()), ..found }
    }
}

/// Sessions that one search looks at, at most: what else there is to do comes in between.
const LOOKED_AT: usize = 16_384;

/// Which sessions are looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// Sessions that are skipped.
    pub first: usize,
    /// Sessions that are wanted, at most.
    pub count: usize,
    /// Only those of the control plane at this address.
    pub control_plane: Option<IpAddr>,
    /// Only those of this user's address.
    pub ue: Option<IpAddr>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The sessions, in no order.
    pub sessions: Vec<SessionView>,
    /// Sessions that are to be skipped for the next ones; none if there are no more.
    pub next: Option<usize>,
}

impl Search {
    fn is_met(&self, record: &Record) -> bool {
        let is_users = |address: IpAddr| {
            let mut addresses = record.rules.pdrs.iter().filter_map(|pdr| pdr.ue.as_ref());
            addresses.any(|ue| {
                let ipv4 = ue.ipv4.is_some_and(|own| own == address);
                ipv4 || ue.ipv6.is_some_and(|own| own.overlaps(address.into()))
            })
        };
        self.control_plane.is_none_or(|address| address == record.cp_address)
            && self.ue.is_none_or(is_users)
    }
}

fn view_of(seid: u64, record: &Record) -> SessionView {
    let rules = &record.rules;
    let mut ue_addresses = Vec::new();
    let mut teids = Vec::new();
    for pdr in &rules.pdrs {
        let ue = pdr.ue.as_ref();
        let ipv4 = ue.and_then(|ue| ue.ipv4).map(|address| address.to_string());
        let ipv6 = ue.and_then(|ue| ue.ipv6).map(|prefix| prefix.to_string());
        for address in ipv4.into_iter().chain(ipv6) {
            if !ue_addresses.contains(&address) {
                ue_addresses.push(address);
            }
        }
        if let Some(local) = pdr.local.filter(|local| !teids.contains(&local.teid)) {
            teids.push(local.teid);
        }
    }
    SessionView {
        name: SessionId(seid).user_name(),
        seid: format!("{seid:016x}"),
        cp_seid: format!("{:016x}", record.cp_seid),
        cp_address: record.cp_address.to_string(),
        ue_addresses,
        teids,
        rules: [rules.pdrs.len(), rules.fars.len(), rules.qers.len(), rules.urrs.len()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_messages_are_counted_from_before_the_first() {
        let mut messages = Messages::default();
        let kind = MessageType::SessionDeletionRequest;
        let count = |messages: &Messages| {
            let view = messages.view();
            assert_eq!(view.len(), 2 * USUAL.len());
            let mut of_kind = view.iter().filter(|one| one.message == "session_deletion_request");
            of_kind.next().map(|one| (one.direction.clone(), one.cause.clone(), one.count))
        };
        assert_eq!(count(&messages), Some(("rx".to_owned(), None, 0)));
        messages.received(kind, None);
        assert_eq!(count(&messages), Some(("rx".to_owned(), None, 1)));
    }
}
