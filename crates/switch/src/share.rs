//! What a port has of the switch: a deficit round-robin whose deficit grows with time.

/// Frames that a port can send in a row after a pause, at least.
const LEAST_BURST: u64 = 64;
/// A port saves up what it did not use for so many parts of a second.
const BURST_PER_SECOND: u64 = 1000;

/// Frames per second, in one direction of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Cycles that a frame costs.
    cost: u64,
    /// Cycles that can be saved up.
    most: u64,
    have: u64,
    at: u64,
}

impl Share {
    /// So many frames per second, by a clock of so many cycles per second that says `now`.
    pub fn new(rate: u64, hz: u64, now: u64) -> Share {
        let cost = (hz / rate.max(1)).max(1);
        let most = cost.saturating_mul((rate / BURST_PER_SECOND).max(LEAST_BURST));
        Share { cost, most, have: most, at: now }
    }

    /// Frames that can pass now, but no more than `most`.
    #[inline]
    pub fn frames(&mut self, now: u64, most: usize) -> usize {
        self.have = self.have.saturating_add(now.saturating_sub(self.at)).min(self.most);
        self.at = self.at.max(now);
        match self.have >= self.cost.saturating_mul(most as u64) {
            true => most,
            false => (self.have / self.cost) as usize,
        }
    }

    /// So many frames have passed.
    #[inline]
    pub fn spend(&mut self, frames: usize) {
        self.have = self.have.saturating_sub(self.cost.saturating_mul(frames as u64));
    }
}

/// Frames of each port in one visit. A visit of the port with the greatest rate is `most`
/// frames long, the others are so in proportion: where the switch itself is too slow for all
/// shares, each gets as large a part of its own.
pub fn visits(rates: &[u64], most: usize) -> Vec<usize> {
    let greatest = rates.iter().copied().max().unwrap_or(1).max(1);
    let visit = |rate: &u64| (*rate as u128 * most as u128).div_ceil(greatest.into()) as usize;
    rates.iter().map(|rate| visit(rate).max(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_in_a_second_is_the_rate() {
        let mut share = Share::new(100_000, 2_000_000_000, 0);
        let mut passed = 0;
        for now in (0..2_000_000_000).step_by(10_000) {
            let frames = share.frames(now, 32);
            share.spend(frames);
            passed += frames;
        }
        // What was saved up at first, the second, and no more.
        assert!((100_000..=100_101).contains(&passed), "{passed}");
    }

    #[test]
    fn a_pause_saves_up_a_burst_and_no_more() {
        let mut share = Share::new(1000, 1_000_000, 0);
        assert_eq!(share.frames(0, 1000), 64);
        share.spend(64);
        assert_eq!(share.frames(0, 1000), 0);
        assert_eq!(share.frames(2_500, 1000), 2);
        assert_eq!(share.frames(u64::MAX, 1000), 64);
        // Time never goes back.
        share.spend(64);
        assert_eq!(share.frames(5, 1000), 0);
    }

    #[test]
    fn the_greatest_rates_are_no_rates() {
        let mut share = Share::new(u64::MAX, 1, 0);
        assert_eq!(share.frames(0, 32), 32);
        assert_eq!(Share::new(0, 10, 0).frames(0, 32), 32);
    }

    #[test]
    fn visits_are_in_proportion() {
        assert_eq!(visits(&[1000, 500, 1], 64), [64, 32, 1]);
        assert_eq!(visits(&[0], 64), [1]);
        assert!(visits(&[], 64).is_empty());
    }
}
