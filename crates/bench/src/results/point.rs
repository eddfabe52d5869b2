//! One place of a series, with all its repetitions.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use weft_rig::statistics::{self, CONFIDENCE};

/// A point: repetitions of one measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Where on the x axis.
    pub x: Abscissa,
    /// The mean of the repetitions.
    pub mean: f64,
    /// The 95 % confidence interval of the mean (Student's t); null for a single
    /// repetition, which has none.
    pub ci95: Option<[f64; 2]>,
    /// How many repetitions.
    pub n: usize,
    /// The repetitions, in the order in which they were made: means of whole trials.
    pub raw: Vec<f64>,
    /// Of the same trials the median of their slices, where they were cut into slices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub median: Vec<f64>,
    /// Of the same trials what their undisturbed slices say (the fifth percentile of a
    /// cost), where they were cut into slices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undisturbed: Vec<f64>,
    /// Of the same trials the load that was really sent, in the unit of the series' x, where
    /// it is a load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sent: Vec<f64>,
    /// Repetitions that do not count, as too little of their load left the generator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<f64>,
    /// Whether that is so of all repetitions: then the point is marked, and counts nowhere.
    #[serde(default, skip_serializing_if = "is_false")]
    pub short: bool,
    /// Percentiles of what was measured *within* the repetitions (delays of
    /// packets, say), by name: `p50`, `p99.9`, `max`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub percentiles: BTreeMap<String, f64>,
}

/// How a trial is looked at beside its mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By the median of its slices.
    Median,
    /// By its undisturbed slices.
    Undisturbed,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 2] = [Way::Median, Way::Undisturbed];

    /// The end of the name of a derived number.
    pub fn name(self) -> &'static str {
        match self {
            Way::Median => "median",
            Way::Undisturbed => "undisturbed",
        }
    }
}

/// Where a point stands on the x axis: at a number, or at a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Abscissa {
    /// A number, in the unit of the series' `x`.
    Number(f64),
    /// A name, of a bar.
    Name(String),
}

/// Repetitions that are no measurement.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum PointError {
    /// None at all.
    #[error("no repetition at {0}")]
    Empty(Abscissa),
    /// One that is infinite or not a number.
    #[error("repetition {number} at {x} is {value}, which is no measurement")]
    NotFinite {
        /// Where on the x axis.
        x: Abscissa,
        /// Which repetition, from 1.
        number: usize,
        /// What it is.
        value: f64,
    },
}

impl Point {
    /// The point that repetitions `raw` at `x` make.
    ///
    /// # Errors
    /// Without repetitions, or where one is not a finite number.
    pub fn of(x: impl Into<Abscissa>, raw: Vec<f64>) -> Result<Point, PointError> {
        let x = x.into();
        if let Some(index) = raw.iter().position(|value| !value.is_finite()) {
            return Err(PointError::NotFinite { x, number: index + 1, value: raw[index] });
        }
        let raw: Vec<f64> = raw.into_iter().map(kept).collect();
        let Some(mean) = statistics::mean(&raw) else {
            return Err(PointError::Empty(x));
        };
        let ci95 = statistics::interval(&raw, CONFIDENCE);
        let (median, undisturbed, percentiles) = Default::default();
        let (sent, left_out, short) = Default::default();
        let n = raw.len();
        Ok(Point { x, mean, ci95, n, raw, median, undisturbed, sent, left_out, short, percentiles })
    }

    /// Where it is drawn on a numeric axis: at what was really sent, where that is known.
    pub fn position(&self) -> Option<f64> {
        match (statistics::mean(&self.sent), &self.x) {
            (Some(sent), _) => Some(sent),
            (None, Abscissa::Number(x)) => Some(*x),
            (None, Abscissa::Name(_)) => None,
        }
    }

    /// The same, with percentiles of what was measured within the repetitions.
    pub fn with_percentiles<N: Into<String>>(
        mut self,
        percentiles: impl IntoIterator<Item = (N, f64)>,
    ) -> Point {
        self.percentiles = percentiles.into_iter().map(|(name, at)| (name.into(), at)).collect();
        self
    }

    /// The same, with what the slices of the trials say.
    pub fn with_slices(mut self, median: Vec<f64>, undisturbed: Vec<f64>) -> Point {
        let all = |values: Vec<f64>| values.into_iter().map(kept).collect();
        (self.median, self.undisturbed) = (all(median), all(undisturbed));
        self
    }

    /// The repetitions in a way; none where it has them in one way only.
    pub fn seen(&self, way: Way) -> Option<Point> {
        let raw = match way {
            Way::Median => &self.median,
            Way::Undisturbed => &self.undisturbed,
        };
        let point = Point::of(self.x.clone(), raw.clone()).ok()?;
        let (sent, short) = (self.sent.clone(), self.short);
        Some(Point { sent, short, ..point }.with_percentiles(self.percentiles.clone()))
    }

    /// The repetitions that tell one build from another: the undisturbed ones, where there
    /// are such, as means say more of what else the machine did.
    pub fn compared(&self) -> &[f64] {
        if self.undisturbed.is_empty() { &self.raw } else { &self.undisturbed }
    }

    /// The interval, or the mean itself where there is none.
    pub fn bounds(&self) -> [f64; 2] {
        self.ci95.unwrap_or([self.mean; 2])
    }
}

/// A repetition as it is kept: seven digits, as no trial repeats to more; whole numbers whole.
fn kept(value: f64) -> f64 {
    if value.fract() == 0.0 { value } else { format!("{value:.6e}").parse().unwrap_or(value) }
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl From<f64> for Abscissa {
    fn from(number: f64) -> Abscissa {
        Abscissa::Number(number)
    }
}

impl From<u32> for Abscissa {
    fn from(number: u32) -> Abscissa {
        Abscissa::Number(f64::from(number))
    }
}

impl From<i32> for Abscissa {
    fn from(number: i32) -> Abscissa {
        Abscissa::Number(f64::from(number))
    }
}

impl From<&str> for Abscissa {
    fn from(name: &str) -> Abscissa {
        Abscissa::Name(name.to_owned())
    }
}

impl From<String> for Abscissa {
    fn from(name: String) -> Abscissa {
        Abscissa::Name(name)
    }
}

impl fmt::Display for Abscissa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Abscissa::Number(number) => write!(f, "{number}"),
            Abscissa::Name(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_repetition_has_no_interval() {
        let point = Point::of("kernel", vec![7.0]).unwrap();
        assert_eq!((point.mean, point.ci95, point.n), (7.0, None, 1));
        assert_eq!(point.bounds(), [7.0, 7.0]);
    }

    #[test]
    fn repetitions_are_kept_with_seven_digits() {
        let point = Point::of(3, vec![2.0 / 3.0, 257_123_456.0]).unwrap();
        assert_eq!(point.raw, [0.666_666_7, 257_123_456.0]);
        assert_eq!(point.mean, (0.666_666_7 + 257_123_456.0) / 2.0);
    }

    #[test]
    fn what_is_no_measurement_is_refused() {
        assert_eq!(Point::of(3, vec![]), Err(PointError::Empty(3.into())));
        let error = Point::of(3, vec![1.0, f64::NAN]).unwrap_err();
        assert_eq!(error.to_string(), "repetition 2 at 3 is NaN, which is no measurement");
    }
}
