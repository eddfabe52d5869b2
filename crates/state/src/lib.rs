//! What a node or a controller must not forget, in a transactional store on disk.
//!
//! A [`Store`] is one file of `redb` in a folder of its own. It holds *records*: octets with a
//! version, under a kind and a key. Changes are made durable together, all or none of them
//! ([`Store::write`]). A [`Writer`] does that in a thread of its own, so who changes
//! something never waits for the disk, but gives changes away and is told once they are durable.
//!
//! A [`Feed`] has what is written for another machine that keeps the same records.
//!
//! Who may keep its records elsewhere as well writes against [`RecordStore`].
//!
//! The store knows nothing of what records mean. A user of it gives each of its kinds a number,
//! and writes the version of a record in front of it, so that a newer program reads what an
//! older one has written ([`Change::put`]).

#![forbid(unsafe_code)]

#[cfg(test)]
mod disk;
mod error;
mod feed;
mod pieces;
mod reader;
mod record;
mod records;
mod snapshot;
mod store;
#[cfg(test)]
mod tests;
mod writer;

pub use self::error::StateError;
pub use self::feed::{Copied, Done, Feed};
pub use self::pieces::{LONGEST_RECORD, Piece, read_changes};
pub use self::reader::{Found, FoundRecord, Reader};
pub use self::record::{Change, Kind, LOCAL};
pub use self::records::{Collection, EachRecord, RecordStore, Records};
pub use self::snapshot::Snapshot;
pub use self::store::{Owner, Role, Store, set_aside};
pub use self::writer::{Durability, Lag, Writer};
