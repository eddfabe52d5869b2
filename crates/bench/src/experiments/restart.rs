//! `restart`: how soon a node has again what commands had set, and what it costs that commands
//! are durable.

mod processes;
mod standby;
mod trial;
mod upgrade;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::processes::Passed;
use self::trial::{Commands, Restart};
use self::upgrade::Functions;
use crate::experiment::Study;
use crate::experiments::figure::figure;
use crate::results::{Axis, Better, FigureKind, Results};
use crate::run::{Cell, Run, Values};
use weft_node_config::Loading;
use weft_rig::Failure;
use weft_rig::baseline::kernel;

const X: &str = "bearers";
const READY: &str = "ready";
const FIRST: &str = "first packet";
const ALL: &str = "first packets of all";
const READY_ALL: &str = "ready, with contexts of all";
const FIRST_ALL: &str = "first packets of all, with contexts of all";
const FIRST_DEMAND: &str = "first packet, contexts on demand";
const HALF_DEMAND: &str = "first packets of half, contexts on demand";
const ALL_DEMAND: &str = "first packets of all, contexts on demand";
const SERVED_DEMAND: &str = "users served before all contexts are there";
const RATE: &str = "durable commands";
const LATENCY: &str = "a durable batch, p99";
const UPGRADE: &str = "an upgrade";
const UPGRADE_PROCESSES: &str = "an upgrade, with functions in processes";
const LOST: &str = "packets lost in upgrades";
const DISORDERED: &str = "packets doubled or out of order in upgrades";
const TAKEOVER: &str = "a takeover by a standby";
const MILLION: u32 = 1_000_000;

/// See [`Study::VARIES`].
pub struct Restarts;

/// Parameters of `restart`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// Repetitions with each number of bearers.
    #[schemars(range(min = 1))]
    repetitions: u32,
    /// Seconds in which commands are given.
    seconds: f64,
    /// Bearers that commands have added.
    #[schemars(inner(range(min = 1, max = 10_000_000)))]
    bearers: Vec<u32>,
    /// Bearers whose contexts of functions are all in the store as well: they have had traffic.
    #[schemars(inner(range(min = 1, max = 10_000_000)))]
    contexts: Vec<u32>,
    /// Users of nodes that are taken over.
    #[schemars(inner(range(min = 1, max = 10_000_000)))]
    users: Vec<u32>,
    /// Packets that pass a node which goes from process to process.
    upgrades: Upgrades,
    /// Bearers of nodes that die and whose standby takes over.
    #[schemars(inner(range(min = 1, max = 10_000_000)))]
    standby: Vec<u32>,
    /// Commands that are applied at once.
    #[schemars(range(min = 1))]
    batch: usize,
    /// Clients that give commands at the same time, each a batch at a time.
    #[schemars(range(min = 1, max = 1000))]
    clients: usize,
}

/// A node between interfaces of the kernel that goes from process to process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Upgrades {
    /// How often, in each repetition; 0 leaves it out.
    count: u32,
    /// Users that have packets.
    #[schemars(range(min = 1, max = 1_000_000))]
    users: u32,
    /// Packets per second.
    pps: f64,
}

impl Study for Restarts {
    const NAME: &'static str = "restart";
    const TITLE: &'static str = "A node that starts again, and durable commands";
    const VARIES: &'static str = "bearers that a killed node has again, 10,000 to 1,000,000";
    const PAPER: &'static str = "none";
    const FILE: &'static str = include_str!("../../../../experiments/restart.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        run.series(READY, X, "s", Some(Better::Lower));
        run.series(FIRST, X, "ms", Some(Better::Lower));
        run.series(ALL, X, "s", Some(Better::Lower));
        run.series(RATE, X, "commands/s", Some(Better::Higher));
        run.series(LATENCY, X, "us", Some(Better::Lower));
        run.note(format!(
            "The store lay in {}; what a sync of the disk costs there decides about commands.",
            std::env::temp_dir().display()
        ));
        let most = parameters.bearers.iter().copied().max().unwrap_or(MILLION);
        let length = Duration::from_secs_f64(parameters.seconds);
        let cells: Vec<_> =
            parameters.bearers.iter().map(|count| Cell::new(READY, *count, *count)).collect();
        let Parameters { batch, clients, .. } = *parameters;
        run.series(UPGRADE, X, "ms", Some(Better::Lower));
        run.series(UPGRADE_PROCESSES, X, "ms", Some(Better::Lower));
        let upgrades: Vec<_> =
            parameters.users.iter().map(|count| Cell::new(UPGRADE, *count, *count)).collect();
        run.rounds(parameters.repetitions, &upgrades, |rig, &users| {
            let waited = upgrade::upgrade(rig, users, Functions::Called)?;
            let apart = upgrade::upgrade(rig, users, Functions::InProcesses)?;
            let values = Values::of(waited.as_secs_f64() * 1e3);
            Ok((values.and(UPGRADE_PROCESSES, Some(apart.as_secs_f64() * 1e3)), 0.0))
        })?;
        parameters.lose(run)?;
        run.series(TAKEOVER, X, "ms", Some(Better::Lower));
        let takeovers: Vec<_> =
            parameters.standby.iter().map(|count| Cell::new(TAKEOVER, *count, *count)).collect();
        run.rounds(parameters.repetitions, &takeovers, |rig, &bearers| {
            Ok((Values::of(standby::takeover(rig, bearers)?.as_secs_f64() * 1e3), 0.0))
        })?;
        run.rounds(parameters.repetitions, &cells, |rig, &bearers| {
            let mut restart = Restart::new(rig, bearers)?;
            let commands = match bearers == most {
                true => Some(restart.commands(&Commands { length, batch, clients })?),
                false => None,
            };
            let outcome = restart.kill_and_start(Loading::First)?;
            let mut values = Values::of(outcome.ready.as_secs_f64())
                .and(FIRST, Some(outcome.first.as_secs_f64() * 1e3))
                .and(ALL, Some(outcome.all.as_secs_f64()));
            if let Some(commands) = commands {
                values = values
                    .and(RATE, Some(commands.per_second))
                    .and(LATENCY, Some(commands.p99.as_secs_f64() * 1e6));
            }
            Ok((values, 0.0))
        })?;
        parameters.restart_with_contexts(run)
    }

    fn conclude(parameters: &Parameters, results: &mut Results) {
        let most = parameters.bearers.iter().copied().max().unwrap_or(MILLION);
        let at = |name: &str, x: u32| results.series(name).and_then(|series| series.mean_at(x));
        // Of all upgrades that were made.
        let sum = |name: &str| {
            let point = results.series(name)?.at(parameters.upgrades.users)?;
            Some(point.raw.iter().sum())
        };
        let (ready, first, all) = (at(READY, MILLION), at(FIRST, MILLION), at(ALL, MILLION));
        let (rate, latency) = (at(RATE, most), at(LATENCY, most));
        let figures = [
            ("restart_seconds_1m", ready),
            ("first_packet_ms_1m", first),
            ("all_first_packets_seconds_1m", all),
            ("restart_seconds_1m_contexts", at(READY_ALL, MILLION)),
            ("all_first_packets_seconds_1m_contexts", at(FIRST_ALL, MILLION)),
            ("first_packet_ms_1m_on_demand", at(FIRST_DEMAND, MILLION)),
            ("half_first_packets_seconds_1m_on_demand", at(HALF_DEMAND, MILLION)),
            ("all_first_packets_seconds_1m_on_demand", at(ALL_DEMAND, MILLION)),
            ("first_packets_before_loaded", at(SERVED_DEMAND, MILLION)),
            ("commands_per_s_durable", rate),
            ("command_latency_us_p99_durable", latency),
            ("upgrade_blackout_ms_1k", at(UPGRADE, 1000)),
            ("upgrade_blackout_ms_100k", at(UPGRADE, 100_000)),
            ("upgrade_blackout_ms_1k_processes", at(UPGRADE_PROCESSES, 1000)),
            ("upgrade_blackout_ms_100k_processes", at(UPGRADE_PROCESSES, 100_000)),
            ("standby_takeover_ms", at(TAKEOVER, 100_000)),
            ("upgrade_lost", sum(LOST)),
            ("upgrade_disordered", sum(DISORDERED)),
        ];
        for (name, value) in figures {
            value.into_iter().for_each(|value| results.derive(name, value));
        }
        if let (Some(ready), Some(rate)) = (ready, rate) {
            results.says = format!(
                "A killed node has a million bearers again after {ready:.1} s; it makes {:.0} \
                 thousand commands a second durable.",
                rate / 1e3
            );
        }
        let drawn = [READY, ALL, READY_ALL, FIRST_ALL, HALF_DEMAND, ALL_DEMAND];
        let drawing = figure("restart", "Until packets pass again", FigureKind::Lines, drawn)
            .caption(
                "From the start of reading the store: until the node takes packets, and until \
                 one packet of every user has left it; the same where contexts of all users are in \
                 the store, which are read first, or on demand while packets pass.",
            )
            .axes(Axis::log("Bearers", ""), Axis::log("Time", "s"));
        results.figures = drawing.of(results).into_iter().collect();
    }
}

impl Parameters {
    /// The same with contexts of all bearers in the store.
    fn restart_with_contexts(&self, run: &mut Run<'_>) -> Result<(), Failure> {
        run.series(READY_ALL, X, "s", Some(Better::Lower));
        run.series(FIRST_ALL, X, "s", Some(Better::Lower));
        run.series(FIRST_DEMAND, X, "ms", Some(Better::Lower));
        run.series(HALF_DEMAND, X, "s", Some(Better::Lower));
        run.series(ALL_DEMAND, X, "s", Some(Better::Lower));
        run.series(SERVED_DEMAND, X, "share", None);
        let cells: Vec<_> =
            self.contexts.iter().map(|count| Cell::new(READY_ALL, *count, *count)).collect();
        run.rounds(self.repetitions, &cells, |rig, &bearers| {
            let start = |loading| {
                let mut restart = Restart::new(rig, bearers)?;
                restart.checkpoint_all()?;
                restart.kill_and_start(loading)
            };
            let (first, demand) = (start(Loading::First)?, start(Loading::OnDemand)?);
            let values = Values::of(first.ready.as_secs_f64())
                .and(FIRST_ALL, Some(first.all.as_secs_f64()))
                .and(FIRST_DEMAND, Some(demand.first.as_secs_f64() * 1e3))
                .and(HALF_DEMAND, Some(demand.half.as_secs_f64()))
                .and(ALL_DEMAND, Some(demand.all.as_secs_f64()))
                .and(SERVED_DEMAND, Some(demand.before_loaded));
            Ok((values, 0.0))
        })
    }

    /// Counts packets that are lost while a node goes from process to process.
    fn lose(&self, run: &mut Run<'_>) -> Result<(), Failure> {
        let Upgrades { count, users, pps } = self.upgrades;
        if count == 0 {
            return Ok(());
        }
        if let Some(lacking) = kernel::lacking() {
            run.note(lacking);
            return Ok(());
        }
        run.series(LOST, X, "packets", Some(Better::Lower));
        run.series(DISORDERED, X, "packets", Some(Better::Lower));
        run.rounds(self.repetitions, &[Cell::new(LOST, users, ())], |rig, ()| {
            let Passed { lost, disordered } = processes::upgrades(rig, (users, pps), count)?;
            Ok((Values::of(lost as f64).and(DISORDERED, Some(disordered as f64)), 0.0))
        })
    }
}
