//! `weft upgrade site`: the nodes of a site come to run the program that is installed at them.

use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use weft_http::client::Client;
use weft_mobility_controller::api::upgrade::{NodeState, UpgradeOrder, UpgradeState};
use weft_site::upgrade::{Method, NodePhase, Phase};

use super::ctl::controller::ControllerAddress;
use crate::failure::Failure;
use crate::number::counted;
use crate::output;
use crate::table::Table;

/// How often it is looked how far it is.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    target: ControllerAddress,
    /// `site`: the nodes of the site, one after another, under traffic
    #[arg(value_name = "WHAT")]
    what: Upgradable,
    /// How a node is upgraded
    #[arg(long, value_name = "METHOD", default_value = "in-place", conflicts_with = "cancel")]
    method: How,
    /// Only these nodes, in the order of the site
    #[arg(long = "node", value_name = "NAME", conflicts_with = "cancel")]
    nodes: Vec<String>,
    /// Wait until all of them are upgraded
    #[arg(long, conflicts_with = "cancel")]
    wait: bool,
    /// Begin no further node: the one in progress is brought to its end
    #[arg(long)]
    cancel: bool,
    /// Seconds after which waiting is given up; the upgrade goes on
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, requires = "wait")]
    timeout: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Upgradable {
    /// All its nodes
    Site,
}

#[derive(Clone, Copy, ValueEnum)]
enum How {
    /// Another process takes the node over, with its users, as `weft ctl upgrade` does it
    InPlace,
    /// Users go to other stations, the process ends, and its service manager starts another one
    Drain,
}

/// Begins an upgrade, or ends the one that is under way.
///
/// # Errors
/// Why it does not begin (exit code 2); with `--wait`, what [`wait`] says.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let client = arguments.target.client()?;
    let Upgradable::Site = arguments.what;
    if arguments.cancel {
        client.delete("/v1/upgrade")?;
        return output::line("no further node is upgraded");
    }
    let method = match arguments.method {
        How::InPlace => Method::InPlace,
        How::Drain => Method::Drain,
    };
    let order = UpgradeOrder { method, nodes: arguments.nodes };
    // Texts: there is nothing that JSON could not say.
    let order = serde_json::to_string(&order).map_err(Failure::broken)?;
    let state: UpgradeState = client.post("/v1/upgrade", order)?;
    for node in state.nodes.iter().filter(|node| node.phase == NodePhase::Skipped) {
        output::line(&format!("{} is skipped: {}", node.node, node.reason))?;
    }
    let meant = state.nodes.iter().filter(|node| node.phase != NodePhase::Skipped).count();
    output::line(&format!("{} to be upgraded, one after another", counted(meant as u64, "node")))?;
    match arguments.wait {
        true => wait(&client, Duration::from_secs(arguments.timeout)),
        false => Ok(()),
    }
}

/// Shows how far the upgrade is.
///
/// # Errors
/// When the output is closed.
pub fn show(state: &UpgradeState) -> Result<(), Failure> {
    if state.number == 0 {
        return output::line("no upgrade");
    }
    let phase = match (state.phase, state.is_cancelled) {
        (Phase::Running, true) => "ending".to_owned(),
        (phase, _) => name(phase),
    };
    let reason =
        if state.reason.is_empty() { String::new() } else { format!(": {}", state.reason) };
    output::line(&format!("the upgrade ({}) is {phase}{reason}", name(state.method)))?;
    let mut table = Table::new(&["node", "state", "version", ""], 4);
    for node in &state.nodes {
        table.row([node.node.clone(), of_node(node), versions(node), node.reason.clone()]);
    }
    if table.is_empty() { Ok(()) } else { output::print(&table.text()) }
}

fn of_node(node: &NodeState) -> String {
    match (node.phase, &node.doing) {
        (NodePhase::InProgress, Some(doing)) => format!("in progress ({doing})"),
        (phase, _) => name(phase),
    }
}

fn versions(node: &NodeState) -> String {
    let after = if node.after.is_empty() { String::new() } else { format!(" to {}", node.after) };
    format!("{}{after}", node.before)
}

/// What a value is called in JSON.
fn name(value: impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// Waits until the upgrade is complete.
///
/// # Errors
/// When it fails, is cancelled, or takes too long (exit code 1); when there is none.
pub fn wait(client: &Client, patience: Duration) -> Result<(), Failure> {
    let since = Instant::now();
    loop {
        let state: UpgradeState = client.get("/v1/upgrade")?;
        let done = state.nodes.iter().filter(|node| node.phase == NodePhase::Done).count();
        let done = counted(done as u64, "node");
        match state.phase {
            _ if state.number == 0 => return Err(Failure::input("there was no upgrade")),
            Phase::Complete => return output::line(&format!("{done} upgraded")),
            Phase::Failed => {
                let said = format!("{done} upgraded, and no further: {}", state.reason);
                return Err(Failure::broken(said));
            }
            Phase::Cancelled => {
                return Err(Failure::broken(format!("{done} upgraded; it was cancelled")));
            }
            Phase::Running if since.elapsed() > patience => {
                return Err(Failure::broken(format!("{done} upgraded after {patience:?}")));
            }
            Phase::Running => thread::sleep(PAUSE),
        }
    }
}
