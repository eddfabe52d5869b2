//! Records of one moment, read one by one and in any order, while others are written.

use std::fmt;
use std::path::PathBuf;

use redb::{AccessGuard, Range, ReadOnlyTable};

use crate::error::StateError;
use crate::record::{Kind, end_of, full_key};

type Octets = &'static [u8];

/// Records of one moment. They are read long after what gave it has gone.
pub struct Reader {
    path: PathBuf,
    /// None where there are no records.
    table: Option<ReadOnlyTable<Octets, Octets>>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Reader {
    pub(crate) fn new(path: PathBuf, table: Option<ReadOnlyTable<Octets, Octets>>) -> Reader {
        Reader { path, table }
    }

    /// Shows version and record of what stands under a key; whether there is anything.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn get(
        &self,
        kind: Kind,
        key: &[u8],
        show: impl FnOnce(u8, &[u8]),
    ) -> Result<bool, StateError> {
        let Some(table) = &self.table else { return Ok(false) };
        let found = table.get(&full_key(kind, key)[..]);
        let found = found.map_err(|error| StateError::of_storage(&self.path, error))?;
        let Some(value) = found else { return Ok(false) };
        let (version, record) = value.value().split_first().ok_or_else(|| self.unversioned())?;
        show(*version, record);
        Ok(true)
    }

    /// The records of a kind whose keys begin with `prefix`, in the order of their keys.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn beginning(&self, kind: Kind, prefix: &[u8]) -> Result<Found, StateError> {
        self.beginning_from(kind, prefix, &[])
    }

    /// The same from the key on that has `rest` behind the prefix.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn beginning_from(
        &self,
        kind: Kind,
        prefix: &[u8],
        rest: &[u8],
    ) -> Result<Found, StateError> {
        let mut first = full_key(kind, prefix);
        let end = end_of(&first);
        first.extend_from_slice(rest);
        let path = self.path.clone();
        let range = match &self.table {
            Some(table) => {
                let range = table.range(&first[..]..&end[..]);
                Some(range.map_err(|error| StateError::of_storage(&path, error))?)
            }
            None => None,
        };
        Ok(Found { path, range })
    }

    fn unversioned(&self) -> StateError {
        StateError::damaged(&self.path, "a record without a version")
    }
}

/// Records, one after the other.
pub struct Found {
    path: PathBuf,
    range: Option<Range<'static, Octets, Octets>>,
}

impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Found").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Iterator for Found {
    type Item = Result<FoundRecord, StateError>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.range.as_mut()?.next()?;
        Some(match found {
            Ok((_, value)) if value.value().is_empty() => {
                Err(StateError::damaged(&self.path, "a record without a version"))
            }
            Ok((key, value)) => Ok(FoundRecord { key, value }),
            Err(error) => Err(StateError::of_storage(&self.path, error)),
        })
    }
}

/// A record, and its key.
pub struct FoundRecord {
    key: AccessGuard<'static, Octets>,
    value: AccessGuard<'static, Octets>,
}

impl fmt::Debug for FoundRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FoundRecord").field("key", &self.key()).finish_non_exhaustive()
    }
}

impl FoundRecord {
    /// Its key.
    pub fn key(&self) -> &[u8] {
        self.key.value().get(size_of::<Kind>()..).unwrap_or_default()
    }

    /// Its version, and the record.
    pub fn record(&self) -> (u8, &[u8]) {
        self.value.value().split_first().map_or((0, &[]), |(version, record)| (*version, record))
    }
}
