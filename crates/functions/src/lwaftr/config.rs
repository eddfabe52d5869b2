//! The border function's addresses, and the table of its softwires.

use std::net::{Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::ConfigError;
use weft_wire::Dscp;

use crate::common::prefix::Prefix;
use crate::common::text;

/// Addresses, and how softwires are treated.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// IPv6 address where all softwires end, which leads here.
    pub address: Ipv6Addr,
    /// IPv4 address that ICMP errors come from. None are sent without it.
    #[serde(default)]
    pub ipv4_address: Option<Ipv4Addr>,
    /// Who has which addresses and ports.
    #[serde(default)]
    pub bindings: Option<Table>,
    /// A file of `bindings` in YAML, or in JSON if its name ends so, in place of them.
    #[serde(default)]
    pub file: Option<String>,
    /// Whether the bindings follow changes of the file.
    #[serde(default = "yes")]
    pub follow: bool,
    /// Octets of a softwire's IPv6 packets; longer ones are fragmented.
    #[serde(default = "mtu")]
    #[schemars(range(min = 1280, max = 9000))]
    pub mtu: u16,
    /// DSCP of a softwire's packets: a name or a number. Without it, that of the
    /// packet inside.
    #[serde(default, deserialize_with = "text::optional")]
    #[schemars(with = "Option<String>", extend("examples" = ["ef", "af41"]))]
    pub dscp: Option<Dscp>,
    /// Whether packets from one softwire to another turn round here.
    #[serde(default = "yes")]
    pub hairpinning: bool,
    /// Which messages of ICMP are let in and sent.
    #[serde(default)]
    pub icmp: Icmp,
    /// IPv6 packets in fragments that are put together at once at most.
    #[serde(default = "reassemblies")]
    #[schemars(range(min = 1, max = 65_536))]
    pub reassemblies: u32,
}

fn yes() -> bool {
    true
}

fn mtu() -> u16 {
    1500
}

fn reassemblies() -> u32 {
    1024
}

/// Which messages of ICMP are let in and sent (RFC 7596 §6.2, §8.1).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Icmp {
    /// ICMPv4 from outside is let in.
    pub inbound: bool,
    /// Senders outside are told that no softwire has an address and port.
    pub unreachable: bool,
    /// Softwires are told that a source is not theirs.
    pub refused: bool,
}

impl Default for Icmp {
    fn default() -> Icmp {
        Icmp { inbound: true, unreachable: true, refused: true }
    }
}

/// The binding table (RFC 7596 §6.1).
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Table {
    /// How addresses are shared. One in none of these is no softwire's.
    pub port_sets: Vec<PortSets>,
    /// Who has which.
    pub softwires: Vec<Softwire>,
}

/// How addresses are cut into sets of ports (RFC 7597 §5.1).
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PortSets {
    /// IPv4 addresses.
    pub addresses: Prefix,
    /// Bits of a port that say whose it is; none when addresses are not shared.
    #[serde(default)]
    #[schemars(range(max = 16))]
    pub psid_length: u8,
    /// Bits of a port in front of them; ports where these are 0 belong to no softwire.
    #[serde(default)]
    #[schemars(range(max = 15))]
    pub psid_offset: u8,
}

/// A softwire: the address and ports of one lwB4.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Softwire {
    /// IPv4 address.
    pub ipv4: Ipv4Addr,
    /// Which set of its ports.
    #[serde(default)]
    pub psid: u16,
    /// IPv6 address of the lwB4.
    pub b4: Ipv6Addr,
}

/// Checks what does not hang on the bindings.
///
/// # Errors
/// [`ConfigError`].
pub fn check(config: &Config) -> Result<(), ConfigError> {
    if config.address.is_unspecified() || config.address.is_multicast() {
        return Err(ConfigError::at("address", "the address of one host"));
    }
    if !(1280..=9000).contains(&config.mtu) {
        return Err(ConfigError::at("mtu", "1280 to 9000 octets"));
    }
    if !(1..=65_536).contains(&config.reassemblies) {
        return Err(ConfigError::at("reassemblies", "1 to 65536"));
    }
    if config.bindings.is_some() == config.file.is_some() {
        return Err(ConfigError::at("", "bindings stand in bindings or in file, in one of them"));
    }
    Ok(())
}
