//! When sessions are asked what is due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weft_functions::session::rules::{PdrId, Session};

use super::SessionId;

/// Times in nanoseconds at which something is to be done. A session may have several: what
/// does not hold any more is passed over when its time comes.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    questions: BinaryHeap<Reverse<(u64, SessionId)>>,
    reports: BinaryHeap<Reverse<(u64, SessionId, PdrId)>>,
}

impl Timers {
    /// Nothing is to be done any more.
    pub fn clear(&mut self) {
        self.questions.clear();
        self.reports.clear();
    }

    /// The session is asked at `time`.
    pub fn ask_at(&mut self, time: u64, session: SessionId) {
        self.questions.push(Reverse((time, session)));
    }

    /// The next session that is to be asked by `now`, and when that was due.
    pub fn due(&mut self, now: u64) -> Option<(u64, SessionId)> {
        let Reverse((time, session)) = *self.questions.peek()?;
        if time > now {
            return None;
        }
        self.questions.pop();
        Some((time, session))
    }

    /// That a packet waits is told at `time`.
    pub fn tell_at(&mut self, time: u64, session: SessionId, rule: PdrId) {
        self.reports.push(Reverse((time, session, rule)));
    }

    /// The next session of which is to be told by `now` that a packet waits.
    pub fn waiting(&mut self, now: u64) -> Option<(SessionId, PdrId)> {
        let Reverse((time, session, rule)) = *self.reports.peek()?;
        if time > now {
            return None;
        }
        self.reports.pop();
        Some((session, rule))
    }
}

/// Whether something of a session may be due though no packet passes.
pub(crate) fn has_timers(rules: &Session) -> bool {
    let of_rule = rules.urrs.iter().any(|rule| {
        rule.period.is_some()
            || rule.quota_holding.is_some()
            || rule.quota_validity.is_some()
            || rule.monitoring_time.is_some()
            || rule.immediate_start && (rule.time_threshold.is_some() || rule.time_quota.is_some())
    });
    of_rule || rules.inactivity.is_some()
}

/// The same of a session that has been used before: its use may go on.
pub(crate) fn may_be_due(rules: &Session) -> bool {
    let is_timed = rules.urrs.iter().any(|rule| {
        let threshold = rule.time_threshold.or(rule.subsequent_time_threshold);
        let quota = rule.time_quota.or(rule.subsequent_time_quota);
        threshold.or(quota).or(rule.inactivity).is_some()
    });
    is_timed || has_timers(rules)
}
