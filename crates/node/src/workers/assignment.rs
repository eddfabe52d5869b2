//! Which thread runs which worker.
//!
//! A worker has its users, their contexts, its queues and its rings for as long as the node runs:
//! slots, flow rules and the numbers that the node chooses all say which worker it is. So a node
//! whose threads become fewer does not deal users out anew. Its workers go over whole, between two
//! rounds, to threads that run several of them in turn. No packet changes its queue by that, and
//! none can be lost or overtaken.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use weft_dataplane::worker::Worker;
use weft_dpdk::Wakeup;

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
struct Mailbox {
    /// A worker has come, or is to go.
    has_news: AtomicBool,
    arrived: Mutex<Vec<Numbered>>,
    /// Ends the sleep of the thread.
    wakeup: Wakeup,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mailbox {
    fn notify(&self) {
        self.has_news.store(true, Ordering::Release);
        self.wakeup.ring();
    }
}

impl Assignment {
    /// Each of `count` workers has a thread of its own.
    ///
    /// # Errors
    /// When the process may not have so many descriptors.
    pub fn new(count: usize) -> io::Result<Assignment> {
        let mailbox = |_| {
            let (has_news, arrived) = (AtomicBool::new(false), Mutex::default());
            Ok(Mailbox { has_news, arrived, wakeup: Wakeup::new()? })
        };
        Ok(Assignment {
            wanted: (0..count).map(AtomicUsize::new).collect(),
            current: (0..count).map(AtomicUsize::new).collect(),
            mailboxes: (0..count).map(mailbox).collect::<io::Result<_>>()?,
        })
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

    /// Ends the sleep of all threads.
    pub fn wake_all(&self) {
        self.mailboxes.iter().for_each(Mailbox::notify);
    }

    /// What ends the sleep of thread `number`.
    pub fn wakeup(&self, number: usize) -> &Wakeup {
        &self.mailboxes[number].wakeup
    }

    /// Whether thread `number` has to [exchange](Self::exchange) workers.
    pub fn has_news(&self, number: usize) -> bool {
        self.mailboxes[number].has_news.load(Ordering::Acquire)
    }

    /// Between two rounds of thread `number`: workers that are to run elsewhere go, others come.
    #[inline]
    pub fn exchange(&self, number: usize, workers: &mut Vec<Numbered>) {
        if self.has_news(number) {
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

    /// Workers that no thread has, once none runs.
    pub fn collect(&self) -> Vec<Numbered> {
        self.mailboxes
            .iter()
            .flat_map(|mailbox| std::mem::take(&mut *lock(&mailbox.arrived)))
            .collect()
    }
}
