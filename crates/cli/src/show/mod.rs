//! `weft show`: what a running node does.

mod drops;
mod peers;
mod ports;
mod runtime;
mod users;

use clap::Subcommand;
use weft_management_api::client::Client;
use weft_node::show::Snapshot;

use crate::failure::Failure;
use crate::output;
use crate::target::Target;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    target: Target,
    /// Print JSON, for programs
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum What {
    /// Packets, bursts and cycles, by worker, stage and function
    Runtime,
    /// Users, or one user with what its contexts hold
    Users(users::Arguments),
    /// The ways of packets through the rules
    Paths,
    /// Functions that are fused: their micro-operations and machine code
    Fused,
    /// What was dropped, by reason
    Drops,
    /// Ports, their links and counters
    Ports,
    /// GTP-U peers: whether they answer, and the messages between them and the node
    Peers,
    /// What bearers and peers tell, as it happens: one JSON object on each line
    Events,
}

/// Shows it.
///
/// # Errors
/// When no node answers.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let client = arguments.target.client()?;
    let json = arguments.json;
    let show = |table: fn(&Snapshot) -> String| {
        let snapshot: Snapshot = client.get("/v1/snapshot")?;
        if json { as_json(&snapshot) } else { output::print(&table(&snapshot)) }
    };
    match arguments.what {
        What::Runtime => show(runtime::text),
        What::Drops => show(drops::text),
        What::Ports => show(ports::text),
        What::Paths => {
            let paths = client.text("/v1/paths")?;
            if json { as_json(&paths) } else { output::print(&paths) }
        }
        What::Peers => peers::run(&client, json),
        What::Fused => {
            let fused = client.text("/v1/fused")?;
            if json { as_json(&fused) } else { output::print(&fused) }
        }
        What::Events => events(&client),
        What::Users(arguments) => users::run(&arguments, &client, json),
    }
}

/// Prints what bearers tell until the node stops or nobody reads any more.
fn events(client: &Client) -> Result<(), Failure> {
    let mut unread = Ok(());
    client.stream("/v1/events", &(), |piece| {
        unread = output::write(piece);
        unread.is_ok()
    })?;
    unread
}

fn as_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(Failure::broken)?;
    output::line(&text)
}

/// All tables, as a node prints them at its end.
pub fn statistics(snapshot: &Snapshot) -> String {
    let mut text = ports::text(snapshot);
    if !snapshot.functions.is_empty() {
        text.push('\n');
        text.push_str(&runtime::functions(snapshot));
    }
    text.push('\n');
    text.push_str(&drops::text(snapshot));
    text
}

/// One number divided by another, with one decimal; `-` for nothing.
fn ratio(number: u64, of: u64) -> String {
    match of {
        0 => "-".to_owned(),
        _ => format!("{:.1}", number as f64 / of as f64),
    }
}
