//! Which thread runs which worker.
//!
//! A worker has its users, their contexts, its queues and its rings for as long as the node runs:
//! slots, flow rules and the numbers that the node chooses all say which worker it is. So a node
//! whose threads become fewer does not deal users out anew. Its workers go over whole, between two
//! rounds, to threads that run several of them in turn. No packet changes its queue by that, and
//! none can be lost or overtaken.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use weft_dataplane::worker::Worker;

/// How long a thread without workers waits before it looks for itself, as the watchdog wants to
/// see rounds.
const PARKED: Duration = Duration::from_millis(100);

/// A worker and its number.
pub(crate) type Numbered = (usize, Worker);

/// Which thread runs which worker; thread and worker of one number belong together.
pub(crate) struct Assignment {
    /// By the number of the worker: the thread that is to run it.
    wanted: Box<[AtomicUsize]>,
    /// By the number of the worker: the thread that had it last.
    current: Box<[AtomicUsize]>,
    /// By the number of the thread.
    mailboxes: Box<[Mailbox]>,
}

/// How a thread is reached.
#[derive(Default)]
struct Mailbox {
    /// A worker has come, or is to go.
    has_news: AtomicBool,
    arrived: Mutex<Vec<Numbered>>,
    thread: Mutex<Option<Thread>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mailbox {
    fn notify(&self) {
        self.has_news.store(true, Ordering::Release);
        if let Some(thread) = &*lock(&self.thread) {
            thread.unpark();
        }
    }
}

impl Assignment {
    /// Each of `count` workers has a thread of its own.
    pub fn new(count: usize) -> Assignment {
        Assignment {
            wanted: (0..count).map(AtomicUsize::new).collect(),
            current: (0..count).map(AtomicUsize::new).collect(),
            mailboxes: (0..count).map(|_| Mailbox::default()).collect(),
        }
    }

    /// By the number of the worker: the thread that is to run it.
    pub fn wanted(&self) -> Vec<usize> {
        self.wanted.iter().map(|thread| thread.load(Ordering::Relaxed)).collect()
    }

    /// Whether each worker is where it is to be.
    pub fn is_settled(&self) -> bool {
        let current = self.current.iter().map(|thread| thread.load(Ordering::Acquire));
        current.eq(self.wanted())
    }

    /// Has workers run by these threads from now on, by the number of the worker. Only one thread
    /// of a node may ask for that.
    pub fn assign(&self, threads: &[usize]) {
        for (wanted, thread) in self.wanted.iter().zip(threads) {
            let before = wanted.swap(*thread, Ordering::Relaxed);
            if before != *thread {
                self.mailboxes[before].notify();
            }
        }
    }

    /// The calling thread is that of this number.
    pub fn enter(&self, number: usize) {
        *lock(&self.mailboxes[number].thread) = Some(thread::current());
        self.mailboxes[number].notify();
    }

    /// Between two rounds of thread `number`: workers that are to run elsewhere go, others come.
    #[inline]
    pub fn exchange(&self, number: usize, workers: &mut Vec<Numbered>) {
        if self.mailboxes[number].has_news.load(Ordering::Acquire) {
            self.exchange_now(number, workers);
        }
    }

    #[cold]
    fn exchange_now(&self, number: usize, workers: &mut Vec<Numbered>) {
        let mailbox = &self.mailboxes[number];
        // What comes behind this is seen the next time.
        mailbox.has_news.swap(false, Ordering::AcqRel);
        let mut all = std::mem::take(&mut *lock(&mailbox.arrived));
        all.append(workers);
        for (worker, it) in all {
            let wanted = self.wanted[worker].load(Ordering::Relaxed);
            if wanted == number {
                self.current[worker].store(number, Ordering::Release);
                workers.push((worker, it));
            } else {
                self.send((worker, it), wanted);
            }
        }
        workers.sort_unstable_by_key(|(worker, _)| *worker);
    }

    /// Gives a worker to a thread.
    pub fn send(&self, worker: Numbered, thread: usize) {
        let mailbox = &self.mailboxes[thread];
        lock(&mailbox.arrived).push(worker);
        mailbox.notify();
    }

    /// A thread without workers waits until there may be one.
    pub fn wait() {
        thread::park_timeout(PARKED);
    }

    /// Workers that no thread has, once none runs.
    pub fn collect(&self) -> Vec<Numbered> {
        self.mailboxes
            .iter()
            .flat_map(|mailbox| std::mem::take(&mut *lock(&mailbox.arrived)))
            .collect()
    }
}
