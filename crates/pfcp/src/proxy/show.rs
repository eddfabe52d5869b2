//! What the proxy shows.

use serde::{Deserialize, Serialize};

use super::Proxy;

/// What was counted since the proxy started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Datagrams of control planes.
    pub received: u64,
    /// Messages to control planes.
    pub sent: u64,
    /// Datagrams of nodes.
    pub of_nodes: u64,
    /// Messages to nodes.
    pub forwarded: u64,
    /// Requests of the proxy that were sent again.
    pub sent_again: u64,
    /// Requests of the proxy that were not answered.
    pub unanswered: u64,
    /// Datagrams of senders that the configuration does not list, and messages of nodes for such:
    /// dropped.
    pub unlisted: u64,
    /// Datagrams and messages that could not be read: dropped.
    pub unreadable: u64,
    /// Messages of types that the proxy does not know: dropped.
    pub unknown_messages: u64,
    /// Requests that had come before.
    pub repeated: u64,
    /// Responses to nothing: dropped.
    pub unexpected: u64,
    /// Requests for which there was no room: dropped.
    pub no_transaction: u64,
    /// Requests that the proxy refused itself.
    pub refused: u64,
    /// Association requests under the name of another control plane: refused.
    pub hijacks: u64,
    /// Requests about sessions of no node, or of one that is given up: refused.
    pub no_node: u64,
    /// Sessions that nodes have established.
    pub established: u64,
    /// Sessions that a second node has established, as the first had no room or did not answer.
    pub placed_again: u64,
    /// Sessions that nodes have deleted on request.
    pub deleted: u64,
    /// Reports of nodes to control planes.
    pub reports: u64,
    /// Sessions with a SEID that is not of the node that gave it: deleted, and refused.
    pub wrong_seids: u64,
    /// Nodes of which control planes were told that their sessions are gone.
    pub losses: u64,
    /// Datagrams that came while too many waited: dropped.
    pub queue_full: u64,
}

impl Counts {
    /// All of them, by name.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("received", self.received),
            ("sent", self.sent),
            ("of_nodes", self.of_nodes),
            ("forwarded", self.forwarded),
            ("sent_again", self.sent_again),
            ("unanswered", self.unanswered),
            ("unlisted", self.unlisted),
            ("unreadable", self.unreadable),
            ("unknown_messages", self.unknown_messages),
            ("repeated", self.repeated),
            ("unexpected", self.unexpected),
            ("no_transaction", self.no_transaction),
            ("refused", self.refused),
            ("hijacks", self.hijacks),
            ("no_node", self.no_node),
            ("established", self.established),
            ("placed_again", self.placed_again),
            ("deleted", self.deleted),
            ("reports", self.reports),
            ("wrong_seids", self.wrong_seids),
            ("losses", self.losses),
            ("queue_full", self.queue_full),
        ]
        .into_iter()
    }
}

/// A node as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxiedNode {
    /// Its number.
    pub number: u16,
    /// Its name.
    pub name: String,
    /// Where it listens.
    pub address: String,
    /// What it is.
    pub state: String,
    /// Sessions that it has.
    pub sessions: u32,
    /// Sessions that it has room for.
    pub most: u32,
    /// Control planes that it is associated with.
    pub associations: usize,
}

/// A control plane as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxiedPeer {
    /// Node ID.
    pub node: String,
    /// Its address.
    pub address: String,
    /// Whether it answers.
    pub up: bool,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyView {
    /// Nodes, by number.
    pub nodes: Vec<ProxiedNode>,
    /// Control planes.
    pub peers: Vec<ProxiedPeer>,
    /// What was counted.
    pub counts: Counts,
}

impl Proxy {
    /// What there is.
    #[must_use]
    pub fn view(&self) -> ProxyView {
        let node = |node: &super::nodes::Node| ProxiedNode {
            number: node.plan.number,
            name: node.plan.name.to_string(),
            address: node.plan.address.to_string(),
            state: node.state_name().to_owned(),
            sessions: node.state.sessions,
            most: node.state.most,
            associations: node.associated.len(),
        };
        let peer =
            |(key, peer): (&crate::associations::NodeKey, &super::ControlPlane)| ProxiedPeer {
                node: key.to_string(),
                address: peer.address.to_string(),
                up: peer.is_heard,
            };
        ProxyView {
            nodes: self.nodes.values().map(node).collect(),
            peers: self.peers.iter().map(peer).collect(),
            counts: self.counts,
        }
    }
}
