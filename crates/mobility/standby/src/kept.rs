//! What a node remembers of the pair, in its store.

use weft_mobility_protocol::standby::Position;
use weft_mobility_protocol::{Epoch, Incarnation};
use weft_state::{Change, LOCAL, StateError, Store};

const KEY: &[u8] = b"pair";
const VERSION: u8 = 1;
const LENGTH: usize = 8 + 1 + 4 + 1 + 8 + 8;

/// What a node remembers of the pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// By which it has owned the users, or stood by.
    pub epoch: Epoch,
    /// It has owned them.
    pub owned: bool,
    /// How far it was as a standby.
    pub position: Position,
}

impl Kept {
    /// Whether all records of its epoch are there.
    pub fn is_whole(&self) -> bool {
        self.owned || self.position.whole
    }

    /// The record.
    pub fn change(&self) -> Change {
        let Position { stream, whole, base, number } = self.position;
        let mut octets = Vec::with_capacity(LENGTH);
        octets.extend(self.epoch.0.to_be_bytes());
        octets.push(self.owned.into());
        octets.extend(stream.0.to_be_bytes());
        octets.push(whole.into());
        octets.extend(base.to_be_bytes());
        octets.extend(number.to_be_bytes());
        Change::put(LOCAL, KEY, VERSION, &octets)
    }

    /// What a store says; nothing where the node has never been one of a pair.
    pub fn read(store: &Store) -> Result<Kept, StateError> {
        let record = store.record(LOCAL, KEY)?;
        Ok(record.and_then(|octets| Kept::parse(&octets)).unwrap_or_default())
    }

    /// None for a version of a newer release: such a node needs a copy.
    fn parse(octets: &[u8]) -> Option<Kept> {
        let rest = octets.strip_prefix(&[VERSION])?;
        let rest: &[u8; LENGTH] = rest.try_into().ok()?;
        let number = |at: usize| Some(u64::from_be_bytes(*rest[at..].first_chunk()?));
        Some(Kept {
            epoch: Epoch(number(0)?),
            owned: rest[8] == 1,
            position: Position {
                stream: Incarnation(u32::from_be_bytes(*rest[9..].first_chunk()?)),
                whole: rest[13] == 1,
                base: number(14)?,
                number: number(22)?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written() {
        let position = Position { stream: Incarnation(7), whole: true, base: 8, number: 9 };
        let kept = Kept { epoch: Epoch(3), owned: false, position };
        let change = kept.change();
        let (_, value) = change.stored();
        let value = value.unwrap();
        assert_eq!(Kept::parse(value), Some(kept));
        assert_eq!(Kept::parse(&value[..9]), None);
        assert_eq!(Kept::parse(&[2]), None);
        assert_eq!(Kept::parse(&[]), None);
    }
}
