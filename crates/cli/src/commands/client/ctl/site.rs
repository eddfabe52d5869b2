//! `weft ctl nodes`, `pairs`, `users`, `events` and `gone`: what a controller knows and is told.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use weft_mobility_controller::api::{Event, Gone, Node, Pair, User};

use super::controller::ControllerAddress;
use super::escaped;
use crate::failure::Failure;
use crate::output;
use crate::table::Table;

/// Users that one question is for.
const PAGE: usize = 10_000;

#[derive(clap::Args)]
pub struct Nodes {
    #[command(flatten)]
    target: ControllerAddress,
    /// As JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct Users {
    #[command(flatten)]
    target: ControllerAddress,
    /// Number of the only user to show
    #[arg(value_name = "USER", conflicts_with_all = ["owner", "first", "count"])]
    user: Option<u64>,
    /// Only users of this node
    #[arg(long, value_name = "NODE")]
    owner: Option<String>,
    /// Only users from this number on
    #[arg(long, value_name = "USER", default_value_t = 0)]
    first: u64,
    /// Users to show
    #[arg(long, value_name = "N", default_value_t = 100)]
    count: usize,
    /// As JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct Events {
    #[command(flatten)]
    target: ControllerAddress,
    /// End after so many
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// As JSON, one object a line
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct GoneNode {
    #[command(flatten)]
    target: ControllerAddress,
    /// The node that does not come back
    #[arg(value_name = "NODE")]
    node: String,
    /// The node that takes its users
    #[arg(long, value_name = "NODE")]
    successor: String,
    /// As JSON: all nodes
    #[arg(long)]
    json: bool,
}

/// Shows the nodes.
///
/// # Errors
/// When there is no controller to ask (exit code 2), or it goes away.
pub fn nodes(arguments: &Nodes) -> Result<(), Failure> {
    let nodes: Vec<Node> = arguments.target.client()?.get("/v1/nodes")?;
    if arguments.json {
        return as_json(&nodes);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let head = ["node", "state", "address", "last heard", "number", "users", "moving"];
    let mut table = Table::new(&head, 4);
    for node in &nodes {
        let heard = node.last_heard.map(Duration::from_millis);
        table.row([
            node.name.clone(),
            state(node),
            node.address.clone(),
            heard.map_or("never".to_owned(), |heard| ago(now.saturating_sub(heard))),
            node.number.to_string(),
            node.users.to_string(),
            node.moving.to_string(),
        ]);
    }
    output::print(&table.text())
}

/// Shows nodes of which one stands by the other.
///
/// # Errors
/// When the controller cannot be asked.
pub fn pairs(arguments: &Nodes) -> Result<(), Failure> {
    let pairs: Vec<Pair> = arguments.target.client()?.get("/v1/pairs")?;
    if arguments.json {
        return as_json(&pairs);
    }
    let heard = |is: bool| if is { "heard" } else { "not heard" }.to_owned();
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let head = ["owner", "", "standby", "", "may take over", "built", "epoch"];
    let mut table = Table::new(&head, 6);
    for pair in &pairs {
        table.row([
            pair.owner.clone(),
            heard(pair.owner_heard),
            pair.standby.clone(),
            heard(pair.standby_heard),
            yes(pair.whole),
            yes(pair.built),
            pair.epoch.to_string(),
        ]);
    }
    output::print(&table.text())
}

/// What a node is, in a few words.
pub fn state(node: &Node) -> String {
    match (&node.successor, node.connected) {
        (Some(successor), _) => format!("gone, for {successor}"),
        (None, true) if node.cordoned => "connected, cordoned".to_owned(),
        (None, true) => "connected".to_owned(),
        (None, false) if node.expired => "expired".to_owned(),
        (None, false) => "not connected".to_owned(),
    }
}

/// How long ago something was.
pub fn ago(time: Duration) -> String {
    match time.as_secs() {
        0..100 => format!("{:.1} s ago", time.as_secs_f64()),
        seconds @ 100..6000 => format!("{} min ago", seconds / 60),
        seconds => format!("{} h ago", seconds / 3600),
    }
}

/// Shows users.
///
/// # Errors
/// As [`nodes`], and when there is no such user.
pub fn users(arguments: &Users) -> Result<(), Failure> {
    let client = arguments.target.client()?;
    if let Some(user) = arguments.user {
        let user: User = client.get(&format!("/v1/users/{user}"))?;
        return if arguments.json { as_json(&user) } else { output::print(&table(&[user])) };
    }
    let owner = arguments.owner.as_ref();
    let owner = owner.map_or(String::new(), |owner| format!("&owner={}", escaped(owner)));
    let (mut users, mut first): (Vec<User>, _) = (Vec::new(), arguments.first);
    while users.len() < arguments.count {
        let count = (arguments.count - users.len()).min(PAGE);
        let page: Vec<User> =
            client.get(&format!("/v1/users?first={first}&count={count}{owner}"))?;
        let Some(last) = page.last() else { break };
        first = last.user.saturating_add(1);
        users.extend(page);
    }
    if arguments.json { as_json(&users) } else { output::print(&table(&users)) }
}

fn table(users: &[User]) -> String {
    if users.is_empty() {
        return "no users\n".to_owned();
    }
    let mut table = Table::new(&["owner", "target", "anchor", "state", "user", "epoch"], 4);
    for user in users {
        let node = |node: &Option<String>| node.clone().unwrap_or_else(|| "-".to_owned());
        table.row([
            node(&user.owner),
            node(&user.target),
            user.anchor.clone(),
            user.state.clone(),
            user.user.to_string(),
            user.epoch.to_string(),
        ]);
    }
    table.text()
}

/// Prints what happens, as it happens.
///
/// # Errors
/// As [`nodes`].
pub fn events(arguments: &Events) -> Result<(), Failure> {
    let client = arguments.target.client()?;
    let (mut left, mut said) = (arguments.count.unwrap_or(u64::MAX), Ok(()));
    let mut waiting = Vec::new();
    client.listen("/v1/events", |piece| {
        waiting.extend_from_slice(piece);
        while let Some(end) = waiting.iter().position(|octet| *octet == b'\n') {
            let line: Vec<u8> = waiting.drain(..=end).collect();
            let Some(text) = event(&line, arguments.json) else { continue };
            if left == 0 {
                return false;
            }
            left -= 1;
            said = output::line(&text);
            if said.is_err() {
                return false;
            }
        }
        left > 0
    })?;
    said?;
    match left {
        0 => Ok(()),
        _ => Err(Failure::broken("the controller has stopped")),
    }
}

/// An event that a line of the stream holds (the HTML standard, section 9.2).
fn event(line: &[u8], json: bool) -> Option<String> {
    let data = std::str::from_utf8(line).ok()?.strip_prefix("data: ")?.trim_end();
    let Ok(event) = serde_json::from_str::<Event>(data) else {
        // How many were missed.
        return Some(if json { data.to_owned() } else { format!("missed events: {data}") });
    };
    if json {
        return Some(data.to_owned());
    }
    let (seconds, milliseconds) = (event.time / 1000, event.time % 1000);
    let mut text = format!("{seconds}.{milliseconds:03}  {}", event.event);
    if let Some(user) = event.user {
        text.push_str(&format!("  user {user}"));
    }
    if let Some(node) = event.node {
        text.push_str(&format!("  {node}"));
    }
    if let Some(reason) = event.reason {
        text.push_str(&format!("  ({reason})"));
    }
    Some(text)
}

/// Says that a node does not come back.
///
/// # Errors
/// As [`nodes`], and when there is no such node.
pub fn gone(arguments: &GoneNode) -> Result<(), Failure> {
    let successor = arguments.successor.clone();
    // A text: there is nothing that JSON could not say.
    let body = serde_json::to_string(&Gone { successor }).map_err(Failure::broken)?;
    let path = format!("/v1/nodes/{}/gone", escaped(&arguments.node));
    let nodes: Vec<Node> = arguments.target.client()?.post(&path, body)?;
    if arguments.json {
        return as_json(&nodes);
    }
    let GoneNode { node, successor, .. } = arguments;
    output::line(&format!("{node} does not come back; its users are those of {successor}"))
}

/// Prints JSON.
///
/// # Errors
/// When the output is closed.
pub fn as_json(value: &impl Serialize) -> Result<(), Failure> {
    output::line(&serde_json::to_string_pretty(value).map_err(Failure::broken)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_lines_and_comments_are_not() {
        let data = br#"data: {"number":7,"time":1001,"event":"moved","user":3,"node":"b"}"#;
        assert_eq!(event(data, false).unwrap(), "1.001  moved  user 3  b");
        assert_eq!(event(data, true).unwrap().as_bytes(), &data[6..]);
        assert_eq!(
            event(b"data: {\"missed\":4}\n", false).unwrap(),
            "missed events: {\"missed\":4}"
        );
        for other in [&b": events\n"[..], b"\n", b"id: 7\n", b"event: moved\n", b"data: \xff\n"] {
            assert_eq!(event(other, false), None);
        }
    }

    #[test]
    fn times_are_told_in_what_is_easily_read() {
        let said = [300, 99_000, 250_000, 7_300_000].map(|ms| ago(Duration::from_millis(ms)));
        assert_eq!(said, ["0.3 s ago", "99.0 s ago", "4 min ago", "2 h ago"]);
    }
}
