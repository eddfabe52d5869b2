//! The threads that a node cannot do without.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::thread;

use super::{PROGRESS, Progress};
use crate::lock;

/// What is expected of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// That it lives.
    Life,
    /// That it also comes back from every round, as [`begin_round`](super::begin_round)
    /// says.
    Rounds,
}

/// A thread that is watched.
pub(super) struct Thread {
    pub name: String,
    pub watch: Watch,
    /// Its number in the kernel.
    pub tid: i32,
    progress: NonNull<Progress>,
    number: u64,
}

// SAFETY: `progress` is read through `Thread::progress` only, and both of its fields are
// atomic.
unsafe impl Send for Thread {}

impl Thread {
    /// What it is at.
    pub fn progress(&self) -> &Progress {
        // SAFETY: it points to a variable of a thread that lives: `watched` takes the
        // thread off the list, under the lock that the list is read with, before its
        // variables go.
        unsafe { self.progress.as_ref() }
    }

    /// Tells threads of equal names apart.
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// All threads that are watched, and the names of those that have ended by a panic.
#[derive(Default)]
pub(super) struct Threads {
    pub alive: Vec<Thread>,
    pub dead: Vec<String>,
    next: u64,
}

pub(super) static THREADS: Mutex<Threads> =
    Mutex::new(Threads { alive: Vec::new(), dead: Vec::new(), next: 0 });

/// Runs `body`, the whole life of the calling thread, and has the [`Watchdog`](super::Watchdog)
/// look at the thread meanwhile. A panic that leaves `body` is the end of the thread that
/// the watchdog reports.
pub fn watched<R>(watch: Watch, body: impl FnOnce() -> R) -> R {
    thread_local! {
        static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
    }
    struct Life(u64);

    impl Drop for Life {
        fn drop(&mut self) {
            IS_WATCHED.set(false);
            let mut threads = lock(&THREADS);
            let Some(at) = threads.alive.iter().position(|one| one.number == self.0) else {
                return;
            };
            let thread = threads.alive.swap_remove(at);
            if thread::panicking() {
                threads.dead.push(thread.name);
            }
        }
    }

    if IS_WATCHED.replace(true) {
        return body();
    }
    let _life = PROGRESS.with(|progress| {
        let mut threads = lock(&THREADS);
        let number = threads.next;
        threads.next += 1;
        let name = thread::current().name().unwrap_or("a thread").to_owned();
        // SAFETY: the call has no arguments, and always returns the number.
        let tid = unsafe { libc::gettid() };
        let progress = NonNull::from(progress);
        threads.alive.push(Thread { name, watch, tid, progress, number });
        Life(number)
    });
    body()
}
