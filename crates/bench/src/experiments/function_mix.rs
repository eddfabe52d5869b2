//! `function-mix`: functions of different appetite, alone and together.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::figure::figure;
use crate::Failure;
use crate::experiment::Study;
use crate::results::{Axis, Better, FigureKind, Results};
use crate::rig::capture::Content;
use crate::rig::{Setup, USERS};
use crate::run::{Cell, Run, Values};

const CYCLES: &str = "weft call";
const BESIDE: &str = "weft call, the other function on another core";
const X: &str = "functions";
const TOGETHER: &str = "together";

/// See [`Study::VARIES`].
pub struct FunctionMix;

/// Parameters of `function-mix`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// Repetitions of each mix.
    #[schemars(range(min = 1))]
    repetitions: u32,
    /// Seconds of each.
    seconds: f64,
    /// The functions.
    functions: Vec<Load>,
}

/// What a trial measures the cost of.
enum Mix {
    /// A chain with nothing beside it.
    Alone(Setup),
    /// A chain while another is busy on another core.
    Beside(Setup, Setup),
}

/// What a function spends on a packet.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Load {
    /// What the table calls it.
    name: String,
    /// Cycles of computation.
    cycles: u32,
    /// Random accesses.
    accesses: u32,
    /// What is accessed, as in `4 MiB`.
    working_set: String,
}

impl Study for FunctionMix {
    const NAME: &'static str = "function-mix";
    const TITLE: &'static str = "Functions of different appetite";
    const VARIES: &'static str =
        "two synthetic functions, alone, together on one core, and on two cores";
    const PAPER: &'static str = "Hahn et al., table 3";
    const FILE: &'static str = include_str!("../../../../experiments/function-mix.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        let length = Duration::from_secs_f64(parameters.seconds);
        let capture = run.rig.capture(Content::of(USERS, 64))?;
        run.series(CYCLES, X, "cycles/packet", Some(Better::Lower));
        run.series(BESIDE, X, "cycles/packet", Some(Better::Lower));
        let mut cells: Vec<_> = parameters
            .mixes()
            .into_iter()
            .map(|(name, loads)| Cell::new(CYCLES, name, Mix::Alone(setup(&loads))))
            .collect();
        match run.rig.cores.traffic() {
            Ok(_) => cells.extend(parameters.neighbours()),
            Err(missing) => run.note(format!("On two cores: not measured, {missing}.")),
        }
        run.rounds(parameters.repetitions, &cells, |rig, mix| {
            let (cost, disturbance) = match mix {
                Mix::Alone(setup) => rig.cost(setup, &capture, length)?,
                Mix::Beside(setup, other) => rig.cost_beside(setup, other, &capture, length)?,
            };
            Ok((Values::of(cost.cycles), disturbance))
        })
    }

    fn conclude(parameters: &Parameters, results: &mut Results) {
        let sentences = [parameters.say_together(results), parameters.say_beside(results)];
        results.says = sentences.into_iter().flatten().collect::<Vec<_>>().join(" ");
        let cost = figure("cycles", "Cycles per packet", FigureKind::Bars, [CYCLES, BESIDE])
            .caption(
                "The synthetic function set to the rows of table 3 of Hahn et al., which gives \
                 them as input and measures no mix. On two cores there are two nodes, each with \
                 one worker and one function; what they share is the last level of cache and the \
                 memory.",
            )
            .axes(Axis::linear("Functions", ""), Axis::linear("Cost", "cycles/packet"));
        results.figures = cost.of(results).into_iter().collect();
    }
}

impl Parameters {
    /// Each function alone, and all together.
    fn mixes(&self) -> Vec<(String, Vec<Load>)> {
        let alone = self.functions.iter().map(|load| (load.name.clone(), vec![load.clone()]));
        alone.chain([(TOGETHER.to_owned(), self.functions.clone())]).collect()
    }

    /// What the functions cost together, against each alone.
    fn say_together(&self, results: &Results) -> Option<String> {
        let series = results.series(CYCLES)?;
        let alone = self.functions.iter().map(|load| series.mean_at(load.name.as_str()));
        let sum: f64 = alone.sum::<Option<f64>>()?;
        let together = series.mean_at(TOGETHER)?;
        Some(format!(
            "Together on one core the functions cost {together:.0} cycles a packet, {:+.1} % \
             against the sum of what each costs alone, I/O counted once for each.",
            (together / sum - 1.0) * 100.0
        ))
    }

    /// What each costs while another core is busy with the other.
    fn say_beside(&self, results: &Results) -> Option<String> {
        let (alone, beside) = (results.series(CYCLES)?, results.series(BESIDE)?);
        let change = |load: &Load| {
            let name = load.name.as_str();
            let change = (beside.mean_at(name)? / alone.mean_at(name)? - 1.0) * 100.0;
            Some(format!("{name} {change:+.1} %"))
        };
        let changes: Vec<String> = self.functions.iter().filter_map(change).collect();
        (!changes.is_empty()).then(|| {
            let changes = changes.join(", ");
            format!("While the other is busy on another core, against each alone: {changes}.")
        })
    }

    /// Each function while the next one is busy on another core.
    fn neighbours(&self) -> Vec<Cell<Mix>> {
        let next = self.functions.iter().cycle().skip(1);
        let pairs = self.functions.iter().zip(next);
        let cell = |(load, next): (&Load, &Load)| {
            let mix =
                Mix::Beside(setup(std::slice::from_ref(load)), setup(std::slice::from_ref(next)));
            Cell::new(BESIDE, load.name.as_str(), mix)
        };
        pairs.map(cell).collect()
    }
}

fn setup(loads: &[Load]) -> Setup {
    let function = |(number, load): (usize, &Load)| -> (String, Value) {
        let Load { cycles, accesses, working_set, .. } = load;
        let config = json!({"cycles": cycles, "accesses": accesses, "workingSet": working_set});
        (format!("f{number}"), json!({"function": "synthetic", "config": config}))
    };
    Setup::chain(USERS, loads.iter().enumerate().map(function).collect())
}
