//! Functions at other nodes, as they are written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::OnFailure;

/// How packets get to a function at another node, along a service function path
/// (RFC 8300), and back.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Remote")]
pub struct RemoteFile {
    /// Service path identifier.
    #[schemars(range(min = 0, max = 16_777_215))]
    pub path: u32,
    /// Service path identifier of packets to users; by default the same.
    #[schemars(range(min = 0, max = 16_777_215))]
    pub downlink_path: Option<u32>,
    /// Service index with which packets go.
    #[serde(default = "first_index")]
    #[schemars(range(min = 1, max = 255))]
    pub index: u8,
    /// Service index with which they come back, after as many functions as lie on the
    /// path; by default one less.
    #[schemars(range(max = 254))]
    pub return_index: Option<u8>,
    /// The port that leads to the first node of the path.
    pub port: String,
    /// That node: a MAC address for NSH in Ethernet frames, an IP address for VXLAN-GPE.
    pub to: String,
    /// Source address of frames that come back, MAC or IP: that of the last node of the path;
    /// by default `to`. Others are dropped.
    pub from: Option<String>,
    /// The port at which they come back; by default `port`.
    pub from_port: Option<String>,
    /// MD type: with 2, tags travel with the packets; 1 is for those who know nothing
    /// else.
    #[serde(default = "variable")]
    #[schemars(range(min = 1, max = 2))]
    pub metadata: u8,
    /// What becomes of packets while the path is not there.
    #[serde(default = "drop")]
    pub on_failure: OnFailure,
    /// Packets of each worker that may wait for it, with `onFailure: hold`.
    #[serde(default = "hold")]
    #[schemars(range(min = 1, max = 65536))]
    pub hold: u32,
    /// Milliseconds after which a packet that has not come back is lost.
    #[serde(default = "timeout")]
    #[schemars(range(min = 1, max = 60000))]
    pub timeout: u32,
    /// Milliseconds between two probes of the path; it is not there when three in a row
    /// do not come back.
    #[serde(default = "probe")]
    #[schemars(range(min = 1, max = 60000))]
    pub probe: u32,
}

fn first_index() -> u8 {
    255
}

fn variable() -> u8 {
    2
}

fn drop() -> OnFailure {
    OnFailure::Drop
}

fn hold() -> u32 {
    256
}

fn timeout() -> u32 {
    200
}

fn probe() -> u32 {
    50
}
