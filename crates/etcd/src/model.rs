//! A model of etcd: what a cluster of it answers, without a cluster.
//!
//! It has keys with the revisions of their making and change, one revision for each transaction
//! that changes something, the history of keys until it is compacted, leases that take their keys
//! with them, and the alarm of a quota that is used up. It has no members: who simulates a
//! cluster decides which requests reach it, when, and which answers arrive. Time is told to it.
//!
//! The tests of the stores run against it and against etcd itself (`tests/it/stores.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::error::EtcdError;
use crate::requests::{Carried, Fence, Found, Operation, Page, Range};

/// Octets that a key costs beside itself and its value.
const OVERHEAD: usize = 32;

/// A value of a key, from a revision on; none where it was removed.
#[derive(Clone, Debug)]
struct Version {
    revision: u64,
    value: Option<Stored>,
}

#[derive(Clone, Debug)]
struct Stored {
    value: Vec<u8>,
    made: u64,
    lease: i64,
}

#[derive(Clone, Debug)]
struct Lease {
    lasts: Duration,
    ends: Duration,
    keys: BTreeSet<String>,
}

/// What it has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Transactions that changed something.
    pub transactions: u64,
    /// Octets of values that were put.
    pub octets: u64,
    /// Requests that only read.
    pub reads: u64,
    /// Most keys at once, and most octets of keys and values, without history.
    pub most_keys: usize,
    /// See `most_keys`.
    pub most_octets: usize,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Model {
    revision: u64,
    compacted: u64,
    keys: BTreeMap<String, Vec<Version>>,
    leases: BTreeMap<i64, Lease>,
    next_lease: i64,
    is_full: bool,
    live: (usize, usize),
    cost: Cost,
}

impl Default for Model {
    fn default() -> Model {
        Model {
            revision: 1,
            compacted: 0,
            keys: BTreeMap::new(),
            leases: BTreeMap::new(),
            next_lease: 1,
            is_full: false,
            live: (0, 0),
            cost: Cost::default(),
        }
    }
}

impl Model {
    /// What it has cost.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// Keys, and octets of them and their values, without history.
    pub fn size(&self) -> (usize, usize) {
        self.live
    }

    /// One higher with each transaction that changes something.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The alarm of the quota is raised, or disarmed.
    pub fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// Whether a key has changed since a revision, or that is not known any more.
    pub fn has_changed(&self, key: &str, since: u64) -> bool {
        let last = self.keys.get(key).and_then(|versions| versions.last());
        since < self.compacted || last.is_some_and(|last| last.revision > since)
    }

    /// Carries out operations at once, if all fences hold.
    ///
    /// # Errors
    /// [`EtcdError::Full`].
    pub fn transact(
        &mut self,
        fences: &[Fence],
        operations: &[Operation],
    ) -> Result<Carried, EtcdError> {
        let puts = operations.iter().any(|one| matches!(one, Operation::Put { .. }));
        if self.is_full && puts {
            return Err(EtcdError::Full);
        }
        let holds = |fence: &Fence| match fence {
            Fence::Made(key, made) => self.current(key).map_or(0, |there| there.made) == *made,
            Fence::Value(key, value) => {
                self.current(key).is_some_and(|there| there.value == *value)
            }
        };
        if !fences.iter().all(holds) {
            return Ok(None);
        }
        let lost = |lease: &i64| *lease != 0 && !self.leases.contains_key(lease);
        if operations.iter().any(|one| matches!(one, Operation::Put { lease, .. } if lost(lease))) {
            return Err(EtcdError::Refused("requested lease not found".to_owned()));
        }
        let (next, mut read, mut changed) = (self.revision + 1, Vec::new(), false);
        for operation in operations {
            match operation {
                Operation::Get(key) => read.push(self.found(key)),
                Operation::Put { key, value, lease } => {
                    self.put(next, key, value.clone(), *lease);
                    changed = true;
                }
                Operation::Remove(key) => changed |= self.remove(next, key),
                Operation::RemoveRange(first, before) => {
                    let keys = self.keys.range(first.clone()..before.clone());
                    let keys: Vec<_> = keys.map(|(key, _)| key.clone()).collect();
                    for key in keys {
                        changed |= self.remove(next, &key);
                    }
                }
            }
        }
        if changed {
            self.revision = next;
            self.cost.transactions += 1;
        } else {
            self.cost.reads += 1;
        }
        self.cost.most_keys = self.cost.most_keys.max(self.live.0);
        self.cost.most_octets = self.cost.most_octets.max(self.live.1);
        Ok(Some(read))
    }

    /// Reads keys.
    ///
    /// # Errors
    /// [`EtcdError::Compacted`].
    pub fn range(&mut self, range: &Range) -> Result<Page, EtcdError> {
        let Range { from, before, limit, revision } = range;
        self.cost.reads += 1;
        if *revision != 0 && *revision < self.compacted {
            return Err(EtcdError::Compacted);
        }
        let at = if *revision == 0 { self.revision } else { *revision };
        let mut page = Page { revision: self.revision, ..Page::default() };
        let end = before.clone().unwrap_or_else(|| format!("{from}\0"));
        for (key, versions) in self.keys.range(from.clone()..end) {
            let version = versions.iter().rev().find(|version| version.revision <= at);
            let Some(there) = version.and_then(|version| version.value.as_ref()) else { continue };
            if *limit > 0 && page.found.len() as u64 == *limit {
                page.more = true;
                break;
            }
            page.found.push(there.found(key));
        }
        Ok(page)
    }

    /// Makes a lease.
    ///
    /// # Errors
    /// [`EtcdError::Full`].
    pub fn grant(&mut self, lasts: Duration, now: Duration) -> Result<i64, EtcdError> {
        if self.is_full {
            return Err(EtcdError::Full);
        }
        let id = self.next_lease;
        self.next_lease += 1;
        self.leases.insert(id, Lease { lasts, ends: now + lasts, keys: BTreeSet::new() });
        Ok(id)
    }

    /// Lets a lease last anew; false if there is none.
    pub fn renew(&mut self, lease: i64, now: Duration) -> bool {
        let held = self.leases.get_mut(&lease);
        held.map(|lease| lease.ends = now + lease.lasts).is_some()
    }

    /// Ends a lease, and removes its keys.
    pub fn revoke(&mut self, lease: i64) {
        let Some(lease) = self.leases.remove(&lease) else { return };
        let next = self.revision + 1;
        for key in &lease.keys {
            if self.remove(next, key) {
                self.revision = next;
            }
        }
    }

    /// Ends the leases whose time is over.
    pub fn expire(&mut self, now: Duration) {
        let over = self.leases.iter().filter(|(_, lease)| lease.ends <= now);
        for lease in over.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.revoke(lease);
        }
    }

    /// When the next lease ends.
    pub fn next_end(&self) -> Option<Duration> {
        self.leases.values().map(|lease| lease.ends).min()
    }

    /// Another member leads: as etcd does, it lets all leases last anew.
    pub fn new_leader(&mut self, now: Duration) {
        self.leases.values_mut().for_each(|lease| lease.ends = now + lease.lasts);
    }

    /// Gives up the history before a revision.
    pub fn compact(&mut self, revision: u64) {
        self.compacted = self.compacted.max(revision.min(self.revision));
        let compacted = self.compacted;
        self.keys.retain(|_, versions| {
            let last = versions.iter().rposition(|version| version.revision <= compacted);
            versions.drain(..last.unwrap_or(0));
            versions.len() > 1 || versions.iter().any(|version| version.value.is_some())
        });
    }

    fn current(&self, key: &str) -> Option<&Stored> {
        self.keys.get(key)?.last()?.value.as_ref()
    }

    fn found(&self, key: &str) -> Option<Found> {
        self.current(key).map(|there| there.found(key))
    }

    fn put(&mut self, revision: u64, key: &str, value: Vec<u8>, lease: i64) {
        let before = self.current(key).cloned();
        let octets = OVERHEAD + key.len() + value.len();
        self.cost.octets += value.len() as u64;
        let made = before.as_ref().map_or(revision, |before| before.made);
        self.let_go(key, before.as_ref());
        self.live = (self.live.0 + 1, self.live.1 + octets);
        if let Some(held) = self.leases.get_mut(&lease) {
            held.keys.insert(key.to_owned());
        }
        self.add(revision, key, Some(Stored { value, made, lease }));
    }

    fn remove(&mut self, revision: u64, key: &str) -> bool {
        let Some(before) = self.current(key).cloned() else { return false };
        self.let_go(key, Some(&before));
        self.add(revision, key, None);
        true
    }

    fn let_go(&mut self, key: &str, before: Option<&Stored>) {
        let Some(before) = before else { return };
        self.live.0 -= 1;
        self.live.1 -= OVERHEAD + key.len() + before.value.len();
        if let Some(held) = self.leases.get_mut(&before.lease) {
            held.keys.remove(key);
        }
    }

    fn add(&mut self, revision: u64, key: &str, value: Option<Stored>) {
        let versions = self.keys.entry(key.to_owned()).or_default();
        // Of several changes in one transaction the last one counts.
        versions.retain(|version| version.revision != revision);
        versions.push(Version { revision, value });
    }
}

impl Stored {
    fn found(&self, key: &str) -> Found {
        let Stored { value, made, lease } = self.clone();
        Found { key: key.to_owned(), value, made, lease }
    }
}
