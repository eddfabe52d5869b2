//! Who is at which slot.

use crate::bearer::BearerId;
use crate::bearer::Subscribers;
use crate::subscribers::Whose;

/// A set of slots.
#[derive(Debug, Default)]
pub(super) struct Slots(Vec<u64>);

impl Slots {
    /// Puts a slot in; whether it was there.
    pub fn set(&mut self, slot: u32) -> bool {
        let (at, bit) = (slot as usize / 64, 1 << (slot % 64));
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        let was = self.0[at] & bit != 0;
        self.0[at] |= bit;
        was
    }

    pub fn has(&self, slot: u32) -> bool {
        self.0.get(slot as usize / 64).is_some_and(|word| word & (1 << (slot % 64)) != 0)
    }
}

/// Users by their slots. It is made for the first packet that waits: one by one they would be
/// looked for among all.
#[derive(Debug)]
pub(super) struct Places(Vec<Place>);

#[derive(Clone, Copy, Debug)]
enum Place {
    Vacant,
    /// A bearer that commands have added.
    Bearer(BearerId),
    /// A user of the configuration, by its position among the subjects of contexts.
    Configured(u32),
}

impl Places {
    pub fn of(subscribers: &Subscribers) -> Places {
        let mut places = Places(Vec::new());
        for (id, entry) in &subscribers.bearers.entries {
            places.put(entry.slot, Place::Bearer(*id));
        }
        for (at, slot) in subscribers.users.positions() {
            places.put(slot, Place::Configured(at));
        }
        places
    }

    fn put(&mut self, slot: u32, place: Place) {
        let slot = slot as usize;
        if self.0.len() <= slot {
            self.0.resize(slot + 1, Place::Vacant);
        }
        self.0[slot] = place;
    }

    /// Whose contexts the user at a slot waits for: its own, and those of its dedicated bearers.
    pub fn owners(&self, slot: u32, subscribers: &Subscribers) -> Vec<Whose> {
        let mut owners = Vec::new();
        if let Some(id) = subscribers.sessions.at(slot) {
            owners.push(Whose::Session(id));
        }
        match self.0.get(slot as usize) {
            Some(Place::Bearer(id)) => owners.push(Whose::Added(*id)),
            Some(Place::Configured(at)) => {
                if let Some((Whose::User(user), ..)) = subscribers.users.subject(*at as usize) {
                    let member = subscribers.users.member(&user);
                    let bearers = member.map(|member| member.bearers).unwrap_or_default();
                    owners.extend(
                        bearers
                            .into_iter()
                            .map(|bearer| Whose::Dedicated { user: user.clone(), bearer }),
                    );
                    owners.push(Whose::User(user));
                }
            }
            Some(Place::Vacant) | None => {}
        }
        let dedicated = subscribers.bearers.dedicated.get(&slot);
        owners.extend(dedicated.into_iter().flatten().copied().map(Whose::Added));
        owners
    }
}

#[cfg(test)]
mod tests {
    use super::Slots;

    #[test]
    fn a_slot_is_in_a_set_once_it_was_put_there() {
        let mut slots = Slots::default();
        assert!(!slots.has(0) && !slots.has(1000));
        assert!(!slots.set(64) && slots.set(64) && !slots.set(0));
        assert!(slots.has(64) && slots.has(0) && !slots.has(63) && !slots.has(65));
    }
}
