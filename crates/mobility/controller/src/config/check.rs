//! Checks what a file says.

mod n4;
mod pairs;
mod records;

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use weft_http::tls::{CertificateFiles, Mutual};
use weft_mobility_protocol::{NodeId, User};
use weft_yaml::locate::Source;
use weft_yaml::mistake::{Mistake, Mistakes};

use super::yaml::{ControllerFile, MembershipFile, MutualFile, NodeFile, UsersFile};
use super::{Api, Configuration, Membership, Node, Tls, Users};

/// Users that a controller may have: each takes some hundred bytes of memory.
const MOST_USERS: u64 = 1 << 24;
/// Nodes that a file may name: each is told of all others.
const MOST_NODES: usize = weft_mobility_transport::hello::MOST_PLACES;
/// Moves that may be under way at once: stations prepare for as many.
const MOST_MOVES: u64 = 16_384;

/// The configuration, or none if there are mistakes, which are noted in `source`.
pub fn configuration(file: &ControllerFile, source: &mut Source<'_>) -> Option<Configuration> {
    name(&file.metadata.name, "metadata.name", source);
    let listen = socket(&file.listen, "listen", source);
    path(&file.token_file, "tokenFile", source);
    let (records, etcd_warning) = records::records(file, source);
    let (tls, tls_warning) = security(file, listen, source);
    let api = file.api.as_ref().map(|api| {
        path(&api.token_file, "api.tokenFile", source);
        let tls = api.tls.as_ref().map(|tls| {
            path(&tls.certificate, "api.tls.certificate", source);
            path(&tls.key, "api.tls.key", source);
            Tls { certificate: tls.certificate.clone().into(), key: tls.key.clone().into() }
        });
        let listen = socket(&api.listen, "api.listen", source)?;
        Some(Api { listen, token_file: api.token_file.clone().into(), tls })
    });
    if !(1..=MOST_MOVES).contains(&file.window) {
        source.wrong("window", format!("must be 1 to {MOST_MOVES}, not {}", file.window));
    }
    if let Some(membership) = &file.membership
        && !(1..=86_400).contains(&membership.lease)
    {
        let message = format!("must be 1 to 86400 seconds, not {}", membership.lease);
        source.wrong("membership.lease", message);
    }
    for (key, why) in file.transport.mistakes() {
        source.wrong(&format!("transport.{key}"), why);
    }
    let nodes = nodes(file, source);
    let pairs = pairs::pairs(file, &nodes, source);
    let n4 = n4::n4(file, source);
    let users = users(file, &nodes, source);
    if !source.mistakes.is_empty() {
        return None;
    }
    Some(Configuration {
        name: file.metadata.name.clone(),
        listen: listen?,
        token_file: file.token_file.clone().into(),
        tls,
        warnings: Mistakes(tls_warning.into_iter().chain(etcd_warning).collect()),
        api: match api {
            Some(api) => Some(api?),
            None => None,
        },
        records: records?,
        window: file.window as usize,
        most_users: MOST_USERS as usize,
        membership: membership(file),
        timing: file.transport.timing(),
        pairs,
        lease: Duration::from_millis(file.standby.lease),
        nodes,
        users,
        n4,
    })
}

fn membership(file: &ControllerFile) -> Option<Membership> {
    let lasts = |file: &MembershipFile| Duration::from_secs(file.lease);
    file.membership.as_ref().map(|file| Membership { lease: lasts(file), adopt: file.adopt })
}

/// The certificates, and what is probably not meant.
fn security(
    file: &ControllerFile,
    listen: Option<SocketAddr>,
    source: &mut Source<'_>,
) -> (Option<CertificateFiles>, Option<Mistake>) {
    let is_far = listen.is_some_and(|listen| !listen.ip().is_loopback());
    let Some(MutualFile { certificate, key, authority }) = &file.tls else {
        if is_far && !file.plaintext {
            let message = "nodes would connect without encryption, and contexts have keys in them";
            let hint = "give `tls`; `plaintext: true` is for a network that is trusted";
            source.wrong("listen", message).hint(hint);
        } else if is_far {
            let message = "connections with nodes are not enciphered, and who knows the token \
                           speaks for any node";
            source.wrong("plaintext", message).hint("give `tls` instead");
            // It is none that keeps the controller from starting.
            return (None, source.mistakes.pop());
        }
        return (None, None);
    };
    for (at, text) in [("certificate", certificate), ("key", key), ("authority", authority)] {
        path(text, &format!("tls.{at}"), source);
    }
    if file.plaintext {
        source.wrong("plaintext", "connections have `tls`, so none is in plain text");
    }
    names(file, source);
    let [certificate, key, authority] = [certificate, key, authority].map(PathBuf::from);
    (Some(CertificateFiles { certificate, key, authority }), None)
}

/// By these names certificates tell controller and nodes apart: as DNS compares them.
fn names(file: &ControllerFile, source: &mut Source<'_>) {
    let mut known = HashSet::from([file.metadata.name.to_ascii_lowercase()]);
    if !Mutual::can_name(&file.metadata.name) {
        let message = format!("`{}` cannot be the name of a certificate", file.metadata.name);
        source.wrong("metadata.name", message);
    }
    for (name, _) in &file.nodes.0 {
        let at = format!("nodes.{name}");
        if !Mutual::can_name(name) {
            source.wrong_key(&at, format!("`{name}` cannot be the name of a certificate"));
        } else if !known.insert(name.to_ascii_lowercase()) {
            let message = "a certificate of this name would speak for another as well";
            source.wrong_key(&at, message).hint("certificates do not tell `A` from `a`");
        }
    }
}

fn name(text: &str, at: &str, source: &mut Source<'_>) {
    let plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-_.".contains(&octet);
    let right = (1..=64).contains(&text.len()) && text.bytes().all(plain) && !text.starts_with('.');
    if !right {
        let message = "a name has 1 to 64 letters, digits, `-`, `_` and `.`, no `.` in front";
        source.wrong(at, format!("`{text}` is not a name: {message}"));
    }
}

fn socket(text: &str, at: &str, source: &mut Source<'_>) -> Option<SocketAddr> {
    let address = text.parse().ok();
    if address.is_none() {
        let message = format!("`{text}` is not an address with a port, such as 127.0.0.1:9471");
        source.wrong(at, message);
    }
    address
}

fn path(text: &str, at: &str, source: &mut Source<'_>) {
    if text.is_empty() {
        source.wrong(at, "a path is not empty");
    }
}

fn nodes(file: &ControllerFile, source: &mut Source<'_>) -> Vec<Node> {
    if file.nodes.0.is_empty() && file.membership.is_none() && file.n4.is_none() {
        let hint = "with `membership: {}` nodes join that are not named here";
        source.wrong("nodes", "a controller has at least one node").hint(hint);
    }
    if file.nodes.0.len() > MOST_NODES {
        source.wrong("nodes", format!("a controller has at most {MOST_NODES} nodes"));
    }
    let mut numbers = HashMap::new();
    let mut nodes = Vec::new();
    for (called, NodeFile { number, address, .. }) in &file.nodes.0 {
        let at = format!("nodes.{called}");
        if called.is_empty() || called.len() > 64 || called.contains(char::is_control) {
            source.wrong_key(&at, "the name of a node has 1 to 64 characters");
        }
        if *number == 0 {
            source.wrong(&format!("{at}.number"), "0 is the controller's own number");
        } else if let Some(other) = numbers.insert(*number, called) {
            let message = format!("{number} is the number of {other} already");
            source.wrong(&format!("{at}.number"), message);
        }
        let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        let port = port.and_then(|(_, port)| port.parse::<u16>().ok()).filter(|port| *port > 0);
        if port.is_none() || address.len() > 255 {
            let message = format!("`{address}` is not HOST:PORT");
            source.wrong(&format!("{at}.address"), message);
        }
        let (name, address) = (called.clone(), address.clone());
        nodes.push(Node { name, number: NodeId(*number), address });
    }
    nodes
}

fn users(file: &ControllerFile, nodes: &[Node], source: &mut Source<'_>) -> Vec<Users> {
    let mut all: Vec<Users> = Vec::new();
    let mut sum = 0_u64;
    for (nth, written) in file.users.iter().enumerate() {
        let at = format!("users.{nth}");
        let UsersFile { first, count, anchor, node } = written;
        if anchor == node {
            source.wrong(&format!("{at}.node"), "the anchor cannot own a user itself");
        }
        let in_range = (1..=MOST_USERS).contains(count) && first.checked_add(*count).is_some();
        if !in_range {
            let message = format!("must be 1 to {MOST_USERS}, and numbers below 2^64");
            source.wrong(&format!("{at}.count"), message);
            continue;
        }
        sum += count;
        let mut known = |key: &str, name: &str| {
            let found = nodes.iter().find(|node| node.name == name);
            if found.is_none() {
                let names = nodes.iter().map(|node| node.name.as_str());
                source
                    .wrong(&format!("{at}.{key}"), format!("there is no node `{name}`"))
                    .suggest(name, names);
            }
            found.map(|node| node.number)
        };
        let (Some(anchor), Some(node)) = (known("anchor", anchor), known("node", node)) else {
            continue;
        };
        let users = Users { first: User(*first), count: *count, anchor, node };
        let meets = |other: &&Users| users.contains(other.first) || other.contains(users.first);
        if let Some(other) = all.iter().find(meets) {
            let message = format!("some of these users are named before, from {}", other.first.0);
            source.wrong(&format!("{at}.first"), message);
        }
        all.push(users);
    }
    if sum > MOST_USERS {
        source.wrong("users", format!("a file names at most {MOST_USERS} users"));
    }
    all
}
