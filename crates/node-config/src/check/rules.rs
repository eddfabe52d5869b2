//! The rules and conditions of a file.

use weft_function::{TagSlot, TagTable, TagValues};
use weft_rules::{
    Condition, Diagnostic, Entry, FunctionPlace, Known, PortIndex, Program, RuleSet, Severity,
    TAG_SLOTS, TagKind, TagSpec, Vocabulary,
};

use super::functions::Functions;
use crate::blueprint::{Blueprint, PortPlan};
use crate::locate::Source;
use crate::mistake::{Mistake, Position};
use crate::yaml::NodeFile;

/// Where the rules stand in the file.
const RULES: &str = "rules";

/// What can be said in rules, and the rules.
pub(super) struct Rules {
    /// `None` where a mistake in names leaves it open what they mean.
    vocabulary: Option<Vocabulary>,
    /// `None` if there is a mistake.
    pub set: Option<RuleSet>,
    /// Names of the chains.
    pub chains: Vec<String>,
}

impl Rules {
    pub fn of(
        file: &NodeFile,
        ports: &[PortPlan],
        functions: &Functions,
        source: &mut Source<'_>,
    ) -> Rules {
        let chains = RuleSet::chains(&file.rules);
        let mut rules = Rules { vocabulary: None, set: None, chains };
        if !functions.complete {
            return rules;
        }
        rules.vocabulary = vocabulary(file, ports, functions, source);
        if let Some(vocabulary) = &rules.vocabulary {
            let placed = source.in_place(RULES);
            match RuleSet::parse(placed.as_ref().unwrap_or(&file.rules), vocabulary) {
                Ok(set) => rules.set = Some(set),
                Err(diagnostics) => {
                    report(&diagnostics, RULES, source);
                    if source.joins_lines(RULES) {
                        tell_of_joined_lines(source);
                    }
                }
            }
        }
        rules
    }

    /// The condition at `path`; `None` if there is a mistake.
    pub fn condition(&self, text: &str, path: &str, source: &mut Source<'_>) -> Option<Condition> {
        let placed = source.in_place(path);
        match Condition::parse(placed.as_deref().unwrap_or(text), self.vocabulary.as_ref()?) {
            Ok(condition) => Some(condition),
            Err(diagnostics) => {
                report(&diagnostics, path, source);
                None
            }
        }
    }

    /// Looks at the rules as a whole; returns what is only probably wrong.
    pub fn check(&self, source: &mut Source<'_>) -> Vec<Mistake> {
        let Some(set) = &self.set else { return Vec::new() };
        let ports = set.vocabulary().ports().len();
        let entries: Vec<PortIndex> = (0..ports).map(|index| PortIndex(index as u16)).collect();
        let diagnostics = set.check(&entries);
        let (errors, warnings): (Vec<_>, Vec<_>) =
            diagnostics.into_iter().partition(|one| one.severity == Severity::Error);
        report(&errors, RULES, source);
        mistakes(&warnings, RULES, source)
    }
}

/// Of rules whose lines YAML has joined, the joining is the mistake, whatever else is said.
fn tell_of_joined_lines(source: &mut Source<'_>) {
    let at = source.value_at(RULES);
    source.mistakes.retain(|mistake| (mistake.line, mistake.column) != (at.line, at.column));
    let message = "YAML joins the lines of these rules to one, and each rule needs its own";
    source.wrong_key(RULES, message).hint("write `rules: |`");
}

fn vocabulary(
    file: &NodeFile,
    ports: &[PortPlan],
    functions: &Functions,
    source: &mut Source<'_>,
) -> Option<Vocabulary> {
    let ports = ports.iter().map(|port| port.name.clone()).collect();
    let places = file.functions.names().zip(&functions.made).map(|(name, made)| {
        let writes = made.iter().flat_map(|made| made.plan.kind.writes);
        let slots = writes.filter_map(|tag| functions.tags.slot(tag.name));
        let writes = slots.map(|slot| slot.index() as u8).collect();
        FunctionPlace { name: name.to_owned(), writes }
    });
    match Vocabulary::new(ports, places.collect(), tag_specs(&functions.tags)) {
        Ok(vocabulary) => Some(vocabulary),
        // What is wrong with a name has been noted where it stands.
        Err(_) if !source.mistakes.is_empty() => None,
        Err(error) => {
            source.wrong_key(RULES, error.to_string());
            None
        }
    }
}

fn tag_specs(tags: &TagTable) -> Vec<TagSpec> {
    let specs = tags.iter().map(|(name, values)| TagSpec {
        name: name.to_owned(),
        kind: match values {
            TagValues::Named(names) => TagKind::Named(names.clone()),
            TagValues::Number => TagKind::Number,
        },
    });
    specs.collect()
}

/// Compiles the rules once, to see that they can be.
pub(super) fn compile(blueprint: &Blueprint, source: &mut Source<'_>) -> Option<Program> {
    let classes = blueprint.classes();
    let entries: Vec<Entry> = (0..blueprint.ports.len())
        .flat_map(|port| classes.iter().map(move |tags| (port, tags)))
        .map(|(port, tags)| entry(blueprint, port, tags))
        .collect();
    let compiled = blueprint.rules.compile(&entries);
    if let Err(error) = &compiled {
        source.wrong_key(RULES, error.to_string());
    }
    compiled.ok()
}

fn entry(blueprint: &Blueprint, port: usize, tags: &[u32; TAG_SLOTS]) -> Entry {
    let mut tags = tags.map(Known::Value);
    let PortPlan { direction, network, .. } = blueprint.ports[port];
    tags[TagSlot::DIRECTION.index()] = Known::Value(direction as u32);
    tags[TagSlot::NETWORK.index()] = Known::Value(network);
    blueprint.forget_written(port, &mut tags);
    Entry { port: PortIndex(port as u16), tags }
}

fn report(diagnostics: &[Diagnostic], path: &str, source: &mut Source<'_>) {
    let mistakes = mistakes(diagnostics, path, source);
    source.mistakes.extend(mistakes);
}

/// What was said of the text at `path`, which was read [in
/// place](Source::in_place) if it could be.
fn mistakes(diagnostics: &[Diagnostic], path: &str, source: &Source<'_>) -> Vec<Mistake> {
    let elsewhere = source.in_place(path).is_none().then(|| source.value_at(path));
    let mistakes = diagnostics.iter().map(|diagnostic| {
        let Diagnostic { line, column, ref message, ref hint, .. } = *diagnostic;
        let at = elsewhere.unwrap_or(Position { line, column });
        Mistake { hint: hint.clone(), ..Mistake::at(at, message) }
    });
    mistakes.collect()
}
