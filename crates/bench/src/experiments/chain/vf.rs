//! `vf`: chains over software VF, which stands in for the switch of a NIC: what they deliver,
//! and what one of two loses when the other is offered more than its share.

use std::collections::BTreeSet;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use weft_traffic::{Endpoints, Load, Rate};

use crate::experiment::Study;
use crate::experiments::chain::chains::loaded_chain;
use crate::experiments::figure::figure;
use crate::results::{Abscissa, Axis, Better, FigureKind, Point, Results, Series};
use crate::run::{Cell, Run, Values};
use weft_rig::Arrived;
use weft_rig::Block;
use weft_rig::Composition;
use weft_rig::Delay;
use weft_rig::Failure;
use weft_rig::NO_SHARE;
use weft_rig::Offer;
use weft_rig::Setup;
use weft_rig::Standing;
use weft_rig::USERS;
use weft_rig::uplink;

const DELIVERED: &str = "weft software VF, delivered";
const LENGTH: &str = "functions";
const LOAD: &str = "load of the other chain, multiples of its share";
/// Packets that the queue at the entry holds.
const DESCRIPTORS: u16 = 1024;
/// Loads are given in so many parts of a share.
const PARTS: f64 = 1000.0;
/// The load of the other chain that others are compared with: all of its share.
const OWN: f64 = 1.0;

/// See [`Study::VARIES`].
pub struct Vf;

/// Parameters of `vf`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// Repetitions of each point.
    #[schemars(range(min = 1))]
    repetitions: u32,
    /// Seconds of each.
    seconds: f64,
    /// Functions in a chain, behind a counter, all of them at virtual functions.
    #[schemars(inner(range(min = 1, max = 16)))]
    lengths: Vec<usize>,
    /// Cycles that each function spends on a packet.
    cycles: u32,
    /// The share of each virtual function, in packets per second.
    #[schemars(range(min = 1000, max = 10_000_000))]
    rate: u64,
    /// What a chain is offered that is within its share, as a part of it.
    #[schemars(range(min = 0.001, max = 1.0))]
    within: f64,
    /// What the other chain is offered, in multiples of its share.
    loads: Vec<f64>,
}

/// What a cell measures.
enum Trial {
    /// A chain that is offered less than its share.
    Delivers { chain: usize },
    /// Two chains; the other is offered so many times its share.
    Beside { chain: usize, shared: bool, load: f64 },
}

impl Study for Vf {
    const NAME: &'static str = "vf";
    const TITLE: &'static str = "Chains over software VF";
    const VARIES: &'static str = "functions in a chain over software VF; load of the chain \
                                  beside it, to five times its share";
    const PAPER: &'static str = "Bauer et al., fig. 3";
    const FILE: &'static str = include_str!("../../../../../experiments/vf.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        let rig = run.rig;
        rig.cores.traffic()?;
        if rig.cores.switch.is_none() {
            run.note(
                "The switch has no core of its own on a machine with two: it shares that of the \
                 functions, and sleeps while there is nothing to do. The 99th percentile of delays is \
                 that of the kernel's turns between them, and says nothing of isolation.",
            );
        }
        begin_series(run);
        let (setups, cells) = parameters.cells();
        let (mut standing, mut failed) = (Standing::new(rig, DESCRIPTORS), BTreeSet::new());
        let length = Duration::from_secs_f64(parameters.seconds);
        run.rounds(parameters.repetitions, &cells, |_, trial| {
            let (Trial::Delivers { chain } | Trial::Beside { chain, .. }) = *trial;
            let load = match *trial {
                Trial::Delivers { .. } => {
                    uplink(USERS, 64, Rate::Packets(parameters.rate as f64 * parameters.within))
                }
                Trial::Beside { load, .. } => parameters.two(load),
            };
            let offered = standing.node(chain, &setups[chain]).and_then(|node| {
                let before = node.dropped_by_switch()?;
                let offered = node.offer(&Offer { load, duration: length })?;
                let after = node.dropped_by_switch()?;
                Ok((offered, after.zip(before).map_or(0, |(after, before)| after - before)))
            });
            let (((arrivals, _), disturbance), dropped) = match offered {
                Ok(offered) => offered,
                // What one trial lacks does not end the experiment.
                Err(error) => {
                    failed.insert(format!("software VF: not always measured: {error}."));
                    return Ok((Values::none(), 0.0));
                }
            };
            if dropped > 0 {
                failed.insert("software VF: the switch dropped frames.".to_owned());
            }
            let seconds = arrivals.sending.as_secs_f64().max(1e-9);
            let kpps = |stream: &Arrived| stream.received as f64 / seconds / 1e3;
            let values = match (trial, &arrivals.streams[..]) {
                (Trial::Beside { shared, .. }, [ours, others @ ..]) => {
                    let delays = Delay::of(&ours.delays);
                    let p99 = (!ours.delays.is_empty())
                        .then(|| ours.delays.value_at_quantile(0.99) as f64 / 1e3);
                    Values::of(kpps(ours))
                        .and(delay(*shared), delays)
                        .and(tail(*shared), p99)
                        .and(other(*shared), others.first().map(kpps))
                }
                _ => Values::of(arrivals.received as f64 / arrivals.sent.max(1) as f64),
            };
            Ok((values, disturbance))
        })?;
        failed.into_iter().for_each(|failed| run.note(failed));
        Ok(())
    }

    fn conclude(parameters: &Parameters, results: &mut Results) {
        for &functions in &parameters.lengths {
            let delivered = results.series(DELIVERED);
            let share = delivered.and_then(|series| series.mean_at(functions as f64));
            results.derive(format!("delivered_share_chain_{functions}"), share.unwrap_or(f64::NAN));
        }
        let mut told = Vec::new();
        for (shared, suffix) in [(true, ""), (false, "_no_shares")] {
            for (of, name) in [(neighbour(shared), "goodput"), (tail(shared), "p99")] {
                let Some(kept) = over_own(results, &of, name, shared) else { continue };
                let at_five = kept.mean_at(5.0).unwrap_or(f64::NAN);
                results.derive(format!("neighbour_{name}_at_5x{suffix}"), at_five);
                if at_five.is_finite() {
                    told.push(format!("{name} {at_five:.3}{}", bounds(&kept)));
                }
                results.compute(kept);
            }
            if let [goodput, p99] = &told[..] {
                let which = if shared { "With" } else { "Without" };
                results.says += &format!(
                    "{which} shares, a chain beside one that is offered five times its share has \
                     of what it has beside one that is offered its share: {goodput}, {p99}. "
                );
            }
            told.clear();
        }
        results.says.truncate(results.says.trim_end().len());
        results.figures = figures().into_iter().filter_map(|one| one.of(results)).collect();
    }
}

impl Parameters {
    /// Nodes, and what is measured of each.
    fn cells(&self) -> (Vec<Setup>, Vec<Cell<Trial>>) {
        let (mut setups, mut cells) = (Vec::new(), Vec::new());
        for &functions in &self.lengths {
            let trial = Trial::Delivers { chain: setups.len() };
            cells.push(Cell::new(DELIVERED, functions as f64, trial));
            setups.push(over(loaded_chain(functions, self.cycles)).shared(self.rate));
        }
        for shared in [true, false] {
            let chain = setups.len();
            let share = if shared { self.rate } else { NO_SHARE };
            setups.push(over(self.beside()).shared(share));
            cells.extend(self.loads.iter().map(|&load| {
                Cell::new(neighbour(shared), load, Trial::Beside { chain, shared, load })
            }));
        }
        (setups, cells)
    }

    /// Two chains of one function, with half of the users each.
    fn beside(&self) -> Setup {
        let names = ["ours", "other"];
        let work = json!({"function": "synthetic", "config": {"cycles": self.cycles}});
        let functions = names.map(|name| (name.to_owned(), work.clone())).into();
        let block = |name: &str| Block { count: USERS, chain: Some(format!("chain-{name}")) };
        let chain = |name: &str| (format!("chain-{name}"), vec![name.to_owned()]);
        Setup {
            chains: names.map(chain).into(),
            users: names.map(block).into(),
            ..Setup::chain(USERS, functions)
        }
    }

    /// Packets of both chains: of ours within its share, of the other so many times its own.
    fn two(&self, load: f64) -> Load {
        let rate = self.rate as f64;
        let all = Rate::Packets(rate * (self.within + load));
        let mut both = uplink(USERS, 64, all);
        let ours = both.shares[0].clone();
        both.shares[0].weight = (self.within * PARTS) as u32;
        if load > 0.0 {
            let mut other = ours;
            other.weight = (load * PARTS) as u32;
            let Endpoints { direction, peer, .. } = other.template.endpoints;
            let first_user = std::net::Ipv4Addr::from_bits(0x0a00_0000 + USERS).into();
            other.template.endpoints = Endpoints { direction, first_user, peer };
            both.shares.push(other);
        }
        both
    }
}

/// Functions behind software VF, where they have a core together.
fn over(setup: Setup) -> Setup {
    setup.composed(Composition::SoftwareVf).adaptive()
}

fn named(shared: bool, what: &str) -> String {
    format!("weft software VF{}, {what}", if shared { "" } else { " without shares" })
}

fn begin_series(run: &mut Run<'_>) {
    run.series(DELIVERED, LENGTH, "share of the packets", Some(Better::Higher));
    for shared in [true, false] {
        run.series(&neighbour(shared), LOAD, "kpps", Some(Better::Higher));
        run.series(&delay(shared), LOAD, "µs", Some(Better::Lower));
        run.series(&tail(shared), LOAD, "µs", Some(Better::Lower));
        run.series(&other(shared), LOAD, "kpps", None);
    }
}

fn neighbour(shared: bool) -> String {
    named(shared, "the neighbour")
}

fn delay(shared: bool) -> String {
    named(shared, "delay of the neighbour")
}

fn tail(shared: bool) -> String {
    named(shared, "p99 delay of the neighbour")
}

fn other(shared: bool) -> String {
    named(shared, "the other chain")
}

/// By round: a series over what it is beside a chain that is offered its share.
fn over_own(results: &Results, of: &str, what: &str, shared: bool) -> Option<Series> {
    let series = results.series(of)?;
    let own = series.points.iter().find(|point| point.x == Abscissa::Number(OWN))?;
    let name = named(shared, &format!("{what} over that at {OWN} times"));
    let mut kept = Series::new(name, LOAD, "");
    kept.computed_from = Some(of.to_owned());
    for point in &series.points {
        let rounds = point.raw.iter().zip(&own.raw);
        let raw = rounds.map(|(here, own)| here / own).collect();
        kept.points.extend(Point::of(point.x.clone(), raw));
    }
    Some(kept)
}

/// The interval of the greatest load.
fn bounds(series: &Series) -> String {
    let at_five = series.points.iter().find(|point| point.x == Abscissa::Number(5.0));
    at_five.map_or_else(String::new, |point| {
        let [low, high] = point.bounds();
        format!(" [{low:.3} … {high:.3}]")
    })
}

fn figures() -> [crate::experiments::figure::Drawing; 3] {
    let load = || Axis::linear("Load of the other chain", "multiples of its share");
    let names = |of: fn(bool) -> String| [true, false].map(of);
    let (rates, tails) = (names(neighbour), names(tail));
    let others = names(other);
    let throughput = figure(
        "isolation",
        "What a chain keeps beside one that is offered more",
        FigureKind::Lines,
        rates.iter().chain(&others).map(String::as_str),
    )
    .caption(
        "Two chains of one function each over software VF: a switch in a process of its own in \
         the place of a NIC's. The neighbour is offered less than its share all the time. \
         Without shares the switch holds nothing back.",
    )
    .axes(load(), Axis::linear("Delivered", "kpps"));
    let delays =
        figure("delay", "Its delay meanwhile", FigureKind::Lines, tails.iter().map(String::as_str))
            .caption("The 99th percentile of the neighbour's delays.")
            .axes(load(), Axis::log("Delay", "µs"));
    let delivered = figure("delivered", "Delivered below the limit", FigureKind::Bars, [DELIVERED])
        .caption("Chains over software VF that are offered less than their share.")
        .axes(Axis::linear("Functions", ""), Axis::linear("Delivered", "share"));
    [throughput, delays, delivered]
}
