//! Two runs side by side: what differs, and whether it matters.
//!
//! Each point is compared by Welch's test. Many points are looked at at once, so
//! their p-values are raised by Holm's method: two runs of one build are told apart
//! in at most 5 of 100 comparisons, however many points they have. And a difference
//! must be large enough to matter: a point changes only where the difference
//! between the means is beyond the threshold of practical relevance.

mod verdict;

use std::collections::BTreeMap;

use crate::results::{Better, Point, Results, Series};
use crate::statistics::{self, CONFIDENCE, Difference};

pub use verdict::{Verdict, better};

/// How a comparison is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// The share of a mean below which a difference does not matter.
    pub relevant: f64,
    /// The chance that two runs of one build are told apart.
    pub error: f64,
}

impl Default for Terms {
    /// 5 % of the mean; an error in 5 of 100 comparisons.
    fn default() -> Terms {
        Terms { relevant: 0.05, error: 1.0 - CONFIDENCE }
    }
}

/// One thing that was compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The experiment.
    pub experiment: String,
    /// The series and its x, or the name of a derived number.
    pub what: String,
    /// The unit; empty where none is known.
    pub unit: String,
    /// The mean, or the derived number, before.
    pub before: f64,
    /// And after.
    pub after: f64,
    /// The interval of the difference, 95 %; none for single values.
    pub interval: Option<[f64; 2]>,
    /// The p-value after Holm's method; none for single values.
    pub p: Option<f64>,
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
        self.add_derived(&a.experiment, &a.derived, &b.derived);
    }

    /// What makes one wonder whether two runs may be compared.
    fn doubts(&mut self, a: &Results, b: &Results) {
        let name = &a.experiment;
        for ((what, before), (_, after)) in a.machine.facts().iter().zip(b.machine.facts()) {
            if *before != after && *what != "Weft commit" {
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
        let mut missing = 0;
        for point in &a.points {
            let Some(other) = b.points.iter().find(|other| other.x == point.x) else {
                missing += 1;
                continue;
            };
            self.rows.push(row(&results.experiment, a, point, other));
        }
        if missing > 0 {
            let name = &results.experiment;
            self.notes.push(format!("{name}, {}: {missing} points only in the run before", a.name));
        }
    }

    /// Derived numbers are single values: they are shown, and judged by the points
    /// that they are computed from.
    fn add_derived(
        &mut self,
        experiment: &str,
        a: &BTreeMap<String, f64>,
        b: &BTreeMap<String, f64>,
    ) {
        for (name, &before) in a {
            let Some(&after) = b.get(name) else { continue };
            self.rows.push(Row {
                experiment: experiment.to_owned(),
                what: name.clone(),
                unit: String::new(),
                before,
                after,
                interval: None,
                p: None,
                better: None,
                verdict: Verdict::NotJudged,
            });
        }
    }

    fn judge(&mut self, terms: &Terms) {
        let raw: Vec<f64> = self.rows.iter().filter_map(|row| row.p).collect();
        let mut adjusted = statistics::holm(&raw).into_iter();
        for row in &mut self.rows {
            row.p = row.p.and_then(|_| adjusted.next());
            row.verdict = Verdict::of(row, terms);
        }
    }
}

fn row(experiment: &str, series: &Series, a: &Point, b: &Point) -> Row {
    let difference = Difference::between(&a.raw, &b.raw);
    Row {
        experiment: experiment.to_owned(),
        what: format!("{}, {} = {}", series.name, series.x, a.x),
        unit: series.unit.clone(),
        before: a.mean,
        after: b.mean,
        interval: difference.map(|difference| difference.interval(CONFIDENCE)),
        p: difference.map(|difference| difference.p),
        better: better(series),
        // Judged when all rows are there.
        verdict: Verdict::NotJudged,
    }
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
        let same = (0..100)
            .filter(|seed| {
                let (a, b) = (run(*seed, 1.0, "Mpps"), run(1000 + seed, 1.0, "Mpps"));
                Comparison::between(&a, &b, &strict).verdict() == Verdict::NoDifference
            })
            .count();
        assert!(same >= 95, "{same} of 100");
    }

    #[test]
    fn a_tenth_slower_is_a_regression_and_a_tenth_faster_an_improvement() {
        for seed in 0..100 {
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
        let none = (0..100).filter(|&seed| of(seed) == Verdict::NoDifference).count();
        assert!(none >= 95, "{none} of 100");
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
        assert_eq!(comparison.rows.len(), 9);
        assert_eq!(comparison.rows[8].change(), Some(1.0));
        assert_eq!(comparison.rows[8].verdict, Verdict::NotJudged);
        let notes = comparison.notes.join("\n");
        for part in ["2 points only in the run before", "Processor differs", "chain-mix: only in"] {
            assert!(notes.contains(part), "{notes}");
        }
    }
}
