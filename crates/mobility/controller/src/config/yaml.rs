//! The file as it is written. The comments here are the descriptions in the
//! published schema, so they speak to the author of one.

use schemars::JsonSchema;
use serde::Deserialize;
use weft_mobility_transport::TransportSettings;
use weft_yaml::values::{Entries, Ip, Subnet};

/// A controller: which nodes there are, and who owns which user at first.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Controller")]
pub struct ControllerFile {
    /// Version of this format.
    #[serde(rename = "apiVersion")]
    pub _api_version: ApiVersion,
    /// What the file describes.
    #[serde(rename = "kind")]
    pub _kind: FileKind,
    /// What the controller is called.
    pub metadata: Metadata,
    /// Address and port where nodes connect, such as `0.0.0.0:9471`.
    pub listen: String,
    /// File that holds the token which nodes show, of 16 to 255 visible
    /// characters; the path begins at the folder of this file.
    pub token_file: String,
    /// Certificates, by which connections with nodes are enciphered.
    pub tls: Option<MutualFile>,
    /// Whether nodes of other machines may connect without `tls`: who reads that has the
    /// keys of users, and who knows the token speaks for any node.
    #[serde(default)]
    pub plaintext: bool,
    /// Folder where records are kept: which node owns a user, and the epoch of
    /// that. The path begins at the folder of this file. Either this or `etcd`.
    pub records: Option<String>,
    /// The etcd where records are kept, for several replicas of a controller of which one
    /// leads. Either this or `records`.
    pub etcd: Option<EtcdFile>,
    /// Which replica this one is; with `etcd`.
    pub replica: Option<ReplicaFile>,
    /// The API over TCP, beside that on the controller's socket.
    pub api: Option<ApiFile>,
    /// Moves that are under way at once; further ones wait.
    #[serde(default = "window")]
    #[schemars(range(min = 1, max = 16_384))]
    pub window: u64,
    /// Connections with nodes.
    #[serde(default)]
    pub transport: TransportSettings,
    /// Nodes of which one stands by the other.
    #[serde(default)]
    pub standby: StandbyFile,
    /// Lets nodes join that are not among `nodes`, and gives up those that are not heard of.
    pub membership: Option<MembershipFile>,
    /// N4 for several nodes: control planes see one user plane.
    pub n4: Option<N4File>,
    /// The nodes by name; may be left out where nodes join.
    #[serde(default)]
    pub nodes: Entries<NodeFile>,
    /// Users that there are at first; others come and go by the API.
    #[serde(default)]
    pub users: Vec<UsersFile>,
}

fn window() -> u64 {
    256
}

/// Versions of this format.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ApiVersion {
    /// The one there is.
    #[serde(rename = "weft/v1")]
    V1,
}

/// What a file describes.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum FileKind {
    /// A controller.
    Controller,
}

/// What the controller is called.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// Name of the controller, which is that of its socket: letters, digits,
    /// `-`, `_` and `.`.
    pub name: String,
}

/// The API over TCP.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Api")]
pub struct ApiFile {
    /// Address and port, such as `127.0.0.1:9472`.
    pub listen: String,
    /// File that holds the token which clients show, as `tokenFile` above.
    pub token_file: String,
    /// Lets clients speak TLS, and nothing else.
    pub tls: Option<TlsFile>,
}

/// What shows clients that they speak to this controller.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Tls")]
pub struct TlsFile {
    /// File of the certificate in PEM, with those between it and the one that clients
    /// know behind it; the path begins at the folder of this file.
    pub certificate: String,
    /// File of its private key in PEM; the path begins at the folder of this file.
    pub key: String,
}

/// The certificate of this controller, and who signs those of nodes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "MutualTls")]
pub struct MutualFile {
    /// File of the certificate in PEM, with those between it and the authority behind it.
    /// Its name (DNS, in subjectAltName) is that of the controller. The path begins at the
    /// folder of this file.
    pub certificate: String,
    /// File of its private key in PEM; the path begins at the folder of this file.
    pub key: String,
    /// File of the authority's certificates in PEM; the path begins at the folder of this
    /// file.
    pub authority: String,
}

/// An etcd, version 3.4 or newer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Etcd")]
pub struct EtcdFile {
    /// URLs of its members: `https://HOST:PORT`, or `http://HOST:PORT`.
    pub endpoints: Vec<String>,
    /// The certificate that etcd asks for, and the authority of those of its members.
    pub tls: Option<MutualFile>,
    /// Whether etcd on other machines is spoken to without `tls`: who can do that decides
    /// which node owns which user.
    #[serde(default)]
    pub plaintext: bool,
    /// Seconds for which a leader leads without renewing its lease. etcd grants none below
    /// one and a half times its election timeout, in whole seconds: 2 with its defaults, 1 with
    /// an election timeout of 500 ms. What it grants counts.
    #[serde(default = "lease")]
    #[schemars(range(min = 1, max = 60))]
    pub lease: u64,
}

fn lease() -> u64 {
    2
}

/// One of several controllers of the same name.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Replica")]
pub struct ReplicaFile {
    /// Name of this replica, which no other has, and which is that of its socket.
    pub name: String,
    /// URL at which clients reach its API, told by other replicas while it leads:
    /// `https://HOST:PORT`, or `http://HOST:PORT`.
    pub address: Option<String>,
}

/// How nodes join and are given up.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Membership")]
pub struct MembershipFile {
    /// Seconds that a node may be without a connection with the controller before its lease
    /// ends.
    #[serde(default = "node_lease")]
    #[schemars(range(min = 1, max = 86_400))]
    pub lease: u64,
    /// Whether another station takes over the users of a station whose lease has ended. They
    /// begin there without what the station knew of them.
    #[serde(default)]
    pub adopt: bool,
}

fn node_lease() -> u64 {
    10
}

/// A node.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Node")]
pub struct NodeFile {
    /// The number by which messages name it.
    #[schemars(range(min = 1))]
    pub number: u32,
    /// Host and port where other nodes connect to it.
    pub address: String,
    /// The node whose users it takes over when that one dies. It has the same users, and
    /// `standby` in its configuration.
    #[serde(rename = "standbyFor")]
    pub standby_for: Option<String>,
}

/// Nodes of which one stands by the other.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Standby")]
pub struct StandbyFile {
    /// For how long a node owns the users without hearing from this controller or its
    /// standby, in milliseconds. The standby takes over when that has passed.
    #[schemars(range(min = 100, max = 60_000))]
    pub lease: u64,
}

impl Default for StandbyFile {
    fn default() -> Self {
        StandbyFile { lease: 800 }
    }
}

/// Users in a row, with an anchor and a first owner.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Users")]
pub struct UsersFile {
    /// Number of the first.
    pub first: u64,
    /// How many they are.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 16_777_216))]
    pub count: u64,
    /// The node that stands before the stations.
    pub anchor: String,
    /// The node that owns them at first.
    pub node: String,
}

fn one() -> u64 {
    1
}

/// N4 for several nodes (PFCP, 3GPP TS 29.244): the controller that leads serves it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "N4")]
pub struct N4File {
    /// Addresses at which control planes find the user plane, at most one of each family. With
    /// several replicas, they are addresses that move to the one that leads.
    pub listen: Vec<Ip>,
    /// UDP port.
    #[serde(default = "pfcp_port")]
    #[schemars(range(min = 1))]
    pub port: u16,
    /// Node ID (§8.2.38): an address or a domain name; by default the first address of
    /// `listen`.
    pub node_id: Option<String>,
    /// Networks of control planes. Others are not answered; without any, all are.
    #[serde(default)]
    pub peers: Vec<Subnet>,
    /// The nodes by name; may be left out where nodes register. A node that is in `nodes` above as
    /// well, or registers, can be cordoned.
    pub nodes: Option<Entries<N4NodeFile>>,
    /// Lets nodes that register (`membership`), and have this controller among `pfcp.proxies`, be
    /// behind N4 without an entry in `nodes`. What `nodes` says of a name, a number or an address
    /// holds.
    #[serde(default)]
    pub register: bool,
    /// How long the controller waits.
    #[serde(default)]
    pub timers: N4Timers,
    /// Control planes, at most.
    #[serde(default = "n4_associations")]
    #[schemars(range(min = 1, max = 1024))]
    pub associations: u32,
}

fn pfcp_port() -> u16 {
    8805
}

fn n4_associations() -> u32 {
    64
}

/// A node behind N4: with `pfcp` in its configuration, and this controller among
/// `pfcp.proxies` there.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "N4Node")]
pub struct N4NodeFile {
    /// Its number, by which the SEIDs of its sessions begin: no other node may have it later.
    #[schemars(range(min = 1))]
    pub number: u16,
    /// Its address (`pfcp.listen` there), of a family of `listen`. Both nodes of a pair have one.
    pub address: Ip,
}

/// How long the controller waits.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "N4Timers")]
pub struct N4Timers {
    /// Milliseconds between Heartbeat Requests to nodes and control planes.
    #[schemars(range(min = 100, max = 600_000))]
    pub heartbeat: u32,
    /// T1: milliseconds until a request without response is sent again.
    #[schemars(range(min = 100, max = 60_000))]
    pub t1: u32,
    /// N1: how often a request is sent in all.
    #[schemars(range(min = 1, max = 10))]
    pub n1: u8,
    /// Seconds that a node may be silent before control planes are told that its sessions are
    /// gone.
    #[schemars(range(min = 1, max = 86_400))]
    pub lease: u32,
}

impl Default for N4Timers {
    fn default() -> Self {
        N4Timers { heartbeat: 1000, t1: 1000, n1: 3, lease: 30 }
    }
}
