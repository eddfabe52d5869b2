//! `weft ctl drain`, `cordon` and `uncordon`: nodes that are to have no users, or no more.

use std::thread;
use std::time::{Duration, Instant};

use weft_http::client::Client;
use weft_mobility_controller::api::{DrainOrder, Handover, Node, Pair};
use weft_mobility_controller::n4::N4View;
use weft_mobility_controller::shares::ShareView;

use super::controller::ControllerAddress;
use super::escaped;
use super::handover::{follow, unmoved};
use super::switch_over;
use crate::failure::Failure;
use crate::number::counted;
use crate::output;

/// How often the controller is asked where a share is.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a share may take to move: longer than the controller waits for it.
const PATIENCE: Duration = Duration::from_secs(210);

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

/// Hands all users of a node over to others, and waits for the end: users that move, users of a pair,
/// or PFCP sessions behind N4.
///
/// # Errors
/// When no other node can take them (exit code 2), or not all of them have left.
pub fn drain(arguments: &DrainArguments) -> Result<(), Failure> {
    let client = arguments.target.client()?;
    let DrainArguments { node, until_restart, target } = arguments;
    let pairs: Vec<Pair> = client.get("/v1/pairs")?;
    if pairs.iter().any(|pair| pair.owner == *node) {
        return switch_over::run(&switch_over::Arguments::of(target, node));
    }
    let shares: Vec<ShareView> = client.get("/v1/shares")?;
    match shares.iter().any(|share| share.holder == *node) {
        true => move_share(&client, node),
        false => drain_users(&client, node, until_restart),
    }
}

/// The node's share of N4 goes to a spare node.
fn move_share(client: &Client, node: &str) -> Result<(), Failure> {
    let view: N4View = client.get("/v1/n4")?;
    let begin = Instant::now();
    let shares: Vec<ShareView> =
        client.post(&format!("/v1/shares/{}/move", escaped(node)), String::new())?;
    let moved = shares.iter().find(|share| share.holder == *node && share.moves_to.is_some());
    let number = moved.map_or(0, |share| share.number);
    let sessions = view.nodes.iter().find(|one| one.number == number).map_or(0, |one| one.sessions);
    while begin.elapsed() < PATIENCE {
        // A controller that takes the place of one that has ended goes on with it.
        let now = client.get::<Vec<ShareView>>("/v1/shares").unwrap_or_default();
        let share = now.into_iter().find(|share| share.number == number);
        match share.filter(|share| share.moves_to.is_none()) {
            Some(share) if share.holder != *node => {
                let seconds = begin.elapsed().as_secs_f64();
                let sessions = counted(sessions.into(), "session");
                let dropped = dropped(share.dropped.into());
                return output::line(&format!(
                    "{sessions} of {node} went to {} in {seconds:.3} s{dropped}; {node} relays \
                     what still comes, and ends",
                    share.holder
                ));
            }
            Some(share) => {
                let why = share.failed.unwrap_or_else(|| "the controller does not say why".into());
                return Err(Failure::broken(format!("the sessions of {node} stay there: {why}")));
            }
            None => thread::sleep(PAUSE),
        }
    }
    let seconds = PATIENCE.as_secs();
    Err(Failure::broken(format!(
        "the sessions of {node} have not moved within {seconds} s; the log of the controller says \
         why"
    )))
}

/// What is said of packets that waited at the node before and went to none; nothing of no packet.
pub(super) fn dropped(packets: u64) -> String {
    match packets {
        0 => String::new(),
        _ => format!(
            "; {} that waited for idle bearers or functions {} dropped (`taken_over`)",
            counted(packets, "packet"),
            if packets == 1 { "was" } else { "were" }
        ),
    }
}

fn drain_users(client: &Client, node: &str, until_restart: &bool) -> Result<(), Failure> {
    let order = serde_json::to_string(&DrainOrder { until_restart: *until_restart });
    let order = order.map_err(Failure::broken)?;
    let begin = Instant::now();
    let path = format!("/v1/nodes/{}/drain", escaped(node));
    let orders: Vec<Handover> = client.post(&path, order)?;
    let (mut moved, mut to) = (0, Vec::new());
    for mut handover in orders {
        while !handover.finished {
            handover = follow(client, handover.id)?;
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
