//! Redirection tables of ports follow what comes: entries that lead to a queue with more packets than
//! others go to the one with the fewest. Ports with equal tables keep equal ones, so that both
//! directions of a flow go on to meet.
//!
//! Packets of a flow come to another queue then. So that none overtakes another, the worker that
//! gets more holds its queues of the port, the table is set, the worker that gets less carries all
//! that its queues have, every worker carries what has been handed to it, and only then the first
//! one goes on.

use std::collections::HashMap;

use weft_dataplane::command::{Command, Redirect};

use super::Ports;
use crate::workers::Workers;

/// How often loads are looked at, in nanoseconds.
const LOOK_EVERY: u64 = 10_000_000_000;
/// Looks at which a table stays whose change has not helped, or that its device has refused.
const RESTS: u32 = 60;
/// Beyond the mean, the queue with most must have one part in so many of it for a change.
const UNEVEN: u64 = 4;
/// Of the largest share, one part in so many must be gone behind a change for another one.
const HELPS: u64 = 16;
/// Packets of a queue between two looks below which there is nothing worth sharing.
const WORTH: u64 = 1_000;
/// How long a worker may hold a queue, in nanoseconds.
const HELD: u64 = 100_000_000;

/// Entries that go from the queue of one worker to that of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shift {
    from: usize,
    to: usize,
    entries: usize,
}

/// What should be changed of a table, where `queue_of` says the queue of each worker and `loads`
/// what has come to it. An entry is never moved for less than a clear gain, nor the last one.
fn shift(table: &[u16], queue_of: &[u16], loads: &[u64]) -> Option<Shift> {
    let workers = 0..loads.len();
    let from = workers.clone().max_by_key(|worker| loads[*worker])?;
    let to = workers.min_by_key(|worker| loads[*worker])?;
    let mean = loads.iter().sum::<u64>() / loads.len() as u64;
    if loads[from] < WORTH || loads[from] - mean <= mean / UNEVEN {
        return None;
    }
    let own = table.iter().filter(|queue| **queue == queue_of[from]).count();
    // Half of the difference, if entries are alike.
    let difference = u128::from(loads[from] - loads[to]);
    let entries = own as u128 * difference / (2 * u128::from(loads[from]));
    let entries = (entries as usize).min(own.saturating_sub(1));
    (entries > 0).then_some(Shift { from, to, entries })
}

/// The table behind a shift; every so many of the entries go, so that those beside each other are
/// not torn apart from the rest.
fn shifted(table: &[u16], queue_of: &[u16], Shift { from, to, entries }: Shift) -> Vec<u16> {
    let own = table.iter().filter(|queue| **queue == queue_of[from]).count();
    let mut seen = 0;
    let queue = |queue: &u16| {
        if *queue != queue_of[from] {
            return *queue;
        }
        seen += 1;
        // As many of the first `seen` go as there are whole parts.
        match seen * entries / own > (seen - 1) * entries / own {
            true => queue_of[to],
            false => *queue,
        }
    };
    table.iter().map(queue).collect()
}

/// What is known of the table of a port, and of those with equal ones behind it.
#[derive(Debug, Default)]
struct Known {
    /// The largest share of all packets, in thousandths, before the last change.
    before: Option<u64>,
    rests: u32,
}

/// Steps of a change, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Holding,
    Draining,
    TakingOver,
    Releasing,
}

/// A change that is under way.
#[derive(Debug)]
struct Change {
    /// The port at hand.
    port: usize,
    /// Those that follow.
    ports: Vec<usize>,
    shift: Shift,
    table: Vec<u16>,
    stage: Stage,
    /// Workers that have yet to do the step.
    left: usize,
    since: u64,
}

/// All tables.
#[derive(Debug, Default)]
pub(crate) struct Redirection {
    /// By port, and by worker: what had come at the last look.
    received: Vec<Vec<u64>>,
    last_look: u64,
    /// By port.
    known: HashMap<usize, Known>,
    change: Option<Change>,
    /// Of the last step.
    number: u64,
}

impl Redirection {
    /// Whether a table is being changed.
    pub fn is_under_way(&self) -> bool {
        self.change.is_some()
    }

    /// Looks whether workers have as much to do as others, and begins to change a table if not.
    pub fn look_after(&mut self, now: u64, ports: &Ports, workers: &mut Workers) {
        if let Some(change) = &self.change {
            // A worker that does not come to it: order counts for less than packets.
            if now.saturating_sub(change.since) > HELD && change.stage != Stage::Releasing {
                tracing::warn!(port = change.port, "a redirection table is changed in haste");
                self.release(workers);
            }
            return;
        }
        if workers.count() < 2 || now.wrapping_sub(self.last_look) < LOOK_EVERY {
            return;
        }
        let is_first = self.last_look == 0;
        self.last_look = now;
        let of_port = |port: usize| -> Vec<u64> {
            workers.iter().map(|link| link.counters.ports[port].received.packets.get()).collect()
        };
        let received: Vec<_> = (0..ports.count()).map(of_port).collect();
        let before = std::mem::replace(&mut self.received, received);
        if !is_first {
            let since = |(now, before): (&Vec<u64>, &Vec<u64>)| -> Vec<u64> {
                now.iter().zip(before).map(|(now, before)| now.wrapping_sub(*before)).collect()
            };
            let came: Vec<_> = self.received.iter().zip(&before).map(since).collect();
            self.begin(&came, now, ports, workers);
        }
    }

    /// Begins with the first table that should be another one; `came` has packets by port and
    /// worker.
    fn begin(&mut self, came: &[Vec<u64>], now: u64, ports: &Ports, workers: &mut Workers) {
        let table_of = |port: usize| ports.get(port).port_device().redirection();
        let mut seen = Vec::new();
        for number in 0..ports.count() {
            let Some((table, queue_of)) = table_of(number) else { continue };
            if seen.contains(&number) {
                continue;
            }
            let is_alike = |port: &usize| {
                table_of(*port).is_some_and(|other| other == (table, queue_of.clone()))
            };
            let alike: Vec<_> = (number..ports.count()).filter(is_alike).collect();
            seen.extend(&alike);
            let of_worker = |worker: usize| alike.iter().map(|port| came[*port][worker]).sum();
            let loads: Vec<u64> = (0..workers.count()).map(of_worker).collect();
            let largest = loads.iter().max().copied().unwrap_or(0);
            let share = largest * 1000 / loads.iter().sum::<u64>().max(1);
            let known = self.known.entry(number).or_default();
            known.rests = known.rests.saturating_sub(1);
            if known.before.take().is_some_and(|before| share > before - before / HELPS) {
                known.rests = RESTS;
            }
            let wanted = shift(table, &queue_of, &loads).filter(|_| known.rests == 0);
            let Some(shift) = wanted else { continue };
            known.before = Some(share);
            let table = shifted(table, &queue_of, shift);
            let (port, rest) = (number, alike.into_iter().rev().filter(|port| *port != number));
            let (ports, stage, since) = (rest.collect(), Stage::Holding, now);
            self.change = Some(Change { port, ports, shift, table, stage, left: 1, since });
            return self.hold(workers);
        }
    }

    /// Begins with the port at hand.
    fn hold(&mut self, workers: &mut Workers) {
        let Some(change) = &mut self.change else { return };
        self.number += 1;
        (change.stage, change.left) = (Stage::Holding, 1);
        let hold = Redirect::Hold { port: change.port as u16, number: self.number };
        workers[change.shift.to].send(Command::Redirect(hold));
    }

    /// A worker has done a step.
    pub fn note(&mut self, number: u64, now: u64, ports: &mut Ports, workers: &mut Workers) {
        let Some(change) = self.change.as_mut().filter(|_| number == self.number) else { return };
        change.left -= 1;
        if change.left > 0 {
            return;
        }
        self.number += 1;
        let (number, port) = (self.number, change.port);
        match change.stage {
            Stage::Holding => {
                if let Err(error) = ports.redirect(port, change.table.clone()) {
                    tracing::warn!(port = ports.get(port).name(), %error, "the redirection table stays");
                    change.ports.clear();
                    self.known.entry(port).or_default().rests = u32::MAX;
                    return self.release(workers);
                }
                (change.stage, change.left) = (Stage::Draining, 1);
                let drain = Redirect::Drain { port: port as u16, number };
                workers[change.shift.from].send(Command::Redirect(drain));
            }
            Stage::Draining => {
                (change.stage, change.left) = (Stage::TakingOver, workers.count());
                for link in workers.iter_mut() {
                    link.send(Command::Redirect(Redirect::TakeOver { number }));
                }
            }
            Stage::TakingOver => self.release(workers),
            Stage::Releasing => {
                let Shift { from, to, entries } = change.shift;
                let name = ports.get(port).name();
                tracing::info!(
                    port = name,
                    from,
                    to,
                    entries,
                    "entries of a redirection table have moved"
                );
                match change.ports.pop() {
                    Some(next) => {
                        (change.port, change.since) = (next, now);
                        self.hold(workers);
                    }
                    None => self.change = None,
                }
            }
        }
    }

    fn release(&mut self, workers: &mut Workers) {
        let Some(change) = &mut self.change else { return };
        self.number += 1;
        (change.stage, change.left) = (Stage::Releasing, 1);
        let release = Redirect::Release { number: self.number };
        workers[change.shift.to].send(Command::Redirect(release));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MANY: u64 = 1_000_000_000;

    #[test]
    fn even_loads_and_small_ones_change_nothing() {
        let table: Vec<u16> = (0..128).map(|entry| entry % 4).collect();
        for loads in [[5, 5, 5, 5], [5, 6, 5, 5], [0, 0, 0, 0]] {
            assert_eq!(shift(&table, &[0, 1, 2, 3], &loads.map(|load| load * MANY)), None);
        }
        assert_eq!(shift(&table, &[0, 1, 2, 3], &[WORTH - 1, 0, 0, 0]), None);
        // The last entry stays.
        assert_eq!(shift(&[0, 1, 1], &[0, 1], &[MANY, 0]), None);
    }

    #[test]
    fn half_of_the_difference_goes_to_the_worker_with_the_least() {
        let table: Vec<u16> = (0..128).map(|entry| entry % 4).collect();
        // Queue 0 is worker 1's.
        let queue_of = [3, 0, 1, 2];
        let wanted = shift(&table, &queue_of, &[MANY, 4 * MANY, MANY, 0]).unwrap();
        assert_eq!(wanted, Shift { from: 1, to: 3, entries: 16 });
        let after = shifted(&table, &queue_of, wanted);
        let count = |queue| after.iter().filter(|one| **one == queue).count();
        assert_eq!([count(0), count(1), count(2), count(3)], [16, 32, 48, 32]);
        let same = table.iter().zip(&after).filter(|(before, after)| before == after).count();
        assert_eq!(same, 128 - 16);
    }

    proptest! {
        #[test]
        fn changes_come_to_an_end_and_none_makes_the_largest_load_larger(
            weights in prop::collection::vec(1_u64..200, 128),
            count in 2_usize..8,
        ) {
            let queue_of: Vec<u16> = (0..count as u16).collect();
            let mut table: Vec<u16> = (0..128).map(|entry| entry % count as u16).collect();
            let loads = |table: &[u16]| {
                let sum = |queue: &u16| {
                    let own = table.iter().zip(&weights).filter(|(one, _)| *one == queue);
                    own.map(|(_, weight)| weight * MANY).sum::<u64>()
                };
                queue_of.iter().map(sum).collect::<Vec<_>>()
            };
            let mut changes = 0;
            let largest = |loads: &[u64]| loads.iter().max().copied().unwrap();
            let mut before = u64::MAX;
            while let Some(wanted) = shift(&table, &queue_of, &loads(&table)) {
                // What the agent does: a change that has not helped is the last one for long.
                let now = largest(&loads(&table));
                if now > before - before / HELPS {
                    break;
                }
                before = now;
                let next = shifted(&table, &queue_of, wanted);
                let moved = table.iter().zip(&next).filter(|(one, other)| one != other).count();
                prop_assert_eq!(moved, wanted.entries);
                prop_assert!(next.contains(&queue_of[wanted.from]));
                table = next;
                changes += 1;
                prop_assert!(changes <= 64);
            }
        }
    }
}
