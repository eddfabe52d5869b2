//! The time of day at which a state is written: it says how long no node had the state.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds by which the clocks may go apart before that is noted: a state that is as it was
/// is written as it was.
const APART: i64 = 50_000_000;
/// A shorter time away is none: the clocks are not apart by a fixed time.
const SHORTEST: i64 = 500_000_000;
/// By how much a time of a state and a time of day may be apart that were one.
pub const UNSURE: i64 = SHORTEST + APART;
/// A state that was away for longer is one that a clock which was not set has written.
const LONGEST: i64 = 366 * 86_400 * 1_000_000_000;

/// Nanoseconds since 1970.
pub fn unix() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// What the time of day was when the clock of a node showed 0, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeOfDay(pub i64);

impl TimeOfDay {
    /// By what both clocks show.
    pub fn of(now: u64, unix: u64) -> TimeOfDay {
        TimeOfDay(unix.cast_signed().saturating_sub(now.cast_signed()))
    }

    /// Nanoseconds from the moment when that node's clock showed `then` to the time of day `unix`;
    /// 0 where that lies behind it or hardly before it, or so far before it that one of the clocks
    /// was not set.
    pub fn away(self, then: u64, unix: u64) -> u64 {
        let at = self.0.saturating_add(then.cast_signed());
        let away = unix.cast_signed().saturating_sub(at);
        if (SHORTEST..=LONGEST).contains(&away) { away.cast_unsigned() } else { 0 }
    }
}

/// How the clock of this node and the time of day are apart, as was noted last.
#[derive(Debug, Default)]
pub struct Noted(AtomicI64);

impl Noted {
    /// By what both clocks show now.
    pub fn look(&self, now: u64, unix: u64) -> TimeOfDay {
        let TimeOfDay(is) = TimeOfDay::of(now, unix);
        let noted = self.0.load(Ordering::Relaxed);
        if is.saturating_sub(noted).saturating_abs() < APART {
            return TimeOfDay(noted);
        }
        self.0.store(is, Ordering::Relaxed);
        TimeOfDay(is)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_clock_that_was_not_set_is_no_time_away() {
        let day = TimeOfDay::of(5 * SECOND, 1_000 * SECOND);
        assert_eq!(day.away(6 * SECOND, 1_001 * SECOND), 0);
        assert_eq!(day.away(6 * SECOND, 1_001 * SECOND + 499_999_999), 0);
        assert_eq!(day.away(6 * SECOND, 1_031 * SECOND), 30 * SECOND);
        // It was set back, or stood in 1970 when the state was written.
        assert_eq!(day.away(6 * SECOND, 900 * SECOND), 0);
        assert_eq!(day.away(6 * SECOND, 1_700_000_000 * SECOND), 0);
        // What others have written.
        for hostile in [i64::MIN, -1, 0, i64::MAX] {
            for then in [0, 1 << 63, u64::MAX] {
                assert!(TimeOfDay(hostile).away(then, unix()) <= LONGEST.cast_unsigned());
            }
        }
    }

    #[test]
    fn little_is_not_noted() {
        let noted = Noted::default();
        let first = noted.look(SECOND, 1_000 * SECOND);
        assert_eq!(first, TimeOfDay(999 * SECOND.cast_signed()));
        assert_eq!(noted.look(2 * SECOND, 1_001 * SECOND + 1_000_000), first);
        assert_eq!(noted.look(3 * SECOND, 1_003 * SECOND), TimeOfDay::of(3, 1_000 * SECOND + 3));
    }
}
