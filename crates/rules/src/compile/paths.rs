//! Writes a program for a reader: the way of each entry.

use std::collections::HashSet;
use std::fmt;

use crate::compile::program::{Arm, Next, NextHop, Program, StateId, To};
use crate::condition::knowledge::{Entry, Known};
use crate::language::vocabulary::{CHAIN_TAG, NO_CHAIN, TagKind, Vocabulary};

/// The ways of a program's entries; made by [`Program::paths`].
///
/// A straight way is one line; a branch is a line per arm, `?` before each condition and `:`
/// before what is left. `…` stands for a way that was written out before.
#[derive(Clone, Copy, Debug)]
pub struct Paths<'p> {
    program: &'p Program,
    vocabulary: &'p Vocabulary,
    entries: &'p [Entry],
}

impl Program {
    /// The way of each entry as text. `entries` are those that the program was compiled for.
    pub fn paths<'p>(&'p self, vocabulary: &'p Vocabulary, entries: &'p [Entry]) -> Paths<'p> {
        Paths { program: self, vocabulary, entries }
    }
}

impl fmt::Display for Paths<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (entry, next) in self.entries.iter().zip(&self.program.entries) {
            let mut way = PathText {
                paths: self,
                text: self.entry(entry),
                branched: HashSet::new(),
                pending: Vec::new(),
            };
            way.write(next);
            writeln!(f, "{}", way.text)?;
        }
        Ok(())
    }
}

impl Paths<'_> {
    fn entry(&self, entry: &Entry) -> String {
        let tags = self.vocabulary.tags().iter().zip(entry.tags).zip(0..);
        let known = tags.filter_map(|((tag, known), slot)| match known {
            Known::Value(value) => {
                let name = self.vocabulary.tag_value_name(slot, value);
                Some(match (&tag.kind, name) {
                    (_, Some(name)) => format!("{}={name}", tag.name),
                    (TagKind::Named(_), None) if value == NO_CHAIN => format!("{}=none", tag.name),
                    _ => format!("{}={value}", tag.name),
                })
            }
            Known::Unknown => None,
        });
        let known: Vec<String> = known.collect();
        let port = self.vocabulary.port_name(entry.port);
        if known.is_empty() { port.to_owned() } else { format!("{port} [{}]", known.join(" ")) }
    }

    /// The end of a hop, and the chain that is entered by it.
    fn hop(&self, target: NextHop) -> String {
        let place = match target.to {
            To::State(id) => {
                self.vocabulary.function_name(self.program.states[id.0 as usize].function)
            }
            To::Port(port) => self.vocabulary.port_name(port),
            To::Drop => "drop",
            To::NoRule => "no_rule",
        };
        let chain = target
            .set_chain
            .and_then(|chain| self.vocabulary.tag_value_name(self.vocabulary.chain_slot()?, chain));
        match chain {
            Some(chain) => format!("[{CHAIN_TAG}={chain}] {place}"),
            None => place.to_owned(),
        }
    }
}

/// The way of one entry while it is written.
struct PathText<'w> {
    paths: &'w Paths<'w>,
    text: String,
    /// States with a branch that has been written out.
    branched: HashSet<StateId>,
    /// Arms that are still to be written, the next one last.
    pending: Vec<Line>,
}

/// A line for one arm of a branch.
struct Line {
    depth: usize,
    /// What stands before the hop: the condition of the arm.
    label: String,
    target: NextHop,
}

impl PathText<'_> {
    fn write(&mut self, first: &Next) {
        self.run(first, 0);
        while let Some(Line { depth, label, target }) = self.pending.pop() {
            let indent = "  ".repeat(depth);
            self.text.push_str(&format!("\n{indent}{label}{}", self.paths.hop(target)));
            if let To::State(id) = target.to {
                let next = &self.paths.program.states[id.0 as usize].next;
                if matches!(next, Next::Branch(..)) && !self.branched.insert(id) {
                    self.text.push_str(" …");
                } else {
                    self.run(next, depth);
                }
            }
        }
    }

    /// Writes a straight run up to its end or to a branch, whose arms become pending.
    fn run(&mut self, first: &Next, depth: usize) {
        let mut next = first;
        let mut visited = HashSet::new();
        while let Next::Go(target) = next {
            self.text.push_str(&format!(" -> {}", self.paths.hop(*target)));
            let To::State(id) = target.to else { return };
            next = &self.paths.program.states[id.0 as usize].next;
            let new = match next {
                Next::Go(_) => visited.insert(id),
                Next::Branch(..) => self.branched.insert(id),
            };
            if !new {
                return self.text.push_str(" …");
            }
        }
        if let Next::Branch(arms, otherwise) = next {
            self.branch(arms, *otherwise, depth + 1);
        }
    }

    fn branch(&mut self, arms: &[Arm], otherwise: NextHop, depth: usize) {
        let label = |arm: &Arm| format!("? {} -> ", arm.when.display(self.paths.vocabulary));
        if let [arm] = arms
            && !leads_on(arm.then)
            && !leads_on(otherwise)
        {
            let (then, otherwise) = (self.paths.hop(arm.then), self.paths.hop(otherwise));
            let text = format!(" {}{then} : {otherwise}", label(arm));
            return self.text.push_str(&text);
        }
        self.pending.push(Line { depth, label: ": ".to_owned(), target: otherwise });
        let lines =
            arms.iter().rev().map(|arm| Line { depth, label: label(arm), target: arm.then });
        self.pending.extend(lines);
    }
}

fn leads_on(target: NextHop) -> bool {
    matches!(target.to, To::State(_))
}
