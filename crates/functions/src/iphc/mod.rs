//! What both ends of header compression (RFC 2507) share: the
//! flows of all users (`flows.rs`), and how a packet takes on other headers.
//!
//! Compressed headers travel in sessions of PPP over Ethernet (RFC 2516): the
//! PPP protocol number tells the five types of packets apart, as RFC 3544 has
//! it, the length field keeps the padding of short Ethernet frames out, which
//! inferred lengths would take for payload, and the session tells whose context
//! identifiers they are. Wireshark reads it.

pub(crate) mod flows;
pub(crate) mod link;

functions! {
    ip_header_compressor::IpHeaderCompressor,
    ip_header_decompressor::IpHeaderDecompressor,
}

use weft_function::{ConfigError, Tag, Values};
use weft_wire::iphc::MAX_HEADER;

use flows::Limits;

/// Flows that one user has at most in each space, unless configured otherwise
/// (TCP_SPACE and NON_TCP_SPACE of RFC 2507 §14 are one less; RFC 3544 §2.1 and §2.4
/// allow links fewer, and none).
pub(crate) const FLOWS: u32 = 16;
/// Context identifiers of TCP have 8 bits.
pub(crate) const MAX_TCP_FLOWS: u32 = 1 << 8;
/// Context identifiers of everything else have up to 16.
pub(crate) const MAX_NON_TCP_FLOWS: u32 = 1 << 16;
/// Octets of headers that either end of a link may be told to keep at least
/// (MAX_HEADER, RFC 2507 §14).
const LEAST_HEADER: u16 = 60;
/// Flows that an arena has room for even with few users.
pub(crate) const LEAST_ARENA: u32 = 4096;

/// The packet number behind another: 0 is none (RFC 2507 §11.2).
#[inline]
pub(crate) fn next_number(number: u16) -> u16 {
    number.checked_add(1).unwrap_or(1)
}

/// What a packet is to the two ends of compression, for rules: a `request` was
/// made by the decompressor and goes back over the link, a `report` is a
/// request of the other end, for the compressor.
pub const TAG: Tag = Tag { name: "iphc", values: Values::Named(&["packet", "request", "report"]) };

/// Values of [`TAG`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Role {
    Packet = 0,
    Request = 1,
    Report = 2,
}

/// Flows of one user as configured, or by default.
///
/// # Errors
/// More than there are context identifiers.
pub(crate) fn limits(tcp: Option<u32>, non_tcp: Option<u32>) -> Result<Limits, ConfigError> {
    let limits = Limits { tcp: tcp.unwrap_or(FLOWS), non_tcp: non_tcp.unwrap_or(FLOWS) };
    let most = [
        ("tcpFlows", limits.tcp, MAX_TCP_FLOWS),
        ("nonTcpFlows", limits.non_tcp, MAX_NON_TCP_FLOWS),
    ];
    match most.into_iter().find(|(_, value, most)| value > most) {
        Some((key, _, most)) => Err(ConfigError::at(key, format!("a link has {most} at most"))),
        None => Ok(limits),
    }
}

/// Octets of headers that are kept as configured, or by default (RFC 2507 §5.2).
///
/// # Errors
/// Fewer than RFC 2507 §14 allows, or more than a flow has room for.
pub(crate) fn max_header(configured: Option<u16>) -> Result<usize, ConfigError> {
    match configured.map(usize::from) {
        None => Ok(MAX_HEADER),
        Some(octets) if (usize::from(LEAST_HEADER)..=MAX_HEADER).contains(&octets) => Ok(octets),
        Some(_) => {
            let message = format!("contexts of {LEAST_HEADER} to {MAX_HEADER} octets are kept");
            Err(ConfigError::at("maxHeader", message))
        }
    }
}
