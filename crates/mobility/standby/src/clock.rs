//! Time as one process of a node measures it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Nanoseconds, from those since 1970 on at which the process began to take part: what is said
/// in answer to an earlier process of the node has a stamp from before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    begun: Instant,
    first: u64,
}

impl Clock {
    pub fn new() -> Clock {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Enough until 2554.
        let first = u64::try_from(since_1970.as_nanos()).unwrap_or_default().max(1);
        Clock { begun: Instant::now(), first }
    }

    pub fn now(self) -> u64 {
        self.stamp(Instant::now())
    }

    /// The stamp of a moment; of the first one for all before.
    pub fn stamp(self, moment: Instant) -> u64 {
        self.first + moment.saturating_duration_since(self.begun).as_nanos() as u64
    }

    /// The moment of a stamp.
    pub fn moment(self, stamp: u64) -> Instant {
        self.begun + Duration::from_nanos(stamp.saturating_sub(self.first))
    }

    /// Whether this process can have said a stamp.
    pub fn has_said(self, stamp: u64) -> bool {
        (self.first..=self.now()).contains(&stamp)
    }
}

/// Milliseconds as nanoseconds.
pub(crate) fn milliseconds(time: u32) -> u64 {
    u64::from(time) * 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_of_others_are_known() {
        let clock = Clock::new();
        let own = clock.now();
        assert!(clock.has_said(own) && !clock.has_said(0));
        assert!(!clock.has_said(own + 3_600_000_000_000));
        let before = clock.first - 1;
        assert!(!clock.has_said(before));
        assert_eq!(clock.stamp(clock.moment(own)), own);
    }
}
