//! `site`: what a site costs its controllers and etcd.

mod control;
mod etcd;
mod nodes;

use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::control::{Kept, Moves, Site};
use crate::experiment::Study;
use crate::experiments::figure::figure;
use crate::results::{Axis, Better, FigureKind, Results};
use crate::run::{Cell, Run, Values};
use weft_etcd::local::is_installed;
use weft_rig::Failure;
use weft_site_simulator::{Load, measure};

const X: &str = "users";
const MOVES: &str = "moves, records in etcd";
const ALONE: &str = "moves, records in a folder";
const TRANSACTIONS: &str = "transactions of etcd for 1,000 moves";
const BYTES: &str = "octets in etcd for a user";
const GIVEN_UP: &str = "moves that were given up, records in etcd";
const DRAIN: &str = "a drain";
const FAILOVER: &str = "until another replica leads, with all nodes";
const JOIN: &str = "from the start of a station until a new user is settled there";
const PAUSE: &str = "time without an owner while a user moves, median";
const PAUSE_P99: &str = "time without an owner while a user moves, 99 of 100";
const SIMULATED: &str = "simulated moves";
const SIMULATED_TRANSACTIONS: &str = "transactions of a simulated etcd for 1,000 moves";
const SIMULATED_WRITTEN: &str = "octets a second that a simulated etcd writes";
const SIMULATED_KEPT: &str = "octets that a simulated etcd keeps";
const SIMULATED_RECOVERY: &str = "until a new leader has read all records, simulated etcd";

/// See [`Study::VARIES`].
pub struct Sites;

/// Parameters of `site`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// Repetitions with each number of users.
    #[schemars(range(min = 1))]
    repetitions: u32,
    /// Numbers of users.
    #[schemars(inner(range(min = 1, max = 1_000_000)))]
    users: Vec<u32>,
    /// How often all users move to the other station and back.
    #[schemars(range(min = 1))]
    turns: u32,
    /// Moves that are under way at once.
    #[schemars(range(min = 1, max = 16_384))]
    window: u32,
    /// How often the controller that leads is killed, in each repetition.
    failovers: u32,
    /// Seconds of a leader's lease in etcd.
    #[schemars(range(min = 1, max = 60))]
    lease: u32,
    /// A site that is too large for the nodes of this machine: its etcd and its nodes are
    /// simulated.
    simulated: Simulated,
}

/// A large site.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Simulated {
    /// Users.
    #[schemars(range(min = 1, max = 100_000_000))]
    users: u32,
    /// Users that move each second.
    #[schemars(range(min = 1, max = 1_000_000))]
    moves: u32,
    /// Seconds of virtual time.
    #[schemars(range(min = 1, max = 86_400))]
    seconds: u32,
}

impl Study for Sites {
    const NAME: &'static str = "site";
    const TITLE: &'static str = "Controllers of a site, on etcd";
    const VARIES: &'static str = "users that two replicas of a controller on etcd move";
    const PAPER: &'static str = "none";
    const FILE: &'static str = include_str!("../../../../experiments/site.yaml");
    type Parameters = Parameters;

    fn measure(parameters: &Parameters, run: &mut Run<'_>) -> Result<(), Failure> {
        run.note(format!(
            "Records lay in {}; what a sync of the disk costs there decides about moves. Nodes had \
             no packets.",
            std::env::temp_dir().display()
        ));
        run.series(ALONE, X, "moves/s", Some(Better::Higher));
        let cells = |name| parameters.users.iter().map(move |&users| Cell::new(name, users, users));
        let alone: Vec<_> = cells(ALONE).collect();
        run.rounds(parameters.repetitions, &alone, |_, &users| {
            let site = Site::start(Kept::Folder, users, parameters.window)?;
            Ok((Values::of(parameters.moves(&site)?.1), 0.0))
        })?;
        parameters.simulate(run)?;
        if !is_installed() {
            run.note(
                "There is no etcd (Debian package etcd-server): nothing of replicas is measured.",
            );
            return Ok(());
        }
        run.note(format!(
            "etcd was one member with a heartbeat of 50 ms and an election timeout of 500 ms; a \
             leader's lease had {} s.",
            parameters.lease
        ));
        run.series(MOVES, X, "moves/s", Some(Better::Higher));
        run.series(TRANSACTIONS, X, "transactions", Some(Better::Lower));
        run.series(BYTES, X, "B", Some(Better::Lower));
        run.series(GIVEN_UP, X, "moves", Some(Better::Lower));
        run.series(DRAIN, X, "s", Some(Better::Lower));
        run.series(FAILOVER, X, "s", Some(Better::Lower));
        run.series(JOIN, X, "s", Some(Better::Lower));
        run.series(PAUSE, X, "ms", Some(Better::Lower));
        run.series(PAUSE_P99, X, "ms", Some(Better::Lower));
        let replicas: Vec<_> = cells(MOVES).collect();
        run.rounds(parameters.repetitions, &replicas, |_, &users| {
            Ok((parameters.on_etcd(users)?, 0.0))
        })
    }

    fn conclude(parameters: &Parameters, results: &mut Results) {
        let most = parameters.users.iter().copied().max().unwrap_or_default();
        let at = |name: &str, x: u32| results.series(name).and_then(|series| series.mean_at(x));
        let (moves, transactions) = (at(MOVES, most), at(TRANSACTIONS, most));
        let (failover, large) = (at(FAILOVER, most), parameters.simulated);
        let deaths = results.series(FAILOVER).and_then(|series| series.at(most));
        let worst = deaths.and_then(|deaths| deaths.raw.iter().copied().reduce(f64::max));
        let figures = [
            ("moves_per_s", moves),
            ("moves_per_s_folder", at(ALONE, most)),
            ("etcd_transactions_per_1k_moves", transactions),
            ("etcd_bytes_per_user", at(BYTES, most)),
            ("moves_given_up", at(GIVEN_UP, most)),
            ("drain_10k_seconds", at(DRAIN, 10_000)),
            ("failover_seconds", failover),
            ("failover_seconds_worst", worst),
            ("join_to_traffic_seconds", at(JOIN, most)),
            ("pause_ms_p50", at(PAUSE, most)),
            ("pause_ms_p99", at(PAUSE_P99, most)),
            ("simulated_users", Some(f64::from(large.users))),
            ("simulated_moves_per_s", at(SIMULATED, large.users)),
            ("simulated_transactions_per_1k_moves", at(SIMULATED_TRANSACTIONS, large.users)),
            ("simulated_etcd_bytes_per_s", at(SIMULATED_WRITTEN, large.users)),
            ("simulated_etcd_bytes", at(SIMULATED_KEPT, large.users)),
            ("simulated_recovery_seconds", at(SIMULATED_RECOVERY, large.users)),
        ];
        for (name, value) in figures {
            value.into_iter().for_each(|value| results.derive(name, value));
        }
        if let (Some(moves), Some(transactions)) = (moves, transactions) {
            let failover = failover.map_or(String::new(), |seconds| {
                format!(" Another replica leads {seconds:.1} s after the leader was killed.")
            });
            results.says = format!(
                "A controller on etcd moves {moves:.0} users a second, by {transactions:.1} \
                 transactions of etcd for 1,000 moves.{failover}"
            );
        }
        let drawing = figure("moves", "Moves of users", FigureKind::Lines, [MOVES, ALONE])
            .caption("All users at once, from station to station and back; nodes without packets.")
            .axes(Axis::log("Users", ""), Axis::log("Moves", "moves/s"));
        results.figures = drawing.of(results).into_iter().collect();
    }
}

impl Parameters {
    /// Moves all users there and back; what became of that, and how many move a second.
    fn moves(&self, site: &Site) -> Result<(Moves, f64), Failure> {
        let (began, mut moves) = (Instant::now(), Moves::default());
        for _ in 0..self.turns {
            moves = moves.and(site.move_all("a", "b")?).and(site.move_all("b", "a")?);
        }
        Ok((moves, moves.made as f64 / began.elapsed().as_secs_f64()))
    }

    /// What a large site costs, in virtual time.
    fn simulate(&self, run: &mut Run<'_>) -> Result<(), Failure> {
        let Simulated { users, moves, seconds } = self.simulated;
        run.series(SIMULATED, X, "moves/s", Some(Better::Higher));
        run.series(SIMULATED_TRANSACTIONS, X, "transactions", Some(Better::Lower));
        run.series(SIMULATED_WRITTEN, X, "B/s", Some(Better::Lower));
        run.series(SIMULATED_KEPT, X, "B", Some(Better::Lower));
        run.series(SIMULATED_RECOVERY, X, "s", Some(Better::Lower));
        run.rounds(1, &[Cell::new(SIMULATED, users, users)], |_, &users| {
            let (users, moves, seconds) = (users.into(), moves.into(), seconds.into());
            let cost = measure(Load { users, moves, seconds })?;
            let [made, _] = cost.moves.map(|moves| moves as f64);
            let values = Values::of(made / cost.seconds)
                .and(SIMULATED_TRANSACTIONS, Some(cost.transactions as f64 * 1e3 / made))
                .and(SIMULATED_WRITTEN, Some(cost.octets as f64 / cost.seconds))
                .and(SIMULATED_KEPT, Some(cost.octets_kept as f64))
                .and(SIMULATED_RECOVERY, Some(cost.recovery.as_secs_f64()));
            Ok((values, 0.0))
        })
    }

    /// What one life of a site with two replicas shows.
    fn on_etcd(&self, users: u32) -> Result<Values, Failure> {
        let mut site = Site::start(Kept::Etcd { lease: self.lease }, users, self.window)?;
        let etcd = site.etcd()?.ok_or("a site without etcd")?;
        let before = etcd.revision()?;
        let pauses = site.pauses();
        pauses.take();
        let (moves, rate) = self.moves(&site)?;
        let transactions = etcd.revision()?.saturating_sub(before);
        let pauses = pauses.take();
        let pause = |share: f64| {
            let pause = pauses.get(((pauses.len() as f64) * share) as usize);
            pause.map(|pause| pause.as_secs_f64() * 1e3)
        };
        let octets = etcd.compact()?;
        let began = Instant::now();
        site.drain("a")?;
        let drained = began.elapsed();
        let mut values = Values::of(rate)
            .and(TRANSACTIONS, Some(transactions as f64 * 1e3 / moves.made as f64))
            .and(GIVEN_UP, Some(moves.given_up as f64))
            .and(BYTES, Some(octets as f64 / f64::from(users)))
            .and(DRAIN, Some(drained.as_secs_f64()))
            .and(PAUSE, pause(0.5))
            .and(PAUSE_P99, pause(0.99));
        for _ in 0..self.failovers {
            values = values.and(FAILOVER, Some(site.fail_over()?.as_secs_f64()));
        }
        Ok(values.and(JOIN, Some(site.join()?.as_secs_f64())))
    }
}
