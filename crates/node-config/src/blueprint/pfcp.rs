//! How control planes drive the node.

use std::net::IpAddr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The node as a user plane of PFCP (3GPP TS 29.244).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PfcpPlan {
    /// Addresses at which the node listens, one or one of each family.
    pub listen: Vec<IpAddr>,
    /// Whether flags or environment say these and not the file.
    pub is_listen_overruled: bool,
    /// UDP port.
    pub port: u16,
    /// Node ID.
    pub node_id: PfcpNodeId,
    /// Networks of control planes; none for any.
    pub peers: Vec<(IpAddr, u8)>,
    /// Networks of proxies that may speak for control planes.
    pub proxies: Vec<(IpAddr, u8)>,
    /// The entry of `users` that sessions are like.
    pub like: String,
    /// Where packets come from and go to.
    pub interfaces: Vec<PfcpInterfacePlan>,
    /// Which packets take a chain of their own.
    pub chains: Vec<PfcpChainPlan>,
    /// Time between Heartbeat Requests; none to send none.
    pub heartbeat: Option<Duration>,
    /// T1.
    pub t1: Duration,
    /// N1.
    pub n1: u8,
    /// For how long sessions outlive their control plane.
    pub restoration: Duration,
    /// Most control planes.
    pub associations: usize,
    /// Most sessions.
    pub sessions: usize,
    /// Most responses that are kept.
    pub transactions: usize,
    /// Most rules of a session.
    pub rules: usize,
    /// Guaranteed bit rates of all sessions together, uplink and downlink, in kbit/s; none where
    /// nothing bounds them.
    pub guaranteed: [Option<u64>; 2],
    /// Bound of TEIDs that the node chooses: users that move have those from there on.
    pub teids_below: u32,
}

impl PfcpPlan {
    /// Listens at these addresses before what the file says. A Node ID that was the first address
    /// is the first one of these.
    pub fn overrule_listen(&mut self, listen: &[IpAddr]) {
        let was_first = self.listen.first().map(|first| PfcpNodeId::Address(*first));
        if let Some(first) = listen.first().filter(|_| was_first.as_ref() == Some(&self.node_id)) {
            self.node_id = PfcpNodeId::Address(*first);
        }
        self.listen = listen.to_vec();
        self.is_listen_overruled = true;
    }
}

/// The identity of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PfcpNodeId {
    /// An address.
    Address(IpAddr),
    /// A domain name.
    Name(String),
}

/// An interface of sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PfcpInterfacePlan {
    /// The side.
    pub side: PfcpSide,
    /// The network instance of rules; none for any.
    pub network_instance: Option<String>,
    /// The network of the node.
    pub network: String,
    /// Addresses of tunnels, at most one of each family.
    pub addresses: Vec<IpAddr>,
    /// Networks of users.
    pub pools: Vec<(IpAddr, u8)>,
}

/// Which packets take a chain: all that is given must fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PfcpChainPlan {
    /// Network instance of the packet detection rule.
    pub network_instance: Option<String>,
    /// Its application.
    pub application: Option<String>,
    /// Forwarding policy.
    pub forwarding_policy: Option<String>,
    /// Predefined rule.
    pub predefined_rule: Option<String>,
    /// The chain.
    pub chain: String,
}

/// A side of the user plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum PfcpSide {
    /// Towards users.
    Access,
    /// Towards other user planes and data networks.
    Core,
    /// Towards data networks (N6, SGi); where no entry is of it, `core` holds.
    SgiLan,
    /// The control plane, for packets in tunnels between it and the node; where no entry is of
    /// it, `access` holds.
    CpFunction,
}
