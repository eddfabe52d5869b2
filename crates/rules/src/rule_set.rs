//! A rule text with all names resolved, ready to be checked, interpreted or compiled.

use std::ops::Range;

use crate::condition::Condition;
use crate::language::diagnostic::Position;
use crate::language::field::Field;
use crate::language::vocabulary::{FunctionIndex, Place, PortIndex, Vocabulary};

mod interpret;
mod resolve;
mod values;

/// The rules of one node, in the order of their text.
#[derive(Clone, Debug)]
pub struct RuleSet {
    pub(crate) vocabulary: Vocabulary,
    /// Sorted by place, and within a place by text.
    rules: Vec<Rule>,
    /// Where the rules of each place lie in `rules`: of ports, then of functions.
    spans: Vec<Range<usize>>,
    pub(crate) chains: Vec<Chain>,
    chain_slot: Option<u8>,
}

/// One rule of one place; the steps inside a chain are rules as well.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub place: Place,
    pub when: Condition,
    pub hop: Hop,
    /// Where the rule begins.
    pub at: Position,
    /// Where its condition begins; where the rule begins if it has none.
    pub when_at: Position,
    pub origin: Origin,
}

/// How a rule was written.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// As a rule from the port, function or chain of this name.
    Rule { from: String },
    /// As a step of the chain at this position of [`RuleSet::chains`].
    Step { chain: usize },
}

/// A declared chain.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    pub name: String,
    pub at: Position,
    /// Its value of the tag `chain`.
    pub value: u32,
    pub first: FunctionIndex,
    pub last: FunctionIndex,
}

/// Where a packet goes from a place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Hop {
    /// Value to give to the tag `chain` on the way, if the packet enters a chain.
    pub set_chain: Option<u32>,
    /// The next place.
    pub to: NextPlace,
}

/// The end of a hop.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NextPlace {
    /// The packet is processed by this function.
    Function(FunctionIndex),
    /// The packet leaves at this port.
    Port(PortIndex),
    /// A rule drops the packet.
    Drop,
    /// No rule matches: the packet is dropped, with the reason `no_rule`.
    NoRule,
}

impl RuleSet {
    /// The names that the rules were resolved with.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// The slot of the tag `chain`, if there is such a tag.
    pub fn chain_slot(&self) -> Option<u8> {
        self.chain_slot
    }

    /// The header fields that some rule reads, in the order of [`Field::ALL`].
    pub fn fields(&self) -> Vec<Field> {
        let mut used = [false; Field::ALL.len()];
        for rule in &self.rules {
            rule.when.fields(|field| used[field as usize] = true);
        }
        Field::ALL.into_iter().filter(|&field| used[field as usize]).collect()
    }

    /// All rules, grouped by place.
    pub(crate) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The rules of a place in the order in which they are tried.
    pub(crate) fn rules_of(&self, place: Place) -> &[Rule] {
        let number = match place {
            Place::Port(port) => usize::from(port.0),
            Place::Function(function) => self.vocabulary.ports().len() + usize::from(function.0),
        };
        self.spans.get(number).map_or(&[], |span| &self.rules[span.clone()])
    }

    /// `rules` are in the order of the text.
    pub(crate) fn of(vocabulary: Vocabulary, chains: Vec<Chain>, mut rules: Vec<Rule>) -> Self {
        rules.sort_by_key(|rule| rule.place);
        let span = |place| {
            let start = rules.partition_point(|rule| rule.place < place);
            start..rules.partition_point(|rule| rule.place <= place)
        };
        let spans = vocabulary.places().map(span).collect();
        let chain_slot = vocabulary.chain_slot();
        Self { vocabulary, rules, spans, chains, chain_slot }
    }
}
