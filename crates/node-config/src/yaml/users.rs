//! Users, their keys and their bearers.

use schemars::JsonSchema;
use serde::Deserialize;

use super::Settings;
use crate::values::{Entries, Ip, Ipv4, Ipv6, NameOrNumber};

/// A group of users.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Settings of functions that keep one context for a group, by instance.
    #[serde(default)]
    pub functions: Entries<Settings>,
}

/// One user, or several in a row.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Users {
    /// Name of the user; of several, what stands before `-0`, `-1`, ….
    pub name: String,
    /// How many users. 0, without `match`, for an entry that PFCP sessions are like.
    #[serde(default = "one_user")]
    pub count: u32,
    /// What packets of the user are known by; at least one of them.
    #[serde(default)]
    pub r#match: Match,
    /// The chain of the user's packets: the value of the tag `chain`.
    pub chain: Option<String>,
    /// The group of the user.
    pub group: Option<String>,
    /// Values of tags.
    #[serde(default)]
    pub tags: Entries<NameOrNumber>,
    /// Settings of functions, by instance. A function that keeps one context for
    /// a bearer applies them to the default bearer.
    #[serde(default)]
    pub functions: Entries<Settings>,
    /// Dedicated bearers. A packet belongs to the first that matches, otherwise
    /// to the default bearer.
    #[serde(default)]
    pub bearers: Vec<Bearer>,
}

fn one_user() -> u32 {
    1
}

/// What packets of a user are known by.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Match {
    /// Network instance of the addresses and the flow; `default` by default.
    pub network: Option<String>,
    /// The user's IPv4 address; the nth of several users has the nth address
    /// from it.
    pub ipv4: Option<Ipv4>,
    /// The user's /64 prefix or IPv6 address; the nth of several users has the
    /// nth prefix or address from it.
    pub ipv6: Option<Ipv6>,
    /// The TEID (3GPP TS 29.281) that the node has given out for the user's
    /// tunnel; the nth of several users has the nth from it. Packets in tunnels
    /// are known by their TEID alone.
    #[schemars(range(min = 1))]
    pub teid: Option<u32>,
    /// Network instance of the TEID; `network` by default.
    #[serde(rename = "teidNetwork")]
    pub teid_network: Option<String>,
    /// The security parameters index (RFC 4303) that the node has given out for the
    /// user's IPsec tunnel; the nth of several users has the nth from it.
    #[schemars(range(min = 256))]
    pub spi: Option<u32>,
    /// Network instance of the SPI; `network` by default.
    #[serde(rename = "spiNetwork")]
    pub spi_network: Option<String>,
    /// A VLAN at a port.
    pub vlan: Option<Vlan>,
    /// A PPPoE session at a port.
    pub session: Option<Session>,
    /// A port: whatever comes in there and belongs to no other user.
    pub port: Option<String>,
    /// One flow.
    pub flow: Option<Flow>,
}

/// A VLAN at a port.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vlan {
    /// Name of the port.
    pub port: String,
    /// VLAN identifier; the nth of several users has the nth from it.
    #[schemars(range(min = 1, max = 4094))]
    pub id: u16,
}

/// A PPPoE session at a port, such as compressed headers travel in.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// Name of the port.
    pub port: String,
    /// Session identifier; the nth of several users has the nth from it.
    pub id: u16,
}

/// One flow as it is seen uplink; downlink, source and destination change
/// places.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Flow {
    /// `tcp`, `udp`, `sctp`, `icmp`, `icmpv6`, `esp`, `gre`, or an IP protocol
    /// number.
    pub protocol: NameOrNumber,
    /// Address at the user's side.
    pub source: Ip,
    /// Port at the user's side, for TCP, UDP and SCTP.
    pub source_port: Option<u16>,
    /// Address at the network's side.
    pub destination: Ip,
    /// Port at the network's side, for TCP, UDP and SCTP.
    pub destination_port: Option<u16>,
}

/// A dedicated bearer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bearer {
    /// Name of the bearer.
    pub name: String,
    /// Condition in the language of the rules.
    pub when: String,
    /// Settings of functions that keep one context for a bearer, by instance.
    #[serde(default)]
    pub functions: Entries<Settings>,
}
