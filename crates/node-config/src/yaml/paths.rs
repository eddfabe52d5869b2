//! Service paths through the node, as they are written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Direction, default_network};

/// A service function path (RFC 8300) that leads through this node; rules write its
/// name like that of a port. Packets come in at a port with a network service header,
/// over Ethernet or over VXLAN-GPE to an address of the node, take the functions that
/// the rules say, and go on with the header, one function further.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Path")]
pub struct PathFile {
    /// Service path identifier.
    #[schemars(range(min = 0, max = 16_777_215))]
    pub path: u32,
    /// Service index with which packets come to this node.
    #[schemars(range(min = 1, max = 255))]
    pub index: u8,
    /// Service index with which they go on; by default one less.
    #[schemars(range(max = 254))]
    pub next_index: Option<u8>,
    /// Direction of the packets on it.
    pub direction: Direction,
    /// Network instance that their users' addresses are of.
    #[serde(default = "default_network")]
    pub network: String,
    /// The port that leads to the next hop.
    pub port: String,
    /// The next hop: a MAC address for NSH in Ethernet frames, an IP address for
    /// VXLAN-GPE.
    pub to: String,
    /// Source address of frames on the path, MAC or IP; by default `to`. Others are dropped.
    pub from: Option<String>,
    /// The port at which they come in; by default `port`.
    pub from_port: Option<String>,
}
