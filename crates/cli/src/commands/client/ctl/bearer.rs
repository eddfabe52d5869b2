//! `weft ctl bearer`: bearers that come and go while traffic runs.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use weft_management_api::client::Client;
use weft_node::bearer::{
    Action, BearerId, BearersChanged, DefaultBearer, Filter, WrittenBearer, WrittenChange,
    WrittenCommand, WrittenMatch,
};
use weft_node::show::{BearerView, ContextView};
use weft_yaml::mistake::Mistakes;
use weft_yaml::shape;

use crate::commands::client::target::Target;
use crate::failure::Failure;
use crate::output;
use crate::table::Table;

/// Commands that are sent at once: a batch is applied whole or not at all.
const BATCH: usize = 10_000;

#[derive(Subcommand)]
pub enum BearerAction {
    /// Add a bearer, or all bearers of a file
    Add(Box<Add>),
    /// Change what becomes of a bearer's packets, or its settings
    Change(Change),
    /// Remove bearers
    Remove(Remove),
    /// Apply a file of commands: add, change and remove, one JSON object a line
    Apply {
        #[command(flatten)]
        target: Target,
        /// The file; `-` is standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Show bearers that commands have added, or one with what its contexts hold
    Show(Show),
}

#[derive(clap::Args)]
pub struct Add {
    #[command(flatten)]
    target: Target,
    /// Number of the bearer
    #[arg(value_name = "ID", required_unless_present = "file")]
    id: Option<u64>,
    /// Add the bearers of this file instead: a list, if its name ends in .yaml or
    /// .yml, or else one JSON object a line; `-` is standard input
    #[arg(long, conflicts_with = "id")]
    file: Option<PathBuf>,
    /// Users of the configuration that its user is like
    #[arg(long, value_name = "USERS")]
    like: Option<String>,
    /// Number that its user moves by, among those that `handover.users` has for it
    #[arg(long, value_name = "NUMBER", requires = "like")]
    user: Option<u64>,
    /// For a dedicated bearer: the default bearer of its user, or a user of the
    /// configuration
    #[arg(long, value_name = "ID|USER", conflicts_with = "like")]
    of: Option<String>,
    /// Network instance of the addresses
    #[arg(long, value_name = "NAME")]
    network: Option<String>,
    /// IPv4 address of the user
    #[arg(long, value_name = "ADDRESS")]
    ipv4: Option<Ipv4Addr>,
    /// /64 prefix or IPv6 address of the user
    #[arg(long, value_name = "PREFIX")]
    ipv6: Option<String>,
    /// TEID of the user's tunnel, as 4096 or 0x1000
    #[arg(long, value_parser = teid)]
    teid: Option<u32>,
    /// Network instance of the TEID
    #[arg(long, value_name = "NAME")]
    teid_network: Option<String>,
    /// SPI of the user's IPsec tunnel, as 4096 or 0x1000
    #[arg(long, value_parser = spi)]
    spi: Option<u32>,
    /// Network instance of the SPI
    #[arg(long, value_name = "NAME")]
    spi_network: Option<String>,
    /// QoS flow identifier of a dedicated bearer
    #[arg(long)]
    qfi: Option<u8>,
    /// IP protocol number of a dedicated bearer's flows
    #[arg(long)]
    protocol: Option<u8>,
    /// Address at the other end of a dedicated bearer's flows
    #[arg(long, value_name = "ADDRESS")]
    remote: Option<IpAddr>,
    /// Port at the other end of a dedicated bearer's flows
    #[arg(long, value_name = "PORT")]
    remote_port: Option<u16>,
    /// Port at the user's end of a dedicated bearer's flows
    #[arg(long, value_name = "PORT")]
    user_port: Option<u16>,
    /// What becomes of its packets
    #[arg(long, default_value = "forward")]
    action: Act,
    /// Settings of a function: `police={"meter": …}`
    #[arg(long = "set", value_name = "FUNCTION=JSON", value_parser = setting)]
    settings: Vec<(String, Value)>,
}

#[derive(clap::Args)]
pub struct Change {
    #[command(flatten)]
    target: Target,
    /// Number of the bearer
    id: u64,
    /// What becomes of its packets from now on
    #[arg(long)]
    action: Option<Act>,
    /// Settings of a function: `police={"meter": …}`
    #[arg(long = "set", value_name = "FUNCTION=JSON", value_parser = setting)]
    settings: Vec<(String, Value)>,
    /// Send an End Marker into each tunnel that the settings replace, behind its
    /// last packet
    #[arg(long)]
    end_marker: bool,
}

#[derive(clap::Args)]
pub struct Remove {
    #[command(flatten)]
    target: Target,
    /// Numbers of the bearers
    #[arg(value_name = "ID", required_unless_present = "file")]
    ids: Vec<u64>,
    /// Remove the bearers of this file instead, one number a line; `-` is
    /// standard input
    #[arg(long, conflicts_with = "ids")]
    file: Option<PathBuf>,
}

#[derive(clap::Args)]
pub struct Show {
    #[command(flatten)]
    target: Target,
    /// The only bearer to show
    #[arg(conflicts_with_all = ["first", "count"])]
    id: Option<u64>,
    /// The lowest number to show
    #[arg(long, value_name = "ID", default_value_t = 0)]
    first: u64,
    /// Bearers to show
    #[arg(long, value_name = "N", default_value_t = 100)]
    count: usize,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Act {
    Forward,
    Drop,
    Buffer,
    Notify,
}

impl From<Act> for Action {
    fn from(act: Act) -> Action {
        match act {
            Act::Forward => Action::Forward,
            Act::Drop => Action::Drop,
            Act::Buffer => Action::Buffer,
            Act::Notify => Action::Notify,
        }
    }
}

/// Does it.
///
/// # Errors
/// What is wrong with the first command that is; then its batch has changed
/// nothing.
pub fn run(what: BearerAction) -> Result<(), Failure> {
    match what {
        BearerAction::Add(add) => {
            let target = add.target.clone();
            let commands = match &add.file {
                Some(file) if is_yaml(file) => list(file)?,
                Some(file) => lines(file)?.into_iter().map(WrittenCommand::Add).collect(),
                None => vec![WrittenCommand::Add(Box::new(bearer(*add)))],
            };
            send(&target, &commands)
        }
        BearerAction::Change(Change { target, id, action, settings, end_marker }) => {
            let (id, action) = (BearerId(id), action.map(Action::from));
            let functions = settings.into_iter().collect();
            let change = WrittenChange { id, action, functions, end_marker };
            send(&target, &[WrittenCommand::Change(change)])
        }
        BearerAction::Remove(Remove { target, ids, file }) => {
            let ids: Vec<BearerId> = match file {
                Some(file) => lines(&file)?,
                None => ids.into_iter().map(BearerId).collect(),
            };
            let commands: Vec<_> = ids.into_iter().map(WrittenCommand::Remove).collect();
            send(&target, &commands)
        }
        BearerAction::Apply { target, file } => send(&target, &lines::<WrittenCommand>(&file)?),
        BearerAction::Show(show) => shown(&show),
    }
}

fn bearer(add: Add) -> WrittenBearer {
    let Add { protocol, remote, remote_port, user_port, .. } = add;
    let flow = Filter { protocol, remote, remote_port, user_port };
    WrittenBearer {
        id: BearerId(add.id.unwrap_or_default()),
        like: add.like,
        nth: 0,
        user: add.user,
        of: add.of.map(default_bearer),
        r#match: WrittenMatch {
            network: add.network,
            ipv4: add.ipv4,
            ipv6: add.ipv6,
            teid: add.teid,
            teid_network: add.teid_network,
            spi: add.spi,
            spi_network: add.spi_network,
            qfi: add.qfi,
            flow: (flow != Filter::default()).then_some(flow),
        },
        action: add.action.into(),
        functions: add.settings.into_iter().collect::<BTreeMap<_, _>>(),
    }
}

fn default_bearer(of: String) -> DefaultBearer {
    match of.parse() {
        Ok(id) => DefaultBearer::Added(BearerId(id)),
        Err(_) => DefaultBearer::Configured(of.into()),
    }
}

/// Sends commands in batches, each applied whole or not at all.
fn send(target: &Target, commands: &[WrittenCommand]) -> Result<(), Failure> {
    let client = target.client()?;
    let mut sum = BearersChanged::default();
    for (number, batch) in commands.chunks(BATCH).enumerate() {
        let body = batch.iter().map(written).collect::<Result<String, _>>()?;
        let sent = client.post::<BearersChanged>("/v1/bearers", body);
        let changed = sent.map_err(|error| match number {
            0 => Failure::from(error),
            _ => Failure::broken(format!("{error}; {} commands before it hold", number * BATCH)),
        })?;
        sum.added += changed.added;
        sum.changed += changed.changed;
        sum.removed += changed.removed;
        sum.now = changed.now;
    }
    let BearersChanged { added, changed, removed, now } = sum;
    output::line(&format!(
        "bearers: added {added}, changed {changed}, removed {removed}; now {now}"
    ))
}

fn written(command: &impl Serialize) -> Result<String, Failure> {
    Ok(serde_json::to_string(command).map_err(Failure::broken)? + "\n")
}

fn is_yaml(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

/// The bearers of a YAML file, which is a list of them.
fn list(file: &Path) -> Result<Vec<WrittenCommand>, Failure> {
    let name = file.display().to_string();
    let text = weft_yaml::load(file)?;
    let mut source = weft_yaml::parse(&text, &name, "Bearers")?;
    let bearers = shape::read::<Vec<WrittenBearer>>(&mut source)
        .ok_or_else(|| Mistakes::of(&name, std::mem::take(&mut source.mistakes)))?;
    Ok(bearers.into_iter().map(|bearer| WrittenCommand::Add(Box::new(bearer))).collect())
}

/// The objects of a file, one a line.
fn lines<T: DeserializeOwned>(file: &Path) -> Result<Vec<T>, Failure> {
    let name = file.display();
    let mut text = String::new();
    let read = match file.as_os_str() == "-" {
        true => std::io::stdin().read_to_string(&mut text),
        false => std::fs::File::open(file).and_then(|mut file| file.read_to_string(&mut text)),
    };
    read.map_err(|error| Failure::Mistakes(format!("{name}:1:1: cannot read the file: {error}")))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let read = |(at, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| {
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            Failure::Mistakes(format!("{name}:{}:{}: {message}", at + 1, error.column()))
        })
    };
    lines.map(read).collect()
}

fn shown(show: &Show) -> Result<(), Failure> {
    let client: Client = show.target.client()?;
    if let Some(id) = show.id {
        let bearer: BearerView = client.get(&format!("/v1/bearers/{id}"))?;
        return if show.json { json(&bearer) } else { output::print(&one(&bearer)) };
    }
    let path = format!("/v1/bearers?first={}&count={}", show.first, show.count);
    let bearers: Vec<BearerView> = client.get(&path)?;
    if show.json { json(&bearers) } else { output::print(&many(&bearers)) }
}

fn json(value: &impl Serialize) -> Result<(), Failure> {
    output::line(&serde_json::to_string_pretty(value).map_err(Failure::broken)?)
}

fn many(bearers: &[BearerView]) -> String {
    let mut table =
        Table::new(&["bearer", "of", "user", "action", "worker", "slot", "found by"], 7);
    for bearer in bearers {
        table.row([
            bearer.id.to_string(),
            bearer.of.as_ref().map_or("-".to_owned(), |of| of.to_string()),
            bearer.user.map_or("-".to_owned(), |user| user.to_string()),
            format!("{:?}", bearer.action).to_lowercase(),
            bearer.worker.to_string(),
            bearer.slot.to_string(),
            bearer.found_by.join(", "),
        ]);
    }
    if table.is_empty() { "no bearers\n".to_owned() } else { table.text() }
}

fn one(bearer: &BearerView) -> String {
    let mut text = many(std::slice::from_ref(bearer));
    if !bearer.contexts.is_empty() {
        let mut table = Table::new(&["function", "value", "now"], 2);
        for ContextView { function, values } in &bearer.contexts {
            for (value, now) in values {
                table.row([function.clone(), value.clone(), now.to_string()]);
            }
        }
        text.push('\n');
        text.push_str(&table.text());
    }
    text
}

fn teid(text: &str) -> Result<u32, String> {
    number(text).ok_or_else(|| format!("`{text}` is not a TEID, such as 4096 or 0x1000"))
}

fn spi(text: &str) -> Result<u32, String> {
    number(text).ok_or_else(|| format!("`{text}` is not an SPI, such as 4096 or 0x1000"))
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn setting(text: &str) -> Result<(String, Value), String> {
    let (function, value) = text.split_once('=').ok_or("write FUNCTION=JSON")?;
    let value = serde_json::from_str(value).map_err(|error| format!("{function}: {error}"))?;
    Ok((function.to_owned(), value))
}
