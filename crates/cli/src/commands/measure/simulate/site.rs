//! `weft simulate site`: the controllers of a site on etcd under faults.

use std::fmt::Display;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use weft_site_simulator::history::{self, Counted, Mistake};
use weft_site_simulator::{
    Faults, Mutation, Outcome, Promise, Scenario, Statistics, run as run_seed,
};

use super::at_least;
use super::seeds::{self, Ran, Seeds};
use crate::failure::Failure;
use crate::output;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    seeds: Seeds,
    /// Check the history that was recorded of a site that ran, and simulate nothing
    #[arg(long, value_name = "HISTORY", exclusive = true)]
    check: Option<PathBuf>,
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
}

fn mutation(name: &str) -> Result<Mutation, String> {
    seeds::mutation(&Mutation::ALL, Mutation::name, name)
}

/// Runs the seeds and prints what happened.
///
/// # Errors
/// A fault that there is not is refused, and so is what is no history; a broken promise is a
/// failure.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(path) = &arguments.check {
        return check(path);
    }
    let scenario = Scenario {
        nodes: arguments.nodes,
        users: arguments.users,
        replicas: arguments.replicas as usize,
        orders: arguments.orders,
        faults: seeds::faults(&arguments.faults, Faults::NAMES, Faults::add)?,
        mutation: arguments.mutate,
        log: 0,
    };
    let run = |seed, log| {
        let Outcome { statistics, violation, log } = run_seed(&Scenario { log, ..scenario }, seed);
        Ran { statistics, violation: violation.map(|broken| broken.to_string()), log }
    };
    let (all, simulated) = arguments.seeds.run(run, |all| (all.events, all.time))?;
    output::print(&(summary(arguments, &all) + &simulated + &seeds::kept(&Promise::ALL)))
}

/// Checks a history that was recorded.
fn check(path: &Path) -> Result<(), Failure> {
    let named = |what: &dyn Display| format!("{}: {what}", path.display());
    let file = File::open(path).map_err(|error| Failure::input(named(&error)))?;
    let counted = history::read(BufReader::new(file)).map_err(|mistake| match mistake {
        Mistake::Broken(_) => Failure::broken(named(&mistake)),
        _ => Failure::input(named(&mistake)),
    })?;
    let Counted { users, ownerships, changes, answers } = counted;
    let kept = seeds::kept(&[Promise::OneOwner, Promise::Linearizable]);
    output::print(&format!(
        "history: {users} users, {ownerships} ownerships by {changes} changes at nodes, {answers} answers\n{kept}"
    ))
}

fn summary(arguments: &Arguments, all: &Statistics) -> String {
    let Arguments { seeds, nodes, users, replicas, faults, .. } = arguments;
    format!(
        "site: {}, {nodes} nodes, {users} users, {replicas} replicas, faults: \
         {}\n  \
         moves         {} made, {} given up, {} users owned anew\n  \
         leaders       {}, at most {:.1} s from the last fault until all was well\n  \
         upgrades      {} of nodes\n  \
         documents     {} rolled out, {} that did harm\n  \
         users spread  {} times; a node of the pair granted its users {} times\n  \
         answers       {} checked\n  \
         etcd          {} transactions, {} octets written\n  \
         faults        {} deaths of replicas, {} of nodes, {} standstills, {} cuts, {} of etcd\n",
        seeds.range(),
        faults.join(", "),
        all.moves[0],
        all.moves[1],
        all.adopted,
        all.leaders,
        all.longest as f64 / 1e6,
        all.upgrades,
        all.revisions[0],
        all.revisions[1],
        all.spreads,
        all.grants,
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
