//! How control planes drive the node.

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::Rate;

use crate::blueprint::PfcpSide;
use crate::values::{Ip, Subnet};

/// How control planes drive the node by PFCP (3GPP TS 29.244), over UDP.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Pfcp")]
pub struct PfcpFile {
    /// Addresses of the machine at which the node listens, at most one of each family.
    pub listen: Vec<Ip>,
    /// UDP port at which the node listens.
    #[serde(default = "pfcp_port")]
    #[schemars(range(min = 1))]
    pub port: u16,
    /// Node ID (§8.2.38): an address or a domain name; by default the first address of
    /// `listen`.
    pub node_id: Option<String>,
    /// Networks of control planes. Others are not answered; without any, all are.
    #[serde(default)]
    pub peers: Vec<Subnet>,
    /// Networks of controllers that serve N4 for several nodes (`n4` of a controller): they may
    /// speak for any control plane of `peers`.
    #[serde(default)]
    pub proxies: Vec<Subnet>,
    /// The entry of `users` that sessions are like: its chain, tags, group and settings.
    pub like: String,
    /// Where packets of sessions come from and go to.
    pub interfaces: Vec<PfcpInterface>,
    /// Chains that packets of some sessions take, in place of that of `like`. The first that
    /// fits holds.
    #[serde(default)]
    pub chains: Vec<PfcpChain>,
    /// How long the node waits.
    #[serde(default)]
    pub timers: PfcpTimers,
    /// What the node makes room for.
    #[serde(default)]
    pub limits: PfcpLimits,
}

/// An interface of sessions: what a control plane calls by source or destination interface
/// and network instance is a network and addresses of the node.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PfcpInterface {
    /// Source or destination interface of the rules (§8.2.2, §8.2.24).
    pub interface: PfcpSide,
    /// Network instance of the rules (§8.2.4); without it, those that no other entry of the
    /// interface names, and rules that name none.
    pub network_instance: Option<String>,
    /// Network of the node (`ports.*.network`); `default` by default.
    pub network: Option<String>,
    /// Addresses of tunnels of the node there, at most one of each family: addresses of ports.
    #[serde(default)]
    pub addresses: Vec<Ip>,
    /// Networks from which users get addresses: IPv4 addresses, and IPv6 prefixes of 64 bits.
    #[serde(default)]
    pub pools: Vec<Subnet>,
}

/// Which packets take a chain: all that is given must fit.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PfcpChain {
    /// Network instance of the packet detection rule.
    pub network_instance: Option<String>,
    /// Application of the packet detection rule.
    pub application: Option<String>,
    /// Forwarding policy of the forwarding action rule.
    pub forwarding_policy: Option<String>,
    /// Predefined rule that the packet detection rule activates.
    pub predefined_rule: Option<String>,
    /// The chain.
    pub chain: String,
}

/// How long the node waits.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PfcpTimers {
    /// Seconds between Heartbeat Requests to each control plane; 0 for none.
    #[schemars(range(max = 86_400))]
    pub heartbeat: u32,
    /// T1: milliseconds until a request without response is sent again.
    #[schemars(range(min = 100, max = 60_000))]
    pub t1: u32,
    /// N1: how often a request is sent in all.
    #[schemars(range(min = 1, max = 10))]
    pub n1: u8,
    /// Seconds for which sessions of a control plane stay that has restarted or does not
    /// answer. Until then it may associate again and keep them.
    #[schemars(range(max = 86_400))]
    pub restoration: u32,
}

impl Default for PfcpTimers {
    fn default() -> Self {
        PfcpTimers { heartbeat: 10, t1: 3000, n1: 3, restoration: 0 }
    }
}

/// What the node makes room for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PfcpLimits {
    /// Control planes.
    #[schemars(range(min = 1, max = 1024))]
    pub associations: u32,
    /// Sessions of all control planes together; by default `limits.users`.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub sessions: Option<u32>,
    /// Requests of control planes whose responses are kept for their repetition.
    #[schemars(range(min = 64, max = 1_048_576))]
    pub transactions: u32,
    /// Rules of one session, of all kinds together.
    #[schemars(range(min = 2, max = 4096))]
    pub rules: u32,
    /// Guaranteed bit rates (GBR, §8.2.9) of all sessions together. A session that asks for more
    /// is refused; without a limit all are admitted.
    pub guaranteed: PfcpGuaranteed,
}

/// Guaranteed bit rates.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PfcpGuaranteed {
    /// Of packets from users.
    pub uplink: Option<Rate>,
    /// Of packets to users.
    pub downlink: Option<Rate>,
}

impl Default for PfcpLimits {
    fn default() -> Self {
        PfcpLimits {
            associations: 64,
            sessions: None,
            transactions: 524_288,
            rules: 256,
            guaranteed: PfcpGuaranteed::default(),
        }
    }
}

fn pfcp_port() -> u16 {
    8805
}
