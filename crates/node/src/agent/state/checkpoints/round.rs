//! A round in which all contexts are looked at as fast as the disk, and a standby, take what has
//! changed: before a node stops, so that little is left to write while users wait.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weft_state::Done;

/// Users and bearers whose contexts are looked at together.
pub(super) const AT_ONCE: usize = 4096;

/// Told how many contexts have changed since they were written last, once all are durable.
pub(crate) type Told = Box<dyn FnOnce(u64) + Send>;

/// How far the round is.
pub(super) struct Round {
    /// Contexts that were written.
    pub written: u64,
    /// All contexts were asked for.
    pub has_asked: bool,
    /// What was written last is on its way to the disk.
    writes: Arc<AtomicBool>,
    told: Told,
}

impl Round {
    /// One that begins.
    pub fn new(told: Told) -> Round {
        Round { written: 0, has_asked: false, writes: Arc::default(), told }
    }

    /// Whether what was written so far is durable.
    pub fn is_durable(&self) -> bool {
        !self.writes.load(Ordering::Acquire)
    }

    /// What waits until all that was written so far is durable.
    pub fn wait(&self) -> Done {
        self.writes.store(true, Ordering::Release);
        let writes = self.writes.clone();
        // A disk that refuses does not keep the node from its end.
        Box::new(move |_| writes.store(false, Ordering::Release))
    }

    /// All contexts were looked at.
    pub fn finish(self) {
        (self.told)(self.written);
    }
}

impl fmt::Debug for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Round").field("written", &self.written).finish_non_exhaustive()
    }
}
