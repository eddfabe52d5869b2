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

/// Tokens of one byte: 8 bits, 10⁹ nanoseconds in a second.
const BYTE: u64 = 8_000_000_000;
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
