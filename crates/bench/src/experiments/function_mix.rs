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
    const TITLE: &'static str = "Functions of different appetite on one core";
    const VARIES: &'static str = "two synthetic functions, alone and together on one core";
    const PAPER: &'static str = "Hahn et al., table 3";
    const FILE: &'static str = include_str!("../../../../experiments/function-mix.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        let length = Duration::from_secs_f64(parameters.seconds);
        let capture = run.rig.capture(Content::of(USERS, 64))?;
        run.series(CYCLES, X, "cycles/packet", Some(Better::Lower));
        let cells: Vec<_> = parameters
            .mixes()
            .into_iter()
            .map(|(name, loads)| Cell::new(CYCLES, name, setup(&loads)))
            .collect();
        run.rounds(parameters.repetitions, &cells, |rig, setup| {
            let (cost, disturbance) = rig.cost(setup, &capture, length)?;
            Ok((Values::of(cost.cycles), disturbance))
        })
    }

    fn conclude(parameters: &Parameters, results: &mut Results) {
        let at = |name: &str| results.series(CYCLES).and_then(|series| series.mean_at(name));
        let alone: Option<Vec<f64>> =
            parameters.functions.iter().map(|load| at(&load.name)).collect();
        if let (Some(alone), Some(together)) = (alone, at(TOGETHER))
            && !alone.is_empty()
        {
            let sum: f64 = alone.iter().sum();
            results.says = format!(
                "Together on one core the functions cost {together:.0} cycles a packet, {:+.1} % \
                 against the sum of what each costs alone, I/O counted once for each.",
                (together / sum - 1.0) * 100.0
            );
        }
        let cost = figure("cycles", "Cycles per packet", FigureKind::Bars, [CYCLES])
            .caption(
                "The synthetic function set to the rows of table 3 of Hahn et al., which gives \
                 them as input and measures no mix.",
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
}

fn setup(loads: &[Load]) -> Setup {
    let function = |(number, load): (usize, &Load)| -> (String, Value) {
        let Load { cycles, accesses, working_set, .. } = load;
        let config = json!({"cycles": cycles, "accesses": accesses, "workingSet": working_set});
        (format!("f{number}"), json!({"function": "synthetic", "config": config}))
    };
    Setup::chain(USERS, loads.iter().enumerate().map(function).collect())
}
