//! Why there is no store.

use std::io;
use std::path::{Path, PathBuf};

use redb::{CommitError, DatabaseError, StorageError, TableError, TransactionError};

/// Why a store cannot be opened, read or written: one line each.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Another process has it.
    #[error("state {}: another process uses it", .0.display())]
    InUse(PathBuf),
    /// The system refuses: no room, no permission, a file system that is read-only.
    #[error("state {}: {reason}", .path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        reason: io::Error,
    },
    /// What was written there is not there any more.
    #[error("state {}: damaged: {what}", .path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What does not read as it was written.
        what: String,
    },
    /// The file is something else.
    #[error("state {}: this is not a store of Weft", .0.display())]
    Foreign(PathBuf),
    /// A newer release has written it.
    #[error("state {}: written in format {format}, and this program reads formats up to {most}", .path.display())]
    Newer {
        /// Which file.
        path: PathBuf,
        /// Its format.
        format: u16,
        /// The newest that is read.
        most: u16,
    },
    /// It is another node's, or a controller's.
    #[error("state {}: it is that of {is}, not of {wanted}", .path.display())]
    Other {
        /// Which file.
        path: PathBuf,
        /// Whose it is.
        is: String,
        /// Whose it should be.
        wanted: String,
    },
    /// A store of several machines does not answer, or refuses.
    #[error("state {place}: {reason}")]
    Remote {
        /// Where it is.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// The thread that writes has ended, or the machine has none for it.
    #[error("no thread for the state: {0}")]
    Thread(io::Error),
    /// Another process writes there now, and this one no longer may.
    #[error("state {0}: another process leads now")]
    Deposed(String),
}

impl StateError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> StateError + use<> {
        let path = path.to_owned();
        move |reason| StateError::Io { path, reason }
    }

    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> StateError {
        StateError::Damaged { path: path.to_owned(), what: what.into() }
    }

    pub(crate) fn of_storage(path: &Path, error: StorageError) -> StateError {
        let path = path.to_owned();
        match error {
            // A file that ends before what it says is in it.
            StorageError::Io(reason) if reason.kind() == io::ErrorKind::UnexpectedEof => {
                StateError::Damaged { path, what: "it is cut off".to_owned() }
            }
            StorageError::Io(reason) if reason.kind() == io::ErrorKind::InvalidData => {
                StateError::Damaged { path, what: reason.to_string() }
            }
            StorageError::Io(reason) => StateError::Io { path, reason },
            StorageError::Corrupted(what) => StateError::Damaged { path, what },
            other => StateError::Io { path, reason: io::Error::other(other.to_string()) },
        }
    }

    pub(crate) fn of_database(path: &Path, error: DatabaseError) -> StateError {
        match error {
            DatabaseError::DatabaseAlreadyOpen => StateError::InUse(path.to_owned()),
            DatabaseError::Storage(error) => StateError::of_storage(path, error),
            other => StateError::damaged(path, other.to_string()),
        }
    }

    pub(crate) fn of_transaction(path: &Path, error: TransactionError) -> StateError {
        match error {
            TransactionError::Storage(error) => StateError::of_storage(path, error),
            other => StateError::damaged(path, other.to_string()),
        }
    }

    pub(crate) fn of_table(path: &Path, error: TableError) -> StateError {
        match error {
            TableError::Storage(error) => StateError::of_storage(path, error),
            other => StateError::damaged(path, other.to_string()),
        }
    }

    pub(crate) fn of_commit(path: &Path, error: CommitError) -> StateError {
        match error {
            CommitError::Storage(error) => StateError::of_storage(path, error),
            other => StateError::damaged(path, other.to_string()),
        }
    }
}
