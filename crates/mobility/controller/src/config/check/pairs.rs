//! Checks which node stands by which.

use std::collections::HashSet;

use weft_yaml::locate::Source;

use super::super::Node;
use super::super::yaml::ControllerFile;
use crate::pair::Couple;

/// The pairs. A node is of one at most.
pub fn pairs(file: &ControllerFile, nodes: &[Node], source: &mut Source<'_>) -> Vec<Couple> {
    const LEASES: std::ops::RangeInclusive<u64> = 100..=60_000;
    if !LEASES.contains(&file.standby.lease) {
        let message = format!("must be 100 to 60000, not {}", file.standby.lease);
        source.wrong("standby.lease", message);
    }
    let (mut pairs, mut paired) = (Vec::new(), HashSet::new());
    for (called, node) in &file.nodes.0 {
        let Some(of) = &node.standby_for else { continue };
        let at = format!("nodes.{called}.standbyFor");
        let known = |name: &str| nodes.iter().find(|node| node.name == name);
        let (Some(second), Some(first)) = (known(called), known(of)) else {
            let names = nodes.iter().map(|node| node.name.as_str());
            source.wrong(&at, format!("there is no node `{of}`")).suggest(of, names);
            continue;
        };
        if first.number == second.number {
            source.wrong(&at, "a node cannot stand by itself");
        }
        for one in [first, second] {
            if !paired.insert(one.number) {
                let message = format!("{} is of another pair already", one.name);
                source.wrong(&at, message).hint("a node has one standby, and stands by one");
            }
        }
        pairs.push(Couple { first: first.number, second: second.number });
    }
    pairs
}
