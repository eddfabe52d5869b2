//! Records, wherever a store keeps them.

use crate::error::StateError;
use crate::record::{Change, Kind};
use crate::store::Store;

/// Is given key, version and record of each record.
pub type Each<'a> = dyn FnMut(&[u8], u8, &[u8]) -> Result<(), String> + 'a;

/// A store of records: a file ([`Store`]), or a cluster that several processes reach.
///
/// All implementations keep what [`RecordStore::write`] promises, and pass the same tests.
pub trait RecordStore: Send {
    /// Shows all records of a kind, by their keys. Ends with the first that `each` refuses, for
    /// a reason that says what is wrong with it.
    ///
    /// # Errors
    /// [`StateError::Damaged`] with that reason, or what else is wrong.
    fn each(&self, kind: Kind, each: &mut Each<'_>) -> Result<(), StateError>;

    /// Makes changes durable: all of them or, when it fails or the machine stops, none or all.
    /// Of several for one record the last one counts.
    ///
    /// # Errors
    /// [`StateError`]; [`StateError::Deposed`] when another process writes there now.
    fn write(&mut self, changes: &[Change]) -> Result<(), StateError>;
}

impl RecordStore for Store {
    fn each(&self, kind: Kind, each: &mut Each<'_>) -> Result<(), StateError> {
        Store::each(self, kind, each)
    }

    fn write(&mut self, changes: &[Change]) -> Result<(), StateError> {
        Store::write(self, changes)
    }
}
