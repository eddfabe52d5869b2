//! Finds rules that can never take a packet, and chains that nothing leads to.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::check::partition::Partition;
use crate::condition::Condition;
use crate::language::diagnostic::Diagnostic;
use crate::language::vocabulary::{Place, PortIndex};
use crate::rule_set::{Chain, NextPlace, Origin, Rule, RuleSet};

mod loops;
mod partition;

/// What becomes of a rule among the rules of its place.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Fate {
    /// It takes some packets, as far as can be told.
    Live,
    /// Its condition holds for no packet.
    Never,
    /// The rules in these lines, before it, take all packets that it matches.
    Covered(BTreeSet<usize>),
}

impl RuleSet {
    /// What is wrong with the rules as a whole, in the order of their text: rules that can
    /// never take a packet and loops that no packet leaves are errors, a chain that nothing
    /// leads to is a warning if its functions are in use otherwise.
    ///
    /// `entries` are the ports at which packets can come in; their tags can have any value.
    /// The answer is exact for each place whose conditions tell at most 65,536 classes of
    /// packets apart; of larger ones only the obvious is found.
    pub fn check(&self, entries: &[PortIndex]) -> Vec<Diagnostic> {
        let fates: Vec<Fate> =
            self.vocabulary.places().flat_map(|place| self.fates(place)).collect();
        let live = || {
            let rules = self.rules().iter().zip(&fates);
            rules.filter(|(_, fate)| **fate == Fate::Live).map(|(rule, _)| rule)
        };
        let reached = reached(entries, live);
        let mut diagnostics = Vec::new();
        for (rule, fate) in self.rules().iter().zip(&fates) {
            diagnostics.extend(self.complain(rule, fate, &reached));
        }
        for chain in &self.chains {
            let entered = live().any(|rule| reached.contains(&rule.place) && enters(rule, chain));
            diagnostics.extend((!entered).then(|| not_entered(chain, &reached)));
        }
        diagnostics.extend(crate::check::loops::loops(self, entries));
        diagnostics.sort_by_key(|diagnostic| (diagnostic.line, diagnostic.column));
        diagnostics
    }

    /// The fate of each rule of a place.
    fn fates(&self, place: Place) -> Vec<Fate> {
        let rules = self.rules_of(place);
        let port = port_of(place);
        let conditions = rules.iter().map(|rule| &rule.when);
        let Some(partition) = Partition::of(conditions, &self.vocabulary, port) else {
            return self.plain_fates(rules, port);
        };
        let mut fates = vec![Fate::Never; rules.len()];
        for packet in partition.packets() {
            let mut first = None;
            for (rule, fate) in rules.iter().zip(&mut fates) {
                // A rule that is known to be first for some packet needs no further proof.
                if (first.is_some() && *fate == Fate::Live) || !rule.when.eval(&packet) {
                    continue;
                }
                match (first, &mut *fate) {
                    (None, _) => *fate = Fate::Live,
                    (Some(line), Fate::Covered(lines)) => {
                        lines.insert(line);
                    }
                    (Some(line), _) => *fate = Fate::Covered(BTreeSet::from([line])),
                }
                first = first.or(Some(rule.at.line));
            }
        }
        fates
    }

    /// The fates as far as they are plain to see, for a place with too many classes.
    fn plain_fates(&self, rules: &[Rule], port: Option<PortIndex>) -> Vec<Fate> {
        let always = Condition::always();
        let mut lines: HashMap<&Condition, usize> = HashMap::new();
        let mut fates = Vec::with_capacity(rules.len());
        for Rule { when, at, .. } in rules {
            let before = lines.get(&always).or_else(|| lines.get(when));
            fates.push(if self.never_holds(when, port) {
                Fate::Never
            } else if let Some(&line) = before {
                Fate::Covered(BTreeSet::from([line]))
            } else {
                lines.insert(when, at.line);
                Fate::Live
            });
        }
        fates
    }

    fn never_holds(&self, when: &Condition, port: Option<PortIndex>) -> bool {
        let classes = Partition::of([when], &self.vocabulary, port);
        classes.is_some_and(|classes| !classes.packets().any(|packet| when.eval(&packet)))
    }

    fn complain(&self, rule: &Rule, fate: &Fate, reached: &HashSet<Place>) -> Option<Diagnostic> {
        let subject = match &rule.origin {
            Origin::Rule { .. } => "this rule".to_owned(),
            Origin::Step { chain } => {
                format!("this step of the chain `{}`", self.chains[*chain].name)
            }
        };
        let unreached =
            |why| Diagnostic::error(rule.at, format!("{subject} is never reached: {why}"));
        match fate {
            Fate::Never => Some(Diagnostic::error(rule.when_at, "this condition can never hold")),
            Fate::Covered(lines) => {
                Some(unreached("earlier rules take all its packets".to_owned()).hint(see(lines)))
            }
            Fate::Live if reached.contains(&rule.place) => None,
            Fate::Live => match (&rule.origin, rule.place) {
                (Origin::Rule { from }, Place::Port(_)) => {
                    Some(unreached(format!("no packet comes in at `{from}`")))
                }
                (Origin::Rule { from }, Place::Function(_)) => {
                    Some(unreached(format!("no rule leads to `{from}`")))
                }
                // That nothing leads to a chain is said once, not at each of its steps.
                (Origin::Step { .. }, _) => None,
            },
        }
    }
}

/// The port at which packets at a place came in, if that is sure.
fn port_of(place: Place) -> Option<PortIndex> {
    match place {
        Place::Port(port) => Some(port),
        Place::Function(_) => None,
    }
}

/// The places that packets get to from the ports where they come in.
fn reached<'r, R: Iterator<Item = &'r Rule>>(
    entries: &[PortIndex],
    live: impl Fn() -> R,
) -> HashSet<Place> {
    let mut reached: HashSet<Place> = entries.iter().map(|&port| Place::Port(port)).collect();
    let mut before = 0;
    while before < reached.len() {
        before = reached.len();
        for rule in live() {
            if let NextPlace::Function(function) = rule.hop.to
                && reached.contains(&rule.place)
            {
                reached.insert(Place::Function(function));
            }
        }
    }
    reached
}

/// Whether packets get into a chain by a rule: by its name, or to its first function with the
/// tag that the classifier gave.
fn enters(rule: &Rule, chain: &Chain) -> bool {
    match rule.hop.set_chain {
        Some(value) => value == chain.value,
        None => {
            matches!(rule.origin, Origin::Rule { .. })
                && rule.hop.to == NextPlace::Function(chain.first)
        }
    }
}

fn not_entered(chain: &Chain, reached: &HashSet<Place>) -> Diagnostic {
    let message = format!("no rule leads to the chain `{}`", chain.name);
    if reached.contains(&Place::Function(chain.first)) {
        Diagnostic::warning(chain.at, message)
    } else {
        Diagnostic::error(chain.at, message)
    }
}

/// So many lines are named in a hint.
const LINES_NAMED: usize = 5;

fn see(lines: &BTreeSet<usize>) -> String {
    let mut named: Vec<String> = lines.iter().take(LINES_NAMED).map(usize::to_string).collect();
    if lines.len() > LINES_NAMED {
        named.push(format!("{} more", lines.len() - LINES_NAMED));
    }
    match named.as_slice() {
        [rest @ .., last] if !rest.is_empty() => {
            format!("see lines {} and {last}", rest.join(", "))
        }
        only => format!("see line {}", only.concat()),
    }
}
