//! Datagrams that come in fragments: the later ones have no ports, and follow their
//! first.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use crate::common::shared_ports::Header;

/// Datagrams that are known at once.
const DATAGRAMS: usize = 4096;
/// How long the fragments of a datagram may take, nanoseconds (RFC 1122 §3.3.2 lets
/// hosts wait 60 s).
const REASSEMBLY: u64 = 30_000_000_000;

/// A datagram, and what is known of it.
#[derive(Clone, Copy, Debug, Default)]
struct Datagram<T> {
    source: u32,
    destination: u32,
    identification: u16,
    protocol: u8,
    known: T,
    /// Nanoseconds; 0 where there is none.
    until: u64,
}

/// Datagrams whose first fragment was seen; a newer one takes the place of another.
#[derive(Debug)]
pub struct FirstFragments<T> {
    datagrams: Box<[Datagram<T>]>,
    /// Unknown outside: what chooses the place of a datagram could choose another's.
    seed: u64,
}

impl<T: Copy + Default> FirstFragments<T> {
    /// None yet.
    pub fn new() -> FirstFragments<T> {
        let datagrams = vec![Datagram::default(); DATAGRAMS].into_boxed_slice();
        FirstFragments { datagrams, seed: random_seed() }
    }

    /// Notes what the first fragment of a datagram has told.
    pub fn note(&mut self, header: &Header, known: T, now: u64) {
        let Header { source, destination, protocol, identification, .. } = *header;
        let until = now + REASSEMBLY;
        self.datagrams[place(self.seed, header)] =
            Datagram { source, destination, identification, protocol, known, until };
    }

    /// What the first fragment of a later one's datagram has told.
    pub fn find(&self, header: &Header, now: u64) -> Option<T> {
        let datagram = &self.datagrams[place(self.seed, header)];
        let is_it = datagram.source == header.source
            && datagram.destination == header.destination
            && datagram.identification == header.identification
            && datagram.protocol == header.protocol
            && datagram.until > now;
        is_it.then_some(datagram.known)
    }
}

/// Where the datagram of a fragment is kept.
fn place(seed: u64, header: &Header) -> usize {
    let ends = u64::from(header.source) << 32 | u64::from(header.destination);
    let rest = u64::from(header.identification) << 8 | u64::from(header.protocol);
    (mix(mix(seed, ends), rest) >> 32) as usize % DATAGRAMS
}

/// A number that is not known outside, and another one each time.
pub fn random_seed() -> u64 {
    // The standard library's keys come from the system.
    RandomState::new().build_hasher().finish()
}

/// The two halves of a product, folded into one: every bit counts.
pub fn mix(hash: u64, word: u64) -> u64 {
    // 2⁶⁴ divided by the golden ratio, as in Fibonacci hashing.
    let product = u128::from(hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (product >> 64) as u64 ^ product as u64
}
