//! A round in which all contexts are looked at as fast as the disk, and a standby, take what has
//! changed: before a node stops, so that little is left to write while users wait.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
    /// Writes that are on their way to the disk: what was asked for at once comes in parts.
    writes: Arc<AtomicU64>,
    told: Told,
}

impl Round {
    /// One that begins.
    pub fn new(told: Told) -> Round {
        Round { written: 0, has_asked: false, writes: Arc::default(), told }
    }

    /// Whether what was written so far is durable.
    pub fn is_durable(&self) -> bool {
        self.writes.load(Ordering::Acquire) == 0
    }

    /// What waits until all that was written so far is durable.
    pub fn wait(&self) -> Done {
        self.writes.fetch_add(1, Ordering::Relaxed);
        let writes = self.writes.clone();
        // A disk that refuses does not keep the node from its end.
        Box::new(move |_| {
            writes.fetch_sub(1, Ordering::Release);
        })
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

#[cfg(test)]
mod tests {
    use super::Round;

    #[test]
    fn a_round_is_durable_once_all_its_writes_are() {
        let round = Round::new(Box::new(|_| ()));
        assert!(round.is_durable());
        let (first, second) = (round.wait(), round.wait());
        first(Ok(()));
        assert!(!round.is_durable());
        second(Ok(()));
        assert!(round.is_durable());
    }
}
