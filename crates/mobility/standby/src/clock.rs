//! Time as one node measures it.

use std::time::{Duration, Instant};

/// Nanoseconds since the process began to take part, from 1 on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub fn new() -> Clock {
        Clock(Instant::now())
    }

    pub fn now(self) -> u64 {
        self.0.elapsed().as_nanos() as u64 + 1
    }

    /// The moment of a stamp.
    pub fn moment(self, stamp: u64) -> Instant {
        self.0 + Duration::from_nanos(stamp)
    }
}

/// Milliseconds as nanoseconds.
pub(crate) fn milliseconds(time: u32) -> u64 {
    u64::from(time) * 1_000_000
}
