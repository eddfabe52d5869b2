//! `weft simulate`: protocols under faults, in virtual time.

mod function_move;
mod seeds;
mod site;

use weft_mobility_simulator::{
    Faults, Mutation, Outcome, Promise, Scenario, Statistics, run as run_seed,
};

use self::seeds::{Ran, Seeds};
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
    #[command(flatten)]
    seeds: Seeds,
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
}

fn at_least(least: u64) -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(least..)
}

fn mutation(name: &str) -> Result<Mutation, String> {
    seeds::mutation(&Mutation::ALL, Mutation::name, name)
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
    let run = |seed, log: usize| {
        // The log holds other users' lines, too, which are left out.
        let log = log.saturating_mul(scenario.users as usize + 1);
        let Outcome { statistics, violation, log } = run_seed(&Scenario { log, ..scenario }, seed);
        Ran { statistics, violation: violation.map(|broken| broken.to_string()), log }
    };
    let (all, simulated) = arguments.seeds.run(run, |all| (all.events, all.time))?;
    output::print(&(summary(&arguments, &all) + &simulated + &seeds::kept(&Promise::ALL)))
}

fn scenario(arguments: &Handover) -> Result<Scenario, Failure> {
    let mut scenario = Scenario {
        stations: arguments.stations,
        anchors: arguments.anchors,
        users: arguments.users,
        moves: arguments.moves,
        packet_gap: arguments.packet_gap,
        order_gap: arguments.order_gap,
        faults: seeds::faults(&arguments.faults, Faults::NAMES, Faults::add)?,
        disorder: arguments.disorder,
        mutation: arguments.mutate,
        ..Scenario::default()
    };
    scenario.gate.packets = arguments.gate;
    Ok(scenario)
}

fn summary(arguments: &Handover, all: &Statistics) -> String {
    let Handover { seeds, stations, anchors, users, faults, .. } = arguments;
    let of = |counts: &std::collections::BTreeMap<&'static str, u64>| {
        let words = counts.iter().map(|(name, count)| format!("{name} {count}"));
        words.collect::<Vec<_>>().join(", ")
    };
    let lost = match all.lost_in_all() {
        0 => "0 lost".to_owned(),
        count => format!("{count} lost ({})", of(&all.lost)),
    };
    format!(
        "handover: {}, {}, {}, {}, \
         faults: {}\n  \
         moves         {} made, {} given up, {} refused\n  \
         users         {} owned anew, {} removed\n  \
         messages      {} sent, {} lost, {} doubled\n  \
         packets       {} sent, {} arrived, {lost}\n  \
         gates         {} waited, at most {} at one node\n  \
         faults        {} deaths, {} cuts\n  \
         counted       {}\n",
        seeds.range(),
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
