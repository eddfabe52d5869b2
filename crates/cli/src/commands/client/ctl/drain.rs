//! `weft ctl drain`, `cordon` and `uncordon`: nodes that are to have no users, or no more.

use std::time::Instant;

use weft_mobility_controller::api::{DrainOrder, Handover, Node};

use super::controller::ControllerAddress;
use super::escaped;
use super::handover::{follow, unmoved};
use crate::failure::Failure;
use crate::number::counted;
use crate::output;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: ControllerAddress,
    /// The node
    #[arg(value_name = "NODE")]
    node: String,
}

#[derive(clap::Args)]
pub struct DrainArguments {
    #[command(flatten)]
    target: ControllerAddress,
    /// The node
    #[arg(value_name = "NODE", env = "WEFT_NODE")]
    node: String,
    /// Lets the node take users again once it has started anew, unless it was cordoned before
    #[arg(long)]
    until_restart: bool,
}

/// Hands all users of a node over to others, and waits for the end.
///
/// # Errors
/// When no other node can take them (exit code 2), or not all of them have left.
pub fn drain(arguments: &DrainArguments) -> Result<(), Failure> {
    let client = arguments.target.client()?;
    let DrainArguments { node, until_restart, .. } = arguments;
    let order = serde_json::to_string(&DrainOrder { until_restart: *until_restart });
    let order = order.map_err(Failure::broken)?;
    let begin = Instant::now();
    let path = format!("/v1/nodes/{}/drain", escaped(node));
    let orders: Vec<Handover> = client.post(&path, order)?;
    let (mut moved, mut to) = (0, Vec::new());
    for mut handover in orders {
        while !handover.finished {
            handover = follow(&client, handover.id)?;
        }
        if let Some(reason) = unmoved(&handover) {
            return Err(Failure::broken(reason));
        }
        moved += handover.moved as u64;
        to.push(format!("{} to {}", handover.moved, handover.to));
    }
    let seconds = begin.elapsed().as_secs_f64();
    let shares = if to.is_empty() { String::new() } else { format!(": {}", to.join(", ")) };
    let users = counted(moved, "user");
    let until = if *until_restart { " until it has started again" } else { "" };
    output::line(&format!(
        "{users} left {node} in {seconds:.3} s{shares}; it takes no further ones{until}"
    ))
}

/// Lets a node take no further users.
///
/// # Errors
/// When there is no such node, or no controller.
pub fn cordon(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { node, .. } = arguments;
    let path = format!("/v1/nodes/{}/cordon", escaped(node));
    let _: Vec<Node> = arguments.target.client()?.put(&path, String::new())?;
    output::line(&format!("{node} takes no further users"))
}

/// Lets a node take users again.
///
/// # Errors
/// As [`cordon`].
pub fn uncordon(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { node, .. } = arguments;
    let path = format!("/v1/nodes/{}/cordon", escaped(node));
    arguments.target.client()?.delete(&path)?;
    output::line(&format!("{node} takes users again"))
}
