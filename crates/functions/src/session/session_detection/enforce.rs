//! What becomes of a packet that a rule has detected, in a session that is not usual.

use weft_function::{Emit, Headers, Packet, Tunnel, Verdict};

use super::detector::{Detector, Fate};
use super::record::{self, Names, Record, both, is_closed};
use super::way::Way;
use super::{
    BIT_RATE, BUFFER_FULL, END_MARKER, FAR_DROP, GATE, NO_DESTINATION, NO_FAR, NOT_REMOVED,
    PACKET_RATE, QUOTA, must_stay,
};
use crate::session::rules::PdrId;
use crate::session::usage::{Volume, waits};

/// A packet that goes on.
pub struct Passed {
    /// What is noted in it.
    pub way: Way,
    /// The place of the forwarding action rule that it goes on by in place of its rule's own,
    /// from 1; 0 for its own.
    pub action: u16,
    /// Whether it was measured: End Markers are not.
    pub is_measured: bool,
}

/// Does with a packet what the rule at `place` says. Adds its octets to `octets_measured` where it is
/// measured, and more where something is to be looked at in any case.
pub fn enforce(
    packet: &Packet,
    (record, place): (&mut Record, usize),
    octets_measured: &mut u64,
    (names, burst): (&Names, u64),
    emit: &mut Emit<'_>,
) -> Result<Passed, Verdict> {
    let detector = &record.detectors[place];
    let (uplink, mut way) = (detector.uplink, detector.way);
    let (now, octets, direction) = (emit.now(), packet.ip_length() as u64, usize::from(!uplink));
    let refuse = |reason| Err(Verdict::Drop(reason));
    match detector.fate {
        Fate::Forward => {}
        Fate::NoFar => return refuse(NO_FAR),
        Fate::NoDestination => return refuse(NO_DESTINATION),
        Fate::Drop => {
            note_dropped(record, place, octets, octets_measured);
            return refuse(FAR_DROP);
        }
        Fate::Wait { most, .. } if record.waiting >= most => {
            note_dropped(record, place, octets, octets_measured);
            return refuse(BUFFER_FULL);
        }
        Fate::Wait { notify, .. } => {
            record.waiting += 1;
            if notify && !record.told {
                record.told = emit.report(waits(PdrId(way.pdr)));
            }
            return Err(Verdict::Keep);
        }
    }
    if packet.is_end_marker() {
        return match way.has(Way::RELAYED) && !way.has(Way::UNWRAP) {
            true => Ok(Passed { way, action: 0, is_measured: false }),
            false => refuse(END_MARKER),
        };
    }
    if way.has(Way::NOT_REMOVED) {
        return refuse(NOT_REMOVED);
    }
    if way.has(Way::UNWRAP)
        && let Some(reason) = must_stay(packet)
    {
        return refuse(reason);
    }
    let Record { rules, detectors, limiters, meters, .. } = record;
    let Detector { urrs, qers, .. } = &detectors[place];
    let mut passed = Volume::default();
    match uplink {
        true => (passed.uplink_octets, passed.uplink_packets) = (octets, 1),
        false => (passed.downlink_octets, passed.downlink_packets) = (octets, 1),
    }
    let mut measure = |before_qos: bool| {
        for &at in urrs {
            let (rule, meter) = (&rules.urrs[usize::from(at)], &mut meters[usize::from(at)]);
            if rule.before_qos == before_qos {
                meter.count(rule, &passed, now, now);
            }
        }
    };
    measure(true);
    *octets_measured += octets;
    for &at in qers {
        if is_closed(&rules.qers[usize::from(at)], uplink) {
            return refuse(GATE);
        }
    }
    let guarantees = |at: u16| limiters[usize::from(at)].guarantees(direction, now, octets, burst);
    let is_guaranteed = qers.iter().any(|at| guarantees(*at));
    // All rates are looked at before any has a packet less.
    for &at in qers {
        let (rule, limiter) = (&rules.qers[usize::from(at)], &limiters[usize::from(at)]);
        if !is_guaranteed && !limiter.has_room(direction, now, octets, burst) {
            return refuse(BIT_RATE);
        }
        let rate = both(rule.packets)[direction];
        if rate.is_some_and(|rate| !limiter.packets[direction].has_room(now, rate)) {
            return refuse(PACKET_RATE);
        }
    }
    let mut action = 0;
    for &at in urrs {
        let rule = &rules.urrs[usize::from(at)];
        if !meters[usize::from(at)].is_closed(rule, uplink) {
            continue;
        }
        let far = rule.quota_action;
        let far = far.and_then(|id| rules.fars.iter().position(|far| far.id == id));
        let own = rules.pdrs.iter().find(|rule| rule.id.0 == way.pdr);
        match (far, own) {
            (Some(far), Some(own))
                if record::fate(Some(&rules.fars[far]), rules) == Fate::Forward =>
            {
                way = record::way(own, Some(&rules.fars[far]), names);
                action = far as u16 + 1;
            }
            _ => return refuse(QUOTA),
        }
    }
    for &at in qers {
        let (rule, limiter) = (&rules.qers[usize::from(at)], &mut limiters[usize::from(at)]);
        limiter.take(direction, now, octets);
        if let Some(rate) = both(rule.packets)[direction] {
            limiter.packets[direction].take(now, rate);
        }
    }
    for &at in urrs {
        let (rule, meter) = (&rules.urrs[usize::from(at)], &mut meters[usize::from(at)]);
        if !rule.before_qos {
            meter.count(rule, &passed, now, now);
        }
    }
    Ok(Passed { way, action, is_measured: true })
}

/// Notes a downlink packet that is dropped.
fn note_dropped(record: &mut Record, place: usize, octets: u64, octets_measured: &mut u64) {
    let Record { rules, detectors, meters, .. } = record;
    if detectors[place].uplink {
        return;
    }
    for &at in &detectors[place].urrs {
        let (rule, meter) = (&rules.urrs[usize::from(at)], &mut meters[usize::from(at)]);
        let before = meter.dropped;
        meter.dropped = [before[0] + 1, before[1] + octets];
        let reaches = |bound: Option<u64>, at: usize| {
            bound.is_some_and(|bound| {
                (before[at]..meter.dropped[at]).contains(&(bound.saturating_sub(1)))
            })
        };
        if reaches(rule.dropped_packets, 0) || reaches(rule.dropped_octets, 1) {
            *octets_measured = u64::MAX;
        }
    }
}
