//! Finds loops that no packet ever leaves.
//!
//! The search runs over the states of a program compiled for packets with any tags, since the
//! chain a packet is in decides where it goes on.

use std::collections::HashSet;

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

use crate::check::partition::Partition;
use crate::compile::program::{Next, NextHop, Program, To};
use crate::condition::knowledge::{Entry, Known};
use crate::language::diagnostic::Diagnostic;
use crate::language::vocabulary::{FunctionIndex, Place, PortIndex, TAG_SLOTS, Vocabulary};
use crate::rule_set::{NextPlace, RuleSet};

/// Packets are tried at so many arms of states within cycles, in all; beyond, every target is
/// taken for one that some packet goes to.
const TRIALS: usize = 1 << 24;

/// The loops that packets from `entries` get into and never out of.
pub(crate) fn loops(rules: &RuleSet, entries: &[PortIndex]) -> Vec<Diagnostic> {
    let tags = [Known::Unknown; TAG_SLOTS];
    let entries: Vec<Entry> = entries.iter().map(|&port| Entry { port, tags }).collect();
    // Rules with too many states cannot be compiled either, and are refused there.
    let Ok(program) = rules.evaluate(&entries) else { return Vec::new() };
    let mut targets: Vec<Vec<NextHop>> =
        program.states.iter().map(|state| state.next.targets().collect()).collect();
    let mut trials = TRIALS;
    // Only within a cycle does it matter whether what looks like a way out is one.
    for id in cycles(&targets, |_| true).into_iter().flatten() {
        targets[id] = possible(&program.states[id].next, rules.vocabulary(), &mut trials);
    }
    let free = free(&targets);
    let mut diagnostics = Vec::new();
    for cycle in cycles(&targets, |id| !free.contains(&id)) {
        let diagnostic = complain(rules, &program, &cycle);
        if !diagnostics.contains(&diagnostic) {
            diagnostics.push(diagnostic);
        }
    }
    diagnostics
}

/// The targets that some packet goes to; all if there are too many classes of packets.
fn possible(next: &Next, vocabulary: &Vocabulary, trials: &mut usize) -> Vec<NextHop> {
    let Next::Branch(arms, _) = next else { return next.targets().collect() };
    let conditions = arms.iter().map(|arm| &arm.when);
    let partition = Partition::of(conditions, vocabulary, None).filter(|partition| {
        let left = trials.checked_sub(partition.classes().saturating_mul(arms.len()));
        *trials = left.unwrap_or(*trials);
        left.is_some()
    });
    match partition {
        Some(partition) => {
            let chosen = partition.packets().map(|packet| next.choose(&packet));
            chosen.collect::<HashSet<_>>().into_iter().collect()
        }
        None => next.targets().collect(),
    }
}

/// The states from which some packet gets out.
fn free(targets: &[Vec<NextHop>]) -> HashSet<usize> {
    let mut free = HashSet::new();
    loop {
        let before = free.len();
        for (id, targets) in targets.iter().enumerate().rev() {
            let leads_out = |target: &NextHop| match target.to {
                To::State(next) => free.contains(&(next.0 as usize)),
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
fn cycles(targets: &[Vec<NextHop>], wanted: impl Fn(usize) -> bool) -> Vec<Vec<usize>> {
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

/// Names the functions of a cycle, at the first rule that leads from one to another.
fn complain(rules: &RuleSet, program: &Program, cycle: &[usize]) -> Diagnostic {
    let functions: HashSet<FunctionIndex> =
        cycle.iter().map(|&id| program.states[id].function).collect();
    let inside =
        |place| matches!(place, Place::Function(function) if functions.contains(&function));
    let mut within: Vec<_> = rules
        .rules()
        .iter()
        .filter(|rule| inside(rule.place))
        .filter_map(|rule| match rule.hop.to {
            NextPlace::Function(to) if functions.contains(&to) => Some((rule.at, rule.place)),
            _ => None,
        })
        .collect();
    within.sort_unstable();
    let at = within.first().map(|(at, _)| *at).unwrap_or_default();
    let mut names: Vec<String> = Vec::new();
    for (_, place) in within {
        let name = format!("`{}`", rules.vocabulary().place_name(place));
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let message = format!("no packet leaves the loop of {}", names.join(", "));
    Diagnostic::error(at, message).hint("add a rule that leads out of it")
}
