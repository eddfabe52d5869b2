//! Partial evaluation: decides now what is known before a packet comes.
//!
//! From an entry on, every rule of a place is simplified by what is known there; rules that
//! cannot match are left out, and one that must match ends the choice. A state is a function
//! and what is known behind it, as far as a later rule asks for it.

use std::collections::HashMap;

use crate::compile::program::{Arm, Next, NextHop, Program, State, StateId, To};
use crate::compile::relevance::Relevance;
use crate::condition::knowledge::{Entry, Knowledge, Known};
use crate::language::vocabulary::{FunctionIndex, Place};
use crate::rule_set::{Hop, NextPlace, RuleSet};

pub(crate) mod order;
pub(crate) mod paths;
pub(crate) mod program;
pub(crate) mod relevance;
pub(crate) mod share;

/// So many states may come out of partial evaluation.
pub const MAX_STATES: usize = 32_768;

/// So many rules may be looked at in the light of what is known in a state, in all.
pub const MAX_EVALUATIONS: usize = 1 << 22;

/// Why rules cannot be compiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CompileError {
    /// More combinations of functions and known tags than [`MAX_STATES`].
    #[error("the ways of these packets through the rules have more than {MAX_STATES} states")]
    TooManyStates,
    /// More rules in states than [`MAX_EVALUATIONS`].
    #[error(
        "these rules, in all the states that packets may be in, are more than {MAX_EVALUATIONS}"
    )]
    TooManyEvaluations,
}

impl RuleSet {
    /// Compiles the ways of packets that enter as `entries` say.
    ///
    /// Nothing leads out of a port that the vocabulary does not have.
    ///
    /// # Errors
    /// [`CompileError`].
    pub fn compile(&self, entries: &[Entry]) -> Result<Program, CompileError> {
        let program = self.evaluate(entries)?;
        Ok(crate::compile::order::in_order(crate::compile::share::shared(program)))
    }

    /// Partial evaluation alone: states are numbered as they are found.
    pub(crate) fn evaluate(&self, entries: &[Entry]) -> Result<Program, CompileError> {
        let mut evaluator = Evaluator {
            rules: self,
            relevance: Relevance::of(self),
            ids: HashMap::new(),
            found: Vec::new(),
            evaluations: 0,
        };
        let mut firsts = Vec::with_capacity(entries.len());
        for entry in entries {
            let known = Knowledge::at_entry(entry);
            firsts.push(evaluator.next(Place::Port(entry.port), known)?);
        }
        let mut states = Vec::new();
        while let Some(&(function, known)) = evaluator.found.get(states.len()) {
            let next = evaluator.next(Place::Function(function), known)?;
            states.push(State { function, next });
        }
        Ok(Program { states, entries: firsts, chain_slot: self.chain_slot() })
    }
}

struct Evaluator<'r> {
    rules: &'r RuleSet,
    relevance: Relevance,
    ids: HashMap<(FunctionIndex, Knowledge), StateId>,
    /// The states by number: a function, and what is known behind it.
    found: Vec<(FunctionIndex, Knowledge)>,
    /// Rules that were looked at.
    evaluations: usize,
}

impl Evaluator<'_> {
    /// The choice at a place, in the light of what is known there.
    fn next(&mut self, place: Place, known: Knowledge) -> Result<Next, CompileError> {
        let rules = self.rules;
        let mut arms = Vec::new();
        for rule in rules.rules_of(place) {
            self.evaluations += 1;
            if self.evaluations > MAX_EVALUATIONS {
                return Err(CompileError::TooManyEvaluations);
            }
            let when = rule.when.given(&known);
            if when.is_never() {
                continue;
            }
            let mut known = known;
            when.learn(&mut known);
            let then = self.target(rule.hop, known)?;
            if when.is_always() {
                return Ok(Next::of(arms, then));
            }
            arms.push(Arm { when, then });
        }
        Ok(Next::of(arms, NextHop { set_chain: None, to: To::NoRule }))
    }

    fn target(&mut self, hop: Hop, mut known: Knowledge) -> Result<NextHop, CompileError> {
        let mut set_chain = None;
        if let (Some(chain), Some(slot)) = (hop.set_chain, self.rules.chain_slot()) {
            let tag = &mut known.tags[usize::from(slot)];
            set_chain = (*tag != Known::Value(chain)).then_some(chain);
            *tag = Known::Value(chain);
        }
        let to = match hop.to {
            NextPlace::Function(function) => To::State(self.state(function, known)?),
            NextPlace::Port(port) => To::Port(port),
            NextPlace::Drop => To::Drop,
            NextPlace::NoRule => To::NoRule,
        };
        Ok(NextHop { set_chain, to })
    }

    /// The state of packets that arrive at a function with `known`.
    fn state(
        &mut self,
        function: FunctionIndex,
        known: Knowledge,
    ) -> Result<StateId, CompileError> {
        let behind = self.relevance.behind(function, known);
        let new = StateId(self.found.len() as u32);
        let id = *self.ids.entry((function, behind)).or_insert(new);
        if id == new {
            if self.found.len() == MAX_STATES {
                return Err(CompileError::TooManyStates);
            }
            self.found.push((function, behind));
        }
        Ok(id)
    }
}
