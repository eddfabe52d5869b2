//! Datagrams that come in fragments from outside: the later ones have no ports, and
//! follow their first.

use super::translate::Header;
use super::{SECOND, mix};

/// Datagrams in fragments that are known at once.
const DATAGRAMS: usize = 4096;
/// How long the fragments of a datagram may take (RFC 1122 §3.3.2 lets hosts wait 60 s).
const REASSEMBLY: u64 = 30 * SECOND;

/// Where the fragments of a datagram go.
#[derive(Clone, Copy, Debug, Default)]
struct Datagram {
    source: u32,
    destination: u32,
    identification: u16,
    protocol: u8,
    inside: u32,
    user: u32,
    /// Nanoseconds; 0 where there is none.
    until: u64,
}

/// Datagrams whose first fragment was seen; a newer one takes the place of another.
#[derive(Debug)]
pub struct Fragments {
    datagrams: Box<[Datagram]>,
}

impl Fragments {
    /// None yet.
    pub fn new() -> Fragments {
        Fragments { datagrams: vec![Datagram::default(); DATAGRAMS].into_boxed_slice() }
    }

    /// The first fragment of a datagram went to this address, which is this user's.
    pub fn note(&mut self, header: &Header, inside: u32, user: u32, now: u64) {
        self.datagrams[place(header)] = Datagram {
            source: header.source,
            destination: header.destination,
            identification: header.identification,
            protocol: header.protocol,
            inside,
            user,
            until: now + REASSEMBLY,
        };
    }

    /// Address and user that a later fragment goes to.
    pub fn find(&self, header: &Header, now: u64) -> Option<(u32, u32)> {
        let datagram = &self.datagrams[place(header)];
        let is_it = datagram.source == header.source
            && datagram.destination == header.destination
            && datagram.identification == header.identification
            && datagram.protocol == header.protocol
            && datagram.until > now;
        is_it.then_some((datagram.inside, datagram.user))
    }
}

/// Where the datagram of a fragment is kept.
fn place(header: &Header) -> usize {
    let ends = u64::from(header.source) << 32 | u64::from(header.destination);
    let rest = u64::from(header.identification) << 8 | u64::from(header.protocol);
    (mix(mix(0, ends), rest) >> 32) as usize % DATAGRAMS
}
