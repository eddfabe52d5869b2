//! What is exported by IPFIX.

use std::net::SocketAddr;
use std::time::Duration;

use super::super::functions::Functions;
use super::super::ranges::Ranges;
use crate::blueprint::IpfixPlan;
use crate::locate::Source;
use crate::yaml::{IpfixFile, NodeFile};

/// `None` if there is no telling to whom.
pub fn plan(
    file: &IpfixFile,
    node: &NodeFile,
    functions: &Functions,
    source: &mut Source<'_>,
) -> Option<IpfixPlan> {
    let ranges = Ranges::of::<IpfixFile>();
    for (key, value) in [
        ("interval", file.interval),
        ("messageOctets", file.message_octets),
        ("templateInterval", file.template_interval),
    ] {
        ranges.check(source, "ipfix", key, value.into());
    }
    named(&file.usage, "usage", "counter", functions, source);
    named(&file.port_blocks, "portBlocks", "nat", functions, source);
    if file.usage.is_empty() && file.port_blocks.is_empty() {
        let mistake = source.wrong_key("ipfix", "nothing is exported");
        mistake
            .hint("name counters under `usage`, or functions of the kind nat under `portBlocks`");
    }
    let Ok(collector) = file.collector.parse::<SocketAddr>() else {
        let message = format!("`{}` is not an address with a port", file.collector);
        source.wrong("ipfix.collector", message).hint("such as 192.0.2.9:4739");
        return None;
    };
    if collector.port() == 0 {
        source.wrong("ipfix.collector", "nothing listens at port 0").hint("IPFIX has 4739");
    }
    Some(IpfixPlan {
        collector,
        transport: file.transport,
        domain: file.observation_domain,
        usage: file.usage.clone(),
        interval: Duration::from_secs(file.interval.into()),
        port_blocks: file.port_blocks.clone(),
        message_octets: file.message_octets as usize,
        templates: Duration::from_secs(file.template_interval.into()),
        users_move: node.handover.is_some(),
    })
}

/// Each name is that of a function of the `kind` that runs in a thread of the node.
fn named(names: &[String], key: &str, kind: &str, functions: &Functions, source: &mut Source<'_>) {
    for (at, name) in names.iter().enumerate() {
        let path = format!("ipfix.{key}.{at}");
        if names[..at].contains(name) {
            source.wrong(&path, format!("`{name}` stands here twice"));
            continue;
        }
        let Some(index) = functions.names.iter().position(|function| function == name) else {
            let mistake = source.wrong(&path, format!("there is no function `{name}`"));
            mistake.suggest(name, functions.names.iter().map(String::as_str));
            continue;
        };
        let Some(made) = &functions.made[index] else { continue };
        if made.plan.kind.name != kind {
            let message = format!("`{name}` is a {}, not a {kind}", made.plan.kind.name);
            source.wrong(&path, message);
        } else if !made.plan.composition.is_at_hand() {
            let message = format!("`{name}` runs in a process or at another node");
            source.wrong(&path, message).hint("what it counts there is not at hand");
        }
    }
}
