//! Revisions of the documents, and how far the newest one is, as records of a store.
//!
//! ```text
//! kind 17  revisions  key 0..8 number, 8..10 part    a part of the revision as JSON
//! kind 18  progress   key "progress"                 how far the newest one is, as JSON
//! ```
//! A record is short, because a store may take no longer ones; the parts of a revision are
//! written together.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weft_state::{Change, Kind, RecordStore, StateError};

use crate::set::Kept;

const REVISIONS: Kind = Kind(17);
const PROGRESS: Kind = Kind(18);
const VERSION: u8 = 1;
/// Octets of a part.
const PART: usize = 900;
/// Revisions that are remembered.
pub const REMEMBERED: usize = 16;

/// The documents at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    /// Its number; later ones have higher ones.
    #[serde(skip)]
    pub number: u64,
    /// Seconds since 1970 (UTC).
    pub time: u64,
    /// Why it came to be.
    pub note: String,
    /// The documents.
    pub documents: Vec<Kept>,
}

/// How far a revision is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Nodes are being changed.
    Rolling,
    /// All nodes that are there run as it says, or there is no revision.
    #[default]
    Complete,
    /// Nodes go back to it, as the one before it did harm.
    RollingBack,
    /// They have gone back.
    RolledBack,
}

/// How far the newest revision is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// How far it is.
    pub phase: Phase,
    /// The newest revision that nodes came to run by without harm; 0 for none.
    pub good: u64,
    /// Why nodes went back; empty if they did not.
    pub reason: String,
}

/// Revisions, oldest first, and how far the newest one is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    revisions: BTreeMap<u64, Revision>,
    /// How far the newest one is.
    pub progress: Progress,
}

impl History {
    /// Reads what a store has.
    ///
    /// # Errors
    /// [`StateError`], above all when a record means nothing.
    pub fn read(store: &dyn RecordStore) -> Result<History, StateError> {
        let mut parts: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        store.each_of(REVISIONS, &mut |key, version, octets| {
            let number = key.first_chunk().filter(|_| key.len() == 10 && version == VERSION);
            let number = number.ok_or("a revision that means nothing here")?;
            // In the order of their keys.
            parts.entry(u64::from_be_bytes(*number)).or_default().extend(octets);
            Ok(())
        })?;
        let mut history = History::default();
        let mut torn = false;
        for (number, octets) in parts {
            match serde_json::from_slice::<Revision>(&octets) {
                Ok(revision) => {
                    history.revisions.insert(number, Revision { number, ..revision });
                }
                Err(_) => torn = true,
            }
        }
        store.each_of(PROGRESS, &mut |_, version, octets| {
            let read = serde_json::from_slice(octets).ok().filter(|_| version == VERSION);
            history.progress = read.ok_or("progress that means nothing here")?;
            Ok(())
        })?;
        if torn {
            // Told as the store tells what it finds damaged.
            store.each_of(REVISIONS, &mut |_, _, _| {
                Err("a revision that is not whole".to_owned())
            })?;
        }
        Ok(history)
    }

    /// All that are remembered, oldest first.
    pub fn revisions(&self) -> impl DoubleEndedIterator<Item = &Revision> {
        self.revisions.values()
    }

    /// The revision of that number.
    pub fn get(&self, number: u64) -> Option<&Revision> {
        self.revisions.get(&number)
    }

    /// The newest one.
    pub fn newest(&self) -> Option<&Revision> {
        self.revisions.values().next_back()
    }

    /// Adds a revision, which is to be rolled out; returns its number and what is to be written.
    pub fn add(
        &mut self,
        time: u64,
        note: String,
        documents: Vec<Kept>,
        phase: Phase,
        reason: String,
    ) -> (u64, Vec<Change>) {
        let number = self.newest().map_or(1, |newest| newest.number + 1);
        let revision = Revision { number, time, note, documents };
        let mut changes = put(&revision);
        self.revisions.insert(number, revision);
        while self.revisions.len() > REMEMBERED {
            let good = self.progress.good;
            // What nodes may go back to stays.
            let Some(oldest) = self.revisions.keys().find(|number| **number != good).copied()
            else {
                break;
            };
            if let Some(revision) = self.revisions.remove(&oldest) {
                let parts = put(&revision);
                changes.extend(parts.iter().map(|part| Change::remove(REVISIONS, part.key())));
            }
        }
        changes.extend(self.advance(phase, reason));
        (number, changes)
    }

    /// The newest revision is that far; returns what is to be written.
    pub fn advance(&mut self, phase: Phase, reason: String) -> Option<Change> {
        let newest = self.newest().map_or(0, |newest| newest.number);
        let good = match phase {
            Phase::Complete | Phase::RolledBack => newest,
            Phase::Rolling | Phase::RollingBack => self.progress.good,
        };
        let progress = Progress { phase, good, reason };
        if progress == self.progress {
            return None;
        }
        self.progress = progress;
        let mut octets = serde_json::to_vec(&self.progress).unwrap_or_default();
        if octets.len() > PART {
            let cut = Progress { reason: String::new(), ..self.progress.clone() };
            octets = serde_json::to_vec(&cut).unwrap_or_default();
        }
        Some(Change::put(PROGRESS, b"progress", VERSION, &octets))
    }
}

fn put(revision: &Revision) -> Vec<Change> {
    // Texts and numbers: there is nothing that JSON could not say.
    let octets = serde_json::to_vec(revision).unwrap_or_default();
    let part = |(nth, part): (usize, &[u8])| {
        let key = [&revision.number.to_be_bytes()[..], &(nth as u16).to_be_bytes()].concat();
        Change::put(REVISIONS, &key, VERSION, part)
    };
    octets.chunks(PART).enumerate().map(part).collect()
}
