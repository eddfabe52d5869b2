//! Longest prefix match by a root table and strides of eight bits (Gupta, Lin and
//! McKeown: *Routing Lookups in Hardware at Memory Access Speeds*, DIR-24-8).
//!
//! One thread writes while any number read, without locks: an entry is one word,
//! and a reader that went through a group looks again whether the group was still
//! entered where it came from. Groups that were taken out rest until the next
//! round of changes before they are used for something else.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use weft_dpdk::{prefetch, with_room};

/// The entry names a group of 256 entries for the next eight bits.
const EXTENDED: u32 = 1 << 31;
/// The length of the prefix that an entry is of stands above its value.
const DEPTH_SHIFT: u32 = 23;
/// The highest value that a prefix can have.
pub const MAX_VALUE: u32 = (1 << DEPTH_SHIFT) - 1;
/// Entries of a group.
const GROUP: usize = 256;
/// Chunks of groups at most.
const CHUNKS: usize = 4096;
/// Prefixes from which on a table has the larger root.
const MANY: usize = 4096;

/// An address as a number, most significant bit first: `u32` or `u128`.
pub trait Bits: Copy + Eq + std::hash::Hash {
    /// How many bits it has.
    const LENGTH: u8;
    /// The first `count` bits, 1 to 24, as a number.
    fn first(self, count: u8) -> usize;
    /// The eight bits behind the first `from`.
    fn octet(self, from: u8) -> usize;
    /// The address with all bits behind the first `length` cleared.
    fn masked(self, length: u8) -> Self;
}

macro_rules! bits {
    ($type:ty) => {
        impl Bits for $type {
            const LENGTH: u8 = <$type>::BITS as u8;

            #[inline(always)]
            fn first(self, count: u8) -> usize {
                (self >> (Self::LENGTH - count)) as usize
            }

            #[inline(always)]
            fn octet(self, from: u8) -> usize {
                (self >> (Self::LENGTH - 8 - from)) as usize & 0xff
            }

            fn masked(self, length: u8) -> Self {
                let free = u32::from(Self::LENGTH - length);
                self & <$type>::MAX.checked_shl(free).unwrap_or(0)
            }
        }
    };
}
bits!(u32);
bits!(u128);

/// What the root of a table says of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beginning(pub u32);

impl Beginning {
    /// The value of the longest prefix; none where it stands behind the root.
    #[inline(always)]
    pub fn value(self) -> Option<u32> {
        (self.0 & EXTENDED == 0).then_some(self.0 & MAX_VALUE)
    }
}

/// What readers share with the writer.
#[derive(Debug)]
pub struct Table {
    /// Bits that the root is indexed by.
    root_bits: u8,
    root: Box<[AtomicU32]>,
    /// Groups of entries, in chunks that come as they are needed.
    chunks: Box<[OnceLock<Box<[AtomicU32]>>]>,
    /// How many groups a chunk has, as a power of two.
    chunk_shift: u32,
}

impl Table {
    /// A table for about so many prefixes; there may be more.
    pub fn new(prefixes: usize) -> Table {
        let (root_bits, chunk_shift) = if prefixes < MANY { (16, 5) } else { (24, 12) };
        let chunks = (0..CHUNKS).map(|_| OnceLock::new()).collect();
        Table { root_bits, root: entries(1 << root_bits), chunks, chunk_shift }
    }

    /// The value of the longest prefix of `address`; 0 without any.
    #[inline(always)]
    pub fn lookup<B: Bits>(&self, address: B) -> u32 {
        let entry = self.root[address.first(self.root_bits)].load(Acquire);
        Beginning(entry).value().unwrap_or_else(|| self.descend(address))
    }

    #[inline]
    fn descend<B: Bits>(&self, address: B) -> u32 {
        let (mut slot, mut from) = (&self.root[address.first(self.root_bits)], self.root_bits);
        let mut entry = slot.load(Acquire);
        while entry & EXTENDED != 0 && from < B::LENGTH {
            let Some(next) = self.entry(entry, address.octet(from)) else { return 0 };
            let value = next.load(Acquire);
            if slot.load(Acquire) != entry {
                // The group was taken out meanwhile.
                (slot, from) = (&self.root[address.first(self.root_bits)], self.root_bits);
                entry = slot.load(Acquire);
                continue;
            }
            (slot, entry, from) = (next, value, from + 8);
        }
        entry & MAX_VALUE
    }

    /// Asks the processor for the root's entry ahead of use.
    #[inline(always)]
    pub fn ask<B: Bits>(&self, address: B) {
        prefetch(&self.root, address.first(self.root_bits));
    }

    /// What the root says of the address; the processor is asked for what is behind it.
    #[inline(always)]
    pub fn begin<B: Bits>(&self, address: B) -> Beginning {
        let entry = self.root[address.first(self.root_bits)].load(Acquire);
        if entry & EXTENDED != 0
            && let Some((chunk, index)) = self.place(entry, address.octet(self.root_bits))
        {
            prefetch(chunk, index);
        }
        Beginning(entry)
    }

    /// Where an entry of the group that `entry` names lies.
    #[inline(always)]
    fn place(&self, entry: u32, octet: usize) -> Option<(&[AtomicU32], usize)> {
        let group = (entry & !EXTENDED) as usize;
        let chunk = self.chunks.get(group >> self.chunk_shift)?.get()?;
        Some((chunk, (group & ((1 << self.chunk_shift) - 1)) * GROUP + octet))
    }

    #[inline(always)]
    fn entry(&self, entry: u32, octet: usize) -> Option<&AtomicU32> {
        let (chunk, index) = self.place(entry, octet)?;
        chunk.get(index)
    }

    /// Memory of the entries, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let chunks = self.chunks.iter().filter_map(OnceLock::get);
        size_of_val(&*self.root) + chunks.map(|chunk| size_of_val(&**chunk)).sum::<usize>()
    }
}

fn entries(count: usize) -> Box<[AtomicU32]> {
    let mut entries = with_room(count);
    entries.resize_with(count, AtomicU32::default);
    entries.into_boxed_slice()
}

/// The table has no memory for another group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the table has no room for more prefixes of this length")]
pub struct Full;

/// What the one who writes a table knows beyond it.
#[derive(Debug, Default)]
pub struct Writer {
    free: Vec<u32>,
    /// Groups that were taken out, which a reader may just be looking at.
    resting: Vec<u32>,
    /// Groups that there are.
    groups: u32,
}

/// Bits of a prefix's own, and which entries it takes.
struct Stroke {
    length: u8,
    leaf: u32,
    /// Whether it takes the place of shorter prefixes, or only of its own.
    over_shorter: bool,
}

impl Stroke {
    fn takes(&self, entry: u32) -> bool {
        let depth = (entry >> DEPTH_SHIFT) as u8;
        if self.over_shorter { depth <= self.length } else { depth == self.length }
    }
}

impl Writer {
    /// A round of changes begins: what was taken out in the round before can be used.
    pub fn begin(&mut self) {
        self.free.append(&mut self.resting);
    }

    /// Enters a prefix, or gives one that is there another value, up to
    /// [`MAX_VALUE`].
    ///
    /// # Errors
    /// [`Full`]; nothing has changed then.
    pub fn insert<B: Bits>(
        &mut self,
        table: &Table,
        prefix: B,
        length: u8,
        value: u32,
    ) -> Result<(), Full> {
        let leaf = u32::from(length) << DEPTH_SHIFT | value & MAX_VALUE;
        self.paint(table, prefix, &Stroke { length, leaf, over_shorter: true })
    }

    /// Takes a prefix out. Its addresses get what the next shorter prefix there is
    /// says: its length and its value, 0 and 0 without any.
    pub fn remove<B: Bits>(
        &mut self,
        table: &Table,
        prefix: B,
        length: u8,
        (shorter, value): (u8, u32),
    ) {
        let leaf = u32::from(shorter) << DEPTH_SHIFT | value & MAX_VALUE;
        // The groups of a prefix that is there are there.
        let _ = self.paint(table, prefix, &Stroke { length, leaf, over_shorter: false });
        self.collapse(table, prefix, length);
    }

    fn paint<B: Bits>(&mut self, table: &Table, prefix: B, stroke: &Stroke) -> Result<(), Full> {
        let (mut from, mut slot) = (table.root_bits, &table.root[prefix.first(table.root_bits)]);
        if stroke.length <= from {
            let first = prefix.masked(stroke.length).first(from);
            let count = 1 << (from - stroke.length);
            table.root[first..first + count].iter().for_each(|slot| fill(table, slot, stroke));
            return Ok(());
        }
        loop {
            let group = self.extend(table, slot)?;
            if stroke.length <= from + 8 {
                let first = prefix.masked(stroke.length).octet(from);
                let count = 1 << (from + 8 - stroke.length);
                let octets = first..first + count;
                octets.filter_map(|octet| table.entry(group, octet)).for_each(|slot| {
                    fill(table, slot, stroke);
                });
                return Ok(());
            }
            slot = table.entry(group, prefix.octet(from)).ok_or(Full)?;
            from += 8;
        }
    }

    /// The group at a slot, which gets one if it has none.
    fn extend(&mut self, table: &Table, slot: &AtomicU32) -> Result<u32, Full> {
        let entry = slot.load(Relaxed);
        if entry & EXTENDED != 0 {
            return Ok(entry);
        }
        let group = EXTENDED | self.take(table)?;
        let octets = (0..GROUP).filter_map(|octet| table.entry(group, octet));
        octets.for_each(|inside| inside.store(entry, Relaxed));
        slot.store(group, Release);
        Ok(group)
    }

    fn take(&mut self, table: &Table) -> Result<u32, Full> {
        if let Some(group) = self.free.pop() {
            return Ok(group);
        }
        let chunk = table.chunks.get((self.groups >> table.chunk_shift) as usize).ok_or(Full)?;
        chunk.get_or_init(|| entries(GROUP << table.chunk_shift));
        self.groups += 1;
        Ok(self.groups - 1)
    }

    /// Takes out the groups on the way to a prefix that say no more than their slot
    /// could.
    fn collapse<B: Bits>(&mut self, table: &Table, prefix: B, length: u8) {
        let mut way = Vec::new();
        let (mut from, mut slot) = (table.root_bits, &table.root[prefix.first(table.root_bits)]);
        while slot.load(Relaxed) & EXTENDED != 0 && from < length {
            way.push((slot, from));
            let Some(next) = table.entry(slot.load(Relaxed), prefix.octet(from)) else { return };
            (slot, from) = (next, from + 8);
        }
        for (slot, from) in way.into_iter().rev() {
            let group = slot.load(Relaxed);
            let mut inside = (0..GROUP).filter_map(|octet| table.entry(group, octet));
            let Some(first) = inside.next().map(|entry| entry.load(Relaxed)) else { return };
            let is_longer = first & EXTENDED != 0 || (first >> DEPTH_SHIFT) as u8 > from;
            if is_longer || inside.any(|entry| entry.load(Relaxed) != first) {
                return;
            }
            slot.store(first, Release);
            self.resting.push(group & !EXTENDED);
        }
    }
}

/// Gives a slot, or all behind it, a new leaf where the stroke takes it.
fn fill(table: &Table, slot: &AtomicU32, stroke: &Stroke) {
    let entry = slot.load(Relaxed);
    if entry & EXTENDED != 0 {
        let inside = (0..GROUP).filter_map(|octet| table.entry(entry, octet));
        inside.for_each(|slot| fill(table, slot, stroke));
    } else if stroke.takes(entry) {
        slot.store(stroke.leaf, Release);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::atomic::AtomicBool;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// The plainest table there can be.
    #[derive(Default)]
    struct Plain<B>(HashMap<(B, u8), u32>);

    impl<B: Bits> Plain<B> {
        fn longest(&self, address: B, below: u8) -> (u8, u32) {
            let value = |length| self.0.get(&(address.masked(length), length));
            (0..below).rev().find_map(|length| Some((length, *value(length)?))).unwrap_or_default()
        }
    }

    /// Changes of prefixes that lie in each other often: address, length, and a
    /// value, or none to take it out.
    fn changes() -> impl Strategy<Value = Vec<(u32, u8, Option<u32>)>> {
        let near = prop_oneof![any::<u32>(), (0_u32..4, 0_u32..2).prop_map(|(a, b)| a << 30 | b)];
        vec((near, 0_u8..=32, prop::option::weighted(0.7, 1..MAX_VALUE)), 1..40)
    }

    fn check<B: Bits + std::fmt::Debug>(
        prefixes: usize,
        changes: &[(B, u8, Option<u32>)],
        addresses: &[B],
    ) -> Result<(), TestCaseError> {
        let (table, mut writer, mut plain) =
            (Table::new(prefixes), Writer::default(), Plain::<B>(HashMap::new()));
        for (round, &(address, length, value)) in changes.iter().enumerate() {
            if round % 8 == 0 {
                writer.begin();
            }
            let prefix = address.masked(length);
            match value {
                Some(value) => {
                    writer.insert(&table, prefix, length, value).expect("there is room");
                    plain.0.insert((prefix, length), value);
                }
                None if plain.0.remove(&(prefix, length)).is_some() => {
                    let shorter = plain.longest(prefix, length);
                    writer.remove(&table, prefix, length, shorter);
                }
                None => {}
            }
            let ends = changes.iter().map(|(address, ..)| *address);
            for address in addresses.iter().copied().chain(ends) {
                let expected = plain.longest(address, B::LENGTH + 1).1;
                prop_assert_eq!(table.lookup(address), expected, "{:?}", address);
            }
        }
        // A table that is empty again has all its groups back.
        while let Some(&(prefix, length)) = plain.0.keys().next() {
            plain.0.remove(&(prefix, length));
            let shorter = plain.longest(prefix, length);
            writer.remove(&table, prefix, length, shorter);
        }
        prop_assert_eq!(writer.free.len() + writer.resting.len(), writer.groups as usize);
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn ipv4_prefixes_are_found(changes in changes(), more in vec(any::<u32>(), 8)) {
            check(0, &changes, &more)?;
        }

        #[test]
        fn ipv6_prefixes_are_found(changes in changes(), more in vec(any::<u128>(), 8)) {
            let wide = |address: u32| u128::from(address) << 96 | u128::from(address & 7);
            let longer = |length: u8| if length.is_multiple_of(3) { length * 4 } else { length };
            let changes: Vec<_> = changes
                .iter()
                .map(|&(address, length, value)| (wide(address), longer(length), value))
                .collect();
            check(0, &changes, &more)?;
        }
    }

    /// Takes out what is entered in another order than it came.
    #[test]
    fn the_larger_root_does_the_same() {
        let changes: Vec<_> = (0..300_u32)
            .map(|n| (0x0a00_0000 | n.wrapping_mul(0x9e37_79b9) >> 8, 8 + (n % 25) as u8, n))
            .map(|(address, length, n)| (address, length, (n % 5 != 0).then_some(n + 1)))
            .collect();
        check(MANY, &changes, &[0, 0x0a00_0001, u32::MAX]).expect("as the plain table says");
    }

    /// A reader finds, while prefixes come and go, one of the values that the
    /// address had, never another's.
    #[test]
    fn readers_never_see_another_prefix_s_value() {
        let (table, done) = (Table::new(0), AtomicBool::new(false));
        let (a, b) = (0x0a00_0001_u32, 0x0b00_0001_u32);
        std::thread::scope(|scope| {
            for (address, own) in [(a, 0xa00..0xb00), (b, 0xb00..0xc00)] {
                let (table, done) = (&table, &done);
                scope.spawn(move || {
                    while !done.load(Relaxed) {
                        let value = table.lookup(address);
                        assert!(value == 0 || own.contains(&value), "{value:#x}");
                    }
                });
            }
            let mut writer = Writer::default();
            // All in one round: what is taken out rests.
            for round in 0..20_000 {
                let (address, value) = if round % 2 == 0 { (a, 0xa00) } else { (b, 0xb00) };
                let _ = writer.insert(&table, address, 32, value + round % 256);
                writer.remove(&table, address, 32, (0, 0));
            }
            done.store(true, Relaxed);
        });
    }
}
