//! Notes of the node's store: their keys, and what is in them.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use weft_functions::session::rules::filter::SdfFilter;

use crate::associations::{Association, NodeKey};
use crate::transactions::TransactionId;
use crate::translate::Extras;
use crate::user_plane::Route;

/// What a note is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// The node's Recovery Time Stamp.
    Recovery,
    /// An association.
    Association(u32),
    /// Filters of an application.
    Application(String),
    /// A response, by its place.
    Answer(u32),
    /// A report that is not answered yet.
    Report(u64),
}

impl Key {
    pub fn to_octets(&self) -> Vec<u8> {
        match self {
            Key::Recovery => b"r".to_vec(),
            Key::Association(id) => [&b"a"[..], &id.to_be_bytes()].concat(),
            Key::Application(name) => [b"p", name.as_bytes()].concat(),
            Key::Answer(place) => [&b"d"[..], &place.to_be_bytes()].concat(),
            Key::Report(number) => [&b"u"[..], &number.to_be_bytes()].concat(),
        }
    }

    pub fn read(octets: &[u8]) -> Option<Key> {
        let (kind, rest) = octets.split_first()?;
        Some(match kind {
            b'r' => Key::Recovery,
            b'a' => Key::Association(u32::from_be_bytes(rest.try_into().ok()?)),
            b'p' => Key::Application(std::str::from_utf8(rest).ok()?.to_owned()),
            b'd' => Key::Answer(u32::from_be_bytes(rest.try_into().ok()?)),
            b'u' => Key::Report(u64::from_be_bytes(rest.try_into().ok()?)),
            _ => return None,
        })
    }
}

/// What a control plane's session has beside its rules.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SessionNote {
    pub cp_seid: u64,
    pub cp_address: IpAddr,
    pub association: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extras: Option<Box<Extras>>,
}

impl SessionNote {
    pub fn to_octets(&self) -> Vec<u8> {
        // Numbers, names and octets can be written.
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub fn read(octets: &[u8]) -> Option<SessionNote> {
        serde_json::from_slice(octets).ok()
    }
}

/// An association.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AssociationNote {
    pub node: NodeKey,
    pub address: IpAddr,
    pub recovery: u32,
    pub features: u32,
    pub is_lost: bool,
    /// Where it is reached, if that is through a proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
}

impl AssociationNote {
    pub fn of(one: &Association, route: Option<Route>) -> AssociationNote {
        AssociationNote {
            node: one.node.clone(),
            address: one.address,
            recovery: one.recovery,
            features: one.features.0,
            is_lost: one.lost_until.is_some(),
            route,
        }
    }

    pub fn to_octets(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub fn read(octets: &[u8]) -> Option<AssociationNote> {
        serde_json::from_slice(octets).ok()
    }
}

/// Filters of an application.
pub(super) fn of_filters(filters: &[SdfFilter]) -> Vec<u8> {
    serde_json::to_vec(filters).unwrap_or_default()
}

/// Reads what [`of_filters`] wrote.
pub(super) fn to_filters(octets: &[u8]) -> Option<Vec<SdfFilter>> {
    serde_json::from_slice(octets).ok()
}

/// The response to a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer<'a> {
    /// The higher, the later.
    pub serial: u64,
    /// Of the content of the request.
    pub digest: u64,
    pub request: TransactionId,
    pub response: &'a [u8],
}

impl<'a> Answer<'a> {
    /// Serial, digest, sequence number, port, length of the address in octets, address,
    /// response. Numbers are big endian.
    pub fn to_octets(&self) -> Vec<u8> {
        let Answer { serial, digest, request, response } = self;
        let mut octets = Vec::with_capacity(48 + response.len());
        octets.extend(serial.to_be_bytes());
        octets.extend(digest.to_be_bytes());
        octets.extend(request.sequence.to_be_bytes());
        octets.extend(request.from.port().to_be_bytes());
        match request.from.ip() {
            IpAddr::V4(address) => {
                octets.push(4);
                octets.extend(address.octets());
            }
            IpAddr::V6(address) => {
                octets.push(16);
                octets.extend(address.octets());
            }
        }
        octets.extend(*response);
        octets
    }

    pub fn read(octets: &'a [u8]) -> Option<Answer<'a>> {
        let (serial, rest) = octets.split_first_chunk()?;
        let (digest, rest) = rest.split_first_chunk()?;
        let (sequence, rest) = rest.split_first_chunk()?;
        let (port, rest) = rest.split_first_chunk()?;
        let (address, response): (IpAddr, _) = match rest.split_first()? {
            (4, rest) => {
                let (address, rest) = rest.split_first_chunk::<4>()?;
                ((*address).into(), rest)
            }
            (16, rest) => {
                let (address, rest) = rest.split_first_chunk::<16>()?;
                ((*address).into(), rest)
            }
            _ => return None,
        };
        let from = SocketAddr::new(address, u16::from_be_bytes(*port));
        Some(Answer {
            serial: u64::from_be_bytes(*serial),
            digest: u64::from_be_bytes(*digest),
            request: TransactionId { from, sequence: u32::from_be_bytes(*sequence) },
            response,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_as_they_were_written() {
        let keys = [
            Key::Recovery,
            Key::Association(7),
            Key::Application("video".to_owned()),
            Key::Answer(65_535),
            Key::Report(u64::MAX),
        ];
        for key in keys {
            assert_eq!(Key::read(&key.to_octets()), Some(key));
        }
        assert_eq!(Key::read(b""), None);
        assert_eq!(Key::read(b"a1"), None);
        for from in ["10.0.0.1:8805", "[fd00::1]:9"] {
            let request = TransactionId { from: from.parse().unwrap(), sequence: 0x00ff_fffe };
            let answer = Answer { serial: 9, digest: 1 << 63, request, response: b"response" };
            let octets = answer.to_octets();
            assert_eq!(Answer::read(&octets), Some(answer));
            assert_eq!(Answer::read(&octets[..24]), None);
        }
    }
}
