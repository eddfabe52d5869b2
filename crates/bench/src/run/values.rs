//! What one trial measured.

use std::borrow::Cow;

use weft_rig::{Delay, Measured};

use crate::results::{Point, Results};

/// The share of a load that has to leave the generator for a trial to count.
pub(super) const GIVEN: f64 = 0.98;

/// What a trial measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    pub(super) own: Option<Value>,
    pub(super) others: Vec<(Cow<'static, str>, Value)>,
    pub(super) sent: Option<Sent>,
}

/// What left the generator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent {
    /// The load that was really sent, in the unit of the series' x.
    pub at: f64,
    /// Packets that were sent, as a share of those that were due.
    pub share: f64,
}

/// A number that was measured, and what it is the median of, if of something.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    pub(super) number: f64,
    /// The median of the trial's slices, and what the undisturbed ones say.
    pub(super) slices: Option<[f64; 2]>,
    pub(super) percentiles: Vec<(&'static str, f64)>,
}

impl Values {
    /// The value of the cell.
    pub fn of(own: impl Into<Value>) -> Values {
        Values { own: Some(own.into()), others: Vec::new(), sent: None }
    }

    /// None: a baseline that failed, say.
    pub fn none() -> Values {
        Values { own: None, others: Vec::new(), sent: None }
    }

    /// The same of a load of which that was really sent. A trial of which too little left
    /// the generator does not count.
    pub fn sent(self, sent: Sent) -> Values {
        Values { sent: Some(sent), ..self }
    }

    /// And that of another series at the same place, if there is one.
    pub fn and(
        mut self,
        series: impl Into<Cow<'static, str>>,
        value: Option<impl Into<Value>>,
    ) -> Values {
        self.others.extend(value.map(|value| (series.into(), value.into())));
        self
    }
}

impl Value {
    /// The median of something, with percentiles of it by name: `p99`, `max`.
    pub fn with(median: f64, percentiles: Vec<(&'static str, f64)>) -> Value {
        Value { percentiles, ..median.into() }
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value { number, slices: None, percentiles: Vec::new() }
    }
}

impl From<Delay> for Value {
    fn from(delay: Delay) -> Value {
        Value::with(delay.median, delay.percentiles)
    }
}

impl From<Measured> for Value {
    fn from(measured: Measured) -> Value {
        let Measured { mean, median, undisturbed } = measured;
        Value { slices: Some([median, undisturbed]), ..mean.into() }
    }
}

/// What a reader should know of loads that the generator did not reach.
pub(super) fn unreached(results: &Results) -> Option<String> {
    let points = || results.series.iter().flat_map(|series| &series.points);
    let short = points().filter(|point| point.short).count();
    let left_out: usize = points().map(|point: &Point| point.left_out.len()).sum();
    let percent = GIVEN * 100.0;
    let mut told = Vec::new();
    if short > 0 {
        told.push(format!(
            "{short} points are marked and do not count: less than {percent} % of their load left \
             the generator, and they stand at what did"
        ));
    }
    if left_out > 0 {
        told.push(format!(
            "{left_out} repetitions of other points were left out for the same reason"
        ));
    }
    (!told.is_empty()).then(|| format!("Offered load: {}.", told.join("; ")))
}
