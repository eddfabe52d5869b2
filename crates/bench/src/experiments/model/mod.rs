//! `model`: the resource-constraint model, calibrated on chains of one and two,
//! against what longer and mixed chains carry; and whether it names the bottleneck
//! where one component is throttled on purpose.

pub(crate) mod calibrate;
pub(crate) mod components;
pub(crate) mod composed;

mod cases;
mod compositions;
mod throttle;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_dpdk::tsc;
use weft_model::hardware::Hardware;
use weft_model::quantity::Frequency;
use weft_model::{Calibration, Composition, Scenario};

use crate::calibration::{calibration, cost_of};
use crate::experiment::Study;
use crate::experiments::figure::{figure, mpps};
use crate::experiments::model::calibrate::{Trial, X as FRAME_BYTES, cells};
use crate::experiments::model::components::Component;
use crate::results::{Abscissa, Axis, Better, FigureKind, Point, Results, Series};
use crate::run::{Cell, Run, Values};
use cases::Case;
use compositions::Compositions;
use throttle::Throttled;
use weft_rig::Composition as Way;
use weft_rig::Failure;
use weft_rig::statistics;
use weft_rig::traffic::capture::Content;

const CASES: &str = "case";
const MEASURED: &str = "measured, cycles";
const PREDICTED: &str = "predicted, cycles";
const ERROR: &str = "error of the predicted rate";
/// Sizes that curves are drawn of, at most.
const CURVES: usize = 2;

/// See [`Study::VARIES`].
pub struct Model;

/// A chain of which the model was asked.
struct Compared {
    name: String,
    way: Way,
    /// Cycles per packet.
    measured: f64,
    /// As many as the model says.
    predicted: f64,
}

impl Compared {
    /// Of rates, which are the inverse of cycles, in percent.
    fn error(&self) -> f64 {
        (self.measured / self.predicted - 1.0) * 100.0
    }
}

/// Parameters of `model`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// Repetitions of each chain.
    #[schemars(range(min = 1))]
    repetitions: u32,
    /// Seconds of each.
    seconds: f64,
    /// Users.
    #[schemars(range(min = 1, max = 4000))]
    users: u32,
    /// Bytes of the frames that the model is calibrated with.
    #[schemars(inner(range(min = 64, max = 1518)))]
    calibrated_sizes: Vec<u32>,
    /// The functions; chains go through them from the first again.
    functions: Vec<Component>,
    /// Bytes of the frames of which the model is asked.
    #[schemars(inner(range(min = 64, max = 1518)))]
    sizes: Vec<u32>,
    /// Functions in the chains of which the model is asked.
    #[schemars(inner(range(min = 3, max = 16)))]
    lengths: Vec<usize>,
    /// Chains of one function only, so long each.
    #[schemars(inner(range(min = 3, max = 16)))]
    alike: Vec<usize>,
    /// Shares of the users that take the longest chain, in percent; the others take
    /// the shortest.
    #[schemars(inner(range(max = 100)))]
    mixes: Vec<u32>,
    /// Bytes of the frames of chains of one function and of mixes.
    #[schemars(range(min = 64, max = 1518))]
    other_size: u32,
    /// Chains that are run in other ways.
    #[serde(default)]
    compositions: Compositions,
    /// Components that are throttled on purpose.
    throttled: Vec<Throttled>,
}

impl Study for Model {
    const NAME: &'static str = "model";
    const TITLE: &'static str = "What the model predicts, beside what is measured";
    const VARIES: &'static str = "chains of 3 to 16 in each composition and mixes of them, 64 to 1518 B; calibrated on chains \
         of 1 and 2";
    const PAPER: &'static str = "Bauer et al., §V";
    const FILE: &'static str = include_str!("../../../../../experiments/model.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        run.derive("frequency", tsc::hz() as f64);
        let functions = Component::with_pass(&parameters.functions);
        let mut all = cells(&parameters.calibrated_sizes, parameters.users, &functions);
        for cell in &all {
            run.series(&cell.series, FRAME_BYTES, "cycles/packet", Some(Better::Lower));
        }
        run.series(MEASURED, CASES, "cycles/packet", Some(Better::Lower));
        for case in parameters.cases() {
            let trial = Trial::Chain(case.setup(parameters.users, &parameters.functions));
            all.push(Cell::new(MEASURED, case.name.as_str(), (case.size, trial)));
        }
        let length = Duration::from_secs_f64(parameters.seconds);
        run.rounds(parameters.repetitions, &all, |rig, (size, trial)| {
            let content = Content::of(parameters.users, *size as usize);
            let (cycles, disturbance) = trial.make(rig, content, length)?;
            Ok((Values::of(cycles), disturbance))
        })?;
        let (compositions, users) = (&parameters.compositions, parameters.users);
        let calibrated = compositions.calibrated(users, &parameters.functions);
        let asked = compositions.asked(users, &parameters.functions);
        let repetitions = parameters.repetitions;
        let cells = [(FRAME_BYTES, calibrated), (CASES, asked)];
        crate::experiments::model::composed::measure(&cells, (users, length), repetitions, run)?;
        throttle::measure(&parameters.throttled, repetitions, run)
    }

    fn conclude(parameters: &Parameters, results: &mut Results) {
        let Some(frequency) = results.derived.get("frequency").copied() else { return };
        let Some(found) = calibration(results, frequency) else { return };
        parameters.compare(&found, results);
        throttle::conclude(&parameters.throttled, &found, results);
        let point = |results: &Results, name: &str| results.derived.get(name).copied();
        if let (Some(median), Some(worst), Some(points)) = (
            point(results, "median_error_percent"),
            point(results, "worst_error_percent"),
            point(results, "points"),
        ) {
            results.says = format!(
                "Over {points:.0} chains that it was not calibrated with, the predicted rate is off \
                 by {median:.1} % in the median and {worst:.1} % at worst."
            );
        }
        results.notes.push(
            "Both sides are the lower quartile of the repetitions: what disturbs a trial makes a \
             packet dearer, never cheaper. The error is that of the rate: predicted less \
             measured, as a share of the measured."
                .to_owned(),
        );
        results.notes.push(
            "In compositions other than call the cycles are those of the node's core, with \
             functions elsewhere on another core; both sides leave that core out."
                .to_owned(),
        );
    }
}

impl Parameters {
    /// What the model is asked of.
    fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        let count = self.functions.len();
        let turns = |length: usize| (0..length).map(|nth| nth % count.max(1)).collect::<Vec<_>>();
        for &size in &self.sizes {
            cases.extend(self.lengths.iter().map(|&length| Case::chain(size, turns(length))));
        }
        for &length in &self.alike {
            for function in 0..count {
                let chain = vec![function; length];
                cases.push(Case::alike(self.other_size, chain, &self.functions[function].name));
            }
        }
        let ends = self.lengths.iter().min().zip(self.lengths.iter().max());
        if let Some((&shortest, &longest)) = ends {
            cases.extend(self.mixes.iter().map(|&percent| {
                Case::mix(self.other_size, turns(longest), turns(shortest), percent)
            }));
        }
        cases
    }

    /// Sets what is predicted beside what was measured.
    fn compare(&self, found: &Calibration, results: &mut Results) {
        let measured = |case: &Case| {
            let points = &results.series(MEASURED)?.points;
            points.iter().find(|point| point.x == Abscissa::from(case.name.as_str())).map(cost_of)
        };
        let called = self.cases().into_iter().filter_map(|case| {
            let (measured, predicted) = (measured(&case)?, self.predict(found, &case)?);
            Some(Compared { name: case.name, way: Way::Call, measured, predicted })
        });
        let mut all: Vec<Compared> = called.collect();
        all.extend(self.compositions.compared(&self.functions, found, results));
        let mut predicted = Series::new(PREDICTED, CASES, "cycles/packet");
        let mut errors = Series::new(ERROR, CASES, "%");
        for one in &all {
            predicted.points.extend(Point::of(one.name.as_str(), vec![one.predicted]));
            errors.points.extend(Point::of(one.name.as_str(), vec![one.error()]));
        }
        results.derive("points", all.len() as f64);
        derive_errors(results, "", all.iter());
        for way in Way::ALL {
            let of_way = || all.iter().filter(|one| one.way == way);
            if of_way().next().is_some() {
                derive_errors(results, &format!("_{}", way.name()), of_way());
            }
        }
        let curves = self.curves(found, results);
        [predicted, errors].into_iter().chain(curves).for_each(|series| results.compute(series));
        self.draw(results);
    }

    /// Cycles per packet by length, of the smallest and the largest size: measured and
    /// predicted.
    fn curves(&self, found: &Calibration, results: &Results) -> Vec<Series> {
        let mut curves = Vec::new();
        for size in self.drawn() {
            let [mut measured, mut predicted] =
                curve_names(size).map(|name| Series::new(name, "functions", "Mpps"));
            for case in self.cases().iter().filter(|case| case.size == size && case.is_plain) {
                let at = results.series(MEASURED).and_then(|series| {
                    let name = Abscissa::from(case.name.as_str());
                    series.points.iter().find(|point| point.x == name)
                });
                let (Some(at), Some(cycles)) = (at, self.predict(found, case)) else { continue };
                let length = case.chains[0].functions.len() as f64;
                let raw = at.raw.iter().map(|&cycles| mpps(cycles)).collect();
                measured.points.extend(Point::of(length, raw));
                predicted.points.extend(Point::of(length, vec![mpps(cycles)]));
            }
            curves.extend([measured, predicted]);
        }
        curves.retain(|series| !series.points.is_empty());
        curves
    }

    /// Sizes that curves are drawn of.
    fn drawn(&self) -> Vec<u32> {
        let mut sizes = self.sizes.clone();
        sizes.sort_unstable();
        sizes.dedup();
        let between = 1..sizes.len().saturating_sub(1);
        if sizes.len() > CURVES {
            sizes.drain(between);
        }
        sizes
    }

    fn draw(&self, results: &mut Results) {
        let names: Vec<String> = self.drawn().into_iter().flat_map(curve_names).collect();
        let predicted = names.iter().filter(|name| name.starts_with("predicted"));
        let throughput = figure(
            "throughput",
            "Predicted and measured rate by length of chain",
            FigureKind::Lines,
            names.iter().map(String::as_str),
        )
        .caption(
            "Chains of 3 and more functions in turn on one core. The model knows chains of 1 and \
             2 only, and two of the sizes between at most.",
        )
        .axes(Axis::linear("Functions", ""), Axis::linear("Packet rate", "Mpps"))
        .baselines(predicted.map(String::as_str));
        results.figures = throughput.of(results).into_iter().collect();
    }

    /// Cycles per packet of a case; none of a function that was not measured.
    fn predict(&self, found: &Calibration, case: &Case) -> Option<f64> {
        let scenario = Scenario { traffic: case.traffic(&self.functions), ..scenario(found) };
        Some(scenario.answer().ok()?.cycles())
    }
}

/// The median and the worst error of these chains.
fn derive_errors<'c>(results: &mut Results, of: &str, all: impl Iterator<Item = &'c Compared>) {
    let errors: Vec<f64> = all.map(|one| one.error().abs()).collect();
    let median = statistics::median(&errors).unwrap_or(f64::NAN);
    results.derive(format!("median_error_percent{of}"), median);
    let worst = errors.iter().copied().fold(f64::NAN, f64::max);
    results.derive(format!("worst_error_percent{of}"), worst);
}

fn curve_names(size: u32) -> [String; 2] {
    ["measured", "predicted"].map(|name| format!("{name}, {size} B"))
}

/// One core of this machine, without traffic.
fn scenario(found: &Calibration) -> Scenario {
    let mut hardware = Hardware::default();
    hardware.cpu.frequency = Some(Frequency(found.frequency.0));
    Scenario {
        hardware,
        costs: found.costs(),
        composition: Composition::Call,
        workers: 1,
        function_cores: 0,
        traffic: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_model::dilution;

    use crate::calibration::{PASS, RECEIVE, RECEIVE_AND_TRANSMIT};
    use crate::experiment::file::File;
    use crate::machine::Machine;

    fn parameters() -> Parameters {
        File::<Parameters>::read(Model::FILE, "model.yaml", Model::NAME).unwrap().quick
    }

    /// What a packet costs more whose predecessor takes another chain.
    const MIX: f64 = 12.0;

    /// What a function of the file costs in a machine that the model describes exactly.
    fn work(name: &str) -> f64 {
        2.0 + name.len() as f64
    }

    fn chain<'n>(functions: impl IntoIterator<Item = &'n str>, size: f64) -> f64 {
        let work: f64 = functions.into_iter().map(work).sum();
        100.0 + work + 0.01 * size
    }

    /// Results of such a machine; chains beyond two are dearer by a factor.
    fn results(parameters: &Parameters, factor: f64) -> Results {
        let mut results = Results::new(Model::NAME, Machine::default());
        results.derive("frequency", 2e9);
        let mut add = |series: &str, x: Abscissa, value: f64| {
            if results.series(series).is_none() {
                results.series.push(Series::new(series, "", "cycles/packet"));
            }
            let found = results.series.iter_mut().find(|one| one.name == series).unwrap();
            found.points.push(Point::of(x, vec![value; 3]).unwrap());
        };
        let functions = Component::with_pass(&parameters.functions);
        for cell in cells(&parameters.calibrated_sizes, parameters.users, &functions) {
            let size = f64::from(cell.what.0);
            let cost = match cell.series.as_str() {
                RECEIVE => 20.0,
                RECEIVE_AND_TRANSMIT => 40.0,
                "chain ()" => 90.0 + 0.01 * size,
                mixed if mixed.starts_with("mix (") => {
                    let lists = mixed.strip_prefix("mix (").unwrap().strip_suffix(')').unwrap();
                    let (one, other) = lists.split_once(" | ").unwrap();
                    let both = one.split(", ").chain(other.split(", "));
                    // Of half of the packets each; each visit is of half a burst.
                    let visits = 3.0 * work(PASS) * (dilution(0.5) - 1.0);
                    let work: f64 = both.map(work).sum();
                    100.0 + 0.01 * size + (work + visits) / 2.0 + MIX / 2.0
                }
                chained => {
                    let list = chained.strip_prefix("chain (").unwrap().strip_suffix(')').unwrap();
                    chain(list.split(", "), size)
                }
            };
            add(&cell.series, cell.x, cost);
        }
        for case in parameters.cases() {
            let cost = case.chains.iter().map(|part| {
                let share = f64::from(part.percent) / 100.0;
                let names =
                    part.functions.iter().map(|&nth| parameters.functions[nth].name.as_str());
                // The longer chain alone visits what the shorter has not.
                let shortest = case.chains.iter().map(|part| part.functions.len()).min().unwrap();
                let alone = (part.functions.len() - shortest) as f64;
                let visits = alone * work(PASS) * (dilution(share) - 1.0);
                let of_chain = chain(names, f64::from(case.size)) + visits + MIX * (1.0 - share);
                of_chain * share
            });
            add(MEASURED, case.name.as_str().into(), cost.sum::<f64>() * factor);
        }
        results
    }

    #[test]
    fn a_machine_that_the_model_describes_is_predicted_without_error() {
        let parameters = parameters();
        let mut results = results(&parameters, 1.0);
        Model::conclude(&parameters, &mut results);
        assert!(results.derived["points"] >= 40.0);
        assert!(results.derived["worst_error_percent"] < 1e-4, "{:?}", results.derived);
        assert_eq!(results.figures.len(), 1);
    }

    #[test]
    fn an_error_of_ten_percent_is_told_as_one() {
        let parameters = parameters();
        let mut results = results(&parameters, 1.1);
        Model::conclude(&parameters, &mut results);
        for name in ["median_error_percent", "worst_error_percent"] {
            assert!((results.derived[name] - 10.0).abs() < 1e-4, "{:?}", results.derived);
        }
    }

    #[test]
    fn the_points_are_none_that_the_model_was_calibrated_with() {
        let cases = parameters().cases();
        for case in &cases {
            assert!(case.chains.iter().all(|part| part.functions.len() > 2), "{}", case.name);
        }
        let mut names: Vec<_> = cases.iter().map(|case| &case.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), cases.len());
    }

    #[test]
    fn what_is_throttled_is_named() {
        let parameters = parameters();
        let mut results = results(&parameters, 1.0);
        let delivered =
            [("throttled, delivered", 1.0), ("with twice as much of it, delivered", 2.0)];
        for (series, rate) in delivered {
            let mut series = Series::new(series, "throttled", "Mpps");
            for case in &parameters.throttled {
                series.points.push(Point::of(case.name().as_str(), vec![rate]).unwrap());
            }
            results.series.push(series);
        }
        Model::conclude(&parameters, &mut results);
        let count = parameters.throttled.len() as f64;
        assert_eq!(results.derived["bottlenecks"], count);
        assert_eq!(results.derived["bottlenecks_named_right"], count, "{:?}", results.notes);
    }
}
