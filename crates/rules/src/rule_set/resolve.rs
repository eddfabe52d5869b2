//! Looks up the names of a rule text and replaces chains by the rules they stand for.

use crate::condition::interval::Intervals;
use crate::condition::{Condition, Values};
use crate::language::diagnostic::Diagnostic;
use crate::language::field::Variable;
use crate::language::syntax::{self, Item, Name};
use crate::language::vocabulary::{CHAIN_TAG, DROP, FunctionIndex, Place, PortIndex, Vocabulary};
use crate::rule_set::{Chain, Hop, NextPlace, Origin, Rule, RuleSet};

impl RuleSet {
    /// Reads a rule text.
    ///
    /// # Errors
    /// All mistakes in the text, in its order.
    pub fn parse(text: &str, vocabulary: &Vocabulary) -> Result<Self, Vec<Diagnostic>> {
        let mut diagnostics = Vec::new();
        let items = crate::language::parse::items(text, &mut diagnostics);
        let (chains, rules) = resolve(&items, vocabulary, &mut diagnostics);
        if diagnostics.is_empty() {
            Ok(Self::of(vocabulary.clone(), chains, rules))
        } else {
            diagnostics.sort_by_key(|diagnostic| (diagnostic.line, diagnostic.column));
            Err(diagnostics)
        }
    }

    /// The names of the chains that a text declares, in its order and each once. Other
    /// mistakes of the text are left to [`RuleSet::parse`].
    pub fn chains(text: &str) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for item in crate::language::parse::items(text, &mut Vec::new()) {
            if let Item::Chain(chain) = item
                && !names.iter().any(|name| name == chain.name.text)
            {
                names.push(chain.name.text.to_owned());
            }
        }
        names
    }
}

/// Resolves the items of a text; the result is of use only if nothing was reported.
pub(crate) fn resolve(
    items: &[Item<'_>],
    vocabulary: &Vocabulary,
    diagnostics: &mut Vec<Diagnostic>,
) -> (Vec<Chain>, Vec<Rule>) {
    // Chains may be used before the line that declares them.
    let chains = || {
        items.iter().filter_map(|item| match item {
            Item::Chain(chain) => Some(chain),
            Item::Rule(_) => None,
        })
    };
    let names = chains().map(|chain| chain.name).collect();
    let mut resolver = Resolver { vocabulary, diagnostics, names, chains: Vec::new() };
    for chain in chains() {
        resolver.declare(chain);
    }
    let mut rules = Vec::new();
    for item in items {
        match item {
            Item::Chain(chain) => resolver.steps(chain, &mut rules),
            Item::Rule(rule) => rules.extend(resolver.rule(rule)),
        }
    }
    (resolver.chains, rules)
}

struct Resolver<'r, 't> {
    vocabulary: &'r Vocabulary,
    diagnostics: &'r mut Vec<Diagnostic>,
    /// Names of all chains in the text, those with mistakes included.
    names: Vec<Name<'t>>,
    chains: Vec<Chain>,
}

/// What the name of a place means.
enum Meaning<'r> {
    Drop,
    Port(PortIndex),
    Function(FunctionIndex),
    Chain(&'r Chain),
    /// A chain with a mistake that has been reported.
    BadChain,
    Unknown,
}

impl<'r, 't> Resolver<'r, 't> {
    fn declare(&mut self, chain: &syntax::Chain<'t>) {
        let name = chain.name;
        let first = self.names.iter().find(|other| other.text == name.text);
        if let Some(first) = first.filter(|first| first.at != name.at) {
            let message = format!("the chain `{}` is declared twice", name.text);
            let hint = format!("first in line {}", first.at.line);
            return self.report(Diagnostic::error(name.at, message).hint(hint));
        }
        if let Some(kind) = self.taken(name.text) {
            let message = format!("`{}` is the name of a {kind}", name.text);
            let hint = "give the chain a name of its own";
            return self.report(Diagnostic::error(name.at, message).hint(hint));
        }
        let functions = self.functions_of(chain);
        let value = self.value_of(name);
        if let (Some(value), Some(functions)) = (value, functions)
            && let (Some(&first), Some(&last)) = (functions.first(), functions.last())
        {
            let (name, at) = (name.text.to_owned(), name.at);
            self.chains.push(Chain { name, at, value, first, last });
        }
    }

    /// What else bears this name.
    fn taken(&self, name: &str) -> Option<&'static str> {
        match self.meaning(name) {
            Meaning::Drop => Some("built-in target"),
            Meaning::Port(_) => Some("port"),
            Meaning::Function(_) => Some("function"),
            _ => None,
        }
    }

    /// The functions of a chain, `None` if one of them is wrong.
    fn functions_of(&mut self, chain: &syntax::Chain<'t>) -> Option<Vec<FunctionIndex>> {
        let mut functions = Vec::with_capacity(chain.functions.len());
        let mut good = true;
        for name in &chain.functions {
            let Some(function) = self.vocabulary.function(name.text) else {
                let diagnostic = self.no_function(name);
                self.report(diagnostic);
                good = false;
                continue;
            };
            if functions.contains(&function) {
                let message = format!("`{}` stands twice in one chain", name.text);
                let hint = "rules cannot tell its visits apart: use a second instance";
                self.report(Diagnostic::error(name.at, message).hint(hint));
                good = false;
            }
            functions.push(function);
        }
        good.then_some(functions)
    }

    fn no_function(&self, name: &Name<'_>) -> Diagnostic {
        let functions = self.vocabulary.functions().iter().map(|place| place.name.as_str());
        match self.taken(name.text) {
            Some(kind) => {
                let message = format!("`{}` is a {kind}, a chain has only functions", name.text);
                Diagnostic::error(name.at, message)
            }
            None if self.names.iter().any(|chain| chain.text == name.text) => {
                let message = format!("`{}` is a chain, a chain has only functions", name.text);
                Diagnostic::error(name.at, message)
            }
            None => Diagnostic::error(name.at, format!("there is no function `{}`", name.text))
                .suggest(name.text, functions),
        }
    }

    /// The value of the tag `chain` that stands for a chain.
    fn value_of(&mut self, name: Name<'_>) -> Option<u32> {
        let slot = self.vocabulary.chain_slot();
        let value = slot.and_then(|slot| self.vocabulary.tag_value(slot, name.text));
        if value.is_none() {
            let message = format!("the tag `{CHAIN_TAG}` has no value `{}`", name.text);
            self.report(Diagnostic::error(name.at, message));
        }
        value
    }

    /// Adds the rules from each function of a chain to the next.
    fn steps(&self, chain: &syntax::Chain<'t>, rules: &mut Vec<Rule>) {
        let index = self.chains.iter().position(|declared| declared.at == chain.name.at);
        let Some(index) = index else { return };
        for step in chain.functions.windows(2) {
            let functions =
                (self.vocabulary.function(step[0].text), self.vocabulary.function(step[1].text));
            let (Some(from), Some(to)) = functions else { return };
            rules.push(Rule {
                place: Place::Function(from),
                when: self.in_chain(&self.chains[index]),
                hop: Hop { set_chain: None, to: NextPlace::Function(to) },
                at: step[0].at,
                when_at: step[0].at,
                origin: Origin::Step { chain: index },
            });
        }
    }

    /// `None` if something is wrong with the rule; all of that is reported.
    fn rule(&mut self, rule: &syntax::Rule<'t>) -> Option<Rule> {
        let source = self.source(&rule.from);
        let when = match &rule.when {
            Some((_, expression)) => {
                crate::rule_set::values::condition(expression, self.vocabulary, self.diagnostics)
            }
            None => Condition::always(),
        };
        let hop = self.target(&rule.to);
        let (place, chain) = source?;
        let when = Condition::all(chain.into_iter().chain([when]));
        let when_at = rule.when.as_ref().map_or(rule.at, |(at, _)| *at);
        let origin = Origin::Rule { from: rule.from.text.to_owned() };
        Some(Rule { place, when, hop: hop?, at: rule.at, when_at, origin })
    }

    /// The place of a rule, and the condition that the packet is in the chain it names.
    fn source(&mut self, name: &Name<'_>) -> Option<(Place, Option<Condition>)> {
        let diagnostic = match self.meaning(name.text) {
            Meaning::Port(port) => return Some((Place::Port(port), None)),
            Meaning::Function(function) => return Some((Place::Function(function), None)),
            Meaning::Chain(chain) => {
                return Some((Place::Function(chain.last), Some(self.in_chain(chain))));
            }
            Meaning::BadChain => return None,
            Meaning::Drop => Diagnostic::error(name.at, "nothing comes from `drop`")
                .hint("packets that go to `drop` end there"),
            Meaning::Unknown => self.no_place(name, None),
        };
        self.report(diagnostic);
        None
    }

    fn target(&mut self, name: &Name<'_>) -> Option<Hop> {
        let hop = |to| Some(Hop { set_chain: None, to });
        match self.meaning(name.text) {
            Meaning::Drop => hop(NextPlace::Drop),
            Meaning::Port(port) => hop(NextPlace::Port(port)),
            Meaning::Function(function) => hop(NextPlace::Function(function)),
            Meaning::Chain(chain) => {
                Some(Hop { set_chain: Some(chain.value), to: NextPlace::Function(chain.first) })
            }
            Meaning::BadChain => None,
            Meaning::Unknown => {
                let diagnostic = self.no_place(name, Some(DROP));
                self.report(diagnostic);
                None
            }
        }
    }

    fn no_place<'n>(&'n self, name: &Name<'_>, also: Option<&'n str>) -> Diagnostic {
        let ports = self.vocabulary.ports().iter().map(String::as_str);
        let functions = self.vocabulary.functions().iter().map(|place| place.name.as_str());
        let chains = self.names.iter().map(|chain| chain.text);
        Diagnostic::error(name.at, format!("there is no place `{}`", name.text))
            .suggest(name.text, ports.chain(functions).chain(chains).chain(also))
    }

    fn meaning(&self, name: &str) -> Meaning<'_> {
        if name == DROP {
            Meaning::Drop
        } else if let Some(port) = self.vocabulary.port(name) {
            Meaning::Port(port)
        } else if let Some(function) = self.vocabulary.function(name) {
            Meaning::Function(function)
        } else if let Some(chain) = self.chains.iter().find(|chain| chain.name == name) {
            Meaning::Chain(chain)
        } else if self.names.iter().any(|chain| chain.text == name) {
            Meaning::BadChain
        } else {
            Meaning::Unknown
        }
    }

    /// The condition that a packet is in a chain.
    fn in_chain(&self, chain: &Chain) -> Condition {
        let numbers = Values::Numbers(Intervals::range(chain.value, chain.value));
        // A chain without the tag was reported and is not among the declared ones.
        self.vocabulary
            .chain_slot()
            .map_or(Condition::never(), |slot| Condition::test(Variable::Tag(slot), numbers))
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }
}
