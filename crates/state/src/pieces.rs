//! Records and changes as octets for another machine, in pieces.

use std::sync::Arc;

use crate::record::{Change, LOCAL, OWN};

/// Octets of a piece, about: a record that is longer stands alone.
const PIECE: usize = 256 << 10;

/// Longest record with its key, in octets.
pub const LONGEST_RECORD: usize = 4 << 20;

/// In place of the length of a record that goes.
const GONE: u32 = u32::MAX;

/// Changes that belong together, or a part of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The last part.
    pub is_last: bool,
    /// The changes, to be read by [`read_changes`].
    pub octets: Arc<[u8]>,
}

/// Whether a record is for both machines.
pub(crate) fn is_shared(key: &[u8]) -> bool {
    [OWN, LOCAL].iter().all(|own| !key.starts_with(&own.0.to_be_bytes()))
}

/// Writes records and those that go, in pieces. Each goes as: length of kind and key (u16),
/// both, length of version and record (u32), both; all ones in place of the second length for
/// one that goes. Numbers are little endian.
pub(crate) fn pieces<'a>(all: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut octets = Vec::new();
    let mut close = |octets: &mut Vec<u8>| {
        let octets = std::mem::take(octets).into();
        pieces.push(Piece { is_last: false, octets });
    };
    for (key, value) in all {
        let length = key.len() + value.map_or(0, <[u8]>::len) + 6;
        if length > LONGEST_RECORD || key.len() > usize::from(u16::MAX) {
            tracing::error!(octets = length, "a record is too long for another machine");
            continue;
        }
        if !octets.is_empty() && octets.len() + length > PIECE {
            close(&mut octets);
        }
        put(&mut octets, key, value);
    }
    if !octets.is_empty() {
        close(&mut octets);
    }
    pieces
}

fn put(octets: &mut Vec<u8>, key: &[u8], value: Option<&[u8]>) {
    octets.extend((key.len() as u16).to_le_bytes());
    octets.extend(key);
    octets.extend(value.map_or(GONE, |value| value.len() as u32).to_le_bytes());
    octets.extend(value.unwrap_or_default());
}

/// Reads the changes of a piece; none if it is not one. Kinds that belong to one machine are
/// left out.
pub fn read_changes(mut octets: &[u8]) -> Option<Vec<Change>> {
    let mut changes = Vec::new();
    while !octets.is_empty() {
        let (length, rest) = octets.split_first_chunk()?;
        let (key, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        let (length, rest) = rest.split_first_chunk()?;
        let (value, rest) = match u32::from_le_bytes(*length) {
            GONE => (None, rest),
            length => {
                let (value, rest) = rest.split_at_checked(length as usize)?;
                (Some(value.to_vec()), rest)
            }
        };
        if key.len() < 2 || value.as_ref().is_some_and(Vec::is_empty) {
            return None;
        }
        if is_shared(key) {
            changes.push(Change { key: key.to_vec(), value });
        }
        octets = rest;
    }
    Some(changes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::Kind;

    proptest! {
        #[test]
        fn changes_are_read_as_they_were_written(
            all in prop::collection::vec(
                (7..u16::MAX, any::<Vec<u8>>(), prop::option::of(any::<Vec<u8>>())), 1..20),
        ) {
            let change = |(kind, key, record): &(u16, Vec<u8>, Option<Vec<u8>>)| match record {
                Some(record) => Change::put(Kind(*kind), key, 1, record),
                None => Change::remove(Kind(*kind), key),
            };
            let changes: Vec<_> = all.iter().map(change).collect();
            let pieces = pieces(changes.iter().map(Change::stored));
            let read: Option<Vec<_>> = pieces.iter().map(|one| read_changes(&one.octets)).collect();
            prop_assert_eq!(read.map(|all| all.concat()), Some(changes));
        }

        #[test]
        fn octets_of_others_are_read_or_refused(octets: Vec<u8>) {
            let _ = read_changes(&octets);
        }
    }

    #[test]
    fn what_another_machine_says_of_itself_is_left_out() {
        let mut octets = Vec::new();
        put(&mut octets, b"\0\0identity", Some(b"other"));
        assert_eq!(read_changes(&octets).unwrap(), []);
    }
}
