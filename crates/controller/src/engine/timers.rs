//! Timers, by the clock of the machine.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use weft_handover::TimerKey;

/// Timers that run.
#[derive(Debug, Default)]
pub struct Timers {
    by_time: BTreeSet<(Instant, TimerKey)>,
    by_key: HashMap<TimerKey, Instant>,
}

impl Timers {
    /// Sets a timer, anew if it runs.
    pub fn set(&mut self, key: TimerKey, at: Instant) {
        self.cancel(key);
        self.by_key.insert(key, at);
        self.by_time.insert((at, key));
    }

    /// Stops a timer, if it runs.
    pub fn cancel(&mut self, key: TimerKey) {
        if let Some(at) = self.by_key.remove(&key) {
            self.by_time.remove(&(at, key));
        }
    }

    /// When the next one fires.
    pub fn next(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// A timer that fires at `now` or before; it does not run any more.
    pub fn due(&mut self, now: Instant) -> Option<TimerKey> {
        let (_, key) = self.by_time.first().copied().filter(|(at, _)| *at <= now)?;
        self.cancel(key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weft_handover::{TimerKind, User};

    use super::*;

    #[test]
    fn timers_fire_once_in_order_and_when_they_were_set_last() {
        let key = |user| TimerKey { user: Some(User(user)), kind: TimerKind::Resend };
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut timers = Timers::default();
        timers.set(key(1), at(30));
        timers.set(key(2), at(20));
        timers.set(key(3), at(10));
        timers.set(key(1), at(5));
        timers.cancel(key(3));
        assert_eq!(timers.next(), Some(at(5)));
        assert_eq!(timers.due(at(4)), None);
        assert_eq!(timers.due(at(20)), Some(key(1)));
        assert_eq!(timers.due(at(20)), Some(key(2)));
        assert_eq!((timers.due(at(60)), timers.next()), (None, None));
    }
}
