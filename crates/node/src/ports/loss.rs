//! Whether messages may have been lost on their way to the agent.

/// When the node last lost what may have been an answer to the node itself: who waits for
/// one does not conclude from silence that there was none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loss {
    count: u64,
    last: Option<u64>,
}

impl Loss {
    /// So many were lost in all, until the moment `now`, in nanoseconds.
    pub fn note(&mut self, count: u64, now: u64) {
        if count != self.count {
            *self = Loss { count, last: Some(now) };
        }
    }

    /// Whether any was lost since the moment `asked`.
    pub fn is_since(&self, asked: u64) -> bool {
        self.last.is_some_and(|last| last >= asked)
    }
}
