//! Writes a program for a reader: the way of each entry.

use std::collections::HashSet;
use std::fmt::{self, Write as _};

use crate::knowledge::{Entry, Known};
use crate::program::{Next, Program, StateId, Target, To};
use crate::vocabulary::{CHAIN_TAG, NO_CHAIN, TagKind, Vocabulary};

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
            f.write_str(&self.entry(entry))?;
            self.ways(f, next)?;
            f.write_char('\n')?;
        }
        Ok(())
    }
}

/// A hop that is still to be written, on a line of its own.
struct Pending {
    depth: usize,
    /// What stands before the hop: the condition of its arm.
    label: String,
    target: Target,
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

    /// Writes all ways from a first hop on.
    fn ways(&self, f: &mut fmt::Formatter<'_>, first: &Next) -> fmt::Result {
        let mut branched = HashSet::new();
        let mut pending = Vec::new();
        self.run(f, first, 0, &mut branched, &mut pending)?;
        while let Some(Pending { depth, label, target }) = pending.pop() {
            write!(f, "\n{:indent$}{label}{}", "", self.hop(target), indent = 2 * depth)?;
            if let To::State(id) = target.to {
                self.follow(f, id, depth, &mut branched, &mut pending)?;
            }
        }
        Ok(())
    }

    /// Writes the way from a state on, unless it is a branch that was written before.
    fn follow(
        &self,
        f: &mut fmt::Formatter<'_>,
        id: StateId,
        depth: usize,
        branched: &mut HashSet<StateId>,
        pending: &mut Vec<Pending>,
    ) -> fmt::Result {
        let next = &self.program.states[id.0 as usize].next;
        if matches!(next, Next::Branch(..)) && !branched.insert(id) {
            return f.write_str(" …");
        }
        self.run(f, next, depth, branched, pending)
    }

    /// Writes a straight run up to its end or to a branch, whose arms become pending.
    fn run(
        &self,
        f: &mut fmt::Formatter<'_>,
        first: &Next,
        depth: usize,
        branched: &mut HashSet<StateId>,
        pending: &mut Vec<Pending>,
    ) -> fmt::Result {
        let mut next = first;
        let mut visited = HashSet::new();
        while let Next::Go(target) = next {
            write!(f, " -> {}", self.hop(*target))?;
            let To::State(id) = target.to else { return Ok(()) };
            next = &self.program.states[id.0 as usize].next;
            let seen = match next {
                Next::Go(_) => !visited.insert(id),
                Next::Branch(..) => !branched.insert(id),
            };
            if seen {
                return f.write_str(" …");
            }
        }
        let Next::Branch(arms, otherwise) = next else { return Ok(()) };
        let inline = arms.len() == 1 && next.targets().all(|target| !leads_on(target));
        let label =
            |arm: &crate::program::Arm| format!("? {} -> ", arm.when.display(self.vocabulary));
        if inline {
            return write!(
                f,
                " {}{} : {}",
                label(&arms[0]),
                self.hop(arms[0].then),
                self.hop(*otherwise)
            );
        }
        let depth = depth + 1;
        pending.push(Pending { depth, label: ": ".to_owned(), target: *otherwise });
        pending.extend(arms.iter().rev().map(|arm| Pending {
            depth,
            label: label(arm),
            target: arm.then,
        }));
        Ok(())
    }

    /// The end of a hop, and the chain that is entered by it.
    fn hop(&self, target: Target) -> String {
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

fn leads_on(target: Target) -> bool {
    matches!(target.to, To::State(_))
}
