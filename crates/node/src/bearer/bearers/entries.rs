//! The bearers of a node, by their numbers.

use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::ops::Index;

use crate::bearer::entry::Entry;
use crate::bearer::{BearerId, Numbered};

/// Bearers by their numbers. They lie side by side, in no particular order: a table of numbers is
/// half empty, and must not be that of what is so much longer.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    places: Numbered<BearerId, u32>,
    all: Vec<(BearerId, Entry)>,
}

impl Entries {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// So many are about to come.
    pub fn reserve(&mut self, count: usize) {
        self.places.reserve(count);
        self.all.reserve(count);
    }

    /// Whether there is one of this number.
    pub fn contains_key(&self, id: &BearerId) -> bool {
        self.places.contains_key(id)
    }

    /// That of this number.
    pub fn get(&self, id: &BearerId) -> Option<&Entry> {
        Some(&self.all[*self.places.get(id)? as usize].1)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, id: &BearerId) -> Option<&mut Entry> {
        Some(&mut self.all[*self.places.get(id)? as usize].1)
    }

    /// Puts one in; what was there before under its number.
    pub fn insert(&mut self, id: BearerId, entry: Entry) -> Option<Entry> {
        match self.places.entry(id) {
            Occupied(place) => {
                Some(std::mem::replace(&mut self.all[*place.get() as usize].1, entry))
            }
            Vacant(place) => {
                // Slots are numbers of 32 bits, and each has one of its own.
                place.insert(self.all.len() as u32);
                self.all.push((id, entry));
                None
            }
        }
    }

    /// Takes one out.
    pub fn remove(&mut self, id: &BearerId) -> Option<Entry> {
        let place = self.places.remove(id)?;
        let (_, entry) = self.all.swap_remove(place as usize);
        if let Some((moved, _)) = self.all.get(place as usize) {
            self.places.insert(*moved, place);
        }
        Some(entry)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&BearerId, &Entry)> {
        self.all.iter().map(|(id, entry)| (id, entry))
    }

    /// Their numbers.
    pub fn keys(&self) -> impl Iterator<Item = &BearerId> {
        self.all.iter().map(|(id, _)| id)
    }

    /// What is known of them.
    pub fn values(&self) -> impl Iterator<Item = &Entry> {
        self.all.iter().map(|(_, entry)| entry)
    }

    /// The same, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.all.iter_mut().map(|(_, entry)| entry)
    }
}

impl Index<&BearerId> for Entries {
    type Output = Entry;

    fn index(&self, id: &BearerId) -> &Entry {
        &self.all[self.places[id] as usize].1
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use weft_dataplane::classify::UserRecord;

    use super::*;
    use crate::bearer::BearerRole;

    fn entry(slot: u32) -> Entry {
        let place =
            BearerRole::Default { like: "ue".into(), nth: 0, keys: Box::default(), user: None };
        Entry { slot, record: UserRecord::VACANT, place, settings: Box::default() }
    }

    proptest! {
        #[test]
        fn they_are_found_by_their_numbers(
            steps in prop::collection::vec((any::<bool>(), 0_u64..12, any::<u32>()), 0..60),
        ) {
            let (mut entries, mut model) = (Entries::default(), BTreeMap::new());
            for (comes, number, slot) in steps {
                let id = BearerId(number);
                let (was, expected) = match comes {
                    true => (entries.insert(id, entry(slot)), model.insert(id, slot)),
                    false => (entries.remove(&id), model.remove(&id)),
                };
                prop_assert_eq!(was.map(|entry| entry.slot), expected);
                prop_assert_eq!(entries.len(), model.len());
                prop_assert_eq!(entries.is_empty(), model.is_empty());
                for number in 0..12 {
                    let found = entries.get(&BearerId(number)).map(|entry| entry.slot);
                    prop_assert_eq!(found, model.get(&BearerId(number)).copied());
                    prop_assert_eq!(entries.contains_key(&BearerId(number)), found.is_some());
                }
                let all: BTreeMap<_, _> = entries.iter().map(|(id, one)| (*id, one.slot)).collect();
                prop_assert_eq!(&all, &model);
            }
        }
    }
}
