//! Which queue of a port the packets of the configuration's users should come to: the one
//! that their worker polls.

use weft_dataplane::classify::UserKey;
use weft_dpdk::{Steering, SteeringKey, SteeringRun};
use weft_function::Direction;
use weft_node_config::{Blueprint, PortPlan};

use crate::subscribers::Users;

/// None where a port has fewer queues than there are workers: then no choice of a queue makes
/// all packets come to their worker. Users that are added later are spread by their addresses.
pub(super) fn queues_of_users(
    blueprint: &Blueprint,
    port: &PortPlan,
    users: &Users,
) -> Option<Steering> {
    let workers = blueprint.workers.count;
    if workers < 2 || usize::from(port.queues) < workers {
        return None;
    }
    let mut steering = Steering { queues: workers as u16, runs: Vec::new() };
    for run in rows(users, workers) {
        let queue = (run.worker + workers - port.worker) % workers;
        for key in &run.keys {
            let Some((key, first)) = steering_key(key, port, run.count) else { continue };
            let (count, queue) = (run.count, queue as u16);
            steering.runs.push(SteeringRun { key, first, count, queue });
        }
        if steering.runs.len() > Steering::MOST_RUNS {
            tracing::warn!(
                port = port.name,
                "users lie too scattered to choose the queues of their packets; the kernel's \
                 hash does"
            );
            return None;
        }
    }
    Some(steering)
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

#[cfg(test)]
mod tests {
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
    fn fewer_queues_than_workers_are_not_steered() {
        let blueprint = blueprint(1);
        let users = Users::new(Room::of(&blueprint.limits, 2, false), 2);
        assert_eq!(queues_of_users(&blueprint, &blueprint.ports[0], &users), None);
    }
}
