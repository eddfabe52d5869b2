//! From the file to the blueprint: names are resolved, numbers compared with
//! their bounds, functions made on trial, rules parsed.
//!
//! A check that finds a mistake notes it and goes on with what there is, so
//! that one run shows as many as it can; a check that could only repeat what an
//! earlier one found is left out.

mod frame;
mod functions;
mod handover;
mod names;
mod nics;
mod paths;
mod peers;
mod pfcp;
mod ports;
mod ranges;
mod rules;
mod standby;
mod users;

pub use functions::thread::stage;

use std::net::IpAddr;

use weft_compose::Kind;

use super::blueprint::Blueprint;
use super::locate::Source;
use super::mistake::Mistakes;
use super::values::Ip;
use super::yaml::NodeFile;

/// The blueprint of `file`; `None` if there are mistakes, which are then in
/// `source`.
pub(super) fn blueprint(
    file: &NodeFile,
    source: &mut Source<'_>,
    kinds: &[Kind],
) -> Option<Blueprint> {
    names::of_file(file, source);
    let workers = frame::workers(&file.workers, source);
    let watchdog = frame::watchdog(&file.watchdog, source);
    let nics = nics::nics(file, source);
    let (mut ports, mut networks) = ports::ports(file, source);
    paths::paths(file, &mut ports, &mut networks, source);
    let memory = frame::memory(&file.memory, (&ports, &nics, workers.count), source);
    let functions = functions::Functions::of(file, (&ports, &networks, &nics), source, kinds);
    paths::tags(file, &functions.tags, source);
    let rules = rules::Rules::of(file, &ports, &functions, source);
    let scene = users::Scene { file, ports: &ports, networks: &networks, functions: &functions };
    let users = users::users(&scene, &rules, source);
    let gtpu = frame::gtpu(&file.gtpu, source);
    let limits = frame::limits(file, source);
    let state = file.state.as_ref().map(|state| frame::state(state, source));
    let standby = standby::plan(file, source);
    let site = standby::site(file, source);
    let ipfix =
        file.ipfix.as_ref().map(|ipfix| peers::ipfix::plan(ipfix, file, &functions, source));
    let moving = handover::Scene {
        ports: &ports,
        functions: &functions,
        users: &users.users,
        memory: &memory,
    };
    let named = file.handover.as_ref().map(|handover| (file.metadata.name.as_str(), handover));
    let handover = named.and_then(|named| handover::plan(named, &moving, source));
    let scene =
        pfcp::Scene { file, ports: &ports, networks: &networks, rules: &rules, limits: &limits };
    let pfcp = file.pfcp.as_ref().map(|pfcp| pfcp::plan(pfcp, &scene, source));
    let bgp = file.bgp.as_ref().map(|bgp| peers::bgp::plan(bgp, &ports, pfcp.as_ref(), source));
    functions::remote::once(&functions, &ports, source);
    let mut warnings = rules.check(source);
    warnings.extend(named.and_then(|(_, handover)| handover::warning(handover, source)));
    warnings.extend(standby::warning(file, source));
    if !source.mistakes.is_empty() {
        return None;
    }
    let functions_made = functions.made.into_iter().map(|made| Some(made?.plan));
    let mut functions_made = functions_made.collect::<Option<Vec<_>>>()?;
    nics.put_devices(&mut ports, &mut functions_made);
    let blueprint = Blueprint {
        name: file.metadata.name.clone(),
        workers,
        watchdog,
        memory,
        forwarding: file.forwarding,
        fused: file.fused,
        classification: file.classification,
        nics: nics.hardware,
        switches: nics.switches,
        ports,
        networks,
        groups: users.groups,
        users: users.users,
        bearer_profiles: users.bearer_profiles,
        rules: rules.set?,
        tags: functions.tags,
        functions: functions_made,
        state,
        standby,
        site,
        handover,
        pfcp,
        gtpu,
        ipfix: ipfix.flatten(),
        bgp: bgp.flatten(),
        limits,
        warnings: Mistakes(warnings),
    };
    if let Some(program) = rules::compile(&blueprint, source) {
        handover::behind_tunnel(&blueprint, &program, source);
    }
    source.mistakes.is_empty().then_some(blueprint)
}

/// The addresses, of which at most one is of each family.
fn one_of_each(path: &str, addresses: &[Ip], source: &mut Source<'_>) -> Vec<IpAddr> {
    for (index, address) in addresses.iter().enumerate() {
        if addresses[..index].iter().any(|other| other.0.is_ipv4() == address.0.is_ipv4()) {
            source.wrong(&format!("{path}.{index}"), "there is an address of this family already");
        }
    }
    addresses.iter().map(|address| address.0).collect()
}

/// The numbers from `low` to `high`; what lies outside is noted.
fn within(source: &mut Source<'_>, path: &str, value: u64, low: u64, high: u64) {
    if !(low..=high).contains(&value) {
        source.wrong(path, format!("{value} is not within {low}..{high}"));
    }
}
