//! The naive way of composing by rules: one lookup per hop, behind an exact-match cache.
//!
//! This is how Pinczel et al. §IV.A make the rules of a forwarding element fast. It stays
//! here as the baseline that compiled programs are compared with.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;

use crate::language::field::{Facts, Field, FieldValue};
use crate::language::vocabulary::{Place, TAG_SLOTS};
use crate::rule_set::{Hop, RuleSet};

/// A rule set behind a cache of the hops that packets took before.
///
/// The key is the place, all tags, and the header fields that some rule reads. A lookup that
/// finds its hop in the cache allocates nothing.
#[derive(Debug)]
pub struct CachedRules {
    rules: Arc<RuleSet>,
    fields: Vec<Field>,
    hops: HashMap<Key, Hop, Seed>,
    capacity: usize,
    counts: CacheCounts,
}

/// What happened in a cache since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheCounts {
    /// Lookups answered by the cache.
    pub hits: u64,
    /// Lookups for which the rules were searched.
    pub misses: u64,
    /// Times that the cache was full and was emptied.
    pub overflows: u64,
}

impl CachedRules {
    /// A cache of at most `capacity` hops (at least one) in front of `rules`.
    pub fn new(rules: Arc<RuleSet>, capacity: usize) -> Self {
        let capacity = capacity.max(1);
        let hops = HashMap::with_capacity_and_hasher(capacity, Seed::random());
        Self { fields: rules.fields(), rules, hops, capacity, counts: CacheCounts::default() }
    }

    /// The hop that a packet takes from a place, the same as [`RuleSet::next`] gives.
    pub fn next(&mut self, place: Place, facts: &impl Facts) -> Hop {
        let key = Key::of(place, facts, &self.fields);
        if let Some(&hop) = self.hops.get(&key) {
            self.counts.hits += 1;
            return hop;
        }
        self.counts.misses += 1;
        if self.hops.len() >= self.capacity {
            self.counts.overflows += 1;
            self.hops.clear();
        }
        let hop = self.rules.next(place, facts);
        self.hops.insert(key, hop);
        hop
    }

    /// The rules behind the cache.
    pub fn rules(&self) -> &Arc<RuleSet> {
        &self.rules
    }

    /// Hits, misses and overflows so far.
    pub fn counts(&self) -> CacheCounts {
        self.counts
    }
}

/// Place, tags, six numbers of one word and two addresses of five.
const KEY_WORDS: usize = 1 + TAG_SLOTS + 6 + 2 * 5;

/// Marks a field that the packet does not have; no number of a field is so large.
const ABSENT: u32 = u32::MAX;

/// All that the rules may read, as words, of which the first `length` are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Key {
    words: [u32; KEY_WORDS],
    length: usize,
}

impl Key {
    #[inline]
    fn of(place: Place, facts: &impl Facts, fields: &[Field]) -> Self {
        let mut key = Self { words: [0; KEY_WORDS], length: 0 };
        key.push(match place {
            Place::Port(port) => u32::from(port.0),
            Place::Function(function) => 1 << 16 | u32::from(function.0),
        });
        for slot in 0..TAG_SLOTS {
            key.push(facts.tag(slot as u8));
        }
        for &field in fields {
            match facts.field(field) {
                None => key.push(ABSENT),
                Some(FieldValue::Number(number)) => key.push(number),
                Some(FieldValue::V4(address)) => {
                    key.push(4);
                    key.push(address.to_bits());
                }
                Some(FieldValue::V6(address)) => {
                    key.push(6);
                    for word in address.octets().chunks_exact(4) {
                        key.push(u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
                    }
                }
            }
        }
        key
    }

    #[inline]
    fn push(&mut self, word: u32) {
        self.words[self.length] = word;
        self.length += 1;
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for &word in &self.words[..self.length] {
            state.write_u32(word);
        }
    }
}

/// A hash of a few multiplications, seeded so that traffic cannot be made to collide.
#[derive(Clone, Copy, Debug)]
struct Seed(u64);

impl Seed {
    fn random() -> Self {
        Self(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for Seed {
    type Hasher = Mix;

    fn build_hasher(&self) -> Mix {
        Mix(self.0)
    }
}

struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(u32::from(byte)));
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        // The 128-bit product folded in half: every bit of the word reaches every bit.
        let product = u128::from(self.0 ^ u64::from(word)) * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::vocabulary::{PortIndex, TagKind, TagSpec, Vocabulary};

    /// A packet with one tag and some fields.
    struct Packet(u32, Vec<(Field, FieldValue)>);

    impl Facts for Packet {
        fn tag(&self, slot: u8) -> u32 {
            if slot == 0 { self.0 } else { 0 }
        }

        fn field(&self, field: Field) -> Option<FieldValue> {
            self.1.iter().find(|(name, _)| *name == field).map(|(_, value)| *value)
        }
    }

    fn tagged(tag: u32) -> Packet {
        Packet(tag, Vec::new())
    }

    fn in_vlan(vlan: u32) -> Packet {
        Packet(1, vec![(Field::Vlan, FieldValue::Number(vlan))])
    }

    const ENTRY: Place = Place::Port(PortIndex(0));

    fn cached(text: &str, capacity: usize) -> CachedRules {
        let tag = TagSpec { name: "t".to_owned(), kind: TagKind::Number };
        let vocabulary = Vocabulary::new(vec!["p".to_owned()], vec![], vec![tag]).unwrap();
        CachedRules::new(Arc::new(RuleSet::parse(text, &vocabulary).unwrap()), capacity)
    }

    #[test]
    fn hits_and_misses_are_counted() {
        let mut cached = cached("from p when vlan == 1 -> p", 8);
        for packet in [in_vlan(1), tagged(1), in_vlan(1), tagged(1), in_vlan(2)] {
            assert_eq!(cached.next(ENTRY, &packet), cached.rules().next(ENTRY, &packet));
        }
        assert_eq!(cached.counts(), CacheCounts { hits: 2, misses: 3, overflows: 0 });
    }

    #[test]
    fn fields_that_no_rule_reads_make_no_difference() {
        let mut cached = cached("from p when t == 1 -> p", 8);
        for vlan in 0..100 {
            cached.next(ENTRY, &in_vlan(vlan));
        }
        assert_eq!(cached.counts(), CacheCounts { hits: 99, misses: 1, overflows: 0 });
    }

    #[test]
    fn a_full_cache_is_emptied_and_grows_no_further() {
        let mut cached = cached("from p when t == 1 -> p", 4);
        let room = cached.hops.capacity();
        for tag in 0..10 {
            cached.next(ENTRY, &tagged(tag));
        }
        assert_eq!(cached.counts(), CacheCounts { hits: 0, misses: 10, overflows: 2 });
        assert_eq!((cached.hops.len(), cached.hops.capacity()), (2, room));
    }

    /// Two pairs of addresses that are made of the same words when the families are left out.
    #[test]
    fn addresses_of_both_families_are_told_apart() {
        let v6 = |words: [u32; 4]| {
            let bits = words.iter().fold(0, |bits, &word| bits << 32 | u128::from(word));
            FieldValue::V6(bits.into())
        };
        let v4 = |word: u32| FieldValue::V4(word.into());
        let pair = |source, destination| {
            Packet(0, vec![(Field::Source, source), (Field::Destination, destination)])
        };
        let text = "from p when source in ::/0 && destination in 0.0.0.0/0 -> p";
        for family in [4, 6] {
            let mut cached = cached(text, 8);
            let packets = [pair(v4(1), v6([2, 3, family, 4])), pair(v6([1, family, 2, 3]), v4(4))];
            for packet in packets {
                assert_eq!(cached.next(ENTRY, &packet), cached.rules().next(ENTRY, &packet));
            }
        }
    }

    #[test]
    fn hashes_of_neighbours_differ_in_the_bits_that_tables_use() {
        let seed = Seed(1);
        let hashes = (0..1000u32).map(|word| seed.hash_one(word));
        let low: std::collections::HashSet<u64> =
            hashes.clone().map(|hash| hash % 65_536).collect();
        let high: std::collections::HashSet<u64> = hashes.map(|hash| hash >> 57).collect();
        assert!(low.len() > 950 && high.len() > 100, "{} {}", low.len(), high.len());
    }
}
