//! Which bearer or session sends into which tunnel: for Error Indications, and for the paths
//! that are watched.

use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::hint::black_box;

use arrayvec::ArrayVec;
use weft_function::TunnelEnd;

use super::Numbered;
use crate::gtpu_peers::Paths;

/// A tunnel: the number of its path, and its TEID at the peer.
type Key = (u32, u32);

/// Tunnels that are looked for at the same time.
const AT_ONCE: usize = 16;

/// Bearers or sessions, by the tunnels that they send into.
#[derive(Debug)]
pub(crate) struct Tunnels<I> {
    first: Numbered<Key, I>,
    /// Bearers that share a tunnel with the first, as the QoS flows of a PDU
    /// session do (TS 23.501 §5.7.1).
    more: Numbered<Key, Vec<I>>,
}

impl<I> Default for Tunnels<I> {
    fn default() -> Self {
        Tunnels { first: Numbered::default(), more: Numbered::default() }
    }
}

impl<I: Copy + PartialEq> Tunnels<I> {
    /// Those that send into a tunnel.
    pub fn of(&self, path: u32, teid: u32) -> Vec<I> {
        let key = (path, teid);
        let more = self.more.get(&key).into_iter().flatten();
        self.first.get(&key).into_iter().chain(more).copied().collect()
    }

    /// So many tunnels are about to come.
    pub fn make_room(&mut self, count: usize) {
        self.first.reserve(count);
    }

    /// Notes the tunnels of a bearer or session, and the paths that they are on.
    pub fn enter(
        &mut self,
        id: I,
        ends: impl IntoIterator<Item = TunnelEnd>,
        paths: &mut Paths,
        now: u64,
    ) {
        self.enter_all(ends.into_iter().map(|end| (id, end)), paths, now);
    }

    /// The same of several bearers or sessions. All are looked for before any is noted: lookups
    /// that do not depend on each other wait for memory at the same time.
    pub fn enter_all(
        &mut self,
        ends: impl Iterator<Item = (I, TunnelEnd)>,
        paths: &mut Paths,
        now: u64,
    ) {
        let key =
            |(id, end): (I, TunnelEnd)| ((paths.enter((end.local, end.peer), now), end.teid.0), id);
        let mut ends = ends.map(key);
        loop {
            let some: ArrayVec<(Key, I), AT_ONCE> = ends.by_ref().take(AT_ONCE).collect();
            if some.len() > 1 {
                for (key, _) in &some {
                    black_box(self.first.contains_key(key));
                }
            }
            for (key, id) in &some {
                match self.first.entry(*key) {
                    Vacant(first) => drop(first.insert(*id)),
                    Occupied(_) => self.more.entry(*key).or_default().push(*id),
                }
            }
            if some.len() < AT_ONCE {
                return;
            }
        }
    }

    /// Forgets them.
    pub fn leave(&mut self, id: I, ends: impl IntoIterator<Item = TunnelEnd>, paths: &mut Paths) {
        for end in ends {
            if let Some(path) = paths.leave((end.local, end.peer), 1) {
                self.forget((path, end.teid.0), id);
            }
        }
    }

    fn forget(&mut self, key: Key, id: I) {
        let is_first = self.first.get(&key) == Some(&id);
        let Some(more) = self.more.get_mut(&key) else {
            if is_first {
                self.first.remove(&key);
            }
            return;
        };
        if is_first {
            self.first.insert(key, more.swap_remove(0));
        } else if let Some(at) = more.iter().position(|one| *one == id) {
            more.swap_remove(at);
        }
        if more.is_empty() {
            self.more.remove(&key);
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Tunnels::default();
    }
}
