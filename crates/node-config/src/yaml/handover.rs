//! How users move between nodes, as it is written.

use schemars::JsonSchema;
use serde::Deserialize;
use weft_mobility_protocol::Settings;
use weft_mobility_transport::TransportSettings;

use crate::values::Ip;

/// How users move between this node and others; docs/handover.md describes the
/// protocol.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Handover")]
pub struct HandoverFile {
    /// Number of this node, which no other node of the controller has.
    #[schemars(range(min = 1))]
    pub node: u32,
    /// A `station` owns users and hands them over; an `anchor` stands before the
    /// stations.
    pub role: Role,
    /// Own address that the tunnels of moving users end at.
    pub address: Ip,
    /// The other nodes.
    #[serde(default)]
    pub peers: Vec<PeerFile>,
    /// The users that move: those of some `users` of this file.
    pub users: Vec<MovingFile>,
    /// The function that puts packets into the tunnel: a `gtpu-encapsulate`, uplink at
    /// a station, downlink at an anchor. The node gives it its settings.
    pub tunnel: String,
    /// How many packets wait while their user moves.
    #[serde(default)]
    pub gates: GatesFile,
    /// A station's: what says that a user's radio has arrived.
    #[serde(default)]
    pub radio: RadioFile,
    /// How long a station that has handed a user over waits for the user's radio to leave,
    /// and for the anchor's End Marker, in milliseconds.
    #[serde(default = "release_timeout")]
    #[schemars(range(min = 1, max = 600_000))]
    pub release_timeout: u64,
    /// Connections with the controller and with other nodes.
    #[serde(default)]
    pub transport: TransportSettings,
    /// Certificates, by which these connections are enciphered. Paths begin at the folder of
    /// this file.
    pub tls: Option<HandoverTls>,
    /// Whether connections beyond this machine may do without `tls`: who reads them has
    /// the keys of users, and who knows the token speaks for any node.
    #[serde(default)]
    pub plaintext: bool,
}

/// The certificate of this node, and who signs those of others.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HandoverTls")]
pub struct HandoverTls {
    /// File of the certificate in PEM, with those between it and the authority behind it.
    /// Its name (DNS, in subjectAltName) is that of the node.
    pub certificate: String,
    /// File of its private key in PEM.
    pub key: String,
    /// File of the authority's certificates in PEM.
    pub authority: String,
    /// Name of the controller, which that of its certificate has to be.
    pub controller: String,
}

fn release_timeout() -> u64 {
    Settings::default().release.as_millis() as u64
}

/// What says that a user's radio has arrived at a station.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum RadioFile {
    /// `weft ctl radio`, as the control plane of a base station would.
    #[default]
    Order,
    /// That, or the user's first uplink packet during a move. A station that has left
    /// a user without traffic waits in vain, and goes after its time.
    Uplink,
}

/// What a node is in handovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Role {
    /// It owns users.
    Station,
    /// It stands before the stations.
    Anchor,
}

/// Another node.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "HandoverPeer")]
pub struct PeerFile {
    /// Its number.
    #[schemars(range(min = 1))]
    pub node: u32,
    /// Where its tunnels end.
    pub address: Ip,
}

/// Users that move.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "MovingUsers")]
pub struct MovingFile {
    /// Their name in `users`.
    pub name: String,
    /// Number of the first of them; the others have the numbers behind it. A user has
    /// the same number at every node.
    #[schemars(range(max = 1_048_575))]
    pub first: u64,
    /// As many numbers behind the last of theirs are for users like them that commands
    /// add, or that come from other nodes where commands have added them.
    #[serde(default)]
    #[schemars(range(max = 1_048_575))]
    pub added: u32,
}

/// How many packets wait while their user moves.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "Gates")]
pub struct GatesFile {
    /// Packets in one gate of a user.
    #[schemars(range(min = 1, max = 65_536))]
    pub packets: u32,
    /// Bytes in one gate of a user.
    #[schemars(range(min = 1))]
    pub bytes: u32,
    /// Packets in all gates; by default a quarter of the packet buffers.
    #[schemars(range(min = 1, max = 16_777_215))]
    pub all_packets: Option<u32>,
    /// Bytes in all gates; by default 2048 for each packet.
    #[schemars(range(min = 1))]
    pub all_bytes: Option<u64>,
    /// What gives way when a gate is full: the packet that comes, or the oldest.
    pub full: WhenFull,
    /// How long a gate with packets waits for its End Marker, which can be lost (TS 29.281
    /// §7.3.2), in milliseconds.
    #[schemars(range(min = 1, max = 600_000))]
    pub timeout: u64,
}

impl Default for GatesFile {
    fn default() -> Self {
        GatesFile {
            packets: 1024,
            bytes: 1 << 20,
            all_packets: None,
            all_bytes: None,
            full: WhenFull::DropNewest,
            timeout: Settings::default().gate.as_millis() as u64,
        }
    }
}

/// What gives way when a gate is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum WhenFull {
    /// The packet that comes.
    DropNewest,
    /// The oldest in the same gate.
    DropOldest,
}
