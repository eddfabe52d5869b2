//! `weft simulate function-move`: functions move between two nodes under faults.

use std::fmt::Write;
use std::time::Instant;

use weft_mobility_simulator::function_moves::{Scenario, Statistics, run as run_seed};

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
    /// Orders that are given in each run
    #[arg(long, default_value_t = 20, value_parser = at_least(1))]
    orders: u64,
    /// Users whose packets the function counts
    #[arg(long, default_value_t = 7, value_parser = at_least(1))]
    users: u64,
    /// What can go wrong: all, none, or some of messages, deaths, failures
    #[arg(long, value_delimiter = ',', default_value = "all")]
    faults: Vec<String>,
    /// Lines of the log that are printed when a promise is broken
    #[arg(long, value_name = "LINES", default_value_t = 200)]
    log: usize,
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
            let log = run_seed(&Scenario { log: arguments.log, ..scenario }, seed).log;
            output::print(&log.iter().map(|line| format!("{line}\n")).collect::<String>())?;
            return Err(Failure::broken(format!("seed {seed}: {violation}")));
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
    output::print(&text)
}

fn scenario(arguments: &Arguments) -> Result<Scenario, Failure> {
    let Arguments { orders, users, .. } = *arguments;
    let mut scenario = Scenario {
        users,
        orders,
        messages: false,
        deaths: false,
        failures: false,
        ..Scenario::default()
    };
    for name in &arguments.faults {
        match name.as_str() {
            "all" => {
                (scenario.messages, scenario.deaths, scenario.failures) = (true, true, true);
            }
            "none" => {}
            "messages" => scenario.messages = true,
            "deaths" => scenario.deaths = true,
            "failures" => scenario.failures = true,
            _ => {
                return Err(Failure::input(format!(
                    "--faults: there is no fault '{name}'; there are all, none, messages, deaths, \
                     failures"
                )));
            }
        }
    }
    Ok(scenario)
}

fn summary(arguments: &Arguments, all: &Statistics) -> String {
    let Arguments { seed, seeds, users, faults, .. } = arguments;
    let last = seed.saturating_add(seeds - 1);
    format!(
        "function-move: seeds {seed} to {last}, {users} users, faults: {}\n  \
         moves         {} made, {} given up, {} joined\n  \
         messages      {} sent, {} lost, {} doubled\n  \
         packets       {} sent, {} arrived, {} lost with a node, {} waited\n  \
         faults        {} deaths of nodes, {} of commands\n",
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
