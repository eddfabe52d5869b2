//! A rule text with all names resolved, ready to be checked, interpreted or compiled.

use std::ops::Range;

use crate::condition::Condition;
use crate::diagnostic::{Diagnostic, Position};
use crate::field::Field;
use crate::interpret::Hop;
use crate::syntax::Item;
use crate::vocabulary::{FunctionIndex, Place, Vocabulary};

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

impl RuleSet {
    /// Reads a rule text.
    ///
    /// # Errors
    /// All mistakes in the text, in its order.
    pub fn parse(text: &str, vocabulary: &Vocabulary) -> Result<Self, Vec<Diagnostic>> {
        let mut diagnostics = Vec::new();
        let items = crate::parse::items(text, &mut diagnostics);
        let (chains, rules) = crate::resolve::resolve(&items, vocabulary, &mut diagnostics);
        if diagnostics.is_empty() {
            Ok(Self::of(vocabulary.clone(), chains, rules))
        } else {
            diagnostics.sort_by_key(|diagnostic| (diagnostic.line, diagnostic.column));
            Err(diagnostics)
        }
    }

    /// The names of the chains that a text declares, in its order and each once; whatever else
    /// is wrong with the text is left to [`RuleSet::parse`].
    pub fn chains(text: &str) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for item in crate::parse::items(text, &mut Vec::new()) {
            if let Item::Chain(chain) = item
                && !names.iter().any(|name| name == chain.name.text)
            {
                names.push(chain.name.text.to_owned());
            }
        }
        names
    }

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
    fn of(vocabulary: Vocabulary, chains: Vec<Chain>, mut rules: Vec<Rule>) -> Self {
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
