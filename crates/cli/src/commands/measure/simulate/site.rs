//! `weft simulate site`: the controllers of a site on etcd under faults.

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
/// A fault that there is not is refused; a broken promise is a failure.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
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

fn summary(arguments: &Arguments, all: &Statistics) -> String {
    let Arguments { seeds, nodes, users, replicas, faults, .. } = arguments;
    format!(
        "site: {}, {nodes} nodes, {users} users, {replicas} replicas, faults: \
         {}\n  \
         moves         {} made, {} given up, {} users owned anew\n  \
         leaders       {}, at most {:.1} s from the last fault until all was well\n  \
         upgrades      {} of nodes\n  \
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
