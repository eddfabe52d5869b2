//! Token buckets, without packets and without a clock.
//!
//! The RFCs count tokens of one byte that drop in at a rate. Here tokens flow:
//! one is worth a bit at a rate of one bit per second for one nanosecond, so a
//! byte costs 8·10⁹ of them, and `rate × nanoseconds` is a whole number. Nothing
//! is ever rounded, whatever the rate and however the time is cut up
//! (RFC 2697 §3 and RFC 2698 §3 leave the form of a meter open).
//!
//! What is kept is not what a bucket holds but what it lacks: fresh buckets are
//! full, of whatever size they turn out to be.

use schemars::JsonSchema;
use serde::Deserialize;
use weft_function::{ByteSize, Colour, ConfigError, Rate};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Tokens of one byte: 8 bits, 10⁹ nanoseconds in a second.
pub(super) const BYTE: u64 = 8_000_000_000;
/// Largest burst: what it costs fits in 64 bits.
const MAX_BURST: ByteSize = ByteSize(2 << 30);
const MIN_RATE: Rate = Rate(1_000);
const MAX_RATE: Rate = Rate(400_000_000_000);
const _: () = assert!(MAX_BURST.0.checked_mul(BYTE).is_some());

/// A meter: what it measures against. Rates and bursts count IP bytes, headers
/// included, and no link layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Meter {
    /// Single rate three colour marker (RFC 2697).
    SingleRate(SingleRate),
    /// Two rate three colour marker (RFC 2698).
    TwoRate(TwoRate),
}

/// A rate, and how far a burst may exceed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SingleRate {
    /// Rate up to which packets are green (CIR), 1 kbit/s to 400 Gbit/s.
    pub committed_rate: Rate,
    /// Bytes that may be green at once (CBS), at most 2 GiB. No packet longer
    /// than this is ever green.
    pub committed_burst: ByteSize,
    /// Bytes beyond them that may be yellow at once (EBS), at most 2 GiB.
    #[serde(default)]
    pub excess_burst: ByteSize,
}

/// Two rates with a burst each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TwoRate {
    /// Rate up to which packets are green (CIR), 1 kbit/s to 400 Gbit/s.
    pub committed_rate: Rate,
    /// Bytes that may be green at once (CBS), 1 B to 2 GiB. No packet longer
    /// than this is ever green.
    pub committed_burst: ByteSize,
    /// Rate above which packets are red (PIR), not below the committed rate.
    pub peak_rate: Rate,
    /// Bytes that may be green or yellow at once (PBS), 1 B to 2 GiB. Every
    /// packet longer than this is red.
    pub peak_burst: ByteSize,
}

/// What two token buckets lack, in tokens. The first is C; the second is E of a
/// single rate, P of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Buckets {
    /// What C lacks.
    pub committed: u64,
    /// What the other lacks.
    pub other: u64,
    /// When they were last filled, in nanoseconds.
    pub filled_at: u64,
}

impl Meter {
    /// Checks rates and bursts.
    ///
    /// # Errors
    /// [`ConfigError`] whose path begins with `meter`.
    pub fn check(&self) -> Result<(), ConfigError> {
        match self {
            Meter::SingleRate(meter) => meter.check(),
            Meter::TwoRate(meter) => meter.check(),
        }
    }

    /// The colour of a packet of `bytes` that comes at time `now` (nanoseconds)
    /// with the colour `before`: green where the meter is colour-blind. Takes
    /// its tokens.
    #[inline]
    pub fn colour(&self, buckets: &mut Buckets, now: u64, bytes: usize, before: Colour) -> Colour {
        self.fill(buckets, now);
        let cost = bytes as u64 * BYTE;
        match self {
            Meter::SingleRate(meter) => meter.colour(buckets, cost, before),
            Meter::TwoRate(meter) => meter.colour(buckets, cost, before),
        }
    }

    /// Lets tokens flow in up to the time `now`.
    #[inline]
    pub fn fill(&self, buckets: &mut Buckets, now: u64) {
        let time = now.saturating_sub(buckets.filled_at);
        buckets.filled_at = buckets.filled_at.max(now);
        match self {
            Meter::SingleRate(meter) => {
                // What does not fit into C any more flows into E.
                let flow = flow(meter.committed_rate, time);
                let spilled = pour(&mut buckets.committed, meter.committed_burst, flow);
                pour(&mut buckets.other, meter.excess_burst, spilled);
            }
            Meter::TwoRate(meter) => {
                let committed = flow(meter.committed_rate, time);
                pour(&mut buckets.committed, meter.committed_burst, committed);
                pour(&mut buckets.other, meter.peak_burst, flow(meter.peak_rate, time));
            }
        }
    }

    /// Bytes that C and the other bucket hold.
    pub fn held(&self, buckets: &Buckets) -> [u64; 2] {
        let [committed, other] = self.bursts();
        [tokens(committed, buckets.committed) / BYTE, tokens(other, buckets.other) / BYTE]
    }

    /// Whether both meters follow the same RFC, so that their buckets mean the
    /// same.
    pub fn is_like(&self, other: &Meter) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    fn bursts(&self) -> [ByteSize; 2] {
        match self {
            Meter::SingleRate(meter) => [meter.committed_burst, meter.excess_burst],
            Meter::TwoRate(meter) => [meter.committed_burst, meter.peak_burst],
        }
    }
}

impl SingleRate {
    /// RFC 2697 §3.
    #[inline]
    fn colour(&self, buckets: &mut Buckets, cost: u64, before: Colour) -> Colour {
        if before == Colour::Green && tokens(self.committed_burst, buckets.committed) >= cost {
            buckets.committed += cost;
            Colour::Green
        } else if before != Colour::Red && tokens(self.excess_burst, buckets.other) >= cost {
            buckets.other += cost;
            Colour::Yellow
        } else {
            Colour::Red
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        rate("singleRate.committedRate", self.committed_rate)?;
        burst("singleRate.committedBurst", self.committed_burst)?;
        burst("singleRate.excessBurst", self.excess_burst)?;
        if self.committed_burst.0 == 0 && self.excess_burst.0 == 0 {
            return Err(error("singleRate", "one of the bursts must be above 0 (RFC 2697 §2)"));
        }
        Ok(())
    }
}

impl TwoRate {
    /// RFC 2698 §3.
    #[inline]
    fn colour(&self, buckets: &mut Buckets, cost: u64, before: Colour) -> Colour {
        if before == Colour::Red || tokens(self.peak_burst, buckets.other) < cost {
            return Colour::Red;
        }
        buckets.other += cost;
        if before == Colour::Yellow || tokens(self.committed_burst, buckets.committed) < cost {
            return Colour::Yellow;
        }
        buckets.committed += cost;
        Colour::Green
    }

    fn check(&self) -> Result<(), ConfigError> {
        rate("twoRate.committedRate", self.committed_rate)?;
        rate("twoRate.peakRate", self.peak_rate)?;
        for (key, size) in
            [("committedBurst", self.committed_burst), ("peakBurst", self.peak_burst)]
        {
            burst(&format!("twoRate.{key}"), size)?;
            if size.0 == 0 {
                return Err(error(&format!("twoRate.{key}"), "must be above 0 (RFC 2698 §2)"));
            }
        }
        if self.peak_rate < self.committed_rate {
            let message = format!(
                "must not be below the committed rate of {} (RFC 2698 §2)",
                self.committed_rate
            );
            return Err(error("twoRate.peakRate", &message));
        }
        Ok(())
    }
}

/// Tokens in a bucket that lacks `lack`.
#[inline(always)]
fn tokens(burst: ByteSize, lack: u64) -> u64 {
    (burst.0 * BYTE).saturating_sub(lack)
}

/// Tokens that flow in `time` nanoseconds.
#[inline(always)]
fn flow(rate: Rate, time: u64) -> u128 {
    u128::from(rate.0) * u128::from(time)
}

/// Pours tokens into a bucket; returns what does not fit. A bucket that has
/// become smaller lacks no more than all.
#[inline(always)]
fn pour(lack: &mut u64, burst: ByteSize, flow: u128) -> u128 {
    let before = (*lack).min(burst.0 * BYTE);
    *lack = u64::try_from(flow).map_or(0, |flow| before.saturating_sub(flow));
    flow.saturating_sub(u128::from(before))
}

fn rate(path: &str, rate: Rate) -> Result<(), ConfigError> {
    match (MIN_RATE..=MAX_RATE).contains(&rate) {
        true => Ok(()),
        false => Err(error(path, &format!("{rate} is not between {MIN_RATE} and {MAX_RATE}"))),
    }
}

fn burst(path: &str, size: ByteSize) -> Result<(), ConfigError> {
    match size <= MAX_BURST {
        true => Ok(()),
        false => Err(error(path, &format!("{size} is more than {MAX_BURST}"))),
    }
}

fn error(path: &str, message: &str) -> ConfigError {
    ConfigError::at(format!("meter.{path}"), message)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const DAY: u64 = 86_400 * SECOND;

    fn single(committed_rate: u64, committed_burst: u64, excess_burst: u64) -> Meter {
        Meter::SingleRate(SingleRate {
            committed_rate: Rate(committed_rate),
            committed_burst: ByteSize(committed_burst),
            excess_burst: ByteSize(excess_burst),
        })
    }

    fn double(rates: (u64, u64), bursts: (u64, u64)) -> Meter {
        Meter::TwoRate(TwoRate {
            committed_rate: Rate(rates.0),
            committed_burst: ByteSize(bursts.0),
            peak_rate: Rate(rates.1),
            peak_burst: ByteSize(bursts.1),
        })
    }

    /// The RFCs, word by word, in rational numbers: what buckets hold is a
    /// fraction of a byte over `SHARES`.
    struct Reference {
        meter: Meter,
        committed: i128,
        other: i128,
        at: u64,
    }

    const SHARES: i128 = 8 * SECOND as i128;

    impl Reference {
        fn new(meter: Meter) -> Reference {
            let [committed, other] = meter.bursts().map(|burst| i128::from(burst.0) * SHARES);
            Reference { meter, committed, other, at: 0 }
        }

        fn colour(&mut self, now: u64, bytes: usize, before: Colour) -> Colour {
            let time = i128::from(now - self.at);
            self.at = now;
            let size = bytes as i128 * SHARES;
            let [committed, other] = self.meter.bursts().map(|size| i128::from(size.0) * SHARES);
            match self.meter {
                Meter::SingleRate(SingleRate { committed_rate, .. }) => {
                    let sum = self.committed + time * i128::from(committed_rate.0);
                    self.committed = sum.min(committed);
                    self.other = (self.other + (sum - self.committed)).min(other);
                    if before == Colour::Green && self.committed - size >= 0 {
                        self.committed -= size;
                        return Colour::Green;
                    }
                    if before != Colour::Red && self.other - size >= 0 {
                        self.other -= size;
                        return Colour::Yellow;
                    }
                    Colour::Red
                }
                Meter::TwoRate(TwoRate { committed_rate, peak_rate, .. }) => {
                    let sum = self.committed + time * i128::from(committed_rate.0);
                    self.committed = sum.min(committed);
                    self.other = (self.other + time * i128::from(peak_rate.0)).min(other);
                    if before == Colour::Red || self.other - size < 0 {
                        return Colour::Red;
                    }
                    self.other -= size;
                    if before == Colour::Yellow || self.committed - size < 0 {
                        return Colour::Yellow;
                    }
                    self.committed -= size;
                    Colour::Green
                }
            }
        }
    }

    #[test]
    fn a_single_rate_is_green_then_yellow_then_red() {
        // 8 kbit/s are 1000 bytes per second.
        let meter = single(8_000, 1000, 500);
        let mut buckets = Buckets::default();
        let mut colour = |now, bytes| meter.colour(&mut buckets, now, bytes, Colour::Green);
        assert_eq!(colour(0, 600), Colour::Green);
        assert_eq!(colour(0, 401), Colour::Yellow);
        assert_eq!(colour(0, 400), Colour::Green);
        assert_eq!(colour(0, 100), Colour::Red);
        assert_eq!(colour(0, 99), Colour::Yellow);
        // One byte takes a millisecond, and not a nanosecond less.
        assert_eq!(colour(SECOND / 1000 - 1, 1), Colour::Red);
        assert_eq!(colour(SECOND / 1000, 1), Colour::Green);
        // C is full after one second, E after another half.
        assert_eq!(colour(SECOND + SECOND / 1000, 1000), Colour::Green);
        assert_eq!(colour(SECOND + SECOND / 1000, 1), Colour::Red);
        assert_eq!(colour(3 * SECOND, 1000), Colour::Green);
        assert_eq!(colour(3 * SECOND, 500), Colour::Yellow);
        assert_eq!(colour(3 * SECOND, 1), Colour::Red);
    }

    #[test]
    fn two_rates_are_green_then_yellow_then_red() {
        let meter = double((8_000, 16_000), (1000, 1500));
        let mut buckets = Buckets::default();
        let mut colour = |now, bytes| meter.colour(&mut buckets, now, bytes, Colour::Green);
        assert_eq!(colour(0, 1501), Colour::Red);
        assert_eq!(colour(0, 1000), Colour::Green);
        assert_eq!(colour(0, 500), Colour::Yellow);
        assert_eq!(colour(0, 1), Colour::Red);
        // After half a second C holds 500 bytes and P 1000.
        assert_eq!(colour(SECOND / 2, 500), Colour::Green);
        assert_eq!(colour(SECOND / 2, 500), Colour::Yellow);
        assert_eq!(colour(SECOND / 2, 1), Colour::Red);
    }

    #[test]
    fn a_colour_never_improves() {
        let packets = [Colour::Yellow, Colour::Red, Colour::Green];
        let colours = |meter: Meter| {
            let mut buckets = Buckets::default();
            packets.map(|before| meter.colour(&mut buckets, 0, 100, before))
        };
        assert_eq!(colours(single(8_000, 100, 100)), packets);
        assert_eq!(colours(double((8_000, 8_000), (100, 200))), packets);
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        let path = |meter: Meter| meter.check().unwrap_err().path;
        assert_eq!(path(single(999, 1, 1)), "meter.singleRate.committedRate");
        assert_eq!(path(single(400_000_000_001, 1, 1)), "meter.singleRate.committedRate");
        assert_eq!(path(single(1000, 0, 0)), "meter.singleRate");
        assert_eq!(path(single(1000, (2 << 30) + 1, 0)), "meter.singleRate.committedBurst");
        assert_eq!(path(single(1000, 0, (2 << 30) + 1)), "meter.singleRate.excessBurst");
        assert_eq!(path(double((1000, 999), (1, 1))), "meter.twoRate.peakRate");
        assert_eq!(path(double((1001, 1000), (1, 1))), "meter.twoRate.peakRate");
        assert_eq!(path(double((1000, 1000), (0, 1))), "meter.twoRate.committedBurst");
        assert_eq!(path(double((1000, 1000), (1, 0))), "meter.twoRate.peakBurst");
        assert_eq!(single(1000, 0, 2 << 30).check(), Ok(()));
        assert_eq!(double((400_000_000_000, 400_000_000_000), (1, 1)).check(), Ok(()));
    }

    #[test]
    fn a_clock_that_steps_back_gives_nothing_and_takes_nothing() {
        let meter = single(8_000, 1000, 0);
        let mut buckets = Buckets::default();
        assert_eq!(meter.colour(&mut buckets, 2 * SECOND, 1000, Colour::Green), Colour::Green);
        assert_eq!(meter.colour(&mut buckets, SECOND, 1, Colour::Green), Colour::Red);
        assert_eq!(meter.colour(&mut buckets, 2 * SECOND, 1, Colour::Green), Colour::Red);
        assert_eq!(meter.colour(&mut buckets, 3 * SECOND, 1000, Colour::Green), Colour::Green);
    }

    #[test]
    fn buckets_that_shrink_lack_no_more_than_all() {
        let mut buckets = Buckets::default();
        let large = single(8_000, 1 << 20, 0);
        assert_eq!(large.colour(&mut buckets, 0, 1 << 20, Colour::Green), Colour::Green);
        let small = single(8_000, 1000, 0);
        assert_eq!(small.colour(&mut buckets, SECOND, 1000, Colour::Green), Colour::Green);
    }

    /// Every rate from slow to fast is as likely.
    fn rate() -> impl Strategy<Value = u64> {
        (0.0..8.6_f64).prop_map(|power| ((1000.0 * 10_f64.powf(power)) as u64).min(MAX_RATE.0))
    }

    fn burst() -> impl Strategy<Value = u64> {
        prop_oneof![0_u64..10_000, 0..=MAX_BURST.0]
    }

    fn meters() -> impl Strategy<Value = Meter> {
        prop_oneof![
            (rate(), burst(), burst()).prop_map(|(rate, c, e)| single(rate, c, e)),
            ((rate(), rate()), (burst(), burst()))
                .prop_map(|((a, b), bursts)| { double((a.min(b), a.max(b)), bursts) }),
        ]
    }

    /// Times between packets: none, the time of a few bytes, and up to days.
    fn gap() -> impl Strategy<Value = u64> {
        prop_oneof![Just(0), 0_u64..1000, 0..SECOND, 0..10 * DAY]
    }

    fn colour() -> impl Strategy<Value = Colour> {
        prop::sample::select(&[Colour::Green, Colour::Yellow, Colour::Red][..])
    }

    proptest! {
        #[test]
        fn every_packet_has_the_colour_of_the_rfc(
            meter in meters(),
            packets in vec((gap(), 0_usize..=65_535, colour()), 1..100),
        ) {
            let (mut buckets, mut reference) = (Buckets::default(), Reference::new(meter));
            let mut now = 0;
            for (gap, bytes, before) in packets {
                now += gap;
                let expected = reference.colour(now, bytes, before);
                prop_assert_eq!(meter.colour(&mut buckets, now, bytes, before), expected);
                let held = [reference.committed / SHARES, reference.other / SHARES];
                prop_assert_eq!(meter.held(&buckets).map(i128::from), held);
            }
        }

        #[test]
        fn looking_often_changes_nothing(
            meter in meters(),
            looks in vec(0..SECOND, 0..50),
            lacks in any::<(u64, u64)>(),
        ) {
            let fresh = Buckets { committed: lacks.0, other: lacks.1, filled_at: 0 };
            let (mut often, mut once, mut now) = (fresh, fresh, 0);
            for gap in looks {
                now += gap;
                meter.fill(&mut often, now);
            }
            meter.fill(&mut often, now);
            meter.fill(&mut once, now);
            prop_assert_eq!(often, once);
        }

        /// Twice the committed rate is offered, in packets of one length.
        #[test]
        fn over_long_time_the_green_rate_is_the_committed_rate(
            rate in rate(),
            bytes in 40_u64..9000,
            two_rates in any::<bool>(),
        ) {
            const PACKETS: u64 = 20_000;
            let meter = match two_rates {
                true => double((rate, 3 * rate), (10 * bytes, 10 * bytes)),
                false => single(rate, 10 * bytes, 10 * bytes),
            };
            let mut buckets = Buckets::default();
            let time = |packet: u64| {
                (u128::from(packet) * u128::from(bytes) * 4 * u128::from(SECOND) / u128::from(rate))
                    as u64
            };
            let green = (0..PACKETS)
                .map(|packet| meter.colour(&mut buckets, time(packet), bytes as usize, Colour::Green))
                .filter(|colour| *colour == Colour::Green)
                .count();
            let seconds = time(PACKETS) as f64 / SECOND as f64;
            let green_rate = green as f64 * bytes as f64 * 8.0 / seconds;
            prop_assert!((green_rate / rate as f64 - 1.0).abs() < 0.01, "{green_rate} of {rate}");
        }
    }
}
