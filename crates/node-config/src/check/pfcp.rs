//! The node as a user plane of PFCP.

use std::net::IpAddr;
use std::time::Duration;

use weft_dataplane::gates::tunnel::FIRST_TEID;

use super::rules::Rules;
use super::{one_of_each, within};
use crate::blueprint::{Limits, PfcpChainPlan, PfcpInterfacePlan, PfcpNodeId, PfcpPlan, PortPlan};
use crate::locate::Source;
use crate::values::Subnet;
use crate::yaml::{DEFAULT_NETWORK, NodeFile, PfcpChain, PfcpFile, PfcpInterface};

/// Longest domain name, in octets (RFC 1035 §2.3.4).
const DOMAIN: usize = 253;
/// Shortest prefix of a pool of IPv6 prefixes: they are counted in 32 bits.
const POOL: u8 = 32;

/// What the section is compared with.
pub(super) struct Scene<'s> {
    pub file: &'s NodeFile,
    pub ports: &'s [PortPlan],
    pub networks: &'s [String],
    pub rules: &'s Rules,
    pub limits: &'s Limits,
}

pub(super) fn plan(file: &PfcpFile, scene: &Scene<'_>, source: &mut Source<'_>) -> PfcpPlan {
    let listen = one_of_each("pfcp.listen", &file.listen, source);
    if listen.is_empty() {
        source.wrong("pfcp.listen", "there is at least one address");
    }
    for (index, address) in listen.iter().enumerate() {
        if address.is_unspecified() || address.is_multicast() {
            let mistake =
                source.wrong(&format!("pfcp.listen.{index}"), "this is no address of one machine");
            mistake.hint("responses come from the address that requests go to: name it");
        }
    }
    within(source, "pfcp.port", file.port.into(), 1, 65_535);
    let node_id = node_id(file, &listen, source);
    if !scene.file.users.iter().any(|users| users.name == file.like) {
        let message = format!("no users are called `{}`", file.like);
        let names = scene.file.users.iter().map(|users| users.name.as_str());
        source.wrong("pfcp.like", message).suggest(&file.like, names);
    }
    let moving = scene.file.handover.iter().flat_map(|handover| &handover.users);
    if moving.into_iter().any(|users| users.name == file.like) {
        let message = format!("the users `{}` move, and sessions stay at their node", file.like);
        let mistake = source.wrong("pfcp.like", message);
        mistake.hint("give sessions an entry of their own that `handover.users` does not name");
    }
    let interfaces = interfaces(&file.interfaces, scene, source);
    let chains = file.chains.iter().enumerate();
    let chains = chains.map(|(index, chain)| plan_of_chain(index, chain, scene, source)).collect();
    let (timers, limits) = (&file.timers, &file.limits);
    within(source, "pfcp.timers.heartbeat", timers.heartbeat.into(), 0, 86_400);
    within(source, "pfcp.timers.t1", timers.t1.into(), 100, 60_000);
    within(source, "pfcp.timers.n1", timers.n1.into(), 1, 10);
    within(source, "pfcp.timers.restoration", timers.restoration.into(), 0, 86_400);
    within(source, "pfcp.limits.associations", limits.associations.into(), 1, 1024);
    within(source, "pfcp.limits.transactions", limits.transactions.into(), 64, 1 << 20);
    within(source, "pfcp.limits.rules", limits.rules.into(), 2, 4096);
    let users = u64::from(scene.limits.users);
    let sessions = limits.sessions.map_or(users, u64::from);
    if sessions > users {
        let message = format!("{sessions} sessions, and room for {users} users");
        let mistake = source.wrong("pfcp.limits.sessions", message);
        mistake.hint("each session is a user: raise limits.users");
    }
    PfcpPlan {
        listen,
        is_listen_overruled: false,
        port: file.port,
        node_id,
        peers: pairs(&file.peers),
        proxies: pairs(&file.proxies),
        like: file.like.clone(),
        interfaces,
        chains,
        heartbeat: (timers.heartbeat > 0).then(|| Duration::from_secs(timers.heartbeat.into())),
        t1: Duration::from_millis(timers.t1.into()),
        n1: timers.n1,
        restoration: Duration::from_secs(timers.restoration.into()),
        associations: limits.associations as usize,
        sessions: usize::try_from(sessions).unwrap_or(usize::MAX),
        transactions: limits.transactions as usize,
        rules: limits.rules as usize,
        guaranteed: [limits.guaranteed.uplink, limits.guaranteed.downlink]
            .map(|rate| rate.map(|rate| rate.0 / 1000)),
        teids_below: if scene.file.handover.is_some() { FIRST_TEID } else { u32::MAX },
    }
}

fn pairs(subnets: &[Subnet]) -> Vec<(IpAddr, u8)> {
    subnets.iter().map(|subnet| (subnet.0, subnet.1)).collect()
}

fn node_id(file: &PfcpFile, listen: &[IpAddr], source: &mut Source<'_>) -> PfcpNodeId {
    let Some(text) = &file.node_id else {
        let first = listen.first().copied();
        return PfcpNodeId::Address(first.unwrap_or(std::net::Ipv4Addr::UNSPECIFIED.into()));
    };
    if let Ok(address) = text.parse() {
        return PfcpNodeId::Address(address);
    }
    let of_domain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    let is_label = |label: &str| matches!(label.len(), 1..=63) && label.chars().all(of_domain);
    if text.len() > DOMAIN || !text.split('.').all(is_label) {
        let message = format!("{text:?} is neither an address nor a domain name");
        source.wrong("pfcp.nodeId", message);
    }
    PfcpNodeId::Name(text.clone())
}

fn interfaces(
    file: &[PfcpInterface],
    scene: &Scene<'_>,
    source: &mut Source<'_>,
) -> Vec<PfcpInterfacePlan> {
    if file.is_empty() {
        source.wrong("pfcp.interfaces", "there is at least one interface");
    }
    let mut plans: Vec<PfcpInterfacePlan> = Vec::new();
    for (index, one) in file.iter().enumerate() {
        let path = format!("pfcp.interfaces.{index}");
        let same = |plan: &PfcpInterfacePlan| {
            plan.side == one.interface && plan.network_instance == one.network_instance
        };
        if plans.iter().any(same) {
            let message = "an entry before this one is of the same interface and network instance";
            source.wrong(&path, message);
        }
        let network = one.network.as_deref().unwrap_or(DEFAULT_NETWORK);
        if !scene.networks.iter().any(|known| known == network) {
            let message = format!("no port is in a network `{network}`");
            let known = scene.networks.iter().map(String::as_str);
            source.wrong(&format!("{path}.network"), message).suggest(network, known);
        }
        let addresses = one_of_each(&format!("{path}.addresses"), &one.addresses, source);
        for (at, address) in addresses.iter().enumerate() {
            let of_port = |port: &&PortPlan| port.addresses.iter().any(|own| own.0 == *address);
            if scene.ports.iter().find(of_port).is_none() {
                let message = format!("no port has the address {address}");
                source.wrong(&format!("{path}.addresses.{at}"), message);
            }
        }
        for (at, pool) in one.pools.iter().enumerate() {
            let path = format!("{path}.pools.{at}");
            if pool.0.is_ipv6() && !(POOL..=64).contains(&pool.1) {
                let message = format!("a pool of /64 prefixes is a prefix of {POOL} to 64 bits");
                source.wrong(&path, message);
            }
        }
        plans.push(PfcpInterfacePlan {
            side: one.interface,
            network_instance: one.network_instance.clone(),
            network: network.to_owned(),
            addresses,
            pools: pairs(&one.pools),
        });
    }
    plans
}

fn plan_of_chain(
    index: usize,
    file: &PfcpChain,
    scene: &Scene<'_>,
    source: &mut Source<'_>,
) -> PfcpChainPlan {
    let path = format!("pfcp.chains.{index}");
    let PfcpChain { network_instance, application, forwarding_policy, predefined_rule, chain } =
        file;
    let chains = &scene.rules.chains;
    if !chains.contains(chain) && scene.rules.set.is_some() {
        let mistake =
            source.wrong(&format!("{path}.chain"), format!("there is no chain `{chain}`"));
        mistake.suggest(chain, chains.iter().map(String::as_str));
    }
    let given = [network_instance, application, forwarding_policy, predefined_rule];
    if given.iter().all(|given| given.is_none()) {
        let mistake = source.wrong(&path, "it is of all packets");
        let hint = "give networkInstance, application, forwardingPolicy or predefinedRule; \
                    the chain of all sessions stands at the users entry";
        mistake.hint(hint);
    }
    PfcpChainPlan {
        network_instance: network_instance.clone(),
        application: application.clone(),
        forwarding_policy: forwarding_policy.clone(),
        predefined_rule: predefined_rule.clone(),
        chain: chain.clone(),
    }
}
