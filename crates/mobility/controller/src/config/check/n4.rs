//! Checks what a file says of N4.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::time::Duration;

use weft_yaml::locate::Source;
use weft_yaml::values::Ip;

use super::super::yaml::{ControllerFile, N4File};
use crate::n4::{N4, N4Node, PORT};

/// N4, if the file has it.
pub fn n4(file: &ControllerFile, source: &mut Source<'_>) -> Option<N4> {
    let written = file.n4.as_ref()?;
    let listen: Vec<_> = written.listen.iter().map(|Ip(address)| *address).collect();
    if listen.is_empty() {
        source.wrong("n4.listen", "there is at least one address");
    }
    for (index, address) in listen.iter().enumerate() {
        let at = format!("n4.listen.{index}");
        if address.is_unspecified() || address.is_multicast() {
            let mistake = source.wrong(&at, "this is no address of one machine");
            mistake.hint("answers come from the address that requests go to: name it");
        }
        if listen[..index].iter().any(|other| other.is_ipv4() == address.is_ipv4()) {
            source.wrong(&at, "there is at most one address of each family");
        }
    }
    let timers = &written.timers;
    within("n4.port", written.port.into(), 1, 65_535, source);
    within("n4.associations", written.associations, 1, 1024, source);
    within("n4.timers.heartbeat", timers.heartbeat, 100, 600_000, source);
    within("n4.timers.t1", timers.t1, 100, 60_000, source);
    within("n4.timers.n1", timers.n1.into(), 1, 10, source);
    within("n4.timers.lease", timers.lease, 1, 86_400, source);
    registering(file, written, source);
    let milliseconds = |value: u32| Duration::from_millis(value.into());
    Some(N4 {
        node_id: match (&written.node_id, listen.first()) {
            (Some(text), _) => text.parse().map_err(|_| text.clone()),
            (None, Some(address)) => Ok(*address),
            (None, None) => return None,
        },
        port: written.port,
        peers: written.peers.iter().map(|subnet| (subnet.0, subnet.1)).collect(),
        nodes: nodes(file, written, source),
        registers: written.register,
        heartbeat: milliseconds(timers.heartbeat),
        t1: milliseconds(timers.t1),
        n1: timers.n1,
        lease: Duration::from_secs(timers.lease.into()),
        associations: written.associations as usize,
        listen,
    })
}

fn within(at: &str, value: u32, least: u32, most: u32, source: &mut Source<'_>) {
    if !(least..=most).contains(&value) {
        source.wrong(at, format!("must be {least} to {most}, not {value}"));
    }
}

/// Whether nodes may register.
fn registering(file: &ControllerFile, written: &N4File, source: &mut Source<'_>) {
    if !written.register {
        if written.nodes.is_none() {
            let hint = "with `register: true` nodes register that are not named here";
            source.wrong("n4", "no nodes are behind N4: name them in `nodes`").hint(hint);
        }
        return;
    }
    if file.membership.is_none() {
        let hint = "give `membership: {}`";
        source.wrong("n4.register", "nodes register only where they may join").hint(hint);
    }
    if written.peers.is_empty() {
        let hint = "a node that registers can then have none of their addresses";
        source.wrong("n4.register", "name the networks of control planes in `peers`").hint(hint);
    }
}

fn nodes(file: &ControllerFile, written: &N4File, source: &mut Source<'_>) -> Vec<N4Node> {
    let (mut numbers, mut addresses) = (HashMap::new(), HashSet::new());
    let families: HashSet<bool> = written.listen.iter().map(|Ip(own)| own.is_ipv4()).collect();
    let mut all = Vec::new();
    for (name, node) in written.nodes.iter().flat_map(|nodes| &nodes.0) {
        let at = format!("n4.nodes.{name}");
        let Ip(address) = node.address;
        if node.number == 0 {
            source.wrong(&format!("{at}.number"), "numbers are 1 to 65535");
        } else if let Some(other) = numbers.insert(node.number, name) {
            let message = format!("{} is the number of {other} already", node.number);
            source.wrong(&format!("{at}.number"), message);
        }
        if !addresses.insert(address) || written.listen.iter().any(|own| own.0 == address) {
            source.wrong(&format!("{at}.address"), "another node or N4 itself has this address");
        } else if !families.contains(&address.is_ipv4()) {
            let message = "N4 listens at no address of this family";
            source.wrong(&format!("{at}.address"), message);
        }
        let standby = file.nodes.0.iter().find(|(known, _)| known == name);
        if standby.is_some_and(|(_, node)| node.standby_for.is_some()) {
            let hint = "name the node that it stands by: both have one address";
            source.wrong_key(&at, "this node stands by another one").hint(hint);
        }
        let (name, number) = (name.clone(), node.number);
        all.push(N4Node { name, number, address: SocketAddr::new(address, PORT) });
    }
    all
}
