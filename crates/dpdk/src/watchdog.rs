//! What the threads of a node are at, and what ends the node when one of them is not.
//!
//! A thread on which functions run says so in two variables of its own: the round it is in,
//! and the function that it has called. Both are plain stores into memory that only this
//! thread writes, so the way of a packet pays a store or two for each visit. A
//! [`Watchdog`] reads them, and a [fault](catch_faults) in a function names it.

mod fault;
mod names;
mod patrol;
mod threads;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub use fault::catch_faults;
pub use names::FunctionName;
pub use patrol::{Trouble, Watchdog};
pub use threads::{Watch, watched};

/// What one thread is at. Only that thread writes.
pub(crate) struct Progress {
    rounds: AtomicU64,
    running: AtomicU32,
}

thread_local! {
    // Constant at the start and nothing to drop: a signal handler may read it.
    static PROGRESS: Progress =
        const { Progress { rounds: AtomicU64::new(0), running: AtomicU32::new(0) } };
}

/// Ends the process at once with exit code 1, whatever its threads do.
pub fn end_process() -> ! {
    // SAFETY: has no preconditions, and runs no code of this process.
    unsafe { libc::_exit(1) }
}

/// The calling thread begins a round.
#[inline(always)]
pub fn begin_round() {
    PROGRESS.with(|progress| {
        let round = progress.rounds.load(Ordering::Relaxed).wrapping_add(1);
        progress.rounds.store(round, Ordering::Relaxed);
    });
}

/// The calling thread runs this function from now on.
#[inline(always)]
pub fn enter(function: FunctionName) {
    PROGRESS.with(|progress| progress.running.store(function.number(), Ordering::Relaxed));
}

/// The calling thread runs no function any more.
#[inline(always)]
pub fn leave() {
    PROGRESS.with(|progress| progress.running.store(0, Ordering::Relaxed));
}

/// The function that the calling thread runs.
pub fn running() -> Option<&'static str> {
    let number = PROGRESS.try_with(|progress| progress.running.load(Ordering::Relaxed));
    names::name(number.unwrap_or(0))
}

impl Progress {
    fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }

    fn running(&self) -> Option<&'static str> {
        names::name(self.running.load(Ordering::Relaxed))
    }
}
