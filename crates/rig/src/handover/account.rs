//! What a move did to packets: delays, gaps, and how long its phases took.

use weft_dpdk::tsc;
use weft_mobility_protocol::RouteStage;

use super::control::{Mark, StepOfMove};
use super::journal::Passage;
use crate::statistics;

/// What is usual is seen in the packets of so long before a move, in microseconds; those
/// of the last of them may be caught in it.
const BEFORE: f64 = 15_000.0;
const EDGE: f64 = 1000.0;
/// So many packets in a row, behind the one that was latest, that are no later than 99 of 100 were
/// before a move, show that delays are as before.
const AS_BEFORE: usize = 20;
/// What is drawn of a move: so much before it, and behind it, in microseconds.
const DRAWN: [f64; 2] = [500.0, 1000.0];

/// The phases of a move, in order (`docs/handover.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Until target and anchor have made their entries.
    Prepare,
    /// Until the source has stopped, exported, and sent what it exported.
    Stop,
    /// Until the target owns the user.
    Contexts,
    /// Until the anchor sends downlink to the target.
    Switch,
    /// Until the radio has left the source.
    Radio,
    /// Until the source has forgotten the user.
    Release,
    /// Until only the new way is left.
    Complete,
}

impl Phase {
    /// All of them, in order.
    pub const ALL: [Phase; 7] = [
        Phase::Prepare,
        Phase::Stop,
        Phase::Contexts,
        Phase::Switch,
        Phase::Radio,
        Phase::Release,
        Phase::Complete,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Prepare => "prepare",
            Phase::Stop => "stop",
            Phase::Contexts => "contexts",
            Phase::Switch => "switch",
            Phase::Radio => "radio",
            Phase::Release => "release",
            Phase::Complete => "complete",
        }
    }

    /// What its end is seen by.
    fn end(self) -> StepOfMove {
        match self {
            Phase::Prepare => StepOfMove::Sent("Move"),
            Phase::Stop => StepOfMove::Sent("Contexts"),
            Phase::Contexts => StepOfMove::Sent("Imported"),
            Phase::Switch => StepOfMove::Routed(RouteStage::Switch),
            Phase::Radio => StepOfMove::RadioLeft,
            Phase::Release => StepOfMove::Sent("Released"),
            Phase::Complete => StepOfMove::Moved,
        }
    }
}

/// How packets of one user were disturbed; microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Disturbed {
    /// The largest delay from host to host, less the median before the move.
    pub added: f64,
    /// The same from the host to the user, and from the user to the host.
    pub added_each_way: [f64; 2],
    /// From the order until delays were as before: until the last packet that was later than 99 of
    /// 100 before the move, of those ahead of twenty in a row that were not.
    pub normal: f64,
    /// The longest time in which nothing came to the user, and to the host.
    pub gaps: [f64; 2],
}

/// A packet as it is drawn: when it came, in microseconds since the order, and its number
/// since the first that is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dot {
    /// Its number.
    pub number: u32,
    /// When it was sent, came to the user, and was back at the host.
    pub times: [f64; 3],
    /// The station that it came to the user by: 0 or 1.
    pub station: u8,
}

/// One move of all users.
#[derive(Clone, Debug)]
pub struct Handover {
    /// The order, and the end of the last move; cycles.
    ordered: u64,
    settled: u64,
    marks: Vec<Mark>,
    /// Packets that waited at gates.
    pub waited: u64,
    /// Packets that the source forwarded to the target.
    pub forwarded: u64,
    /// When the last of these left the source, in microseconds since the order.
    pub last_forwarded: Option<f64>,
    /// How packets were disturbed, of each user that had any in the move.
    pub disturbed: Vec<Disturbed>,
    /// How much later than the median before the move each packet of the move was back,
    /// in microseconds.
    pub added: Vec<f64>,
    /// The packets around the move.
    pub dots: Vec<Dot>,
}

impl Handover {
    pub(super) fn new(
        (ordered, settled): (u64, u64),
        marks: Vec<Mark>,
        (waited, forwarded, last): (u64, u64, Option<u64>),
    ) -> Handover {
        Handover {
            ordered,
            settled,
            marks,
            waited,
            forwarded,
            last_forwarded: last.map(|last| micros(ordered, last)),
            disturbed: Vec::new(),
            added: Vec::new(),
            dots: Vec::new(),
        }
    }

    /// What packets saw of a move that was ordered and had ended at these times, in cycles.
    pub fn of_packets((ordered, settled): (u64, u64), packets: &[Passage]) -> Handover {
        let mut handover = Handover::new((ordered, settled), Vec::new(), (0, 0, None));
        handover.follow(packets);
        handover
    }

    /// From the order until all users are at the target, in seconds.
    pub fn seconds(&self) -> f64 {
        micros(self.ordered, self.settled) / 1e6
    }

    /// When each phase of a user's move ended, in microseconds since the order; none of
    /// a phase that was not seen.
    pub fn ends(&self, user: u32) -> [Option<f64>; Phase::ALL.len()] {
        let mut ends = [None; Phase::ALL.len()];
        for mark in self.marks.iter().filter(|mark| mark.user == user) {
            for (phase, end) in Phase::ALL.into_iter().zip(&mut ends) {
                // What is said twice counts once.
                if mark.what == phase.end() && end.is_none() {
                    *end = Some(micros(self.ordered, mark.at));
                }
            }
        }
        ends
    }

    /// Looks at what the packets say.
    pub(super) fn follow(&mut self, packets: &[Passage]) {
        let (ordered, settled) = (self.ordered, self.settled);
        let at = |time: u64| packets.partition_point(|packet| packet.sent < time);
        let cycles = |micros: f64| (micros * tsc::hz() as f64 / 1e6) as u64;
        let before = &packets
            [at(ordered.saturating_sub(cycles(BEFORE)))..at(ordered.saturating_sub(cycles(EDGE)))];
        let during = &packets
            [at(ordered.saturating_sub(cycles(EDGE)))..at(settled.saturating_add(cycles(EDGE)))];
        let Some(usual) = Usual::of(before) else { return };
        self.added =
            during.iter().filter_map(Delays::of).map(|of| of.whole - usual.whole).collect();
        let mut by_user: Vec<_> = during.iter().collect();
        // In each user's order, as the sort is stable.
        by_user.sort_by_key(|packet| packet.user);
        let of_users = by_user.chunk_by(|a, b| a.user == b.user);
        self.disturbed = of_users.map(|of_user| usual.disturbed(ordered, of_user)).collect();
        let first = at(ordered.saturating_sub(cycles(DRAWN[0])));
        let drawn = &packets[first..at(settled.saturating_add(cycles(DRAWN[1])))];
        self.dots = (0..)
            .zip(drawn)
            .filter(|(_, packet)| packet.at_host != 0)
            .map(|(number, packet)| Dot {
                number,
                times: [packet.sent, packet.at_user, packet.at_host]
                    .map(|time| micros(ordered, time)),
                station: packet.station,
            })
            .collect();
    }
}

/// Microseconds from one time to another, which may be before it.
fn micros(from: u64, to: u64) -> f64 {
    to.wrapping_sub(from) as i64 as f64 * 1e6 / tsc::hz() as f64
}

/// How long a packet was under way, in microseconds.
struct Delays {
    whole: f64,
    each_way: [f64; 2],
}

impl Delays {
    /// Of a packet that is back.
    fn of(packet: &Passage) -> Option<Delays> {
        (packet.at_host != 0).then(|| Delays {
            whole: micros(packet.sent, packet.at_host),
            each_way: [micros(packet.sent, packet.at_user), micros(packet.at_user, packet.at_host)],
        })
    }
}

/// Delays of packets before a move, in microseconds.
struct Usual {
    /// The medians, and the longest.
    whole: f64,
    each_way: [f64; 2],
    /// What 99 of 100 keep to.
    p99: f64,
}

impl Usual {
    fn of(packets: &[Passage]) -> Option<Usual> {
        let delays: Vec<_> = packets.iter().filter_map(Delays::of).collect();
        let whole: Vec<_> = delays.iter().map(|of| of.whole).collect();
        let way = |way: usize| {
            statistics::median(&delays.iter().map(|of| of.each_way[way]).collect::<Vec<_>>())
        };
        Some(Usual {
            whole: statistics::median(&whole)?,
            each_way: [way(0)?, way(1)?],
            p99: statistics::percentile(&whole, 99.0)?,
        })
    }

    /// How packets of one user, in order, were disturbed by a move.
    fn disturbed(&self, ordered: u64, packets: &[&Passage]) -> Disturbed {
        let mut disturbed = Disturbed::default();
        let mut last: Option<&Passage> = None;
        for packet in packets {
            let Some(delays) = Delays::of(packet) else { continue };
            disturbed.added = disturbed.added.max(delays.whole - self.whole);
            for way in 0..2 {
                let added = delays.each_way[way] - self.each_way[way];
                disturbed.added_each_way[way] = disturbed.added_each_way[way].max(added);
            }
            if let Some(last) = last.replace(packet) {
                let gaps = [(last.at_user, packet.at_user), (last.at_host, packet.at_host)];
                for (gap, (from, to)) in disturbed.gaps.iter_mut().zip(gaps) {
                    *gap = gap.max(micros(from, to));
                }
            }
        }
        disturbed.normal = self.normal_again(ordered, packets);
        disturbed
    }

    /// See [`Disturbed::normal`].
    fn normal_again(&self, ordered: u64, packets: &[&Passage]) -> f64 {
        let whole = |packet: &Passage| Delays::of(packet).map_or(0.0, |delays| delays.whole);
        let moved: Vec<_> = packets.iter().filter(|packet| packet.at_host > ordered).collect();
        let latest =
            moved.iter().enumerate().max_by(|(_, a), (_, b)| whole(a).total_cmp(&whole(b)));
        let Some((latest, _)) = latest.filter(|(_, packet)| whole(packet) > self.p99) else {
            return 0.0;
        };
        let (mut last, mut as_before) = (latest, 0);
        for (number, packet) in moved.iter().enumerate().skip(latest) {
            if whole(packet) > self.p99 {
                (last, as_before) = (number, 0);
            } else {
                as_before += 1;
            }
            if as_before == AS_BEFORE {
                break;
            }
        }
        micros(ordered, moved[last].at_host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cycles of so many microseconds.
    fn at(micros: f64) -> u64 {
        (1e9 + micros * tsc::hz() as f64 / 1e6) as u64
    }

    /// A packet every 100 µs that takes 5 µs each way, but for those that are sent in the
    /// first 400 µs of a move: they are held until its end and 10 µs.
    fn packets() -> Vec<Passage> {
        let times = (-200..100).map(|number| f64::from(number) * 100.0);
        times
            .map(|sent| {
                let held = (0.0..400.0).contains(&sent);
                let user = if held { 410.0 } else { sent + 5.0 };
                Passage {
                    user: 0,
                    sent: at(sent),
                    at_user: at(user),
                    at_host: at(user + 5.0),
                    station: u8::from(sent >= 0.0),
                }
            })
            .collect()
    }

    #[test]
    fn a_move_is_seen_in_the_packets() {
        let eal = weft_dpdk::Eal::start(&weft_dpdk::EalOptions::default());
        assert!(eal.is_ok(), "the counter's rate is not known");
        let mark = |what, micros| Mark { user: 0, at: at(micros), what };
        let marks = vec![
            mark(StepOfMove::Routed(RouteStage::Prepare), 40.0),
            mark(StepOfMove::Sent("Move"), 50.0),
            mark(StepOfMove::Routed(RouteStage::Switch), 300.0),
            mark(StepOfMove::Routed(RouteStage::Switch), 350.0),
            mark(StepOfMove::Moved, 400.0),
        ];
        let mut handover = Handover::new((at(0.0), at(400.0)), marks, (4, 0, None));
        handover.follow(&packets());
        let [one] = handover.disturbed[..] else { panic!("{handover:?}") };
        let close = |a: f64, b: f64| (a - b).abs() < 0.1;
        assert!(close(one.added, 405.0), "{one:?}");
        assert!(close(one.added_each_way[0], 405.0) && close(one.added_each_way[1], 0.0));
        assert!(close(one.normal, 415.0), "{one:?}");
        // The last one before came 95 µs before the order.
        assert!(close(one.gaps[0], 505.0) && close(one.gaps[1], 505.0), "{one:?}");
        assert!(close(handover.ends(0)[0].unwrap(), 50.0));
        assert!(close(handover.ends(0)[3].unwrap(), 300.0));
        assert_eq!(handover.ends(0)[1], None);
        assert!(close(handover.seconds(), 400e-6));
        assert!(handover.dots.iter().any(|dot| close(dot.times[0], 0.0) && dot.station == 1));
    }
}
