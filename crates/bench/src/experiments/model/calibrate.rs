//! `calibrate`: what each step of a packet's way costs, for the model.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::calibration::{
    PASS, RECEIVE, RECEIVE_AND_TRANSMIT, calibration, chain_series, cost_of, mix_series,
};
use crate::experiment::Study;
use crate::experiments::figure::figure;
use crate::experiments::model::components::{Component, shared};
use crate::experiments::model::composed;
use crate::results::{Axis, Better, FigureKind, Results, Series};
use crate::run::{Cell, Run, Values};
use weft_model::Calibration;
use weft_model::cost::Cost;
use weft_rig::Failure;
use weft_rig::traffic::capture::Content;
use weft_rig::{Composition, Measured, Rig, Setup, Step};

/// What x is.
pub const X: &str = "frame bytes";

/// See [`Study::VARIES`].
pub struct Calibrate;

/// Parameters of `calibrate`.
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
    /// Bytes of a frame with its checksum.
    #[schemars(inner(range(min = 64, max = 1518)))]
    sizes: Vec<u32>,
    /// The functions, by the names that the model is to know them by; `pass`, which
    /// tells what a hop costs, is measured in any case.
    functions: Vec<Component>,
    /// How chains of one and two are run as well; their sizes are `composedSizes`.
    #[serde(default)]
    compositions: Vec<Composition>,
    /// Bytes of the frames of these.
    #[serde(default)]
    #[schemars(inner(range(min = 64, max = 1518)))]
    composed_sizes: Vec<u32>,
}

/// A trial by which costs are found.
#[derive(Clone, Debug)]
pub enum Trial {
    /// Devices alone.
    Devices(Step),
    /// A chain in a node.
    Chain(Setup),
}

/// The cells that costs follow from: devices alone, no function, one, all pairs, and bursts that
/// a chain of one and a chain of two share.
pub fn cells(sizes: &[u32], users: u32, functions: &[Component]) -> Vec<Cell<(u32, Trial)>> {
    let mut chains: Vec<Vec<&Component>> = vec![Vec::new()];
    for (index, first) in functions.iter().enumerate() {
        chains.push(vec![first]);
        chains.extend(functions[index..].iter().map(|second| vec![first, second]));
    }
    let mut cells = Vec::new();
    for &size in sizes {
        for (series, step) in
            [(RECEIVE, Step::Receive), (RECEIVE_AND_TRANSMIT, Step::ReceiveAndTransmit)]
        {
            cells.push(Cell::new(series, size, (size, Trial::Devices(step))));
        }
        for chain in &chains {
            let names: Vec<&str> = chain.iter().map(|one| one.name.as_str()).collect();
            let trial = Trial::Chain(setup(users, chain));
            cells.push(Cell::new(chain_series(&names), size, (size, trial)));
        }
        for (one, two) in mixes(functions) {
            let chains = [vec![one.name.as_str()], two.iter().map(|one| &*one.name).collect()];
            let series = mix_series(&chains);
            let setup = shared(users, &[(50, vec![one]), (50, two.to_vec())]);
            cells.push(Cell::new(series, size, (size, Trial::Chain(setup))));
        }
    }
    cells
}

/// Chains of one and of two that have no function in common: one of each function and two of
/// those behind it.
fn mixes(functions: &[Component]) -> Vec<(&Component, [&Component; 2])> {
    let count = functions.len();
    if count < 3 {
        return Vec::new();
    }
    let at = |nth: usize| &functions[nth % count];
    (0..count).map(|nth| (at(nth), [at(nth + 1), at(nth + 2)])).collect()
}

/// A node with a chain of these functions.
pub fn setup(users: u32, chain: &[&Component]) -> Setup {
    let instances = (0..).zip(chain).map(|(nth, one)| (format!("f{nth}"), one.instance()));
    Setup::chain(users, instances.collect())
}

impl Trial {
    /// Cycles per packet, and how disturbed the trial was.
    ///
    /// # Errors
    /// Those of the rig.
    pub fn make(
        &self,
        rig: &Rig,
        content: Content,
        length: Duration,
    ) -> Result<(Measured, f64), Failure> {
        let capture = rig.capture(content)?;
        match self {
            Trial::Devices(step) => rig.cost_of_step(*step, &capture, length),
            Trial::Chain(setup) => {
                let (cost, disturbance) = rig.cost(setup, &capture, length)?;
                Ok((cost.cycles, disturbance))
            }
        }
    }
}

impl Study for Calibrate {
    const NAME: &'static str = "calibrate";
    const TITLE: &'static str = "What each step of a packet's way costs";
    const VARIES: &'static str = "devices alone, chains of none, one and two functions, by size";
    const PAPER: &'static str = "costs for the model of Bauer et al., §V";
    const FILE: &'static str = include_str!("../../../../../experiments/calibrate.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        let functions = Component::with_pass(&parameters.functions);
        let cells = cells(&parameters.sizes, parameters.users, &functions);
        for cell in &cells {
            run.series(&cell.series, X, "cycles/packet", Some(Better::Lower));
        }
        let length = Duration::from_secs_f64(parameters.seconds);
        run.derive("frequency", weft_dpdk::tsc::hz() as f64);
        run.rounds(parameters.repetitions, &cells, |rig, (size, trial)| {
            let content = Content::of(parameters.users, *size as usize);
            let (cycles, disturbance) = trial.make(rig, content, length)?;
            Ok((Values::of(cycles), disturbance))
        })?;
        let Parameters { composed_sizes: sizes, compositions, users, .. } = parameters;
        let cells = composed::cells(sizes, *users, compositions, &parameters.functions);
        composed::measure(&[(X, cells)], (*users, length), parameters.repetitions, run)
    }

    fn conclude(_: &Parameters, results: &mut Results) {
        let Some(frequency) = results.derived.get("frequency").copied() else { return };
        let Some(found) = calibration(results, frequency) else { return };
        let steps = steps(&found);
        let measured = results.series(RECEIVE);
        let sizes: Vec<f64> = measured.map_or_else(Vec::new, |series| {
            let numbers = series.points.iter().filter_map(|point| match point.x {
                crate::results::Abscissa::Number(size) => Some(size),
                crate::results::Abscissa::Name(_) => None,
            });
            numbers.collect()
        });
        let mut names = Vec::new();
        for (name, cost) in &steps {
            let mut series = Series::new(name, X, "cycles/packet");
            for &size in &sizes {
                series.points.extend(crate::results::Point::of(size, vec![cost.at(size)]));
            }
            names.push(name.clone());
            results.compute(series);
        }
        let whole = results.series(&chain_series(&[])).and_then(|series| series.points.first());
        if let (Some(point), Some(hop)) = (whole, &found.cpu.hop) {
            results.says = format!(
                "A packet of {} bytes without a function costs {:.0} cycles, the way to a \
                 function {:.1} more.",
                point.x,
                cost_of(point),
                hop.at(64.0)
            );
        }
        results.notes.push(
            "Costs of steps follow by least squares from the lower quartile of the repetitions; \
             calibration.yaml beside these results holds them for `weft model`."
                .to_owned(),
        );
        let drawn = figure(
            "steps",
            "Cycles of each step",
            FigureKind::Lines,
            names.iter().map(String::as_str),
        )
        .caption("What the steps of a packet's way cost, found from chains of one and two.")
        .axes(Axis::linear("Frame size", "B"), Axis::linear("Cost", "cycles/packet"));
        results.figures = drawn.of(results).into_iter().collect();
    }
}

/// The steps of a packet's way, by name, with their costs.
fn steps(found: &Calibration) -> Vec<(String, Cost)> {
    let mut steps = Vec::new();
    for (name, cost) in [
        ("receive", &found.cpu.receive),
        ("transmit", &found.cpu.transmit),
        ("node", &found.cpu.node),
        ("chain", &found.cpu.chain),
        ("hop", &found.cpu.hop),
        ("mix", &found.cpu.mix),
        ("machine code", &found.cpu.machine_code),
        ("end of the way to a thread", &found.cpu.thread),
        ("end of a ring", &found.cpu.ring),
        ("encapsulate", &found.cpu.encapsulate),
        ("decapsulate", &found.cpu.decapsulate),
    ] {
        steps.extend(cost.clone().map(|cost| (name.to_owned(), cost)));
    }
    let functions = found.functions.0.iter().filter(|(name, _)| name != PASS);
    steps.extend(functions.map(|(name, cost)| (format!("function {name}"), cost.clone())));
    let fused = found.fused.0.iter().filter(|(name, _)| name != PASS);
    steps.extend(fused.map(|(name, cost)| (format!("function {name}, fused"), cost.clone())));
    steps
}
