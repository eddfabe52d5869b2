//! The rules of a PFCP session (3GPP TS 29.244 §5.2), as the data plane takes them: what a
//! control plane sends has been checked, and names of other rules and numbers of the node
//! have been filled in.
//!
//! | TS 29.244 | here |
//! |---|---|
//! | Create PDR with its PDI (§7.5.2.2) | [`Pdr`] |
//! | Create FAR (§7.5.2.3) | [`Far`] |
//! | Create URR (§7.5.2.4) | [`Urr`] |
//! | Create QER (§7.5.2.5) | [`Qer`] |
//! | Create BAR (§7.5.2.6) | [`Bar`] |

pub mod filter;
mod ids;
pub mod list;
pub mod urr;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::filter::SdfFilter;
pub use self::ids::{BarId, FarId, Name, PdrId, QerId, UrrId};
pub use self::list::{Few, Rare, Shared};
pub use self::urr::{Trigger, Triggers, Urr};
use crate::common::prefix::Prefix;

/// All rules of one session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Session {
    /// Packet detection rules. Of several that match a packet, the one with the lowest
    /// precedence value applies.
    pub pdrs: Vec<Pdr>,
    /// Forwarding action rules.
    pub fars: Vec<Far>,
    /// QoS enforcement rules.
    #[serde(skip_serializing_if = "Shared::is_empty")]
    pub qers: Shared<Qer>,
    /// Usage reporting rules.
    #[serde(skip_serializing_if = "Shared::is_empty")]
    pub urrs: Shared<Urr>,
    /// Buffering action rules.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bars: Vec<Bar>,
    /// Seconds without a packet after which the user plane reports inactivity (§8.2.83).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inactivity: Option<u32>,
}

/// A side of the user plane: source interface (§8.2.2) and destination interface (§8.2.24).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Interface {
    /// Towards the user: packets from there are uplink.
    Access,
    /// Towards the core or the data network: packets from there are downlink.
    Core,
    /// Towards the data network, or a network of service functions (SGi-LAN, N6-LAN).
    SgiLan,
    /// The control plane.
    CpFunction,
    /// Lawful interception; a destination only.
    LiFunction,
    /// The network of a 5G VN group inside the node.
    VnInternal,
}

/// Packet detection rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pdr {
    /// Its number in the session.
    pub id: PdrId,
    /// The lower, the earlier the rule is looked at (§8.2.11).
    pub precedence: u32,
    /// Where packets come from.
    pub source: Interface,
    /// Name of the network instance of the *node* (`ports.*.network`) in which the F-TEID and
    /// the addresses hold; `default` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Name>,
    /// The tunnel of the node that packets come in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<LocalTunnel>,
    /// The user's addresses: the source of packets from the access side, the destination of
    /// others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ue: Option<UeAddress>,
    /// Networks behind the user (framed routes, §8.2.109, §8.2.111): addresses as good as the
    /// user's own.
    #[serde(default, skip_serializing_if = "Rare::is_empty")]
    pub routes: Rare<Prefix>,
    /// Filters, of which one must match; without filters, any packet does.
    #[serde(default, skip_serializing_if = "Rare::is_empty")]
    pub filters: Rare<SdfFilter>,
    /// QoS flow identifiers, of which a packet must carry one; without any, all match.
    #[serde(default, skip_serializing_if = "Rare::is_empty")]
    pub qfis: Rare<u8>,
    /// What is taken off a packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removal: Option<Removal>,
    /// What becomes of packets. Packets of a rule without one are dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far: Option<FarId>,
    /// What measures packets.
    #[serde(default, skip_serializing_if = "Few::is_empty")]
    pub urrs: Few<UrrId>,
    /// What limits packets.
    #[serde(default, skip_serializing_if = "Few::is_empty")]
    pub qers: Few<QerId>,
    /// The chain that packets take: the value of the tag `chain`. Without one, that of the
    /// `users` entry that the session is like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<Name>,
    /// When it holds, if it does not always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Box<Period>>,
}

/// A time in which a rule holds; both ends are seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Period {
    /// Its begin (activation time, §8.2.98).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// Its end (deactivation time, §8.2.99).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}

/// A tunnel that ends at the node: local F-TEID (§8.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LocalTunnel {
    /// The TEID. It is the key of the lookup; no other session of the network instance has it,
    /// whatever the address.
    #[schemars(range(min = 1))]
    pub teid: u32,
    /// IPv4 address of the node that the peer sends to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<Ipv4Addr>,
    /// IPv6 address of the node that the peer sends to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<Ipv6Addr>,
}

/// The addresses of a user (§8.2.62).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct UeAddress {
    /// The IPv4 address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<Ipv4Addr>,
    /// The IPv6 prefix or address. As a key of the lookup it has 64 or 128 bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<Prefix>,
}

/// Outer header removal (§8.2.64).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Removal {
    /// GTP-U, UDP and IPv4.
    GtpuIpv4,
    /// GTP-U, UDP and IPv6.
    GtpuIpv6,
    /// GTP-U, UDP and IP of either version.
    Gtpu,
    /// GTP-U, UDP and IP of either version, and of the GTP-U extension headers none is put
    /// into the next tunnel.
    GtpuExtensions,
}

/// Forwarding action rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Far {
    /// Its number in the session.
    pub id: FarId,
    /// What becomes of packets.
    pub action: Apply,
    /// Where they go on, in place of which they are dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<Forwarding>,
    /// Where copies go (DUPL).
    #[serde(default, skip_serializing_if = "Rare::is_empty")]
    pub duplicate: Rare<Forwarding>,
    /// How packets wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bar: Option<BarId>,
    /// Whether the tunnel that the rule has had ends with an End Marker, if another is given.
    /// It is of one change, and no part of the rule.
    #[serde(skip)]
    pub end_marker: bool,
}

/// Apply Action (§8.2.26).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Apply {
    /// DROP.
    Drop,
    /// FORW.
    Forward,
    /// BUFF: packets wait until the action is another.
    Buffer,
    /// BUFF and NOCP: they wait, and the first one is told.
    Notify,
}

/// Forwarding parameters (§7.5.2.3-2), or those of a copy (§7.5.2.3-3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Forwarding {
    /// Where packets go: the value of the tag `interface`. Without one that is known,
    /// packets are dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<Interface>,
    /// Name of the network instance of the node in which they go on: the value that the tag
    /// `network` gets. Without it the tag stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Name>,
    /// The tunnel that they are put into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outer: Option<OuterHeader>,
    /// DSCP that the outer header gets; without an outer header, the packet (transport level
    /// marking, §8.2.12).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 63))]
    pub dscp: Option<u8>,
    /// Where HTTP requests are sent (§8.2.20): the URL that they are answered with. No packet
    /// of such a rule goes further.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect: Option<Name>,
}

/// Outer header creation (§8.2.56), with the node's own address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
#[schemars(transform = describe)]
pub enum OuterHeader {
    /// GTP-U, UDP and IP.
    Gtpu {
        /// TEID that the peer has given out.
        teid: u32,
        /// Address of the peer.
        peer: IpAddr,
        /// Address of the node that packets come from, of the same family.
        local: IpAddr,
    },
    /// UDP and IP.
    Udp {
        /// UDP port of the peer.
        port: u16,
        /// Address of the peer.
        peer: IpAddr,
        /// Address of the node that packets come from, of the same family.
        local: IpAddr,
    },
}

/// Gives the key of each variant the description that the variant has.
fn describe(schema: &mut Schema) {
    let variants = schema.get_mut("oneOf").and_then(Value::as_array_mut);
    for variant in variants.into_iter().flatten() {
        let description = variant["description"].clone();
        let keys = variant.get_mut("properties").and_then(Value::as_object_mut);
        for (_, key) in keys.into_iter().flatten() {
            key["description"] = description.clone();
        }
    }
}

/// QoS enforcement rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Qer {
    /// Its number in the session.
    pub id: QerId,
    /// Number that rules of several sessions have in common (§8.2.10), made of the control
    /// plane's and its QER Correlation ID: their packets share the maximum bit rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<u64>,
    /// Whether the gate is closed (§8.2.7): `uplink`, `downlink`.
    #[serde(default)]
    pub closed: PerDirection<bool>,
    /// Maximum bit rates in kbit/s (§8.2.8).
    #[serde(default)]
    pub maximum: PerDirection<Option<u64>>,
    /// Guaranteed bit rates in kbit/s (§8.2.9). Packets within them pass also where another
    /// rule of the packet has no more room.
    #[serde(default)]
    pub guaranteed: PerDirection<Option<u64>>,
    /// Packets that may pass in a time (§8.2.63).
    #[serde(default)]
    pub packets: PerDirection<Option<PacketRate>>,
    /// QoS flow identifier that packets get downlink, and that a tunnel to another user plane
    /// gets uplink (§8.2.89).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 63))]
    pub qfi: Option<u8>,
    /// Reflective QoS indication in downlink packets (§8.2.88).
    #[serde(default)]
    pub reflective: bool,
    /// Paging policy indicator in downlink packets (§8.2.115).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 7))]
    pub paging_policy: Option<u8>,
    /// DSCP that downlink packets get themselves (DL Flow Level Marking, §8.2.66).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 63))]
    pub marking: Option<u8>,
    /// Service Class Indicator in the tunnel of downlink packets (TS 29.281 §5.2.2.3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_class: Option<u8>,
}

/// A value for each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PerDirection<T: Default> {
    /// Of packets from the user.
    pub uplink: T,
    /// Of packets to the user.
    pub downlink: T,
}

/// Packets in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PacketRate {
    /// How many packets.
    pub packets: u16,
    /// In how many seconds: 60, 360, 3,600, 86,400 or 604,800.
    pub seconds: u32,
}

/// Buffering action rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bar {
    /// Its number in the session.
    pub id: BarId,
    /// Milliseconds between the first packet and its report (§8.2.28).
    #[serde(default)]
    pub delay: u32,
    /// Packets that may wait, within the limits of the node (§8.2.66).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u16>,
    /// Extended buffering (§8.2.29): nothing is told, and in place of `packets` so many wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extended: Option<Extended>,
}

/// Buffering for a time that the control plane has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Extended {
    /// Packets that may wait (§8.2.30), within the limits of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u16>,
}
