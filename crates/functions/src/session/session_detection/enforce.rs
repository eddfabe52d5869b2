//! What becomes of a packet that a rule has detected, in a session that is not usual.

use weft_function::{Emit, Headers, Packet, Tunnel, Verdict};

use super::detector::{Detector, Fate};
use super::meter::Meter;
use super::record::{self, Limiter, Names, Record, both, is_closed};
use super::way::Way;
use super::{
    BIT_RATE, BUFFER_FULL, END_MARKER, FAR_DROP, GATE, NO_DESTINATION, NO_FAR, NOT_REMOVED,
    PACKET_RATE, QUOTA, must_stay,
};
use crate::session::rules::{PdrId, Session};
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
    if detector.fate != Fate::Forward {
        return Err(stay((record, place), octets, octets_measured, emit));
    }
    if packet.is_end_marker() {
        return match way.has(Way::RELAYED) && !way.has(Way::UNWRAP) {
            true => Ok(Passed { way, action: 0, is_measured: false }),
            false => Err(Verdict::Drop(END_MARKER)),
        };
    }
    if way.has(Way::NOT_REMOVED) {
        return Err(Verdict::Drop(NOT_REMOVED));
    }
    if way.has(Way::UNWRAP)
        && let Some(reason) = must_stay(packet)
    {
        return Err(Verdict::Drop(reason));
    }
    let Record { rules, detectors, limiters, meters, .. } = record;
    let Detector { urrs, qers, .. } = &detectors[place];
    let passed = volume(uplink, octets);
    let measure = |meters: &mut [Meter], before_qos: bool| {
        for &at in urrs {
            let (rule, meter) = (&rules.urrs[usize::from(at)], &mut meters[usize::from(at)]);
            if rule.before_qos == before_qos {
                meter.count(rule, &passed, now.cast_signed(), now.cast_signed());
            }
        }
    };
    measure(meters, true);
    *octets_measured += octets;
    check_rates(qers, (rules, limiters), (uplink, octets), (now, burst))?;
    let mut action = 0;
    for &at in urrs {
        if meters[usize::from(at)].is_closed(&rules.urrs[usize::from(at)], uplink) {
            (way, action) = beyond_quota(rules, usize::from(at), way, names)?;
        }
    }
    for &at in qers {
        let (rule, limiter) = (&rules.qers[usize::from(at)], &mut limiters[usize::from(at)]);
        limiter.take(direction, now, octets);
        if let Some(rate) = both(rule.packets)[direction] {
            limiter.packets[direction].take(now, rate);
        }
    }
    measure(meters, false);
    Ok(Passed { way, action, is_measured: true })
}

/// One packet.
#[inline]
fn volume(uplink: bool, octets: u64) -> Volume {
    let mut passed = Volume::default();
    match uplink {
        true => (passed.uplink_octets, passed.uplink_packets) = (octets, 1),
        false => (passed.downlink_octets, passed.downlink_packets) = (octets, 1),
    }
    passed
}

/// What becomes of a packet whose rule does not forward.
fn stay(
    (record, place): (&mut Record, usize),
    octets: u64,
    octets_measured: &mut u64,
    emit: &mut Emit<'_>,
) -> Verdict {
    let detector = &record.detectors[place];
    let reason = match detector.fate {
        Fate::NoFar => return Verdict::Drop(NO_FAR),
        Fate::NoDestination => return Verdict::Drop(NO_DESTINATION),
        // It forwards, and is not asked about.
        Fate::Forward | Fate::Drop => FAR_DROP,
        Fate::Wait { most, .. } if record.waiting >= most => BUFFER_FULL,
        Fate::Wait { notify, .. } => {
            record.waiting += 1;
            if notify && !record.told {
                record.told = emit.report(waits(PdrId(detector.way.pdr)));
            }
            return Verdict::Keep;
        }
    };
    note_dropped(record, place, octets, octets_measured);
    Verdict::Drop(reason)
}

/// Whether gates are open and rates have room. All rates are looked at before any has a packet
/// less.
#[inline]
fn check_rates(
    qers: &[u16],
    (rules, limiters): (&Session, &[Limiter]),
    (uplink, octets): (bool, u64),
    (now, burst): (u64, u64),
) -> Result<(), Verdict> {
    let direction = usize::from(!uplink);
    for &at in qers {
        if is_closed(&rules.qers[usize::from(at)], uplink) {
            return Err(Verdict::Drop(GATE));
        }
    }
    let guarantees = |at: u16| limiters[usize::from(at)].guarantees(direction, now, octets, burst);
    let is_guaranteed = qers.iter().any(|at| guarantees(*at));
    for &at in qers {
        let (rule, limiter) = (&rules.qers[usize::from(at)], &limiters[usize::from(at)]);
        if !is_guaranteed && !limiter.has_room(direction, now, octets, burst) {
            return Err(Verdict::Drop(BIT_RATE));
        }
        let rate = both(rule.packets)[direction];
        if rate.is_some_and(|rate| !limiter.packets[direction].has_room(now, rate)) {
            return Err(Verdict::Drop(PACKET_RATE));
        }
    }
    Ok(())
}

/// The way of a packet whose quota, by the usage rule at `urr`, is used up, and the place of the
/// forwarding action rule, from 1, that it goes by from here on.
#[cold]
fn beyond_quota(
    rules: &Session,
    urr: usize,
    way: Way,
    names: &Names,
) -> Result<(Way, u16), Verdict> {
    let far = rules.urrs[urr].quota_action;
    let far = far.and_then(|id| rules.fars.iter().position(|far| far.id == id));
    let own = rules.pdrs.iter().find(|rule| rule.id.0 == way.pdr);
    match (far, own) {
        (Some(far), Some(own)) if record::fate(Some(&rules.fars[far]), rules) == Fate::Forward => {
            Ok((record::way(own, Some(&rules.fars[far]), names), far as u16 + 1))
        }
        _ => Err(Verdict::Drop(QUOTA)),
    }
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
