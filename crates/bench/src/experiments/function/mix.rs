//! `function-mix`: functions of different appetite, alone and together.

mod real;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weft_dpdk::crypto::Device;

use self::real::{Case, ENCRYPT, FUNCTIONS, NONE, Tables};
use crate::experiment::Study;
use crate::experiments::figure::figure;
use crate::experiments::function::functions::esp;
use crate::results::{Axis, Better, FigureKind, Results};
use crate::run::{Cell, Run, Values};
use weft_rig::Failure;
use weft_rig::traffic::capture::Content;
use weft_rig::{Rig, Setup, USERS};

const CYCLES: &str = "weft call";
const BESIDE: &str = "weft call, the other function on another core";
const REAL: &str = "weft call, real functions";
const REAL_BESIDE: &str = "weft call, real functions, the next one on another core";
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
    /// Those of real functions in their stead; none are measured without them.
    #[serde(default)]
    tables: Option<Tables>,
}

/// What a trial measures the cost of.
enum Mix {
    /// A chain with nothing beside it.
    Alone(Case),
    /// A chain while another is busy on another core.
    Beside(Case, Case),
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
        "two synthetic functions, and real ones, alone, together on one core, and on two cores";
    const PAPER: &'static str = "Hahn et al., table 3";
    const FILE: &'static str = include_str!("../../../../../experiments/function-mix.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        let length = Duration::from_secs_f64(parameters.seconds);
        let mut cells = parameters.synthetic(run.rig)?;
        let mut series = vec![CYCLES, BESIDE];
        if let Some(tables) = parameters.tables {
            series.extend([REAL, REAL_BESIDE]);
            cells.extend(real_cells(tables, run)?);
        }
        for name in series {
            run.series(name, X, "cycles/packet", Some(Better::Lower));
        }
        if let Err(missing) = run.rig.cores.traffic() {
            run.note(format!("On two cores: not measured, {missing}."));
            cells.retain(|cell| matches!(cell.what, Mix::Alone(_)));
        }
        run.rounds(parameters.repetitions, &cells, |rig, mix| {
            let (cost, disturbance) = match mix {
                Mix::Alone(one) => rig.cost(&one.setup, &one.capture, length)?,
                Mix::Beside(one, other) => {
                    let (one, other) =
                        ((&one.setup, &*one.capture), (&other.setup, &*other.capture));
                    rig.cost_beside(one, other, length)?
                }
            };
            Ok((Values::of(cost.cycles), disturbance))
        })
    }

    fn conclude(parameters: &Parameters, results: &mut Results) {
        let sentences = [
            parameters.say_together(results),
            parameters.say_beside(results),
            say_real_together(results),
            say_real_beside(results),
        ];
        results.says = sentences.into_iter().flatten().collect::<Vec<_>>().join(" ");
        let cost = figure("cycles", "Cycles per packet", FigureKind::Bars, [CYCLES, BESIDE])
            .caption(
                "The synthetic function set to the rows of table 3 of Hahn et al., which gives \
                 them as input and measures no mix. On two cores there are two nodes, each with \
                 one worker and one function; what they share is the last level of cache and the \
                 memory.",
            )
            .axes(Axis::linear("Functions", ""), Axis::linear("Cost", "cycles/packet"));
        let real = figure(
            "real",
            "Cycles per packet, real functions",
            FigureKind::Bars,
            [REAL, REAL_BESIDE],
        )
        .caption(
            "The same with functions that stand in networks, of 1,000 users with a \
                 flow each, in packets of 64 bytes before they are in a softwire. Together they \
                 are one chain: out of softwires, behind other addresses, to a next hop, into \
                 IPsec. A node without a function is beside them.",
        )
        .axes(Axis::linear("Functions", ""), Axis::linear("Cost", "cycles/packet"));
        results.figures = [cost, real].into_iter().filter_map(|one| one.of(results)).collect();
    }
}

impl Parameters {
    /// The synthetic functions, each alone and beside the next one, and all together.
    fn synthetic(&self, rig: &Rig) -> Result<Vec<Cell<Mix>>, Failure> {
        let capture = rig.capture(Content::of(USERS, 64))?;
        let case = |loads: &[Load]| Case { setup: setup(loads), capture: capture.clone() };
        let alone = self.functions.iter();
        let alone =
            alone.map(|load| (load.name.clone(), case(std::slice::from_ref(load)))).collect();
        Ok(mixes([CYCLES, BESIDE], alone, case(&self.functions)))
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
}

/// Each function alone and while the next one is busy on another core, and all together.
fn mixes(
    [series, beside]: [&str; 2],
    alone: Vec<(String, Case)>,
    together: Case,
) -> Vec<Cell<Mix>> {
    let next = alone.iter().cycle().skip(1);
    let pairs = alone.iter().zip(next).map(|((name, one), (_, next))| {
        Cell::new(beside, name.as_str(), Mix::Beside(one.clone(), next.clone()))
    });
    let pairs: Vec<_> = pairs.collect();
    let cell = |(name, case)| Cell::new(series, name, Mix::Alone(case));
    let all = alone.into_iter().chain([(TOGETHER.to_owned(), together)]).map(cell);
    all.chain(pairs).collect()
}

/// The real functions that the machine has.
fn real_cells(tables: Tables, run: &mut Run<'_>) -> Result<Vec<Cell<Mix>>, Failure> {
    let mut names = FUNCTIONS.to_vec();
    if let Err(missing) = Device::open(run.rig.eal, esp::DEVICE) {
        run.note(format!("{ENCRYPT}: not measured, {missing}."));
        names.retain(|name| *name != ENCRYPT);
    }
    let rig = run.rig;
    let alone = names.iter().map(|&name| Ok((name.to_owned(), tables.case(rig, &[name])?)));
    let alone = alone.collect::<Result<Vec<_>, Failure>>()?;
    let mut cells = vec![Cell::new(REAL, NONE, Mix::Alone(tables.case(rig, &[])?))];
    cells.extend(mixes([REAL, REAL_BESIDE], alone, tables.case(rig, &names)?));
    Ok(cells)
}

/// What the real functions add to a node, alone and together.
fn say_real_together(results: &Results) -> Option<String> {
    let series = results.series(REAL)?;
    let none = series.mean_at(NONE)?;
    let added = |name: &str| Some(series.mean_at(name)? - none);
    let each: Vec<(&str, f64)> =
        FUNCTIONS.iter().filter_map(|&name| Some((name, added(name)?))).collect();
    let (sum, together) = (each.iter().map(|(_, cost)| cost).sum::<f64>(), added(TOGETHER)?);
    let said: Vec<String> = each.iter().map(|(name, cost)| format!("{name} {cost:.0}")).collect();
    Some(format!(
        "Real functions add to a node without any: {} cycles a packet; together {together:.0}, \
         {:+.1} % against the sum.",
        said.join(", "),
        (together / sum - 1.0) * 100.0
    ))
}

/// What each costs more while another core is busy with the next one.
fn say_real_beside(results: &Results) -> Option<String> {
    let (alone, beside) = (results.series(REAL)?, results.series(REAL_BESIDE)?);
    let change = |&name: &&str| {
        let change = (beside.mean_at(name)? / alone.mean_at(name)? - 1.0) * 100.0;
        Some(format!("{name} {change:+.1} %"))
    };
    let changes: Vec<String> = FUNCTIONS.iter().filter_map(change).collect();
    (!changes.is_empty())
        .then(|| format!("While the next is busy on another core: {}.", changes.join(", ")))
}

fn setup(loads: &[Load]) -> Setup {
    let function = |(number, load): (usize, &Load)| -> (String, Value) {
        let Load { cycles, accesses, working_set, .. } = load;
        let config = json!({"cycles": cycles, "accesses": accesses, "workingSet": working_set});
        (format!("f{number}"), json!({"function": "synthetic", "config": config}))
    };
    Setup::chain(USERS, loads.iter().enumerate().map(function).collect())
}
