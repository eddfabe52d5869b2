//! How well a source kept its pace.

use hdrhistogram::Histogram;

/// Longest error that is told from longer ones: a second, in nanoseconds.
const LONGEST: u64 = 1_000_000_000;
/// Significant decimal digits of an error.
const DIGITS: u8 = 3;
/// Part of the set gap by which a gap may be wrong to be near it.
const NEAR: f64 = 0.2;

/// The gaps between packets as they were handed to the port, against those that
/// were set. Gaps at a place where packets were given up do not count.
#[derive(Clone, Debug)]
pub struct Pacing {
    /// Gaps.
    pub gaps: u64,
    /// Those that were wrong by at most 20 % of the set gap.
    pub near: u64,
    /// By how much gaps were wrong, whichever way, in nanoseconds.
    pub errors: Histogram<u64>,
    /// When the packet before was sent and when it was due; cycles.
    before: Option<(f64, f64)>,
    nanoseconds_per_cycle: f64,
}

impl Pacing {
    pub(crate) fn new(hz: u64) -> Pacing {
        Pacing {
            gaps: 0,
            near: 0,
            errors: Histogram::new_with_max(LONGEST, DIGITS).expect("these bounds are valid"),
            before: None,
            nanoseconds_per_cycle: 1e9 / hz as f64,
        }
    }

    /// Notes a packet.
    #[inline]
    pub(crate) fn note(&mut self, sent: f64, due: f64) {
        if let Some((sent_before, due_before)) = self.before.replace((sent, due)) {
            let set = due - due_before;
            let error = (sent - sent_before - set).abs();
            self.gaps += 1;
            self.near += u64::from(error <= set * NEAR);
            self.errors.saturating_record((error * self.nanoseconds_per_cycle) as u64);
        }
    }

    /// The next packet follows none.
    #[inline]
    pub(crate) fn interrupt(&mut self) {
        self.before = None;
    }

    /// Share of the gaps that were wrong by at most 20 % of the set gap; 1 when
    /// there were none.
    pub fn near_share(&self) -> f64 {
        if self.gaps == 0 { 1.0 } else { self.near as f64 / self.gaps as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_compared_with_those_that_were_set() {
        let mut pacing = Pacing::new(1_000_000_000);
        for (sent, due) in [(1000.0, 1000.0), (2150.0, 2000.0), (3000.0, 3000.0)] {
            pacing.note(sent, due);
        }
        pacing.note(4250.0, 4000.0);
        assert_eq!((pacing.gaps, pacing.near), (3, 2));
        assert_eq!((pacing.errors.min(), pacing.errors.max()), (150, 250));
        pacing.interrupt();
        pacing.note(9000.0, 5000.0);
        assert_eq!(pacing.gaps, 3, "there was no gap to keep");
        assert!((pacing.near_share() - 2.0 / 3.0).abs() < 1e-9);
    }
}
