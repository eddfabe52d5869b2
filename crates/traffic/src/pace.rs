//! When packets are due.

/// So late a packet is still sent, in seconds. What a source that was held up
/// for longer has missed it does not send: it would come as a burst that the
/// rate does not have.
const PATIENCE: f64 = 0.02;

/// A steady rate, against the time-stamp counter.
#[derive(Debug)]
pub(crate) struct Pace {
    packets_per_cycle: f64,
    /// Packets that may wait.
    most_waiting: u64,
    /// When it began.
    start: Option<u64>,
    /// Packets that were due so far, sent or not.
    passed: u64,
}

/// What is due at some moment; packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Due {
    /// To be sent now.
    pub now: u64,
    /// Too late to be sent.
    pub too_late: u64,
}

impl Pace {
    /// `rate` packets per second of `hz` cycles.
    pub fn new(rate: u64, hz: u64) -> Pace {
        let rate = rate as f64;
        Pace {
            packets_per_cycle: rate / hz as f64,
            most_waiting: (rate * PATIENCE).ceil() as u64,
            start: None,
            passed: 0,
        }
    }

    /// What is due at cycle `now` and was not due before; at most `most` packets
    /// to be sent, others wait. The first call starts the clock.
    #[inline]
    pub fn due(&mut self, now: u64, most: u64) -> Due {
        let waiting = self.waiting(now);
        let too_late = waiting.saturating_sub(self.most_waiting.max(most));
        let due = Due { now: (waiting - too_late).min(most), too_late };
        self.passed += due.now + due.too_late;
        due
    }

    /// Ends the pace: returns what waits at cycle `now`; nothing more is due.
    pub fn stop(&mut self, now: u64) -> u64 {
        let waiting = self.waiting(now);
        self.packets_per_cycle = 0.0;
        waiting
    }

    /// Packets due by cycle `now` that were not given out yet.
    #[inline]
    fn waiting(&mut self, now: u64) -> u64 {
        let start = *self.start.get_or_insert(now);
        let all = (now.saturating_sub(start) as f64 * self.packets_per_cycle) as u64;
        all.saturating_sub(self.passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HZ: u64 = 2_000_000_000;

    fn seconds(seconds: f64) -> u64 {
        5_000 + (seconds * HZ as f64) as u64
    }

    /// A pace that began at `seconds(0)`.
    fn pace(rate: u64) -> Pace {
        let mut pace = Pace::new(rate, HZ);
        assert_eq!(pace.due(seconds(0.0), 32), Due::default());
        pace
    }

    #[test]
    fn packets_are_due_at_the_rate() {
        let mut pace = pace(1_000_000);
        let due = (1..=1_000_000).map(|step| pace.due(5_000 + step * 2_000, 32));
        let due: Vec<u64> = due.map(|due| due.now).collect();
        assert_eq!(due.iter().sum::<u64>(), 1_000_000);
        assert!(due.iter().all(|due| (0..=2).contains(due)));
    }

    #[test]
    fn what_is_late_is_made_up_for_in_bursts() {
        let mut pace = pace(10_000);
        let late = seconds(0.008_001);
        assert_eq!(pace.due(late, 32), Due { now: 32, too_late: 0 });
        assert_eq!(pace.due(late, 64), Due { now: 48, too_late: 0 });
        assert_eq!(pace.due(late, 32), Due::default());
    }

    #[test]
    fn what_is_too_late_is_given_up() {
        let mut pace = pace(10_000);
        assert_eq!(pace.due(seconds(1.000_01), 32), Due { now: 32, too_late: 9_800 });
        assert_eq!(pace.due(seconds(0.5), 32), Due::default(), "time does not go back");
        assert_eq!(pace.stop(seconds(1.000_01)), 168);
        assert_eq!(pace.due(seconds(2.0), 32), Due::default());
        assert_eq!(pace.stop(seconds(2.0)), 0);
    }

    #[test]
    fn a_slow_pace_still_sends_whole_bursts() {
        let mut pace = pace(1);
        assert_eq!(pace.due(seconds(0.9), 32), Due::default());
        assert_eq!(pace.due(seconds(5.5), 32), Due { now: 5, too_late: 0 });
        let mut never = Pace::new(0, HZ);
        assert_eq!(never.stop(0) + never.stop(seconds(1e6)), 0);
    }
}
