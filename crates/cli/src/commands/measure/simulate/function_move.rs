//! `weft simulate function-move`: functions move between two nodes under faults.

use weft_mobility_simulator::function_moves::{
    Faults, Outcome, Scenario, Statistics, run as run_seed,
};

use super::at_least;
use super::seeds::{Ran, Seeds, faults};
use crate::failure::Failure;
use crate::output;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    seeds: Seeds,
    /// Orders that are given in each run
    #[arg(long, default_value_t = 20, value_parser = at_least(1))]
    orders: u64,
    /// Users whose packets the function counts
    #[arg(long, default_value_t = 7, value_parser = at_least(1))]
    users: u64,
    /// What can go wrong: all, none, or some of messages, deaths, failures
    #[arg(long, value_delimiter = ',', default_value = "all")]
    faults: Vec<String>,
}

/// Runs the seeds and prints what happened.
///
/// # Errors
/// A fault that there is not is refused; a broken promise is a failure.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { orders, users, .. } = *arguments;
    let faults = faults(&arguments.faults, Faults::NAMES, Faults::add)?;
    let scenario = Scenario { users, orders, faults, ..Scenario::default() };
    let run = |seed, log| {
        let Outcome { statistics, violation, log } = run_seed(&Scenario { log, ..scenario }, seed);
        Ran { statistics, violation: violation.map(|broken| broken.to_string()), log }
    };
    let (all, simulated) = arguments.seeds.run(run, |all| (all.events, all.time))?;
    output::print(&(summary(arguments, &all) + &simulated))
}

fn summary(arguments: &Arguments, all: &Statistics) -> String {
    let Arguments { seeds, users, faults, .. } = arguments;
    format!(
        "function-move: {}, {users} users, faults: {}\n  \
         moves         {} made, {} given up, {} joined\n  \
         messages      {} sent, {} lost, {} doubled\n  \
         packets       {} sent, {} arrived, {} lost with a node, {} waited\n  \
         faults        {} deaths of nodes, {} of commands\n",
        seeds.range(),
        faults.join(", "),
        all.moves,
        all.failed,
        all.joined,
        all.messages,
        all.messages_lost,
        all.messages_doubled,
        all.packets,
        all.delivered,
        all.lost,
        all.held,
        all.deaths,
        all.command_deaths,
    )
}
