//! Delays, raw and calibrated.
//!
//! What a receiver measures is the delay of the system and of the instrument:
//! stamping, the rings between, looking at what arrived. So each trial of delay first
//! sends the same packets at the same rate from the generator straight to the
//! receiver, and the median of that *loopback* is subtracted. Tails are not: what is
//! far from the median in either run need not fall together.

use hdrhistogram::Histogram;

use crate::Arrivals;
use crate::Failure;
use crate::Offer;
use crate::Rig;
use crate::network::environments::Loopback;

/// The percentiles that are kept beside the median, by name and share.
const PERCENTILES: [(&str, f64); 8] = [
    ("p5", 0.05),
    ("p25", 0.25),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("max", 1.0),
];

/// How long packets were on their way, in microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Delay {
    /// The median.
    pub median: f64,
    /// Other percentiles, by name: `p5`, `p25`, `p75`, `p90`, `p95`, `p99`, `p99.9`, `max`.
    pub percentiles: Vec<(&'static str, f64)>,
}

/// The delays of one trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibrated {
    /// As they were measured.
    pub raw: Delay,
    /// Less the median of the loopback.
    pub calibrated: Delay,
}

impl Delay {
    /// Of a histogram of nanoseconds; none of an empty one.
    pub fn of(nanoseconds: &Histogram<u64>) -> Option<Delay> {
        let micros = |share| nanoseconds.value_at_quantile(share) as f64 / 1e3;
        (!nanoseconds.is_empty()).then(|| Delay {
            median: micros(0.5),
            percentiles: PERCENTILES.map(|(name, share)| (name, micros(share))).into(),
        })
    }

    /// So many microseconds less. Where the system adds less than the instrument
    /// varies by, this may be below zero.
    fn less(&self, micros: f64) -> Delay {
        let less = |(name, at): &(&'static str, f64)| (*name, at - micros);
        Delay {
            median: self.median - micros,
            percentiles: self.percentiles.iter().map(less).collect(),
        }
    }
}

impl Calibrated {
    /// Measures the loopback, then what `system` does with the same offer, which it
    /// returns with how disturbed the trial was.
    ///
    /// # Errors
    /// When either cannot be measured, or nothing arrives.
    pub fn measure(
        rig: &Rig,
        loopback: &mut Loopback,
        offer: &Offer,
        system: impl FnOnce() -> Result<(Arrivals, f64), Failure>,
    ) -> Result<(Calibrated, f64), Failure> {
        let without = rig.offer(&mut loopback.ends, offer)?;
        let (arrivals, disturbance) = system()?;
        let base = Delay::of(&without.delays).ok_or("nothing arrived of the loopback")?;
        let raw = Delay::of(&arrivals.delays).ok_or("nothing arrived of the system")?;
        let calibrated = raw.less(base.median);
        Ok((Calibrated { raw, calibrated }, disturbance.max(without.disturbance)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(nanoseconds: impl IntoIterator<Item = u64>) -> Histogram<u64> {
        let mut histogram = Histogram::new(3).unwrap();
        nanoseconds.into_iter().for_each(|one| histogram.record(one).unwrap());
        histogram
    }

    #[test]
    fn percentiles_are_told_in_microseconds() {
        let delay = Delay::of(&delays((1..=1000).map(|n| n * 1000))).unwrap();
        assert!((delay.median - 500.0).abs() < 1.0, "{delay:?}");
        for (name, micros) in [("p5", 50.0), ("p25", 250.0), ("p99", 990.0), ("max", 1000.0)] {
            let known = delay.percentiles.iter().find(|(known, _)| *known == name);
            assert!(known.is_some_and(|(_, at)| (at - micros).abs() < 1.0), "{name}: {delay:?}");
        }
    }

    #[test]
    fn nothing_has_no_delay() {
        assert_eq!(Delay::of(&delays([])), None);
    }

    #[test]
    fn what_the_instrument_takes_is_subtracted_everywhere() {
        let delay = Delay { median: 5.0, percentiles: vec![("p90", 7.0), ("max", 90.0)] };
        let less = Delay { median: 3.0, percentiles: vec![("p90", 5.0), ("max", 88.0)] };
        assert_eq!(delay.less(2.0), less);
    }
}
