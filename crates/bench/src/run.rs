//! An experiment under way: rounds of trials, and what they recorded.
//!
//! Every round makes each trial once, so that whatever changes on the machine in
//! the meantime changes all points alike. After each round what there is is kept,
//! and rounds that were kept are not made again when an experiment is resumed.

mod rates;

use std::borrow::Cow;
use std::collections::BTreeMap;

use thiserror::Error;

use crate::results::{Abscissa, Better, Point, Results, Series, Way};
use weft_rig::Failure;
use weft_rig::statistics;
use weft_rig::{Delay, Measured, Rig, Spoilt};

/// Rounds of which derived numbers have intervals.
const MOST_ROUNDS: usize = 1000;
/// Draws of the bootstrap.
const DRAWS: usize = 200;

/// An observer of an experiment.
pub trait Watch {
    /// Whether it is to end.
    fn is_over(&self) -> bool;

    /// So many trials of so many are made; `what` is the next.
    fn progress(&self, made: usize, of: usize, what: &str);

    /// Keeps what there is.
    ///
    /// # Errors
    /// When it cannot be kept, which ends the experiment.
    fn keep(&self, results: &Results) -> Result<(), Failure>;
}

/// The watch ended the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("interrupted")]
pub struct Interrupted;

/// One place of a series, and how to get there.
#[derive(Clone, Debug)]
pub struct Cell<T> {
    /// The name of its series.
    pub series: String,
    /// Where in it.
    pub x: Abscissa,
    /// What is to be measured.
    pub what: T,
}

impl<T> Cell<T> {
    /// A place at `x`.
    pub fn new(series: impl Into<String>, x: impl Into<Abscissa>, what: T) -> Cell<T> {
        Cell { series: series.into(), x: x.into(), what }
    }
}

/// An experiment under way.
pub struct Run<'a> {
    /// Where trials are made.
    pub rig: &'a Rig,
    watch: &'a dyn Watch,
    results: Results,
    curves: Vec<Curve>,
    spoilt: Spoilt,
    conclude: Box<dyn Fn(&mut Results) + 'a>,
}

/// A series in the making.
struct Curve {
    series: Series,
    places: Vec<PendingPoint>,
}

/// A point in the making.
struct PendingPoint {
    x: Abscissa,
    raw: Vec<f64>,
    median: Vec<f64>,
    undisturbed: Vec<f64>,
    percentiles: BTreeMap<String, f64>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        rig: &'a Rig,
        watch: &'a dyn Watch,
        results: Results,
        former: Option<Results>,
        conclude: impl Fn(&mut Results) + 'a,
    ) -> Run<'a> {
        let curves = former.into_iter().flat_map(|former| former.series).map(Curve::resumed);
        let (curves, conclude) = (curves.collect(), Box::new(conclude));
        Run { rig, watch, results, curves, spoilt: Spoilt::default(), conclude }
    }

    /// Begins a series, unless it was begun before.
    pub fn series(&mut self, name: &str, x: &str, unit: &str, better: Option<Better>) {
        if !self.has(name) {
            let series = Series { better, ..Series::new(name, x, unit) };
            self.curves.push(Curve { series, places: Vec::new() });
        }
    }

    /// Whether there is such a series.
    pub fn has(&self, series: &str) -> bool {
        self.curves.iter().any(|curve| curve.series.name == series)
    }

    /// Keeps a series that was measured at once, unless there is one of its name.
    pub fn keep_series(&mut self, series: Series) {
        if !self.has(&series.name) {
            self.curves.push(Curve::resumed(series));
        }
    }

    /// Says of a series that was begun that it is computed from another.
    pub fn computed(&mut self, name: &str, from: &str) {
        for curve in self.curves.iter_mut().filter(|curve| curve.series.name == name) {
            curve.series.computed_from = Some(from.to_owned());
        }
    }

    /// Makes rounds until each cell has so many repetitions. `trial` returns the
    /// value of the cell and how disturbed it was (0 to 1); it may record more
    /// values by itself.
    ///
    /// # Errors
    /// [`Interrupted`], those of the trials, or when results cannot be kept.
    pub fn rounds<T>(
        &mut self,
        repetitions: u32,
        cells: &[Cell<T>],
        mut trial: impl FnMut(&Rig, &T) -> Result<(Values, f64), Failure>,
    ) -> Result<(), Failure> {
        let all = repetitions as usize * cells.len();
        let mut made = 0;
        for round in 0..repetitions as usize {
            for cell in cells {
                let what = format!("{} at {}", cell.series, cell.x);
                self.watch.progress(made, all, &what);
                made += 1;
                if self.count(&cell.series, &cell.x) > round {
                    continue;
                }
                let (rig, watch) = (self.rig, self.watch);
                let values = self.spoilt.make(|| {
                    // Attempts of a spoilt trial take as long as several.
                    go_on(watch)?;
                    trial(rig, &cell.what)
                })?;
                if let Some(own) = values.own {
                    self.record(&cell.series, &cell.x, own);
                }
                for (series, value) in values.others {
                    self.record(&series, &cell.x, value);
                }
            }
            self.keep()?;
        }
        Ok(())
    }

    /// Asks whether to go on, as what takes long before the first round should.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub fn go_on(&self) -> Result<(), Interrupted> {
        go_on(self.watch)
    }

    /// Records a repetition of a series that was begun.
    pub fn record(&mut self, series: &str, x: &Abscissa, value: impl Into<Value>) {
        let Some(curve) = self.curves.iter_mut().find(|curve| curve.series.name == series) else {
            return;
        };
        let at = curve.places.iter().position(|place| place.x == *x).unwrap_or_else(|| {
            curve.places.push(PendingPoint::new(x.clone()));
            curve.places.len() - 1
        });
        curve.places[at].record(value.into());
    }

    /// Keeps a number that is not a series.
    pub fn derive(&mut self, name: &str, value: f64) {
        self.results.derive(name, value);
    }

    /// Notes something that a reader must know, once.
    pub fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.results.notes.contains(&text) {
            self.results.notes.push(text);
        }
    }

    /// Repetitions there are.
    fn count(&self, series: &str, x: &Abscissa) -> usize {
        let curve = self.curves.iter().find(|curve| curve.series.name == series);
        let place = curve.and_then(|curve| curve.places.iter().find(|place| place.x == *x));
        place.map_or(0, |place| place.raw.len())
    }

    /// Keeps what there is.
    pub(crate) fn keep(&self) -> Result<(), Failure> {
        self.watch.keep(&self.so_far(false))
    }

    /// What there is, at the end.
    pub(crate) fn finish(self, complete: bool) -> Results {
        let mut results = self.so_far(complete);
        results.derived_ci95 = self.intervals(&results.derived);
        results
    }

    fn so_far(&self, complete: bool) -> Results {
        let mut results = Results { complete, ..self.concluded(None) };
        results.notes.extend(self.spoilt.note());
        results.notes.extend(rates::disagreement(&results));
        results
    }

    /// What these rounds say, or all, with derived numbers in all ways.
    fn concluded(&self, rounds: Option<&[usize]>) -> Results {
        let series: Vec<Series> =
            self.curves.iter().filter_map(|curve| curve.measured(rounds)).collect();
        let mut results = Results { series: series.clone(), ..self.results.clone() };
        (self.conclude)(&mut results);
        let mut others = BTreeMap::new();
        for way in Way::ALL {
            let mut seen = Results { series: seen(&series, way), ..self.results.clone() };
            (self.conclude)(&mut seen);
            let differs = |(name, value): &(String, f64)| results.derived.get(name) != Some(value);
            let named = |(name, value)| (format!("{name}_{}", way.name()), value);
            others.extend(seen.derived.into_iter().filter(differs).map(named));
        }
        results.derived.extend(others);
        results
    }

    /// The intervals of derived numbers, which need to know nothing of how a number is
    /// derived: by jackknife over rounds; those of medians and other percentiles, for which
    /// it does not hold, by bootstrap. What no round has a part in has none.
    fn intervals(&self, derived: &BTreeMap<String, f64>) -> BTreeMap<String, [f64; 2]> {
        let places = self.curves.iter().flat_map(|curve| &curve.places);
        let rounds = places.map(|place| place.raw.len()).max().unwrap_or(0);
        if rounds > MOST_ROUNDS {
            // So many need no more than their mean, and take the square of the time.
            return BTreeMap::new();
        }
        let all = |which: Vec<Vec<usize>>| -> Vec<_> {
            which.iter().map(|rounds| self.concluded(Some(rounds)).derived).collect()
        };
        let without = |left: usize| (0..rounds).filter(|&round| round != left).collect();
        let without = all((0..rounds).map(without).collect());
        let drawn = all(statistics::draws(rounds, DRAWS));
        let of = |(name, &value): (&String, &f64)| {
            let by_slices = Way::ALL.iter().any(|way| name.ends_with(way.name()));
            let from = if by_slices { &drawn } else { &without };
            let others = from.iter().map(|derived| derived.get(name).copied());
            let others = others.collect::<Option<Vec<_>>>()?;
            let interval = match by_slices {
                true => statistics::bootstrap(&others),
                false => statistics::jackknife(value, &others),
            }?;
            (interval[0] < interval[1]).then(|| (name.clone(), interval))
        };
        derived.iter().filter_map(of).collect()
    }
}

fn go_on(watch: &dyn Watch) -> Result<(), Interrupted> {
    if watch.is_over() { Err(Interrupted) } else { Ok(()) }
}

/// The series as a way of looking at trials shows them; those without slices as they are.
fn seen(series: &[Series], way: Way) -> Vec<Series> {
    let point = |point: &Point| point.seen(way).unwrap_or_else(|| point.clone());
    let of =
        |one: &Series| Series { points: one.points.iter().map(point).collect(), ..one.clone() };
    series.iter().map(of).collect()
}

/// What a trial measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    own: Option<Value>,
    others: Vec<(Cow<'static, str>, Value)>,
}

/// A number that was measured, and what it is the median of, if of something.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    number: f64,
    /// The median of the trial's slices, and what the undisturbed ones say.
    slices: Option<[f64; 2]>,
    percentiles: Vec<(&'static str, f64)>,
}

impl Values {
    /// The value of the cell.
    pub fn of(own: impl Into<Value>) -> Values {
        Values { own: Some(own.into()), others: Vec::new() }
    }

    /// None: a baseline that failed, say.
    pub fn none() -> Values {
        Values { own: None, others: Vec::new() }
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

impl Curve {
    fn resumed(series: Series) -> Curve {
        let places = series.points.iter().cloned().map(|point| PendingPoint {
            x: point.x,
            raw: point.raw,
            median: point.median,
            undisturbed: point.undisturbed,
            percentiles: point.percentiles,
        });
        let places = places.collect();
        Curve { series: Series { points: Vec::new(), ..series }, places }
    }

    /// The series with the points that were measured in these rounds, or in all; none
    /// without any.
    fn measured(&self, rounds: Option<&[usize]>) -> Option<Series> {
        let points: Vec<Point> =
            self.places.iter().filter_map(|place| place.point(rounds)).collect();
        (!points.is_empty()).then(|| Series { points, ..self.series.clone() })
    }
}

impl PendingPoint {
    fn new(x: Abscissa) -> PendingPoint {
        let (raw, median, undisturbed) = Default::default();
        PendingPoint { x, raw, median, undisturbed, percentiles: BTreeMap::new() }
    }

    /// Adds a repetition. Of percentiles the mean of all repetitions is kept, of
    /// `max` the greatest.
    fn record(&mut self, value: Value) {
        self.raw.push(value.number);
        if let Some([median, undisturbed]) = value.slices {
            self.median.push(median);
            self.undisturbed.push(undisturbed);
        }
        let made = self.raw.len() as f64;
        for (name, new) in value.percentiles {
            let kept = self.percentiles.entry(name.to_owned()).or_insert(new);
            *kept = if name == "max" { kept.max(new) } else { *kept + (new - *kept) / made };
        }
    }

    /// The point of these rounds, or of all.
    fn point(&self, rounds: Option<&[usize]>) -> Option<Point> {
        let chosen = |of: &[f64]| match rounds {
            Some(rounds) => rounds.iter().filter_map(|&round| of.get(round).copied()).collect(),
            None => of.to_vec(),
        };
        let point = Point::of(self.x.clone(), chosen(&self.raw)).ok()?;
        let point = point.with_slices(chosen(&self.median), chosen(&self.undisturbed));
        Some(point.with_percentiles(self.percentiles.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_share_their_percentiles() {
        let mut place = PendingPoint::new(64.into());
        for (median, p99, max) in [(1.0, 2.0, 9.0), (2.0, 4.0, 5.0), (3.0, 9.0, 7.0)] {
            let percentiles = vec![("p99", p99), ("max", max)];
            place.record(Delay { median, percentiles }.into());
        }
        let point = place.point(None).unwrap();
        assert_eq!((point.mean, point.n), (2.0, 3));
        assert_eq!(point.percentiles["p99"], 5.0);
        assert_eq!(point.percentiles["max"], 9.0);
    }

    #[test]
    fn a_trial_is_seen_in_three_ways() {
        let mut place = PendingPoint::new(64.into());
        for mean in [30.0, 50.0] {
            place.record(Measured { mean, median: mean / 2.0, undisturbed: 10.0 }.into());
        }
        let point = place.point(None).unwrap();
        assert_eq!((point.mean, &point.median[..]), (40.0, &[15.0, 25.0][..]));
        assert_eq!(point.seen(Way::Undisturbed).unwrap().raw, [10.0, 10.0]);
        assert_eq!(point.compared(), [10.0, 10.0]);
        let second = place.point(Some(&[1, 1])).unwrap();
        assert_eq!((second.raw, second.median), (vec![50.0, 50.0], vec![25.0, 25.0]));
    }

    #[test]
    fn a_number_has_no_percentiles() {
        let mut place = PendingPoint::new(64.into());
        place.record(7.0.into());
        assert!(place.point(None).unwrap().percentiles.is_empty());
    }
}
