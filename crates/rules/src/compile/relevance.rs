//! Which of the known values a packet's further way depends on.
//!
//! What no later rule asks for is forgotten, and numbers that no condition tells apart are
//! made equal, so that ways which are the same share their states.

use crate::condition::knowledge::{Knowledge, Known};
use crate::condition::{Condition, Test, Values};
use crate::language::field::{Field, Variable};
use crate::language::vocabulary::{FunctionIndex, Place, TAG_SLOTS};
use crate::rule_set::{NextPlace, RuleSet};

/// A set of tags and the incoming port: bit N is tag N, bit [`TAG_SLOTS`] is the port.
type Mask = u16;

const PORT: Mask = 1 << TAG_SLOTS;

pub(crate) struct Relevance {
    functions: Vec<Relevant>,
    /// By tag, sorted: the numbers at which some condition changes its mind.
    boundaries: [Vec<u32>; TAG_SLOTS],
    chain_slot: Option<u8>,
}

#[derive(Clone, Copy, Default)]
struct Relevant {
    writes: Mask,
    /// What is asked for by the rules of this function and of all that may follow.
    behind: Mask,
}

impl Relevance {
    pub(crate) fn of(rules: &RuleSet) -> Self {
        let functions = rules.vocabulary.functions();
        let mut relevance = Self {
            functions: functions
                .iter()
                .map(|function| Relevant {
                    writes: function.writes.iter().fold(0, |writes, slot| writes | 1 << slot),
                    behind: 0,
                })
                .collect(),
            boundaries: Default::default(),
            chain_slot: rules.chain_slot(),
        };
        for rule in rules.rules() {
            rule.when.tests(&mut |test| relevance.add_boundaries(test));
        }
        for boundaries in &mut relevance.boundaries {
            boundaries.sort_unstable();
            boundaries.dedup();
        }
        while relevance.spread(rules) {}
        relevance
    }

    /// What matters of `known` behind a function that packets reach with it.
    pub(crate) fn behind(&self, function: FunctionIndex, known: Knowledge) -> Knowledge {
        let relevant = self.functions[usize::from(function.0)];
        let mask = relevant.behind & !relevant.writes;
        let mut behind = Knowledge::default();
        if mask & PORT != 0 {
            behind.port = known.port;
        }
        for slot in (0..TAG_SLOTS).filter(|slot| mask & (1 << slot) != 0) {
            behind.tags[slot] = match known.tags[slot] {
                Known::Value(value) => Known::Value(self.representative(slot, value)),
                Known::Unknown => Known::Unknown,
            };
        }
        behind
    }

    /// One value for all that no condition tells apart. Chains are told apart when entered.
    fn representative(&self, slot: usize, value: u32) -> u32 {
        if self.chain_slot.map(usize::from) == Some(slot) {
            return value;
        }
        let boundaries = &self.boundaries[slot];
        let behind = boundaries.partition_point(|&boundary| boundary <= value);
        if behind == 0 { 0 } else { boundaries[behind - 1] }
    }

    fn add_boundaries(&mut self, test: &Test) {
        if let (Variable::Tag(slot), Values::Numbers(numbers)) = (test.variable, &test.values) {
            let boundaries = &mut self.boundaries[usize::from(slot)];
            for &(low, high) in numbers.as_slice() {
                boundaries.push(low);
                boundaries.extend(high.checked_add(1));
            }
        }
    }

    /// Carries what is asked for one hop back; whether that changed anything.
    fn spread(&mut self, rules: &RuleSet) -> bool {
        let mut changed = false;
        for rule in rules.rules() {
            let Place::Function(from) = rule.place else { continue };
            let mut asked = asked_by(&rule.when);
            if let (Some(_), Some(slot)) = (rule.hop.set_chain, self.chain_slot) {
                asked |= 1 << slot;
            }
            if let NextPlace::Function(to) = rule.hop.to {
                let to = self.functions[usize::from(to.0)];
                asked |= to.behind & !to.writes;
            }
            let behind = &mut self.functions[usize::from(from.0)].behind;
            changed |= *behind | asked != *behind;
            *behind |= asked;
        }
        changed
    }
}

fn asked_by(condition: &Condition) -> Mask {
    let mut asked = 0;
    condition.tests(&mut |test| {
        asked |= match test.variable {
            Variable::Tag(slot) => 1 << slot,
            Variable::Field(Field::Port) => PORT,
            Variable::Field(_) => 0,
        }
    });
    asked
}
