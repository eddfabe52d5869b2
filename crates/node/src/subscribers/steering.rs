//! Which queue of a port the packets of the configuration's users should come to: the one
//! that their worker polls.

use weft_dataplane::classify::UserKey;
use weft_dpdk::{Steering, SteeringKey, SteeringRun};
use weft_function::Direction;
use weft_node_config::{Blueprint, PortPlan};

use super::Users;

/// Users that one worker may have beyond another, beside an eighth of all that it has room for.
const UNEVEN: usize = 64;

/// Whether a port has a queue for each of several workers: with fewer, no choice of a queue makes
/// all packets come to their worker.
pub(crate) fn has_queues_for_workers(workers: usize, port: &PortPlan) -> bool {
    workers > 1 && usize::from(port.queues) >= workers
}

/// What tells the kernel the queue of a packet; none where there are too few of them. Users that
/// are added later have the worker that their number says ([`Steering::worker_of`]).
pub(crate) fn queues_of_users(
    blueprint: &Blueprint,
    port: &PortPlan,
    users: &Users,
) -> Option<Steering> {
    let workers = blueprint.workers.count;
    if !has_queues_for_workers(workers, port) {
        return None;
    }
    let runs: Vec<_> = runs(port, workers, users).take(Steering::MOST_RUNS + 1).collect();
    if runs.len() > Steering::MOST_RUNS {
        tracing::warn!(
            port = port.name,
            "users lie too scattered to choose the queues of their packets; the kernel's hash does"
        );
        return None;
    }
    let first = queue_of(0, port, workers);
    let of_source = port.direction == Direction::Uplink;
    Some(Steering { queues: workers as u16, first, of_source, runs })
}

/// The users of the configuration whose packets come in at a port, in rows.
pub(crate) fn runs<'a>(
    port: &'a PortPlan,
    workers: usize,
    users: &'a Users,
) -> impl Iterator<Item = SteeringRun> + 'a {
    rows(users, workers).flat_map(move |row| {
        let (count, queue) = (row.count, queue_of(row.worker, port, workers));
        let keys = row.keys.into_iter();
        keys.filter_map(move |key| {
            let (key, first) = steering_key(&key, port, count)?;
            Some(SteeringRun { key, first, count, queue })
        })
    })
}

/// The queue of a port that a worker polls.
fn queue_of(worker: usize, port: &PortPlan, workers: usize) -> u16 {
    ((worker + workers - port.worker % workers) % workers) as u16
}

/// How packets that come in at a port show a key, and that of the first user.
fn steering_key(key: &UserKey, port: &PortPlan, count: u32) -> Option<(SteeringKey, u32)> {
    let is_uplink = port.direction == Direction::Uplink;
    let (key, first) = match *key {
        UserKey::Ipv4 { network, first } if network == port.network => {
            let key =
                if is_uplink { SteeringKey::SourceIpv4 } else { SteeringKey::DestinationIpv4 };
            (key, first.to_bits())
        }
        UserKey::Ipv6 { network, first, prefix_len: 64 } if network == port.network => {
            let (half, first) = ((first.to_bits() >> 96) as u32, (first.to_bits() >> 64) as u32);
            let key = match is_uplink {
                true => SteeringKey::SourceIpv6(half),
                false => SteeringKey::DestinationIpv6(half),
            };
            (key, first)
        }
        UserKey::Teid { network, first } if network == port.network => (SteeringKey::Teid, first),
        _ => return None,
    };
    // A row of users that goes beyond the last number is no run.
    first.checked_add(count - 1)?;
    Some((key, first))
}

/// Users of one entry whose workers follow each other.
struct Row {
    keys: Vec<UserKey>,
    count: u32,
    /// Of the first.
    worker: usize,
}

/// The users of the configuration as rows.
fn rows(users: &Users, workers: usize) -> impl Iterator<Item = Row> + '_ {
    let mut all = users.iter().peekable();
    std::iter::from_fn(move || {
        let (plan, first, slot) = all.next()?;
        let worker = users.worker_of(slot);
        let mut count = 1;
        let mut follows = |count: u32| {
            let next = all.next_if(|(next, nth, slot)| {
                std::ptr::eq(*next, plan)
                    && *nth == first + count
                    && users.worker_of(*slot) == (worker + count as usize) % workers
            });
            next.is_some()
        };
        while follows(count) {
            count += 1;
        }
        let keys = plan.keys.iter().map(|key| key.nth(first)).collect();
        Some(Row { keys, count, worker })
    })
}

impl Users {
    /// The worker that the number of one of the keys says: of an address, as a user's addresses
    /// stay and its TEIDs change, or else of a TEID.
    pub(super) fn worker_by(&self, keys: &[UserKey]) -> Option<usize> {
        let is_teid = |key: &&UserKey| matches!(key, UserKey::Teid { .. });
        let addresses = keys.iter().filter(|key| !is_teid(key));
        let number = addresses.chain(keys.iter().filter(is_teid)).find_map(UserKey::number)?;
        let workers = self.user_slots.workers();
        let worker = Steering::worker_of(number, workers);
        let most = (0..workers).map(|one| self.user_slots.free(one)).max()?;
        let free = self.user_slots.free(worker);
        (free > 0 && most - free <= UNEVEN + self.user_slots.capacity() / 8).then_some(worker)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use weft_function::PacketMetadata;
    use weft_functions::KINDS;
    use weft_node_config::read;

    use super::*;
    use crate::subscribers::Room;

    /// Two ports of a node of two workers, with so many queues; queue 0 of the second is
    /// worker 1's.
    fn blueprint(queues: u16) -> Blueprint {
        let text = format!(
            "apiVersion: weft/v1\nkind: Node\nmetadata: {{name: n}}\nworkers: {{count: 2}}\n\
             ports:\n  access: {{device: 'ring:a', direction: uplink, queues: {queues}}}\n  \
             core: {{device: 'ring:c', direction: downlink, queues: {queues}, worker: 1}}\n\
             users:\n  - {{name: u, count: 5, match: {{ipv4: 10.0.0.1, teid: 0x100, \
             ipv6: '2001:db8:0:7::/64'}}}}\n  - {{name: v, match: {{ipv4: 10.0.1.1}}}}\n\
             rules: |\n  from access -> core\n  from core -> access\n"
        );
        read(&text, "n.yaml", KINDS).unwrap_or_else(|mistakes| panic!("{mistakes}"))
    }

    #[test]
    fn users_are_steered_to_the_queue_that_their_worker_polls() {
        let blueprint = blueprint(2);
        let mut users = Users::new(Room::of(&blueprint.limits, 2, false), 2);
        let classes = vec![0; blueprint.users.len()];
        let profiles = vec![1; blueprint.bearer_profiles.len()];
        users.become_those_of(&blueprint, &[], &classes, &profiles).unwrap();
        let [access, core] = &blueprint.ports[..] else { panic!("two ports") };
        let up = queues_of_users(&blueprint, access, &users).unwrap();
        let down = queues_of_users(&blueprint, core, &users).unwrap();
        assert_eq!((up.queues, down.queues), (2, 2));
        for (steering, port, key) in
            [(&up, access, SteeringKey::SourceIpv4), (&down, core, SteeringKey::DestinationIpv4)]
        {
            for (plan, nth, slot) in users.iter() {
                let UserKey::Ipv4 { first, .. } = plan
                    .keys
                    .iter()
                    .map(|key| key.nth(nth))
                    .find(|key| matches!(key, UserKey::Ipv4 { .. }))
                    .unwrap()
                else {
                    unreachable!("as it was found");
                };
                let run = steering.runs.iter().find(|run| {
                    run.key == key && first.to_bits().wrapping_sub(run.first) < run.count
                });
                let run = run.unwrap_or_else(|| panic!("{first} is in no run"));
                let queue = usize::from(run.queue) + (first.to_bits() - run.first) as usize;
                assert_eq!((port.worker + queue) % 2, users.worker_of(slot), "{first}");
            }
        }
        let has = |key| up.runs.iter().any(|run| run.key == key && run.count == 5);
        assert!(has(SteeringKey::Teid) && has(SteeringKey::SourceIpv6(0x2001_0db8)), "{up:?}");
    }

    #[test]
    fn a_user_that_comes_has_the_worker_that_its_number_says() {
        let none = PacketMetadata::NONE;
        let mut users = Users::new(Room { users: 1000, bearers: 0, groups: 4 }, 4);
        let teid = |first| UserKey::Teid { network: 0, first };
        let ipv4 = |first| UserKey::Ipv4 { network: 0, first: Ipv4Addr::from_bits(first) };
        let prefix = |nth: u128| {
            let first = Ipv6Addr::from_bits(0x2001_0db8 << 96 | nth << 64);
            UserKey::Ipv6 { network: 0, first, prefix_len: 64 }
        };
        for (keys, worker) in [
            (vec![teid(5)], 1),
            (vec![teid(5), ipv4(0x0a00_0042)], 2),
            (vec![prefix(7), teid(5)], 3),
            (vec![ipv4(0x0a00_0040), prefix(7)], 0),
        ] {
            let slot = users.take(none, &keys).unwrap();
            assert_eq!(users.worker_of(slot), worker, "{keys:?}");
        }
        // Those of a group have the group's.
        let group = users.shift.slot(3, 0);
        let slot = users.take(group, &[teid(0)]).unwrap();
        assert_eq!(users.worker_of(slot), 3);
    }

    #[test]
    fn numbers_that_all_say_one_worker_do_not_fill_it() {
        let mut users = Users::new(Room { users: 1000, bearers: 0, groups: 1 }, 4);
        let mut count = [0_usize; 4];
        for nth in 0..2000 {
            let keys = [UserKey::Teid { network: 0, first: 64 * nth }];
            let slot = users.take(PacketMetadata::NONE, &keys).unwrap();
            count[users.worker_of(slot)] += 1;
            let (most, least) = (count.iter().max().unwrap(), count.iter().min().unwrap());
            assert!(most - least <= UNEVEN + 1000 / 8 + 2, "{count:?}");
        }
        assert!(count[0] > 500, "{count:?}");
        // Until there is room for no user at all.
        for nth in 2000..4000 {
            users
                .take(PacketMetadata::NONE, &[UserKey::Teid { network: 0, first: 64 * nth }])
                .unwrap();
        }
        assert!(users.take(PacketMetadata::NONE, &[]).is_err());
    }

    #[test]
    fn fewer_queues_than_workers_are_not_steered() {
        let blueprint = blueprint(1);
        let users = Users::new(Room::of(&blueprint.limits, 2, false), 2);
        assert_eq!(queues_of_users(&blueprint, &blueprint.ports[0], &users), None);
    }
}
