//! What the node shows of PFCP.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::UserPlane;

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
    /// Session reports.
    pub reports: u64,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
        }
    }

    /// At most so many sessions behind the first ones, in no order.
    #[must_use]
    pub fn sessions_view(&self, first: usize, most: usize) -> Vec<SessionView> {
        let views = self.sessions.iter().skip(first).take(most).map(|(seid, record)| {
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
                seid: format!("{seid:016x}"),
                cp_seid: format!("{:016x}", record.cp_seid),
                cp_address: record.cp_address.to_string(),
                ue_addresses,
                teids,
                rules: [rules.pdrs.len(), rules.fars.len(), rules.qers.len(), rules.urrs.len()],
            }
        });
        views.collect()
    }
}
