//! `chain-throughput`: what longer chains carry.

use std::cell::RefCell;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_traffic::Rate;

use crate::experiment::Study;
use crate::experiments::chain::capacity;
use crate::experiments::chain::chains::loaded_chain;
use crate::experiments::chain::software_links::{self, Hop, Row};
use crate::experiments::figure::figure;
use crate::results::{Axis, Better, FigureKind, Results};
use crate::run::{Cell, Run, Values};
use weft_rig::Composition;
use weft_rig::Failure;
use weft_rig::NotFused;
use weft_rig::Offer;
use weft_rig::Rig;
use weft_rig::Setup;
use weft_rig::Standing;
use weft_rig::USERS;
use weft_rig::baseline::line::Line;
use weft_rig::search::{Goal, MultipleLossRatioSearch};
use weft_rig::uplink;

const X: &str = "functions";
const ROUTERS: &str = "Linux kernel, routers linked by veth";
const BRIDGES: &str = "Open vSwitch, bridges linked by veth";
/// Packets that the queue at the entry holds.
const DESCRIPTORS: u16 = 1024;
/// Trials by which a rate is judged.
const TRIALS: u32 = 5;

/// See [`Study::VARIES`].
pub struct ChainThroughput;

/// Parameters of `chain-throughput`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// Searches for each length.
    #[schemars(range(min = 1))]
    repetitions: u32,
    /// Seconds of each trial of a search; five judge a rate.
    seconds: f64,
    /// Seconds after which a search ends.
    search_seconds: f64,
    /// Width at which a search ends, as a share of the rate.
    width: f64,
    /// Functions in a chain, behind a counter.
    #[schemars(inner(range(min = 1, max = 16)))]
    lengths: Vec<usize>,
    /// How they are run.
    compositions: Vec<Composition>,
    /// Cycles that each function spends on a packet.
    cycles: u32,
}

/// What is measured.
enum System {
    /// A chain in a node, and about what it carries, once that is known.
    Weft { number: usize, functions: usize, setup: Box<Setup>, limit: Option<f64> },
    /// As many hops without functions, by software links, and what they are called.
    Line { line: Line, name: &'static str },
}

impl Study for ChainThroughput {
    const NAME: &'static str = "chain-throughput";
    const TITLE: &'static str = "What longer chains carry";
    const VARIES: &'static str = "functions in a chain, 1 to 5";
    const PAPER: &'static str = "Bauer et al., fig. 3a";
    const FILE: &'static str = include_str!("../../../../../experiments/chain-throughput.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        let ours = parameters.compositions.iter().flat_map(|&way| [ndr(way), pdr(way)]);
        for name in ours.chain([ROUTERS, BRIDGES].map(str::to_owned)) {
            run.series(&name, X, "Mpps", Some(Better::Higher));
        }
        let cells = systems(parameters, run)?;
        let mut standing = Standing::new(run.rig, DESCRIPTORS);
        let (limited, failed) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
        let once = |names: &RefCell<Vec<String>>, text: String| {
            let mut names = names.borrow_mut();
            if !names.contains(&text) {
                names.push(text);
            }
        };
        run.rounds(parameters.repetitions, &cells, |rig, system| {
            match &mut *system.borrow_mut() {
                System::Weft { number, functions, setup, limit } => {
                    let chain = (*number, *functions, &**setup);
                    parameters.search(rig, &mut standing, chain, limit).or_else(|error| {
                        let name = format!("weft {}", setup.composition.title());
                        if error.is::<NotFused>() {
                            return Err(format!("{name}: {error}").into());
                        }
                        once(&failed, format!("{name}: not always measured: {error}"));
                        Ok((Values::none(), 0.0))
                    })
                }
                System::Line { line, name } => match parameters.saturate(rig, line) {
                    Ok((mpps, disturbance, is_limited)) => {
                        if is_limited {
                            once(&limited, (*name).to_owned());
                        }
                        Ok((Values::of(mpps), disturbance))
                    }
                    // A baseline that fails does not end the experiment.
                    Err(error) => {
                        once(&failed, format!("{name}: not always measured: {error}"));
                        Ok((Values::none(), 0.0))
                    }
                },
            }
        })?;
        failed.into_inner().into_iter().for_each(|failed| run.note(failed));
        for name in limited.into_inner() {
            run.note(format!("{name}: limited by the generator at some lengths."));
        }
        Ok(())
    }

    fn conclude(parameters: &Parameters, results: &mut Results) {
        if let Some(series) = results.series(&ndr(Composition::Call))
            && let [first, .., last] = &series.points[..]
        {
            results.says = format!(
                "Without loss, a chain of {} carries {:.2} Mpps and one of {} {:.2} Mpps.",
                first.x, first.mean, last.x, last.mean
            );
        }
        let ours: Vec<String> = parameters.compositions.iter().map(|way| ndr(*way)).collect();
        let names = ours.iter().map(String::as_str).chain([ROUTERS, BRIDGES]);
        let title = "Throughput by length of chain";
        let throughput = figure("throughput", title, FigureKind::Lines, names)
            .caption(
                "As fig. 3a of the paper: chains of synthetic functions behind a counter. \
                     Without loss, searched for by \
                     multiple loss ratio search (RFC 9971). Software links: as many of the \
                     kernel's routers or of Open vSwitch's bridges, without functions, given as \
                     much as one core sends.",
            )
            .axes(Axis::linear("Functions", ""), Axis::log("Throughput", "Mpps"))
            .baselines([ROUTERS, BRIDGES]);
        results.figures = throughput.of(results).into_iter().collect();
    }
}

/// The series without loss.
fn ndr(way: Composition) -> String {
    format!("weft {}, no loss (NDR)", way.title())
}

/// The series with half a percent of loss.
fn pdr(way: Composition) -> String {
    format!("weft {}, 0.5 % loss (PDR)", way.title())
}

fn systems(
    parameters: &Parameters,
    run: &mut Run<'_>,
) -> Result<Vec<Cell<RefCell<System>>>, Failure> {
    run.rig.cores.traffic()?;
    let mut cells = Vec::new();
    for &way in &parameters.compositions {
        for &functions in &parameters.lengths {
            let setup = loaded_chain(functions, parameters.cycles).taking_turns(way);
            let (number, setup) = (cells.len(), Box::new(setup));
            let system = System::Weft { number, functions, setup, limit: None };
            cells.push(Cell::new(ndr(way), functions as f64, RefCell::new(system)));
        }
    }
    for Row { hop, length, line } in software_links::lay(run, &parameters.lengths, DESCRIPTORS)? {
        let name = match hop {
            Hop::Router => ROUTERS,
            Hop::Bridge => BRIDGES,
        };
        let system = RefCell::new(System::Line { line, name });
        cells.push(Cell::new(name, length as f64, system));
    }
    Ok(cells)
}

impl Parameters {
    /// The rates without loss and with half a percent.
    fn search(
        &self,
        rig: &Rig,
        standing: &mut Standing<'_>,
        (number, functions, setup): (usize, usize, &Setup),
        limit: &mut Option<f64>,
    ) -> Result<(Values, f64), Failure> {
        let limit = match *limit {
            Some(limit) => limit,
            None => {
                let cycles = f64::from(self.cycles) * functions as f64;
                let look = Duration::from_millis(200);
                let chain = (number, setup);
                *limit.insert(capacity::of_chain(rig, standing, chain, cycles, look)?)
            }
        };
        let goal = |goal: Goal| Goal {
            width: self.width,
            sum: Duration::from_secs_f64(self.seconds) * TRIALS,
            ..goal.scaled(self.seconds)
        };
        let search = MultipleLossRatioSearch {
            least: limit * 0.1,
            most: limit * 1.2,
            goals: vec![goal(Goal::ndr()), goal(Goal::pdr())],
            limit: Duration::from_secs_f64(self.search_seconds),
        };
        let outcome = search.run(standing.node(number, setup)?)?;
        outcome.count(rig);
        let found = |index: usize| {
            let found = outcome.found.get(index)?;
            Some(found.conditional_throughput.or(found.lower)? / 1e6)
        };
        // A search verifies loss by itself: what disturbs a trial does not spoil it.
        let pdr = pdr(setup.composition);
        let ndr = found(0).map_or_else(Values::none, Values::of);
        Ok((ndr.and(pdr, found(1)), 0.0))
    }

    /// What comes through hops that are given all that one core sends.
    fn saturate(&self, rig: &Rig, line: &mut Line) -> Result<(f64, f64, bool), Failure> {
        let load = uplink(USERS, 64, Rate::Unlimited);
        let duration = Duration::from_secs_f64(self.seconds) * TRIALS;
        let arrivals = line.offer(rig, Offer { load, duration })?;
        let limited = arrivals.is_limited_by_generator();
        Ok((arrivals.goodput() / 1e6, arrivals.disturbance, limited))
    }
}
