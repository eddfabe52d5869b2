//! The lookup on the way of a packet: open addressing by cache lines.
//!
//! A table is at most half full and never grows, so a key is found in the first
//! cache line nearly always, and no packet ever waits for a table to be rebuilt. The
//! entries of a line are a group: a key is looked for in all of its group, and behind
//! it in the next one only where the group is full.
//! [`Table::lookup_bulk`] asks for the lines of a whole burst before it looks at
//! the first of them: the misses of a burst overlap instead of adding up.

use std::hash::{BuildHasher, RandomState};

use crate::buffer::Batch;
use crate::room::Lines;

/// Keys whose lines are asked for before the first of them is looked at.
const BURST: usize = Batch::CAPACITY;

/// What a [`Table`] finds by.
pub trait Key: Copy + Eq + Default {
    /// 64 bits that depend on every bit of the key and of `seed`. The highest
    /// bits choose the place in the table.
    fn hash(&self, seed: u64) -> u64;
}

/// The two halves of a 128-bit product, folded into one: every bit of `word`
/// reaches every part of the result.
#[inline(always)]
fn fold(word: u64) -> u64 {
    // 2⁶⁴ divided by the golden ratio, as in Fibonacci hashing.
    const MULTIPLIER: u128 = 0x9e37_79b9_7f4a_7c15;
    let product = u128::from(word) * MULTIPLIER;
    (product >> 64) as u64 ^ product as u64
}

impl Key for u64 {
    #[inline(always)]
    fn hash(&self, seed: u64) -> u64 {
        // Numbers in a row come to lie in a row. Those of two fields (addresses and their
        // ports, say) may heap up, up to 18 entries from their places on average; with
        // this shift 1.4 at worst, the least that was found.
        let word = self ^ seed;
        fold(word ^ (word >> 7))
    }
}

macro_rules! words {
    ($($count:literal)*) => {$(
        impl Key for [u64; $count] {
            #[inline(always)]
            fn hash(&self, seed: u64) -> u64 {
                self.iter().fold(seed, |hash, word| fold(hash ^ word))
            }
        }
    )*};
}
words!(2 3 5);

/// What a [`Table`] finds.
pub trait Value: Copy {
    /// What marks an entry as empty, so that no key is special.
    const MISS: Self;

    /// Whether it is [`Value::MISS`].
    fn is_miss(&self) -> bool;
}

impl Value for u32 {
    const MISS: u32 = u32::MAX;

    #[inline(always)]
    fn is_miss(&self) -> bool {
        *self == Self::MISS
    }
}

#[derive(Clone, Copy)]
struct Entry<K, V> {
    key: K,
    value: V,
}

impl<K: Key, V: Value> Entry<K, V> {
    fn empty() -> Entry<K, V> {
        Entry { key: K::default(), value: V::MISS }
    }
}

/// Finds a `u32` (a slot, say) by its key, or another small [`Value`].
///
/// Its capacity is fixed when it is made, and so is its memory: at least two
/// and fewer than four entries per key, 16 bytes each for keys of 8.
pub struct Table<K, V: Value = u32> {
    /// Twice the capacity, rounded up to a power of two.
    entries: Lines<Entry<K, V>>,
    /// Right shift that makes an index of a hash.
    shift: u32,
    seed: u64,
    capacity: usize,
    length: usize,
}

/// The table holds as many keys as it was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the table is full")]
pub struct Full;

impl<K: Key> Table<K> {
    /// What a lookup gives for a key that is not there; never a value.
    pub const MISS: u32 = u32::MAX;

    /// Looks up all of `keys` and writes their values, or [`Table::MISS`], to
    /// `values`, in order.
    ///
    /// # Panics
    /// When the slices differ in length.
    #[inline]
    pub fn lookup_bulk(&self, keys: &[K], values: &mut [u32]) {
        assert_eq!(keys.len(), values.len(), "one value for each key");
        for (keys, values) in keys.chunks(BURST).zip(values.chunks_mut(BURST)) {
            // The homes wait where the values will be.
            for (home, key) in values.iter_mut().zip(keys) {
                let index = self.home(key);
                *home = index as u32;
                prefetch(&self.entries, index);
            }
            for (value, key) in values.iter_mut().zip(keys) {
                *value = self.entries[self.position(*value as usize, key)].value;
            }
        }
    }
}

impl<K: Key, V: Value> Table<K, V> {
    /// Entries of a group: as many as a cache line holds, a power of two.
    const GROUP: usize = match 64 / size_of::<Entry<K, V>>() {
        0 | 1 => 1,
        2 | 3 => 2,
        _ => 4,
    };

    /// A table for up to `capacity` keys. Its memory is touched here, so that
    /// no lookup meets a page fault.
    pub fn with_capacity(capacity: usize) -> Table<K, V> {
        let size = (capacity.max(1) * 2).next_power_of_two().max(Self::GROUP);
        Table {
            entries: Lines::new(size, Entry::empty()),
            shift: u64::BITS - size.ilog2(),
            seed: RandomState::new().hash_one(size),
            capacity,
            length: 0,
        }
    }

    /// Keys in the table.
    #[expect(clippy::len_without_is_empty, reason = "an empty table is nothing special")]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Keys that fit.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Memory of the entries, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.entries)
    }

    /// Puts `value` under `key`; returns what was there before.
    ///
    /// # Errors
    /// [`Full`] when the key is new and there is no room for it.
    ///
    /// # Panics
    /// When `value` is [`Value::MISS`].
    pub fn insert(&mut self, key: K, value: V) -> Result<Option<V>, Full> {
        assert!(!value.is_miss(), "the value that means a miss");
        let index = self.position(self.home(&key), &key);
        let entry = &mut self.entries[index];
        if !entry.value.is_miss() {
            return Ok(Some(std::mem::replace(&mut entry.value, value)));
        }
        if self.length == self.capacity {
            return Err(Full);
        }
        *entry = Entry { key, value };
        self.length += 1;
        Ok(None)
    }

    /// Takes `key` out; returns the value it had.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let index = self.position(self.home(key), key);
        let value = self.entries[index].value;
        if value.is_miss() {
            return None;
        }
        self.close_gap(index);
        self.length -= 1;
        Some(value)
    }

    /// The value of `key`.
    #[inline]
    pub fn get(&self, key: &K) -> Option<V> {
        let value = self.entries[self.position(self.home(key), key)].value;
        (!value.is_miss()).then_some(value)
    }

    /// The value of `key`, to change it: not to [`Value::MISS`].
    #[inline]
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let index = self.position(self.home(key), key);
        let value = &mut self.entries[index].value;
        (!value.is_miss()).then_some(value)
    }

    /// Asks the processor for where the search for `key` begins, ahead of use.
    #[inline(always)]
    pub fn prefetch(&self, key: &K) {
        prefetch(&self.entries, self.home(key));
    }

    /// All keys and their values, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (K, V)> + '_ {
        let used = self.entries.iter().filter(|entry| !entry.value.is_miss());
        used.map(|entry| (entry.key, entry.value))
    }

    /// Index at which the search for `key` begins.
    #[inline(always)]
    fn home(&self, key: &K) -> usize {
        (key.hash(self.seed) >> self.shift) as usize
    }

    /// Index of `key`, or of an empty entry where it would be put; there is one, as
    /// half of the entries are empty.
    #[inline(always)]
    fn position(&self, home: usize, key: &K) -> usize {
        let mut home = home;
        loop {
            // From the home on, each in its group once.
            for step in 0..Self::GROUP {
                let entry = &self.entries[home ^ step];
                if entry.key == *key && !entry.value.is_miss() {
                    return home ^ step;
                }
            }
            for step in 0..Self::GROUP {
                if self.entries[home ^ step].value.is_miss() {
                    return home ^ step;
                }
            }
            home = self.next_group(home);
        }
    }

    #[inline(always)]
    fn next_group(&self, index: usize) -> usize {
        (index + Self::GROUP) & (self.entries.len() - 1)
    }

    /// Empties the entry at `gap`, and moves back into it what is behind its group only
    /// because the group was full.
    fn close_gap(&mut self, mut gap: usize) {
        let (mask, group_of) = (self.entries.len() - 1, |index| index & !(Self::GROUP - 1));
        let mut next = self.next_group(group_of(gap));
        self.entries[gap] = Entry::empty();
        while next != group_of(gap) {
            let distance = next.wrapping_sub(group_of(gap)) & mask;
            let is_behind = |entry: &Entry<K, V>| {
                let home = group_of(self.home(&entry.key));
                !entry.value.is_miss() && next.wrapping_sub(home) & mask >= distance
            };
            let group = &self.entries[next..next + Self::GROUP];
            let had_room = group.iter().any(|entry| entry.value.is_miss());
            if let Some(offset) = group.iter().position(is_behind) {
                self.entries[gap] = self.entries[next + offset];
                gap = next + offset;
                self.entries[gap] = Entry::empty();
            }
            if had_room {
                return;
            }
            next = self.next_group(next);
        }
    }
}

impl<K: Key, V: Value> Clone for Table<K, V> {
    fn clone(&self) -> Table<K, V> {
        Table { entries: self.entries.clone(), ..*self }
    }
}

impl<K, V: Value> std::fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table({} of {})", self.length, self.capacity)
    }
}

/// Asks the processor for element `index` of `slice` ahead of its use: its
/// first cache line. An index behind the end does nothing.
#[inline(always)]
pub fn prefetch<T>(slice: &[T], index: usize) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch reads nothing, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(slice.as_ptr().wrapping_add(index).cast()) };
}

/// Asks the processor for the cache line of the byte at `offset` in element
/// `index` of `slice` ahead of its use. One behind the end does nothing.
#[inline(always)]
pub fn prefetch_at<T>(slice: &[T], index: usize, offset: usize) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    let place = slice.as_ptr().wrapping_add(index).cast::<i8>().wrapping_add(offset);
    // SAFETY: a prefetch reads nothing, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(place) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which share of keys is not in the line where its search begins, at worst.
    fn share_behind(keys: impl ExactSizeIterator<Item = u64> + Clone) -> f64 {
        let shares = (1..=8).map(|seed| share_of_seed(keys.clone(), fold(seed)));
        shares.fold(0.0, f64::max)
    }

    fn share_of_seed(keys: impl ExactSizeIterator<Item = u64>, seed: u64) -> f64 {
        let count = keys.len();
        let mut table = Table::<u64>::with_capacity(count);
        table.seed = seed;
        for (value, key) in (0..).zip(keys) {
            table.insert(key, value).expect("room");
        }
        let is_behind = |key: &u64| {
            let home = table.home(key);
            table.position(home, key) / Table::<u64>::GROUP != home / Table::<u64>::GROUP
        };
        let behind = table.iter().filter(|(key, _)| is_behind(key)).count();
        behind as f64 / count as f64
    }

    /// 0.04 is what keys without any order come to in a table that is half full; 0.24 was
    /// the worst of these with 400 seeds.
    #[test]
    fn keys_of_several_fields_do_not_heap_up() {
        const COUNT: u64 = 1 << 18;
        for (low, shift) in
            [(2, 16), (64, 16), (100, 16), (512, 16), (512, 24), (2576, 16), (10_000, 20)]
        {
            let keys = (0..COUNT as u32).map(|number| {
                let number = u64::from(number);
                ((number / low) << shift) | (number % low)
            });
            let share = share_behind(keys);
            assert!(share < 0.25, "{low} at bit {shift}: {share}");
        }
        // Public address, port in blocks of 64, protocol.
        let ports = (0..COUNT as u32).map(|number| {
            let (block, port) = (u64::from(number / 64), u64::from(number % 64));
            (0xc000_0200 + block / 1008) << 32 | (1024 + block % 1008 * 64 + port) << 16 | 17
        });
        let share = share_behind(ports);
        assert!(share < 0.25, "ports: {share}");
    }
}
