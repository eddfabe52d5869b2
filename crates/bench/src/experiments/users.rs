//! `users`: what more users cost.

use std::fs;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use weft_traffic::Rate;

use crate::experiment::Study;
use crate::experiments::figure::figure;
use crate::results::{Axis, Better, FigureKind, Results};
use crate::run::{Cell, Run, Values};
use weft_rig::Devices;
use weft_rig::Failure;
use weft_rig::NOT_COUNTED;
use weft_rig::Rig;
use weft_rig::Setup;
use weft_rig::uplink;

const RATE: &str = "weft";
const CYCLES: &str = "weft, cycles";
const EMPTY: &str = "weft, empty chain, cycles";
const MISSES: &str = "weft, L3 load misses";
const X: &str = "users";

/// Packets of each user before a trial, so that the compressor knows the flows and
/// full headers are few.
const BEFORE: u32 = 6;

/// See [`Study::VARIES`].
pub struct Users;

/// Parameters of `users`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// Repetitions with each number of users.
    #[schemars(range(min = 1))]
    repetitions: u32,
    /// Seconds of each.
    seconds: f64,
    /// Bytes of a frame with its checksum.
    #[schemars(range(min = 64, max = 1518))]
    frame_bytes: usize,
    /// Numbers of users.
    #[schemars(inner(range(min = 1, max = 16_000_000)))]
    users: Vec<u32>,
}

impl Study for Users {
    const NAME: &'static str = "users";
    const TITLE: &'static str = "What more users cost";
    const VARIES: &'static str =
        "users, 1 to 1,000,000, in a chain of counter, marker and compressor";
    const PAPER: &'static str = "Pinczel et al., fig. 5b";
    const FILE: &'static str = include_str!("../../../../experiments/users.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        let length = Duration::from_secs_f64(parameters.seconds);
        run.series(CYCLES, X, "cycles/packet", Some(Better::Lower));
        run.series(EMPTY, X, "cycles/packet", Some(Better::Lower));
        run.series(RATE, X, "Mpps", Some(Better::Higher));
        run.computed(RATE, CYCLES);
        run.series(MISSES, X, "misses/packet", Some(Better::Lower));
        if let Some(most) = parameters.users.iter().max()
            && let Some(bytes) = bytes_per_user(run.rig, *most)?
        {
            run.derive("bytes_per_user", bytes);
        }
        let both = |users: &u32| {
            let full = Cell::new(CYCLES, *users, (*users, setup(*users)));
            [full, Cell::new(EMPTY, *users, (*users, Setup::forwarding(*users)))]
        };
        let cells: Vec<_> = parameters.users.iter().flat_map(both).collect();
        run.rounds(parameters.repetitions, &cells, |rig, (users, setup)| {
            let load = uplink(*users, parameters.frame_bytes, Rate::Unlimited);
            let before = u64::from(*users) * u64::from(BEFORE);
            let (cost, disturbance) = rig.cost_of_known(setup, &load, before, length)?;
            let values = Values::of(cost.cycles);
            if setup.functions.is_empty() {
                return Ok((values, disturbance));
            }
            let misses = cost.events.and_then(|events| events.misses);
            Ok((values.and(RATE, Some(cost.mpps())).and(MISSES, misses), disturbance))
        })
    }

    fn conclude(_: &Parameters, results: &mut Results) {
        if results.series(CYCLES).is_some() && results.series(MISSES).is_none() {
            results.notes.push(NOT_COUNTED.to_owned());
        }
        let at = |users: u32| results.series(RATE).and_then(|series| series.mean_at(users));
        let (one, ten_thousand, million) = (at(1), at(10_000), at(1_000_000));
        let over_one = |rate: Option<f64>| Some(rate? / one?);
        if let Some(share) = over_one(ten_thousand) {
            results.derive("rate_10k_over_1", share);
        }
        if let Some(share) = over_one(million) {
            results.derive("rate_1m_over_1", share);
        }
        let added = |users: u32| {
            let cycles = |series| results.series(series).and_then(|series| series.mean_at(users));
            Some(cycles(CYCLES)? - cycles(EMPTY)?)
        };
        let (added_1k, added_1m) = (added(1000), added(1_000_000));
        for (name, added) in [("added_cycles_1k", added_1k), ("added_cycles_1m", added_1m)] {
            added.into_iter().for_each(|added| results.derive(name, added));
        }
        if let (Some(thousand), Some(million)) = (added_1k, added_1m) {
            results.derive("added_1m_over_1k", million / thousand);
        }
        if let (Some(one), Some(million)) = (one, million) {
            results.says = format!(
                "One core forwards {one:.1} Mpps for one user and {million:.1} Mpps for a \
                 million users in random order, {:.0} % of it.",
                million / one * 100.0
            );
        }
        let drawings = [
            figure("rate", "Packet rate of one core", FigureKind::Lines, [RATE])
                .caption(
                    "As fig. 5b of Pinczel et al., which ends at 10,000 users. Packets are of all \
                     users at random, counted over the time that the worker had them.",
                )
                .axes(Axis::log("Users", ""), Axis::linear("Packet rate", "Mpps")),
            figure("cycles", "Cycles per packet", FigureKind::Lines, [CYCLES, EMPTY])
                .caption("With the three functions, and from port to port by one rule.")
                .axes(Axis::log("Users", ""), Axis::linear("Cost", "cycles/packet"))
                .baselines([EMPTY]),
            figure(
                "misses",
                "Loads that miss the last level of cache",
                FigureKind::Lines,
                [MISSES],
            )
            .caption("As the right axis of fig. 5b.")
            .axes(Axis::log("Users", ""), Axis::linear("Misses", "1/packet")),
        ];
        results.figures = drawings.into_iter().filter_map(|one| one.of(results)).collect();
    }
}

/// A chain that keeps a context of each function for each user, and drops nothing.
fn setup(users: u32) -> Setup {
    let meter = json!({"singleRate": {"committedRate": "1 Gbit/s", "committedBurst": "1 MiB"}});
    let count = json!({"function": "counter"});
    let police = json!({"function": "marker", "config": {"meter": meter, "drop": "none"}});
    let compress = json!({"function": "ip-header-compressor", "config": {"freshLink": true}});
    let functions = [("count", count), ("police", police), ("compress", compress)];
    Setup::chain(users, functions.map(|(name, function)| (name.to_owned(), function)).into())
}

/// Bytes of memory that a user takes of a node with so many; none where that is
/// too little to be seen.
fn bytes_per_user(rig: &Rig, users: u32) -> Result<Option<f64>, Failure> {
    let node = |users| {
        let (access, core) = (rig.serial(), rig.serial());
        let devices = Devices {
            access: vec![format!("net_null{access},no-rx=1")],
            core: format!("net_null{core},no-rx=1"),
            descriptors: 1024,
        };
        setup(users).build(rig, &devices)
    };
    drop(node(1)?);
    let before = resident()?;
    let _node = node(users)?;
    let bytes = resident()?.saturating_sub(before);
    Ok((bytes > 0).then(|| bytes as f64 / f64::from(users)))
}

/// Bytes of this process that are in memory (`proc(5)`, `VmRSS`).
pub(super) fn resident() -> Result<u64, Failure> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kilobytes.ok_or("/proc/self/status has no VmRSS")? * 1024)
}
