//! What both ends of header compression (RFC 2507) share: the
//! [flows](flows::Flows) of all users, and how a packet takes on other headers.
//!
//! Compressed headers travel in sessions of PPP over Ethernet (RFC 2516): the
//! PPP protocol number tells the five types of packets apart, as RFC 3544 has
//! it, the length field keeps the padding of short Ethernet frames out, which
//! inferred lengths would take for payload, and the session tells whose context
//! identifiers they are. Wireshark reads it.

pub mod flows;
pub mod link;

use weft_function::{Tag, Values};

/// Flows that one user has at most in each space, unless configured otherwise
/// (TCP_SPACE and NON_TCP_SPACE of RFC 3544 §2.1 are one less).
pub const FLOWS: u32 = 16;
/// Context identifiers of TCP have 8 bits.
pub const MAX_TCP_FLOWS: u32 = 1 << 8;
/// Context identifiers of everything else have up to 16.
pub const MAX_NON_TCP_FLOWS: u32 = 1 << 16;
/// Flows that an arena has room for even with few users.
pub const LEAST_ARENA: u32 = 4096;

/// What a packet is to the two ends of compression, for rules: a `request` was
/// made by the decompressor and goes back over the link, a `report` is a
/// request of the other end, for the compressor.
pub const TAG: Tag = Tag { name: "iphc", values: Values::Named(&["packet", "request", "report"]) };

/// Values of [`TAG`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Role {
    Packet = 0,
    Request = 1,
    Report = 2,
}
