//! Wakes the thread that reports are for.

use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};

/// Ends the pause that the agent makes while there is nothing to do.
#[derive(Clone, Debug, Default)]
pub struct Waker(Arc<OnceLock<Thread>>);

impl Waker {
    /// The agent runs in this thread.
    pub fn is_here(&self) {
        // One thread runs it all its life.
        let _ = self.0.set(thread::current());
    }

    /// Wakes the agent. Costs a system call only while it pauses.
    pub fn wake(&self) {
        if let Some(thread) = self.0.get() {
            thread.unpark();
        }
    }
}
