//! Export by IPFIX.

use std::net::SocketAddr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

/// How messages get to a collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum IpfixTransport {
    /// UDP (RFC 7011 section 10.3).
    #[default]
    Udp,
    /// TCP (RFC 7011 section 10.4).
    Tcp,
}

/// What is exported, and to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpfixPlan {
    /// The collector.
    pub collector: SocketAddr,
    /// How messages get there.
    pub transport: IpfixTransport,
    /// The observation domain.
    pub domain: u32,
    /// Names of counters whose counts are told.
    pub usage: Vec<String>,
    /// Time between two records of a user.
    pub interval: Duration,
    /// Names of translators of addresses whose blocks are told.
    pub port_blocks: Vec<String>,
    /// Longest message.
    pub message_octets: usize,
    /// Time between two times that templates are sent by UDP.
    pub templates: Duration,
    /// Whether users come from other nodes, with what was counted there.
    pub users_move: bool,
}
