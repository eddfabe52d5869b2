//! The rules of one session, compiled, with the state that they have.

use std::net::IpAddr;
use std::sync::Arc;

use weft_function::{TagSlot, TagTable, TagValues};

use super::bucket::{Bucket, PacketBucket};
use super::detector::{Addresses, Detector, Fate};
use super::domains::{self, Domains};
use super::meter::Meter;
use super::shared::{self, SharedBuckets};
use super::time_of_day::{self, TimeOfDay};
use super::way::Way;
use crate::common::prefix::Prefix;
use crate::session::rules::{
    Apply, Far, Few, Interface, Name, OuterHeader, Pdr, PerDirection, Qer, QerId, Removal, Session,
    UrrId,
};

/// Names of the node that rules use.
#[derive(Debug, Default)]
pub struct Names {
    networks: Vec<String>,
    chains: Vec<String>,
}

impl Names {
    /// Those of a node's tags.
    pub fn of(tags: &TagTable) -> Names {
        let of = |slot: TagSlot| match tags.iter().nth(slot.index()) {
            Some((_, TagValues::Named(names))) => names.clone(),
            _ => Vec::new(),
        };
        Names { networks: of(TagSlot::NETWORK), chains: of(TagSlot::CHAIN) }
    }

    /// The number of a network instance.
    pub fn network(&self, name: &str) -> Option<u16> {
        place(&self.networks, name)
    }

    /// The name of a network instance.
    pub fn name_of(&self, network: u16) -> Option<&str> {
        self.networks.get(usize::from(network)).map(String::as_str)
    }

    /// The number of a chain.
    pub fn chain(&self, name: &str) -> Option<u16> {
        place(&self.chains, name)
    }
}

fn place(names: &[String], name: &str) -> Option<u16> {
    names.iter().position(|known| known == name).map(|at| at as u16)
}

/// A quality of service enforcement rule at work.
#[derive(Clone, Debug, Default)]
pub struct Limiter {
    /// Uplink, downlink.
    pub buckets: [Bucket; 2],
    /// Uplink, downlink.
    pub packets: [PacketBucket; 2],
    /// What few rules have.
    pub rare: Option<Box<Rare>>,
}

/// What few QoS enforcement rules have.
#[derive(Clone, Debug, Default)]
pub struct Rare {
    /// Guaranteed rates, uplink and downlink; none without.
    pub guaranteed: [Option<Bucket>; 2],
    /// Rates that rules of several sessions share.
    pub shared: Option<Arc<SharedBuckets>>,
}

/// The two values, uplink and downlink.
pub fn both<T: Default>(values: PerDirection<T>) -> [T; 2] {
    [values.uplink, values.downlink]
}

impl Limiter {
    fn new(rule: &Qer) -> Limiter {
        let buckets =
            both(rule.maximum).map(|rate| rate.map_or_else(Bucket::default, Bucket::of_rate));
        let guaranteed =
            both(rule.guaranteed).map(|rate| rate.filter(|rate| *rate > 0).map(Bucket::of_rate));
        let shared = rule.correlation.map(shared::of);
        let has_any = guaranteed.iter().any(Option::is_some) || shared.is_some();
        let rare = has_any.then(|| Box::new(Rare { guaranteed, shared }));
        Limiter { buckets, rare, ..Limiter::default() }
    }

    /// Whether a packet may pass by the maximum bit rate.
    pub fn has_room(&self, direction: usize, now: u64, octets: u64, burst: u64) -> bool {
        let own = &self.buckets[direction];
        match self.rare.as_ref().and_then(|rare| rare.shared.as_ref()) {
            Some(shared) => shared.like(direction, own).has_room(now, octets, burst),
            None => own.has_room(now, octets, burst),
        }
    }

    /// Whether a packet is within the guaranteed bit rate.
    pub fn guarantees(&self, direction: usize, now: u64, octets: u64, burst: u64) -> bool {
        let bucket = self.rare.as_ref().and_then(|rare| rare.guaranteed[direction].as_ref());
        bucket.is_some_and(|bucket| bucket.has_room(now, octets, burst))
    }

    /// A packet passes.
    pub fn take(&mut self, direction: usize, now: u64, octets: u64) {
        let own = &mut self.buckets[direction];
        let Some(rare) = &mut self.rare else { return own.take(now, octets) };
        match &rare.shared {
            Some(shared) => shared.take(direction, own, now, octets),
            None => own.take(now, octets),
        }
        if let Some(guaranteed) = &mut rare.guaranteed[direction] {
            guaranteed.take(now, octets);
        }
    }

    /// The rule is another; what its buckets lack they lack on.
    fn change(&mut self, rule: &Qer) {
        let next = Limiter::new(rule);
        for (bucket, next) in self.buckets.iter_mut().zip(next.buckets) {
            bucket.per_octet = next.per_octet;
        }
        let known = std::mem::replace(&mut self.rare, next.rare);
        let (Some(known), Some(rare)) = (known, &mut self.rare) else { return };
        for (bucket, known) in rare.guaranteed.iter_mut().zip(known.guaranteed) {
            if let (Some(bucket), Some(known)) = (bucket, known) {
                bucket.full_at = known.full_at;
            }
        }
    }
}

/// Whether a rule lets nothing pass in a direction.
pub fn is_closed(rule: &Qer, uplink: bool) -> bool {
    let at = usize::from(!uplink);
    both(rule.closed)[at] || both(rule.maximum)[at] == Some(0)
}

/// The rules of a session at work.
#[derive(Debug, Default)]
pub struct Record {
    /// The rules.
    pub rules: Arc<Session>,
    /// Packet detection rules, the one to be looked at first in front. There are none where
    /// the context of the session says all.
    pub detectors: Box<[Detector]>,
    /// Places of the usage reporting rules that measure all packets, where the context of the
    /// session says all.
    pub counted: Few<u16>,
    /// Of each quality of service enforcement rule.
    pub limiters: Box<[Limiter]>,
    /// Of each usage reporting rule.
    pub meters: Box<[Meter]>,
    /// Domains of filters, and what leads to them.
    pub domains: Option<Box<Domains>>,
    /// When the rules came, in nanoseconds of the node's clock, below 0 before it started.
    pub since: i64,
    /// What the state that was read last says of the time of day at which it was written.
    pub time_of_day: Option<TimeOfDay>,
    /// Packets that wait.
    pub waiting: u32,
    /// The agent has been told of the first of them.
    pub told: bool,
}

impl Record {
    /// Rules that are at work from now on, in place of those of `old`.
    pub fn new(rules: Arc<Session>, old: Option<Box<Record>>, now: u64) -> Box<Record> {
        let has_time = rules.urrs.iter().any(|rule| rule.monitoring_time.is_some());
        let unix = has_time.then(time_of_day::unix);
        let mut old = old.unwrap_or_default();
        let domains = Domains::of(&rules, old.domains.take());
        let limiter = |rule: &Qer| {
            let known = old.rules.qers.iter().position(|one| one.id == rule.id);
            match known.and_then(|at| old.limiters.get(at)) {
                Some(known) => {
                    let mut limiter = known.clone();
                    limiter.change(rule);
                    limiter
                }
                None => Limiter::new(rule),
            }
        };
        let limiters = rules.qers.iter().map(limiter).collect();
        let meters = rules.urrs.iter().map(|rule| {
            let known = old.rules.urrs.iter().position(|one| one.is(rule));
            match known.and_then(|at| Some((&old.rules.urrs[at], old.meters.get(at)?))) {
                Some((before, known)) => {
                    let mut meter = known.clone();
                    meter.change(before, rule, now, unix);
                    meter
                }
                None => Meter::new(rule, now, unix),
            }
        });
        let meters = meters.collect();
        // What waits is looked at again, and told again if it still waits.
        // Rules that are given once more have come before.
        let is_same = Arc::ptr_eq(&old.rules, &rules) || *old.rules == *rules;
        let since = if is_same { old.since } else { now.cast_signed() };
        Box::new(Record { limiters, meters, rules, domains, since, ..Record::default() })
    }

    /// The packet detection rules, in the order that they are looked at.
    pub fn detectors(rules: &Session, names: &Names) -> Vec<Detector> {
        let mut order: Vec<_> = rules.pdrs.iter().collect();
        order.sort_by_key(|rule| rule.precedence);
        let domains = domains::names(rules);
        order.into_iter().map(|rule| detector(rule, rules, (names, &domains))).collect()
    }
}

fn detector(rule: &Pdr, rules: &Session, (names, domains): (&Names, &[Name])) -> Detector {
    let far = rule.far.and_then(|id| rules.fars.iter().find(|far| far.id == id));
    let uplink = rule.source == Interface::Access;
    let of = |address: Prefix| Addresses::of(Some(address));
    let ue = rule.ue.and_then(|ue| {
        let (ipv4, ipv6) = (ue.ipv4.map(|address| of(IpAddr::V4(address).into())), ue.ipv6.map(of));
        match (ipv4, ipv6) {
            (Some(ipv4), Some(ipv6)) => Some(ipv4.or(ipv6)),
            (one, other) => one.or(other),
        }
    });
    let qer = |id: &QerId| rules.qers.iter().position(|one| one.id == *id).map(|at| at as u16);
    let urr = |id: &UrrId| rules.urrs.iter().position(|one| one.id == *id).map(|at| at as u16);
    Detector {
        uplink,
        teid: rule.local.map_or(0, |local| local.teid),
        network: names.network(rule.network.as_deref().unwrap_or("default")).map(u32::from),
        // A rule with routes alone is of no other address.
        ue: ue.unwrap_or_else(|| match rule.routes.is_empty() {
            true => Addresses::of(None),
            false => Addresses::default(),
        }),
        routes: rule.routes.iter().copied().map(of).collect(),
        period: rule
            .period
            .as_deref()
            .map(|period| (period.from.unwrap_or(0), period.until.unwrap_or(u64::MAX))),
        qfis: rule.qfis.iter().fold(0, |all, qfi| all | 1 << (qfi & 63)),
        filters: rule.filters.clone(),
        domains: match rule.filters.iter().any(|filter| filter.domain.is_some()) {
            true => rule.filters.iter().map(|filter| domains::bit(domains, filter)).collect(),
            false => Box::default(),
        },
        way: way(rule, far, names),
        fate: fate(far, rules),
        urrs: rule.urrs.iter().filter_map(urr).collect(),
        qers: rule.qers.iter().filter_map(qer).collect(),
    }
}

/// What becomes of packets of a forwarding action rule.
pub fn fate(far: Option<&Far>, rules: &Session) -> Fate {
    let Some(far) = far else { return Fate::NoFar };
    let wait = |notify| {
        let bar = far.bar.and_then(|id| rules.bars.iter().find(|bar| bar.id == id));
        let extended = bar.and_then(|bar| bar.extended);
        let own = bar.and_then(|bar| bar.packets);
        let most = extended.map_or(own, |extended| extended.packets.or(own));
        Fate::Wait { notify: notify && extended.is_none(), most: most.map_or(u32::MAX, u32::from) }
    };
    let has_destination = far.forward.as_ref().is_some_and(|to| to.interface.is_some());
    match far.action {
        Apply::Drop => Fate::Drop,
        Apply::Forward if has_destination => Fate::Forward,
        Apply::Forward => Fate::NoDestination,
        Apply::Buffer => wait(false),
        Apply::Notify => wait(true),
    }
}

/// What is noted in packets of a rule that go on by `far`.
pub fn way(rule: &Pdr, far: Option<&Far>, names: &Names) -> Way {
    let forward = far.and_then(|far| far.forward.as_ref());
    let is_relay = forward.is_some_and(|to| matches!(to.outer, Some(OuterHeader::Gtpu { .. })));
    let keeps = rule.removal.is_some() && rule.removal != Some(Removal::GtpuExtensions) && is_relay;
    let mut flags = 0;
    let mut set = |flag: u8, is_set: bool| flags |= if is_set { flag } else { 0 };
    set(Way::UPLINK, rule.source == Interface::Access);
    set(Way::UNWRAP, rule.local.is_some() && rule.removal.is_some() && !keeps);
    set(Way::RELAYED, rule.local.is_some() && is_relay);
    set(Way::NOT_REMOVED, rule.local.is_some() && rule.removal.is_none());
    let network = forward.and_then(|to| names.network(to.network.as_deref()?));
    Way {
        pdr: rule.id.0,
        network: network.unwrap_or(Way::SAME),
        chain: rule.chain.as_deref().and_then(|name| names.chain(name)).unwrap_or(Way::SAME),
        destination: forward.and_then(|to| to.interface).map_or(0, |interface| interface as u8 + 1),
        flags,
    }
}
