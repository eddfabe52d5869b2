//! When packets are due.

use crate::random::Random;
use crate::source::link::link_bits;
use crate::source::load::{Arrivals, Rate};

/// So late a packet is still sent, in seconds. What a source that was held up
/// for longer has missed it does not send: it would come as a burst that the
/// rate does not have.
const PATIENCE: f64 = 0.02;
/// So many packets may always wait, however slow the pace is.
const MAY_WAIT: f64 = 32.0;

/// The moments at which packets are due, against the time-stamp counter.
/// Moments are counted in cycles since the first call.
#[derive(Debug)]
pub(crate) struct Pace {
    cycles: Cycles,
    /// Mean gap behind a packet.
    mean_gap: f64,
    arrivals: Arrivals,
    /// How late a packet may be.
    patience: f64,
    start: Option<u64>,
    /// When the next packet is due.
    due: f64,
    /// Packets of the present burst that were sent, and the gap behind them.
    burst: (u32, f64),
    random: Random,
}

/// Of what the gap behind a packet follows.
#[derive(Clone, Copy, Debug)]
enum Cycles {
    PerPacket(f64),
    PerBit(f64),
}

impl Pace {
    /// A pace of `rate`, on a clock of `hz` cycles per second, for packets that
    /// take `mean_bits` of a link.
    pub fn new(rate: Rate, arrivals: Arrivals, mean_bits: f64, hz: u64, random: Random) -> Pace {
        let hz = hz as f64;
        let cycles = match rate {
            Rate::Packets(rate) => Cycles::PerPacket(hz / rate.max(0.0)),
            Rate::Link { bits, share } => Cycles::PerBit(hz / (bits as f64 * share.max(0.0))),
            Rate::Unlimited => Cycles::PerPacket(0.0),
        };
        let mean_gap = match cycles {
            Cycles::PerPacket(cycles) => cycles,
            Cycles::PerBit(cycles) => cycles * mean_bits,
        };
        let patience = (hz * PATIENCE).max(MAY_WAIT * mean_gap);
        let mut pace = Pace {
            cycles,
            mean_gap,
            arrivals,
            patience,
            start: None,
            due: 0.0,
            burst: (0, 0.0),
            random,
        };
        // As the first packet of a burst or of all, a packet has its gap before it.
        pace.due = mean_gap;
        pace
    }

    /// Whether there is a set gap between packets.
    pub fn is_limited(&self) -> bool {
        self.mean_gap > 0.0
    }

    /// The moment of cycle `now`. The first call starts the clock.
    #[inline]
    pub fn moment(&mut self, now: u64) -> f64 {
        let start = *self.start.get_or_insert(now);
        now.saturating_sub(start) as f64
    }

    /// Whether a packet is due at `moment`.
    #[inline]
    pub fn is_due(&self, moment: f64) -> bool {
        self.due <= moment
    }

    /// Goes on behind a packet of `bytes`; returns when that was due.
    #[inline]
    pub fn pass(&mut self, bytes: usize) -> f64 {
        let due = self.due;
        let gap = match self.cycles {
            Cycles::PerPacket(cycles) => cycles,
            Cycles::PerBit(cycles) => cycles * link_bits(bytes) as f64,
        };
        match self.arrivals {
            Arrivals::Constant => self.due += gap,
            Arrivals::Poisson => self.due += gap * self.random.exponential(),
            Arrivals::Burst(count) => {
                self.burst = (self.burst.0 + 1, self.burst.1 + gap);
                if self.burst.0 >= count {
                    self.due += self.burst.1;
                    self.burst = (0, 0.0);
                }
            }
        }
        due
    }

    /// Gives up what is too late at `moment`; returns how many packets that are,
    /// at the mean gap.
    #[inline]
    pub fn give_up(&mut self, moment: f64) -> u64 {
        let beyond = moment - self.due - self.patience;
        if beyond < self.mean_gap || !self.is_limited() { 0 } else { self.skip(beyond) }
    }

    /// Ends the pace: returns how many packets wait at `moment`; nothing more is
    /// due.
    pub fn stop(&mut self, moment: f64) -> u64 {
        let waiting = if self.is_due(moment) && self.is_limited() {
            self.skip(moment - self.due) + 1
        } else {
            0
        };
        self.due = f64::INFINITY;
        waiting
    }

    /// Leaves out the packets of so many cycles.
    #[cold]
    fn skip(&mut self, cycles: f64) -> u64 {
        let count = (cycles / self.mean_gap).floor();
        self.due += count * self.mean_gap;
        count as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HZ: u64 = 2_000_000_000;

    fn seconds(seconds: f64) -> f64 {
        seconds * HZ as f64
    }

    fn pace(rate: Rate, arrivals: Arrivals) -> Pace {
        Pace::new(rate, arrivals, link_bits(60) as f64, HZ, Random::new(1))
    }

    fn constant(rate: f64) -> Pace {
        pace(Rate::Packets(rate), Arrivals::Constant)
    }

    /// How many packets of `bytes` are due at `moment`.
    fn due(pace: &mut Pace, moment: f64, bytes: usize) -> u64 {
        let mut count = 0;
        while pace.is_due(moment) {
            pace.pass(bytes);
            count += 1;
        }
        count
    }

    #[test]
    fn packets_are_due_at_the_rate() {
        let mut pace = constant(1_000_000.0);
        let counts: Vec<u64> =
            (1..=1_000_000).map(|step| due(&mut pace, f64::from(step) * 2_000.0, 60)).collect();
        assert_eq!(counts.iter().sum::<u64>(), 1_000_000);
        assert!(counts.iter().all(|count| *count == 1));
    }

    #[test]
    fn a_link_is_shared_by_bits() {
        let half = Rate::Link { bits: 1_000_000_000, share: 0.5 };
        // 64 bytes with the check sequence: 84 on the link.
        assert_eq!(due(&mut pace(half, Arrivals::Constant), seconds(1.0), 60), 744_047);
        let mut long = pace(half, Arrivals::Constant);
        // 1538 on the link, but for the gap before the first.
        assert_eq!(due(&mut long, seconds(1.0), 1514), 40_638);
    }

    #[test]
    fn random_gaps_keep_the_rate_and_spread() {
        let mut pace = pace(Rate::Packets(1e6), Arrivals::Poisson);
        let mut before = 0.0;
        let gaps: Vec<f64> = (0..100_000)
            .map(|_| {
                let at = pace.pass(60);
                at - std::mem::replace(&mut before, at)
            })
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((mean / 2_000.0 - 1.0).abs() < 0.02, "{mean}");
        let longer = gaps.iter().filter(|gap| **gap > 2_000.0).count() as f64 / gaps.len() as f64;
        assert!((longer - (-1.0_f64).exp()).abs() < 0.01, "{longer}");
    }

    #[test]
    fn a_burst_comes_at_once() {
        let mut pace = pace(Rate::Packets(1e6), Arrivals::Burst(4));
        assert_eq!(due(&mut pace, 1_999.0, 60), 0);
        assert_eq!(due(&mut pace, 2_000.0, 60), 4);
        assert_eq!(due(&mut pace, 9_999.0, 60), 0);
        assert_eq!(due(&mut pace, 10_000.0, 60), 4);
    }

    #[test]
    fn what_is_too_late_is_given_up() {
        let mut pace = constant(10_000.0);
        assert_eq!(pace.give_up(seconds(0.02)), 0);
        assert_eq!(pace.give_up(seconds(1.000_01)), 9_799);
        assert_eq!(pace.give_up(seconds(1.000_01)), 0);
        assert_eq!(pace.stop(seconds(1.000_01)), 201);
        assert_eq!(due(&mut pace, seconds(1e6), 60), 0);
        assert_eq!(pace.stop(seconds(1e6)), 0);
    }

    #[test]
    fn a_slow_pace_does_not_give_up_single_packets() {
        let mut pace = constant(1.0);
        assert_eq!(due(&mut pace, seconds(0.9), 60), 0);
        assert_eq!(pace.give_up(seconds(5.5)), 0);
        assert_eq!(due(&mut pace, seconds(5.5), 60), 5);
    }

    #[test]
    fn the_ends_of_the_scale() {
        let mut never = constant(0.0);
        assert_eq!(due(&mut never, seconds(1e6), 60), 0);
        assert_eq!((never.give_up(seconds(1e6)), never.stop(seconds(1e6))), (0, 0));
        let mut always = pace(Rate::Unlimited, Arrivals::Constant);
        assert!(always.is_due(0.0) && !always.is_limited());
        always.pass(60);
        assert!(always.is_due(0.0));
        assert_eq!((always.give_up(seconds(9.0)), always.stop(seconds(9.0))), (0, 0));
        assert!(!always.is_due(seconds(9.0)));
    }
}
