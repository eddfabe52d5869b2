//! `chain-length`: what one more function in a chain costs the core of the node.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_traffic::Rate;

use crate::experiment::Study;
use crate::experiments::chain::chains::{Part, chain_of};
use crate::experiments::chain::in_turn;
use crate::experiments::failed::Failed;
use crate::experiments::figure::figure;
use crate::results::{Abscissa, Axis, Better, Figure, FigureKind, PaperValue, Results};
use crate::run::{Cell, Run};
use weft_rig::Composition;
use weft_rig::Failure;
use weft_rig::Setup;
use weft_rig::USERS;
use weft_rig::baseline::classical::{self, Polled};
use weft_rig::statistics::Line;
use weft_rig::traffic::capture::Content;
use weft_rig::uplink;

const X: &str = "functions";
const NONE: &str = "weft, no function";
const CLASSICAL: &str = "classical, Open vSwitch and vhost-user";
const OVERSUBSCRIBED: &str = "classical, every process polls for itself";
const PAPER_CLASSICAL: &str = "classical, one core";
const PAPER_DEDICATED: &str = "classical, n+1 cores";
const PAPER_COMPOUND: &str = "compound";

/// See [`Study::VARIES`].
pub struct ChainLength;

/// Parameters of `chain-length`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// Repetitions of each length.
    #[schemars(range(min = 1))]
    repetitions: u32,
    /// Seconds of each.
    seconds: f64,
    /// Bytes of a frame with its checksum.
    #[schemars(range(min = 64, max = 1518))]
    frame_bytes: usize,
    /// Functions in a chain.
    #[schemars(inner(range(min = 1, max = 16)))]
    lengths: Vec<usize>,
    /// What each of them is.
    function: Part,
    /// How they are run.
    compositions: Vec<Composition>,
    /// Functions in a classical chain: each behind a ring of its own, Open vSwitch between
    /// them.
    #[schemars(inner(range(min = 1, max = 16)))]
    classical: Vec<usize>,
    /// The same, in which every function polls in a process of its own, and all of these
    /// share a core.
    #[schemars(inner(range(min = 1, max = 16)))]
    oversubscribed: Vec<usize>,
    /// Another chain, of small functions that do something: called, and fused.
    mix: Vec<Part>,
}

/// What a cell measures.
enum Chain {
    Weft(Box<Setup>),
    Classical(usize, Polled),
    /// Small functions fused and called, in turn in one node.
    InTurn(Box<Setup>),
    /// The same without a node, beside what is written by hand.
    Alone,
}

impl Study for ChainLength {
    const NAME: &'static str = "chain-length";
    const TITLE: &'static str = "What one more function costs";
    const VARIES: &'static str = "functions in a chain, 1 to 16, under each composition";
    const PAPER: &'static str = "Hahn et al., fig. 3 and table 1";
    const FILE: &'static str = include_str!("../../../../../experiments/chain-length.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        run.rig.cores.traffic()?;
        let length = Duration::from_secs_f64(parameters.seconds);
        let load = uplink(USERS, parameters.frame_bytes, Rate::Unlimited);
        let mut cells = parameters.cells();
        match classical::is_installed(run.rig) {
            true => cells.extend(parameters.classical_cells()),
            false => run.note(classical::MISSING),
        }
        let capture = run.rig.capture(Content::of(USERS, parameters.frame_bytes))?;
        let by_hand = in_turn::is_by_hand(&parameters.mix);
        if !by_hand {
            run.note(in_turn::NOT_BY_HAND);
        }
        in_turn::series(run, X, by_hand);
        for cell in &cells {
            run.series(&cell.series, X, "cycles/packet", Some(Better::Lower));
        }
        let mut failed = Failed::default();
        run.rounds(parameters.repetitions, &cells, |rig, chain| {
            let (name, functions, measured) = match chain {
                Chain::InTurn(setup) => {
                    let measured = in_turn::in_node(rig, setup, &capture, length);
                    return measured.or_else(|error| failed.note("fused and called", error));
                }
                Chain::Alone => {
                    let measured = in_turn::alone(rig, parameters.frame_bytes, length);
                    return measured.or_else(|error| failed.note("by hand", error));
                }
                Chain::Weft(setup) => {
                    let cost = rig.cost_of_composed(setup, &load, length);
                    (setup.composition.name(), setup.functions.len(), cost)
                }
                Chain::Classical(functions, polled) => {
                    let cost = classical::cycles(rig, (*functions, *polled), &capture, length);
                    ("classical", *functions, cost)
                }
            };
            failed.cost(format!("{name}, {functions} functions"), measured)
        })?;
        failed.tell(run);
        Ok(())
    }

    fn conclude(parameters: &Parameters, results: &mut Results) {
        for &way in &parameters.compositions {
            let slope = parameters.slope(results, &of_length(way)).unwrap_or(f64::NAN);
            results.derive(format!("cycles_per_function_{}", way.name()), slope);
        }
        let slope = parameters.slope(results, CLASSICAL).unwrap_or(f64::NAN);
        results.derive("cycles_per_function_classical", slope);
        let at_4 = |series: &str| results.series(series)?.mean_at(4.0);
        let call = at_4(&of_length(Composition::Call)).unwrap_or(f64::NAN);
        let over = [
            ("classical_over_call_at_4", CLASSICAL),
            ("oversubscribed_over_call_at_4", OVERSUBSCRIBED),
        ];
        let over = over.map(|(name, series)| (name, at_4(series).unwrap_or(f64::NAN) / call));
        over.into_iter().for_each(|(name, ratio)| results.derive(name, ratio));
        let [called, fused] = [Composition::Call, Composition::Fused]
            .map(|way| results.series(&of_mix(way))?.mean_at(parameters.mix.len() as f64));
        let base = results.series(NONE).and_then(|series| series.mean_at(0.0));
        let count = parameters.mix.len();
        if let (Some(called), Some(fused), Some(base)) = (called, fused, base) {
            let ratio = (fused - base) / (called - base);
            results.derive(format!("fused_over_call_at_{count}_unpaired"), ratio);
            results.derive(format!("fused_over_call_at_{count}_with_node"), fused / called);
        }
        in_turn::derive(results, count);
        results.says = parameters.says(results);
        results.paper = paper();
        results.figures = parameters.figures(results);
    }
}

/// The series of chains that are run so.
fn of_length(way: Composition) -> String {
    format!("weft {}", way.title())
}

/// The series of the chain of small functions that is run so.
fn of_mix(way: Composition) -> String {
    format!("weft {}, small functions", way.title())
}

impl Parameters {
    fn cells(&self) -> Vec<Cell<Chain>> {
        let weft = |setup| Chain::Weft(Box::new(setup));
        let mut cells = vec![Cell::new(NONE, 0.0, weft(Setup::forwarding(USERS)))];
        for &length in &self.lengths {
            let chain = chain_of(&vec![self.function.clone(); length]);
            cells.extend(self.compositions.iter().map(|&way| {
                Cell::new(of_length(way), length as f64, weft(chain.clone().taking_turns(way)))
            }));
        }
        let mix = chain_of(&self.mix);
        cells.extend([Composition::Call, Composition::Fused].map(|way| {
            Cell::new(of_mix(way), self.mix.len() as f64, weft(mix.clone().composed(way)))
        }));
        let count = self.mix.len() as f64;
        cells.push(Cell::new(in_turn::FUSED, count, Chain::InTurn(Box::new(mix))));
        if in_turn::is_by_hand(&self.mix) {
            cells.push(Cell::new(in_turn::FUSED_ALONE, count, Chain::Alone));
        }
        cells
    }

    fn classical_cells(&self) -> impl Iterator<Item = Cell<Chain>> + '_ {
        let kinds = [
            (CLASSICAL, Polled::Together, &self.classical),
            (OVERSUBSCRIBED, Polled::Apart, &self.oversubscribed),
        ];
        kinds.into_iter().flat_map(|(series, polled, lengths)| {
            lengths.iter().map(move |&functions| {
                Cell::new(series, functions as f64, Chain::Classical(functions, polled))
            })
        })
    }

    /// Cycles that a function adds: the slope of the line through the lengths.
    fn slope(&self, results: &Results, series: &str) -> Option<f64> {
        let points = results.series(series)?.points.iter().filter_map(|point| match point.x {
            Abscissa::Number(functions) => Some((functions, point.mean)),
            Abscissa::Name(_) => None,
        });
        Some(Line::through(&points.collect::<Vec<_>>())?.slope)
    }

    fn says(&self, results: &Results) -> String {
        let told = self.compositions.iter().filter_map(|&way| {
            let slope = self.slope(results, &of_length(way))?;
            Some(format!("{} {slope:.1}", way.name()))
        });
        let told: Vec<_> = told.collect();
        match told.is_empty() {
            true => String::new(),
            false => format!(
                "One more function adds so many cycles to a packet on the node's core: {}; the \
                 paper's compound chain 35.",
                told.join(", ")
            ),
        }
    }

    fn figures(&self, results: &Results) -> Vec<Figure> {
        let ours = self.compositions.iter().map(|way| of_length(*way));
        let all: Vec<String> = ours.chain([CLASSICAL, OVERSUBSCRIBED].map(str::to_owned)).collect();
        let compound = [Composition::Call, Composition::Fused].map(of_length);
        let names = all.iter().map(String::as_str);
        let length = figure("length", "Cycles by length of chain", FigureKind::Lines, names)
            .caption(
                "As fig. 3 of Hahn et al. and its table 1: cycles per packet on the core that \
                 the node has. The functions of chains that are called or fused have the same \
                 core, those of the others another. In the classical chain it is the core of \
                 the switch. Absolute values of the paper are of virtual \
                 machines on a core of 3.2 GHz.",
            )
            .axes(Axis::linear("Functions", ""), Axis::log("Cost", "cycles/packet"))
            .baselines([CLASSICAL, OVERSUBSCRIBED])
            .paper([PAPER_CLASSICAL, PAPER_DEDICATED, PAPER_COMPOUND]);
        let names = compound.iter().map(String::as_str);
        let near = figure("compound", "Compound chains", FigureKind::Lines, names)
            .caption("The same, of compound chains alone.")
            .axes(Axis::linear("Functions", ""), Axis::linear("Cost", "cycles/packet"));
        [length, near, in_turn::drawing()]
            .into_iter()
            .filter_map(|drawing| drawing.of(results))
            .collect()
    }
}

/// What the paper states of its chains, by the number of functions that a packet takes.
fn paper() -> Vec<PaperValue> {
    let source = "Hahn et al., table 1";
    let value = |name: &str, functions: u32, cycles: f64| PaperValue {
        name: name.to_owned(),
        x: Some(f64::from(functions).into()),
        value: cycles,
        source: source.to_owned(),
    };
    let of = |name: &'static str, values: &'static [(u32, f64)]| {
        values.iter().map(move |&(functions, cycles)| value(name, functions, cycles))
    };
    of(PAPER_CLASSICAL, &[(1, 6035.0), (2, 14545.0), (3, 40000.0)])
        .chain(of(PAPER_DEDICATED, &[(1, 5466.0), (2, 6652.0), (3, 11800.0)]))
        .chain(of(PAPER_COMPOUND, &[(1, 2357.0), (2, 2409.0), (4, 2374.0), (16, 2946.0)]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Effort;
    use crate::experiment::file::File;

    #[test]
    fn the_small_functions_are_those_that_are_written_by_hand() {
        let file = File::<Parameters>::read(ChainLength::FILE, "file", ChainLength::NAME).unwrap();
        let mix = &file.of(Effort::Quick).mix;
        assert!(in_turn::is_by_hand(mix));
        assert!(!in_turn::is_by_hand(&mix[1..]));
    }
}
