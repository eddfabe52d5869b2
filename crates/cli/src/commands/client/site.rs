//! `weft apply`, `get`, `diff`, `delete` and `wait`: what a site is to be, and how far it is.

mod n4;
mod sessions;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::ValueEnum;
use weft_http::client::Client;
use weft_mobility_controller::api::Node;
use weft_mobility_controller::api::documents::{
    Apply, Documents, File, KeptDocument, Outcome, RolloutState,
};
use weft_mobility_controller::api::upgrade::UpgradeState;
use weft_site::document::{self, Document, DocumentKind};

use super::ctl::controller::ControllerAddress;
use super::ctl::{escaped, site as members};
use super::difference::difference;
use super::upgrade;
use crate::failure::Failure;
use crate::number::{count, counted, percent};
use crate::output;
use crate::table::Table;

/// How often it is looked whether what is waited for has come.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(clap::Args)]
pub struct ApplyArguments {
    #[command(flatten)]
    target: ControllerAddress,
    /// Files of documents; `-` is standard input
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true, num_args = 1..)]
    files: Vec<PathBuf>,
    /// Check them, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Wait until all nodes that are there run so
    #[arg(long)]
    wait: bool,
}

#[derive(clap::Args)]
pub struct GetArguments {
    #[command(flatten)]
    target: ControllerAddress,
    /// `nodes`: the nodes of the site. `n4`: the nodes behind N4, and how many sessions they have.
    /// `sessions`: PFCP sessions behind N4. `rollout`: how far documents are. `upgrade`: how far the
    /// nodes are upgraded. `revisions`. Or documents: `site`, `nodetemplate`, `node NAME`; `all` for all of them
    #[arg(value_name = "WHAT")]
    what: String,
    /// Only the one of this name
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// How it is printed
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
    /// Documents of an earlier revision
    #[arg(long, value_name = "NUMBER")]
    revision: Option<u64>,
    #[command(flatten)]
    sessions: sessions::Filter,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Columns
    Table,
    /// Documents as they were written
    Yaml,
    /// For programs
    Json,
}

#[derive(clap::Args)]
pub struct DiffArguments {
    #[command(flatten)]
    target: ControllerAddress,
    /// Files of documents; `-` is standard input
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true, num_args = 1..)]
    files: Vec<PathBuf>,
}

#[derive(clap::Args)]
pub struct DeleteArguments {
    #[command(flatten)]
    target: ControllerAddress,
    /// `site`, `nodetemplate` or `node`; `member` for a node that had registered
    #[arg(value_name = "KIND")]
    kind: String,
    /// Its name
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(clap::Args)]
pub struct WaitArguments {
    #[command(flatten)]
    target: ControllerAddress,
    /// `rollout`: all nodes that are there run as documents say. `upgrade`: all nodes that are to
    /// be upgraded are. `node=NAME`: it is connected
    #[arg(long = "for", value_name = "WHAT")]
    what: String,
    /// Seconds after which it is given up
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
}

/// Lets documents be.
///
/// # Errors
/// The mistakes of the documents, and then nothing has changed; what [`wait`] says.
pub fn apply(arguments: ApplyArguments) -> Result<(), Failure> {
    let client = arguments.target.client()?;
    let files = arguments.files.iter().map(|file| read(file)).collect::<Result<_, _>>()?;
    let body = Apply { files, dry_run: arguments.dry_run };
    // Texts: there is nothing that JSON could not say.
    let body = serde_json::to_string(&body).map_err(Failure::broken)?;
    let outcome: Outcome = client.post("/v1/documents", body)?;
    for changed in &outcome.changes {
        let change = serde_json::to_value(changed.change).map_err(Failure::broken)?;
        let change = change.as_str().unwrap_or_default().to_owned();
        output::line(&format!("{}/{} {change}", changed.kind, changed.name))?;
    }
    match arguments.dry_run {
        true => output::line("nothing has changed: this was a dry run")?,
        false => output::line(&format!("revision {}", outcome.revision))?,
    }
    if arguments.wait && !arguments.dry_run {
        until_rolled_out(&client, Duration::from_secs(300))?;
    }
    Ok(())
}

fn read(file: &Path) -> Result<File, Failure> {
    if file.as_os_str() != "-" {
        return Ok(File { name: file.display().to_string(), text: weft_yaml::load(file)? });
    }
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(|error| Failure::Mistakes(format!("<stdin>:1:1: cannot read it: {error}")))?;
    Ok(File { name: "<stdin>".to_owned(), text })
}

/// Shows nodes, documents, revisions, or how far nodes are.
///
/// # Errors
/// When there is no controller to ask (exit code 2), or nothing of that name.
pub fn get(arguments: GetArguments) -> Result<(), Failure> {
    let client = arguments.target.client()?;
    let GetArguments { what, name, output: format, revision, sessions, .. } = arguments;
    if what != "sessions" && sessions.is_given() {
        let flags = "--node, --control-plane, --ue and --most";
        return Err(Failure::input(format!("{flags} are of `weft get sessions`")));
    }
    match what.as_str() {
        "nodes" if format != Format::Yaml && revision.is_none() => {
            nodes(&client, name.as_deref(), format)
        }
        "rollout" => rollout(&client, format),
        "n4" => n4::show(&client, format),
        "sessions" => sessions::show(&client, &sessions, name.as_deref(), format),
        "upgrade" => upgraded(&client, format),
        "revisions" => revisions(&client, format),
        _ => documents(&client, &what, name.as_deref(), format, revision),
    }
}

fn nodes(client: &Client, name: Option<&str>, format: Format) -> Result<(), Failure> {
    let mut nodes: Vec<Node> = client.get("/v1/nodes")?;
    nodes.retain(|node| name.is_none_or(|name| name == node.name));
    if format == Format::Json {
        return members::as_json(&nodes);
    }
    let rollout: RolloutState = client.get("/v1/rollout")?;
    let head = [
        "node",
        "state",
        "settings",
        "version",
        "address",
        "capacity",
        "users",
        "packets/s",
        "of capacity",
        "drops/s",
        "busy",
    ];
    let mut table = Table::new(&head, 5);
    for node in &nodes {
        let settings = rollout.nodes.iter().find(|one| one.node == node.name);
        let [received, share, dropped, busy] = load(node);
        table.row([
            node.name.clone(),
            members::state(node),
            settings.map_or("own file".to_owned(), |one| one.state.clone()),
            node.version.clone().unwrap_or_else(|| "-".to_owned()),
            node.address.clone(),
            node.capacity.map_or("-".to_owned(), |capacity| capacity.to_string()),
            node.users.to_string(),
            received,
            share,
            dropped,
            busy,
        ]);
    }
    match (table.is_empty(), name) {
        (true, Some(name)) => Err(Failure::input(format!("there is no node `{name}`"))),
        _ => output::print(&table.text()),
    }
}

/// What a node carries: packets a second, their share of its capacity, drops a second, and how
/// busy its busiest core is; a dash where that is not known.
fn load(node: &Node) -> [String; 4] {
    let load = node.load.unwrap_or_default();
    let whole = |rate: Option<f64>| rate.map(|rate| count(rate.round() as u64));
    let share = |share: Option<f64>| share.map(percent);
    let of_capacity = node.capacity.filter(|capacity| *capacity > 0);
    let of_capacity = of_capacity.zip(load.received_per_second);
    let of_capacity = of_capacity.map(|(capacity, rate)| rate / capacity as f64);
    [
        whole(load.received_per_second),
        share(of_capacity),
        whole(load.dropped_per_second),
        share(load.busy),
    ]
    .map(|cell| cell.unwrap_or_else(|| "-".to_owned()))
}

fn rollout(client: &Client, format: Format) -> Result<(), Failure> {
    let state: RolloutState = client.get("/v1/rollout")?;
    if format == Format::Json {
        return members::as_json(&state);
    }
    let reason =
        if state.reason.is_empty() { String::new() } else { format!(": {}", state.reason) };
    output::line(&format!("revision {} is {}{reason}", state.revision, state.phase))?;
    let mut table = Table::new(&["node", "state"], 2);
    state.nodes.iter().for_each(|node| table.row([node.node.clone(), node.state.clone()]));
    if table.is_empty() { Ok(()) } else { output::print(&table.text()) }
}

fn upgraded(client: &Client, format: Format) -> Result<(), Failure> {
    let state: UpgradeState = client.get("/v1/upgrade")?;
    if format == Format::Json { members::as_json(&state) } else { upgrade::show(&state) }
}

fn revisions(client: &Client, format: Format) -> Result<(), Failure> {
    let revisions: Vec<Documents> = client.get("/v1/revisions")?;
    if format == Format::Json {
        return members::as_json(&revisions);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut table = Table::new(&["revision", "age", "why", "documents"], 3);
    for revision in &revisions {
        let age = now.saturating_sub(Duration::from_secs(revision.time));
        table.row([
            revision.revision.to_string(),
            members::ago(age),
            revision.note.clone(),
            revision.documents.len().to_string(),
        ]);
    }
    if table.is_empty() { output::line("no revisions") } else { output::print(&table.text()) }
}

fn documents(
    client: &Client,
    what: &str,
    name: Option<&str>,
    format: Format,
    revision: Option<u64>,
) -> Result<(), Failure> {
    let kind = match what {
        "all" => None,
        kind => Some(kind.parse::<DocumentKind>().map_err(Failure::input)?.to_string()),
    };
    let path = revision.map_or(String::new(), |revision| format!("?revision={revision}"));
    let found: Documents = client.get(&format!("/v1/documents{path}"))?;
    let is_meant = |document: &KeptDocument| {
        kind.as_ref().is_none_or(|kind| *kind == document.kind)
            && name.is_none_or(|name| name == document.name)
    };
    let meant: Vec<_> = found.documents.into_iter().filter(is_meant).collect();
    if let (true, Some(name)) = (meant.is_empty(), name) {
        return Err(Failure::input(format!("there is no document {what} `{name}`")));
    }
    match format {
        Format::Json => members::as_json(&meant),
        Format::Yaml => {
            let texts: Vec<_> = meant.iter().map(|document| document.text.as_str()).collect();
            output::print(&texts.join("---\n"))
        }
        Format::Table => {
            let mut table = Table::new(&["kind", "name", "lines"], 2);
            for document in &meant {
                let lines = document.text.lines().count().to_string();
                table.row([document.kind.clone(), document.name.clone(), lines]);
            }
            if table.is_empty() {
                output::line("no documents")
            } else {
                output::print(&table.text())
            }
        }
    }
}

/// Shows what `weft apply` would change.
///
/// # Errors
/// The mistakes of the documents; that they differ (exit code 1).
pub fn diff(arguments: DiffArguments) -> Result<(), Failure> {
    let client = arguments.target.client()?;
    let mut documents: Vec<Document> = Vec::new();
    for file in &arguments.files {
        let File { name, text } = read(file)?;
        documents.extend(document::read(&text, &name)?);
    }
    let known: Documents = client.get("/v1/documents")?;
    let mut different = 0;
    for document in documents {
        let kind = document.kind.to_string();
        let is_same = |known: &&KeptDocument| known.kind == kind && known.name == document.name;
        let before = known.documents.iter().find(is_same).map_or("", |known| &known.text);
        if before == document.text {
            continue;
        }
        different += 1;
        output::line(&format!("{kind}/{}", document.name))?;
        output::print(&difference(before, &document.text))?;
    }
    match different {
        0 => Ok(()),
        different => {
            Err(Failure::broken(format!("{} would change", counted(different, "document"))))
        }
    }
}

/// Lets a document be no longer, or a node that had registered.
///
/// # Errors
/// When there is none, or the node is needed.
pub fn delete(arguments: DeleteArguments) -> Result<(), Failure> {
    let client = arguments.target.client()?;
    let DeleteArguments { kind, name, .. } = arguments;
    if kind == "member" {
        client.delete(&format!("/v1/nodes/{}", escaped(&name)))?;
        return output::line(&format!("{name} is not a node of this site any more"));
    }
    let kind = kind.parse::<DocumentKind>().map_err(Failure::input)?;
    client.delete(&format!("/v1/documents/{kind}/{}", escaped(&name)))?;
    output::line(&format!("{kind}/{name} deleted; its nodes run on as they do"))
}

/// Waits for something to be so.
///
/// # Errors
/// When it does not come in time, or cannot come (exit code 1).
pub fn wait(arguments: WaitArguments) -> Result<(), Failure> {
    let client = arguments.target.client()?;
    let patience = Duration::from_secs(arguments.timeout);
    if arguments.what == "rollout" {
        return until_rolled_out(&client, patience);
    }
    if arguments.what == "upgrade" {
        return upgrade::wait(&client, patience);
    }
    let Some(name) = arguments.what.strip_prefix("node=") else {
        let said = format!("--for {}: write `rollout`, `upgrade` or `node=NAME`", arguments.what);
        return Err(Failure::input(said));
    };
    let since = Instant::now();
    loop {
        let nodes: Vec<Node> = client.get("/v1/nodes")?;
        let node = nodes.iter().find(|node| node.name == name);
        if node.is_some_and(|node| node.connected && node.incarnation.is_some()) {
            return output::line(&format!("{name} is connected"));
        }
        if since.elapsed() > patience {
            let state = node.map_or("unknown".to_owned(), members::state);
            return Err(Failure::broken(format!("{name} is {state} after {patience:?}")));
        }
        thread::sleep(PAUSE);
    }
}

fn until_rolled_out(client: &Client, patience: Duration) -> Result<(), Failure> {
    let since = Instant::now();
    loop {
        let state: RolloutState = client.get("/v1/rollout")?;
        let RolloutState { revision, reason, .. } = &state;
        match state.phase.as_str() {
            "complete" => {
                let current = state.nodes.iter().filter(|node| node.state == "current").count();
                let of = state.nodes.len();
                return output::line(&format!(
                    "{current} of {of} nodes run as revision {revision} says"
                ));
            }
            "rolled-back" => {
                let said = format!("rolled back, now revision {revision}: {reason}");
                return Err(Failure::broken(said));
            }
            phase if since.elapsed() > patience => {
                let said = format!("revision {revision} is {phase} after {patience:?}");
                return Err(Failure::broken(said));
            }
            _ => thread::sleep(PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_mobility_controller::api::Load;

    use super::*;

    fn node(capacity: Option<u64>, load: Option<Load>) -> Node {
        let node = serde_json::json!({
            "name": "a", "number": 2, "address": "192.0.2.1:1", "connected": true,
            "incarnation": 1, "users": 3, "moving": 0,
        });
        Node { capacity, load, ..serde_json::from_value(node).unwrap() }
    }

    #[test]
    fn what_a_node_carries_is_told_as_far_as_it_is_known() {
        let said = Load {
            received: 9_000_000,
            dropped: 100,
            received_per_second: Some(123_456.4),
            dropped_per_second: Some(0.0),
            busy: Some(0.0621),
        };
        let whole = load(&node(Some(2_000_000), Some(said)));
        assert_eq!(whole, ["123,456", "6.2 %", "0", "6.2 %"]);
        assert_eq!(load(&node(None, Some(said)))[1], "-");
        assert_eq!(load(&node(Some(0), Some(said)))[1], "-");
        assert_eq!(load(&node(Some(7), None)), ["-"; 4]);
        let first = Load { received_per_second: None, dropped_per_second: None, ..said };
        assert_eq!(load(&node(Some(7), Some(first))), ["-", "-", "-", "6.2 %"]);
    }
}
