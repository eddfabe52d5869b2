//! An experiment under way: rounds of trials, and what they recorded.
//!
//! Every round makes each trial once, so that whatever changes on the machine in
//! the meantime changes all points alike. After each round what there is is kept,
//! and rounds that were kept are not made again when an experiment is resumed.

mod pending;
mod rates;
mod values;

use std::collections::BTreeMap;

use thiserror::Error;

use crate::results::{Abscissa, Better, Peer, Point, Results, Series, Way};
use pending::{Curve, PendingPoint};
use weft_rig::Failure;
use weft_rig::statistics;
use weft_rig::{Account, Rig};

pub use values::{Sent, Value, Values};

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
    /// What became of trials before, here and in results that are gone on with.
    before: Account,
    former: Account,
    conclude: Box<dyn Fn(&mut Results) + 'a>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        rig: &'a Rig,
        watch: &'a dyn Watch,
        results: Results,
        former: Option<Results>,
        conclude: impl Fn(&mut Results) + 'a,
    ) -> Run<'a> {
        let (before, account) = (rig.account(), former.as_ref().map(|former| former.trials));
        let curves = former.into_iter().flat_map(|former| former.series).map(Curve::resumed);
        let (curves, conclude) = (curves.collect(), Box::new(conclude));
        let former = account.unwrap_or_default();
        Run { rig, watch, results, curves, before, former, conclude }
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
                let values = rig.steady(|| {
                    // Attempts of a spoilt trial take as long as several.
                    go_on(watch)?;
                    trial(rig, &cell.what)
                })?;
                if values.own.is_none() {
                    rig.count(|account| {
                        account.trials -= 1;
                        account.missing += 1;
                    });
                }
                let sent = values.sent;
                if let Some(own) = values.own {
                    self.record_sent(&cell.series, &cell.x, own, sent);
                }
                for (series, value) in values.others {
                    self.record_sent(&series, &cell.x, value, sent);
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
        self.record_sent(series, x, value.into(), None);
    }

    fn record_sent(&mut self, series: &str, x: &Abscissa, value: Value, sent: Option<Sent>) {
        let Some(curve) = self.curves.iter_mut().find(|curve| curve.series.name == series) else {
            return;
        };
        let at = curve.places.iter().position(|place| place.x == *x).unwrap_or_else(|| {
            curve.places.push(PendingPoint::new(x.clone()));
            curve.places.len() - 1
        });
        curve.places[at].record(value, sent);
    }

    /// Keeps a number that is not a series.
    pub fn derive(&mut self, name: &str, value: f64) {
        self.results.derive(name, value);
    }

    /// Says what another program is that is measured beside, once.
    pub fn peer(&mut self, peer: Peer) {
        if !self.results.peers.contains(&peer) {
            self.results.peers.push(peer);
        }
    }

    /// Notes something that a reader must know, once.
    pub fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.results.notes.contains(&text) {
            self.results.notes.push(text);
        }
    }

    /// The mean of what was measured of a series so far.
    pub fn mean(&self, series: &str, x: impl Into<Abscissa>) -> Option<f64> {
        let curve = self.curves.iter().find(|curve| curve.series.name == series)?;
        curve.measured(None)?.mean_at(x)
    }

    /// Repetitions there are.
    fn count(&self, series: &str, x: &Abscissa) -> usize {
        let curve = self.curves.iter().find(|curve| curve.series.name == series);
        let place = curve.and_then(|curve| curve.places.iter().find(|place| place.x == *x));
        place.map_or(0, PendingPoint::count)
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
        results.trials = self.rig.account().since(self.before).and(self.former);
        results.notes.extend(results.trials.note());
        results.notes.extend(rates::disagreement(&results));
        results.notes.extend(values::unreached(&results));
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
        let rounds = places.map(PendingPoint::count).max().unwrap_or(0);
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
