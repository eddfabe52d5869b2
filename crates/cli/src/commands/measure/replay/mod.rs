//! `weft replay`: captures through the data path of a node, in the time of the
//! captures. What comes out depends on what goes in and on nothing else.

mod counters;
mod drive;
mod input;
mod output;
mod wire;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use drive::Drive;
use input::Inputs;
use output::Output;
use weft_dpdk::Pool;
use weft_node::Node;
use weft_node_config::Blueprint;
use wire::Wire;

use crate::commands::client::show;
use crate::failure::Failure;
use crate::number::counted;
use crate::{environment, node_file, output as standard_output};

/// How long function processes may take to come.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(clap::Args)]
pub struct Arguments {
    /// Configuration of the node
    #[arg(value_name = "NODE.yaml")]
    file: PathBuf,
    /// Capture (pcap or pcapng) of what comes in at a port; may be repeated
    #[arg(long = "in", value_name = "PORT=FILE", required = true, value_parser = port_file)]
    inputs: Vec<PortFile>,
    /// Where to write what leaves at a port (.pcap or .pcapng); may be repeated
    #[arg(long = "out", value_name = "PORT=FILE", value_parser = port_file)]
    outputs: Vec<PortFile>,
    /// Write the counters to this file, as JSON
    #[arg(long, value_name = "FILE.json")]
    counters: Option<PathBuf>,
    /// Take as long as the captures did, instead of going as fast as it goes
    #[arg(long)]
    pace: bool,
}

/// A port, and the capture of what comes in or leaves there.
#[derive(Clone, Debug)]
struct PortFile {
    port: String,
    file: PathBuf,
}

fn port_file(text: &str) -> Result<PortFile, String> {
    match text.split_once('=') {
        Some((port, file)) if !port.is_empty() && !file.is_empty() => {
            Ok(PortFile { port: port.to_owned(), file: file.into() })
        }
        _ => Err("it is not PORT=FILE".to_owned()),
    }
}

/// Replays captures and prints what was counted.
///
/// # Errors
/// What is wrong with the configuration or a capture.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let mut blueprint = node_file::load(&arguments.file)?;
    node_file::warn(&blueprint.warnings);
    let inputs = arguments.inputs.iter().map(|one| Ok((port(&blueprint, one)?, &one.file)));
    let room = Pool::room_for(blueprint.greatest_mtu());
    let mut inputs = Inputs::open(inputs.collect::<Result<_, Failure>>()?, room)?;
    let outputs = outputs(&blueprint, &arguments.outputs)?;
    wire::attach_rings(&mut blueprint);

    // Packets of the captures lie in a pool of their own.
    let packets = blueprint.memory.packets;
    let eal = environment::start(&blueprint, packets)?;
    let _registration = eal.register_thread();
    let pool = Pool::for_mtu(eal, "replay", packets, blueprint.greatest_mtu())?;
    let wires = blueprint.devices().iter().zip(outputs);
    let wires: Vec<_> = wires
        .map(|(port, output)| Wire::open(eal, port, output, &pool))
        .collect::<Result<_, Failure>>()?;
    let clock = Arc::new(AtomicU64::new(0));
    let node = Node::build_timed(eal, blueprint, clock.clone())?;
    if let Some(function) = node.wait_for_functions(PATIENCE) {
        return Err(Failure::broken(format!("function {function} did not attach to its ring")));
    }
    let begun = Instant::now();
    let mut drive = Drive::new(node, clock, wires, pool, inputs.first_time(), arguments.pace);
    let mut packets = 0;
    while let Some((port, frame)) = inputs.next()? {
        drive.packet(port, &frame)?;
        packets += 1;
    }
    let snapshot = drive.end()?;
    let seconds = begun.elapsed().as_secs_f64();
    if let Some(file) = &arguments.counters {
        counters::write(&snapshot, file)?;
    }
    standard_output::print(&format!("{} in {seconds:.3} s\n\n", counted(packets, "packet")))?;
    standard_output::print(&show::statistics(&snapshot))
}

fn port(blueprint: &Blueprint, wanted: &PortFile) -> Result<usize, Failure> {
    let known = blueprint.devices().iter().map(|port| port.name.as_str());
    known.clone().position(|name| name == wanted.port).ok_or_else(|| {
        let known = known.collect::<Vec<_>>().join(", ");
        Failure::input(format!("the node has no port {} (ports are {known})", wanted.port))
    })
}

/// The outputs by port.
fn outputs(blueprint: &Blueprint, wanted: &[PortFile]) -> Result<Vec<Option<Output>>, Failure> {
    let mut outputs: Vec<Option<Output>> = blueprint.devices().iter().map(|_| None).collect();
    for one in wanted {
        let output = &mut outputs[port(blueprint, one)?];
        if output.is_some() {
            return Err(Failure::input(format!("--out names port {} twice", one.port)));
        }
        *output = Some(Output::create(&one.file, &one.port)?);
    }
    Ok(outputs)
}
