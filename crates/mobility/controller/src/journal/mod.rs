//! What a controller must not forget, on disk: for each user the newest record,
//! the lowest epoch that has not been given to a move, orders and whom they still mean,
//! and nodes that do not come back.
//!
//! It lies in a store of records (a file of [`weft_state`], or etcd), which is written whenever
//! something changes, and is
//! durable before [`Journal::append`] returns. A file of before, `records`, is taken over once
//! (`old.rs`).

mod entry;
mod old;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use weft_mobility_protocol::controller::Record;
use weft_mobility_protocol::{Epoch, Incarnation, NodeId, User};
use weft_site::history::History;
use weft_site::upgrade::Records;
use weft_state::{Change, Kind, Owner, RecordStore, Role, StateError, Store};

use crate::members::Member;
use crate::n4::N4Records;
use crate::n4::nodes::N4NodeRecords;
use crate::pair::PairRecord;
use crate::shares::ShareRecords;

/// Newest records of users, by user.
const USERS: Kind = Kind(1);
/// Orders, by number.
const ORDERS: Kind = Kind(2);
/// Users of whom it is not known what has become, by order and user.
const MEANT: Kind = Kind(3);
/// Nodes that do not come back, by node.
const GONE: Kind = Kind(4);
/// The lowest epoch that has not been given.
const EPOCH: Kind = Kind(5);
/// Nodes of which it was said whether they take users.
const CORDONED: Kind = Kind(6);
/// Pairs of nodes, by the one that owned the users first.
const PAIRS: Kind = Kind(7);

/// Nodes that have registered, by node.
const MEMBERS: Kind = Kind(16);

/// Version of all records.
const VERSION: u8 = 1;

/// Changes below which the store is not looked through for what is out of date.
const FEW: u64 = 10_000;

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
    /// Whether a node takes further users.
    Cordoned(NodeId, Cordon),
    /// Who owns the users of a pair, which is named by its first owner.
    Pair(NodeId, PairRecord),
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

/// Until when a node takes no further users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cordon {
    /// It takes users.
    Lifted,
    /// Until it is told to take users again.
    Stays,
    /// Until it has started again since this incarnation, or is told to.
    UntilRestart(Incarnation),
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
    /// Nodes that take no further users.
    pub cordoned: BTreeMap<NodeId, Cordon>,
    /// Pairs of nodes, by their first owners.
    pub pairs: BTreeMap<NodeId, PairRecord>,
    /// Nodes that have registered.
    pub members: Vec<Member>,
    /// What the site is to be.
    pub history: History,
    /// The upgrade of its nodes.
    pub upgrade: Records,
    /// What N4 is to remember.
    pub n4: N4Records,
    /// Numbers of nodes behind N4, and those that have registered.
    pub n4_nodes: N4NodeRecords,
    /// Shares of N4 that are not at home, or move.
    pub shares: ShareRecords,
    /// The lowest epoch that has not been given.
    pub next_epoch: Epoch,
    /// Octets at the end of a file of before that were being written when its controller was
    /// cut off. Nothing was answered for them.
    pub cut_off: u64,
}

/// Why there is no journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another controller has it.
    #[error("records {}: another controller uses them", .0.display())]
    InUse(PathBuf),
    /// The store cannot be read or written.
    #[error("records: {0}")]
    Store(#[from] StateError),
    /// The file of before cannot be had.
    #[error("records {}: {reason}", .path.display())]
    Io {
        /// Of which file.
        path: PathBuf,
        /// What is wrong.
        reason: std::io::Error,
    },
    /// The file of before is not a journal, or of another version.
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
pub struct Journal {
    store: Box<dyn RecordStore>,
    /// Orders as they are kept.
    orders: BTreeMap<u64, (Ordered, BTreeSet<User>)>,
    /// Records that there may be, and changes since that was counted.
    records: u64,
    changes: u64,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("records", &self.records).finish_non_exhaustive()
    }
}

impl JournalError {
    /// Whether another replica leads now.
    pub fn is_deposed(&self) -> bool {
        matches!(self, JournalError::Store(StateError::Deposed(_)))
    }
}

impl Journal {
    /// Opens the journal in a folder, which is made if there is none, and reads
    /// what is in it.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn open(folder: &Path) -> Result<(Journal, Recovered), JournalError> {
        let owner = Owner { role: Role::Controller, name: String::new() };
        let store = Store::open(folder, &owner).map_err(|error| match error {
            StateError::InUse(_) => JournalError::InUse(folder.to_owned()),
            error => error.into(),
        })?;
        let (mut journal, recovered) = Journal::in_store(Box::new(store))?;
        if let Some(old) = old::read(folder)? {
            journal.compact(&old.entries(), old.next_epoch)?;
            old::set_aside(folder)?;
            if old.cut_off > 0 {
                tracing::warn!(
                    octets = old.cut_off,
                    "what was being written at the last stop was cut off"
                );
            }
            return Ok((journal, old));
        }
        Ok((journal, recovered))
    }

    /// The journal that lies in a store, and what is in it.
    ///
    /// # Errors
    /// [`JournalError::Store`].
    pub fn in_store(store: Box<dyn RecordStore>) -> Result<(Journal, Recovered), JournalError> {
        let (mut recovered, mut records) = (Recovered::default(), 0);
        for kind in [ORDERS, MEANT, USERS, GONE, CORDONED, PAIRS] {
            store.each_of(kind, &mut |_, version, octets| {
                records += 1;
                let entry = entry::parse(octets).filter(|_| version == VERSION);
                recovered.take(entry.ok_or("a record that means nothing here")?);
                Ok(())
            })?;
        }
        store.each_of(EPOCH, &mut |_, _, octets| {
            let epoch = octets.try_into().map_err(|_| "an epoch that is none")?;
            recovered.next_epoch = Epoch(u64::from_be_bytes(epoch));
            if recovered.next_epoch >= Epoch::END {
                return Err("no epoch goes beyond 2^63; bring back a copy of the records".into());
            }
            Ok(())
        })?;
        store.each_of(MEMBERS, &mut |key, version, octets| {
            let number = key.try_into().map_err(|_| "a node without a number")?;
            let read = serde_json::from_slice::<Member>(octets).ok();
            let read = read.filter(|_| version == VERSION).ok_or("a node that means nothing")?;
            let number = NodeId(u32::from_be_bytes(number));
            recovered.members.push(Member { number, has_registered: true, ..read });
            Ok(())
        })?;
        recovered.history = History::read(store.as_ref())?;
        recovered.upgrade = Records::read(store.as_ref())?;
        recovered.n4 = N4Records::read(store.as_ref())?;
        recovered.n4_nodes = N4NodeRecords::read(store.as_ref())?;
        recovered.shares = ShareRecords::read(store.as_ref())?;
        let orders = recovered.orders.clone();
        Ok((Journal { store, orders, records, changes: 0 }, recovered))
    }

    /// Makes changes durable, and that no epoch from `next_epoch` on has been
    /// given: all of that or, when the machine stops, nothing.
    ///
    /// # Errors
    /// What the system says; what is on disk is not known then, and nothing more
    /// may be written.
    pub fn append(&mut self, entries: &[Entry], next_epoch: Epoch) -> Result<(), JournalError> {
        self.append_with(entries, Vec::new(), next_epoch)
    }

    /// The same, together with changes of other records.
    ///
    /// # Errors
    /// As [`Journal::append`].
    pub fn append_with(
        &mut self,
        entries: &[Entry],
        others: Vec<Change>,
        next_epoch: Epoch,
    ) -> Result<(), JournalError> {
        let mut changes = others;
        changes.extend(entries.iter().flat_map(|entry| self.changes_of(entry)));
        changes.push(epoch(next_epoch));
        self.changes += changes.len() as u64;
        Ok(self.store.write(&changes)?)
    }

    /// Refuses to go on where another process may have written since.
    ///
    /// # Errors
    /// [`StateError::Deposed`].
    pub fn check_current(&self) -> Result<(), JournalError> {
        match self.store.is_current() {
            true => Ok(()),
            false => Err(StateError::Deposed("its records".to_owned()).into()),
        }
    }

    fn changes_of(&mut self, entry: &Entry) -> Vec<Change> {
        match *entry {
            Entry::Order(order) => {
                let before = self.orders.insert(order.number, (order, BTreeSet::new()));
                let users = before.map(|(_, users)| users).unwrap_or_default();
                let meant = |user| Change::remove(MEANT, &key(&Entry::Meant(user, order.number)));
                return users.into_iter().map(meant).chain([put(entry)]).collect();
            }
            Entry::Meant(user, number) => {
                let Some((_, users)) = self.orders.get_mut(&number) else { return Vec::new() };
                users.insert(user);
            }
            Entry::Ended(user, number, end) => {
                let Some((order, users)) = self.orders.get_mut(&number) else { return Vec::new() };
                if !users.remove(&user) {
                    return Vec::new();
                }
                order.ended[end as usize] += 1;
                let meant = Change::remove(MEANT, &key(&Entry::Meant(user, number)));
                return vec![meant, put(&Entry::Order(*order))];
            }
            Entry::Record(..) | Entry::Gone(..) | Entry::Cordoned(..) | Entry::Pair(..) => {}
        }
        vec![put(entry)]
    }

    /// Whether much of the store may be out of date: orders that are forgotten, users that are
    /// gone.
    pub fn wants_compaction(&self) -> bool {
        self.changes > FEW.max(4 * self.records)
    }

    /// Leaves in the store what is current and nothing else.
    ///
    /// # Errors
    /// As [`Journal::append`].
    pub fn compact(&mut self, entries: &[Entry], next_epoch: Epoch) -> Result<(), JournalError> {
        self.orders.clear();
        let current = entries.iter().flat_map(|entry| self.changes_of(entry));
        let key = |change: &Change| (change.kind(), change.key().to_vec());
        // Of several for one record the last one counts.
        let mut current: BTreeMap<_, _> = current.map(|change| (key(&change), change)).collect();
        let mut changes = Vec::new();
        for kind in [USERS, ORDERS, MEANT, GONE, CORDONED, PAIRS] {
            self.store.each_of(kind, &mut |key, version, record| {
                let at = (kind, key.to_vec());
                match current.get(&at) {
                    None => changes.push(Change::remove(kind, key)),
                    Some(wanted) if *wanted == Change::put(kind, key, version, record) => {
                        current.remove(&at);
                    }
                    Some(_) => {}
                }
                Ok(())
            })?;
        }
        changes.extend(current.into_values());
        changes.push(epoch(next_epoch));
        self.store.write(&changes)?;
        (self.records, self.changes) = (entries.len() as u64, 0);
        Ok(())
    }
}

/// A node has registered.
pub fn member(member: &Member) -> Change {
    // Texts and a number: there is nothing that JSON could not say.
    let octets = serde_json::to_vec(member).unwrap_or_default();
    Change::put(MEMBERS, &member.number.0.to_be_bytes(), VERSION, &octets)
}

/// A node that had registered is one no longer.
pub fn no_member(node: NodeId) -> Change {
    Change::remove(MEMBERS, &node.0.to_be_bytes())
}

fn epoch(next: Epoch) -> Change {
    Change::put(EPOCH, b"next", VERSION, &next.0.to_be_bytes())
}

fn put(entry: &Entry) -> Change {
    Change::put(kind(entry), &key(entry), VERSION, &entry::octets(entry))
}

fn kind(entry: &Entry) -> Kind {
    match entry {
        Entry::Record(..) => USERS,
        Entry::Order(_) => ORDERS,
        Entry::Meant(..) | Entry::Ended(..) => MEANT,
        Entry::Gone(..) => GONE,
        Entry::Cordoned(..) => CORDONED,
        Entry::Pair(..) => PAIRS,
    }
}

fn key(entry: &Entry) -> Vec<u8> {
    match *entry {
        Entry::Record(user, _) => user.0.to_be_bytes().to_vec(),
        Entry::Order(order) => order.number.to_be_bytes().to_vec(),
        Entry::Meant(user, number) | Entry::Ended(user, number, _) => {
            [number.to_be_bytes(), user.0.to_be_bytes()].concat()
        }
        Entry::Gone(node, _) | Entry::Cordoned(node, _) | Entry::Pair(node, _) => {
            node.0.to_be_bytes().to_vec()
        }
    }
}

impl Recovered {
    fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Record(user, record) => drop(self.records.insert(user, record)),
            Entry::Order(order) => {
                self.orders.insert(order.number, (order, BTreeSet::new()));
            }
            Entry::Meant(user, number) => {
                if let Some((_, users)) = self.orders.get_mut(&number) {
                    users.insert(user);
                }
            }
            Entry::Ended(user, number, end) => {
                if let Some((order, users)) = self.orders.get_mut(&number)
                    && users.remove(&user)
                {
                    order.ended[end as usize] += 1;
                }
            }
            Entry::Gone(node, gone) => drop(self.gone.insert(node, gone)),
            Entry::Cordoned(node, Cordon::Lifted) => drop(self.cordoned.remove(&node)),
            Entry::Cordoned(node, cordon) => drop(self.cordoned.insert(node, cordon)),
            Entry::Pair(first, record) => drop(self.pairs.insert(first, record)),
        }
    }

    /// All of it, as entries.
    fn entries(&self) -> Vec<Entry> {
        let records = self.records.iter().map(|(user, record)| Entry::Record(*user, *record));
        let mut all: Vec<_> = records.collect();
        for (order, users) in self.orders.values() {
            all.push(Entry::Order(*order));
            all.extend(users.iter().map(|user| Entry::Meant(*user, order.number)));
        }
        all.extend(self.gone.iter().map(|(node, gone)| Entry::Gone(*node, *gone)));
        all.extend(self.cordoned.iter().map(|(node, cordon)| Entry::Cordoned(*node, *cordon)));
        all.extend(self.pairs.iter().map(|(first, record)| Entry::Pair(*first, *record)));
        all
    }
}

#[cfg(test)]
mod tests;
