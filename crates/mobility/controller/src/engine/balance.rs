//! Users go from stations that carry much to those that carry little.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weft_mobility_protocol::NodeId;
use weft_site::balance::{self, Shift, Station};
use weft_site::history::Phase;

use super::Engine;
use super::events::Happening;
use super::orders::{Order, OrderError};

/// Looks in the time over which loads are smoothed.
const LOOKS: u32 = 10;
/// How much stations may differ that an operator has levelled.
const TOLERANCE: f64 = 0.02;

/// When it is looked at stations, and what was seen.
#[derive(Debug)]
pub struct Balance {
    began: Instant,
    next: Instant,
    seen: balance::Balance<NodeId>,
}

/// What stations are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = LoadMeasure)]
pub enum Measure {
    /// The share of their busiest cores that packets take.
    Busy,
    /// Packets a second, as a share of what they can carry.
    Packets,
    /// Users, for what they can carry. 1 is the mean of all stations.
    Users,
}

/// What an operator's order to level stations comes to.
#[derive(Clone, Debug)]
pub struct Levelling {
    /// What stations were compared by.
    pub measure: Measure,
    /// Each station before, and as it should be then.
    pub stations: Vec<[Station<NodeId>; 2]>,
    /// The orders for that; none if nothing was to be done.
    pub orders: Vec<Order>,
}

impl Balance {
    /// Nothing is known of any station.
    pub fn new(now: Instant) -> Balance {
        Balance { began: now, next: now, seen: balance::Balance::default() }
    }
}

impl Engine {
    /// When stations are looked at next; none where users stay where they are.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.desired.rebalance().map(|_| self.balance.next)
    }

    /// Looks at stations, and hands users over if that is to be.
    pub(super) fn rebalance(&mut self, now: Instant) {
        let Some(settings) = self.desired.rebalance() else { return };
        if now < self.balance.next {
            return;
        }
        self.balance.next = now + (settings.over / LOOKS).max(Duration::from_secs(1));
        // Users tell nothing of what they cost: where loads are not measured, they stay.
        let stations = match self.measured(now) {
            (Measure::Users, _) => Vec::new(),
            (_, stations) => stations,
        };
        let are_moving = self.orders.under_way() > 0
            || self.upgrading.is_busy()
            || matches!(self.desired.phase(), Phase::Rolling | Phase::RollingBack);
        let passed = now.saturating_duration_since(self.balance.began);
        let shifts = self.balance.seen.look(passed, &stations, &settings, are_moving);
        self.shift(&shifts);
    }

    /// Levels all stations that can take users, as far as moving users does that: by that
    /// measure, or by the first one that all of them say. A dry run moves none.
    ///
    /// # Errors
    /// [`OrderError::Few`] where there are no two stations, and [`OrderError::Unmeasured`].
    pub fn level(&mut self, by: Option<Measure>, is_dry: bool) -> Result<Levelling, OrderError> {
        let now = self.clock.now();
        let (measure, before) = match by {
            None => self.measured(now),
            Some(by) => {
                let stations = self.measured_by(by, &self.stations(), now);
                (by, stations.ok_or(OrderError::Unmeasured)?)
            }
        };
        if before.len() < 2 {
            return Err(OrderError::Few);
        }
        let mut after = before.clone();
        let shifts = balance::level(&mut after, TOLERANCE, 1.0, usize::MAX);
        let orders = if is_dry { Vec::new() } else { self.shift(&shifts) };
        let stations = before.into_iter().zip(after).map(|(before, after)| [before, after]);
        Ok(Levelling { measure, stations: stations.collect(), orders })
    }

    /// Stations that can take users, and what they carry, by what all of them say.
    fn measured(&self, now: Instant) -> (Measure, Vec<Station<NodeId>>) {
        let stations = self.stations();
        let by = |measure| Some((measure, self.measured_by(measure, &stations, now)?));
        let said = by(Measure::Busy).or_else(|| by(Measure::Packets));
        said.or_else(|| by(Measure::Users)).unwrap_or((Measure::Users, Vec::new()))
    }

    /// What stations with so many users carry by one measure; none if one does not say it.
    fn measured_by(
        &self,
        measure: Measure,
        stations: &BTreeMap<NodeId, usize>,
        now: Instant,
    ) -> Option<Vec<Station<NodeId>>> {
        let capacities = self.weights(stations);
        let users: usize = stations.values().sum();
        let capacity: u128 = capacities.values().map(|capacity| u128::from(*capacity)).sum();
        let mean = (users as f64 / capacity as f64).max(f64::MIN_POSITIVE);
        let each = stations.iter().map(|(node, users)| {
            let capacity = *capacities.get(node)? as f64;
            let said = || self.loads.of(*node, now);
            let load = match measure {
                Measure::Busy => said()?.busy?,
                Measure::Packets => {
                    let known = self.members.get(*node).map(|member| member.capacity);
                    said()?.rates?[0] / known.filter(|known| *known > 0)? as f64
                }
                Measure::Users => *users as f64 / capacity / mean,
            };
            Some(Station { key: *node, users: *users, load, capacity })
        });
        each.collect()
    }

    /// Hands users over; returns the orders.
    fn shift(&mut self, shifts: &[Shift<NodeId>]) -> Vec<Order> {
        let mut orders = Vec::new();
        for Shift { from, to, users } in shifts {
            let mut there = self.users_of(*from);
            let users = there.split_off(there.len().saturating_sub(*users));
            if users.is_empty() {
                continue;
            }
            let (from_name, to_name) = (self.name(*from), self.name(*to));
            tracing::info!(users = users.len(), from = from_name, to = to_name, "users are spread");
            let said = format!("{} from {from_name}", users.len());
            self.tell_event(Happening::spread(to_name, said));
            let number = self.open_order(*to, *from, &users);
            self.drive(|machine, out| machine.move_users(users, *to, out));
            orders.extend(self.order(number));
        }
        orders
    }
}
