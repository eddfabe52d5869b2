//! The tables of the classifier: slots by key.

use weft_dpdk::{Full, Table};

use super::key::{Encoded, Kinds, Routes, encode};
use super::{Capacity, UserKey};

/// Slots by what packets are known by. Every worker has one, and so has the
/// agent, which asks it whether a key is free.
#[derive(Clone, Debug)]
pub struct Tables {
    /// IPv4 addresses, TEIDs, VLANs and ports.
    pub(super) narrow: Table<u64>,
    /// IPv6 addresses and prefixes, and routes.
    pub(super) ipv6: Table<[u64; 3]>,
    pub(super) flows: Table<[u64; 5]>,
    pub(super) kinds: Kinds,
    pub(super) routes: Routes,
}

impl Tables {
    /// Tables without keys.
    pub fn new(capacity: &Capacity) -> Tables {
        Tables {
            narrow: Table::with_capacity(capacity.narrow),
            ipv6: Table::with_capacity(capacity.ipv6),
            flows: Table::with_capacity(capacity.flows),
            kinds: Kinds::default(),
            routes: Routes::default(),
        }
    }

    /// Puts `slot` under `key`; returns the slot that was there.
    ///
    /// # Errors
    /// [`Full`], and nothing has changed.
    pub fn insert(&mut self, key: &UserKey, slot: u32) -> Result<Option<u32>, Full> {
        let old = match encode(key) {
            Encoded::Narrow(key) => self.narrow.insert(key, slot)?,
            Encoded::Ipv6(key) => self.ipv6.insert(key, slot)?,
            Encoded::Flow(key) => self.flows.insert(key, slot)?,
        };
        if old.is_none() {
            self.routes.add(key);
            if let Some(count) = self.kinds.of(key) {
                *count += 1;
            }
        }
        Ok(old)
    }

    /// Forgets `key`; returns the slot it had.
    pub fn remove(&mut self, key: &UserKey) -> Option<u32> {
        let old = match encode(key) {
            Encoded::Narrow(key) => self.narrow.remove(&key)?,
            Encoded::Ipv6(key) => self.ipv6.remove(&key)?,
            Encoded::Flow(key) => self.flows.remove(&key)?,
        };
        self.routes.remove(key);
        if let Some(count) = self.kinds.of(key) {
            *count -= 1;
        }
        Some(old)
    }

    /// Whether all of `keys` fit, if none of them is there yet.
    pub fn has_room_for<'k>(&self, keys: impl IntoIterator<Item = &'k UserKey>) -> bool {
        let (mut narrow, mut ipv6, mut flows) = (0, 0, 0);
        for key in keys {
            match key {
                UserKey::Ipv6 { .. } | UserKey::Route { .. } => ipv6 += 1,
                UserKey::Flow { .. } => flows += 1,
                _ => narrow += 1,
            }
        }
        self.narrow.len() + narrow <= self.narrow.capacity()
            && self.ipv6.len() + ipv6 <= self.ipv6.capacity()
            && self.flows.len() + flows <= self.flows.capacity()
    }

    /// Asks the processor for where `key` is, or would be, ahead of use.
    #[inline]
    pub fn prefetch(&self, key: &UserKey) {
        match encode(key) {
            Encoded::Narrow(key) => self.narrow.prefetch(&key),
            Encoded::Ipv6(key) => self.ipv6.prefetch(&key),
            Encoded::Flow(key) => self.flows.prefetch(&key),
        }
    }

    /// The slot under `key`.
    pub fn get(&self, key: &UserKey) -> Option<u32> {
        match encode(key) {
            Encoded::Narrow(key) => self.narrow.get(&key),
            Encoded::Ipv6(key) => self.ipv6.get(&key),
            Encoded::Flow(key) => self.flows.get(&key),
        }
    }
}
