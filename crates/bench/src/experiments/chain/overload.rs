//! `overload`: what a chain delivers when more is offered than it can carry.

mod linked;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_dpdk::tsc;

use crate::experiment::Study;
use crate::experiments::chain::capacity;
use crate::experiments::chain::chains::{loaded_chain, loaded_last};
use crate::experiments::failed::Failed;
use crate::experiments::figure::{Drawing, figure};
use crate::results::{Abscissa, Axis, Better, Figure, FigureKind, Results, Series};
use crate::run::{Cell, Run, Sent, Values};
use weft_rig::Failure;
use weft_rig::environments::Loopback;
use weft_rig::{Composition, Delay, Offer, Rig, Setup, Standing};

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
    /// Functions in further chains, of which the last spends those cycles and the others a
    /// tenth of them: what the last has no room for, the others must not have worked for.
    #[schemars(inner(range(min = 2, max = 16)))]
    bottleneck_last: Vec<usize>,
    /// How they are run.
    compositions: Vec<Composition>,
    /// Cycles that each function spends on a packet: enough that the generator is
    /// faster than five times the chain.
    cycles: u32,
    /// Microseconds that packets may wait in the queue at the entry (`limits.delay`); 0 for as
    /// long as it is.
    #[schemars(range(max = 1_000_000))]
    delay: u32,
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
    /// Its series.
    name: String,
    /// Cycles that its functions spend on a packet.
    cycles: f64,
    /// Packets per second that it carries; none as long as that is not known.
    limit: Option<f64>,
}

impl Study for Overload {
    const NAME: &'static str = "overload";
    const TITLE: &'static str = "More offered than a chain can carry";
    const VARIES: &'static str = "offered load to five times the limit, chains of 1, 2, 4 under \
                                  each composition and over software links";
    const PAPER: &'static str = "Bauer et al., fig. 3b";
    const FILE: &'static str = include_str!("../../../../../experiments/overload.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        let length = Duration::from_secs_f64(parameters.seconds);
        let rig = run.rig;
        rig.cores.traffic()?;
        let mut loopback = Loopback::ring(rig)?;
        let packets = |rate| Offer::new(1.0, length).at(rate).load;
        run.derive("sender_pps", rig.paced_limit(&mut loopback.ends, packets, length)?);
        let mut chains = parameters.chains();
        let mut cells = Vec::new();
        for (number, Ours { name: series, .. }) in chains.iter().enumerate() {
            run.series(series, X, "Mpps", Some(Better::Higher));
            cells.extend(
                parameters.loads.iter().map(|&load| {
                    Cell::new(series.clone(), load, Chain::Weft { chain: number, load })
                }),
            );
        }
        for &way in &parameters.compositions {
            run.series(&entry(way), X, "share of drops", Some(Better::Higher));
            run.series(&refused(way), X, "share of drops", Some(Better::Lower));
            run.series(&spent(way), X, "cycles/packet", Some(Better::Lower));
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
        let (mut standing, mut failed) = (Standing::new(rig, DESCRIPTORS), Failed::default());
        run.rounds(parameters.repetitions, &cells, |rig, cell| match *cell {
            Chain::Linked { chain, load } => linked[chain].trial(rig, load, length),
            Chain::Weft { chain: number, load } => {
                let chain = &mut chains[number];
                let trial = parameters.trial(rig, &mut standing, (number, &mut *chain), load);
                trial.or_else(|error| match chain.setup.composition.is_elsewhere() {
                    false => Err(error),
                    true => failed.note(&chain.name, error),
                })
            }
        })?;
        failed.tell(run);
        Ok(())
    }

    fn conclude(parameters: &Parameters, results: &mut Results) {
        for &way in &parameters.compositions {
            let names = parameters.names(way);
            let chains: Vec<&Series> =
                names.iter().filter_map(|name| results.series(name)).collect();
            let goodput = [2.0, 5.0].map(|load| worst_share(&chains, load).unwrap_or(f64::NAN));
            let beyond = |series: &str| beyond_limit(results, series).unwrap_or(f64::NAN);
            let (share, backpressure) = (beyond(&entry(way)), beyond(&refused(way)));
            let (cycles, behind) = (beyond(&spent(way)), beyond(&late(way)));
            let late = [2.0, 5.0].map(|load| p99(results, way, load).unwrap_or(f64::NAN));
            let name = way.name();
            for (what, value) in [
                ("goodput_2x", goodput[0]),
                ("goodput_5x", goodput[1]),
                ("entry_share_of_drops", share),
                ("backpressure_share_of_drops", backpressure),
                ("backpressure_cycles", cycles),
                ("late_share_of_drops", behind),
                ("delay_us_p99_2x", late[0]),
                ("delay_us_p99_5x", late[1]),
            ] {
                results.derive(format!("{what}_{name}"), value);
            }
            if goodput[1].is_finite() && share.is_finite() {
                results.says += &format!(
                    "{name}: at five times the limit at least {:.0} % of the peak; {:.1} % of the \
                     drops at the entry",
                    goodput[1] * 100.0,
                    share * 100.0
                );
                if backpressure > 0.0 && cycles.is_finite() {
                    results.says += &format!(
                        ", {:.1} % by backpressure after {cycles:.0} cycles each",
                        backpressure * 100.0
                    );
                }
                results.says += ". ";
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
        let each = f64::from(self.cycles);
        let equal =
            |functions: &usize| (loaded_chain(*functions, self.cycles), each * *functions as f64);
        let last = |functions: &usize| {
            let (setup, others) = loaded_last(*functions, self.cycles);
            (setup, each + f64::from(others) * (*functions - 1) as f64)
        };
        let all = self.lengths.iter().map(equal).chain(self.bottleneck_last.iter().map(last));
        let all: Vec<(Setup, f64)> = all.collect();
        let of = |&way: &Composition| {
            let named = self.names(way).into_iter().zip(&all);
            named.map(move |(name, (setup, cycles))| {
                let setup = setup.clone().taking_turns(way).within(self.delay);
                let setup = match way {
                    Composition::SoftwareVf => {
                        setup.shared((tsc::hz() as f64 / cycles.max(1.0) * SHARE) as u64)
                    }
                    _ => setup,
                };
                Ours { setup, name, cycles: *cycles, limit: None }
            })
        };
        self.compositions.iter().flat_map(of).collect()
    }

    /// The series of all chains that are run so.
    fn names(&self, way: Composition) -> Vec<String> {
        let equal = self.lengths.iter().map(|functions| delivered(way, *functions));
        let last = self.bottleneck_last.iter();
        let last = last.map(|functions| delivered(way, *functions) + ", the last one slow");
        equal.chain(last).collect()
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
                let which = (number, &chain.setup);
                let carried = capacity::of_chain(rig, standing, which, chain.cycles, length)?;
                *chain.limit.insert(carried)
            }
        };
        let way = chain.setup.composition;
        let offer = Offer::new(load * limit, length);
        let ((arrivals, work), disturbance) = standing.node(number, &chain.setup)?.offer(&offer)?;
        let drops = (work.missed + work.refused + work.dropped) as f64;
        let share = |count: u64| (drops > 0.0).then(|| count as f64 / drops);
        let values = Values::of(arrivals.goodput() / 1e6)
            .and(entry(way), share(work.missed))
            .and(refused(way), share(work.refused))
            .and(spent(way), work.refused_cycles.filter(|_| work.refused > 0))
            .and(late(way), share(work.dropped))
            .and(delay(way), Delay::of(&arrivals.delays));
        let sent = Sent { at: arrivals.rate_sent() / limit, share: arrivals.share_sent() };
        Ok((values.sent(sent), disturbance))
    }

    fn figures(&self) -> Vec<Drawing> {
        let offered = || Axis::linear("Load sent", "multiples of the limit");
        let throughput = self.compositions.iter().map(|&way| {
            let names = self.names(way);
            let title = format!("Delivered under overload, {}", way.title());
            let name = format!("throughput-{}", way.name());
            figure(&name, &title, FigureKind::Lines, names.iter().map(String::as_str))
                .caption(
                    "As fig. 3b of the paper: load beyond the limit. The paper's chains over \
                     software links lose throughput there, those isolated by the NIC stay flat. \
                     Each point stands at the load that was really sent.",
                )
                .axes(offered(), Axis::linear("Delivered", "Mpps"))
        });
        let names = |of: fn(Composition) -> String| -> Vec<String> {
            self.compositions.iter().map(|way| of(*way)).collect()
        };
        let (at_entry, delays) = (names(entry), names(delay));
        let at_entry = [at_entry, names(refused)].concat();
        fn strs(names: &[String]) -> impl Iterator<Item = &str> {
            names.iter().map(String::as_str)
        }
        let drops =
            figure("drops", "Where packets are dropped", FigureKind::Lines, strs(&at_entry))
                .caption(
                    "Of all packets that are dropped: how many found the queue of the entry full, \
                     before they were looked at, and how many were received and classified, and \
                     refused since a function of their chain had no room. The rest was dropped \
                     after functions worked on it.",
                )
                .axes(offered(), Axis::linear("Share of drops", ""));
        let delays = figure("delay", "Delay under overload", FigureKind::Lines, strs(&delays))
            .caption("The median of the chains of all lengths; percentiles stand in the results.")
            .axes(offered(), Axis::log("Delay", "µs"));
        throughput.chain([drops, delays]).collect()
    }
}

/// The mean of a series over loads clearly beyond the limit.
fn beyond_limit(results: &Results, series: &str) -> Option<f64> {
    let series = results.series(series)?;
    let overloaded = series.counting().filter(|point| is_at_least(&point.x, 1.5));
    let raw: Vec<f64> = overloaded.flat_map(|point| point.raw.iter().copied()).collect();
    weft_rig::statistics::mean(&raw)
}

/// The series of a chain.
fn delivered(way: Composition, functions: usize) -> String {
    format!("weft {}, chain of {functions}", way.title())
}

fn entry(way: Composition) -> String {
    format!("weft {}, dropped at the entry", way.title())
}

fn refused(way: Composition) -> String {
    format!("weft {}, refused by backpressure", way.title())
}

fn spent(way: Composition) -> String {
    format!("weft {}, spent on a refused packet", way.title())
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
        let peak = series.counting().map(|point| point.mean).fold(0.0, f64::max);
        Some(series.mean_at(load)? / peak)
    };
    chains.iter().map(share).collect::<Option<Vec<_>>>()?.into_iter().reduce(f64::min)
}

/// The 99th percentile of the delay at a load, in microseconds.
fn p99(results: &Results, way: Composition, load: f64) -> Option<f64> {
    let point = results.series(&delay(way))?.at(load)?;
    point.percentiles.get("p99").copied()
}

fn is_at_least(x: &Abscissa, load: f64) -> bool {
    matches!(x, Abscissa::Number(at) if *at >= load)
}
