//! Records in etcd: a log of changes, folded into groups.
//!
//! What came together is one entry of the log, and one transaction. When the log is long, the
//! groups of its oldest changes are read, changed and written, and what every group has is cut
//! off the log. So a change costs what it says, and now and then its part of a group; and keys
//! are as many as groups, and a bounded log. Only the leader writes: each transaction compares
//! its term.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use weft_state::{Change, EachRecord, Kind, Owner, RecordStore, Records, StateError};

use crate::election::Leadership;
use crate::error::EtcdError;
use crate::layout::{self, Changes, Group, ValueKind};
use crate::requests::{Etcd, Fence, Operation as Request, Range};

/// A key and its value.
type Found = (String, Vec<u8>);

/// Octets of one entry of the log: a request has at most 1.5 MiB by default.
const PART: usize = 1 << 20;
/// Octets of a key or of a record; those of a group fit into a request.
const LONGEST: usize = 1 << 10;
/// The log is folded from so many octets on, and from so many entries.
const LOG_OCTETS: usize = 16 << 20;
const LOG_ENTRIES: usize = 4096;
/// Groups that one transaction folds; their octets are those of one entry of the log at most, but
/// for a single group.
const GROUPS_AT_ONCE: usize = 32;
/// The key of how many transactions there have been.
const COUNT: &str = "count";
/// Keys that are read at once.
const PAGE: u64 = 24;
/// Pause before a transaction is tried again.
const PAUSE: Duration = Duration::from_millis(50);
/// How often the log of the program says that etcd does not take what is to be written.
const REMINDER: Duration = Duration::from_secs(10);

/// What a store has cost, counted while it is written; read by other threads.
#[derive(Debug, Default)]
pub struct Counts {
    transactions: AtomicU64,
    octets: AtomicU64,
}

impl Counts {
    /// Transactions that were carried out.
    pub fn transactions(&self) -> u64 {
        self.transactions.load(Ordering::Relaxed)
    }

    /// Octets of the values that they wrote.
    pub fn octets(&self) -> u64 {
        self.octets.load(Ordering::Relaxed)
    }
}

/// One part of a transaction.
enum Operation {
    /// The key has this value.
    Put(String, Vec<u8>),
    /// There is no such key.
    Remove(String),
    /// There are no entries of the log from one to before another.
    Cut(u64, u64),
}

/// Changes of a group that it does not have yet.
#[derive(Debug)]
struct Unfolded {
    /// The first entry of the log with one of them.
    oldest: u64,
    changes: Changes,
}

/// Records of the leader.
pub struct EtcdStore {
    etcd: Arc<dyn Etcd>,
    leadership: Leadership,
    stop: Arc<AtomicBool>,
    /// How many transactions there have been, of all leaders; none before the first.
    count: Option<u64>,
    /// The next entry of the log.
    next: u64,
    /// Octets of entries that are in the log, by their numbers.
    log: BTreeMap<u64, usize>,
    octets: usize,
    unfolded: BTreeMap<Group, Unfolded>,
    counts: Arc<Counts>,
    limits: (usize, usize),
}

impl std::fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdStore").field("next", &self.next).finish_non_exhaustive()
    }
}

impl EtcdStore {
    /// Opens the records of `owner`, which this replica leads. What waits for etcd ends when
    /// `stop` is set.
    ///
    /// # Errors
    /// [`StateError`]: above all when values are not of Weft, or damaged.
    pub fn open(
        leadership: Leadership,
        owner: &Owner,
        stop: Arc<AtomicBool>,
    ) -> Result<EtcdStore, StateError> {
        let mut store = EtcdStore {
            etcd: leadership.etcd().clone(),
            leadership,
            stop,
            count: None,
            next: 1,
            log: BTreeMap::new(),
            octets: 0,
            unfolded: BTreeMap::new(),
            counts: Arc::default(),
            limits: (LOG_OCTETS, LOG_ENTRIES),
        };
        store.read_count()?;
        store.identify(owner)?;
        store.read_log()?;
        Ok(store)
    }

    /// Folds from so many octets and entries of the log on.
    #[must_use]
    pub fn with_limits(self, octets: usize, entries: usize) -> EtcdStore {
        EtcdStore { limits: (octets, entries), ..self }
    }

    /// What it costs, from now on.
    pub fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }

    fn read_count(&mut self) -> Result<(), StateError> {
        if let Some((_, there)) = self.range(COUNT, false)?.pop() {
            let said = self.said(COUNT, ValueKind::Count, &there)?;
            let count = said.try_into().map(u64::from_be_bytes);
            self.count = Some(count.map_err(|_| StateError::Damaged {
                path: self.path(COUNT),
                what: "it is no number".to_owned(),
            })?);
        }
        Ok(())
    }

    /// Whose records they are: says so where there are none, and refuses those of others.
    fn identify(&mut self, owner: &Owner) -> Result<(), StateError> {
        let key = "identity";
        match self.range(key, false)?.pop() {
            Some((_, there)) => {
                let is = self.said(key, ValueKind::Identity, &there)?;
                let is = String::from_utf8_lossy(is).into_owned();
                let wanted = owner.to_string();
                if is != wanted {
                    return Err(StateError::Other { path: self.path(key), is, wanted });
                }
                Ok(())
            }
            None => {
                let value = layout::value(ValueKind::Identity, owner.to_string().as_bytes());
                self.commit(&[Operation::Put(key.to_owned(), value)])
            }
        }
    }

    fn read_log(&mut self) -> Result<(), StateError> {
        let (mut parts, mut torn) = (Vec::new(), BTreeSet::new());
        for (key, value) in self.range("log/", true)? {
            let damaged =
                |what: &str| StateError::Damaged { path: self.path(&key), what: what.to_owned() };
            let sequence = layout::sequence(&key).ok_or_else(|| damaged("its key is none"))?;
            if !self.log.is_empty() && sequence != self.next {
                return Err(damaged("what stands before it is not there"));
            }
            let said = self.said(&key, ValueKind::Log, &value)?;
            let (is_last, changes) = said.split_first().ok_or_else(|| damaged("it is empty"))?;
            let changes = layout::changes(changes).ok_or_else(|| damaged("it means nothing"))?;
            self.next = sequence.checked_add(1).ok_or_else(|| damaged("its key is none"))?;
            self.log.insert(sequence, value.len());
            torn.insert(sequence);
            parts.push((sequence, changes));
            if *is_last == 1 {
                for (sequence, changes) in parts.drain(..) {
                    self.note(sequence, changes);
                }
                torn.clear();
            }
        }
        // A leader has ended before it had written all of what came together.
        if let Some(first) = torn.first() {
            let cut = Operation::Cut(*first, std::mem::replace(&mut self.next, *first));
            self.log.split_off(first);
            self.commit(&[cut])?;
        }
        self.octets = self.log.values().sum();
        Ok(())
    }

    /// Changes that are in the log now.
    fn note(&mut self, sequence: u64, changes: impl IntoIterator<Item = layout::Stored>) {
        for (key, record) in changes {
            let new = || Unfolded { oldest: sequence, changes: Changes::new() };
            let group = self.unfolded.entry(Group::of(&key)).or_insert_with(new);
            group.changes.insert(key, record);
        }
    }

    /// Folds the groups that have waited longest, and cuts off the log what all groups have.
    fn fold(&mut self) -> Result<(), StateError> {
        let mut oldest: Vec<_> =
            self.unfolded.iter().map(|(group, waits)| (waits.oldest, group.clone())).collect();
        oldest.sort_unstable();
        oldest.truncate(GROUPS_AT_ONCE);
        let keys: Vec<_> = oldest.iter().map(|(_, group)| group.key()).collect();
        let (mut operations, mut length) = (Vec::new(), 0);
        for ((_, group), there) in oldest.iter().zip(self.values(&keys)?) {
            let Some(waits) = self.unfolded.get(group) else { continue };
            let mut records = match there {
                Some(value) => self.records(&group.key(), &value)?,
                None => Changes::new(),
            };
            records.extend(waits.changes.clone());
            records.retain(|_, record| record.is_some());
            let mut said = Vec::new();
            records.iter().for_each(|(key, record)| layout::put(key, record.as_deref(), &mut said));
            length += said.len();
            if length > PART && !operations.is_empty() {
                break;
            }
            operations.push(match said.is_empty() {
                true => Operation::Remove(group.key()),
                false => Operation::Put(group.key(), layout::value(ValueKind::Group, &said)),
            });
        }
        let taken: Vec<_> = oldest
            .into_iter()
            .take(operations.len())
            .filter_map(|(_, group)| Some((group.clone(), self.unfolded.remove(&group)?)))
            .collect();
        let left = self.unfolded.values().map(|waits| waits.oldest).min();
        let end = left.unwrap_or(self.next);
        let first = self.log.keys().next().copied().filter(|first| *first < end);
        operations.extend(first.map(|first| Operation::Cut(first, end)));
        let written = self.commit(&operations);
        match &written {
            Ok(()) => self.log = self.log.split_off(&end),
            Err(_) => self.unfolded.extend(taken),
        }
        self.octets = self.log.values().sum();
        written
    }

    /// Records of a group.
    fn records(&self, key: &str, value: &[u8]) -> Result<Changes, StateError> {
        let said = self.said(key, ValueKind::Group, value)?;
        let changes = layout::changes(said).ok_or_else(|| StateError::Damaged {
            path: self.path(key),
            what: "it means nothing".to_owned(),
        })?;
        Ok(changes.into_iter().collect())
    }

    fn said<'a>(
        &self,
        key: &str,
        kind: ValueKind,
        value: &'a [u8],
    ) -> Result<&'a [u8], StateError> {
        layout::said(kind, value).map_err(|what| StateError::Damaged { path: self.path(key), what })
    }

    fn path(&self, key: &str) -> PathBuf {
        format!("etcd {}{key}", self.etcd.prefix()).into()
    }

    /// Carries out puts and removals in one transaction, if this replica still leads. Waits
    /// for an etcd that does not answer, or is full, as long as that may be.
    ///
    /// A member that was slow may carry a transaction out after another one has answered, and
    /// much later ones are done. So each compares the count of transactions, and changes it.
    fn commit(&mut self, operations: &[Operation]) -> Result<(), StateError> {
        let prefix = self.etcd.prefix().to_owned();
        let key = |key: &str| format!("{prefix}{key}");
        let request = |operation: &Operation| match operation {
            Operation::Put(name, value) => {
                Request::Put { key: key(name), value: value.clone(), lease: 0 }
            }
            Operation::Remove(name) => Request::Remove(key(name)),
            Operation::Cut(first, end) => {
                let [first, end] = [first, end].map(|at| key(&layout::log_key(*at)));
                Request::RemoveRange(first, end)
            }
        };
        let octets = |operation: &Operation| match operation {
            Operation::Put(_, value) => value.len() as u64,
            Operation::Remove(_) | Operation::Cut(..) => 0,
        };
        let length: u64 = operations.iter().map(octets).sum();
        let mut requests: Vec<_> = operations.iter().map(request).collect();
        let count = layout::count(self.count.map_or(1, |count| count + 1));
        let unchanged = match self.count {
            None => Fence::Made(key(COUNT), 0),
            Some(count) => Fence::Value(key(COUNT), layout::count(count)),
        };
        requests.push(Request::Put { key: key(COUNT), value: count.clone(), lease: 0 });
        let fences = vec![self.leadership.fence(), unchanged];
        let mut said: Option<Instant> = None;
        loop {
            self.check_leadership()?;
            match self.etcd.transact(fences.clone(), requests.clone()) {
                Ok(carried) if carried.is_some() || self.is_done(&count)? => {
                    self.count = Some(self.count.map_or(1, |count| count + 1));
                    self.counts.transactions.fetch_add(1, Ordering::Relaxed);
                    self.counts.octets.fetch_add(length, Ordering::Relaxed);
                    return Ok(());
                }
                Ok(_) => self.leadership.lose(),
                Err(error) if error.is_passing() => {
                    let now = self.etcd.now();
                    if said.is_none_or(|said| now.duration_since(said) > REMINDER) {
                        tracing::warn!("records wait: {error}");
                        said = Some(now);
                    }
                    self.etcd.sleep(PAUSE);
                }
                Err(error) => return Err(error.of_store(&prefix)),
            }
        }
    }

    /// Whether a transaction of this leader was carried out that was not answered: the count is
    /// as it made it, and no other leads.
    fn is_done(&self, count: &[u8]) -> Result<bool, StateError> {
        let (fence, get) = (self.leadership.fence(), format!("{}{COUNT}", self.etcd.prefix()));
        let read =
            self.read(|etcd| etcd.transact(vec![fence.clone()], vec![Request::Get(get.clone())]))?;
        let there = read.flatten().and_then(|mut read| read.pop()).flatten();
        Ok(there.is_some_and(|there| there.value == count))
    }

    fn check_leadership(&self) -> Result<(), StateError> {
        if self.leadership.is_over() || self.stop.load(Ordering::Relaxed) {
            return Err(StateError::Deposed(format!("etcd {}", self.etcd.prefix())));
        }
        Ok(())
    }

    /// Asks until there is an answer, or this replica no longer leads. `None` if etcd has given
    /// up the revision that is asked for.
    fn read<T>(
        &self,
        request: impl Fn(&dyn Etcd) -> Result<T, EtcdError>,
    ) -> Result<Option<T>, StateError> {
        loop {
            self.check_leadership()?;
            match request(self.etcd.as_ref()) {
                Ok(answer) => return Ok(Some(answer)),
                Err(EtcdError::Compacted) => return Ok(None),
                Err(error) if error.is_passing() => self.etcd.sleep(PAUSE),
                Err(error) => return Err(error.of_store(self.etcd.prefix())),
            }
        }
    }

    /// The values of keys; none where there is none.
    fn values(&self, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>, StateError> {
        let prefix = self.etcd.prefix();
        let gets = || keys.iter().map(|key| Request::Get(format!("{prefix}{key}"))).collect();
        let read = self.read(|etcd| etcd.transact(Vec::new(), gets()))?;
        let read = read.flatten().unwrap_or_default();
        Ok(read.into_iter().map(|there| there.map(|there| there.value)).collect())
    }

    /// Keys behind the prefix, with their values, in order: one, or all that begin so.
    fn range(&self, key: &str, all: bool) -> Result<Vec<Found>, StateError> {
        loop {
            if let Some(found) = self.range_at_once(key, all)? {
                return Ok(found);
            }
        }
    }

    /// The same, in pages of one revision; `None` if etcd has given that revision up meanwhile.
    fn range_at_once(&self, key: &str, all: bool) -> Result<Option<Vec<Found>>, StateError> {
        let prefix = self.etcd.prefix();
        let first = format!("{prefix}{key}");
        // The last letter of a prefix of ours is followed by another one.
        let mut end = first.clone();
        let last = end.pop().map_or('0', |last| char::from(last as u8 + 1));
        end.push(last);
        let (mut from, mut found, mut revision) = (first, Vec::new(), 0);
        loop {
            let before = all.then(|| end.clone());
            let range = Range { from, before, limit: PAGE, revision };
            let Some(page) = self.read(|etcd| etcd.range(range.clone()))? else { return Ok(None) };
            // Later pages are of the revision of the first.
            revision = if revision == 0 { page.revision } else { revision };
            from = page.found.last().map(|last| format!("{}\0", last.key)).unwrap_or_default();
            let named = page.found.into_iter().map(|there| {
                (there.key.get(prefix.len()..).unwrap_or_default().to_owned(), there.value)
            });
            found.extend(named);
            if !page.more {
                return Ok(Some(found));
            }
        }
    }
}

impl Records for EtcdStore {
    fn each_of(&self, kind: Kind, each: &mut EachRecord<'_>) -> Result<(), StateError> {
        let mut records = Changes::new();
        for (key, value) in self.range(&layout::groups_of(kind.0), true)? {
            records.extend(self.records(&key, &value)?);
        }
        for waits in self.unfolded.values() {
            let changes = waits.changes.iter();
            records.extend(changes.map(|(key, record)| (key.clone(), record.clone())));
        }
        for (key, record) in &records {
            let Some((found, rest)) = key.split_first_chunk() else { continue };
            let Some((version, record)) = record.as_ref().and_then(|record| record.split_first())
            else {
                continue;
            };
            if u16::from_be_bytes(*found) == kind.0 {
                each(rest, *version, record).map_err(|what| StateError::Damaged {
                    path: self.path(&Group::of(key).key()),
                    what,
                })?;
            }
        }
        Ok(())
    }
}

impl RecordStore for EtcdStore {
    fn is_current(&self) -> bool {
        !self.leadership.is_over()
    }

    fn write(&mut self, changes: &[Change]) -> Result<(), StateError> {
        let stored: BTreeMap<_, _> = changes.iter().map(Change::stored).collect();
        let is_long = |octets: &[u8]| octets.len() > LONGEST;
        if stored.iter().any(|(key, record)| is_long(key) || record.is_some_and(is_long)) {
            let error = EtcdError::Refused(format!("a record has at most {LONGEST} octets"));
            return Err(error.of_store(self.etcd.prefix()));
        }
        let mut parts = vec![vec![0]];
        for (key, record) in &stored {
            let full = |part: &Vec<u8>| part.len() + layout::size(key, *record) > PART;
            if parts.last().is_none_or(full) {
                parts.push(vec![0]);
            }
            if let Some(part) = parts.last_mut() {
                layout::put(key, *record, part);
            }
        }
        if let Some(last) = parts.last_mut() {
            last[0] = 1;
        }
        let first = self.next;
        let mut sequence = first;
        for part in parts {
            let value = layout::value(ValueKind::Log, &part);
            let length = value.len();
            self.commit(&[Operation::Put(layout::log_key(sequence), value)])?;
            self.log.insert(sequence, length);
            self.octets += length;
            sequence += 1;
        }
        self.next = sequence;
        let own =
            |(key, record): (&[u8], Option<&[u8]>)| (key.to_vec(), record.map(<[u8]>::to_vec));
        self.note(first, stored.into_iter().map(own));
        while (self.octets > self.limits.0 || self.log.len() > self.limits.1)
            && !self.unfolded.is_empty()
        {
            self.fold()?;
        }
        Ok(())
    }
}
