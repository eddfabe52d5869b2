//! The thread that makes changes durable, many at a time.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::StateError;
use crate::feed::{Copied, Done};
use crate::record::Change;
use crate::store::Store;

/// Octets of changes that are made durable at once: more gain nothing, and delay those who
/// wait for the first.
const AT_ONCE: usize = 8 << 20;

/// How long what was answered may not be durable, where that is asked for.
const BEHIND: Duration = Duration::from_millis(10);

/// How often a write that failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// When those who change something are told that it is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Durability {
    /// Once it is durable.
    #[default]
    Durable,
    /// At once, as long as the disk is no more than 10 ms behind; once it is durable then.
    Relaxed,
}

/// How far the disk is behind, and how it goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// For how long the oldest change has waited that is not durable.
    pub behind: Duration,
    /// Why nothing can be written at the moment, if so.
    pub failure: Option<Arc<str>>,
    /// Changes that were made durable, and how many times the disk was written for them.
    pub changes: u64,
    /// See `changes`.
    pub commits: u64,
}

enum Job {
    Write(Instant, Vec<Change>, Vec<Done>),
    /// All records are wanted, as they are in the store.
    Copy(Copied),
    Stop,
}

#[derive(Debug, Default)]
struct Shared {
    /// When the oldest of the changes was given that are not durable yet.
    since: Option<Instant>,
    failure: Option<Arc<str>>,
    changes: u64,
    commits: u64,
}

/// Makes changes durable in a thread of its own, in the order they were given. Those that wait
/// while the disk is busy are made durable together.
pub struct Writer {
    jobs: Sender<Job>,
    shared: Arc<Mutex<Shared>>,
    durability: Durability,
    thread: Option<JoinHandle<Store>>,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl Writer {
    /// Begins to write to `store`.
    ///
    /// # Errors
    /// When the machine has no thread for it.
    pub fn start(store: Store, durability: Durability) -> std::io::Result<Writer> {
        let (jobs, inbox) = channel();
        if let Some(feed) = store.feed() {
            let jobs = jobs.clone();
            feed.attach(move |then| jobs.send(Job::Copy(then)).is_ok());
        }
        let shared = Arc::new(Mutex::new(Shared::default()));
        let work = Work {
            path: store.path().to_owned(),
            store,
            shared: shared.clone(),
            unwritten: HashMap::new(),
            size: 0,
            failed: None,
        };
        let thread = thread::Builder::new().name("state".to_owned());
        let thread = thread.spawn(move || work.run(&inbox))?;
        Ok(Writer { jobs, shared, durability, thread: Some(thread) })
    }

    /// Gives changes to the thread. Each of `done` is called once they are durable, with all
    /// that was given before; by that thread, or at once where that is allowed.
    pub fn write(&self, changes: Vec<Change>, done: Vec<Done>) {
        let now = Instant::now();
        let mut shared = lock(&self.shared);
        let is_near = shared.since.is_none_or(|since| now - since < BEHIND);
        let at_once = self.durability == Durability::Relaxed && is_near && shared.failure.is_none();
        if !changes.is_empty() {
            shared.since.get_or_insert(now);
        }
        let (done, later) = if at_once { (done, Vec::new()) } else { (Vec::new(), done) };
        // The thread is there as long as this is. It looks for more under the same lock.
        let _ = self.jobs.send(Job::Write(now, changes, later));
        drop(shared);
        done.into_iter().for_each(|done| done(Ok(())));
    }

    /// Asks for all records as they are behind what was given so far, and before what is given
    /// later: `then` is called by the thread, with the number of the newest piece of the store's
    /// feed. False where the thread has ended.
    pub fn copy(&self, then: Copied) -> bool {
        self.jobs.send(Job::Copy(then)).is_ok()
    }

    /// How far the disk is behind.
    pub fn lag(&self) -> Lag {
        let shared = lock(&self.shared);
        Lag {
            behind: shared.since.map_or(Duration::ZERO, |since| since.elapsed()),
            failure: shared.failure.clone(),
            changes: shared.changes,
            commits: shared.commits,
        }
    }

    /// Makes durable what was given, and gives the store back, which is closed when it is
    /// dropped. None where the thread has ended before.
    pub fn stop(mut self) -> Option<Store> {
        self.end()
    }

    fn end(&mut self) -> Option<Store> {
        let _ = self.jobs.send(Job::Stop);
        self.thread.take()?.join().ok()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.end();
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the thread works with.
struct Work {
    store: Store,
    path: PathBuf,
    shared: Arc<Mutex<Shared>>,
    /// What is not durable yet, by key: what is about one record takes the room of one.
    unwritten: HashMap<Vec<u8>, Option<Vec<u8>>>,
    size: usize,
    /// When a write has failed last.
    failed: Option<Instant>,
}

impl Work {
    fn run(mut self, jobs: &Receiver<Job>) -> Store {
        let mut next = None;
        loop {
            let job = match next.take() {
                Some(job) => Some(job),
                // What could not be written is tried again.
                None if !self.unwritten.is_empty() => match jobs.recv_timeout(AGAIN) {
                    Ok(job) => Some(job),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return self.store,
                },
                None => match jobs.recv() {
                    Ok(job) => Some(job),
                    Err(_) => return self.store,
                },
            };
            let (mut done, mut copy, mut stops) = (Vec::new(), None, false);
            let mut job = job;
            loop {
                match job {
                    Some(Job::Write(_, changes, told)) => {
                        self.gather(changes);
                        done.extend(told);
                    }
                    // What comes later is not in it.
                    Some(Job::Copy(then)) => copy = Some(then),
                    Some(Job::Stop) => stops = true,
                    None => {}
                }
                if stops || copy.is_some() || self.size >= AT_ONCE {
                    break;
                }
                match jobs.try_recv() {
                    Ok(more) => job = Some(more),
                    Err(_) => break,
                }
            }
            let outcome = self.commit();
            // What came meanwhile counts from its own time.
            let mut shared = lock(&self.shared);
            next = jobs.try_recv().ok();
            if outcome.is_ok() {
                shared.since = match &next {
                    Some(Job::Write(at, ..)) => Some(*at),
                    _ => None,
                };
            }
            drop(shared);
            match (self.store.feed(), &outcome) {
                (Some(feed), Ok(())) => feed.answer(done),
                _ => done.into_iter().for_each(|done| done(outcome.clone())),
            }
            if let Some(then) = copy {
                self.copy(then);
            }
            if stops {
                return self.store;
            }
        }
    }

    fn copy(&self, then: Copied) {
        let newest = self.store.feed().map_or(0, |feed| feed.newest());
        then(self.store.snapshot().map(|snapshot| (snapshot, newest)));
    }

    fn gather(&mut self, changes: Vec<Change>) {
        for change in changes {
            self.size += change.size();
            self.unwritten.insert(change.key, change.value);
        }
    }

    fn commit(&mut self) -> Result<(), Arc<str>> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let failure = lock(&self.shared).failure.clone();
        if let Some(failure) = failure
            && self.failed.is_some_and(|failed| failed.elapsed() < AGAIN)
        {
            return Err(failure);
        }
        let unwritten = std::mem::take(&mut self.unwritten);
        let mut changes: Vec<_> =
            unwritten.into_iter().map(|(key, value)| Change { key, value }).collect();
        // Neighbours in the tree are written together.
        changes.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        let written = self.store.write(&changes);
        match written {
            Ok(()) => {
                self.size = 0;
                if let Some(feed) = self.store.feed() {
                    feed.append(&changes);
                }
                let mut shared = lock(&self.shared);
                (shared.changes, shared.commits) =
                    (shared.changes + changes.len() as u64, shared.commits + 1);
                if shared.failure.take().is_some() {
                    tracing::info!(state = %self.path.display(), "the state can be written again");
                }
                Ok(())
            }
            Err(error) => {
                self.unwritten.extend(changes.into_iter().map(|one| (one.key, one.value)));
                Err(self.note_failure(&error))
            }
        }
    }

    fn note_failure(&mut self, error: &StateError) -> Arc<str> {
        self.failed = Some(Instant::now());
        let text: Arc<str> = error.to_string().into();
        let before = lock(&self.shared).failure.replace(text.clone());
        if before.is_none() {
            tracing::error!("{text}; what commands change is not durable, and they are refused");
        }
        text
    }
}
