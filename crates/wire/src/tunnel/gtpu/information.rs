//! Information elements (TS 29.281 §8).

use std::net::IpAddr;

use super::Teid;
use crate::Error;

/// One information element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element<'a> {
    /// Restart counter (§8.2): the receiver ignores it, the sender sends 0.
    Recovery(u8),
    /// The tunnel that an Error Indication is about (§8.3).
    TeidDataI(Teid),
    /// The address that the packet was sent to which an Error Indication is
    /// about (§8.4).
    PeerAddress(IpAddr),
    /// Types of extension headers that the sender knows (§8.5).
    ExtensionHeaderTypes(&'a [u8]),
    /// Any other with a length of its own, private extensions (§8.6) among them.
    Other {
        /// Its type, 128 or above.
        kind: u8,
        /// What follows type and length.
        content: &'a [u8],
    },
}

pub(super) mod kind {
    pub const RECOVERY: u8 = 14;
    pub const TEID_DATA_I: u8 = 16;
    pub const PEER_ADDRESS: u8 = 133;
    pub const EXTENSION_HEADER_TYPES: u8 = 141;
}

/// The information elements of a message, in order. After
/// [`Error::BadInformationElement`] the walk is over.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    rest: &'a [u8],
}

/// Starts at the first information element; the octets are a message's payload.
#[inline]
pub const fn elements(payload: &[u8]) -> Elements<'_> {
    Elements { rest: payload }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Element<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = std::mem::take(&mut self.rest);
        if rest.is_empty() {
            return None;
        }
        let Some((element, rest)) = split(rest) else {
            return Some(Err(Error::BadInformationElement));
        };
        self.rest = rest;
        Some(Ok(element))
    }
}

/// The first element and what follows it. Types below 128 have no length of
/// their own, so an unknown one cannot be passed over.
fn split(octets: &[u8]) -> Option<(Element<'_>, &[u8])> {
    match *octets {
        [kind::RECOVERY, counter, ref rest @ ..] => Some((Element::Recovery(counter), rest)),
        [kind::TEID_DATA_I, a, b, c, d, ref rest @ ..] => {
            Some((Element::TeidDataI(Teid(u32::from_be_bytes([a, b, c, d]))), rest))
        }
        [kind::EXTENSION_HEADER_TYPES, count, ref rest @ ..] => {
            let (types, rest) = rest.split_at_checked(count.into())?;
            Some((Element::ExtensionHeaderTypes(types), rest))
        }
        [kind @ 128..=255, high, low, ref rest @ ..] => {
            let (content, rest) = rest.split_at_checked(u16::from_be_bytes([high, low]).into())?;
            let element = match kind {
                kind::PEER_ADDRESS => Element::PeerAddress(address(content)?),
                _ => Element::Other { kind, content },
            };
            Some((element, rest))
        }
        _ => None,
    }
}

fn address(content: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(content).map(IpAddr::from).ok();
    v4.or_else(|| <[u8; 16]>::try_from(content).map(IpAddr::from).ok())
}
