//! The file as it is written. The comments here are the descriptions in the
//! published schema, so they speak to authors of configurations.

mod bgp;
mod handover;
mod ipfix;
mod local;
mod nics;
mod paths;
mod pfcp;
mod process;
mod remote;
mod standby;
mod state;
mod thread;
mod users;
mod vf;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use weft_dpdk::PortOptions;

use super::blueprint::{
    Classification, Composition, Forwarding, FusedWhen, OnErrorIndication, Polling,
};
use super::values::{Entries, Ip, Mac, Subnet};

pub use bgp::{BgpFile, BgpPeer};
pub use handover::{GatesFile, HandoverFile, HandoverTls, RadioFile, Role, WhenFull};
pub use ipfix::IpfixFile;
pub use local::{LocalFile, RateFile};
pub use nics::{NicFile, SoftwareFile};
pub use paths::PathFile;
pub use pfcp::{PfcpChain, PfcpFile, PfcpInterface};
pub use process::{OnFailure, ProcessFile, ProcessLimitsFile, RestartFile, StartedBy, TagsBy};
pub use remote::RemoteFile;
pub use standby::{SiteFile, StandbyFile};
pub use state::StateFile;
pub use thread::{ThreadFile, ThreadOf};
pub use users::{Flow, Group, Match, Users};
pub use vf::VfFile;

/// The name of the network instance of ports and users that name none.
pub const DEFAULT_NETWORK: &str = "default";

/// A node of Weft: ports, workers, functions, users, and the rules that steer
/// packets between them.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Node")]
pub struct NodeFile {
    /// Version of this format.
    #[serde(rename = "apiVersion")]
    pub _api_version: ApiVersion,
    /// What the file describes.
    #[serde(rename = "kind")]
    pub _kind: FileKind,
    /// What the node is called.
    pub metadata: Metadata,
    /// The threads that carry packets.
    #[serde(default)]
    pub workers: WorkersFile,
    /// When a function that does not return ends the node.
    #[serde(default)]
    pub watchdog: WatchdogFile,
    /// Memory for packets.
    #[serde(default)]
    pub memory: MemoryFile,
    /// How a packet finds its next hop: by paths that were compiled from the
    /// rules, or by a rule lookup for each hop.
    #[serde(default)]
    pub forwarding: Forwarding,
    /// How functions are run that do not say it: `call` calls each of them, `fused`
    /// makes one loop of machine code of neighbours that can be fused.
    #[serde(default)]
    pub composition: Composition,
    /// When fused functions run fused: `auto` where that takes fewer cycles than to call them,
    /// as measured on packets that come, or `always`.
    #[serde(default)]
    pub fused: FusedWhen,
    /// How the user of a packet is found: by tables, or by a scan over all keys.
    #[serde(default)]
    pub classification: Classification,
    /// NICs, by a name of their own, with the virtual functions that they are to have.
    #[serde(default)]
    pub nics: Entries<NicFile>,
    /// Ethernet ports by name.
    pub ports: Entries<Port>,
    /// Service function paths through this node, by name.
    #[serde(default)]
    pub paths: Entries<PathFile>,
    /// Tags, by name, that users are given and rules look at.
    #[serde(default)]
    pub tags: Entries<Tag>,
    /// Function instances by name.
    #[serde(default)]
    pub functions: Entries<Function>,
    /// Groups of users by name.
    #[serde(default)]
    pub groups: Entries<Group>,
    /// Users, and ranges of users that differ in nothing but their number.
    #[serde(default)]
    pub users: Vec<Users>,
    /// The rules that steer packets; docs/rules.md describes their language.
    pub rules: String,
    /// Where the node keeps what commands have set; without it, all of that ends with the node.
    pub state: Option<StateFile>,
    /// Another node that takes over when this one dies; without it, none does.
    pub standby: Option<StandbyFile>,
    /// The site that the node is of; without it, and without `handover` and `standby`, it is of
    /// none.
    pub site: Option<SiteFile>,
    /// How users move between this node and others; without it, they do not.
    pub handover: Option<HandoverFile>,
    /// How control planes drive the node by PFCP; without it, they do not.
    pub pfcp: Option<PfcpFile>,
    /// What the node says in GTP-U of its own accord.
    #[serde(default)]
    pub gtpu: GtpuFile,
    /// What the node exports by IPFIX; without it, nothing.
    pub ipfix: Option<IpfixFile>,
    /// Routers that are told of the networks of users by BGP; without it, none are.
    pub bgp: Option<BgpFile>,
    /// What the node makes room for.
    #[serde(default)]
    pub limits: LimitsFile,
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
    /// A node.
    Node,
}

/// What the node is called.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// Name of the node.
    pub name: String,
}

/// The threads that carry packets.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "Workers")]
pub struct WorkersFile {
    /// How many there are.
    #[schemars(range(min = 1, max = 64))]
    pub count: u32,
    /// The processor core of each; left to the kernel when absent.
    pub cores: Option<Vec<u32>>,
    /// What a worker does while there is nothing to do: `busy` asks again at
    /// once, `adaptive` sleeps after a while.
    pub polling: Polling,
    /// Longest sleep of an adaptive worker, in microseconds.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_sleep: u32,
    /// Whether an adaptive worker sleeps until devices tell of packets, where they do.
    pub interrupts: bool,
}

impl Default for WorkersFile {
    fn default() -> Self {
        let polling = Polling::default();
        WorkersFile { count: 1, cores: None, polling, max_sleep: 100, interrupts: true }
    }
}

/// When a function that does not return ends the node.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "Watchdog")]
pub struct WatchdogFile {
    /// Longest time that a worker or a stage may spend in one round, in milliseconds:
    /// beyond it the node names the function and ends. Time without a processor does not
    /// count. 0 allows any time.
    #[schemars(range(min = 0, max = 600_000))]
    pub limit: u32,
}

impl Default for WatchdogFile {
    fn default() -> Self {
        WatchdogFile { limit: 5000 }
    }
}

/// Memory for packets.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "Memory")]
pub struct MemoryFile {
    /// Packet buffers. One below a power of two wastes the least memory.
    #[schemars(range(min = 512, max = 16_777_215))]
    pub packets: u32,
    /// Megabytes that DPDK may take; by default what packets and limits need.
    #[schemars(range(min = 16, max = 1_048_576))]
    pub megabytes: Option<u32>,
    /// Whether huge pages are used when there are any.
    pub huge_pages: bool,
}

impl Default for MemoryFile {
    fn default() -> Self {
        MemoryFile { packets: 16_383, megabytes: None, huge_pages: true }
    }
}

/// One Ethernet port. Without `addresses` and `nextHopMac` it is transparent:
/// Ethernet headers are left alone and TTLs are not decremented.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Port {
    /// DPDK device string, such as `net_af_packet0,iface=eth0` or a PCI address;
    /// `ring:NAME` is one end of a pair of memory rings, `vf:NAME` a virtual function
    /// that stands under `nics`.
    pub device: String,
    /// Direction of the packets that come in here: `uplink` from users,
    /// `downlink` to users.
    pub direction: Direction,
    /// Network instance (3GPP TS 29.244 §5.6). Users of two networks may have
    /// the same address.
    #[serde(default = "default_network")]
    pub network: String,
    /// MAC address to use; by default the device's own.
    pub mac: Option<Mac>,
    /// Longest IP packet, in bytes.
    #[serde(default = "default_mtu")]
    #[schemars(range(min = 68, max = PortOptions::MAX_MTU))]
    pub mtu: u16,
    /// Own addresses with the prefix lengths of their subnets. They make the
    /// port routed.
    #[serde(default)]
    pub addresses: Vec<Subnet>,
    /// Next hops beyond the subnets, at most one of each family.
    #[serde(default)]
    pub gateways: Vec<Ip>,
    /// MAC address that all packets sent here go to. It makes the port routed.
    pub next_hop_mac: Option<Mac>,
    /// MAC addresses of neighbours, by IP address, that are not asked for with
    /// ARP or ND.
    #[serde(default)]
    pub neighbours: Entries<Mac>,
    /// Prefixes for which ARP and ND are answered here, as for users behind the
    /// node.
    #[serde(default)]
    pub proxy: Vec<Subnet>,
    /// Receive queues.
    #[serde(default = "one_queue")]
    #[schemars(range(min = 1, max = 64))]
    pub queues: u16,
    /// Packets that each queue holds.
    #[serde(default = "default_descriptors")]
    #[schemars(range(min = 32, max = 32_768))]
    pub descriptors: u16,
    /// Whether the device is given flow rules (`rte_flow`), where it takes some.
    #[serde(default = "always")]
    pub flow_rules: bool,
    /// Who computes checksums: `auto` leaves them to the device where it is hardware that
    /// offers to, `device` also where its driver does it in software, `software` to none.
    #[serde(default)]
    pub checksums: Checksums,
    /// The worker, from 0, that polls queue 0; the following workers poll the
    /// following queues.
    #[serde(default)]
    pub worker: u32,
}

/// Who computes the checksums of a port's packets.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Checksums {
    /// The device, where it is hardware that offers to.
    #[default]
    Auto,
    /// The device wherever it offers to.
    Device,
    /// The node.
    Software,
}

fn default_network() -> String {
    DEFAULT_NETWORK.to_owned()
}

fn default_mtu() -> u16 {
    1500
}

fn always() -> bool {
    true
}

fn one_queue() -> u16 {
    1
}

fn default_descriptors() -> u16 {
    1024
}

/// Direction of packets.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Direction {
    /// From users.
    Uplink,
    /// To users.
    Downlink,
}

/// A tag that users are given.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tag {
    /// Names of its values; the first is that of users who are not given one.
    /// Without it, the tag is a number and 0 by default.
    #[serde(default)]
    pub values: Option<Vec<String>>,
}

/// A function instance.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Function {
    /// Which function it is.
    pub function: String,
    /// Its configuration.
    #[serde(default)]
    pub config: Value,
    /// How it is run; as the node says by default.
    #[serde(default)]
    pub composition: Option<Composition>,
    /// How its process is run.
    #[serde(default)]
    pub process: Option<ProcessFile>,
    /// Where it is run, with `composition: remote`.
    #[serde(default)]
    pub remote: Option<RemoteFile>,
    /// Where its process is, with `composition: vf`.
    #[serde(default)]
    pub vf: Option<VfFile>,
    /// The thread it stands on.
    #[serde(default)]
    pub thread: Option<ThreadOf>,
}

/// Settings of one function for some users, a group or a bearer.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct Settings(pub Value);

impl JsonSchema for Settings {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Settings".into()
    }

    /// Stands in for the settings of all functions, which
    /// [`schema`](super::schema()) puts in its place.
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        true.into()
    }
}

/// What the node says in GTP-U of its own accord (3GPP TS 29.281), and does about
/// what peers say.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "Gtpu")]
pub struct GtpuFile {
    /// Seconds between the Echo Requests to each peer; 0 for none. The standard
    /// allows one in 60 seconds at most.
    #[schemars(range(max = 86_400))]
    pub echo_interval: u32,
    /// T3-RESPONSE: seconds until a request without answer is sent again.
    #[schemars(range(min = 1, max = 60))]
    pub t3_response: u32,
    /// N3-REQUESTS: requests without answer after which the peer has failed.
    #[schemars(range(min = 1, max = 10))]
    pub n3_requests: u8,
    /// What becomes of a bearer whose tunnel its peer does not know, as an Error
    /// Indication from that peer says: `keep` it as it is, `drop` its packets, or
    /// `notify`: packets to the user wait, and the first of them is told.
    pub error_indication: OnErrorIndication,
}

impl Default for GtpuFile {
    fn default() -> Self {
        let error_indication = OnErrorIndication::default();
        GtpuFile { echo_interval: 60, t3_response: 3, n3_requests: 3, error_indication }
    }
}

/// What the node makes room for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "Limits")]
pub struct LimitsFile {
    /// Users; by default those of this file, at least 1024.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub users: Option<u32>,
    /// Groups; by default those of this file, at least 16.
    #[schemars(range(max = 1_048_576))]
    pub groups: Option<u32>,
    /// Dedicated bearers of all users together; by default those of this file.
    #[schemars(range(max = 16_777_216))]
    pub bearers: Option<u32>,
    /// Packets that functions may keep for one user.
    #[schemars(range(max = 65_536))]
    pub kept_packets: u32,
    /// Packets that may wait for one idle bearer.
    #[schemars(range(max = 65_536))]
    pub waiting_packets: u32,
    /// Bytes that may wait for one idle bearer.
    pub waiting_bytes: u32,
    /// Packets that may wait for all idle bearers together; by default a quarter
    /// of the packet buffers.
    #[schemars(range(max = 16_777_215))]
    pub waiting_in_all: Option<u32>,
    /// Microseconds that packets may wait in the receive queues of an overloaded worker; 0 for
    /// as long as the queues are.
    #[schemars(range(max = 1_000_000))]
    pub delay: u32,
    /// Neighbours (entries of ARP and ND) of all ports together.
    #[schemars(range(min = 16, max = 1_048_576))]
    pub neighbours: u32,
    /// How much of what is for the node itself it takes and answers.
    pub local: LocalFile,
}

impl Default for LimitsFile {
    fn default() -> Self {
        LimitsFile {
            users: None,
            groups: None,
            bearers: None,
            kept_packets: 64,
            waiting_packets: 64,
            waiting_bytes: 65_536,
            waiting_in_all: None,
            delay: 0,
            neighbours: 1024,
            local: LocalFile::default(),
        }
    }
}
