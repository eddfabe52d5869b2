//! What became of requests, and what the user plane asked for.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

/// Longest delay that is told apart, in nanoseconds.
const LONGEST: u64 = 600_000_000_000;

/// Kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Session establishment.
    Establish,
    /// Session deletion.
    Delete,
    /// Modification: downlink packets are buffered.
    Idle,
    /// Modification: downlink packets are forwarded again.
    ServiceRequest,
    /// Modification: another station, with an End Marker.
    Handover,
    /// Modification: all URRs report.
    Query,
    /// Association setup.
    Associate,
    /// Association release.
    Release,
    /// Heartbeat.
    Heartbeat,
}

impl Kind {
    /// Those that a load is made of.
    pub const LOAD: [Kind; 6] = [
        Kind::Establish,
        Kind::Delete,
        Kind::Idle,
        Kind::ServiceRequest,
        Kind::Handover,
        Kind::Query,
    ];
    /// All of them.
    pub const ALL: [Kind; 9] = [
        Kind::Establish,
        Kind::Delete,
        Kind::Idle,
        Kind::ServiceRequest,
        Kind::Handover,
        Kind::Query,
        Kind::Associate,
        Kind::Release,
        Kind::Heartbeat,
    ];

    /// What a summary calls it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Establish => "establish",
            Kind::Delete => "delete",
            Kind::Idle => "idle",
            Kind::ServiceRequest => "service request",
            Kind::Handover => "handover",
            Kind::Query => "query",
            Kind::Associate => "associate",
            Kind::Release => "release",
            Kind::Heartbeat => "heartbeat",
        }
    }
}

/// Requests of one kind. Repetitions are the same request.
#[derive(Clone, Debug)]
pub struct Requests {
    /// Sent.
    pub sent: u64,
    /// Sent again for want of an answer.
    pub repeated: u64,
    /// Answered.
    pub answered: u64,
    /// Answered later than the profile permits.
    pub late: u64,
    /// Not answered, however often they were sent.
    pub lost: u64,
    /// Answered with another cause than acceptance (TS 29.244 §8.2.1), by cause; 0 is none.
    pub refused: BTreeMap<u8, u64>,
    /// From the first sending to the answer, in nanoseconds.
    pub delays: Histogram<u64>,
}

impl Default for Requests {
    fn default() -> Self {
        // The bounds are right, so this cannot fail; a histogram without a bound is as good.
        let delays = Histogram::new_with_bounds(1, LONGEST, 3)
            .unwrap_or_else(|_| Histogram::new(3).expect("three digits are permitted"));
        Requests {
            sent: 0,
            repeated: 0,
            answered: 0,
            late: 0,
            lost: 0,
            refused: BTreeMap::new(),
            delays,
        }
    }
}

impl Requests {
    /// Takes an answer after `delay`; later than `within` is late.
    pub fn answer(&mut self, delay: Duration, within: Duration) {
        self.answered += 1;
        self.late += u64::from(delay > within);
        self.delays.saturating_record((delay.as_nanos() as u64).max(1));
    }

    /// The delay that so many of a hundred answers do not exceed.
    pub fn percentile(&self, percent: f64) -> Duration {
        Duration::from_nanos(self.delays.value_at_quantile(percent / 100.0))
    }
}

/// What answers and reports say that cannot be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wrong {
    /// Datagrams that are no message, or none that a control plane gets.
    pub malformed: u64,
    /// Answers to nothing that waits; those to a repetition are none of them.
    pub unasked: u64,
    /// Answers whose SEID is not that of the session's control plane end.
    pub seid: u64,
    /// Establishments that were accepted without an F-SEID, or without an F-TEID that the
    /// user plane was to choose.
    pub without_tunnel: u64,
    /// F-TEIDs that another session has.
    pub tunnel_taken: u64,
    /// Usage reports whose number (UR-SEQN) does not follow that of the one before.
    pub report_number: u64,
}

impl Wrong {
    /// All of them.
    pub fn total(&self) -> u64 {
        let Wrong { malformed, unasked, seid, without_tunnel, tunnel_taken, report_number } = self;
        malformed + unasked + seid + without_tunnel + tunnel_taken + report_number
    }
}

/// What the user plane asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Heartbeats.
    pub heartbeats: u64,
    /// Session reports with a Downlink Data Report.
    pub downlink_data: u64,
    /// Session reports with usage.
    pub usage: u64,
    /// Other session reports.
    pub other_reports: u64,
    /// Session reports of sessions that are not there.
    pub unknown_session: u64,
    /// Requests that came again.
    pub repeated: u64,
    /// Requests about the association or the node.
    pub node: u64,
}

/// All that a run tells.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// By kind, in the order of [`Kind::ALL`].
    pub requests: [Requests; 9],
    /// Those that the load was made of, of all kinds: without the establishments before it and
    /// the deletions behind it, which come as fast as they are answered.
    pub load: Requests,
    /// Requests that were due and could not be sent: too many waited, or no session was in
    /// the state for them.
    pub unsent: u64,
    /// What cannot be.
    pub wrong: Wrong,
    /// What the user plane asked for.
    pub asked: Asked,
    /// How often the user plane said by its Recovery Time Stamp that it had restarted.
    pub restarts: u64,
    /// Octets of users that were reported: uplink, downlink, total.
    pub octets: [u64; 3],
    /// The same of packets, as far as the user plane counts them.
    pub packets: [u64; 3],
    /// How long all sessions took to be established, once the last was answered.
    pub establishing: Option<Duration>,
    /// How long the load lasted.
    pub loading: Option<Duration>,
    /// How long deletion of those that were there took, and how many were deleted.
    pub deleting: Option<Duration>,
    /// Sessions that were deleted behind the load.
    pub deleted_at_end: u64,
}

impl Statistics {
    /// Requests of one kind.
    pub fn of(&self, kind: Kind) -> &Requests {
        &self.requests[kind as usize]
    }

    /// The same, to be changed.
    pub fn of_mut(&mut self, kind: Kind) -> &mut Requests {
        &mut self.requests[kind as usize]
    }

    /// Counts something of a request: for its kind, and for the load if it is of it.
    pub(crate) fn count(&mut self, kind: Kind, is_load: bool, count: impl Fn(&mut Requests)) {
        count(self.of_mut(kind));
        if is_load {
            count(&mut self.load);
        }
    }

    /// The sum over all kinds of something.
    pub fn sum(&self, what: impl Fn(&Requests) -> u64) -> u64 {
        self.requests.iter().map(what).sum()
    }

    /// Whether nothing was lost, refused, late or wrong.
    pub fn is_clean(&self) -> bool {
        let bad = self.sum(|one| one.lost + one.late + one.refused.values().sum::<u64>());
        bad == 0 && self.wrong.total() == 0 && self.unsent == 0 && self.restarts == 0
    }
}
