//! The flows of all users: an arena of records of one size, made beforehand.
//!
//! A user's records hang in two lists, that of TCP and that of everything else
//! (RFC 2507 §5.1 has a space of context identifiers for each), newest first.
//! A record is found by its owner and a key, through buckets; who has no room
//! for another flow gives up the one that was not used for longest.

mod flow;

use std::collections::HashSet;

use weft_dpdk::{prefetch, prefetch_at, with_room};
use weft_function::{ContextError, Fields};
use weft_wire::iphc::ContextId;

use crate::common::first_fragments::{mix, random_seed};

pub use flow::{Flow, Repair, Space};

/// No record.
const NONE: u32 = u32::MAX;
/// Flows in a space that a user may have whatever there is room for.
const OWN: u32 = 16;
/// What is left of the arena, by this, are the flows beyond them that a user may have in a
/// space: one that opens flows without end leaves room for all others.
const SHARE: usize = 4;

/// Index of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index(u32);

/// One list of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct List {
    newest: u32,
    oldest: u32,
    count: u32,
}

impl Default for List {
    fn default() -> List {
        List { newest: NONE, oldest: NONE, count: 0 }
    }
}

/// What a user has in the arena. Given back by [`Flows::release`].
#[derive(Debug, Default)]
pub struct Holding {
    /// Whose records these are; 0 before the first.
    owner: u32,
    tcp: List,
    non_tcp: List,
}

impl Holding {
    fn list(&mut self, space: Space) -> &mut List {
        match space {
            Space::Tcp => &mut self.tcp,
            Space::NonTcp => &mut self.non_tcp,
        }
    }

    fn newest(&self, space: Space) -> u32 {
        match space {
            Space::Tcp => self.tcp.newest,
            Space::NonTcp => self.non_tcp.newest,
        }
    }

    /// Flows in both spaces.
    pub fn count(&self) -> u64 {
        u64::from(self.tcp.count) + u64::from(self.non_tcp.count)
    }
}

/// Flows of one user at most, in each space.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub tcp: u32,
    pub non_tcp: u32,
}

impl Limits {
    /// Those of one space.
    pub fn of(self, space: Space) -> u32 {
        match space {
            Space::Tcp => self.tcp,
            Space::NonTcp => self.non_tcp,
        }
    }
}

/// The arena.
#[derive(Debug)]
pub struct Flows {
    records: Vec<Flow>,
    buckets: Vec<u32>,
    free: u32,
    /// Records that are free.
    vacant: usize,
    /// The owner that was named last.
    named: u32,
    /// Of the buckets, unknown outside: else flows could be chosen that all share one.
    seed: u64,
}

impl Flows {
    /// An arena for so many flows.
    pub fn new(capacity: u32) -> Flows {
        let records = with_room(capacity as usize);
        let seed = random_seed();
        let mut flows =
            Flows { records, buckets: vec![NONE], free: NONE, vacant: 0, named: 0, seed };
        flows.grow(capacity);
        flows
    }

    /// Makes room for so many flows in all, if there is less.
    pub fn grow(&mut self, capacity: u32) {
        let first = self.records.len();
        let capacity = (capacity as usize).min(NONE as usize);
        if capacity <= first {
            return;
        }
        if capacity > self.records.capacity() {
            let former = std::mem::replace(&mut self.records, with_room(capacity));
            self.records.extend(former);
        }
        self.records.resize(capacity, Flow::VACANT);
        self.vacant += capacity - first;
        for index in (first..capacity).rev() {
            self.records[index].next = self.free;
            self.free = index as u32;
        }
        let buckets = capacity.next_power_of_two();
        self.buckets = with_room(buckets);
        self.buckets.resize(buckets, NONE);
        for index in 0..first as u32 {
            if self.records[index as usize].owner != 0 {
                self.enter(index);
            }
        }
    }

    #[inline]
    fn bucket(&self, owner: u32, key: u32) -> usize {
        let mixed = mix(self.seed, u64::from(owner) << 32 | u64::from(key));
        (mixed >> 32) as usize & (self.buckets.len() - 1)
    }

    /// The user's flow of that key, which becomes its newest.
    #[inline]
    pub fn find(&mut self, user: &mut Holding, space: Space, key: u32) -> Option<Index> {
        let newest = user.list(space).newest;
        let is_it =
            |flow: &Flow| flow.key == key && flow.owner == user.owner && flow.space == space;
        if self.records.get(newest as usize).is_some_and(is_it) {
            return Some(Index(newest));
        }
        let mut index = self.buckets[self.bucket(user.owner, key)];
        while let Some(flow) = self.records.get(index as usize) {
            if is_it(flow) {
                self.unlink(user, index);
                self.link(user, index);
                return Some(Index(index));
            }
            index = flow.next;
        }
        None
    }

    /// The user's newest flow in a space.
    #[inline]
    pub fn newest(&self, user: &Holding, space: Space) -> Option<(Index, &Flow)> {
        let index = user.newest(space);
        self.records.get(index as usize).map(|flow| (Index(index), flow))
    }

    /// Asks the processor for the newest flows of a user ahead of use. Headers
    /// with TCP reach into a second cache line.
    #[inline]
    pub fn prefetch(&self, user: &Holding) {
        let (tcp, non_tcp) = (user.tcp.newest, user.non_tcp.newest);
        if non_tcp != NONE {
            prefetch(&self.records, non_tcp as usize);
        }
        if tcp != NONE {
            prefetch(&self.records, tcp as usize);
            prefetch_at(&self.records, tcp as usize, 64);
        }
    }

    /// A record for a new flow of that key: a free one, whose context
    /// identifier is the next one of the space, or that of the user's flow in
    /// the space which was not used for longest. What the record held stays, to
    /// be looked at and overwritten. None when the user has no flow and the
    /// arena is full. `may_replace` looks at the flow that would be given up.
    pub fn claim(
        &mut self,
        user: &mut Holding,
        space: Space,
        key: u32,
        limits: Limits,
        may_replace: impl FnOnce(&Flow) -> bool,
    ) -> Option<Index> {
        let List { count, oldest, .. } = *user.list(space);
        let is_fair = count < OWN || count as usize <= self.vacant / SHARE;
        let index = match count < limits.of(space) && self.free != NONE && is_fair {
            true => self.take(user, space, count as u16),
            false => {
                let flow = self.records.get(oldest as usize)?;
                if !may_replace(flow) {
                    return None;
                }
                self.leave(oldest);
                self.unlink(user, oldest);
                oldest
            }
        };
        self.records[index as usize].key = key;
        self.enter(index);
        self.link(user, index);
        Some(Index(index))
    }

    /// Takes a free record, of which there is one.
    fn take(&mut self, user: &mut Holding, space: Space, id: u16) -> u32 {
        if user.owner == 0 {
            // Behind 2^32 users an owner is named twice; 0 stays the name of none.
            self.named = self.named.checked_add(1).unwrap_or(1);
            user.owner = self.named;
        }
        let index = self.free;
        let record = &mut self.records[index as usize];
        self.free = record.next;
        self.vacant -= 1;
        *record = Flow { space, owner: user.owner, id: ContextId(id), ..Flow::VACANT };
        index
    }

    /// Gives back all that a user has. It ends where it meets what is not the
    /// user's, since after a panic lists may be half changed.
    pub fn release(&mut self, user: &Holding) {
        for space in [Space::Tcp, Space::NonTcp] {
            let mut index = user.newest(space);
            while let Some(flow) = self.records.get_mut(index as usize) {
                if flow.owner != user.owner || flow.space != space || flow.owner == 0 {
                    break;
                }
                let older = flow.older;
                self.leave(index);
                self.vacate(index);
                index = older;
            }
        }
    }

    /// Makes a record that hangs in no list and no bucket a free one.
    fn vacate(&mut self, index: u32) {
        let record = &mut self.records[index as usize];
        (record.owner, record.next) = (0, self.free);
        self.free = index;
        self.vacant += 1;
    }

    /// A record.
    #[inline]
    pub fn get_mut(&mut self, index: Index) -> &mut Flow {
        &mut self.records[index.0 as usize]
    }

    /// Looks at all of a user's flows in a space, newest first.
    pub fn each(&mut self, user: &Holding, space: Space, mut look: impl FnMut(&mut Flow)) {
        let mut index = user.newest(space);
        while let Some(flow) = self.records.get_mut(index as usize) {
            look(flow);
            index = flow.older;
        }
    }

    /// Enters a record into its bucket.
    fn enter(&mut self, index: u32) {
        let Flow { owner, key, .. } = self.records[index as usize];
        let bucket = self.bucket(owner, key);
        self.records[index as usize].next = self.buckets[bucket];
        self.buckets[bucket] = index;
    }

    /// Takes a record out of its bucket.
    fn leave(&mut self, index: u32) {
        let Flow { owner, key, next, .. } = self.records[index as usize];
        let bucket = self.bucket(owner, key);
        let mut at = self.buckets[bucket];
        if at == index {
            self.buckets[bucket] = next;
            return;
        }
        while let Some(flow) = self.records.get_mut(at as usize) {
            at = flow.next;
            if at == index {
                flow.next = next;
                return;
            }
        }
    }

    /// Makes a record the newest of its list.
    fn link(&mut self, user: &mut Holding, index: u32) {
        let space = self.records[index as usize].space;
        let list = user.list(space);
        let before = list.newest;
        list.newest = index;
        list.count += 1;
        match self.records.get_mut(before as usize) {
            Some(flow) => flow.newer = index,
            None => list.oldest = index,
        }
        let record = &mut self.records[index as usize];
        (record.older, record.newer) = (before, NONE);
    }

    /// Takes a record out of its list.
    fn unlink(&mut self, user: &mut Holding, index: u32) {
        let Flow { older, newer, space, .. } = self.records[index as usize];
        let list = user.list(space);
        list.count -= 1;
        match self.records.get_mut(older as usize) {
            Some(flow) => flow.newer = newer,
            None => list.oldest = newer,
        }
        match self.records.get_mut(newer as usize) {
            Some(flow) => flow.older = older,
            None => list.newest = older,
        }
    }

    /// Writes a user's flows, oldest first; times less `offset`.
    pub fn export(&self, user: &Holding, offset: u64, out: &mut Vec<u8>) {
        for list in [user.tcp, user.non_tcp] {
            out.extend(list.count.to_le_bytes());
            let mut index = list.oldest;
            while let Some(flow) = self.records.get(index as usize) {
                flow.export(offset, out);
                index = flow.newer;
            }
        }
    }

    /// Reads what [`export`](Self::export) wrote, for [`keep`](Self::keep).
    /// Context identifiers are below `bound`, of a space and the number of its
    /// flows.
    ///
    /// # Errors
    /// [`ContextError::Damaged`].
    pub fn read(
        fields: &mut Fields<'_>,
        bound: impl Fn(Space, u32) -> u32,
    ) -> Result<Vec<Flow>, ContextError> {
        let mut read = Vec::new();
        for space in [Space::Tcp, Space::NonTcp] {
            let count = fields.u32()?;
            let mut ids = HashSet::new();
            for _ in 0..count {
                let flow = Flow::import(space, fields)?;
                if u32::from(flow.id.0) >= bound(space, count) || !ids.insert(flow.id) {
                    return Err(ContextError::Damaged);
                }
                read.push(flow);
            }
        }
        Ok(read)
    }

    /// Gives a new user these flows, oldest first in each space; none of them
    /// when the arena has no room for all.
    pub fn keep(&mut self, flows: Vec<Flow>) -> Holding {
        let mut user = Holding::default();
        if flows.len() > self.vacant {
            return user;
        }
        for flow in flows {
            let index = self.take(&mut user, flow.space, flow.id.0);
            let owner = user.owner;
            self.records[index as usize] = Flow { owner, ..flow };
            self.enter(index);
            self.link(&mut user, index);
        }
        user
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { tcp: 4, non_tcp: 4 };

    fn claim(flows: &mut Flows, user: &mut Holding, key: u32) -> Option<Index> {
        flows.claim(user, Space::NonTcp, key, LIMITS, |_| true)
    }

    #[test]
    fn what_a_user_had_is_there_for_the_next() {
        let mut flows = Flows::new(4);
        for _ in 0..3 {
            let mut user = Holding::default();
            for key in 0..4 {
                claim(&mut flows, &mut user, key).expect("there is room");
            }
            assert_eq!((user.count(), flows.vacant), (4, 0));
            assert!(flows.find(&mut user, Space::NonTcp, 2).is_some());
            flows.release(&user);
            assert_eq!(flows.vacant, 4);
            assert!(flows.find(&mut user, Space::NonTcp, 2).is_none());
        }
    }

    /// A user with a limit as large as the arena.
    #[test]
    fn a_user_leaves_room_in_the_arena_for_others() {
        let mut flows = Flows::new(1000);
        let limits = Limits { tcp: 1000, non_tcp: 1000 };
        let (mut hog, mut other) = (Holding::default(), Holding::default());
        for key in 0..5000 {
            assert!(flows.claim(&mut hog, Space::NonTcp, key, limits, |_| true).is_some());
        }
        assert!(hog.count() <= 1 + 1000 / 5, "{}", hog.count());
        for key in 0..100 {
            assert!(flows.claim(&mut other, Space::NonTcp, key, limits, |_| true).is_some());
        }
        assert_eq!(other.count(), 100);
    }

    /// After a panic a list may be a ring, or go on among what is free or another's.
    #[test]
    fn lists_that_are_half_changed_are_given_back_as_far_as_they_go() {
        for wrong in [0, 2, 3] {
            let mut flows = Flows::new(4);
            let (mut user, mut other) = (Holding::default(), Holding::default());
            for key in 0..3 {
                claim(&mut flows, &mut user, key).expect("there is room");
            }
            claim(&mut flows, &mut other, 9).expect("there is room");
            // The oldest of the user's is followed by one of its own, or the other's.
            flows.records[user.non_tcp.oldest as usize].older = wrong;
            flows.release(&user);
            assert_eq!(flows.vacant, 3, "{wrong}");
            assert!(flows.find(&mut other, Space::NonTcp, 9).is_some());
            flows.release(&user);
            assert_eq!(flows.vacant, 3, "nothing is given back twice");
        }
    }
}
