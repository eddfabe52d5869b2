//! The file as it is written. The comments here are the descriptions in the
//! published schema, so they address the author of a profile.

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::Rate as BitRate;
use weft_yaml::values::{Entries, Ip, Mac};

/// Traffic: ports, what is sent at them, and where it should arrive.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Profile")]
pub struct ProfileFile {
    /// Version of this format.
    #[serde(rename = "apiVersion")]
    pub _api_version: ApiVersion,
    /// What the file describes.
    #[serde(rename = "kind")]
    pub _kind: FileKind,
    /// What the profile is called.
    pub metadata: Metadata,
    /// How long packets are sent, in seconds.
    #[serde(default = "ten")]
    #[schemars(range(min = 0.001, max = 31_536_000.0))]
    pub duration: f64,
    /// All that is drawn at random follows from it.
    #[serde(default = "one")]
    pub seed: u64,
    /// The processor cores of generator and receiver.
    #[serde(default)]
    pub cores: CoresFile,
    /// Ethernet ports by name.
    pub ports: Entries<PortFile>,
    /// What is sent.
    pub sources: Vec<SourceFile>,
    /// Wires between ports that do harm on purpose, to try the receiver.
    #[serde(default)]
    pub wires: Vec<WireFile>,
}

fn ten() -> f64 {
    10.0
}

fn one() -> u64 {
    1
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
    /// Traffic.
    Profile,
}

/// What the profile is called.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// Name of the profile.
    pub name: String,
}

/// Processor cores; left to the kernel when absent.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Cores")]
pub struct CoresFile {
    /// Core of the thread that sends.
    pub generator: Option<u32>,
    /// Core of the thread that receives.
    pub receiver: Option<u32>,
}

/// One Ethernet port.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Port")]
pub struct PortFile {
    /// DPDK device string, such as `net_af_packet0,iface=eth0` or a PCI address.
    /// Two ports with the device `ring:NAME` are the two ends of one pair of
    /// memory rings.
    pub device: String,
    /// Packets that its queues hold.
    #[serde(default = "default_descriptors")]
    #[schemars(range(min = 32, max = 32_768))]
    pub descriptors: u16,
}

fn default_descriptors() -> u16 {
    1024
}

/// What is sent at one port.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Source")]
pub struct SourceFile {
    /// The port where packets are sent.
    pub from: String,
    /// The port where they should arrive; without it nothing is received.
    pub to: Option<String>,
    /// How much is sent, all streams together.
    pub rate: RateFile,
    /// How packets follow each other.
    #[serde(default)]
    pub arrivals: ArrivalsFile,
    /// The streams.
    #[serde(default)]
    pub streams: Vec<StreamFile>,
    /// Streams of whole packets from captures.
    #[serde(default)]
    pub captures: Vec<CaptureFile>,
}

/// A stream of the packets of a capture, in their order and then again from the first,
/// at the rate of the source.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Capture")]
pub struct CaptureFile {
    /// Name of the stream.
    pub name: String,
    /// The capture, pcap or pcapng, of Ethernet frames.
    pub file: String,
    /// How many packets it has for those of the other streams of the source.
    #[serde(default = "one_weight")]
    #[schemars(range(min = 1, max = 1000))]
    pub weight: u32,
    /// Whether UDP and TCP packets get a stamp at the begin of their payload, by which
    /// the receiver tells them apart. Without, all are sent byte for byte, and what
    /// arrives of them counts as foreign.
    #[serde(default = "yes")]
    pub stamps: bool,
}

fn yes() -> bool {
    true
}

/// How much is sent.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Rate")]
pub enum RateFile {
    /// Packets per second.
    Packets(f64),
    /// A share of a link.
    Link(LinkFile),
    /// As much as the port takes.
    Unlimited,
}

/// A share of an Ethernet link: preamble, inter-packet gap and check sequence of
/// each frame count.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Link")]
pub struct LinkFile {
    /// The link's rate.
    pub speed: BitRate,
    /// How much of it is used, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub share: f64,
}

/// How packets follow each other; the rate is the mean of all.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Arrivals")]
pub enum ArrivalsFile {
    /// One gap behind each packet.
    #[default]
    Constant,
    /// Gaps with exponential distribution.
    Poisson,
    /// So many packets back to back, then the gap of all of them.
    Burst(u32),
}

/// The packets of some users that are alike.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Stream")]
pub struct StreamFile {
    /// Name of the stream.
    pub name: String,
    /// How many packets it has for those of the other streams of the source.
    #[serde(default = "one_weight")]
    #[schemars(range(min = 1, max = 1000))]
    pub weight: u32,
    /// Direction of the packets: `uplink` from users, `downlink` to users.
    #[serde(default)]
    pub direction: DirectionFile,
    /// How many users.
    #[serde(default = "one_user")]
    #[schemars(range(min = 1, max = 16_777_216))]
    pub users: u32,
    /// Bearers of each user, each a flow of its own with the next UDP port.
    #[serde(default = "one_bearer")]
    #[schemars(range(min = 1, max = 64))]
    pub bearers: u16,
    /// Address of the first user; each further user has the next one.
    pub first_user: Ip,
    /// Address at the network's side.
    pub peer: Ip,
    /// UDP port at the users' side, of the first bearer.
    #[serde(default = "user_port")]
    pub user_port: u16,
    /// UDP port at the network's side.
    #[serde(default = "peer_port")]
    pub peer_port: u16,
    /// MAC address the packets come from.
    pub source_mac: Option<Mac>,
    /// MAC address the packets go to.
    pub destination_mac: Option<Mac>,
    /// How long packets are.
    #[serde(default)]
    pub sizes: SizesFile,
    /// What packets are carried in; by default nothing.
    #[serde(default)]
    pub encapsulation: EncapsulationFile,
    /// How the flow of the next packet is chosen.
    #[serde(default)]
    pub selection: SelectionFile,
    /// Addresses with which the packets arrive, where they change on the way.
    #[serde(default)]
    pub arriving: ArrivingFile,
    /// Flows of which every arrival is kept for the report, by number from 0.
    #[serde(default)]
    pub watch: Vec<u32>,
}

fn one_weight() -> u32 {
    1
}

fn one_user() -> u32 {
    1
}

fn one_bearer() -> u16 {
    1
}

fn user_port() -> u16 {
    40_000
}

fn peer_port() -> u16 {
    50_000
}

/// Direction of packets.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum DirectionFile {
    /// From users.
    #[default]
    Uplink,
    /// To users.
    Downlink,
}

/// How long packets are: bytes from the Ethernet header to the end of the IP
/// packet, without the frame check sequence.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Sizes")]
pub enum SizesFile {
    /// All alike.
    Fixed(usize),
    /// From the first to the last in steps, again and again.
    Sweep(SweepFile),
    /// Drawn in the ratio 7:4:1 of 60, 590 and 1514 bytes.
    #[default]
    Imix,
    /// The lengths of the packets of a capture file (pcap), in their order.
    Capture(String),
}

/// Lengths in steps.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Sweep")]
pub struct SweepFile {
    /// The first length.
    pub from: usize,
    /// No packet is longer.
    pub to: usize,
    /// How much longer each is.
    #[serde(default = "one_step")]
    #[schemars(range(min = 1))]
    pub step: usize,
}

fn one_step() -> usize {
    1
}

/// What packets are carried in.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Encapsulation")]
pub enum EncapsulationFile {
    /// Nothing.
    #[default]
    None,
    /// GTP-U (3GPP TS 29.281).
    Gtpu(GtpuFile),
    /// NSH (RFC 8300) with MD type 2.
    Nsh(NshFile),
}

/// GTP-U tunnels, one for each flow.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Gtpu")]
pub struct GtpuFile {
    /// Where the tunnels begin.
    pub source: Ip,
    /// Where they end.
    pub destination: Ip,
    /// TEID of the first flow; each further flow has the next one.
    pub first_teid: u32,
    /// QoS flow identifier, with which packets have a PDU Session Container.
    #[schemars(range(max = 63))]
    pub qfi: Option<u8>,
}

/// A place on a service path.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Nsh")]
pub struct NshFile {
    /// Service path identifier.
    #[schemars(range(max = 16_777_215))]
    pub path: u32,
    /// Service index.
    #[serde(default = "first_index")]
    pub index: u8,
    /// The ends of a VXLAN-GPE tunnel; without it NSH follows Ethernet.
    pub over: Option<EndsFile>,
}

/// The two ends of a tunnel.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Ends")]
pub struct EndsFile {
    /// Where it begins.
    pub source: Ip,
    /// Where it ends.
    pub destination: Ip,
}

fn first_index() -> u8 {
    255
}

/// How the flow of the next packet is chosen.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Selection")]
pub enum SelectionFile {
    /// All in turn.
    #[default]
    RoundRobin,
    /// Any, with the same probability.
    Random,
    /// By Zipf's law with this exponent.
    Zipf(f64),
}

/// Addresses with which packets arrive; by default those with which they leave.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "Arriving")]
pub struct ArrivingFile {
    /// Address of the first user.
    pub first_user: Option<Ip>,
    /// Address at the network's side.
    pub peer: Option<Ip>,
}

/// A wire that does harm. Shares are of all packets, from 0 to 1; a packet
/// suffers at most one of loss, damage, duplication and reordering.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Wire")]
pub struct WireFile {
    /// The port that it takes packets from.
    pub from: String,
    /// The port that it gives them to.
    pub to: String,
    /// Share that is lost.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub loss: f64,
    /// Share of which one bit is turned.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub damage: f64,
    /// Share of which a copy follows.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub duplication: f64,
    /// Share that is held back until later packets of the flow have passed.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub reordering: f64,
    /// How many packets pass one that is held back: drawn from 1 to this.
    #[serde(default = "default_extent")]
    #[schemars(range(min = 1, max = 1000))]
    pub extent: u32,
    /// How long every packet takes, in microseconds.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub delay: f64,
}

fn default_extent() -> u32 {
    3
}
