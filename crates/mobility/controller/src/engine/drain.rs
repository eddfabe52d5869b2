//! Nodes that take no further users, and nodes that are to have none.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use weft_mobility_protocol::{NodeId, User};

use super::Engine;
use super::orders::{Order, OrderError};
use crate::journal::Entry;

impl Engine {
    /// Whether a node takes no further users.
    pub fn is_cordoned(&self, node: NodeId) -> bool {
        self.cordoned.contains(&node)
    }

    /// A node takes no further users from now on, or does again. Those that it has stay.
    pub fn cordon(&mut self, node: NodeId, cordoned: bool) {
        let has_changed = match cordoned {
            true => self.cordoned.insert(node),
            false => self.cordoned.remove(&node),
        };
        if has_changed {
            self.unwritten.push(Entry::Cordoned(node, cordoned));
        }
    }

    /// Cordons a node and hands its users over, each to the station that has the fewest then.
    /// Returns an order for each of these.
    ///
    /// # Errors
    /// [`OrderError::Nowhere`]: then nothing has changed.
    pub fn drain(&mut self, node: NodeId) -> Result<Vec<Order>, OrderError> {
        let users = self.users_of(node);
        let mut stations = self.stations();
        stations.remove(&node);
        if stations.is_empty() && !users.is_empty() {
            return Err(OrderError::Nowhere);
        }
        self.cordon(node, true);
        let mut by_load: BinaryHeap<_> =
            stations.into_iter().map(|(station, users)| Reverse((users, station))).collect();
        let mut shares: BTreeMap<NodeId, Vec<User>> = BTreeMap::new();
        for user in users {
            let Some(Reverse((load, station))) = by_load.pop() else { break };
            shares.entry(station).or_default().push(user);
            by_load.push(Reverse((load + 1, station)));
        }
        let mut orders = Vec::new();
        for (to, users) in shares {
            let number = self.open_order(to, node, &users);
            self.drive(|machine, out| machine.move_users(users, to, out));
            orders.extend(self.order(number));
        }
        Ok(orders)
    }

    /// Nodes that can take users, and how many they have: connected, not cordoned, and no
    /// user's anchor.
    pub(super) fn stations(&self) -> BTreeMap<NodeId, usize> {
        let mut anchors = BTreeSet::new();
        let mut counts: BTreeMap<NodeId, usize> = BTreeMap::new();
        for (_, record, _) in self.machine.users_from(User(0)) {
            anchors.insert(record.anchor);
            let leg = super::view::target(&record).or(record.owner);
            *counts.entry(leg.map(|leg| leg.node).unwrap_or_default()).or_default() += 1;
        }
        let nodes = self.members.all().into_iter().map(|member| member.number);
        let fit = nodes.filter(|node| {
            self.machine.incarnation(*node).is_some()
                && self.transport.is_connected(*node)
                && !anchors.contains(node)
                && !self.is_cordoned(*node)
                && self.successor(*node).is_none()
        });
        fit.map(|node| (node, counts.get(&node).copied().unwrap_or_default())).collect()
    }
}
