//! The lookup on the way of a packet: open addressing with linear probing.
//!
//! A table is at most half full and never grows, so a key is found in the first
//! cache line nearly always, and no packet ever waits for a table to be rebuilt.
//! [`Table::lookup_bulk`] asks for the lines of a whole burst before it looks at
//! the first of them: the misses of a burst overlap instead of adding up.

use std::hash::{BuildHasher, RandomState};

use crate::batch::Batch;
use crate::room::with_room;

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
        fold(self ^ seed)
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

#[derive(Clone, Copy)]
struct Entry<K> {
    key: K,
    /// [`Table::MISS`] marks the entry as empty, so that no key is special.
    value: u32,
}

impl<K: Key> Entry<K> {
    fn empty() -> Entry<K> {
        Entry { key: K::default(), value: Table::<K>::MISS }
    }
}

/// Finds a `u32` (a slot, say) by its key.
///
/// Its capacity is fixed when it is made, and so is its memory: at least two
/// and fewer than four entries per key, 16 bytes each for keys of 8.
#[derive(Clone)]
pub struct Table<K> {
    /// Twice the capacity, rounded up to a power of two.
    entries: Box<[Entry<K>]>,
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

    /// A table for up to `capacity` keys. Its memory is touched here, so that
    /// no lookup meets a page fault.
    pub fn with_capacity(capacity: usize) -> Table<K> {
        let size = (capacity.max(1) * 2).next_power_of_two();
        let mut entries = with_room(size);
        entries.resize(size, Entry::empty());
        Table {
            entries: entries.into_boxed_slice(),
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
    /// When `value` is [`Table::MISS`].
    pub fn insert(&mut self, key: K, value: u32) -> Result<Option<u32>, Full> {
        assert_ne!(value, Self::MISS, "the value that means a miss");
        let index = self.position(self.home(&key), &key);
        let entry = &mut self.entries[index];
        if entry.value != Self::MISS {
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
    pub fn remove(&mut self, key: &K) -> Option<u32> {
        let index = self.position(self.home(key), key);
        let value = self.entries[index].value;
        if value == Self::MISS {
            return None;
        }
        self.close_gap(index);
        self.length -= 1;
        Some(value)
    }

    /// The value of `key`.
    #[inline]
    pub fn get(&self, key: &K) -> Option<u32> {
        let value = self.entries[self.position(self.home(key), key)].value;
        (value != Self::MISS).then_some(value)
    }

    /// Asks the processor for where the search for `key` begins, ahead of use.
    #[inline(always)]
    pub fn prefetch(&self, key: &K) {
        prefetch(&self.entries, self.home(key));
    }

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

    /// All keys and their values, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (K, u32)> + '_ {
        let used = self.entries.iter().filter(|entry| entry.value != Self::MISS);
        used.map(|entry| (entry.key, entry.value))
    }

    /// Index at which the search for `key` begins.
    #[inline(always)]
    fn home(&self, key: &K) -> usize {
        (key.hash(self.seed) >> self.shift) as usize
    }

    #[inline(always)]
    fn next(&self, index: usize) -> usize {
        (index + 1) & (self.entries.len() - 1)
    }

    /// Index of `key`, or of the empty entry at which the search for it ends;
    /// there is one, as half of the entries are empty.
    #[inline(always)]
    fn position(&self, home: usize, key: &K) -> usize {
        let mut index = home;
        loop {
            let entry = &self.entries[index];
            if entry.key == *key || entry.value == Self::MISS {
                return index;
            }
            index = self.next(index);
        }
    }

    /// Empties the entry at `gap`, and moves back into it what would not be
    /// found behind it any more.
    fn close_gap(&mut self, mut gap: usize) {
        let mask = self.entries.len() - 1;
        let mut index = self.next(gap);
        while self.entries[index].value != Self::MISS {
            let home = self.home(&self.entries[index].key);
            let distance = index.wrapping_sub(home) & mask;
            if distance >= index.wrapping_sub(gap) & mask {
                self.entries[gap] = self.entries[index];
                gap = index;
            }
            index = self.next(index);
        }
        self.entries[gap] = Entry::empty();
    }
}

impl<K> std::fmt::Debug for Table<K> {
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
