//! A map that forgets: by time, and the oldest where there is no room.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// At most so many entries, each for so long behind the last time that it was put in.
#[derive(Debug)]
pub(super) struct Expiring<K, V> {
    entries: HashMap<K, (u64, V)>,
    order: VecDeque<(u64, K, u64)>,
    serial: u64,
    most: usize,
    keep: u64,
}

impl<K: Hash + Eq + Copy, V> Expiring<K, V> {
    /// At most `most`, each for `keep` ns.
    pub fn new(most: usize, keep: u64) -> Expiring<K, V> {
        Expiring { entries: HashMap::new(), order: VecDeque::new(), serial: 0, most, keep }
    }

    /// Puts one in; those that have to go for it.
    pub fn put(&mut self, key: K, value: V, now: u64) -> Vec<(K, V)> {
        self.serial += 1;
        self.entries.insert(key, (self.serial, value));
        self.order.push_back((now.saturating_add(self.keep), key, self.serial));
        let mut gone = Vec::new();
        while self.order.front().is_some_and(|(until, ..)| *until <= now)
            || self.entries.len() > self.most
            // One key again and again.
            || self.order.len() > 2 * self.most
        {
            gone.extend(self.forget_first());
        }
        gone
    }

    fn forget_first(&mut self) -> Option<(K, V)> {
        let (_, key, serial) = self.order.pop_front()?;
        self.entries.get(&key).filter(|(known, _)| *known == serial)?;
        self.entries.remove(&key).map(|(_, value)| (key, value))
    }

    /// The entry of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|(_, value)| value)
    }

    /// The entry of a key, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|(_, value)| value)
    }

    /// Whether there is one.
    pub fn contains(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    /// How many there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_bounded_in_number_and_time() {
        let mut expiring = Expiring::new(3, 10);
        for key in 0..1000_u32 {
            let gone = expiring.put(key, key, 0);
            assert_eq!(gone.len(), usize::from(key >= 3));
        }
        assert!(expiring.len() == 3 && expiring.order.len() == 3);
        assert_eq!(expiring.get(&999), Some(&999));
        assert!(!expiring.contains(&996));
        // What is put in again lasts from then on.
        expiring.put(999, 1, 5);
        expiring.put(1000, 0, 12);
        assert_eq!((expiring.get(&999), expiring.get(&998)), (Some(&1), None));
        // One key again and again takes no room.
        for now in 12..2000 {
            expiring.put(7, 0, now);
        }
        assert!(expiring.order.len() <= 6, "{}", expiring.order.len());
    }
}
