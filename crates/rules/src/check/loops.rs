//! Finds loops that no packet ever leaves, or none with certain values of tags.
//!
//! The search runs over the states of a program compiled for packets with any tags, since the
//! chain a packet is in decides where it goes on.

mod classes;
mod graph;

use std::collections::HashSet;

use self::graph::{cycles, free, possible};
use crate::compile::program::{NextHop, Program};
use crate::condition::knowledge::{Entry, Known};
use crate::language::diagnostic::Diagnostic;
use crate::language::vocabulary::{FunctionIndex, Place, PortIndex, TAG_SLOTS};
use crate::rule_set::{NextPlace, RuleSet};

/// Packets are tried at so many arms of states within cycles, in all; beyond, every target is
/// taken for one that some packet goes to.
const TRIALS: usize = 1 << 24;

/// The loops that packets from `entries` get into and never out of, all or some of them.
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
        let next = &program.states[id].next;
        if let Some(possible) = possible(next, rules.vocabulary(), &[], &mut trials) {
            targets[id] = possible;
        }
    }
    let free = free(&targets, |_| true);
    let is_stuck = |id| !free.contains(&id);
    let mut diagnostics = Vec::new();
    let all = cycles(&targets, is_stuck).into_iter().map(|cycle| (cycle, None));
    let some = classes::held(&program, rules.vocabulary(), &targets, is_stuck, &mut trials);
    let some = some.into_iter().map(|held| (held.cycle, Some(held.tags)));
    for (cycle, tags) in all.chain(some) {
        let diagnostic = complain(rules, &program, &cycle, tags.as_deref());
        if !diagnostics.contains(&diagnostic) {
            diagnostics.push(diagnostic);
        }
    }
    diagnostics
}

/// Names the functions of a cycle, at the first rule that leads from one to another, and the
/// tags of packets that do not leave it, unless none does.
fn complain(rules: &RuleSet, program: &Program, cycle: &[usize], tags: Option<&str>) -> Diagnostic {
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
    let with = tags.map_or(String::new(), |tags| format!(" with {tags}"));
    let message = format!("no packet{with} leaves the loop of {}", names.join(", "));
    Diagnostic::error(at, message).hint("add a rule that leads out of it")
}
