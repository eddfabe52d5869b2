//! Users that a control plane sets up: `weft smf` drives a node by PFCP (3GPP TS 29.244) over UDP
//! on loopback, packets pass in the sessions' tunnels meanwhile, and what the node reports as
//! their usage is held against what the generator has counted.

mod drive;

use serde::Serialize;
use weft_smf::Kind;

pub use self::drive::{Means, run};

use self::drive::Outcome;
use super::check::Check;
use super::scene::IP_BYTES;
use crate::number::{count, counted, plural};

/// What came of it. Of two numbers the first is uplink, the second downlink.
#[derive(Clone, Debug, Serialize)]
pub struct SessionsReport {
    /// Sessions that were established, each with 2 PDRs, 2 FARs, a QER and a URR.
    pub sessions: u64,
    /// Seconds until all were there.
    pub establishing_seconds: f64,
    /// Requests of the control plane, and those that were lost, refused or answered wrongly.
    pub requests: u64,
    pub failed: u64,
    /// Session changes while packets passed.
    pub handovers: u64,
    pub queries: u64,
    /// Sessions that the node still has at the end.
    pub left: u64,
    /// Packets that were sent, that arrived, and that the generator had no room for.
    pub sent: [u64; 2],
    pub delivered: [u64; 2],
    pub missed: [u64; 2],
    /// Packets that the node dropped.
    pub dropped: u64,
    /// Packets that were damaged, doubled, overtaken, or arrived with wrong addresses.
    pub spoilt: u64,
    /// Packets to users in another tunnel than the control plane has set.
    pub wrong_tunnel: u64,
    /// End Markers (TS 29.281 §7.3.2).
    pub end_markers: u64,
    /// Usage that the node has reported.
    pub reported_packets: [u64; 2],
    pub reported_octets: [u64; 2],
}

impl SessionsReport {
    fn new(outcome: &Outcome) -> SessionsReport {
        let Outcome { statistics, streams, wrong_tunnel, end_markers, unreadable, .. } = outcome;
        let of = |kind| statistics.of(kind);
        let refused = statistics.sum(|one| one.refused.values().sum());
        let spoilt = streams
            .each_ref()
            .map(|(_, stream)| stream.duplicated + stream.reordered + stream.misaddressed);
        // An End Marker is none of the packets that the generator sends.
        let unreadable = unreadable.saturating_sub(*end_markers);
        SessionsReport {
            sessions: of(Kind::Establish).answered,
            establishing_seconds: statistics.establishing.unwrap_or_default().as_secs_f64(),
            requests: statistics.sum(|one| one.sent),
            failed: statistics.sum(|one| one.lost) + refused + statistics.wrong.total(),
            handovers: of(Kind::Handover).answered,
            queries: of(Kind::Query).answered,
            left: outcome.left,
            sent: streams.each_ref().map(|(tally, _)| tally.sent),
            delivered: streams.each_ref().map(|(_, stream)| stream.received),
            missed: outcome.missed,
            dropped: outcome.dropped,
            spoilt: spoilt.iter().sum::<u64>() + unreadable,
            wrong_tunnel: *wrong_tunnel,
            end_markers: *end_markers,
            reported_packets: [statistics.packets[0], statistics.packets[1]],
            reported_octets: [statistics.octets[0], statistics.octets[1]],
        }
    }

    /// That the control plane got all that it asked for, and packets what it set.
    pub fn checks(&self) -> [Check; 3] {
        [self.check_requests(), self.check_packets(), self.check_usage()]
    }

    fn check_requests(&self) -> Check {
        let SessionsReport { requests, failed, left, sessions, .. } = *self;
        Check {
            name: "the control plane got all that it asked for",
            passed: sessions > 0 && failed + left == 0,
            numbers: format!(
                "{} of {} were lost, refused or answered wrongly; {} left at the end",
                count(failed),
                format_args!("{} {}", count(requests), plural(requests, "request")),
                counted(left, "session"),
            ),
        }
    }

    fn check_packets(&self) -> Check {
        let [sent, delivered, missed] =
            [self.sent, self.delivered, self.missed].map(|both| both.iter().sum::<u64>());
        let SessionsReport { dropped, spoilt, wrong_tunnel, end_markers, handovers, .. } = *self;
        // The generator may have had no room for an End Marker as well.
        let known = delivered + dropped + missed.saturating_sub(self.lost_markers());
        let is_complete = known <= sent && sent <= delivered + dropped + missed;
        let has_markers = (handovers.saturating_sub(missed)..=handovers).contains(&end_markers);
        Check {
            name: "sessions carried every packet in its tunnel",
            passed: delivered > 0 && is_complete && has_markers && spoilt + wrong_tunnel == 0,
            numbers: format!(
                "{} sent = {} delivered + {} dropped, {} in a wrong tunnel, {} spoilt; {} of {}",
                count(sent),
                count(delivered),
                count(dropped + missed),
                count(wrong_tunnel),
                count(spoilt),
                counted(end_markers, "End Marker"),
                count(handovers),
            ),
        }
    }

    /// End Markers that the generator had no room for.
    fn lost_markers(&self) -> u64 {
        self.handovers.saturating_sub(self.end_markers)
    }

    fn check_usage(&self) -> Check {
        let lost = self.dropped + self.missed.iter().sum::<u64>();
        let agrees = |way: usize| {
            // What was lost may have been counted before.
            let (packets, arrived) = (self.reported_packets[way], self.delivered[way]);
            let octets = packets * IP_BYTES as u64;
            (arrived..=arrived + lost).contains(&packets) && self.reported_octets[way] == octets
        };
        let [up, down] = self.reported_packets.map(count);
        let [up_octets, down_octets] = self.reported_octets.map(count);
        let [up_arrived, down_arrived] = self.delivered.map(count);
        Check {
            name: "usage reports are what the generator counted",
            passed: self.delivered.iter().all(|packets| *packets > 0) && agrees(0) && agrees(1),
            numbers: format!(
                "up {up} packets ({up_octets} octets) of {up_arrived}, \
                 down {down} ({down_octets}) of {down_arrived}"
            ),
        }
    }

    /// What it came to, in words.
    pub fn text(&self) -> String {
        let [up, down] = self.reported_packets.map(count);
        let seconds = self.establishing_seconds.max(1e-9);
        let sent = self.sent.iter().sum();
        format!(
            "sessions: a control plane (weft smf) set up {} {} by PFCP in {:.2} s, {} a second\n\
             {} {} went up and down in their tunnels; meanwhile {} times one moved to another\n\
             base station, with an End Marker, and {} times one was asked for its usage\n\
             reported: {up} packets up, {down} down; then all were deleted\n",
            count(self.sessions),
            plural(self.sessions, "user"),
            self.establishing_seconds,
            count((self.sessions as f64 / seconds) as u64),
            count(sent),
            plural(sent, "packet"),
            count(self.handovers),
            count(self.queries),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> SessionsReport {
        let octets = |packets: u64| packets * IP_BYTES as u64;
        SessionsReport {
            sessions: 2,
            establishing_seconds: 0.5,
            requests: 9,
            failed: 0,
            handovers: 3,
            queries: 1,
            left: 0,
            sent: [10, 20],
            delivered: [10, 20],
            missed: [0, 0],
            dropped: 0,
            spoilt: 0,
            wrong_tunnel: 0,
            end_markers: 3,
            reported_packets: [10, 20],
            reported_octets: [octets(10), octets(20)],
        }
    }

    fn verdicts(report: &SessionsReport) -> [bool; 3] {
        report.checks().map(|check| check.passed)
    }

    #[test]
    fn what_agrees_passes() {
        assert_eq!(verdicts(&report()), [true; 3]);
        assert!(report().text().contains("set up 2 users by PFCP in 0.50 s, 4 a second"));
    }

    #[test]
    fn a_session_that_is_left_and_a_request_that_failed_are_told() {
        assert!(!verdicts(&SessionsReport { left: 1, ..report() })[0]);
        assert!(!verdicts(&SessionsReport { failed: 1, ..report() })[0]);
    }

    #[test]
    fn a_packet_too_few_or_too_many_is_told() {
        let lost = SessionsReport { delivered: [10, 19], ..report() };
        assert_eq!(verdicts(&lost), [true, false, false]);
        let dropped = SessionsReport { dropped: 1, ..lost };
        assert_eq!(verdicts(&dropped), [true; 3], "it may have been counted, or not");
        assert!(!verdicts(&SessionsReport { wrong_tunnel: 1, ..report() })[1]);
        assert!(!verdicts(&SessionsReport { end_markers: 2, ..report() })[1]);
        assert!(!verdicts(&SessionsReport { end_markers: 4, ..report() })[1]);
    }

    #[test]
    fn usage_is_right_to_the_octet() {
        let [up, down] = report().reported_octets;
        assert!(!verdicts(&SessionsReport { reported_octets: [up, down + 1], ..report() })[2]);
        assert!(!verdicts(&SessionsReport { reported_packets: [11, 20], ..report() })[2]);
    }
}
