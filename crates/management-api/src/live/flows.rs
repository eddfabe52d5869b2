//! How packets are shared between rules and users, from a sample.
//!
//! The way of a packet counts what ports and functions see, and neither which rule led there
//! nor each user's packets. So some packets are watched ([`weft_dataplane::trace`]), as a
//! packet sampler does (RFC 3176, RFC 5475 §5): their shares, times the exact counters of the
//! place where they come from, are the rates. With n packets of n in all, a share p is right
//! within 2·√(p(1-p)/n), in 19 of 20 seconds.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weft_dataplane::trace::{Point, Sighting, Watch};
use weft_function::PacketMetadata;
use weft_node::show::Snapshot;

/// Packets of a full burst.
const BURST: u64 = 32;
/// Seconds that shares are of.
const WINDOW: usize = 10;
/// Users that are named.
const USERS: usize = 50;
/// Names of users that are remembered.
const NAMES: usize = 4096;
/// Seconds for which they are.
const NAMED_FOR: u32 = 60;

/// How packets are shared between rules and users.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Flows {
    /// Packets of the sample, of the last ten seconds.
    pub sample: u64,
    /// Packets from place to place, by the names of ports and functions; `drop` for those
    /// that end there.
    pub rules: Vec<Flow>,
    /// Users that send or get the most, the first before all others.
    pub users: Vec<UserRate>,
}

/// Packets from one place to another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Flow {
    /// A port or function.
    pub from: String,
    /// A port or function, or `drop`.
    pub to: String,
    /// Packets of the sample.
    pub sample: u64,
    /// Packets per second.
    pub rate: f64,
}

/// Packets of one user, both ways.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UserRate {
    /// Name.
    pub user: String,
    /// Packets of the sample.
    pub sample: u64,
    /// Packets per second.
    pub rate: f64,
    /// Bits per second, as frames came in.
    pub bits: f64,
}

/// A place in the numbers of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Place {
    Port(u16),
    Function(u16),
    /// Dropped by the function before: that is counted.
    Dropped,
    /// Dropped by a rule or the node.
    Drop,
    /// In a function, or gone.
    Away,
}

/// What was seen in some time. Its keys are numbers of the node's own: a hash that is quick
/// will do.
#[derive(Debug, Default)]
struct Seen {
    packets: u64,
    hops: FxHashMap<(Place, Place), u64>,
    /// Packets and bytes by the slot of the user.
    users: FxHashMap<u32, (u64, u64)>,
}

impl Seen {
    /// Counts a packet that came in.
    fn count(&mut self, user: u32, length: usize) {
        self.packets += 1;
        if user != PacketMetadata::NONE {
            let (packets, bytes) = self.users.entry(user).or_default();
            *packets += 1;
            *bytes += length as u64;
        }
    }

    /// Counts packets that went from place to place.
    fn count_hops(&mut self, hop: (Place, Place), packets: usize) {
        *self.hops.entry(hop).or_default() += packets as u64;
    }

    /// Takes away what was counted in another time, too.
    fn take_away(&mut self, other: &Seen) {
        self.packets -= other.packets;
        for (hop, packets) in &other.hops {
            if let Entry::Occupied(mut sum) = self.hops.entry(*hop) {
                *sum.get_mut() -= packets;
                if *sum.get() == 0 {
                    sum.remove();
                }
            }
        }
        for (user, (packets, bytes)) in &other.users {
            if let Entry::Occupied(mut sum) = self.users.entry(*user) {
                let (all, all_bytes) = *sum.get();
                *sum.get_mut() = (all - packets, all_bytes - bytes);
                if all == *packets {
                    sum.remove();
                }
            }
        }
    }
}

/// The sample.
#[derive(Debug, Default)]
pub(super) struct Sample {
    /// This second.
    now: Seen,
    /// The seconds before it.
    window: VecDeque<Seen>,
    /// All of these, kept: to sum them up each second costs more than all else here.
    sum: Seen,
    names: HashMap<u32, String>,
    named_for: u32,
    drawn: u64,
    random: RandomState,
}

/// What is watched, once in a while: as many packets at each worker as bursts may have.
pub(super) fn watch(bursts: u32) -> Watch {
    let packets = BURST * u64::from(bursts);
    Watch { condition: None, user: None, port: None, point: None, bytes: 0, packets }
}

impl Sample {
    /// Forgets all.
    pub fn clear(&mut self) {
        (self.now, self.sum) = (Seen::default(), Seen::default());
        self.window.clear();
    }

    fn count(&mut self, count: impl Fn(&mut Seen)) {
        count(&mut self.now);
        count(&mut self.sum);
    }

    /// A number from 0 to 1, another each time.
    pub fn chance(&mut self) -> f64 {
        self.drawn += 1;
        self.random.hash_one(self.drawn) as f64 / u64::MAX as f64
    }

    /// Adds what one look has seen; of each packet in order.
    pub fn enter(&mut self, sightings: impl Iterator<Item = Sighting>) {
        // Where each packet is, and whether it has been counted.
        let mut packets: FxHashMap<u64, (Place, bool)> = FxHashMap::default();
        let mut hops = Vec::new();
        for Sighting { packet, point, metadata, length, .. } in sightings {
            let known = packets.entry(packet).or_insert((Place::Away, false));
            let (from, counted) = *known;
            if matches!(from, Place::Port(_))
                && !counted
                && !matches!(point, Point::After(_) | Point::Received(_))
            {
                known.1 = true;
                self.count(|seen| seen.count(metadata.user, length));
            }
            let (to, place) = match point {
                Point::Received(port) => (None, Place::Port(port)),
                // What comes back from a function elsewhere is received once more.
                Point::After(function) => (None, Place::Function(function)),
                Point::Before(function) => (Some(Place::Function(function)), Place::Away),
                Point::Leaving(port) => (Some(Place::Port(port)), Place::Away),
                Point::Dropped(_) => (Some(Place::Drop), Place::Away),
                Point::Classified => continue,
                Point::DroppedBy(function) => {
                    hops.push((Place::Function(function), Place::Dropped));
                    continue;
                }
            };
            known.0 = place;
            if let (true, Some(to)) = (from != Place::Away, to) {
                hops.push((from, to));
            }
        }
        hops.sort_unstable();
        for same in hops.chunk_by(|one, other| one == other) {
            self.count(|seen| seen.count_hops(same[0], same.len()));
        }
    }

    /// Slots of users that were seen most, and whose names are not known.
    pub fn unknown_users(&mut self) -> Vec<u32> {
        self.named_for += 1;
        // A slot may have another user.
        if self.named_for > NAMED_FOR || self.names.len() > NAMES {
            self.named_for = 0;
            self.names.clear();
        }
        let users = self.users().into_iter().map(|(slot, ..)| slot);
        users.filter(|slot| !self.names.contains_key(slot)).collect()
    }

    /// Learns names. A user that commands have added has none, and stands for its slot.
    pub fn name_users(&mut self, slots: &[u32], mut names: HashMap<u32, String>) {
        for slot in slots {
            let name = names.remove(slot).unwrap_or_else(|| format!("#{slot}"));
            self.names.insert(*slot, name);
        }
    }

    /// Slot, packets and bytes of the users that were seen most in the window.
    fn users(&self) -> Vec<(u32, u64, u64)> {
        let seen = self.sum.users.iter();
        let mut users: Vec<_> = seen.map(|(slot, (n, bytes))| (*slot, *n, *bytes)).collect();
        let order = |(slot, packets, _): &(u32, u64, u64)| (u64::MAX - packets, *slot);
        if users.len() > USERS {
            users.select_nth_unstable_by_key(USERS, order);
            users.truncate(USERS);
        }
        users.sort_unstable_by_key(order);
        users
    }

    /// Ends the second: what the sample says of the rates between two snapshots.
    pub fn flows(&mut self, before: Option<&Snapshot>, now: &Snapshot) -> Flows {
        let Some(before) = before else { return Flows::default() };
        let rates = Rates::between(before, now);
        let (mut left, mut sources) = (HashMap::new(), HashMap::new());
        for ((from, to), count) in self.sum.hops.iter().filter(|((_, to), _)| *to != Place::Dropped)
        {
            *left.entry(*from).or_insert(0) += count;
            *sources.entry(*to).or_insert(0) += 1;
        }
        let mut hops: Vec<_> = self.sum.hops.iter().map(|(hop, count)| (*hop, *count)).collect();
        hops.sort_unstable();
        let flow = |((from, to), sample): ((Place, Place), u64)| {
            let rate = match to {
                Place::Dropped => rates.dropped(from),
                // What has one source is counted, and not estimated.
                Place::Function(_) if sources[&to] == 1 => rates.of(to),
                _ => sample as f64 / left[&from] as f64 * (rates.of(from) - rates.dropped(from)),
            };
            Some(Flow { from: name(from, now)?, to: name(to, now)?, sample, rate })
        };
        let rules = hops.into_iter().filter_map(flow).collect();
        let sample = self.sum.packets;
        let user = |(slot, packets, bytes): (u32, u64, u64)| {
            let all = rates.received / sample as f64;
            Some(UserRate {
                user: self.names.get(&slot)?.clone(),
                sample: packets,
                rate: packets as f64 * all,
                bits: bytes as f64 * 8.0 * all,
            })
        };
        let users = self.users().into_iter().filter_map(user).collect();
        self.window.push_back(std::mem::take(&mut self.now));
        if self.window.len() > WINDOW - 1
            && let Some(oldest) = self.window.pop_front()
        {
            self.sum.take_away(&oldest);
        }
        Flows { sample, rules, users }
    }
}

/// Packets per second that come in at ports and functions.
struct Rates {
    ports: Vec<f64>,
    functions: Vec<f64>,
    /// Packets per second that functions drop.
    dropped: Vec<f64>,
    received: f64,
}

impl Rates {
    fn between(before: &Snapshot, now: &Snapshot) -> Rates {
        let seconds = now.uptime.saturating_sub(before.uptime).max(1) as f64 / 1e9;
        let rate = |now: u64, before: Option<u64>| {
            now.saturating_sub(before.unwrap_or(now)) as f64 / seconds
        };
        let ports = now.ports.iter().map(|port| {
            let mut known = before.ports.iter();
            rate(port.rx_packets, known.find(|one| one.name == port.name).map(|p| p.rx_packets))
        });
        let functions = now.functions.iter().map(|function| {
            let mut known = before.functions.iter();
            let known = known.find(|one| one.name == function.name);
            let handled = rate(function.packets, known.map(|one| one.packets));
            (handled, rate(function.drops, known.map(|one| one.drops)))
        });
        let (functions, dropped) = functions.unzip();
        let ports: Vec<_> = ports.collect();
        Rates { received: ports.iter().sum(), ports, functions, dropped }
    }

    fn of(&self, place: Place) -> f64 {
        let known = match place {
            Place::Port(number) => self.ports.get(usize::from(number)),
            Place::Function(number) => self.functions.get(usize::from(number)),
            Place::Dropped | Place::Drop | Place::Away => None,
        };
        known.copied().unwrap_or(0.0)
    }

    /// What a function drops of it.
    fn dropped(&self, place: Place) -> f64 {
        let Place::Function(number) = place else { return 0.0 };
        self.dropped.get(usize::from(number)).copied().unwrap_or(0.0)
    }
}

/// The name of a place, if it is there at this time.
fn name(place: Place, now: &Snapshot) -> Option<String> {
    match place {
        Place::Port(number) => now.ports.get(usize::from(number)).map(|port| port.name.clone()),
        Place::Function(number) => {
            now.functions.get(usize::from(number)).map(|function| function.name.clone())
        }
        Place::Dropped | Place::Drop => Some("drop".to_owned()),
        Place::Away => None,
    }
}

#[cfg(test)]
mod tests {
    use weft_dataplane::counters::DropReason;
    use weft_node::show::{FunctionView, PortView};

    use super::*;

    fn sighting(packet: u64, point: Point, user: u32) -> Sighting {
        let metadata = PacketMetadata { user, ..PacketMetadata::default() };
        Sighting { packet, point, time: 0, metadata, length: 100, bytes: Vec::new() }
    }

    fn snapshot(uptime: u64, received: u64, handled: u64, drops: u64) -> Snapshot {
        let port = |name: &str, rx_packets| PortView {
            name: name.to_owned(),
            rx_packets,
            ..PortView::default()
        };
        let function = FunctionView {
            name: "police".to_owned(),
            packets: handled,
            drops,
            ..FunctionView::default()
        };
        Snapshot {
            uptime,
            ports: vec![port("access", received), port("core", 0)],
            functions: vec![function],
            ..Snapshot::default()
        }
    }

    #[test]
    fn shares_of_the_sample_are_rates_by_the_counters() {
        let mut sample = Sample::default();
        // Of four packets one goes around the function, which drops one of three.
        let way = |packet: u64, user| match packet {
            0 => vec![sighting(0, Point::Received(0), user), sighting(0, Point::Leaving(1), user)],
            1 => vec![
                sighting(1, Point::Received(0), user),
                sighting(1, Point::Before(0), user),
                sighting(1, Point::DroppedBy(0), user),
            ],
            _ => vec![
                sighting(packet, Point::Received(0), user),
                sighting(packet, Point::Classified, user),
                sighting(packet, Point::Before(0), user),
                sighting(packet, Point::After(0), user),
                sighting(packet, Point::Leaving(1), user),
            ],
        };
        sample.enter((0..4).flat_map(|packet| way(packet, (packet % 2) as u32)));
        // A packet that ends before a user is found.
        let stray = PacketMetadata::NONE;
        let malformed = Point::Dropped(DropReason::Segmented);
        sample.enter(
            [sighting(9, Point::Received(0), stray), sighting(9, malformed, stray)].into_iter(),
        );
        assert_eq!(sample.unknown_users(), [0, 1]);
        sample.name_users(&[0, 1], HashMap::from([(0, "ue".to_owned())]));
        let second = 1_000_000_000;
        let flows = sample.flows(Some(&snapshot(0, 0, 0, 0)), &snapshot(second, 5000, 3100, 900));
        assert_eq!(flows.sample, 5);
        let rates: Vec<_> =
            flows.rules.iter().map(|flow| (&*flow.from, &*flow.to, flow.rate.round())).collect();
        assert_eq!(
            rates,
            [
                ("access", "core", 1000.0),
                ("access", "police", 3100.0),
                ("access", "drop", 1000.0),
                ("police", "core", 2200.0),
                ("police", "drop", 900.0),
            ]
        );
        let users: Vec<_> = flows
            .users
            .iter()
            .map(|one| (&*one.user, one.rate.round(), one.bits.round()))
            .collect();
        assert_eq!(users, [("ue", 2000.0, 1_600_000.0), ("#1", 2000.0, 1_600_000.0)]);
    }

    #[test]
    fn seconds_leave_the_sample() {
        let mut sample = Sample::default();
        for second in 0..30 {
            let way = [sighting(0, Point::Received(0), 7), sighting(0, Point::Leaving(1), 7)];
            sample.enter(way.into_iter());
            let flows = sample.flows(Some(&snapshot(0, 0, 0, 0)), &snapshot(1, 1, 0, 0));
            assert_eq!(flows.sample, (second + 1).min(WINDOW as u64));
        }
        sample.clear();
        assert_eq!(sample.flows(Some(&snapshot(0, 0, 0, 0)), &snapshot(1, 1, 0, 0)).sample, 0);
    }

    #[test]
    fn a_window_has_what_its_seconds_have() {
        let mut sample = Sample::default();
        for second in 0..30_u32 {
            // Each user is seen in some seconds, by other ways.
            let users = (0..20).filter(|user| (second * 7 + user) % 3 == 0);
            for user in users {
                let left = Point::Leaving((user % 2) as u16);
                let way = [sighting(0, Point::Received(0), user), sighting(0, left, user)];
                sample.enter(way.into_iter());
            }
            let (mut hops, mut users) = (FxHashMap::default(), FxHashMap::default());
            for seen in sample.window.iter().chain([&sample.now]) {
                seen.hops.iter().for_each(|(hop, n)| *hops.entry(*hop).or_insert(0) += n);
                seen.users.iter().for_each(|(user, n)| *users.entry(*user).or_insert(0) += n.0);
            }
            assert_eq!(sample.sum.hops, hops);
            let sum: FxHashMap<_, _> =
                sample.sum.users.iter().map(|(user, n)| (*user, n.0)).collect();
            assert_eq!(sum, users);
            sample.flows(Some(&snapshot(0, 0, 0, 0)), &snapshot(1, 1, 0, 0));
        }
    }
}
