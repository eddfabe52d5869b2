//! Time on the way of a packet, measured on a sample of the bursts.

use weft_dpdk::tsc;

use super::histogram::BurstTimes;
use crate::clock::Clock;
use crate::counters::Counter;

/// How much longer than a typical lap a lap can be by itself: one that handles
/// 64 packets where most handle one.
const SPREAD: u64 = 64;

/// Laps up to this many cycles, some ten microseconds, are never disturbed: what
/// disturbs a lap for less disturbs no average.
const SHORT: u64 = 32_768;

/// Time spent on packets, measured on a sample of the bursts.
///
/// A lap in which the kernel gave the core to something else says nothing of the
/// packets, and one such lap outweighs thousands of others. It is known by its
/// length, against a typical lap that every lap moves by an eighth, up or down:
/// so it settles near the median, which single laps cannot pull away, however
/// long they are.
#[derive(Debug, Default)]
pub struct Cycles {
    cycles: Counter,
    packets: Counter,
    disturbed: Counter,
    typical: Counter,
}

impl Cycles {
    /// Notes that `packets` took `cycles`, unless the lap was disturbed.
    pub fn note(&self, cycles: u64, packets: usize) {
        let typical = self.typical.get();
        let step = typical / 8 + 1;
        self.typical.set(match cycles > typical {
            true => typical.saturating_add(step),
            false => typical.saturating_sub(step),
        });
        if cycles > typical.saturating_mul(SPREAD).max(SHORT) {
            return self.disturbed.add(1);
        }
        self.cycles.add(cycles);
        self.packets.add(packets as u64);
    }

    /// Cycles and packets of the sample so far.
    pub fn get(&self) -> (u64, u64) {
        (self.cycles.get(), self.packets.get())
    }

    /// Laps that were left out as disturbed.
    pub fn disturbed(&self) -> u64 {
        self.disturbed.get()
    }
}

/// One visit in this many is timed.
const SAMPLE_EVERY: u32 = 16;

/// Decides which bursts are timed and keeps the time of the one at hand.
/// Reading the time-stamp counter costs about as much as a small function, so
/// most bursts are left alone.
#[derive(Debug, Default)]
pub struct Stopwatch {
    burst: u32,
    last: u64,
}

impl Stopwatch {
    /// A burst begins: starts the clock if this one is timed.
    #[inline]
    pub fn start(&mut self) {
        self.burst = self.burst.wrapping_add(1);
        self.last = if self.burst % SAMPLE_EVERY == 1 { tsc::now() } else { 0 };
    }

    /// Whether this burst is timed.
    #[inline(always)]
    pub fn is_running(&self) -> bool {
        self.last != 0
    }

    /// Notes what has passed since the last lap under `cycles`.
    #[inline]
    pub fn lap(&mut self, cycles: &Cycles, packets: usize) {
        if self.is_running() {
            let now = tsc::now();
            cycles.note(now.wrapping_sub(self.last), packets);
            self.last = now;
        }
    }

    /// Notes how long the burst that was received at `received` has been in the node, if it
    /// is timed.
    #[inline]
    pub fn note_burst(&self, times: &BurstTimes, received: u64, clock: &Clock) {
        if self.is_running() {
            times.note(clock.now().saturating_sub(received));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn average(cycles: &Cycles) -> u64 {
        let (cycles, packets) = cycles.get();
        cycles / packets
    }

    #[test]
    fn a_lap_without_the_core_is_left_out() {
        let cycles = Cycles::default();
        for lap in 0..1000 {
            match lap % 20 {
                7 => cycles.note(8_000_000, 32),
                _ => cycles.note(3200, 32),
            }
        }
        assert_eq!(cycles.disturbed(), 50);
        assert_eq!(cycles.get(), (950 * 3200, 950 * 32));
    }

    #[test]
    fn a_lap_of_many_packets_counts_among_laps_of_one() {
        let cycles = Cycles::default();
        (0..1000).for_each(|_| cycles.note(2000, 1));
        (0..10).for_each(|_| cycles.note(64 * 1500, 64));
        assert_eq!(cycles.disturbed(), 0);
        assert_eq!(cycles.get().1, 1000 + 640);
    }

    #[test]
    fn what_is_slow_by_itself_counts() {
        let cycles = Cycles::default();
        (0..10_000).for_each(|_| cycles.note(50_000_000, 32));
        // Until it was known to be slow.
        assert!(cycles.disturbed() < 150, "{}", cycles.disturbed());
        assert_eq!(average(&cycles), 50_000_000 / 32);
    }

    #[test]
    fn it_learns_that_packets_cost_more_or_less_than_they_did() {
        let cycles = Cycles::default();
        for lap in [1_000, 4_000_000, 1_000, 4_000_000] {
            (0..10_000).for_each(|_| cycles.note(lap, 1));
        }
        assert!(cycles.disturbed() < 200, "{}", cycles.disturbed());
        let (sum, packets) = cycles.get();
        assert_eq!(packets + cycles.disturbed(), 40_000);
        assert!(sum > 79_000_000_000, "{sum}");
    }

    proptest::proptest! {
        /// However long the disturbed laps are, the average is that of the rest.
        #[test]
        fn no_disturbance_is_too_long(
            lap in 100..30_000_u64,
            disturbance in proptest::collection::vec(1_u64 << 24.., 100),
        ) {
            let cycles = Cycles::default();
            (0..100).for_each(|_| cycles.note(lap, 32));
            for one in disturbance {
                (0..10).for_each(|_| cycles.note(lap, 32));
                cycles.note(one, 32);
            }
            proptest::prop_assert_eq!(cycles.disturbed(), 100);
            proptest::prop_assert_eq!(cycles.get(), (1100 * lap, 1100 * 32));
        }
    }
}
