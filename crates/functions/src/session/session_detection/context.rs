//! What the function keeps for a session: two cache lines with all that the usual packet of
//! the usual session needs, and a record with the rest.
//!
//! A session is *usual* if it has at most one rule for packets in a tunnel and one for others,
//! of opposite directions, neither with filters nor QoS flow identifiers, both with the same
//! usage reporting rules; if each direction has at most one maximum bit rate; and if nothing
//! waits or is dropped by rule. Its packets are told apart by whether they are in a tunnel.

use std::mem::offset_of;
use std::sync::Arc;

use weft_function::{Headers, Packet};

use super::bucket::Bucket;
use super::detector::{Detector, Fate};
use super::meter::Meter;
use super::record::{Names, Record, both, is_closed};
use super::way::Way;
use crate::session::rules::{Pdr, Session, UeAddress};
use crate::session::usage::Volume;

/// The state of one session: a cache line that packets read, and one that they write. What they
/// do not write needs no way back to memory.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Context {
    /// The rules; none without a session.
    pub record: Option<Box<Record>>,
    /// Octets counted here at which something is to be looked at.
    pub attention: u64,
    /// Of packets in a tunnel, and of others.
    pub ways: [Way; 2],
    /// The user's IPv4 address; 0 for none.
    pub ipv4: u32,
    /// The first 64 bits of the user's IPv6 prefix; 0 for none.
    pub ipv6: u64,
    /// What an octet costs in the buckets, uplink and downlink.
    pub per_octet: [u64; 2],
    /// When the last packet passed; 0 for never.
    pub last: i64,
    /// When the buckets are full, uplink and downlink.
    pub full_at: [u64; 2],
    /// Octets and packets that passed since they were last given to the record: uplink,
    /// downlink. Those of the usual session; of others the first is the sum of all octets.
    pub octets: [u64; 2],
    /// See `octets`.
    pub packets: [u64; 2],
    /// When the first of `packets` passed; 0 for not yet. Most sessions need no look at their
    /// rules for that, which lie far away.
    pub first: i64,
}

const _: () = assert!(size_of::<Context>() == 128 && offset_of!(Context, last) == 64);

impl Context {
    /// The bucket that limits a direction: 0 for uplink, 1 for downlink.
    #[inline(always)]
    pub fn bucket(&self, direction: usize) -> Bucket {
        Bucket { full_at: self.full_at[direction], per_octet: self.per_octet[direction] }
    }

    /// Puts another bucket in its place.
    pub fn set_bucket(&mut self, direction: usize, bucket: Bucket) {
        (self.full_at[direction], self.per_octet[direction]) = (bucket.full_at, bucket.per_octet);
    }

    /// Whether the user's address in a packet of the usual session is right.
    #[inline(always)]
    pub fn is_users(&self, packet: &Packet, uplink: bool) -> bool {
        let ipv4 = if uplink { packet.ipv4_source() } else { packet.ipv4_destination() };
        match ipv4 {
            Some(address) => self.ipv4 == address && address != 0,
            None => self.is_users_ipv6(packet, uplink),
        }
    }

    #[inline]
    fn is_users_ipv6(&self, packet: &Packet, uplink: bool) -> bool {
        let Some((from, to)) = packet.addresses() else { return false };
        match if uplink { from } else { to } {
            std::net::IpAddr::V6(address) => {
                self.ipv6 != 0 && (address.to_bits() >> 64) as u64 == self.ipv6
            }
            std::net::IpAddr::V4(_) => false,
        }
    }

    /// Gives the record what has been counted here.
    pub fn settle(&mut self) {
        let Some(record) = &mut self.record else { return };
        if !record.detectors.is_empty() {
            return;
        }
        let passed = Volume {
            uplink_octets: self.octets[0],
            downlink_octets: self.octets[1],
            uplink_packets: self.packets[0],
            downlink_packets: self.packets[1],
        };
        let first = if self.first == 0 { self.last } else { self.first };
        (self.octets, self.packets, self.first) = ([0; 2], [0; 2], 0);
        let Record { rules, counted, meters, limiters, .. } = &mut **record;
        for &at in counted.iter() {
            let at = usize::from(at);
            meters[at].count(&rules.urrs[at], &passed, first, self.last);
        }
        for direction in [0, 1] {
            if let Some(at) = metered(rules, direction)
                && let Some(limiter) = limiters.get_mut(at)
            {
                let (full_at, per_octet) = (self.full_at[direction], self.per_octet[direction]);
                limiter.buckets[direction] = Bucket { full_at, per_octet };
            }
        }
    }

    /// The session has these rules from now on.
    pub fn load(&mut self, rules: Arc<Session>, names: &Names, now: u64) {
        self.settle();
        let record = Record::new(rules, self.record.take(), now);
        self.put(record, names);
    }

    /// Puts a record to work whose packets are counted nowhere else.
    pub fn put(&mut self, mut record: Box<Record>, names: &Names) {
        let last = self.last;
        *self = Context { last, ..Context::default() };
        let detectors = Record::detectors(&record.rules, names);
        match Usual::of(&record.rules, &detectors) {
            Some(usual) => {
                (self.ways, self.ipv4, self.ipv6) = (usual.ways, usual.ipv4, usual.ipv6);
                for direction in [0, 1] {
                    let at = metered(&record.rules, direction);
                    if let Some(limiter) = at.and_then(|at| record.limiters.get(at)) {
                        self.set_bucket(direction, limiter.buckets[direction]);
                    }
                }
                record.counted =
                    detectors.into_iter().next().map(|one| one.urrs).unwrap_or_default();
            }
            None => record.detectors = detectors.into(),
        }
        self.record = Some(record);
        self.refresh();
    }

    /// The record has another state: nothing is counted here yet, and buckets are as it says.
    pub fn go_on(&mut self) {
        (self.octets, self.packets, self.first) = ([0; 2], [0; 2], 0);
        if let Some(record) = self.record.as_ref().filter(|record| record.detectors.is_empty()) {
            for direction in [0, 1] {
                let at = metered(&record.rules, direction);
                if let Some(limiter) = at.and_then(|at| record.limiters.get(at)) {
                    let Bucket { full_at, per_octet } = limiter.buckets[direction];
                    (self.full_at[direction], self.per_octet[direction]) = (full_at, per_octet);
                }
            }
        }
        self.refresh();
    }

    /// Says anew when something is to be looked at, and what is closed.
    pub fn refresh(&mut self) {
        let Some(record) = &self.record else { return };
        let Record { rules, meters, detectors, .. } = &**record;
        let is_usual = detectors.is_empty();
        let all = rules.urrs.iter().zip(meters.iter());
        let attention =
            all.map(
                |(rule, meter)| {
                    if meter.awaits_first(rule) && !rule.paused { 0 } else { meter.room(rule) }
                },
            );
        let attention = attention.min().unwrap_or(u64::MAX);
        if !is_usual {
            // The sum of octets is for this only.
            self.octets = [0; 2];
        }
        let counted = self.octets[0].saturating_add(self.octets[1]);
        self.attention = counted.saturating_add(attention);
        if !is_usual {
            return;
        }
        for way in &mut self.ways {
            let uplink = way.has(Way::UPLINK);
            let is_used = |at: &u16| {
                let at = usize::from(*at);
                meters[at].is_closed(&rules.urrs[at], uplink)
            };
            let closed = way.pdr().is_some_and(|id| gate_is_closed(rules, id, uplink))
                || record.counted.iter().any(is_used);
            way.flags = if closed { way.flags | Way::CLOSED } else { way.flags & !Way::CLOSED };
        }
    }
}

impl Way {
    fn pdr(&self) -> Option<u16> {
        self.has(Way::USUAL).then_some(self.pdr)
    }
}

/// Whether a gate of a rule is closed.
pub fn gate_is_closed(rules: &Session, pdr: u16, uplink: bool) -> bool {
    let Some(rule) = rules.pdrs.iter().find(|rule| rule.id.0 == pdr) else { return false };
    let qers = rules.qers.iter().filter(|qer| rule.qers.contains(&qer.id));
    qers.into_iter().any(|qer| is_closed(qer, uplink))
}

/// The place of the rule that limits a direction of the usual session.
fn metered(rules: &Session, direction: usize) -> Option<usize> {
    let of_direction = |rule: &&Pdr| is_uplink(rule) == (direction == 0);
    let rule = rules.pdrs.iter().find(of_direction)?;
    rules.qers.iter().position(|qer| {
        rule.qers.contains(&qer.id) && both(qer.maximum)[direction].is_some_and(|rate| rate > 0)
    })
}

fn is_uplink(rule: &Pdr) -> bool {
    rule.source == crate::session::rules::Interface::Access
}

/// What the context of a usual session says.
struct Usual {
    ways: [Way; 2],
    ipv4: u32,
    ipv6: u64,
}

impl Usual {
    fn of(rules: &Session, detectors: &[Detector]) -> Option<Usual> {
        let mut usual = Usual { ways: [Way::default(); 2], ipv4: 0, ipv6: 0 };
        let mut address = None;
        for detector in detectors {
            let at = usize::from(detector.teid == 0);
            let rule = rules.pdrs.iter().find(|rule| rule.id.0 == detector.way.pdr)?;
            let is_simple = usual.ways[at].flags == 0
                && detector.filters.is_empty()
                && detector.qfis == 0
                && detector.routes.is_empty()
                && detector.period.is_none()
                && detector.fate == Fate::Forward
                && !detector.way.has(Way::NOT_REMOVED)
                && detector.urrs == detectors[0].urrs
                && Self::is_limited_simply(rules, rule);
            if !is_simple {
                return None;
            }
            usual.ways[at] = detector.way;
            usual.ways[at].flags |= Way::USUAL;
            let direction = usize::from(!detector.uplink);
            if metered(rules, direction).is_some() {
                usual.ways[at].flags |= Way::METERED;
            }
            if let Some(ue) = rule.ue {
                if *address.get_or_insert(ue) != ue {
                    return None;
                }
                usual.ways[at].flags |= Way::CHECKED;
            } else if at == 1 {
                return None;
            }
        }
        let [tunnelled, other] = usual.ways;
        if tunnelled.flags != 0
            && other.flags != 0
            && tunnelled.has(Way::UPLINK) == other.has(Way::UPLINK)
        {
            return None;
        }
        let UeAddress { ipv4, ipv6 } = address.unwrap_or_default();
        usual.ipv4 = ipv4.map_or(0, |address| address.to_bits());
        if let Some(prefix) = ipv6 {
            let first = prefix.v6().filter(|_| prefix.length() == 64)?.first();
            usual.ipv6 = (first >> 64) as u64;
        }
        (!detectors.is_empty()).then_some(usual)
    }

    /// Whether a rule has at most one rate, and nothing is measured before it.
    fn is_limited_simply(rules: &Session, rule: &Pdr) -> bool {
        let direction = usize::from(!is_uplink(rule));
        let qers = || rules.qers.iter().filter(|qer| rule.qers.contains(&qer.id));
        let rates = qers().filter(|qer| both(qer.maximum)[direction].is_some()).count();
        let urrs = || rules.urrs.iter().filter(|urr| rule.urrs.contains(&urr.id));
        rates <= 1
            && qers().all(|qer| both(qer.packets)[direction].is_none() && qer.correlation.is_none())
            && urrs().all(|urr| !urr.before_qos && urr.quota_action.is_none())
    }
}

/// Looks whether something is due; whether there is something to tell.
pub fn look(record: &mut Record, now: u64) -> bool {
    let mut tell = false;
    for (rule, meter) in record.rules.urrs.iter().zip(record.meters.iter_mut()) {
        meter.look(rule, now);
        // A report may have been lost: then this is the second time.
        tell |= !meter.due.is_empty() || meter.begins_to_wait(rule, now);
    }
    tell
}

/// Notes that the agent has been told of what is due.
pub fn note_told(meters: &mut [Meter]) {
    for meter in meters {
        meter.told = !meter.due.is_empty();
    }
}
