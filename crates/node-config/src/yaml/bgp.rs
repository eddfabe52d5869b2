//! Announcement of networks by BGP.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::values::{Ip, Ipv4, Subnet};

/// Routers that are told by BGP (RFC 4271) that packets for users are to be sent to this node. The
/// node connects to them from addresses of the machine, and learns no routes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Bgp")]
pub struct BgpFile {
    /// AS number of the node.
    #[serde(rename = "as")]
    #[schemars(range(min = 1, max = 4_294_967_294_u32))]
    pub autonomous_system: u32,
    /// BGP identifier: an IPv4 address that no other speaker has.
    pub router_id: Ipv4,
    /// Routers; one to eight.
    pub peers: Vec<BgpPeer>,
    /// Where packets for users are to be sent: addresses of ports, at most one of each family.
    pub next_hops: Vec<Ip>,
    /// Networks that are announced.
    #[serde(default)]
    pub networks: Vec<Subnet>,
    /// Whether the pools of `pfcp.interfaces` are announced, too.
    #[serde(default = "yes")]
    pub pools: bool,
    /// Seconds of silence after which a session ends, at both ends.
    #[serde(default = "nine")]
    #[schemars(range(min = 3, max = 3_600))]
    pub hold: u32,
    /// Seconds for which routers that know graceful restart (RFC 4724) keep what was announced
    /// when the connection is lost; 0 lets it go at once.
    #[serde(default = "half_a_minute")]
    #[schemars(range(max = 4_095))]
    pub restart_time: u32,
}

/// A router.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BgpPeer {
    /// Its address.
    pub address: Ip,
    /// Its AS number; that of the node for a router of the same AS.
    #[serde(rename = "as")]
    #[schemars(range(min = 1, max = 4_294_967_294_u32))]
    pub autonomous_system: u32,
    /// Port at which it listens.
    #[serde(default = "bgp_port")]
    #[schemars(range(min = 1))]
    pub port: u16,
}

fn yes() -> bool {
    true
}

fn nine() -> u32 {
    9
}

fn half_a_minute() -> u32 {
    30
}

fn bgp_port() -> u16 {
    179
}
