//! What a usage reporting rule has measured, and when it has to report (3GPP TS 29.244
//! §5.2.2).

use super::time_of_day;
use crate::session::rules::urr::Volumes;
use crate::session::rules::{Trigger, Triggers, Urr};
use crate::session::usage::{NextReport, Usage, Volume};

/// Nanoseconds.
const SECOND: i64 = 1_000_000_000;
/// Octets after which a report that is due is asked for again.
pub const AGAIN: u64 = 1 << 16;
/// Fewest octets of a packet: an IPv4 header.
const LEAST: u64 = 20;

/// The state of one rule. Times are nanoseconds on the clock of the node, below 0 where they were
/// before it started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meter {
    /// Reports so far.
    pub sequence: u32,
    /// What has passed since the last report.
    pub volume: Volume,
    /// What has passed since quotas were granted.
    pub granted: Volume,
    /// Time of use since quotas were granted, but for the use at work.
    pub granted_time: u64,
    /// When the quotas were granted.
    pub granted_at: i64,
    /// When the measurement began.
    pub start: i64,
    /// When the first packet passed.
    pub first: Option<i64>,
    /// When the last packet passed; it stays over reports.
    pub last: Option<i64>,
    /// Time of use since the last report, but for the use at work.
    pub duration: u64,
    /// When the use at work began.
    pub running: Option<i64>,
    /// When a report is due because of its period.
    pub period_at: Option<i64>,
    /// When the monitoring time comes.
    pub monitoring_at: Option<i64>,
    /// What was measured before it came.
    pub before: Option<Box<Usage>>,
    /// Downlink packets and octets that were dropped since the last report.
    pub dropped: [u64; 2],
    /// Traffic has started.
    pub started: bool,
    /// The quota is used up, or was given back.
    pub exhausted: bool,
    /// What is due.
    pub due: Triggers,
    /// The agent has been told that something is due.
    pub told: bool,
    /// The agent knows that something will be due at a time.
    pub is_timed: bool,
}

impl Meter {
    /// The state of a new rule.
    pub fn new(rule: &Urr, now: u64, unix: Option<u64>) -> Meter {
        let now = now.cast_signed();
        let mut meter = Meter { start: now, granted_at: now, ..Meter::default() };
        meter.running = rule.immediate_start.then_some(now);
        meter.period_at = rule.period.map(|period| now.saturating_add(seconds(period)));
        meter.set_monitoring(rule, now, unix);
        meter
    }

    /// The rule is another; its counts go on.
    pub fn change(&mut self, old: &Urr, new: &Urr, now: u64, unix: Option<u64>) {
        let now = now.cast_signed();
        if old.grant != new.grant {
            (self.granted, self.granted_time, self.granted_at) = (Volume::default(), 0, now);
            // The use at work counts from now on.
            self.settle(new, now);
            self.granted_time = 0;
            self.exhausted = false;
        }
        if old.period != new.period {
            self.period_at = new.period.map(|period| now.saturating_add(seconds(period)));
        }
        if old.monitoring_time != new.monitoring_time {
            self.set_monitoring(new, now, unix);
        }
        if new.immediate_start && !old.immediate_start {
            self.running.get_or_insert(now);
        }
        self.due = self.due.and(new.triggers);
        self.told = false;
    }

    fn set_monitoring(&mut self, rule: &Urr, now: i64, unix: Option<u64>) {
        let left = |(at, unix): (u64, u64)| {
            let at = at.saturating_mul(SECOND.cast_unsigned());
            i64::try_from(at.saturating_sub(unix)).unwrap_or(i64::MAX)
        };
        let left = rule.monitoring_time.zip(unix).map(left);
        self.monitoring_at = left.map(|left| now.saturating_add(left));
    }

    /// Whether the next packet has to be looked at more closely: something is due with it, or
    /// will be at a time that follows from it.
    pub fn awaits_first(&self, rule: &Urr) -> bool {
        self.first.is_none() && has_times(rule)
            || rule.triggers.has(Trigger::StartOfTraffic) && !self.started
            || rule.method.duration && rule.inactivity.is_some()
    }

    /// Counts packets that passed; the last of them at `now`.
    pub fn count(&mut self, rule: &Urr, passed: &Volume, first: i64, now: i64) {
        if rule.paused || passed.packets() == 0 {
            return;
        }
        self.volume.add(passed);
        self.granted.add(passed);
        self.first.get_or_insert(first);
        if rule.method.duration {
            self.run(rule, first);
        }
        self.last = Some(now);
        if !self.started {
            self.started = true;
            if rule.triggers.has(Trigger::StartOfTraffic) {
                self.due = self.due.with(Trigger::StartOfTraffic);
            }
        }
    }

    /// A packet passes at `now`: time runs.
    fn run(&mut self, rule: &Urr, now: i64) {
        if let (Some(idle), Some(last)) = (rule.inactivity, self.last) {
            let stop = last.saturating_add(seconds(idle));
            if self.running.is_some() && stop < now {
                self.stop(stop);
            }
        }
        self.running.get_or_insert(now);
    }

    fn stop(&mut self, at: i64) {
        if let Some(since) = self.running.take() {
            let time = passed(since, at);
            self.duration = self.duration.saturating_add(time);
            self.granted_time = self.granted_time.saturating_add(time);
        }
    }

    /// Adds the use at work up to `now`.
    fn settle(&mut self, rule: &Urr, now: i64) {
        if self.running.is_none() {
            return;
        }
        let stop = rule.inactivity.and_then(|idle| Some(self.last?.saturating_add(seconds(idle))));
        match stop {
            Some(stop) if stop < now => self.stop(stop),
            _ => {
                self.stop(now);
                self.running = Some(now);
            }
        }
    }

    /// Sets aside what was measured before the monitoring time, if it has come by `now`.
    pub fn split(&mut self, rule: &Urr, now: u64) {
        if self.monitoring_at.is_some_and(|at| at <= now.cast_signed()) {
            self.monitoring_at = None;
            let due = self.due;
            let before = self.take(rule, now);
            self.due = due;
            let triggers = due.with(Trigger::MonitoringTime);
            self.before =
                Some(Box::new(Usage { triggers, before_monitoring_time: true, ..before }));
        }
    }

    /// Notes what is due at `now`.
    pub fn look(&mut self, rule: &Urr, now: u64) {
        let now = now.cast_signed();
        let Meter { volume, granted, .. } = *self;
        self.settle(rule, now);
        let behind = rule.monitoring_time.is_some() && self.monitoring_at.is_none();
        let or =
            |first: Volumes, then: Volumes| if behind && !then.is_none() { then } else { first };
        let time_or = |first, then: Option<u32>| if behind { then.or(first) } else { first };
        let threshold = or(rule.volume_threshold, rule.subsequent_volume_threshold);
        let quota = or(rule.volume_quota, rule.subsequent_volume_quota);
        let time_threshold = time_or(rule.time_threshold, rule.subsequent_time_threshold);
        let time_quota = time_or(rule.time_quota, rule.subsequent_time_quota);
        let reached =
            |bound: Option<u32>, time: u64| bound.is_some_and(|bound| time >= length(bound));
        self.note(rule, Trigger::VolumeThreshold, is_reached(threshold, &volume));
        self.note(rule, Trigger::TimeThreshold, reached(time_threshold, self.duration));
        let events =
            |bound: Option<u32>, count: u64| bound.is_some_and(|bound| count >= bound.into());
        self.note(rule, Trigger::EventThreshold, events(rule.event_threshold, volume.packets()));
        let (dropped_packets, dropped_octets) = (rule.dropped_packets, rule.dropped_octets);
        let dropped = dropped_packets.is_some_and(|bound| self.dropped[0] >= bound)
            || dropped_octets.is_some_and(|bound| self.dropped[1] >= bound);
        self.note(rule, Trigger::DroppedDownlink, dropped);
        if let (Some(at), Some(period)) = (self.period_at, rule.period)
            && at <= now
        {
            self.note(rule, Trigger::Periodic, true);
            // Several that have passed lead to one report.
            self.period_at = Some(next_end(at, period, now));
        }
        let idle = passed(self.last.unwrap_or(self.granted_at).max(self.granted_at), now);
        let used = [
            (Trigger::VolumeQuota, is_reached(quota, &granted)),
            (Trigger::TimeQuota, reached(time_quota, self.granted_time)),
            (Trigger::EventQuota, events(rule.event_quota, granted.packets())),
            (Trigger::QuotaHoldingTime, has_quota(rule) && reached(rule.quota_holding, idle)),
            (
                Trigger::QuotaValidityTime,
                has_quota(rule) && reached(rule.quota_validity, passed(self.granted_at, now)),
            ),
        ];
        if !self.exhausted {
            for (trigger, is_used) in used {
                self.exhausted |= is_used;
                self.note(rule, trigger, is_used);
            }
        }
        if self.started
            && rule.triggers.has(Trigger::StopOfTraffic)
            && reached(rule.inactivity, passed(self.last.unwrap_or(now), now))
        {
            self.started = false;
            self.note(rule, Trigger::StopOfTraffic, true);
        }
    }

    fn note(&mut self, rule: &Urr, trigger: Trigger, is_due: bool) {
        if is_due && rule.triggers.has(trigger) {
            self.due = self.due.with(trigger);
        }
    }

    /// When it has to be looked at again, if no packet passes.
    pub fn next_look(&self, rule: &Urr, now: u64) -> Option<u64> {
        let now = now.cast_signed();
        let left = |bound: Option<u32>, time: u64| {
            let bound = bound.filter(|_| self.running.is_some())?;
            Some(now.saturating_add_unsigned(length(bound).saturating_sub(time)))
        };
        let behind = |since: i64, bound: Option<u32>| Some(since.saturating_add(seconds(bound?)));
        let quota = has_quota(rule) && !self.exhausted;
        let idle_since = self.last.unwrap_or(self.granted_at).max(self.granted_at);
        let time_threshold =
            rule.time_threshold.into_iter().chain(rule.subsequent_time_threshold).min();
        let time_quota = rule.time_quota.into_iter().chain(rule.subsequent_time_quota).min();
        let times = [
            self.period_at.filter(|_| rule.triggers.has(Trigger::Periodic)),
            self.monitoring_at,
            left(time_threshold, self.duration)
                .filter(|_| rule.triggers.has(Trigger::TimeThreshold)),
            left(time_quota, self.granted_time).filter(|_| quota),
            behind(idle_since, rule.quota_holding).filter(|_| quota),
            behind(self.granted_at, rule.quota_validity).filter(|_| quota),
            self.last
                .and_then(|last| behind(last, rule.inactivity))
                .filter(|_| self.started && rule.triggers.has(Trigger::StopOfTraffic)),
        ];
        // What was due before the node started is due.
        times.into_iter().flatten().min().map(|at| at.max(0).cast_unsigned())
    }

    /// Whether the first packet has passed, and with it something will be due at a time that
    /// the agent does not know.
    pub fn begins_to_wait(&mut self, rule: &Urr, now: u64) -> bool {
        let begins = self.first.is_some() && !self.is_timed;
        self.is_timed |= self.first.is_some();
        begins && self.next_look(rule, now).is_some()
    }

    /// Octets that may pass before it has to be looked at.
    pub fn room(&self, rule: &Urr) -> u64 {
        if rule.paused {
            return u64::MAX;
        }
        if !self.due.is_empty() {
            return if self.told { AGAIN } else { 0 };
        }
        let behind = rule.monitoring_time.is_some() && self.monitoring_at.is_none();
        let or =
            |first: Volumes, then: Volumes| if behind && !then.is_none() { then } else { first };
        let threshold = or(rule.volume_threshold, rule.subsequent_volume_threshold);
        let quota = or(rule.volume_quota, rule.subsequent_volume_quota);
        let mut room = u64::MAX;
        if rule.triggers.has(Trigger::VolumeThreshold) {
            room = room.min(left(threshold, &self.volume));
        }
        if !self.exhausted {
            room = room.min(left(quota, &self.granted));
        }
        let events = |bound: u32, count: u64| LEAST * u64::from(bound).saturating_sub(count);
        if let Some(bound) =
            rule.event_threshold.filter(|_| rule.triggers.has(Trigger::EventThreshold))
        {
            room = room.min(events(bound, self.volume.packets()));
        }
        if let Some(bound) = rule.event_quota.filter(|_| !self.exhausted) {
            room = room.min(events(bound, self.granted.packets()));
        }
        room
    }

    /// Whether nothing may pass in a direction.
    pub fn is_closed(&self, rule: &Urr, uplink: bool) -> bool {
        if !self.exhausted {
            return false;
        }
        let Volumes { total, uplink: up, downlink: down } = rule.volume_quota;
        // A quota of one direction is used up in that direction only.
        let only = match (total, up, down) {
            (None, Some(_), None) => Some(true),
            (None, None, Some(_)) => Some(false),
            _ => None,
        };
        only.is_none_or(|of_uplink| of_uplink == uplink)
    }

    /// What has been measured until `now`; measurement begins anew.
    pub fn take(&mut self, rule: &Urr, now: u64) -> Usage {
        let now = now.cast_signed();
        self.settle(rule, now);
        let method = rule.method;
        let usage = Usage {
            urr: rule.id,
            sequence: self.sequence,
            triggers: self.due,
            volume: self.volume,
            duration: if method.duration { self.duration } else { 0 },
            start: self.start,
            end: now,
            first_packet: self.first,
            last_packet: self.last.filter(|_| self.first.is_some()),
            before_monitoring_time: false,
        };
        self.sequence = self.sequence.wrapping_add(1);
        (self.volume, self.duration, self.dropped) = (Volume::default(), 0, [0; 2]);
        (self.start, self.first, self.due) = (now, None, Triggers::NONE);
        (self.told, self.is_timed) = (false, false);
        usage
    }

    /// Reports with numbers below that of `next` were given behind the time that this state is
    /// of, the last of them at the time of `next`: what they said is not counted once more, and
    /// what had come by then does not come again.
    pub fn catch_up(&mut self, rule: &Urr, next: NextReport, now: u64) {
        // Numbers begin anew behind 2^32 reports.
        if next.number.wrapping_sub(self.sequence).cast_signed() <= 0 {
            return;
        }
        self.take(rule, now);
        (self.before, self.sequence) = (None, next.number);
        let Some(since) = next.since else { return };
        self.start = since.min(self.start);
        if let (Some(at), Some(period)) = (self.period_at, rule.period) {
            // A period that seems to end right behind the report is the one that it told of.
            let unsure = time_of_day::UNSURE.min(seconds(period) / 2);
            self.period_at = Some(next_end(at, period, since.saturating_add(unsure)));
        }
        self.monitoring_at = self.monitoring_at.filter(|at| *at > since);
    }

    /// The clock is another: it shows `now`, `away` nanoseconds behind the moment at which the one
    /// before showed `then`. Time while it was away is no time of use.
    pub fn rebase(&mut self, rule: &Urr, then: u64, now: u64, away: u64) {
        let (then, now) = (then.cast_signed(), now.cast_signed());
        self.settle(rule, then);
        let began = now.saturating_sub_unsigned(away);
        let moved = |time: &mut i64| *time = began.saturating_add(time.saturating_sub(then));
        [&mut self.granted_at, &mut self.start].into_iter().for_each(moved);
        let times = [&mut self.first, &mut self.last, &mut self.period_at, &mut self.monitoring_at];
        times.into_iter().flatten().for_each(moved);
        if let Some(before) = self.before.as_deref_mut() {
            [&mut before.start, &mut before.end].into_iter().for_each(moved);
            let packets = [&mut before.first_packet, &mut before.last_packet];
            packets.into_iter().flatten().for_each(moved);
        }
        if self.running.is_some() {
            let idle = rule.inactivity.and_then(|idle| Some((self.last?, seconds(idle))));
            let has_ended = idle.is_some_and(|(last, idle)| last.saturating_add(idle) < now);
            self.running = (!has_ended).then_some(now);
        }
    }
}

/// Nanoseconds of that many seconds.
fn seconds(seconds: u32) -> i64 {
    i64::from(seconds) * SECOND
}

/// The same, as a length of time.
fn length(seconds: u32) -> u64 {
    u64::from(seconds) * SECOND.cast_unsigned()
}

/// The first end of a period behind `now`, where one of them is at `at`.
fn next_end(at: i64, period: u32, now: i64) -> i64 {
    if at > now {
        return at;
    }
    let period = length(period.max(1));
    now.saturating_add_unsigned(period - passed(at, now) % period)
}

/// Nanoseconds from one time to another; 0 if that is earlier.
fn passed(since: i64, until: i64) -> u64 {
    until.saturating_sub(since).max(0).cast_unsigned()
}

/// Whether something may be due at a time.
fn has_times(rule: &Urr) -> bool {
    let quota = rule.time_quota.or(rule.subsequent_time_quota);
    let threshold = rule.time_threshold.or(rule.subsequent_time_threshold);
    let held = rule.quota_holding.or(rule.quota_validity);
    let is_watched = rule.period.or(rule.inactivity).is_some() || rule.monitoring_time.is_some();
    quota.or(threshold).or(held).is_some() || is_watched
}

fn has_quota(rule: &Urr) -> bool {
    !rule.volume_quota.is_none() || rule.time_quota.is_some() || rule.event_quota.is_some()
}

fn is_reached(bound: Volumes, volume: &Volume) -> bool {
    let Volumes { total, uplink, downlink } = bound;
    let reached = |bound: Option<u64>, octets: u64| bound.is_some_and(|bound| octets >= bound);
    reached(total, volume.octets())
        || reached(uplink, volume.uplink_octets)
        || reached(downlink, volume.downlink_octets)
}

/// Octets that may pass before a bound is reached.
fn left(bound: Volumes, volume: &Volume) -> u64 {
    let Volumes { total, uplink, downlink } = bound;
    let left = |bound: Option<u64>, octets: u64| {
        bound.map_or(u64::MAX, |bound| bound.saturating_sub(octets))
    };
    left(total, volume.octets())
        .min(left(uplink, volume.uplink_octets))
        .min(left(downlink, volume.downlink_octets))
}
