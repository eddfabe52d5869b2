//! `weft simulate`: protocols under faults, in virtual time.

mod function_move;
mod site;

use std::fmt::Write;
use std::time::Instant;

use weft_mobility_simulator::{
    Faults, Mutation, Promise, Scenario, Statistics, Violation, run as run_seed,
};

use crate::failure::Failure;
use crate::number::counted;
use crate::output;

#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct Arguments {
    #[command(subcommand)]
    what: Protocol,
}

#[derive(clap::Subcommand)]
enum Protocol {
    /// Users move between stations while messages are lost, nodes die and the
    /// network is cut; every promise of the protocol is checked
    Handover(Handover),
    /// A function moves between two nodes while messages are lost, nodes and
    /// commands die, and parts of a node fail; every promise is checked
    FunctionMove(function_move::Arguments),
    /// Replicas of the controller lead a site on etcd while they die, stand still and are cut
    /// off, nodes die, and etcd fails; every promise is checked
    Site(site::Arguments),
}

#[derive(clap::Args)]
struct Handover {
    /// The seed; the same one gives the same run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// So many seeds, from the first on; ends at the first that breaks a promise
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = at_least(1))]
    seeds: u64,
    /// Moves that are completed in each run
    #[arg(long, default_value_t = 20, value_parser = at_least(1))]
    moves: u64,
    /// Users
    #[arg(long, default_value_t = 6, value_parser = at_least(1))]
    users: u64,
    /// Stations, from 2
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=999))]
    stations: u32,
    /// Anchors
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=999))]
    anchors: u32,
    /// Mean time between two packets of a user in one direction, in microseconds
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 2_000, value_parser = at_least(1))]
    packet_gap: u64,
    /// Mean time between two orders to the controller, in microseconds
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 4_000, value_parser = at_least(1))]
    order_gap: u64,
    /// Packets that one gate holds
    #[arg(long, value_name = "PACKETS", default_value_t = 4_096)]
    gate: usize,
    /// What can go wrong: all, none, or some of messages, deaths, cuts, radio, contexts
    #[arg(long, value_delimiter = ',', default_value = "all")]
    faults: Vec<String>,
    /// Links of packets keep no order: then order and losses are not checked
    #[arg(long)]
    disorder: bool,
    /// Build something wrong on purpose, to see that a promise breaks
    #[arg(long, value_name = "WHAT", value_parser = mutation)]
    mutate: Option<Mutation>,
    /// Lines of the log that are printed when a promise is broken
    #[arg(long, value_name = "LINES", default_value_t = 200)]
    log: usize,
}

fn at_least(least: u64) -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(least..)
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
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let arguments = match arguments.what {
        Protocol::Handover(arguments) => arguments,
        Protocol::FunctionMove(arguments) => return function_move::run(&arguments),
        Protocol::Site(arguments) => return site::run(&arguments),
    };
    let scenario = scenario(&arguments)?;
    let (mut all, start) = (Statistics::default(), Instant::now());
    for seed in (arguments.seed..).take(usize::try_from(arguments.seeds).unwrap_or(usize::MAX)) {
        let outcome = run_seed(&scenario, seed);
        if let Some(violation) = outcome.violation {
            return broken(&scenario, seed, &violation, arguments.log);
        }
        all += &outcome.statistics;
    }
    let mut text = summary(&arguments, &all);
    let _ = writeln!(
        text,
        "  simulated     {} events in {:.1} s, {:.1} s of virtual time",
        all.events,
        start.elapsed().as_secs_f64(),
        all.time as f64 / 1e6
    );
    let kept: Vec<String> = Promise::ALL.iter().map(ToString::to_string).collect();
    let _ = writeln!(text, "kept: {}", kept.join(", "));
    output::print(&text)
}

fn scenario(arguments: &Handover) -> Result<Scenario, Failure> {
    let mut faults = Faults::default();
    for name in &arguments.faults {
        if !faults.add(name) {
            let known = Faults::NAMES.join(", ");
            return Err(Failure::input(format!(
                "--faults: there is no fault '{name}'; there are all, none, {known}"
            )));
        }
    }
    let mut scenario = Scenario {
        stations: arguments.stations,
        anchors: arguments.anchors,
        users: arguments.users,
        moves: arguments.moves,
        packet_gap: arguments.packet_gap,
        order_gap: arguments.order_gap,
        faults,
        disorder: arguments.disorder,
        mutation: arguments.mutate,
        ..Scenario::default()
    };
    scenario.gate.packets = arguments.gate;
    Ok(scenario)
}

/// Runs the seed once more, with its log.
fn broken(scenario: &Scenario, seed: u64, what: &Violation, log: usize) -> Result<(), Failure> {
    // The log holds other users' lines, too, which are left out.
    let lines = log.saturating_mul(scenario.users as usize + 1);
    let outcome = run_seed(&Scenario { log: lines, ..*scenario }, seed);
    let from = outcome.log.len().saturating_sub(log);
    let mut text = String::new();
    for line in &outcome.log[from..] {
        let _ = writeln!(text, "{line}");
    }
    output::print(&text)?;
    Err(Failure::broken(format!("seed {seed}: {what}")))
}

fn summary(arguments: &Handover, all: &Statistics) -> String {
    let Handover { seed, seeds, stations, anchors, users, faults, .. } = arguments;
    let last = seed.saturating_add(seeds - 1);
    let of = |counts: &std::collections::BTreeMap<&'static str, u64>| {
        let words = counts.iter().map(|(name, count)| format!("{name} {count}"));
        words.collect::<Vec<_>>().join(", ")
    };
    let lost = match all.lost_in_all() {
        0 => "0 lost".to_owned(),
        count => format!("{count} lost ({})", of(&all.lost)),
    };
    format!(
        "handover: seeds {seed} to {last}, {}, {}, {}, \
         faults: {}\n  \
         moves         {} made, {} given up, {} refused\n  \
         users         {} owned anew, {} removed\n  \
         messages      {} sent, {} lost, {} doubled\n  \
         packets       {} sent, {} arrived, {lost}\n  \
         gates         {} waited, at most {} at one node\n  \
         faults        {} deaths, {} cuts\n  \
         counted       {}\n",
        counted((*stations).into(), "station"),
        counted((*anchors).into(), "anchor"),
        counted(*users, "user"),
        faults.join(", "),
        all.moves,
        all.aborted,
        all.refused,
        all.adopted,
        all.removed,
        all.messages,
        all.messages_lost,
        all.messages_doubled,
        all.packets,
        all.delivered,
        all.held,
        all.held_most,
        all.deaths,
        all.cuts,
        of(&all.counters),
    )
}
