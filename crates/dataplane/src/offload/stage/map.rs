//! What a stage knows of the rules.

use weft_rules::{Next, Program};

/// Which states of the compiled rules lead where, as far as a stage is concerned.
/// Without states, a packet's place is the number of its function.
#[derive(Debug, Default)]
pub struct Map(pub Box<[State]>);

/// A state of the compiled rules.
#[derive(Debug)]
pub struct State {
    /// The function that packets visit in it.
    pub function: u16,
    /// Whether the function is at this stage.
    pub here: bool,
    /// Where packets go next.
    pub next: Next,
}

impl Map {
    /// Of a program, for the stage that has the functions of which `is_here` is true.
    pub fn new(program: &Program, is_here: impl Fn(u16) -> bool) -> Map {
        let state = |state: &weft_rules::State| {
            let function = state.function.0;
            State { function, here: is_here(function), next: state.next.clone() }
        };
        Map(program.states.iter().map(state).collect())
    }
}
