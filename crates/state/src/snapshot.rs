//! All records of a store at one moment.

use std::fmt;
use std::path::PathBuf;

use redb::{ReadTransaction, ReadableTableMetadata, TableDefinition, TableError};

use crate::error::StateError;
use crate::pieces::{self, Piece};
use crate::reader::Reader;
use crate::record::{Kind, end_of, full_key};
use crate::records::{EachRecord, Records};

/// All records: kind and key, and version and record.
pub(crate) const RECORDS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("records");

/// Is given the key and the octets of each record.
pub(crate) type Each<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), String> + 'a;

/// All records of a store at one moment.
pub struct Snapshot {
    path: PathBuf,
    reading: ReadTransaction,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Snapshot {
    pub(crate) fn new(path: PathBuf, reading: ReadTransaction) -> Snapshot {
        Snapshot { path, reading }
    }

    /// Shows the records whose keys are not below `first`, and below `end`.
    pub(crate) fn each_within(
        &self,
        first: &[u8],
        end: &[u8],
        each: &mut Each<'_>,
    ) -> Result<(), StateError> {
        let path = &self.path;
        let storage = |error| StateError::of_storage(path, error);
        let table = match self.reading.open_table(RECORDS) {
            Ok(table) => table,
            Err(TableError::TableDoesNotExist(_)) => return Ok(()),
            Err(error) => return Err(StateError::of_table(path, error)),
        };
        for entry in table.range(first..end).map_err(storage)? {
            let (key, value) = entry.map_err(storage)?;
            each(key.value(), value.value()).map_err(|what| StateError::damaged(path, what))?;
        }
        Ok(())
    }

    /// The same records, to be read one by one.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn reader(&self) -> Result<Reader, StateError> {
        let table = match self.reading.open_table(RECORDS) {
            Ok(table) => Some(table),
            Err(TableError::TableDoesNotExist(_)) => None,
            Err(error) => return Err(StateError::of_table(&self.path, error)),
        };
        Ok(Reader::new(self.path.clone(), table))
    }

    /// Shows all of them in pieces, but for what belongs to this machine alone; the last piece
    /// says so, and may be empty. Ends early when `each` returns false.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn pieces(&self, mut each: impl FnMut(Piece) -> bool) -> Result<(), StateError> {
        /// Records that are gathered before they are cut into pieces.
        const AT_ONCE: usize = 4096;
        let storage = |error| StateError::of_storage(&self.path, error);
        let last = Piece { is_last: true, octets: Vec::new().into() };
        let table = match self.reading.open_table(RECORDS) {
            Ok(table) => table,
            Err(TableError::TableDoesNotExist(_)) => {
                each(last);
                return Ok(());
            }
            Err(error) => return Err(StateError::of_table(&self.path, error)),
        };
        let mut some: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut show = |some: &mut Vec<(Vec<u8>, Vec<u8>)>| {
            let all = some.iter().map(|(key, value)| (&key[..], Some(&value[..])));
            let pieces = pieces::pieces(all);
            some.clear();
            pieces.into_iter().all(&mut each)
        };
        for entry in table.range::<&[u8]>(..).map_err(storage)? {
            let (key, value) = entry.map_err(storage)?;
            if pieces::is_shared(key.value()) {
                some.push((key.value().to_vec(), value.value().to_vec()));
            }
            if some.len() == AT_ONCE && !show(&mut some) {
                return Ok(());
            }
        }
        if show(&mut some) {
            each(last);
        }
        Ok(())
    }
}

impl Records for Snapshot {
    fn most(&self) -> usize {
        let table = self.reading.open_table(RECORDS).ok();
        table.and_then(|table| table.len().ok()).map_or(0, |count| count as usize)
    }

    fn each_of(&self, kind: Kind, each: &mut EachRecord<'_>) -> Result<(), StateError> {
        self.each_beginning(kind, &[], each)
    }

    fn each_beginning(
        &self,
        kind: Kind,
        prefix: &[u8],
        each: &mut EachRecord<'_>,
    ) -> Result<(), StateError> {
        let first = full_key(kind, prefix);
        let end = end_of(&first);
        self.each_within(&first, &end, &mut |key, value| {
            let (version, record) = value.split_first().ok_or("a record without a version")?;
            each(&key[size_of::<Kind>()..], *version, record)
        })
    }
}
