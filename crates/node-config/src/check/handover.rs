//! How users move between nodes.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use serde_json::json;
use weft_dataplane::gates::tunnel::{FIRST_TEID, USERS};
use weft_http::tls::{CertificateFiles, Mutual};
use weft_mobility_protocol::gate::{Bounds, Policy};
use weft_mobility_protocol::plane::Limits;
use weft_mobility_protocol::{Arrival, NodeId, Settings};
use weft_rules::{Program, StateId, To};

use super::functions::Functions;
use super::within;
use crate::blueprint::{
    Blueprint, Composition, FunctionPlan, HandoverPlan, HandoverRole, HandoverSecurity, Memory,
    MovingUsers, PortPlan, UserKey, UserPlan,
};
use crate::locate::Source;
use crate::mistake::Mistake;
use crate::yaml::{GatesFile, HandoverFile, HandoverTls, RadioFile, Role, WhenFull};

/// The longest time that can be written, in milliseconds.
const LONGEST: u64 = 600_000;

/// What a handover refers to.
pub(super) struct Scene<'a> {
    pub ports: &'a [PortPlan],
    pub functions: &'a Functions,
    pub users: &'a [UserPlan],
    pub memory: &'a Memory,
}

/// The plan, if everything it needs is there.
pub(super) fn plan(
    (name, file): (&str, &HandoverFile),
    scene: &Scene<'_>,
    source: &mut Source<'_>,
) -> Option<HandoverPlan> {
    let before = source.mistakes.len();
    within(source, "handover.node", file.node.into(), 1, u32::MAX.into());
    let local = file.address.0;
    let port = port_with(local, scene.ports, source);
    let peers = peers(file, source);
    let users = users(file, scene.users, source);
    let tunnel = tunnel(file, scene.functions, source);
    isolated(file, scene.functions, source);
    teids(scene.users, source);
    if (file.role, file.radio) == (Role::Anchor, RadioFile::Uplink) {
        source.wrong("handover.radio", "an anchor has no radio").hint("it is for stations");
    }
    let limits = limits(&file.gates, scene.memory, source);
    within(source, "handover.releaseTimeout", file.release_timeout, 1, LONGEST);
    for (key, why) in file.transport.mistakes() {
        source.wrong(&format!("handover.transport.{key}"), why);
    }
    let security = file.tls.as_ref().map(|tls| security("handover", (name, tls), source));
    if file.tls.is_some() && file.plaintext {
        source.wrong("handover.plaintext", "connections have `tls`, so none is in plain text");
    }
    if source.mistakes.len() > before {
        return None;
    }
    Some(HandoverPlan {
        node: NodeId(file.node),
        role: match file.role {
            Role::Station => HandoverRole::Station,
            Role::Anchor => HandoverRole::Anchor,
        },
        local,
        port: port? as u16,
        network: scene.ports[port?].network,
        peers,
        users,
        tunnel: tunnel? as u16,
        limits,
        settings: Settings {
            arrival: match file.radio {
                RadioFile::Order => Arrival::Order,
                RadioFile::Uplink => Arrival::Uplink,
            },
            gate: Duration::from_millis(file.gates.timeout),
            release: Duration::from_millis(file.release_timeout),
            ..Settings::default()
        },
        timing: file.transport.timing(),
        security,
        plaintext: file.plaintext,
    })
}

/// The number of the port that tunnels end at.
fn port_with(local: IpAddr, ports: &[PortPlan], source: &mut Source<'_>) -> Option<usize> {
    let has_it = |port: &PortPlan| port.addresses.iter().any(|(address, _)| *address == local);
    let port = ports.iter().position(has_it);
    if port.is_none() {
        let mistake = source.wrong("handover.address", format!("no port has {local}"));
        mistake.hint("tunnels end at an address of one of the `ports`");
    }
    port
}

/// The certificates of a node that has this name, in the section `of` the file.
pub(super) fn security(
    of: &str,
    (name, tls): (&str, &HandoverTls),
    source: &mut Source<'_>,
) -> HandoverSecurity {
    let HandoverTls { certificate, key, authority, controller } = tls;
    for (at, text) in [("certificate", certificate), ("key", key), ("authority", authority)] {
        if text.is_empty() {
            source.wrong(&format!("{of}.tls.{at}"), "a path is not empty");
        }
    }
    if !Mutual::can_name(controller) {
        let message = format!("`{controller}` cannot be the name of a certificate");
        source.wrong(&format!("{of}.tls.controller"), message);
    }
    if controller.eq_ignore_ascii_case(name) {
        let message = "the node of that name could speak for the controller";
        source.wrong(&format!("{of}.tls.controller"), message).hint("give them different names");
    }
    HandoverSecurity {
        files: CertificateFiles {
            certificate: certificate.into(),
            key: key.into(),
            authority: authority.into(),
        },
        controller: controller.clone(),
    }
}

/// What is probably not meant.
pub(super) fn warning(file: &HandoverFile, source: &mut Source<'_>) -> Option<Mistake> {
    let message = "contexts, with the keys of users in them, travel unenciphered, and who knows \
                   the token speaks for any node";
    file.plaintext.then(|| {
        source.wrong("handover.plaintext", message).hint("give `tls` instead");
        // It is none that keeps the node from starting.
        source.mistakes.pop()
    })?
}

fn peers(file: &HandoverFile, source: &mut Source<'_>) -> Vec<(NodeId, IpAddr)> {
    let mut peers: Vec<(NodeId, IpAddr)> = Vec::new();
    for (index, peer) in file.peers.iter().enumerate() {
        let path = format!("handover.peers.{index}");
        let (node, address) = (NodeId(peer.node), peer.address.0);
        within(source, &format!("{path}.node"), peer.node.into(), 1, u32::MAX.into());
        if peer.node == file.node {
            source.wrong(&format!("{path}.node"), format!("{} is this node", peer.node));
        } else if peers.iter().any(|(known, _)| *known == node) {
            source.wrong(&format!("{path}.node"), format!("there is another node {}", peer.node));
        }
        let path = format!("{path}.address");
        if address.is_ipv4() != file.address.0.is_ipv4() {
            source.wrong(&path, format!("{address} is not of the family of `handover.address`"));
        } else if address.is_unspecified() || address.is_multicast() {
            source.wrong(&path, format!("{address} is not the address of one host"));
        } else if address == file.address.0 {
            source.wrong(&path, format!("{address} is this node's"));
        }
        peers.push((node, address));
    }
    peers
}

fn users(file: &HandoverFile, plans: &[UserPlan], source: &mut Source<'_>) -> Vec<MovingUsers> {
    let mut moving: Vec<MovingUsers> = Vec::new();
    for (index, users) in file.users.iter().enumerate() {
        let path = format!("handover.users.{index}");
        let Some(plan) = plans.iter().find(|plan| plan.name == users.name) else {
            let message = format!("there are no `users` called `{}`", users.name);
            let mistake = source.wrong(&format!("{path}.name"), message);
            mistake.suggest(&users.name, plans.iter().map(|plan| plan.name.as_str()));
            continue;
        };
        let (first, count, added) = (users.first, plan.count, users.added);
        let last = first.saturating_add(u64::from(count) + u64::from(added)).saturating_sub(1);
        let path = format!("{path}.first");
        if last >= USERS {
            let all = u64::from(count) + u64::from(added);
            let message = format!("the last of {all} users would have number {last}");
            source.wrong(&path, message).hint(format!("numbers are below {USERS}"));
        }
        let meets =
            |one: &&MovingUsers| one.plan == plan.name || first < one.end() && one.first <= last;
        if let Some(other) = moving.iter().find(meets) {
            let message = match other.plan == plan.name {
                true => format!("`{}` have numbers already", plan.name),
                false => format!("some of `{}` have these numbers", other.plan),
            };
            source.wrong(&path, message);
        }
        if added > 0 && plan.bearers.is_some() {
            let message =
                format!("`{}` have dedicated bearers, so none are added like them", plan.name);
            let path = format!("handover.users.{index}.added");
            source.wrong(&path, message).hint("name users without");
        }
        moving.push(MovingUsers { plan: plan.name.clone(), first, count, added });
    }
    moving
}

fn tunnel(file: &HandoverFile, functions: &Functions, source: &mut Source<'_>) -> Option<usize> {
    let name = &file.tunnel;
    let at = functions.names.iter().position(|known| known == name);
    let Some(at) = at else {
        let mistake = source.wrong("handover.tunnel", format!("there is no function `{name}`"));
        mistake.suggest(name, functions.names.iter().map(String::as_str));
        return None;
    };
    let made = functions.made.get(at)?.as_ref()?;
    let settings = json!({"tunnel": {"teid": 1, "peer": file.address.0, "local": file.address.0}});
    if made.plan.kind.settings(&settings).is_err() {
        let message = format!("a `{}` puts nothing into a tunnel", made.plan.kind.name);
        source.wrong("handover.tunnel", message).hint("name a `gtpu-encapsulate`");
        return None;
    }
    Some(at)
}

/// The function that changes tunnels has to do so between two packets.
fn isolated(file: &HandoverFile, functions: &Functions, source: &mut Source<'_>) {
    let mut made = functions.made.iter().flatten();
    if made.any(|made| made.plan.name == file.tunnel && is_isolated(&made.plan)) {
        let path = format!("functions.{}.composition", file.tunnel);
        let mistake =
            source.wrong(&path, "the tunnel's function has no process or thread of its own");
        mistake.hint("write `composition: call`");
    }
}

fn is_isolated(function: &FunctionPlan) -> bool {
    let has_thread = function.composition == Composition::Thread || function.auto.is_some();
    function.process.is_some() || has_thread
}

/// An anchor's End Markers go behind packets that its tunnel's function has sent, but would
/// overtake those in a process behind it. A station waits for its processes before.
pub(super) fn behind_tunnel(blueprint: &Blueprint, program: &Program, source: &mut Source<'_>) {
    let anchor = |plan: &&HandoverPlan| plan.role == HandoverRole::Anchor;
    let Some(plan) = blueprint.handover.as_ref().filter(anchor) else { return };
    let mut reached = vec![false; program.states.len()];
    let places = (0..).map(StateId).zip(&program.states);
    let of_tunnel = places.filter(|(_, state)| state.function.0 == plan.tunnel);
    let mut open: Vec<StateId> = of_tunnel.map(|(place, _)| place).collect();
    let mut behind = BTreeSet::new();
    while let Some(place) = open.pop() {
        for target in program.states[place.0 as usize].next.targets() {
            let To::State(next) = target.to else { continue };
            if !std::mem::replace(&mut reached[next.0 as usize], true) {
                behind.insert(program.states[next.0 as usize].function.0);
                open.push(next);
            }
        }
    }
    for function in behind {
        let function = &blueprint.functions[usize::from(function)];
        if is_isolated(function) {
            let path = format!("functions.{}.composition", function.name);
            let why =
                "behind the tunnel of an anchor no function has a process or thread of its own";
            source.wrong(&path, why).hint("write `composition: call`, or put it before the tunnel");
        }
    }
}

/// The tunnels of moving users have TEIDs of their own.
fn teids(users: &[UserPlan], source: &mut Source<'_>) {
    for (index, plan) in users.iter().enumerate() {
        let reaches = |key: &UserKey| match key {
            UserKey::Teid { first, .. } => {
                u64::from(*first) + u64::from(plan.count) > u64::from(FIRST_TEID)
            }
            _ => false,
        };
        if plan.keys.iter().any(reaches) {
            let message = format!("TEIDs from {FIRST_TEID:#x} on are those of moving users");
            source.wrong(&format!("users.{index}.match"), message);
        }
    }
}

fn limits(file: &GatesFile, memory: &Memory, source: &mut Source<'_>) -> Limits {
    let all = file.all_packets.unwrap_or((memory.packets / 4).max(1));
    let all_bytes = file.all_bytes.unwrap_or(u64::from(all) * 2048);
    within(source, "handover.gates.packets", file.packets.into(), 1, 1 << 16);
    within(source, "handover.gates.bytes", file.bytes.into(), 1, u32::MAX.into());
    within(source, "handover.gates.allPackets", all.into(), 1, memory.packets.into());
    within(source, "handover.gates.allBytes", all_bytes, 1, u64::MAX);
    within(source, "handover.gates.timeout", file.timeout, 1, LONGEST);
    Limits {
        user: Bounds { packets: file.packets as usize, bytes: file.bytes as usize },
        node: Bounds {
            packets: all as usize,
            bytes: usize::try_from(all_bytes).unwrap_or(usize::MAX),
        },
        policy: match file.full {
            WhenFull::DropNewest => Policy::DropNewest,
            WhenFull::DropOldest => Policy::DropOldest,
        },
    }
}
