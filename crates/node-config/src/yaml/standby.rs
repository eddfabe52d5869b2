//! Another node that stands by, and a site that the node is of.

use schemars::JsonSchema;
use serde::Deserialize;

use super::HandoverTls;

/// This node is one of two for one set of users; the controller says which of them owns the
/// users (`standbyFor`). Both have the same users, functions and addresses.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "NodeStandby")]
pub struct StandbyFile {
    /// The number by which the controller's configuration names this node.
    #[schemars(range(min = 1))]
    pub node: u32,
    /// Whether a command is answered only when the standby has what it has set. Without it,
    /// what the standby does not have yet is lost with this node.
    #[serde(default = "wait")]
    pub wait: bool,
    /// MiB of changes that are kept for a standby that is away. One that is further behind
    /// gets a copy of everything.
    #[serde(default = "buffer")]
    #[schemars(range(min = 1, max = 4096))]
    pub buffer: u32,
    /// Certificates, by which connections with the other node and the controller are
    /// enciphered.
    pub tls: Option<HandoverTls>,
    /// Whether connections beyond this machine may do without `tls`: who reads them has the
    /// keys of users, and who knows the token speaks for any node.
    #[serde(default)]
    pub plaintext: bool,
}

/// The node is one of a site, whose controller knows it: it may be drained, and be a spare node. A
/// node with `handover` or `standby` is that already.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NodeSite")]
pub struct SiteFile {
    /// The number by which the controller knows this node.
    #[schemars(range(min = 1))]
    pub node: u32,
    /// Certificates, by which connections with the controller and other nodes are enciphered.
    pub tls: Option<HandoverTls>,
    /// Whether connections beyond this machine may do without `tls`: who reads them has the
    /// keys of users, and who knows the token speaks for any node.
    #[serde(default)]
    pub plaintext: bool,
}

fn wait() -> bool {
    true
}

fn buffer() -> u32 {
    64
}
