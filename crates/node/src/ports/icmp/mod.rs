//! What a router owes the senders of packets in ICMP: word of packets that it
//! cannot forward, and answers to echo requests for its own addresses.
//!
//! Mostly it owes silence. [`Silence`] says why nothing is sent, so that it can
//! be counted. What is sent nevertheless is bounded by the caller, with a
//! [`RateLimit`](weft_dataplane::clock::rate_limit::RateLimit) (RFC 1812 §4.3.2.8, RFC 4443
//! §2.4 f).

mod echo;
mod error;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

pub use echo::answer_echo;
pub use error::{Problem, report};

/// Time to live and hop limit of what is sent.
const HOPS: u8 = 64;

/// Why nothing is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Silence {
    /// The packet is not one that can be read, or of the other family.
    #[error("malformed packet: {0}")]
    Malformed(#[from] weft_wire::Error),
    /// The packet is an ICMP error itself.
    #[error("the packet is an ICMP error itself")]
    AboutError,
    /// The packet is a fragment that there is no word of, or no answer to.
    #[error("the packet is a fragment")]
    Fragment,
    /// The source address is not one host's.
    #[error("the source address is not one host's")]
    SourceNotHost,
    /// The packet is for a group of hosts.
    #[error("the packet is for a group of hosts")]
    ForGroup,
    /// The packet is for another station.
    #[error("the packet is for another host")]
    NotOwn,
    /// The packet has IPv4 options or IPv6 extension headers.
    #[error("the packet has options or extension headers")]
    Options,
    /// The packet is no echo request.
    #[error("the packet is no echo request")]
    NotEchoRequest,
}

/// Whether an address is one host's that something can be sent to. Not so if it
/// says "this network", loops back, or names many hosts or none (RFC 1122
/// §3.2.1.3, RFC 1112 §4, RFC 4291 §2.5).
pub(crate) fn is_host(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !matches!(address.octets()[0], 0 | 127 | 224..),
        IpAddr::V6(address) => {
            !address.is_unspecified() && !address.is_loopback() && !address.is_multicast()
        }
    }
}
