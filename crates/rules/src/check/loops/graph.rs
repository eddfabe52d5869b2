//! The graph of a program's states.

use std::collections::HashSet;

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

use crate::check::partition::Partition;
use crate::compile::program::{Next, NextHop, To};
use crate::language::vocabulary::Vocabulary;

/// A value of a tag, by its slot.
pub(super) type Value = (u8, u32);

/// The targets that some packet with these values goes to; `None` if there are too many classes
/// of packets for the `trials` that are left.
pub(super) fn possible(
    next: &Next,
    vocabulary: &Vocabulary,
    values: &[Value],
    trials: &mut usize,
) -> Option<Vec<NextHop>> {
    let Next::Branch(arms, _) = next else { return Some(next.targets().collect()) };
    let conditions = arms.iter().map(|arm| &arm.when);
    let partition = Partition::of(conditions, vocabulary, None)?;
    *trials = trials.checked_sub(partition.classes().saturating_mul(arms.len()))?;
    let chosen = partition.packets().map(|packet| next.choose(&packet.with(values)));
    Some(chosen.collect::<HashSet<_>>().into_iter().collect())
}

/// The states among those `wanted` from which some packet gets out of them.
pub(super) fn free(targets: &[Vec<NextHop>], wanted: impl Fn(usize) -> bool) -> HashSet<usize> {
    let mut free = HashSet::new();
    loop {
        let before = free.len();
        for (id, targets) in targets.iter().enumerate().rev().filter(|(id, _)| wanted(*id)) {
            let leads_out = |target: &NextHop| match target.to {
                To::State(next) => {
                    let next = next.0 as usize;
                    !wanted(next) || free.contains(&next)
                }
                _ => true,
            };
            if !free.contains(&id) && targets.iter().any(leads_out) {
                free.insert(id);
            }
        }
        if free.len() == before {
            return free;
        }
    }
}

/// The cycles among the states that are `wanted`.
pub(super) fn cycles(targets: &[Vec<NextHop>], wanted: impl Fn(usize) -> bool) -> Vec<Vec<usize>> {
    let mut graph: DiGraphMap<usize, ()> = DiGraphMap::new();
    for (id, targets) in targets.iter().enumerate().filter(|(id, _)| wanted(*id)) {
        for target in targets {
            match target.to {
                To::State(next) if wanted(next.0 as usize) => {
                    graph.add_edge(id, next.0 as usize, ());
                }
                _ => {}
            }
        }
    }
    let mut components = tarjan_scc(&graph);
    components.retain(|ids| ids.len() > 1 || graph.contains_edge(ids[0], ids[0]));
    components
}
