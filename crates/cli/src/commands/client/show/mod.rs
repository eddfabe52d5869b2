//! `weft show`: what a running node does.

mod bgp;
mod drops;
mod peers;
mod ports;
mod runtime;
mod sessions;
mod standby;
mod state;
mod users;

use std::io::{self, IsTerminal};
use std::thread;
use std::time::Duration;

use clap::Subcommand;
use weft_management_api::client::Client;
use weft_node::show::Snapshot;

use crate::commands::client::target::Target;
use crate::failure::Failure;
use crate::output;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: View,
    #[command(flatten)]
    target: Target,
    /// Print JSON, for programs
    #[arg(long, global = true)]
    json: bool,
    /// Show it again and again, with so many seconds between, or one; with --json, one JSON
    /// object on each line
    #[arg(
        long,
        global = true,
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1",
        value_parser = seconds
    )]
    watch: Option<Duration>,
}

/// How it is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Json,
    /// JSON in one line.
    JsonLine,
}

/// Clears a terminal and goes to its upper left corner (ECMA-48: ED, CUP).
const CLEAR: &str = "\x1b[2J\x1b[H";

#[derive(Subcommand)]
enum View {
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
    Ports(ports::Arguments),
    /// GTP-U peers: whether they answer, and the messages between them and the node
    Peers,
    /// What the node keeps on its disk, and how far that is
    State,
    /// How far the standby of the node is
    Standby,
    /// Routers that are told of the networks of users by BGP
    Bgp,
    /// Control planes that drive the node by PFCP, and the messages between them and it
    Associations,
    /// Sessions of control planes
    Sessions(sessions::Arguments),
    /// What bearers and peers tell, as it happens: one JSON object on each line
    Events,
}

/// Shows it, once or again and again.
///
/// # Errors
/// When no node answers.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let client = arguments.target.client()?;
    let Some(pause) = arguments.watch else {
        let form = if arguments.json { Form::Json } else { Form::Text };
        return once(&arguments.what, &client, form);
    };
    if matches!(arguments.what, View::Events) {
        return Err(Failure::input(
            "`show events` tells what happens as it happens, without --watch",
        ));
    }
    let form = if arguments.json { Form::JsonLine } else { Form::Text };
    let between = match form {
        Form::Text if io::stdout().is_terminal() => CLEAR,
        Form::Text => "\n",
        Form::Json | Form::JsonLine => "",
    };
    let mut before = if between == CLEAR { CLEAR } else { "" };
    loop {
        output::print(before)?;
        once(&arguments.what, &client, form)?;
        before = between;
        thread::sleep(pause);
    }
}

fn once(what: &View, client: &Client, form: Form) -> Result<(), Failure> {
    let show = |table: fn(&Snapshot) -> String| {
        let snapshot: Snapshot = client.get("/v1/snapshot")?;
        print(&snapshot, form, table)
    };
    let text = |path: &str| print(&client.text(path)?, form, String::clone);
    match what {
        View::Runtime => show(runtime::text),
        View::Drops => show(drops::text),
        View::Ports(arguments) => ports::run(arguments, client, form),
        View::Paths => text("/v1/paths"),
        View::Fused => text("/v1/fused"),
        View::Peers => peers::run(client, form),
        View::State => state::run(client, form),
        View::Standby => standby::run(client, form),
        View::Bgp => bgp::run(client, form),
        View::Associations => sessions::associations(client, form),
        View::Sessions(arguments) => sessions::run(arguments, client, form),
        View::Events => events(client),
        View::Users(arguments) => users::run(arguments, client, form),
    }
}

/// Prints `value`, as `text` has it or as JSON.
fn print<T: serde::Serialize>(
    value: &T,
    form: Form,
    text: impl FnOnce(&T) -> String,
) -> Result<(), Failure> {
    let json = match form {
        Form::Text => return output::print(&text(value)),
        Form::Json => serde_json::to_string_pretty(value),
        Form::JsonLine => serde_json::to_string(value),
    };
    output::line(&json.map_err(Failure::broken)?)
}

/// The pause of `--watch`.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "a number from 0.1 to 3600 is needed".into())
}

/// Prints what bearers tell until the node stops or the reader closes the output.
fn events(client: &Client) -> Result<(), Failure> {
    let mut unread = Ok(());
    client.stream("/v1/events", &(), |piece| {
        unread = output::write(piece);
        unread.is_ok()
    })?;
    unread
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
