//! Messages of nodes as control planes are to see them: elements are exchanged, and all others
//! stay as they are, known or not.

use super::ProxyId;
use crate::codec::element::{NodeId, Text};
use crate::codec::group::put;
use crate::codec::{Elements, Error, Frame, Value};

/// The message with other elements: `edit` is given each, and what it appends stands in its
/// place.
///
/// # Errors
/// The elements of the message cannot be read.
pub(super) fn edited(
    frame: &Frame<'_>,
    mut edit: impl FnMut(u16, &[u8], &mut Vec<u8>),
    behind: impl FnOnce(&mut Vec<u8>),
) -> Result<Vec<u8>, Error> {
    let mut body = Vec::with_capacity(frame.body.len() + 32);
    for element in Elements::new(frame.body) {
        let (number, octets) = element?;
        edit(number, octets, &mut body);
    }
    behind(&mut body);
    Ok(Frame { body: &body, ..*frame }.alone())
}

/// Appends an element as it is.
pub(super) fn keep(number: u16, octets: &[u8], out: &mut Vec<u8>) {
    put(number, &crate::codec::element::Octets(octets), out);
}

/// The first element of a type.
pub(super) fn first<'a, T: Value<'a>>(body: &'a [u8], number: u16) -> Option<T> {
    let found = Elements::new(body).flatten().find(|(element, _)| *element == number);
    found.and_then(|(element, octets)| T::parse(element, octets).ok())
}

/// The Node ID of a proxy, with the labels of its name.
pub(super) fn node_id<'n>(id: &ProxyId, labels: &'n [u8]) -> NodeId<'n> {
    match id {
        ProxyId::Address(address) => NodeId::Address(*address),
        ProxyId::Name(_) => NodeId::Fqdn(Text(labels)),
    }
}

/// Writes another sequence number into a message.
pub(super) fn renumber(message: &mut [u8], sequence: u32) {
    let at = if message.first().is_some_and(|flags| flags & 1 != 0) { 12 } else { 4 };
    if let Some(place) = message.get_mut(at..at + 3) {
        place.copy_from_slice(&sequence.to_be_bytes()[1..]);
    }
}
