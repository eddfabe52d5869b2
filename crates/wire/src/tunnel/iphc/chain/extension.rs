//! Extension headers, and which of their octets change at random
//! (RFC 2507 §7.2 to §7.10).

use std::ops::Range;

use crate::Protocol;

/// Minimal encapsulation (RFC 2004): RFC 2507 §7.14 says how its fields change,
/// but §7 a) ends the chain in front of it, so ends of a link may disagree.
const MINIMAL_ENCAPSULATION: Protocol = Protocol(55);

/// Types of options of IPv6.
mod option {
    /// One octet of padding (RFC 8200 §4.2).
    pub const PAD1: u8 = 0;
    /// Octets of padding.
    pub const PADN: u8 = 1;
    /// The length of a jumbogram (RFC 2675 §2).
    pub const JUMBO_PAYLOAD: u8 = 194;
}

/// A header between an IP header and what that carries. All of it is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extension<'a> {
    protocol: Protocol,
    header: &'a [u8],
}

impl<'a> Extension<'a> {
    /// That at the front of `rest`, behind IPv6 or IPv4; none within where there
    /// is no such header. None for what cannot be compressed: headers that are cut
    /// off, options beyond their end, jumbograms.
    pub fn read(protocol: Protocol, rest: &'a [u8], behind_v6: bool) -> Option<Option<Self>> {
        let length = match protocol {
            Protocol::HOP_BY_HOP | Protocol::DESTINATION_OPTIONS | Protocol::ROUTING
                if behind_v6 =>
            {
                (usize::from(*rest.get(1)?) + 1) * 8
            }
            Protocol::FRAGMENT if behind_v6 => 8,
            Protocol::AH => (usize::from(*rest.get(1)?) + 2) * 4,
            Protocol::ESP => 4,
            MINIMAL_ENCAPSULATION => return None,
            _ => return Some(None),
        };
        let extension = Extension { protocol, header: rest.get(..length)? };
        extension.each_sent(|_| {})?;
        Some(Some(extension))
    }

    pub fn length(&self) -> usize {
        self.header.len()
    }

    /// What follows; none behind a fragment header and a security payload, which
    /// end the chain (RFC 2507 §7 b).
    pub fn following(&self) -> Option<Protocol> {
        match self.protocol {
            Protocol::FRAGMENT | Protocol::ESP => None,
            _ => self.header.first().map(|next| Protocol(*next)),
        }
    }

    /// Whether there are RANDOM octets.
    pub fn is_sent(&self) -> bool {
        let mut sent = false;
        self.each_sent(|octets| sent |= !octets.is_empty());
        sent
    }

    /// Visits the RANDOM octets: all of a fragment header but its first two
    /// (§7.6), the data of an authentication header (§7.9), of options but padding
    /// (§7.3). None for options that cannot be compressed.
    pub fn each_sent(&self, mut visit: impl FnMut(Range<usize>)) -> Option<()> {
        let length = self.header.len();
        match self.protocol {
            Protocol::FRAGMENT => visit(2..length),
            Protocol::AH => visit(8..length),
            Protocol::HOP_BY_HOP | Protocol::DESTINATION_OPTIONS => {
                let mut at = 2;
                while let Some(&kind) = self.header.get(at) {
                    if kind == option::PAD1 {
                        at += 1;
                        continue;
                    }
                    let end = at + 2 + usize::from(*self.header.get(at + 1)?);
                    if end > length || kind == option::JUMBO_PAYLOAD {
                        return None;
                    }
                    if kind != option::PADN {
                        visit(at + 2..end);
                    }
                    at = end;
                }
            }
            _ => {}
        }
        Some(())
    }

    /// Visits what defines a flow: what follows, SPIs, the last address of a
    /// routing header of type 0 on its way (RFC 2507 §7.5, §7.9, §7.10).
    pub fn defining(&self, mut visit: impl FnMut(u64)) {
        visit(self.header.first().copied().unwrap_or_default().into());
        let word = |at: usize| {
            let word = self.header.get(at..).and_then(|rest| rest.first_chunk());
            word.map_or(0, |word| u64::from(u32::from_be_bytes(*word)))
        };
        match self.protocol {
            Protocol::AH => visit(word(4)),
            Protocol::ESP => visit(word(0)),
            Protocol::ROUTING
                if self.header.get(2..4).is_some_and(|at| at[0] == 0 && at[1] > 0) =>
            {
                let last = self.header.len().saturating_sub(16);
                (last..last + 16).step_by(4).for_each(|at| visit(word(at)));
            }
            _ => {}
        }
    }
}
