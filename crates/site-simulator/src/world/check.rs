//! What is promised is looked at, all the while and at the end.

use weft_mobility_controller::engine::UserView;
use weft_mobility_protocol::{NodeId, User};

use super::documents::Said;
use super::node::Node;
use super::replica::LOG;
use super::{Promise, World};

/// Octets of etcd for a user, and without users: of records, keys, and the log.
const OCTETS: usize = 512;
const OCTETS_AT_LEAST: usize = 64 << 10;
/// Keys beside the log and groups of users.
const KEYS: usize = 64;
/// Keys of orders, which are remembered.
const KEYS_OF_ORDERS: usize = 64;
/// Transactions for each order, death and answer, and for each second.
const TRANSACTIONS: u64 = 24;
const TRANSACTIONS_A_SECOND: u64 = 12;

impl World {
    /// Whose packets of a user the anchor takes: one owner at most.
    pub(super) fn look_at_owner(&mut self, user: User) {
        let posture = self.postures.get(&user);
        let taken = |epoch: u64| {
            posture.is_some_and(|posture| {
                posture.accept.is_some_and(|accept| accept.0 == epoch)
                    || posture.next.is_some_and(|(next, _)| next.0 == epoch)
            })
        };
        let time = self.time();
        let owners: Vec<(u32, u64)> = self
            .nodes
            .iter()
            .filter(|(_, node)| node.owns(user))
            .filter_map(|(number, node)| Some((number.0, *node.epochs.get(&user)?)))
            .filter(|(_, epoch)| taken(*epoch))
            .collect();
        if let Err(what) = self.history.owned(user.0, &owners, time) {
            self.violated(Promise::OneOwner, what);
        }
    }

    /// What the leader says of its users, after the last fault.
    pub(super) fn settled(&mut self, users: &[UserView], open: usize, said: &Said) {
        let placed = self.why_unwell(users, open).or_else(|| self.why_unpaired());
        let placed = placed.map(|why| (Promise::Placed, why));
        self.unwell = match placed.or_else(|| self.why_undone(said)) {
            Some(why) => why,
            None => {
                let took = self.time() - self.calm.unwrap_or_default();
                self.statistics.longest = took;
                self.is_well = true;
                return;
            }
        };
    }

    fn why_unwell(&self, users: &[UserView], open: usize) -> Option<String> {
        let (all, count) = (self.scenario.users, users.len());
        if count as u64 != all {
            return Some(format!("{count} users of {all}"));
        }
        if open > 0 {
            return Some(format!("{open} orders and upgrades are open"));
        }
        let stale = users.iter().find_map(|view| {
            let owns = |(number, node): (&NodeId, &Node)| {
                (node.owns(view.user) && view.owner != Some(*number)).then_some(*number)
            };
            Some((view.user, self.nodes.iter().find_map(owns)?))
        });
        if let Some((user, node)) = stale {
            return Some(format!("{node} takes itself for the owner of {user}"));
        }
        users.iter().find_map(|view| {
            let UserView { user, owner, epoch, state, .. } = view;
            let is = self.history.owner(user.0).map(|(node, epoch)| (NodeId(node), epoch));
            let said = owner.map(|owner| (owner, *epoch));
            (*state != "Settled" || is != said || said.is_none())
                .then(|| format!("{user} is {state} at {said:?}, and owned by {is:?}"))
        })
    }

    /// etcd has as many keys, octets and transactions as it may have.
    pub(super) fn check_bounds(&mut self) {
        let (keys, octets) = self.model.size();
        let users = self.scenario.users as usize;
        let most_keys = KEYS + KEYS_OF_ORDERS + 2 * LOG.1 + users / 256;
        if keys > most_keys {
            self.violated(
                Promise::Bounded,
                format!("etcd has {keys} keys, and {most_keys} at most"),
            );
        }
        let most = OCTETS_AT_LEAST + 4 * LOG.0 + OCTETS * users;
        if octets > most {
            self.violated(
                Promise::Bounded,
                format!("etcd has {octets} octets, and {most} at most"),
            );
        }
        let events = self.orders
            + self.statistics.deaths.iter().sum::<u64>()
            + self.statistics.leaders
            + self.statistics.cuts
            + self.scenario.users;
        let most =
            TRANSACTIONS * events + TRANSACTIONS_A_SECOND * (1 + self.time() / super::SECOND);
        let count = self.model.cost().transactions;
        if count > most {
            let what = format!("etcd has had {count} transactions, and {most} at most");
            self.violated(Promise::Bounded, what);
        }
    }

    /// At the end: histories are looked at, and what it has cost is noted.
    pub(super) fn conclude(&mut self) {
        if let Err(what) = std::mem::take(&mut self.history).conclude() {
            self.violated(Promise::Linearizable, what);
        }
        let cost = self.model.cost();
        (self.statistics.transactions, self.statistics.octets) = (cost.transactions, cost.octets);
    }
}
