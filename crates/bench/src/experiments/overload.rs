//! `overload`: what a chain delivers when more is offered than it can carry.

mod linked;

use std::collections::BTreeSet;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_dpdk::tsc;

use super::capacity;
use super::chains::loaded_chain;
use super::figure::{Drawing, figure};
use crate::Failure;
use crate::experiment::Study;
use crate::results::{Abscissa, Axis, Better, Figure, FigureKind, Results, Series};
use crate::rig::{Composition, Delay, Offer, Rig, Setup, Standing};
use crate::run::{Cell, Run, Values};

const X: &str = "offered load, multiples of the limit";
/// Packets that the queue at the entry holds.
const DESCRIPTORS: u16 = 1024;

/// The share that functions get of software VF, as a part of what they could do alone: the
/// switch and what moves frames need the rest where they have the same core.
const SHARE: f64 = 0.5;

/// See [`Study::VARIES`].
pub struct Overload;

/// Parameters of `overload`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// Repetitions of each load.
    #[schemars(range(min = 1))]
    repetitions: u32,
    /// Seconds of each.
    seconds: f64,
    /// Functions in a chain, behind a counter.
    #[schemars(inner(range(min = 1, max = 16)))]
    lengths: Vec<usize>,
    /// How they are run.
    compositions: Vec<Composition>,
    /// Cycles that each function spends on a packet: enough that the generator is
    /// faster than five times the chain.
    cycles: u32,
    /// Offered loads, as multiples of what a core can carry by the cost of a
    /// packet.
    loads: Vec<f64>,
}

/// What a cell measures.
enum Chain {
    /// One of ours, at a multiple of its limit.
    Weft { chain: usize, load: f64 },
    /// One over software links, at a multiple of its limit.
    Linked { chain: usize, load: f64 },
}

/// A chain of ours.
struct Ours {
    setup: Setup,
    functions: usize,
    /// Packets per second that it carries; none as long as that is not known.
    limit: Option<f64>,
}

impl Study for Overload {
    const NAME: &'static str = "overload";
    const TITLE: &'static str = "More offered than a chain can carry";
    const VARIES: &'static str = "offered load to five times the limit, chains of 1, 2, 4 under \
                                  each composition and over software links";
    const PAPER: &'static str = "Bauer et al., fig. 3b";
    const FILE: &'static str = include_str!("../../../../experiments/overload.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        let length = Duration::from_secs_f64(parameters.seconds);
        let rig = run.rig;
        rig.cores.traffic()?;
        let mut chains = parameters.chains();
        let mut cells = Vec::new();
        for (number, Ours { setup, functions, .. }) in chains.iter().enumerate() {
            let series = delivered(setup.composition, *functions);
            run.series(&series, X, "Mpps", Some(Better::Higher));
            cells.extend(
                parameters.loads.iter().map(|&load| {
                    Cell::new(series.clone(), load, Chain::Weft { chain: number, load })
                }),
            );
        }
        for &way in &parameters.compositions {
            run.series(&entry(way), X, "share of drops", Some(Better::Higher));
            run.series(&late(way), X, "share of drops", Some(Better::Lower));
            run.series(&delay(way), X, "µs", Some(Better::Lower));
        }
        let linked = linked::lay(parameters, run, length)?;
        for (number, chain) in linked.iter().enumerate() {
            let given = parameters.loads.iter().filter(|load| chain.can_be_given(**load));
            cells.extend(given.map(|&load| {
                Cell::new(chain.name.clone(), load, Chain::Linked { chain: number, load })
            }));
            chain.note(&parameters.loads).into_iter().for_each(|note| run.note(note));
        }
        let (mut standing, mut failed) = (Standing::new(rig, DESCRIPTORS), BTreeSet::new());
        run.rounds(parameters.repetitions, &cells, |rig, cell| match *cell {
            Chain::Linked { chain, load } => linked[chain].trial(rig, load, length),
            Chain::Weft { chain: number, load } => {
                let chain = &mut chains[number];
                let trial = parameters.trial(rig, &mut standing, (number, &mut *chain), load);
                trial.or_else(|error| match chain.setup.composition.is_elsewhere() {
                    false => Err(error),
                    // What one machine cannot run does not keep the others from being compared.
                    true => {
                        let name = delivered(chain.setup.composition, chain.functions);
                        failed.insert(format!("{name}: not always measured: {error}."));
                        Ok((Values::none(), 0.0))
                    }
                })
            }
        })?;
        failed.into_iter().for_each(|failed| run.note(failed));
        Ok(())
    }

    fn conclude(parameters: &Parameters, results: &mut Results) {
        for &way in &parameters.compositions {
            let of = |functions: &usize| results.series(&delivered(way, *functions));
            let chains: Vec<&Series> = parameters.lengths.iter().filter_map(of).collect();
            let goodput = [2.0, 5.0].map(|load| worst_share(&chains, load).unwrap_or(f64::NAN));
            let share = entry_share(results, way).unwrap_or(f64::NAN);
            let name = way.name();
            for (what, value) in [
                ("goodput_2x", goodput[0]),
                ("goodput_5x", goodput[1]),
                ("entry_share_of_drops", share),
            ] {
                results.derive(format!("{what}_{name}"), value);
            }
            if goodput[1].is_finite() && share.is_finite() {
                results.says += &format!(
                    "{name}: at five times the limit at least {:.0} % of the peak, and {:.1} % of \
                     the drops at the entry. ",
                    goodput[1] * 100.0,
                    share * 100.0
                );
            }
        }
        results.says.truncate(results.says.trim_end().len());
        let own = parameters.figures().into_iter().filter_map(|one| one.of(results));
        let own: Vec<Figure> = own.collect();
        let linked = linked::conclude(parameters, results);
        results.figures = own.into_iter().chain(linked).collect();
    }
}

impl Parameters {
    fn chains(&self) -> Vec<Ours> {
        let of = |&way: &Composition| {
            self.lengths.iter().map(move |&functions| {
                let setup = loaded_chain(functions, self.cycles).composed(way);
                // Processes that share a core must let each other have it.
                let setup = match way {
                    Composition::Process => setup.adaptive(),
                    Composition::SoftwareVf => {
                        let cycles = f64::from(self.cycles.max(1)) * functions as f64;
                        setup.adaptive().shared((tsc::hz() as f64 / cycles * SHARE) as u64)
                    }
                    _ => setup,
                };
                Ours { setup, functions, limit: None }
            })
        };
        self.compositions.iter().flat_map(of).collect()
    }

    /// Offers a chain so many times what it carries.
    fn trial(
        &self,
        rig: &Rig,
        standing: &mut Standing<'_>,
        (number, chain): (usize, &mut Ours),
        load: f64,
    ) -> Result<(Values, f64), Failure> {
        let length = Duration::from_secs_f64(self.seconds);
        let limit = match chain.limit {
            Some(limit) => limit,
            None => {
                let cycles = f64::from(self.cycles) * chain.functions as f64;
                let carried =
                    capacity::of_chain(rig, standing, (number, &chain.setup), cycles, length)?;
                *chain.limit.insert(carried)
            }
        };
        let way = chain.setup.composition;
        let offer = Offer::new(load * limit, length);
        let ((arrivals, work), disturbance) = standing.node(number, &chain.setup)?.offer(&offer)?;
        let drops = (work.missed + work.dropped) as f64;
        let share = |count: u64| (drops > 0.0).then(|| count as f64 / drops);
        let values = Values::of(arrivals.goodput() / 1e6)
            .and(entry(way), share(work.missed))
            .and(late(way), share(work.dropped))
            .and(delay(way), Delay::of(&arrivals.delays));
        Ok((values, disturbance))
    }

    fn figures(&self) -> Vec<Drawing> {
        let offered = || Axis::linear("Offered load", "multiples of the limit");
        let throughput = self.compositions.iter().map(|&way| {
            let names: Vec<String> =
                self.lengths.iter().map(|&functions| delivered(way, functions)).collect();
            let title = format!("Delivered under overload, {}", way.title());
            let name = format!("throughput-{}", way.name());
            figure(&name, &title, FigureKind::Lines, names.iter().map(String::as_str))
                .caption(
                    "As fig. 3b of the paper: load beyond the limit. The paper's chains over \
                     software links lose throughput there, those isolated by the NIC stay flat.",
                )
                .axes(offered(), Axis::linear("Delivered", "Mpps"))
        });
        let names = |of: fn(Composition) -> String| -> Vec<String> {
            self.compositions.iter().map(|way| of(*way)).collect()
        };
        let (at_entry, delays) = (names(entry), names(delay));
        fn strs(names: &[String]) -> impl Iterator<Item = &str> {
            names.iter().map(String::as_str)
        }
        let drops =
            figure("drops", "Where packets are dropped", FigureKind::Lines, strs(&at_entry))
                .caption(
                    "Of all packets that are dropped: how many were at the entry, before any \
                     work: its queue was full, or a function of the chain had no room. The rest \
                     was dropped after work was spent on it.",
                )
                .axes(offered(), Axis::linear("Share of drops", ""));
        let delays = figure("delay", "Delay under overload", FigureKind::Lines, strs(&delays))
            .caption("The median of the chains of all lengths; percentiles stand in the results.")
            .axes(offered(), Axis::log("Delay", "µs"));
        throughput.chain([drops, delays]).collect()
    }
}

/// The share of drops that were at the entry, of loads clearly beyond the limit.
fn entry_share(results: &Results, way: Composition) -> Option<f64> {
    let series = results.series(&entry(way))?;
    let overloaded = series.points.iter().filter(|point| is_at_least(&point.x, 1.5));
    let raw: Vec<f64> = overloaded.flat_map(|point| point.raw.iter().copied()).collect();
    crate::statistics::mean(&raw)
}

/// The series of a chain.
fn delivered(way: Composition, functions: usize) -> String {
    format!("weft {}, chain of {functions}", way.title())
}

fn entry(way: Composition) -> String {
    format!("weft {}, dropped at the entry", way.title())
}

fn late(way: Composition) -> String {
    format!("weft {}, dropped later", way.title())
}

fn delay(way: Composition) -> String {
    format!("weft {}, delay", way.title())
}

/// What is delivered at a load, as a share of the most that ever was; the least of
/// all chains.
fn worst_share(chains: &[&Series], load: f64) -> Option<f64> {
    let share = |series: &&Series| {
        let peak = series.points.iter().map(|point| point.mean).fold(0.0, f64::max);
        Some(series.mean_at(load)? / peak)
    };
    chains.iter().map(share).collect::<Option<Vec<_>>>()?.into_iter().reduce(f64::min)
}

fn is_at_least(x: &Abscissa, load: f64) -> bool {
    matches!(x, Abscissa::Number(at) if *at >= load)
}
