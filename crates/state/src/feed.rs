//! What is written to a store, for another machine that keeps the same records.
//!
//! The thread of a [`Writer`](crate::Writer) appends what is durable, under numbers that rise by
//! one. Who carries it to the other machine takes it from here, says how far that machine is,
//! and decides whether answers wait for it. A feed has a bound: where the other machine is
//! further behind, it needs a copy of all records first.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::StateError;
use crate::pieces::{Piece, is_shared, pieces};
use crate::record::Change;
use crate::snapshot::Snapshot;

/// Told once changes are durable, or why they are not yet.
pub type Done = Box<dyn FnOnce(Result<(), Arc<str>>) + Send>;

/// Is given all records as they are behind the number of the newest changes.
pub type Copied = Box<dyn FnOnce(Result<(Snapshot, u64), StateError>) + Send>;
type Ask = Box<dyn Fn(Copied) -> bool + Send>;

/// What is written to a store; clones are the same one.
#[derive(Clone)]
pub struct Feed(Arc<Shared>);

struct Shared {
    inner: Mutex<Inner>,
    ask: Mutex<Option<Ask>>,
    /// Called when there is more.
    wake: Box<dyn Fn() + Send + Sync>,
    bound: usize,
}

#[derive(Default)]
struct Inner {
    /// The number of the newest piece.
    newest: u64,
    /// The newest that the other machine has.
    reached: u64,
    /// Pieces, the last of which is the newest.
    pieces: VecDeque<Piece>,
    octets: usize,
    keeps: bool,
    /// Answers wait for the other machine.
    holds: bool,
    held: VecDeque<(u64, Done)>,
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("newest", &self.newest()).finish_non_exhaustive()
    }
}

impl Feed {
    /// One that keeps `bound` octets at most, and calls `wake` when there is more.
    pub fn new(bound: usize, wake: impl Fn() + Send + Sync + 'static) -> Feed {
        let (inner, ask) = (Mutex::default(), Mutex::default());
        Feed(Arc::new(Shared { inner, ask, wake: Box::new(wake), bound }))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // What is locked is whole at any time.
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the newest piece.
    pub fn newest(&self) -> u64 {
        self.inner().newest
    }

    /// Changes are kept from now on, or are no longer.
    pub fn keep(&self, keeps: bool) {
        let mut inner = self.inner();
        inner.keeps = keeps;
        if !keeps {
            inner.pieces.clear();
            inner.octets = 0;
        }
    }

    /// Answers wait for the other machine from now on, or do not. Those that wait go.
    pub fn hold(&self, holds: bool) {
        let mut inner = self.inner();
        inner.holds = holds;
        let free = if holds { VecDeque::new() } else { std::mem::take(&mut inner.held) };
        drop(inner);
        free.into_iter().for_each(|(_, done)| done(Ok(())));
    }

    /// The other machine has all up to this number.
    pub fn reached(&self, number: u64) {
        let mut inner = self.inner();
        if number <= inner.newest {
            inner.reached = inner.reached.max(number);
            self.go_on(inner);
        }
    }

    /// The other machine goes on behind this number, whatever it had before.
    pub fn begin(&self, number: u64) {
        let mut inner = self.inner();
        inner.reached = number;
        self.go_on(inner);
    }

    /// Another feed has ended with the piece of this number, which the other machine has. Nothing
    /// may have been appended here yet; all that will be is kept.
    pub fn go_on_behind(&self, number: u64) {
        let mut inner = self.inner();
        (inner.newest, inner.reached, inner.keeps) = (number, number, true);
    }

    /// Forgets what the other machine has, and lets answers go that waited for it.
    fn go_on(&self, mut inner: MutexGuard<'_, Inner>) {
        let mut free = Vec::new();
        while inner.held.front().is_some_and(|(waits, _)| *waits <= inner.reached) {
            free.extend(inner.held.pop_front());
        }
        while inner.oldest() <= inner.reached
            && let Some(piece) = inner.pieces.pop_front()
        {
            inner.octets -= piece.octets.len();
        }
        drop(inner);
        free.into_iter().for_each(|(_, done)| done(Ok(())));
    }

    /// The piece of this number; none if it is not there yet, or no longer.
    pub fn piece(&self, number: u64) -> Option<Piece> {
        let inner = self.inner();
        let at = number.checked_sub(inner.oldest())?;
        inner.pieces.get(usize::try_from(at).ok()?).cloned()
    }

    /// Whether all behind this number is there.
    pub fn reaches_back_to(&self, number: u64) -> bool {
        let inner = self.inner();
        number <= inner.newest && number + 1 >= inner.oldest()
    }

    /// Octets that wait for the other machine, and answers that do.
    pub fn waiting(&self) -> (usize, usize) {
        let inner = self.inner();
        (inner.octets, inner.held.len())
    }

    /// Asks for all records; false where nothing is written any more.
    pub fn copy(&self, then: Copied) -> bool {
        let ask = self.0.ask.lock().unwrap_or_else(PoisonError::into_inner);
        ask.as_ref().is_some_and(|ask| ask(then))
    }

    pub(crate) fn attach(&self, ask: impl Fn(Copied) -> bool + Send + 'static) {
        *self.0.ask.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(ask));
    }

    /// Changes are durable here.
    pub(crate) fn append(&self, changes: &[Change]) {
        let mut pieces = pieces(changes.iter().filter_map(|change| {
            is_shared(&change.key).then_some((&change.key[..], change.value.as_deref()))
        }));
        let Some(last) = pieces.last_mut() else { return };
        last.is_last = true;
        let mut inner = self.inner();
        for piece in pieces {
            inner.newest += 1;
            if inner.keeps {
                inner.octets += piece.octets.len();
                inner.pieces.push_back(piece);
            }
        }
        while inner.octets > self.0.bound
            && let Some(piece) = inner.pieces.pop_front()
        {
            inner.octets -= piece.octets.len();
        }
        drop(inner);
        (self.0.wake)();
    }

    /// Answers to what was appended: they go now or wait.
    pub(crate) fn answer(&self, done: Vec<Done>) {
        let mut inner = self.inner();
        if inner.holds && inner.reached < inner.newest {
            let newest = inner.newest;
            inner.held.extend(done.into_iter().map(|done| (newest, done)));
            return;
        }
        drop(inner);
        done.into_iter().for_each(|done| done(Ok(())));
    }
}

impl Inner {
    /// The number of the oldest piece that is there.
    fn oldest(&self) -> u64 {
        self.newest + 1 - self.pieces.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::pieces::read_changes;
    use crate::record::{Kind, LOCAL, OWN};

    fn put_one(key: u8, octets: usize) -> [Change; 1] {
        [Change::put(Kind(9), &[key], 1, &vec![key; octets])]
    }

    #[test]
    fn answers_wait_while_they_are_held_and_go_in_order() {
        let feed = Feed::new(1000, || {});
        let answered = Arc::new(AtomicUsize::new(0));
        let done = || -> Vec<Done> {
            let answered = answered.clone();
            vec![Box::new(move |_| {
                answered.fetch_add(1, Ordering::SeqCst);
            })]
        };
        let count = || answered.load(Ordering::SeqCst);
        feed.append(&put_one(1, 1));
        feed.answer(done());
        assert_eq!(count(), 1);
        feed.keep(true);
        feed.hold(true);
        feed.append(&put_one(2, 1));
        feed.answer(done());
        feed.append(&put_one(3, 1));
        feed.answer(done());
        assert_eq!((count(), feed.waiting().1), (1, 2));
        feed.reached(2);
        assert_eq!(count(), 2);
        // What is not there yet cannot have been reached.
        feed.reached(100);
        assert_eq!(count(), 2);
        feed.hold(false);
        assert_eq!(count(), 3);
    }

    #[test]
    fn what_is_too_far_behind_is_not_there_any_more() {
        let feed = Feed::new(1000, || {});
        feed.keep(true);
        for key in 0..10 {
            feed.append(&put_one(key, 300));
        }
        assert_eq!(feed.newest(), 10);
        assert!(feed.waiting().0 <= 1000);
        assert!(!feed.reaches_back_to(5) && feed.reaches_back_to(7) && feed.reaches_back_to(10));
        assert!(!feed.reaches_back_to(11));
        assert!(feed.piece(7).is_none() && feed.piece(11).is_none());
        let piece = feed.piece(8).unwrap();
        assert!(piece.is_last);
        assert_eq!(read_changes(&piece.octets).unwrap(), put_one(7, 300));
    }

    #[test]
    fn what_belongs_to_one_machine_stays_there() {
        let feed = Feed::new(1000, || {});
        feed.keep(true);
        feed.append(&[Change::put(LOCAL, b"position", 1, b"x"), Change::put(OWN, b"a", 1, b"x")]);
        assert_eq!(feed.newest(), 0);
    }
}
