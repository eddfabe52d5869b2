//! The file as it is written. The comments here are the descriptions in the
//! published schema, so they address the author of a profile.

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::{ByteSize, Rate as BitRate};
use weft_yaml::values::{Ip, Ipv4, Ipv6};

/// A control plane that loads a user plane by PFCP (3GPP TS 29.244).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ControlPlane")]
pub struct ControlPlaneFile {
    /// Version of this format.
    #[serde(rename = "apiVersion")]
    pub _api_version: ApiVersion,
    /// What the file describes.
    #[serde(rename = "kind")]
    pub _kind: FileKind,
    /// What the profile is called.
    pub metadata: Metadata,
    /// Address that the control plane speaks from, port 8805, and its Node ID.
    pub local: Ip,
    /// Address of the user plane.
    pub user_plane: Ip,
    /// UDP port of the user plane.
    #[serde(default = "pfcp_port")]
    pub port: u16,
    /// All that is drawn at random follows from it.
    #[serde(default = "one")]
    pub seed: u64,
    /// Messages that get no answer.
    #[serde(default)]
    pub retransmission: RetransmissionFile,
    /// Seconds between two heartbeats of the control plane; 0 sends none.
    #[serde(default = "ten")]
    #[schemars(range(max = 3600))]
    pub heartbeat: u32,
    /// Requests that wait for their answers at most. What is due beyond them is late.
    #[serde(default = "outstanding")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub outstanding: u32,
    /// Milliseconds after which an answer counts as late.
    #[serde(default = "answer_within")]
    #[schemars(range(min = 0.001, max = 60_000.0))]
    pub answer_within: f64,
    /// The sessions.
    pub sessions: SessionsFile,
    /// The rules of each session; without them two PDRs, two FARs, a QER and a URR.
    pub rules: Option<RulesFile>,
    /// How sessions change once all are there; without it they are deleted at once.
    pub load: Option<LoadFile>,
    /// Whether sessions stay when the load has ended. The association is then kept, too.
    #[serde(default)]
    pub keep: bool,
}

fn pfcp_port() -> u16 {
    8805
}

fn one() -> u64 {
    1
}

fn ten() -> u32 {
    10
}

fn outstanding() -> u32 {
    1000
}

fn answer_within() -> f64 {
    5.0
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
    /// A control plane.
    ControlPlane,
}

/// What the profile is called.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// Name of the profile.
    pub name: String,
}

/// When a request is sent again (TS 29.244 §6.4).
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Retransmission")]
pub struct RetransmissionFile {
    /// Seconds until it is sent again (T1).
    #[schemars(range(min = 0.01, max = 60.0))]
    pub t1: f64,
    /// How often it is sent again (N1).
    #[schemars(range(max = 20))]
    pub n1: u32,
}

impl Default for RetransmissionFile {
    fn default() -> Self {
        RetransmissionFile { t1: 3.0, n1: 3 }
    }
}

/// The sessions: each is one user.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Sessions")]
pub struct SessionsFile {
    /// How many there are; there are never more.
    #[schemars(range(min = 1, max = 4_000_000))]
    pub count: u32,
    /// Establishments a second until all are there; without it as fast as answers come.
    pub rate: Option<f64>,
    /// IPv4 address of the first user; each further user has the next one.
    pub ipv4: Option<Ipv4>,
    /// IPv6 prefix of the first user; each further user has the next one.
    pub ipv6: Option<Ipv6>,
    /// The user plane's ends of tunnels.
    #[serde(default)]
    pub tunnels: TunnelsFile,
    /// Addresses of the far ends of tunnels (base stations). The first has all sessions
    /// at first; each handover leads to the next one.
    pub stations: Vec<Ip>,
    /// TEID of the first session at a station; each further session has the next one.
    #[serde(default = "first_teid")]
    #[schemars(range(min = 1))]
    pub station_teid: u32,
}

fn first_teid() -> u32 {
    1
}

/// The user plane's ends of tunnels.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Tunnels")]
pub enum TunnelsFile {
    /// The user plane chooses them (CHOOSE), with addresses of this family.
    Choose(FamilyFile),
    /// The control plane gives them.
    Given(GivenFile),
}

impl Default for TunnelsFile {
    fn default() -> Self {
        TunnelsFile::Choose(FamilyFile::Ipv4)
    }
}

/// A family of addresses.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum FamilyFile {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// F-TEIDs that the control plane gives. A session has as many as PDRs with a tunnel.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Given")]
pub struct GivenFile {
    /// Address of the user plane's end.
    pub address: Ip,
    /// TEID of the first session; the first tunnels of all sessions follow each other, then
    /// the second ones.
    #[schemars(range(min = 1))]
    pub first_teid: u32,
}

/// Rules of one session. Names of the field are those of 3GPP TS 29.244.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Rules")]
pub struct RulesFile {
    /// Packet detection rules; one with `idle` or `handover` has the access side's FAR.
    pub pdrs: Vec<PdrFile>,
    /// Forwarding action rules.
    pub fars: Vec<FarFile>,
    /// QoS enforcement rules.
    #[serde(default)]
    pub qers: Vec<QerFile>,
    /// Usage reporting rules.
    #[serde(default)]
    pub urrs: Vec<UrrFile>,
}

/// A packet detection rule (§7.5.2.2).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Pdr")]
pub struct PdrFile {
    /// Number of the rule.
    #[schemars(range(min = 1))]
    pub id: u16,
    /// The lower, the earlier it is looked at.
    #[serde(default = "precedence")]
    pub precedence: u32,
    /// Where packets come from.
    pub source: InterfaceFile,
    /// Network instance that they come from.
    pub instance: Option<String>,
    /// Whether packets come in a tunnel of the session, whose header is removed.
    #[serde(default)]
    pub tunnel: bool,
    /// Whether packets have the user's address.
    #[serde(default = "yes")]
    pub user: bool,
    /// QoS flows of the packets.
    #[serde(default)]
    pub qfi: Vec<u8>,
    /// SDF filters, as `permit out udp from 192.0.2.0/24 5000-5010 to assigned`.
    #[serde(default)]
    pub filters: Vec<String>,
    /// The FAR.
    pub far: u32,
    /// QERs.
    #[serde(default)]
    pub qers: Vec<u32>,
    /// URRs.
    #[serde(default)]
    pub urrs: Vec<u32>,
}

fn precedence() -> u32 {
    255
}

fn yes() -> bool {
    true
}

/// Source and destination interfaces (§8.2.2, §8.2.24).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum InterfaceFile {
    /// Towards users.
    Access,
    /// Towards the data network.
    Core,
    /// N6 or SGi.
    Sgi,
    /// The control plane.
    Cp,
}

/// A forwarding action rule (§7.5.2.3).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Far")]
pub struct FarFile {
    /// Number of the rule.
    #[schemars(range(min = 1))]
    pub id: u32,
    /// Where packets go; without it they are dropped.
    pub destination: Option<InterfaceFile>,
    /// Network instance that they go to.
    pub instance: Option<String>,
    /// Whether packets get an outer header to the session's station. Such a FAR changes with
    /// `idle`, `serviceRequest` and `handover`.
    #[serde(default)]
    pub tunnel: bool,
}

/// A QoS enforcement rule (§7.5.2.5).
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Qer")]
pub struct QerFile {
    /// Number of the rule.
    #[schemars(range(min = 1))]
    pub id: u32,
    /// Highest bit rates, uplink and downlink (MBR).
    pub mbr: Option<BothFile>,
    /// Guaranteed bit rates (GBR).
    pub gbr: Option<BothFile>,
    /// QoS flow that packets to users are marked with.
    #[schemars(range(max = 63))]
    pub qfi: Option<u8>,
}

/// Bit rates of both directions.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "BitRates")]
pub struct BothFile {
    /// From users.
    pub uplink: BitRate,
    /// To users.
    pub downlink: BitRate,
}

/// A usage reporting rule (§7.5.2.4). All are asked for by `query` and report on deletion.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Urr")]
pub struct UrrFile {
    /// Number of the rule.
    #[schemars(range(min = 1))]
    pub id: u32,
    /// Bytes of both directions after which it reports.
    pub volume_threshold: Option<ByteSize>,
    /// Seconds after which it reports.
    pub time_threshold: Option<u32>,
    /// Seconds between periodic reports.
    pub period: Option<u32>,
}

/// How sessions change.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Load")]
pub struct LoadFile {
    /// Seconds.
    #[schemars(range(min = 0.001, max = 31_536_000.0))]
    pub duration: f64,
    /// Requests a second.
    #[schemars(range(min = 0.001, max = 10_000_000.0))]
    pub rate: f64,
    /// Which requests, by weight.
    #[serde(default)]
    pub mix: MixFile,
}

/// Weights of requests. One that no session is in the state for gives way to the next kind.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "Mix")]
pub struct MixFile {
    /// A session that is not there is established.
    pub establish: u32,
    /// A session is deleted.
    pub delete: u32,
    /// A session becomes idle: its packets are buffered and the first is reported.
    pub idle: u32,
    /// An idle session becomes active.
    pub service_request: u32,
    /// A session moves to the next station, with an End Marker in the old tunnel.
    pub handover: u32,
    /// All URRs of a session report.
    pub query: u32,
}

impl Default for MixFile {
    fn default() -> Self {
        MixFile { establish: 1, delete: 1, idle: 0, service_request: 0, handover: 1, query: 0 }
    }
}
