//! `weft simulate site`: the controllers of a site on etcd under faults.

use std::fmt::Write;
use std::time::Instant;

use weft_site_simulator::{
    Faults, Mutation, Promise, Scenario, Statistics, Violation, run as run_seed,
};

use super::at_least;
use crate::failure::Failure;
use crate::output;

#[derive(clap::Args)]
pub struct Arguments {
    /// The seed; the same one gives the same run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// So many seeds, from the first on; ends at the first that breaks a promise
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = at_least(1))]
    seeds: u64,
    /// Nodes: an anchor, and stations
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(3..=200))]
    nodes: u32,
    /// Users
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    users: u64,
    /// Replicas of the controller
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=9))]
    replicas: u32,
    /// Orders of operators in each run
    #[arg(long, default_value_t = 30, value_parser = at_least(1))]
    orders: u64,
    /// What can go wrong: all, none, or some of deaths, standstills, cuts, etcd, full,
    /// compaction
    #[arg(long, value_delimiter = ',', default_value = "all")]
    faults: Vec<String>,
    /// Build something wrong on purpose, to see that a promise breaks
    #[arg(long, value_name = "WHAT", value_parser = mutation)]
    mutate: Option<Mutation>,
    /// Lines of the log that are printed when a promise is broken
    #[arg(long, value_name = "LINES", default_value_t = 200)]
    log: usize,
}

fn mutation(name: &str) -> Result<Mutation, String> {
    Mutation::ALL.into_iter().find(|mutation| mutation.name() == name).ok_or_else(|| {
        let names: Vec<_> = Mutation::ALL.iter().map(|mutation| mutation.name()).collect();
        format!("there are {}", names.join(", "))
    })
}

/// Runs the seeds and prints what happened.
///
/// # Errors
/// A fault that there is not is refused; a broken promise is a failure.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let scenario = scenario(arguments)?;
    let (mut all, start) = (Statistics::default(), Instant::now());
    for seed in (arguments.seed..).take(usize::try_from(arguments.seeds).unwrap_or(usize::MAX)) {
        let outcome = run_seed(&scenario, seed);
        if let Some(violation) = outcome.violation {
            return broken(&scenario, seed, &violation, arguments.log);
        }
        all += &outcome.statistics;
    }
    let mut text = summary(arguments, &all);
    let (events, seconds) = (all.events, start.elapsed().as_secs_f64());
    let time = all.time as f64 / 1e6;
    let _ = writeln!(
        text,
        "  simulated     {events} events in {seconds:.1} s, {time:.1} s of virtual time"
    );
    let kept: Vec<String> = Promise::ALL.iter().map(ToString::to_string).collect();
    let _ = writeln!(text, "kept: {}", kept.join(", "));
    output::print(&text)
}

fn scenario(arguments: &Arguments) -> Result<Scenario, Failure> {
    let mut faults = Faults::default();
    for name in &arguments.faults {
        if !faults.add(name) {
            let known = Faults::NAMES.join(", ");
            return Err(Failure::input(format!(
                "--faults: there is no fault '{name}'; there are all, none, {known}"
            )));
        }
    }
    Ok(Scenario {
        nodes: arguments.nodes,
        users: arguments.users,
        replicas: arguments.replicas as usize,
        orders: arguments.orders,
        faults,
        mutation: arguments.mutate,
        log: 0,
    })
}

/// Runs the seed once more, with its log.
fn broken(scenario: &Scenario, seed: u64, what: &Violation, log: usize) -> Result<(), Failure> {
    let outcome = run_seed(&Scenario { log, ..*scenario }, seed);
    output::print(&outcome.log.iter().map(|line| format!("{line}\n")).collect::<String>())?;
    Err(Failure::broken(format!("seed {seed}: {what}")))
}

fn summary(arguments: &Arguments, all: &Statistics) -> String {
    let Arguments { seed, seeds, nodes, users, replicas, faults, .. } = arguments;
    let last = seed.saturating_add(seeds - 1);
    format!(
        "site: seeds {seed} to {last}, {nodes} nodes, {users} users, {replicas} replicas, faults: \
         {}\n  \
         moves         {} made, {} given up, {} users owned anew\n  \
         leaders       {}, at most {:.1} s from the last fault until all was well\n  \
         upgrades      {} of nodes\n  \
         answers       {} checked\n  \
         etcd          {} transactions, {} octets written\n  \
         faults        {} deaths of replicas, {} of nodes, {} standstills, {} cuts, {} of etcd\n",
        faults.join(", "),
        all.moves[0],
        all.moves[1],
        all.adopted,
        all.leaders,
        all.longest as f64 / 1e6,
        all.upgrades,
        all.answers,
        all.transactions,
        all.octets,
        all.deaths[0],
        all.deaths[1],
        all.standstills,
        all.cuts,
        all.etcd_faults,
    )
}
