//! Public addresses and timeouts, as they are configured.

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::ConfigError;

use super::blocks::{FIRST_PORT, Pool};
use crate::common::prefix::Prefix;

/// Blocks of all addresses at most.
const MAX_BLOCKS: u32 = 1 << 24;

/// Public addresses, and how users share them.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Public IPv4 addresses, which lead here.
    #[schemars(length(min = 1))]
    pub addresses: Vec<Prefix>,
    /// Ports of a user's block, for each protocol.
    #[serde(default = "block_size")]
    #[schemars(range(min = 16, max = 64_512))]
    pub block_size: u16,
    /// Inside addresses that have a block each by their place, without a log (RFC
    /// 7422). Without it, users get a block with their first packet.
    #[serde(default)]
    pub deterministic: Option<Prefix>,
    /// Mappings of all users at most.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100_000_000))]
    pub mappings: Option<u32>,
    /// How long mappings last without a packet.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Seconds for which a block that came back is not given out again (RFC 6888 §3,
    /// REQ-8).
    #[serde(default = "hold_down")]
    pub hold_down: u32,
    /// A secret that makes the order in which ports are given out unknown outside (RFC
    /// 6056). Without it, a random one, so that each start has another order.
    #[serde(default)]
    pub port_seed: Option<u64>,
    /// A file that blocks are noted in as they are given out and come back.
    #[serde(default)]
    pub log: Option<String>,
}

fn block_size() -> u16 {
    512
}

fn hold_down() -> u32 {
    120
}

/// Seconds that mappings last without a packet that refreshes them.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Timeouts {
    /// UDP (RFC 4787 REQ-5).
    #[schemars(range(min = 1))]
    pub udp: u32,
    /// TCP, once the other end has answered (RFC 5382 REQ-5).
    #[schemars(range(min = 1))]
    pub tcp_established: u32,
    /// TCP before that, and behind FIN or RST.
    #[schemars(range(min = 1))]
    pub tcp_transitory: u32,
    /// Queries of ICMP (RFC 5508 REQ-2).
    #[schemars(range(min = 1))]
    pub icmp: u32,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts { udp: 300, tcp_established: 7440, tcp_transitory: 240, icmp: 60 }
    }
}

/// The addresses and their blocks.
///
/// # Errors
/// Where addresses overlap, are none or too many, or blocks have a size that cannot be.
pub fn pool(config: &Config) -> Result<Pool, ConfigError> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for (number, prefix) in config.addresses.iter().enumerate() {
        let place = format!("addresses.{number}");
        let Some(v4) = prefix.v4().filter(|_| prefix.length() >= 8) else {
            return Err(ConfigError::at(place, "a prefix of IPv4 addresses, of 8 bits or more"));
        };
        if config.addresses[..number].iter().any(|before| before.overlaps(*prefix)) {
            return Err(ConfigError::at(place, format!("{prefix} overlaps another one")));
        }
        ranges.push((v4.first(), v4.first() | !v4.mask));
    }
    if ranges.is_empty() {
        return Err(ConfigError::at("addresses", "at least one public address"));
    }
    if !(16..=u16::MAX - FIRST_PORT + 1).contains(&config.block_size) {
        return Err(ConfigError::at("blockSize", "16 to 64512 ports"));
    }
    let pool = Pool::new(ranges, config.block_size);
    if pool.blocks() > MAX_BLOCKS {
        let message = format!("more than {MAX_BLOCKS} blocks: fewer addresses, or larger blocks");
        return Err(ConfigError::at("addresses", message));
    }
    Ok(pool)
}

/// First and last inside address that have a block by their place.
///
/// # Errors
/// Where there are not as many blocks.
pub fn deterministic(config: &Config, pool: &Pool) -> Result<Option<(u32, u32)>, ConfigError> {
    let Some(prefix) = config.deterministic else { return Ok(None) };
    let Some(v4) = prefix.v4() else {
        return Err(ConfigError::at("deterministic", "a prefix of IPv4 addresses"));
    };
    let (first, last) = (v4.first(), v4.first() | !v4.mask);
    let (inside, blocks) = (u64::from(last - first) + 1, pool.blocks());
    if inside > blocks.into() {
        let message = format!("{inside} addresses inside, and blocks for {blocks}");
        return Err(ConfigError::at("deterministic", message));
    }
    Ok(Some((first, last)))
}
