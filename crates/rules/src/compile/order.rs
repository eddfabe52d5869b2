//! Numbers the states of a program so that packets walk them in ascending order.

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

use crate::compile::program::{Program, State, To};
use crate::compile::share::renumbered;
use crate::language::vocabulary::FunctionIndex;

/// Orders states by function, and functions topologically; functions of one cycle stand
/// together.
pub(crate) fn in_order(program: Program) -> Program {
    let ranks = ranks(&program.states);
    let mut order: Vec<usize> = (0..program.states.len()).collect();
    order.sort_by_key(|&old| ranks[usize::from(program.states[old].function.0)]);
    let mut numbers = vec![0; order.len()];
    for (new, &old) in order.iter().enumerate() {
        numbers[old] = new as u32;
    }
    let renumber = |target| renumbered(target, &numbers);
    let mut states: Vec<(u32, State)> = program
        .states
        .into_iter()
        .zip(&numbers)
        .map(|(state, &number)| (number, State { next: state.next.map(renumber), ..state }))
        .collect();
    states.sort_by_key(|(number, _)| *number);
    Program {
        states: states.into_iter().map(|(_, state)| state).collect(),
        entries: program.entries.into_iter().map(|next| next.map(renumber)).collect(),
        chain_slot: program.chain_slot,
    }
}

/// The rank of every function by its index.
fn ranks(states: &[State]) -> Vec<usize> {
    let mut graph: DiGraphMap<FunctionIndex, ()> = DiGraphMap::new();
    for state in states {
        graph.add_node(state.function);
        for target in state.next.targets() {
            if let To::State(id) = target.to {
                graph.add_edge(state.function, states[id.0 as usize].function, ());
            }
        }
    }
    // Tarjan's algorithm finds the components from the last to the first.
    let functions = tarjan_scc(&graph).into_iter().rev().flatten();
    let behind = states.iter().map(|state| usize::from(state.function.0) + 1).max().unwrap_or(0);
    let mut ranks = vec![0; behind];
    for (rank, function) in functions.enumerate() {
        ranks[usize::from(function.0)] = rank;
    }
    ranks
}
