//! Nodes that take no further users, and nodes that are to have none.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use weft_mobility_protocol::{NodeId, User};

use super::Engine;
use super::orders::{Order, OrderError};
use crate::journal::{Cordon, Entry};

/// Users for each packet a second are compared in so many parts.
const SCALE: u128 = 1 << 40;

impl Engine {
    /// Whether a node takes no further users.
    pub fn is_cordoned(&self, node: NodeId) -> bool {
        self.cordoned.contains_key(&node)
    }

    /// A node takes no further users from now on, or does again. Those that it has stay.
    pub fn cordon(&mut self, node: NodeId, cordoned: bool) {
        self.set_cordon(node, if cordoned { Cordon::Stays } else { Cordon::Lifted });
    }

    fn set_cordon(&mut self, node: NodeId, cordon: Cordon) {
        let before = match cordon {
            Cordon::Lifted => self.cordoned.remove(&node),
            cordon => self.cordoned.insert(node, cordon),
        };
        if before.unwrap_or(Cordon::Lifted) != cordon {
            self.press(Entry::Cordoned(node, cordon));
        }
    }

    /// A node has said hello. If it was cordoned until it starts again, and has, it takes users.
    pub(super) fn lift_cordon_of_restarted(&mut self, node: NodeId) {
        let Some(&Cordon::UntilRestart(before)) = self.cordoned.get(&node) else { return };
        if self.machine.incarnation(node).is_some_and(|now| now > before) {
            self.set_cordon(node, Cordon::Lifted);
        }
    }

    /// Cordons a node and hands its users over, each to the station that has the fewest then for
    /// what it can carry. Returns an order for each of these. With `until_restart`, a node that
    /// was not cordoned before takes users again once it has started anew.
    ///
    /// # Errors
    /// [`OrderError::Nowhere`]: then nothing has changed.
    pub fn drain(&mut self, node: NodeId, until_restart: bool) -> Result<Vec<Order>, OrderError> {
        let users = self.users_of(node);
        let mut stations = self.stations();
        stations.remove(&node);
        if stations.is_empty() && !users.is_empty() {
            return Err(OrderError::Nowhere);
        }
        let cordon = match self.machine.incarnation(node).filter(|_| until_restart) {
            Some(incarnation) => Cordon::UntilRestart(incarnation),
            None => Cordon::Stays,
        };
        // Who cordoned it on purpose decides when it takes users again.
        if !until_restart || self.cordoned.get(&node) != Some(&Cordon::Stays) {
            self.set_cordon(node, cordon);
        }
        let shares = share_out(users, &stations, &self.weights(&stations));
        let mut orders = Vec::new();
        for (to, users) in shares {
            let number = self.open_order(to, node, &users);
            self.drive(|machine, out| machine.move_users(users, to, out));
            orders.extend(self.order(number));
        }
        Ok(orders)
    }

    /// What stations can carry, as they say; the same of each if one of them does not say it.
    pub(super) fn weights(&self, stations: &BTreeMap<NodeId, usize>) -> BTreeMap<NodeId, u64> {
        let capacity = |node: &NodeId| self.members.get(*node).map_or(0, |member| member.capacity);
        let all: BTreeMap<_, _> =
            stations.keys().map(|station| (*station, capacity(station))).collect();
        match all.values().any(|capacity| *capacity == 0) {
            true => all.into_keys().map(|station| (station, 1)).collect(),
            false => all,
        }
    }

    /// The station that has the fewest users for what it can carry.
    pub(super) fn emptiest(&self, stations: &BTreeMap<NodeId, usize>) -> Option<NodeId> {
        let weights = self.weights(stations);
        let full = stations.iter().map(|(node, users)| (fullness(&weights, *node, *users), *node));
        full.min().map(|(_, station)| station)
    }

    /// Where a new user with that anchor is placed: at the station that has the fewest users for
    /// what it can carry.
    pub fn place_for(&self, anchor: NodeId) -> Option<NodeId> {
        let mut stations = self.stations();
        stations.remove(&anchor);
        self.emptiest(&stations)
    }

    /// Nodes that can take users, and how many they have: connected, not cordoned, and no
    /// user's anchor.
    pub(super) fn stations(&self) -> BTreeMap<NodeId, usize> {
        let nodes = self.members.all().into_iter().map(|member| member.number);
        let fit = nodes.filter(|node| {
            self.machine.incarnation(*node).is_some()
                && self.transport.is_connected(*node)
                && !self.machine.is_anchor(*node)
                && !self.is_cordoned(*node)
                && self.successor(*node).is_none()
        });
        fit.map(|node| (node, self.machine.staying(node))).collect()
    }
}

/// How full a station would be with one more user.
fn fullness(weights: &BTreeMap<NodeId, u64>, station: NodeId, users: usize) -> u128 {
    let weight = weights.get(&station).copied().unwrap_or(1);
    (users as u128 + 1) * SCALE / u128::from(weight)
}

/// Each user goes to the station that is emptiest then.
fn share_out(
    users: Vec<User>,
    stations: &BTreeMap<NodeId, usize>,
    weights: &BTreeMap<NodeId, u64>,
) -> BTreeMap<NodeId, Vec<User>> {
    let full = |station, users| Reverse((fullness(weights, station, users), station, users));
    let mut by_load: BinaryHeap<_> =
        stations.iter().map(|(station, users)| full(*station, *users)).collect();
    let mut shares: BTreeMap<NodeId, Vec<User>> = BTreeMap::new();
    for user in users {
        let Some(Reverse((_, station, users))) = by_load.pop() else { break };
        shares.entry(station).or_default().push(user);
        by_load.push(full(station, users + 1));
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(stations: [(u32, usize); 3], weights: [u64; 3], users: u64) -> Vec<usize> {
        let weights =
            stations.iter().zip(weights).map(|((node, _), weight)| (NodeId(*node), weight));
        let stations: BTreeMap<_, _> =
            stations.iter().map(|(node, users)| (NodeId(*node), *users)).collect();
        let shares = share_out((1..=users).map(User).collect(), &stations, &weights.collect());
        stations.keys().map(|node| shares.get(node).map_or(0, Vec::len)).collect()
    }

    #[test]
    fn users_go_where_there_is_room_for_them() {
        let empty = [(1, 0), (2, 0), (3, 0)];
        assert_eq!(shares(empty, [1, 1, 1], 9), [3, 3, 3]);
        assert_eq!(shares(empty, [1_000_000, 2_000_000, 3_000_000], 600), [100, 200, 300]);
        assert_eq!(shares([(1, 50), (2, 0), (3, 20)], [1, 1, 1], 30), [0, 25, 5]);
        assert_eq!(shares(empty, [1, u64::MAX, 1], 7), [0, 7, 0]);
    }
}
