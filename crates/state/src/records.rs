//! Records to read: those of a store, or those that one process gives another.

use std::io::{self, Read, Write};

use crate::error::StateError;
use crate::record::{Change, Kind};

/// Is given key, version and octets of each record; says what is wrong with one.
pub type EachRecord<'a> = dyn FnMut(&[u8], u8, &[u8]) -> Result<(), String> + 'a;

/// Records to read, wherever they are.
pub trait Records {
    /// Shows all records of a kind. Ends with the first that `each` refuses, for a reason that
    /// says what is wrong with it.
    ///
    /// # Errors
    /// [`StateError::Damaged`] with that reason, or what else is wrong.
    fn each_of(&self, kind: Kind, each: &mut EachRecord<'_>) -> Result<(), StateError>;

    /// There are no more records than these, as far as that is known; 0 where it is not.
    fn most(&self) -> usize {
        0
    }

    /// The same of those whose keys begin with `prefix`.
    ///
    /// # Errors
    /// As [`each_of`](Self::each_of).
    fn each_beginning(
        &self,
        kind: Kind,
        prefix: &[u8],
        each: &mut EachRecord<'_>,
    ) -> Result<(), StateError> {
        self.each_of(kind, &mut |key, version, record| match key.starts_with(prefix) {
            true => each(key, version, record),
            false => Ok(()),
        })
    }
}

/// A store of records: a file ([`Store`](crate::Store)), or a cluster that several processes reach.
///
/// All implementations keep what [`RecordStore::write`] promises, and pass the same tests.
pub trait RecordStore: Records + Send {
    /// Makes changes durable: all of them or, when it fails or the machine stops, none or all.
    /// Of several for one record the last one counts.
    ///
    /// # Errors
    /// [`StateError`]; [`StateError::Deposed`] when another process writes there now.
    fn write(&mut self, changes: &[Change]) -> Result<(), StateError>;

    /// Whether what was read and written is still what there is: false when another process may
    /// have written since.
    fn is_current(&self) -> bool {
        true
    }
}

/// Longest key and longest record that are read from another process, in octets.
const LONGEST: [usize; 2] = [4 << 10, 1 << 20];

/// Records in memory, in the order in which they were added.
///
/// To another process each goes as: length of kind and key (u16), both, length of version and
/// record (u32), both. Numbers are little endian.
#[derive(Debug, Default)]
pub struct Collection(Vec<(Vec<u8>, Vec<u8>)>);

impl Collection {
    /// Adds the record that a change puts in its place.
    pub fn add(&mut self, change: Change) {
        if let Some(value) = change.value {
            self.0.push((change.key, value));
        }
    }

    /// Adds those of another collection.
    pub fn append(&mut self, mut other: Collection) {
        self.0.append(&mut other.0);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes all of them.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        for (key, value) in &self.0 {
            out.write_all(&(key.len() as u16).to_le_bytes())?;
            out.write_all(key)?;
            out.write_all(&(value.len() as u32).to_le_bytes())?;
            out.write_all(value)?;
        }
        Ok(())
    }

    /// Reads what [`write_to`](Self::write_to) wrote, to the end.
    ///
    /// # Errors
    /// What `from` says, and what is not so written.
    pub fn read_from(from: &mut impl Read) -> io::Result<Collection> {
        let mut all = Collection::default();
        loop {
            let mut first = [0; 1];
            if from.read(&mut first)? == 0 {
                return Ok(all);
            }
            let mut second = [0; 1];
            from.read_exact(&mut second)?;
            let key = part(from, u16::from_le_bytes([first[0], second[0]]).into(), LONGEST[0])?;
            let mut length = [0; 4];
            from.read_exact(&mut length)?;
            let value = part(from, u32::from_le_bytes(length) as usize, LONGEST[1])?;
            if key.len() < 2 || value.is_empty() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a record without a kind"));
            }
            all.0.push((key, value));
        }
    }
}

fn part(from: &mut impl Read, length: usize, most: usize) -> io::Result<Vec<u8>> {
    if length > most {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a record that is too long"));
    }
    let mut octets = vec![0; length];
    from.read_exact(&mut octets)?;
    Ok(octets)
}

impl Records for Collection {
    fn most(&self) -> usize {
        self.0.len()
    }

    fn each_of(&self, kind: Kind, each: &mut EachRecord<'_>) -> Result<(), StateError> {
        let prefix = kind.0.to_be_bytes();
        for (key, value) in &self.0 {
            if let (Some(key), Some((version, record))) =
                (key.strip_prefix(&prefix[..]), value.split_first())
            {
                each(key, *version, record)
                    .map_err(|what| StateError::damaged("of the other process".as_ref(), what))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn records_are_read_as_they_were_written(
            all in prop::collection::vec((any::<u16>(), any::<Vec<u8>>(), any::<Vec<u8>>()), 0..20),
        ) {
            let mut written = Collection::default();
            for (kind, key, record) in &all {
                written.add(Change::put(Kind(*kind), key, 3, record));
            }
            let mut octets = Vec::new();
            written.write_to(&mut octets).unwrap();
            let read = Collection::read_from(&mut &octets[..]).unwrap();
            prop_assert_eq!(&read.0, &written.0);
            // Cut off anywhere but between two records it is refused, and any octets are safe.
            if let Some(cut) = octets.len().checked_sub(1) {
                prop_assert!(Collection::read_from(&mut &octets[..cut]).is_err());
            }
        }

        #[test]
        fn octets_of_others_are_read_or_refused(octets: Vec<u8>) {
            let _ = Collection::read_from(&mut &octets[..]);
        }
    }

    #[test]
    fn kinds_are_apart() {
        let mut all = Collection::default();
        all.add(Change::put(Kind(1), b"a", 1, b"one"));
        all.add(Change::put(Kind(2), b"a", 1, b"two"));
        all.add(Change::remove(Kind(2), b"b"));
        let mut seen = Vec::new();
        all.each_of(Kind(2), &mut |key, version, record| {
            seen.push((key.to_vec(), version, record.to_vec()));
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, [(b"a".to_vec(), 1, b"two".to_vec())]);
    }
}
