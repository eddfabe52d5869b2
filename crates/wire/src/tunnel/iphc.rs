//! IP header compression (RFC 2507): what the packets of both ends look like.
//!
//! The headers that a packet begins with, IP over IP down to TCP or UDP, are a
//! [`Chain`]. Both ends keep the chain of each flow, and its octets fall into
//! four kinds (RFC 2507 §3 and §7): some never change within a flow
//! (NOCHANGE), some follow from the length of the packet or from other octets
//! (INFERRED), some change a little (DELTA, in TCP), and the rest is sent as it
//! is (RANDOM). A packet is of one of five types (§3.1):
//!
//! | type | carries |
//! |---|---|
//! | FULL_HEADER | the headers themselves, with the [context identifier](full) in their length fields |
//! | [COMPRESSED_NON_TCP](non_tcp) | context identifier, generation, RANDOM octets |
//! | [COMPRESSED_TCP](tcp::Delta) | context identifier, checksum, what TCP changed |
//! | [COMPRESSED_TCP_NODELTA](tcp::write_nodelta) | context identifier, the TCP header as it is |
//! | [CONTEXT_STATE](state) | context identifiers whose headers are asked for |
//!
//! The type is not in the packet; the link tells it, here by the
//! [PPP protocol number](crate::pppoe::PppProtocol).
//!
//! Narrower than the RFC: not compressed are packets with more than three IP
//! headers, jumbograms, minimal encapsulation (on which §7 and §7.14 disagree), and
//! packets that cannot be rebuilt octet by octet ([`Chain::can_be_inferred`]). The D
//! bit and its octet (§12) are passed over.

mod chain;
mod delta;
pub mod full;
pub mod non_tcp;
pub mod state;
pub mod tcp;
#[cfg(test)]
mod tests;

pub use chain::{Chain, Transport};

use arrayvec::ArrayVec;

/// Octets of headers that are compressed at most (MAX_HEADER, RFC 2507 §14).
pub const MAX_HEADER: usize = 168;
/// Octets that a compressed header may take: those of a header that are all sent
/// as they are, and in COMPRESSED_TCP every field in front of them and of TCP.
pub const MAX_COMPRESSED: usize = MAX_HEADER + 24;

/// A compressed header as it is put together.
pub type Compressed = ArrayVec<u8, MAX_COMPRESSED>;

/// Appends octets. What is written here always fits [`MAX_COMPRESSED`].
#[inline]
fn push(out: &mut Compressed, octets: &[u8]) {
    let fits = out.try_extend_from_slice(octets);
    debug_assert!(fits.is_ok(), "a compressed header beyond its bound");
}

/// Which context a packet is of: one in each of the two spaces, that of TCP and
/// that of everything else (RFC 2507 §5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContextId(pub u16);

/// Counts the headers that a non-TCP context has had, modulo 64 (RFC 2507 §3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Generation(u8);

impl Generation {
    /// Of a number, of which the lower six bits count.
    #[inline]
    pub const fn new(value: u8) -> Self {
        Self(value & 0x3f)
    }

    /// The number, 0 to 63.
    #[inline]
    pub const fn value(self) -> u8 {
        self.0
    }

    /// The one behind it.
    #[inline]
    pub const fn next(self) -> Self {
        Self::new(self.0.wrapping_add(1))
    }
}
