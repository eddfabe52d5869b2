//! How long a gateway takes to have many bearers: from its file, and by commands, one by one
//! and in batches, as control planes and other gateways have it.

use std::time::{Duration, Instant};

use weft_functions::KINDS;
use weft_node::Node;
use weft_node_config as config;

use crate::experiments::sgw::sessions::{Sessions, document};
use crate::experiments::users::resident;
use weft_rig::{Devices, Failure, Gateway, Rig, Setup};

/// Commands that are given at once, where that is what is measured.
const BATCH: usize = 1000;
/// Commands that the worker may be behind before it has a turn.
const BEHIND: u64 = 1000;
/// How long the worker may take for what it was given.
const PATIENCE: Duration = Duration::from_secs(60);

/// What so many bearers take.
pub(super) struct Installed {
    /// Seconds by commands in batches.
    pub in_batches: f64,
    /// Seconds by commands one by one.
    pub one_by_one: f64,
    /// Seconds from the node's file, beyond those of a node with a single bearer.
    pub from_file: f64,
    /// Bytes of memory that this process then has in use in all.
    pub memory_bytes: f64,
}

/// Measures all three.
///
/// # Errors
/// When a node cannot be built, or refuses a command.
pub(super) fn install(rig: &Rig, bearers: u32) -> Result<Installed, Failure> {
    // That of the file goes first: memory is told of a process that had no other node.
    let (from_file, memory_bytes) = from_file(rig, bearers)?;
    let in_batches = by_commands(rig, bearers, BATCH)?;
    let one_by_one = by_commands(rig, bearers, 1)?;
    Ok(Installed { in_batches, one_by_one, from_file, memory_bytes })
}

/// Seconds until the worker of a node has so many bearers, given in batches of so many
/// commands. Agent and worker have the same core in turn.
fn by_commands(rig: &Rig, bearers: u32, batch: usize) -> Result<f64, Failure> {
    let blueprint = config::read(&document(&devices(rig), 1, bearers).to_string(), "bench", KINDS);
    let mut node = Node::build(rig.eal, blueprint.map_err(|error| error.to_string())?)?;
    let mut sessions = Sessions::new(node.agent(), bearers, batch)?;
    while node.step() {}
    let (start, mut given) = (Instant::now(), 0);
    while sessions.establish_some(node.agent())? {
        given += batch as u64;
        if given >= BEHIND {
            given = 0;
            settle(&mut node)?;
        }
    }
    settle(&mut node)?;
    Ok(start.elapsed().as_secs_f64())
}

/// Lets the worker take what it was given.
fn settle(node: &mut Node) -> Result<(), Failure> {
    let since = Instant::now();
    while !node.agent().is_settled() {
        node.step();
        if since.elapsed() > PATIENCE {
            return Err("the worker did not take all bearers".into());
        }
    }
    Ok(())
}

/// Seconds in which a node with so many bearers is there, more than one with a
/// single one, and the bytes of memory that this process then has in use in all.
fn from_file(rig: &Rig, bearers: u32) -> Result<(f64, f64), Failure> {
    let build = |bearers| {
        let [access, core] = devices(rig);
        let devices = Devices { access: vec![access], core, descriptors: 1024 };
        let start = Instant::now();
        let node = Setup::gateway(Gateway::Relay, bearers, Vec::new()).build(rig, &devices)?;
        Ok::<_, Failure>((node, start.elapsed().as_secs_f64()))
    };
    let (single, alone) = build(1)?;
    drop(single);
    let (_node, seconds) = build(bearers)?;
    Ok(((seconds - alone).max(0.0), resident()? as f64))
}

fn devices(rig: &Rig) -> [String; 2] {
    [0, 1].map(|_| format!("net_null{},no-rx=1", rig.serial()))
}
