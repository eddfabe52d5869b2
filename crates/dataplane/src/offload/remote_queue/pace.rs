//! How often to look whether packets have come back, where a look is dear.

use weft_dpdk::tsc;

/// With fewer packets away each look is worth its price: no packet is in a hurry, and what
/// is back goes on at once.
const ENOUGH: usize = 32;

/// What a look brings at most.
const BURST: usize = 32;

/// Looks are no further apart, in parts of a second: 4 µs.
const LONGEST: u64 = 250_000;

/// Spaces looks at a ring where one costs as much as some packets do: while enough is
/// away, what comes back a few at a time is left to become a burst.
#[derive(Debug)]
pub(crate) struct Pace {
    /// When it was looked, and how long to wait since, in cycles.
    looked: u64,
    pause: u64,
    longest: u64,
}

impl Pace {
    #[inline]
    pub(crate) fn new() -> Pace {
        Pace { looked: 0, pause: 0, longest: tsc::hz() / LONGEST }
    }

    /// Whether the next look had better wait, with so many packets away.
    #[inline]
    pub(crate) fn is_early(&self, away: usize) -> bool {
        away >= ENOUGH && self.pause > 0 && tsc::now().wrapping_sub(self.looked) < self.pause
    }

    /// A look brought so many packets.
    #[inline]
    pub(crate) fn note(&mut self, count: usize) {
        if count >= BURST {
            // There may be more.
            self.pause -= self.pause / 4;
            self.looked = 0;
            return;
        }
        self.looked = tsc::now();
        if count < BURST * 3 / 4 {
            self.pause = (self.pause + self.pause / 4 + 64).min(self.longest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_at_a_time_are_waited_for_and_many_are_not() {
        // Some seconds: a machine that runs tests has been up for longer.
        let mut pace = Pace { looked: 0, pause: 0, longest: 20_000_000_000 };
        assert!(!pace.is_early(WINDOW));
        for _ in 0..200 {
            pace.note(3);
        }
        assert!(pace.is_early(ENOUGH) && !pace.is_early(ENOUGH - 1));
        pace.note(BURST);
        assert!(!pace.is_early(WINDOW), "there may be more");
    }

    #[test]
    fn no_pause_is_longer_than_the_longest() {
        let mut pace = Pace { looked: 0, pause: 0, longest: 1000 };
        (0..200).for_each(|_| pace.note(0));
        assert_eq!(pace.pause, 1000);
        (0..200).for_each(|_| pace.note(BURST));
        assert!(pace.pause < 4);
    }

    const WINDOW: usize = crate::offload::WINDOW;
}
