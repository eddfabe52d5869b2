//! `overload`: what a chain delivers when more is offered than it can carry.

mod linked;

use std::cell::RefCell;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_dpdk::tsc;

use super::chains::synthetic_chain;
use super::figure::figure;
use crate::Failure;
use crate::experiment::Study;
use crate::results::{Abscissa, Axis, Better, FigureKind, Results, Series};
use crate::rig::capture::Content;
use crate::rig::{Offer, OpenLoop, USERS};
use crate::run::{Cell, Run, Values};

const X: &str = "offered load, multiples of the limit";
/// Packets that the queue at the entry holds.
const DESCRIPTORS: u16 = 1024;

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
    /// Functions in a chain.
    #[schemars(inner(range(min = 1, max = 16)))]
    lengths: Vec<usize>,
    /// Cycles that each function spends on a packet: enough that the generator is
    /// faster than five times the chain.
    cycles: u32,
    /// Offered loads, as multiples of what a core can carry by the cost of a
    /// packet.
    loads: Vec<f64>,
}

/// What a cell measures.
enum Chain {
    /// One of ours, at so many packets per second.
    Weft { chain: usize, rate: f64 },
    /// One over software links, at a multiple of its limit.
    Linked { chain: usize, load: f64 },
}

impl Study for Overload {
    const NAME: &'static str = "overload";
    const TITLE: &'static str = "More offered than a chain can carry";
    const VARIES: &'static str =
        "offered load to five times the limit, chains of 1, 2, 4, ours and over software links";
    const PAPER: &'static str = "Bauer et al., fig. 3b";
    const FILE: &'static str = include_str!("../../../../experiments/overload.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        let length = Duration::from_secs_f64(parameters.seconds);
        let rig = run.rig;
        rig.cores.traffic()?;
        let capture = rig.capture(Content::of(USERS, 64))?;
        let (mut cells, mut chains) = (Vec::new(), Vec::new());
        for &functions in &parameters.lengths {
            let setup = synthetic_chain(functions, parameters.cycles);
            let (cost, _) = rig.cost(&setup, &capture, length.min(Duration::from_millis(300)))?;
            let limit = tsc::hz() as f64 / cost.cycles;
            let chain = RefCell::new(OpenLoop::rings(rig, &setup, DESCRIPTORS)?);
            run.series(&delivered(functions), X, "Mpps", Some(Better::Higher));
            for &load in &parameters.loads {
                let chain = Chain::Weft { chain: chains.len(), rate: load * limit };
                cells.push(Cell::new(delivered(functions), load, chain));
            }
            chains.push(chain);
        }
        run.series(ENTRY, X, "share of drops", Some(Better::Higher));
        run.series(LATE, X, "share of drops", Some(Better::Lower));
        let linked = linked::lay(parameters, run, length)?;
        for (number, chain) in linked.iter().enumerate() {
            let given = parameters.loads.iter().filter(|load| chain.can_be_given(**load));
            cells.extend(given.map(|&load| {
                Cell::new(chain.name.clone(), load, Chain::Linked { chain: number, load })
            }));
            chain.note(&parameters.loads).into_iter().for_each(|note| run.note(note));
        }
        run.rounds(parameters.repetitions, &cells, |rig, cell| {
            let (chain, rate) = match *cell {
                Chain::Weft { chain, rate } => (chain, rate),
                Chain::Linked { chain, load } => return linked[chain].trial(rig, load, length),
            };
            let offer = Offer::new(rate, length);
            let ((arrivals, work), disturbance) = chains[chain].borrow_mut().offer(&offer)?;
            let drops = (work.missed + work.dropped) as f64;
            let share = |count: u64| (drops > 0.0).then(|| count as f64 / drops);
            let values = Values::of(arrivals.goodput() / 1e6)
                .and(ENTRY, share(work.missed))
                .and(LATE, share(work.dropped));
            Ok((values, disturbance))
        })
    }

    fn conclude(parameters: &Parameters, results: &mut Results) {
        let chains: Vec<&Series> = parameters
            .lengths
            .iter()
            .filter_map(|functions| results.series(&delivered(*functions)))
            .collect();
        let goodput_2x = worst_share(&chains, 2.0);
        let goodput_5x = worst_share(&chains, 5.0);
        let entry = results.series(ENTRY).map(|series| {
            let overloaded = series.points.iter().filter(|point| is_at_least(&point.x, 1.5));
            let raw: Vec<f64> = overloaded.flat_map(|point| point.raw.iter().copied()).collect();
            crate::statistics::mean(&raw).unwrap_or(f64::NAN)
        });
        for (name, value) in [
            ("goodput_2x_call", goodput_2x),
            ("goodput_5x_call", goodput_5x),
            ("entry_share_of_drops_call", entry),
        ] {
            results.derive(name, value.unwrap_or(f64::NAN));
        }
        if let (Some(goodput), Some(entry)) = (goodput_5x, entry.filter(|share| share.is_finite()))
        {
            results.says = format!(
                "At five times the limit the chains still deliver at least {:.0} % of their peak, \
                 and {:.1} % of what is dropped is dropped at the entry, before any work.",
                goodput * 100.0,
                entry * 100.0
            );
        }
        let names: Vec<String> = parameters.lengths.iter().map(|n| delivered(*n)).collect();
        let names = names.iter().map(String::as_str);
        let throughput = figure("throughput", "Delivered under overload", FigureKind::Lines, names)
            .caption(
                "As fig. 3b of the paper: load beyond the limit. The paper's chains over software \
                 links lose throughput there, those isolated by the NIC stay flat.",
            )
            .axes(
                Axis::linear("Offered load", "multiples of the limit"),
                Axis::linear("Delivered", "Mpps"),
            );
        let drops = figure("drops", "Where packets are dropped", FigureKind::Lines, [ENTRY, LATE])
            .caption(
                "Of all packets that are dropped: how many found the queue at the entry full, \
                 and how many were dropped after work was spent on them.",
            )
            .axes(
                Axis::linear("Offered load", "multiples of the limit"),
                Axis::linear("Share of drops", ""),
            );
        let linked = linked::conclude(parameters, results);
        let own = [throughput, drops].into_iter().filter_map(|one| one.of(results));
        results.figures = own.chain(linked).collect();
    }
}

const ENTRY: &str = "weft call, dropped at the entry";
const LATE: &str = "weft call, dropped later";

/// The series of a chain.
fn delivered(functions: usize) -> String {
    format!("weft call, chain of {functions}")
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
