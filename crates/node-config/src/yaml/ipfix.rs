//! Export by IPFIX.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::blueprint::IpfixTransport;

/// What the node exports by IPFIX (RFC 7011), and to whom.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Ipfix")]
pub struct IpfixFile {
    /// The collector: address and port, such as `192.0.2.9:4739` or `[2001:db8::9]:4739`.
    pub collector: String,
    /// How messages get there.
    #[serde(default)]
    pub transport: IpfixTransport,
    /// Number of the node among those that the collector hears of (RFC 7011 section 3.1).
    #[serde(default = "one")]
    pub observation_domain: u32,
    /// Functions of the kind `counter`: what they have counted for each user is told.
    #[serde(default)]
    pub usage: Vec<String>,
    /// Seconds between two records of a user's usage.
    #[serde(default = "minute")]
    #[schemars(range(min = 1, max = 86_400))]
    pub interval: u32,
    /// Functions of the kind `nat`: blocks of ports that they give to users, and that come
    /// back, are told (RFC 8158).
    #[serde(default)]
    pub port_blocks: Vec<String>,
    /// Longest message, in octets. A path whose MTU is not known carries 464 by UDP (RFC 7011
    /// section 10.3.3).
    #[serde(default = "message_octets")]
    #[schemars(range(min = 320, max = 65_000))]
    pub message_octets: u32,
    /// Seconds between two times that templates are sent by UDP.
    #[serde(default = "ten_minutes")]
    #[schemars(range(min = 1, max = 86_400))]
    pub template_interval: u32,
}

fn one() -> u32 {
    1
}

fn minute() -> u32 {
    60
}

fn ten_minutes() -> u32 {
    600
}

fn message_octets() -> u32 {
    464
}
