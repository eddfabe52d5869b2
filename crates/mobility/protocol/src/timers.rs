//! The timers of a machine, for the program that holds it.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use crate::TimerKey;

/// Timers that run, by the clock of the program that holds the machine.
#[derive(Debug)]
pub struct Timers<Time, Key = TimerKey> {
    by_time: BTreeSet<(Time, Key)>,
    by_key: HashMap<Key, Time>,
}

impl<Time, Key> Default for Timers<Time, Key> {
    /// None.
    fn default() -> Self {
        Timers { by_time: BTreeSet::new(), by_key: HashMap::new() }
    }
}

impl<Time: Copy + Ord, Key: Clone + Ord + Hash> Timers<Time, Key> {
    /// Sets a timer, anew if it runs.
    pub fn set(&mut self, key: Key, at: Time) {
        self.cancel(key.clone());
        self.by_key.insert(key.clone(), at);
        self.by_time.insert((at, key));
    }

    /// Stops a timer, if it runs.
    pub fn cancel(&mut self, key: Key) {
        if let Some(at) = self.by_key.remove(&key) {
            self.by_time.remove(&(at, key));
        }
    }

    /// When the next one fires.
    pub fn next(&self) -> Option<Time> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// A timer that fires at `now` or before; it does not run any more.
    pub fn due(&mut self, now: Time) -> Option<Key> {
        let (_, key) = self.by_time.first().filter(|(at, _)| *at <= now)?.clone();
        self.cancel(key.clone());
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TimerKind, User};

    #[test]
    fn timers_fire_once_in_order_and_when_they_were_set_last() {
        let key = |user| TimerKey { user: Some(User(user)), kind: TimerKind::Resend };
        let mut timers = Timers::<u64>::default();
        timers.set(key(1), 30);
        timers.set(key(2), 20);
        timers.set(key(3), 10);
        timers.set(key(1), 5);
        timers.cancel(key(3));
        assert_eq!(timers.next(), Some(5));
        assert_eq!(timers.due(4), None);
        assert_eq!(timers.due(20), Some(key(1)));
        assert_eq!(timers.due(20), Some(key(2)));
        assert_eq!((timers.due(60), timers.next()), (None, None));
    }
}
