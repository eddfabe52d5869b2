//! A worker made slower on purpose, to see whether a comparison notices.

use weft_dpdk::tsc;

/// A round that took longer was interrupted, and is not made up for.
const LONGEST_ROUND: u64 = 100_000;

/// Spends a share of the time of each round once more.
#[derive(Debug)]
pub struct Burner {
    /// Hundredths; 0 burns nothing, and reads no clock.
    percent: u64,
    last: u64,
}

impl Burner {
    /// Burns so many hundredths of every round.
    pub fn new(percent: u32) -> Burner {
        Burner { percent: percent.into(), last: tsc::now() }
    }

    /// Begins a round here.
    pub fn start(&mut self) {
        self.last = tsc::now();
    }

    /// Ends a round that began where the last one ended.
    #[inline(always)]
    pub fn burn(&mut self) {
        if self.percent == 0 {
            return;
        }
        let now = tsc::now();
        let round = now.wrapping_sub(self.last).min(LONGEST_ROUND);
        let end = now.wrapping_add(round * self.percent / 100);
        while tsc::now() < end {
            std::hint::spin_loop();
        }
        self.last = tsc::now();
    }
}
