//! `composition`: one chain, run in each way there is.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_traffic::Rate;

use crate::experiment::Study;
use crate::experiments::chain::chains::{Part, chain_of};
use crate::experiments::failed::Failed;
use crate::experiments::figure::figure;
use crate::results::{Axis, Better, FigureKind, Point, Results, Series};
use crate::run::{Cell, Run};
use weft_rig::Composition;
use weft_rig::Failure;
use weft_rig::Setup;
use weft_rig::USERS;
use weft_rig::uplink;

const CHAIN: &str = "weft, the chain";
const ONE: &str = "weft, its first function alone";
const NONE: &str = "weft, no function";
const ADDED: &str = "weft, one function elsewhere adds";
const X: &str = "composition";

/// See [`Study::VARIES`].
pub struct Compositions;

/// Parameters of `composition`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// Repetitions of each composition.
    #[schemars(range(min = 1))]
    repetitions: u32,
    /// Seconds of each.
    seconds: f64,
    /// Bytes of a frame with its checksum.
    #[schemars(range(min = 64, max = 1518))]
    frame_bytes: usize,
    /// The chain.
    #[schemars(length(min = 1))]
    functions: Vec<Part>,
}

impl Study for Compositions {
    const NAME: &'static str = "composition";
    const TITLE: &'static str = "One chain, five ways to run it";
    const VARIES: &'static str = "how a chain is run: call, fused, thread, process, remote";
    const PAPER: &'static str = "Pinczel et al., fig. 9";
    const FILE: &'static str = include_str!("../../../../../experiments/composition.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        run.rig.cores.traffic()?;
        let length = Duration::from_secs_f64(parameters.seconds);
        let load = uplink(USERS, parameters.frame_bytes, Rate::Unlimited);
        for name in [CHAIN, ONE, NONE] {
            run.series(name, X, "cycles/packet", Some(Better::Lower));
        }
        let chain = chain_of(&parameters.functions);
        let one = chain_of(&parameters.functions[..1]);
        let mut cells = vec![Cell::new(NONE, "no function", Setup::forwarding(USERS))];
        for way in Composition::ALL {
            cells.push(Cell::new(CHAIN, way.name(), chain.clone().taking_turns(way)));
            if way != Composition::Fused {
                // One function alone has no neighbour to be fused with.
                cells.push(Cell::new(ONE, way.name(), one.clone().composed(way)));
            }
        }
        let mut failed = Failed::default();
        run.rounds(parameters.repetitions, &cells, |rig, setup| {
            let cost = rig.cost_of_composed(setup, &load, length);
            failed.cost(setup.composition.name(), cost)
        })?;
        failed.tell(run);
        Ok(())
    }

    fn conclude(_: &Parameters, results: &mut Results) {
        for way in Composition::ALL {
            let cycles = results.series(CHAIN).and_then(|series| series.mean_at(way.name()));
            results.derive(format!("cycles_{}", way.name()), cycles.unwrap_or(f64::NAN));
        }
        if let Some(added) = added(results) {
            for point in &added.points {
                results.derive(format!("isolated_function_adds_{}", point.x), point.mean);
            }
            results.compute(added);
        }
        results.says = says(results);
        results.figures = figures().into_iter().filter_map(|one| one.of(results)).collect();
    }
}

/// By round: what the first function alone costs elsewhere beyond what it costs called.
fn added(results: &Results) -> Option<Series> {
    let one = results.series(ONE)?;
    let of = |way: Composition| one.points.iter().find(|point| point.x == way.name().into());
    let called = of(Composition::Call)?;
    let mut added = Series::new(ADDED, X, "cycles/packet");
    (added.better, added.computed_from) = (Some(Better::Lower), Some(ONE.to_owned()));
    for way in Composition::ALL.into_iter().filter(|way| way.is_elsewhere()) {
        let rounds = of(way).into_iter().flat_map(|point| point.raw.iter().zip(&called.raw));
        let raw = rounds.map(|(there, here)| there - here).collect();
        added.points.extend(Point::of(way.name(), raw));
    }
    (!added.points.is_empty()).then_some(added)
}

fn says(results: &Results) -> String {
    let of = |way: Composition| results.series(CHAIN)?.mean_at(way.name());
    let told = Composition::ALL.into_iter().filter_map(|way| {
        let cycles = of(way)?;
        Some(format!("{} {cycles:.0}", way.name()))
    });
    let told: Vec<_> = told.collect();
    match told.is_empty() {
        true => String::new(),
        false => format!("Cycles of the node's core for a packet: {}.", told.join(", ")),
    }
}

fn figures() -> [crate::experiments::figure::Drawing; 2] {
    let cycles = figure("cycles", "One chain, five ways", FigureKind::Bars, [CHAIN, ONE, NONE])
        .caption(
            "As fig. 9 of Pinczel et al. proposes: the same chain under each composition. Cycles \
             of the core that the node runs on; in a thread, in processes and at another node \
             functions have another core, whose cycles are not counted here.",
        )
        .axes(Axis::linear("Composition", ""), Axis::linear("Cost", "cycles/packet"));
    let added = figure("added", "What isolation costs", FigureKind::Bars, [ADDED])
        .caption(
            "The first function of the chain alone: what it costs the node's core elsewhere \
             beyond what it costs called.",
        )
        .axes(Axis::linear("Composition", ""), Axis::linear("Added cost", "cycles/packet"));
    [cycles, added]
}
