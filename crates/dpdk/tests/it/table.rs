//! The lookup table against the standard library's map.

use std::collections::HashMap;

use proptest::prelude::*;
use weft_dpdk::{Full, Key, Table};

/// A key whose hash an adversary chose: few bits of it differ, so that many
/// keys want the same place, the last one of the table among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Crowded(u8);

impl Key for Crowded {
    fn hash(&self, _: u64) -> u64 {
        match self.0 % 3 {
            0 => 0,
            1 => u64::MAX,
            _ => 0xfc << 56,
        }
    }
}

#[derive(Clone, Debug)]
enum Step<K> {
    Insert(K, u32),
    Remove(K),
}

fn steps<K: Clone + std::fmt::Debug + 'static>(
    key: impl Strategy<Value = K> + Clone + 'static,
) -> impl Strategy<Value = Vec<Step<K>>> {
    let insert = (key.clone(), 0..u32::MAX).prop_map(|(key, value)| Step::Insert(key, value));
    let remove = key.prop_map(Step::Remove);
    prop::collection::vec(prop_oneof![3 => insert, 2 => remove], 0..400)
}

/// Plays `steps` on a table and on a map; after every step both say the same.
fn agrees<K: Key + std::hash::Hash>(capacity: usize, steps: Vec<Step<K>>, asked: &[K]) {
    let mut table = Table::with_capacity(capacity);
    let mut model = HashMap::new();
    for step in steps {
        match step {
            Step::Insert(key, _) if model.len() == capacity && !model.contains_key(&key) => {
                assert_eq!(table.insert(key, 1), Err(Full));
            }
            Step::Insert(key, value) => {
                assert_eq!(table.insert(key, value), Ok(model.insert(key, value)));
            }
            Step::Remove(key) => assert_eq!(table.remove(&key), model.remove(&key)),
        }
        assert_eq!(table.len(), model.len());
        let mut values = vec![0; asked.len()];
        table.lookup_bulk(asked, &mut values);
        for (key, value) in asked.iter().zip(values) {
            let expected = model.get(key).copied();
            assert_eq!(value, expected.unwrap_or(Table::<K>::MISS));
            assert_eq!(table.get(key), expected);
        }
    }
    assert!(table.iter().all(|(key, value)| model.remove(&key) == Some(value)));
    assert!(model.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn words_agree_with_a_map(capacity in 0usize..100, steps in steps(0u64..128)) {
        agrees(capacity, steps, &Vec::from_iter(0..128));
    }

    #[test]
    fn keys_that_crowd_agree_with_a_map(
        capacity in 0usize..64,
        steps in steps((0u8..64).prop_map(Crowded)),
    ) {
        agrees(capacity, steps, &Vec::from_iter((0..64).map(Crowded)));
    }

    #[test]
    fn arrays_agree_with_a_map(
        pairs in steps(prop::array::uniform2(0u64..8)),
        triples in steps(prop::array::uniform3(0u64..4)),
        tuples in steps(prop::array::uniform5(0u64..3)),
    ) {
        agrees(32, pairs, &[[0, 0], [0, 1], [1, 0], [7, 7]]);
        agrees(32, triples, &[[0, 0, 0], [0, 0, 1], [1, 0, 0], [3, 3, 3]]);
        agrees(32, tuples, &[[0; 5], [0, 0, 0, 0, 1], [1, 0, 0, 0, 0], [2; 5]]);
    }
}

#[test]
fn a_full_table_holds_every_key_and_takes_no_other() {
    const USERS: u32 = 100_000;
    let mut table = Table::with_capacity(USERS as usize);
    for slot in 0..USERS {
        assert_eq!(table.insert(u64::from(slot) << 8, slot), Ok(None));
    }
    assert_eq!(table.insert(1, 0), Err(Full));
    assert_eq!(table.insert(0, 7), Ok(Some(0)), "a key that is there can change its value");
    assert_eq!(table.insert(0, 0), Ok(Some(7)));
    let keys: Vec<u64> = (0..2 * USERS).map(|slot| u64::from(slot) << 8).collect();
    let mut values = vec![0; keys.len()];
    table.lookup_bulk(&keys, &mut values);
    for (slot, value) in (0..).zip(values) {
        assert_eq!(value, if slot < USERS { slot } else { Table::<u64>::MISS });
    }
    assert!(table.memory_bytes() <= 4 * 16 * USERS as usize);
}

#[test]
fn no_key_is_special() {
    for key in [0, 1, u64::MAX] {
        let mut table = Table::with_capacity(4);
        assert_eq!(table.get(&key), None);
        assert_eq!(table.insert(key, 5), Ok(None));
        assert_eq!(table.get(&key), Some(5));
        assert_eq!(table.remove(&key), Some(5));
        assert_eq!(table.remove(&key), None);
    }
}
