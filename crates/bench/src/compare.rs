//! Two runs side by side: what differs, and whether it matters.
//!
//! Each series as a whole and each point is judged by permuting rounds
//! ([`shift`](mod@weft_rig::statistics::shift)). Many things are looked at at once, so
//! their p-values are raised: two runs of one build are told apart in at most 5 of 100
//! comparisons, however many points they have. Half of that error is left to the
//! series, which see a change of all their points far better than a single point does,
//! and half to the points. And a difference must be large enough to matter: beyond the
//! threshold of practical relevance.

#[cfg(test)]
mod simulated;
mod verdict;

use crate::results::{Better, Point, Results, Series};
use weft_rig::statistics::shift::{Pair, adjust, shift};
use weft_rig::statistics::{self, CONFIDENCE};

pub use verdict::{Verdict, better};

/// How a comparison is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// The share of the value before below which a difference does not matter.
    pub relevant: f64,
    /// The chance that two runs of one build are told apart.
    pub error: f64,
}

impl Default for Terms {
    /// 5 % of the value before; an error in 5 of 100 comparisons.
    fn default() -> Terms {
        Terms { relevant: 0.05, error: 1.0 - CONFIDENCE }
    }
}

/// What a row stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All points of a series that both runs have, as a ratio.
    Series,
    /// A point.
    Point,
    /// A derived number.
    Derived,
}

/// One thing that was compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The experiment.
    pub experiment: String,
    /// What is compared.
    pub scope: Scope,
    /// The series and its x, or the name of a derived number.
    pub what: String,
    /// The unit; empty where none is known.
    pub unit: String,
    /// The typical value, or the derived number, before.
    pub before: f64,
    /// And after.
    pub after: f64,
    /// The interval of the difference, 95 %; none for single values.
    pub interval: Option<[f64; 2]>,
    /// The p-value, raised for all that is compared; none for what is not judged.
    pub p: Option<f64>,
    /// The least p-value, not raised, that so few rounds can show.
    pub least_p: f64,
    /// Which way is better, where that is known.
    pub better: Option<Better>,
    /// What it means.
    pub verdict: Verdict,
}

/// All that was compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Point by point, derived numbers last.
    pub rows: Vec<Row>,
    /// What could not be compared, and what makes the comparison doubtful.
    pub notes: Vec<String>,
}

impl Row {
    /// The difference as a share of the value before, unless that is zero.
    pub fn change(&self) -> Option<f64> {
        (self.before != 0.0).then(|| (self.after - self.before) / self.before.abs())
    }
}

impl Comparison {
    /// Compares all experiments that both sides have.
    pub fn between(before: &[Results], after: &[Results], terms: &Terms) -> Comparison {
        let mut comparison = Comparison::default();
        for a in before {
            match after.iter().find(|b| b.experiment == a.experiment) {
                Some(b) => comparison.add(a, b),
                None => comparison.only("before", &a.experiment),
            }
        }
        for b in after {
            if !before.iter().any(|a| a.experiment == b.experiment) {
                comparison.only("after", &b.experiment);
            }
        }
        comparison.judge(terms);
        comparison
    }

    /// How many rows have this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|row| row.verdict == verdict).count()
    }

    /// What it all comes to: a regression if there is any, else an improvement if
    /// there is any.
    pub fn verdict(&self) -> Verdict {
        let any = [Verdict::Regression, Verdict::Changed, Verdict::Improved];
        any.into_iter().find(|&verdict| self.count(verdict) > 0).unwrap_or(Verdict::NoDifference)
    }

    fn only(&mut self, side: &str, what: &str) {
        self.notes.push(format!("{what}: only in the run {side}, not compared"));
    }

    fn add(&mut self, a: &Results, b: &Results) {
        self.doubts(a, b);
        for series in &a.series {
            match b.series(&series.name) {
                Some(other) if other.unit == series.unit => self.add_series(a, series, other),
                Some(other) => self.notes.push(format!(
                    "{}, {}: {} before, {} after, not compared",
                    a.experiment, series.name, series.unit, other.unit
                )),
                None => self.only("before", &format!("{}, {}", a.experiment, series.name)),
            }
        }
        for series in b.series.iter().filter(|series| a.series(&series.name).is_none()) {
            self.only("after", &format!("{}, {}", b.experiment, series.name));
        }
        self.add_derived(a, b);
    }

    /// What makes one wonder whether two runs may be compared.
    fn doubts(&mut self, a: &Results, b: &Results) {
        let name = &a.experiment;
        let after = b.machine.facts();
        for (what, before) in a.machine.facts() {
            // What one of them does not know is no difference.
            let Some((_, after)) = after.iter().find(|(other, _)| *other == what) else { continue };
            if before != *after && what != "Weft commit" {
                self.notes.push(format!("{name}: {what} differs: {before} before, {after} after"));
            }
        }
        if a.parameters != b.parameters {
            self.notes.push(format!("{name}: the parameters differ"));
        }
        if !a.complete || !b.complete {
            self.notes.push(format!("{name}: a run was interrupted"));
        }
    }

    fn add_series(&mut self, results: &Results, a: &Series, b: &Series) {
        let twin = |point: &Point| b.points.iter().find(|other| other.x == point.x);
        let pairs: Vec<(&Point, &Point)> =
            a.points.iter().filter_map(|point| Some((point, twin(point)?))).collect();
        let missing = a.points.len() - pairs.len();
        let is_short = |(one, other): &(&Point, &Point)| one.short || other.short;
        let (short, pairs): (Vec<_>, Vec<_>) = pairs.into_iter().partition(is_short);
        if !short.is_empty() {
            let (name, count) = (&results.experiment, short.len());
            self.notes.push(format!(
                "{name}, {}: {count} points not compared, their load was not reached",
                a.name
            ));
        }
        if missing > 0 {
            let name = &results.experiment;
            self.notes.push(format!("{name}, {}: {missing} points only in the run before", a.name));
        }
        // A baseline says whether the machine is the same, and nothing of a build; what is
        // computed from another series, nothing that this does not.
        let is_baseline = results.figures.iter().any(|figure| figure.baselines.contains(&a.name))
            || results.is_of_peer(&a.name);
        let is_only_shown = is_baseline || a.computed_from.is_some();
        let rows = match pairs.len() {
            0 => return,
            1 => Vec::new(),
            _ => whole(&results.experiment, a, &pairs).into_iter().collect(),
        };
        let points =
            pairs.iter().filter_map(|(one, other)| row(&results.experiment, a, one, other));
        let rows: Vec<Row> = rows.into_iter().chain(points).collect();
        self.rows.extend(rows.into_iter().map(|row| match is_only_shown {
            true => Row { p: None, ..row },
            false => row,
        }));
    }

    /// Derived numbers are shown, and judged by the points that they are computed
    /// from.
    fn add_derived(&mut self, a: &Results, b: &Results) {
        for (name, &before) in &a.derived {
            let Some(&after) = b.derived.get(name) else { continue };
            let half =
                |of: &Results| of.derived_ci95.get(name).map(|[low, high]| (high - low) / 2.0);
            let interval = half(a).zip(half(b)).map(|(one, other)| {
                let (difference, half) = (after - before, one.hypot(other));
                [difference - half, difference + half]
            });
            self.rows.push(Row {
                experiment: a.experiment.clone(),
                scope: Scope::Derived,
                what: name.clone(),
                unit: String::new(),
                before,
                after,
                interval,
                p: None,
                least_p: 1.0,
                better: None,
                verdict: Verdict::NotJudged,
            });
        }
    }

    fn judge(&mut self, terms: &Terms) {
        for scope in [Scope::Series, Scope::Point] {
            let rows: Vec<&mut Row> =
                self.rows.iter_mut().filter(|row| row.scope == scope && row.p.is_some()).collect();
            let p: Vec<_> = rows.iter().map(|row| (row.p.unwrap_or(1.0), row.least_p)).collect();
            // Either has half of the error.
            let raised = adjust(&p, terms.error / 2.0);
            for (row, p) in rows.into_iter().zip(raised) {
                row.p = Some((2.0 * p).min(1.0));
            }
        }
        for row in &mut self.rows {
            row.verdict = Verdict::of(row, terms);
        }
    }
}

/// A series as a whole.
fn whole(experiment: &str, series: &Series, pairs: &[(&Point, &Point)]) -> Option<Row> {
    let better = better(series);
    let rounds: Vec<Pair<'_>> =
        pairs.iter().map(|(a, b)| Pair { before: a.compared(), after: b.compared() }).collect();
    let shift = shift(&rounds, typical(better))?;
    Some(Row {
        experiment: experiment.to_owned(),
        scope: Scope::Series,
        what: format!("{}, all {} points", series.name, pairs.len()),
        unit: "ratio".to_owned(),
        before: 1.0,
        after: 1.0 + shift.change,
        interval: shift.interval,
        p: Some(shift.p),
        least_p: shift.least_p,
        better,
        // Judged when all rows are there.
        verdict: Verdict::NotJudged,
    })
}

/// Which percentile of repetitions is their typical value. What disturbs makes costs higher and
/// rates lower, for most rounds of a bad day: it is the tenth percentile on the quiet side, near
/// the edge and yet not the one value that luck decides; the median where neither side is.
fn typical(better: Option<Better>) -> f64 {
    match better {
        Some(Better::Lower) => 10.0,
        Some(Better::Higher) => 90.0,
        None => 50.0,
    }
}

fn row(experiment: &str, series: &Series, a: &Point, b: &Point) -> Option<Row> {
    let better = better(series);
    let typical = typical(better);
    let of = |point: &Point| statistics::percentile(point.compared(), typical);
    let (before, after) = (of(a)?, of(b)?);
    let shift = shift(&[Pair { before: a.compared(), after: b.compared() }], typical)?;
    Some(Row {
        experiment: experiment.to_owned(),
        scope: Scope::Point,
        what: format!("{}, {} = {}", series.name, series.x, a.x),
        unit: series.unit.clone(),
        before,
        after,
        interval: shift.interval.map(|ends| ends.map(|end| end * before.abs())),
        // A single repetition has nothing to be permuted.
        p: (a.n > 1 && b.n > 1).then_some(shift.p),
        least_p: shift.least_p,
        better,
        verdict: Verdict::NotJudged,
    })
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;
    use crate::machine::Machine;

    /// A run with ten points of ten repetitions, which vary by 2 %.
    fn run(seed: u64, factor: f64, unit: &str) -> Vec<Results> {
        let mut random = Rng::with_seed(seed);
        let mut results = Results::new("users", Machine::default());
        let mut series = Series::new("weft", "users", unit);
        for x in 1..=10 {
            let mut value = || 10.0 * f64::from(x) * factor * (0.96 + 0.08 * random.f64());
            let raw = (0..10).map(|_| value()).collect();
            series.points.push(Point::of(x, raw).unwrap());
        }
        results.series.push(series);
        vec![results]
    }

    fn verdict(a: &[Results], b: &[Results]) -> Verdict {
        Comparison::between(a, b, &Terms::default()).verdict()
    }

    #[test]
    fn two_runs_of_one_build_do_not_differ() {
        // Even where the least difference would matter.
        let strict = Terms { relevant: 0.0, ..Terms::default() };
        let same = (0..40)
            .filter(|seed| {
                let (a, b) = (run(*seed, 1.0, "Mpps"), run(1000 + seed, 1.0, "Mpps"));
                Comparison::between(&a, &b, &strict).verdict() == Verdict::NoDifference
            })
            .count();
        assert!(same >= 38, "{same} of 40");
    }

    #[test]
    fn a_tenth_slower_is_a_regression_and_a_tenth_faster_an_improvement() {
        for seed in 0..20 {
            let (a, slower) = (run(seed, 1.0, "Mpps"), run(1000 + seed, 0.9, "Mpps"));
            assert_eq!(verdict(&a, &slower), Verdict::Regression, "seed {seed}");
            assert_eq!(verdict(&slower, &a), Verdict::Improved, "seed {seed}");
            let (a, costlier) =
                (run(seed, 1.0, "cycles/packet"), run(1000 + seed, 1.1, "cycles/packet"));
            assert_eq!(verdict(&a, &costlier), Verdict::Regression, "seed {seed}");
        }
    }

    #[test]
    fn a_difference_too_small_to_matter_is_none() {
        let of = |seed| verdict(&run(seed, 1.0, "Mpps"), &run(1000 + seed, 0.98, "Mpps"));
        let none = (0..20).filter(|&seed| of(seed) == Verdict::NoDifference).count();
        assert!(none >= 19, "{none} of 20");
    }

    #[test]
    fn what_cannot_be_compared_is_noted() {
        let (mut a, mut b) = (run(1, 1.0, "Mpps"), run(2, 1.0, "Mpps"));
        b[0].series[0].points.truncate(8);
        b[0].machine.cpu = "another".to_owned();
        a[0].machine.cpu = "one".to_owned();
        a[0].derive("rate", 1.0);
        b[0].derive("rate", 2.0);
        b.push(Results::new("chain-mix", Machine::default()));
        let comparison = Comparison::between(&a, &b, &Terms::default());
        assert_eq!(comparison.rows.len(), 10, "the series, 8 points, a derived number");
        assert_eq!(comparison.rows[9].change(), Some(1.0));
        assert_eq!(comparison.rows[9].verdict, Verdict::NotJudged);
        let notes = comparison.notes.join("\n");
        for part in ["2 points only in the run before", "Processor differs", "chain-mix: only in"] {
            assert!(notes.contains(part), "{notes}");
        }
    }
}
