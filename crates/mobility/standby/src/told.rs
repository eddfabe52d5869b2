//! What a pair tells its node.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use weft_mobility_protocol::Epoch;
use weft_state::{Change, Snapshot, Store};

/// What the node is told.
#[derive(Debug)]
pub enum Told {
    /// It stands by, and these are all records. Changes of them follow.
    All(Snapshot),
    /// These changes are made, behind all that was told before.
    Changed(Changes),
    /// No record that was told of holds any more.
    Anew,
    /// It owns the users, and has this store.
    Own(Store, Epoch),
    /// It owns the users, and is to stop and [leave](crate::Pair::leave) them to the other node. It may
    /// be told more than once.
    Leave,
    /// Another node owns the users, or nothing can be kept: it must end, for this reason.
    End(String),
}

/// Changes of records that belong together.
#[derive(Debug)]
pub struct Changes {
    changes: Vec<Change>,
    octets: usize,
    untaken: Arc<AtomicUsize>,
}

impl Changes {
    /// Changes of so many octets, which are among those that wait until these are dropped.
    pub(crate) fn new(changes: Vec<Change>, octets: usize, untaken: Arc<AtomicUsize>) -> Changes {
        untaken.fetch_add(octets, Ordering::AcqRel);
        Changes { changes, octets, untaken }
    }
}

impl Deref for Changes {
    type Target = [Change];

    fn deref(&self) -> &[Change] {
        &self.changes
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.untaken.fetch_sub(self.octets, Ordering::AcqRel);
    }
}
