//! What a controller must not forget, on disk: for each user the newest record,
//! the lowest epoch that has not been given to a move, orders and whom they still mean,
//! and nodes that do not come back.
//!
//! A file of frames is added to, and each frame is durable (`fdatasync`, POSIX)
//! before [`Journal::append`] returns. In network byte order:
//!
//! ```text
//! the file:  0..8   "weftjrnl"         8..12  version, 1      12..16  CRC of 0..12
//! a frame:   0..4   octets of entries   4..8  CRC of those     8..12  CRC of 0..8
//!           12..    entries, as `entry` has them
//! ```
//! CRCs are those of IEEE 802.3. A frame that was being written when the machine
//! stopped has not been answered for: such a tail is cut off. Whatever else does
//! not read as it was written is damage, and refused, since an epoch that is
//! forgotten could be given twice. When most of the file is out of date, it is
//! written anew and takes the place of the old by a rename.

mod entry;
mod recover;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use weft_mobility_protocol::controller::Record;
use weft_mobility_protocol::{Epoch, Incarnation, NodeId, User};

use entry::header;
use recover::recover;

/// Octets below which a file is not written anew.
const SMALL: u64 = 1 << 20;
/// Entries of one frame of a file that is written anew.
const FRAME_ENTRIES: usize = 4096;

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The record of a user; `None` when there is none any more.
    Record(User, Option<Record>),
    /// An order, and how far it is; it means no user yet.
    Order(Ordered),
    /// The order of this number means a user.
    Meant(User, u64),
    /// What has become of a user by the order of this number.
    Ended(User, u64, End),
    /// A node does not come back.
    Gone(NodeId, Gone),
}

/// An order to hand users over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordered {
    /// Its number.
    pub number: u64,
    /// Where the users are to go.
    pub to: NodeId,
    /// Whose users they are, if it is all of a node's.
    pub from: Option<NodeId>,
    /// Users that are meant, those of whom it is known what has become among them.
    pub users: u64,
    /// Users that are there; that stayed or went elsewhere; whose moves did not begin.
    pub ended: [u64; 3],
}

/// What has become of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is where it was to be.
    Moved,
    /// It stayed, or went elsewhere.
    Aborted,
    /// Its move did not begin.
    Refused,
}

/// A node that does not come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    /// The last incarnation that it had.
    pub incarnation: Incarnation,
    /// Who takes its users.
    pub successor: NodeId,
}

/// What was durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The newest record of each user; `None` for one that was removed.
    pub records: BTreeMap<User, Option<Record>>,
    /// Orders by their numbers, and the users of whom nothing is known yet.
    pub orders: BTreeMap<u64, (Ordered, BTreeSet<User>)>,
    /// Nodes that do not come back.
    pub gone: BTreeMap<NodeId, Gone>,
    /// The lowest epoch that has not been given.
    pub next_epoch: Epoch,
    /// Octets at the end that were being written when the machine stopped.
    pub cut_off: u64,
}

/// Why there is no journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another controller has it.
    #[error("records {}: another controller uses them", .0.display())]
    InUse(PathBuf),
    /// The system refuses.
    #[error("records {}: {reason}", .path.display())]
    Io {
        /// Of which file.
        path: PathBuf,
        /// What is wrong.
        reason: io::Error,
    },
    /// The file is not a journal, or of another version.
    #[error("records {}: this is not a file of records of version 1", .0.display())]
    Foreign(PathBuf),
    /// What was written there is not there any more.
    #[error("records {}: damaged at octet {at}; bring back a copy of the file", .path.display())]
    Damaged {
        /// Of which file.
        path: PathBuf,
        /// Where it begins.
        at: u64,
    },
}

/// The journal of one controller.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    file: File,
    octets: u64,
    /// Octets when the file was last written anew.
    compact: u64,
    _lock: File,
}

impl Journal {
    /// Opens the journal in a folder, which is made if there is none, and reads
    /// what is in it.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn open(folder: &Path) -> Result<(Journal, Recovered), JournalError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |reason| JournalError::Io { path, reason }
        };
        fs::create_dir_all(folder).map_err(failed(folder))?;
        let path = folder.join("lock");
        let lock = opened(&path).map_err(failed(&path))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(JournalError::InUse(folder.to_owned())),
            Err(error) => return Err(failed(&path)(error.into())),
        }
        let path = folder.join("records");
        if !path.exists() {
            write_anew(folder, &[], Epoch(0)).map_err(failed(&path))?;
        }
        let mut file = opened(&path).map_err(failed(&path))?;
        let mut octets = Vec::new();
        file.read_to_end(&mut octets).map_err(failed(&path))?;
        let (recovered, whole) = recover(&octets, &path)?;
        if recovered.cut_off > 0 {
            file.set_len(whole).and_then(|()| file.sync_all()).map_err(failed(&path))?;
        }
        let folder = folder.to_owned();
        Ok((Journal { folder, file, octets: whole, compact: whole, _lock: lock }, recovered))
    }

    /// Makes changes durable, and that no epoch from `next_epoch` on has been
    /// given: all of that or, when the machine stops, nothing.
    ///
    /// # Errors
    /// What the system says; what is on disk is not known then, and nothing more
    /// may be written.
    pub fn append(&mut self, entries: &[Entry], next_epoch: Epoch) -> Result<(), JournalError> {
        let frame = entry::frame(entries, next_epoch);
        let written = self.file.write_all(&frame).and_then(|()| self.file.sync_data());
        written.map_err(|reason| JournalError::Io { path: self.path(), reason })?;
        self.octets += frame.len() as u64;
        Ok(())
    }

    /// Whether most of the file is out of date.
    pub fn wants_compaction(&self) -> bool {
        self.octets > SMALL.max(4 * self.compact)
    }

    /// Writes the file anew, with what is current and nothing else.
    ///
    /// # Errors
    /// As [`Journal::append`].
    pub fn compact(&mut self, entries: &[Entry], next_epoch: Epoch) -> Result<(), JournalError> {
        let failed = |reason| JournalError::Io { path: self.folder.join("records"), reason };
        self.file = write_anew(&self.folder, entries, next_epoch).map_err(failed)?;
        self.octets = self.file.metadata().map_err(failed)?.len();
        self.compact = self.octets;
        Ok(())
    }

    fn path(&self) -> PathBuf {
        self.folder.join("records")
    }
}

/// A file to be read and added to, that only its owner may read.
fn opened(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)
}

/// Writes a file of its own, and puts it in the place of the one there was once it
/// is durable.
fn write_anew(folder: &Path, entries: &[Entry], next_epoch: Epoch) -> io::Result<File> {
    let (path, new) = (folder.join("records"), folder.join("records.new"));
    let _ = fs::remove_file(&new);
    let mut file = opened(&new)?;
    file.write_all(&header())?;
    file.write_all(&entry::frame(&[], next_epoch))?;
    for entries in entries.chunks(FRAME_ENTRIES) {
        file.write_all(&entry::frame(entries, next_epoch))?;
    }
    file.sync_all()?;
    fs::rename(&new, &path)?;
    // The rename is durable once the folder is.
    File::open(folder)?.sync_all()?;
    Ok(file)
}

#[cfg(test)]
mod tests;
