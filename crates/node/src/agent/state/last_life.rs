//! The node's last life, and what is said of it.

use std::time::Instant;

use super::Restored;

/// The age of checkpoints where there are none.
pub(in crate::agent) const NEVER: u64 = u64::MAX;

/// How a node's last life went.
#[derive(Clone, Copy, Debug)]
pub(in crate::agent) struct LastLife {
    pub stopped: bool,
    /// How long before contexts may have been written last, in nanoseconds.
    pub age: u64,
}

/// What is said of a node that goes on, once all is there.
#[derive(Debug)]
pub(in crate::agent) struct Goes {
    pub last: Option<LastLife>,
    pub begun: Instant,
}

impl Goes {
    /// Says it, where there was a life before.
    pub fn tell(&self, Restored { bearers, sessions, contexts }: Restored) {
        let lost = match self.last {
            None => return,
            Some(LastLife { age: NEVER, .. }) => "usage is not kept".to_owned(),
            Some(LastLife { stopped: true, .. }) => {
                "it was stopped, and nothing is lost".to_owned()
            }
            Some(LastLife { age, .. }) => {
                let age = age as f64 / 1e9 + 1.0;
                format!("it was not stopped: usage of its last {age:.1} s may be missing")
            }
        };
        let seconds = self.begun.elapsed().as_secs_f64();
        tracing::info!(bearers, sessions, contexts, seconds, "the node goes on: {lost}");
    }
}
