//! Makes one state of all states from which every packet goes the same way.

use std::collections::HashMap;

use crate::compile::program::{Next, NextHop, Program, State, StateId, To};
use crate::condition::Condition;

/// What tells states apart: the class so far, and arms by the number of their condition.
type Signature = (u32, Vec<(u32, NextHop)>, NextHop);

/// Shares states by partition refinement: first all states of a function are one class, then
/// classes are split while members lead to different classes.
pub(crate) fn shared(program: Program) -> Program {
    let conditions = number_conditions(&program.states);
    let functions = program.states.iter().map(|state| u32::from(state.function.0));
    let mut classes: Vec<u32> = functions.collect();
    let mut count = 0;
    loop {
        let mut numbers: HashMap<Signature, u32> = HashMap::new();
        let refined = program.states.iter().zip(&classes).map(|(state, &class)| {
            let signature = signature(state, class, &classes, &conditions);
            let next = numbers.len() as u32;
            *numbers.entry(signature).or_insert(next)
        });
        classes = refined.collect();
        if numbers.len() == count {
            return merged(program, &classes, count);
        }
        count = numbers.len();
    }
}

fn number_conditions(states: &[State]) -> HashMap<&Condition, u32> {
    let mut numbers = HashMap::new();
    for state in states {
        if let Next::Branch(arms, _) = &state.next {
            for arm in arms {
                let next = numbers.len() as u32;
                numbers.entry(&arm.when).or_insert(next);
            }
        }
    }
    numbers
}

fn signature(
    state: &State,
    class: u32,
    classes: &[u32],
    conditions: &HashMap<&Condition, u32>,
) -> Signature {
    let renumber = |target| renumbered(target, classes);
    match &state.next {
        Next::Go(target) => (class, Vec::new(), renumber(*target)),
        Next::Branch(arms, otherwise) => {
            let otherwise = renumber(*otherwise);
            let arms = arms.iter().map(|arm| (conditions[&arm.when], renumber(arm.then)));
            let mut arms: Vec<(u32, NextHop)> = arms.collect();
            while arms.last().is_some_and(|(_, then)| *then == otherwise) {
                arms.pop();
            }
            (class, arms, otherwise)
        }
    }
}

/// The program with one state per class; classes are numbered by their first member.
fn merged(program: Program, classes: &[u32], count: usize) -> Program {
    let renumber = |target| renumbered(target, classes);
    let mut states = Vec::with_capacity(count);
    for (state, &class) in program.states.into_iter().zip(classes) {
        if class as usize == states.len() {
            states.push(State { next: state.next.map(renumber), ..state });
        }
    }
    let entries = program.entries.into_iter().map(|next| next.map(renumber)).collect();
    Program { states, entries, chain_slot: program.chain_slot }
}

/// The target with its state replaced by the number given for it.
pub(crate) fn renumbered(target: NextHop, numbers: &[u32]) -> NextHop {
    let to = match target.to {
        To::State(id) => To::State(StateId(numbers[id.0 as usize])),
        other => other,
    };
    NextHop { to, ..target }
}
