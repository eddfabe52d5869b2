//! From a path (`ports.access.gateways.0`) to the place in the file.

use super::document::{Content, Key, Node, Style};
use super::mistake::{Mistake, Position};

/// A configuration as it was written, with the mistakes that were found in it.
#[derive(Debug)]
pub(super) struct Source<'t> {
    lines: Vec<&'t str>,
    pub root: Node,
    pub mistakes: Vec<Mistake>,
}

/// What a path leads to.
struct Found<'n> {
    node: &'n Node,
    key: Option<&'n Key>,
}

impl<'t> Source<'t> {
    /// Reads a text.
    ///
    /// # Errors
    /// The mistake behind which nothing can be read.
    pub fn read(text: &'t str) -> Result<Source<'t>, Mistake> {
        let mut mistakes = Vec::new();
        let root = Node::parse(text, &mut mistakes)?;
        Ok(Source { lines: text.lines().collect(), root, mistakes })
    }

    /// Notes a mistake about the value at `path`, or where it is missing, about
    /// what it is missing from.
    pub fn wrong(&mut self, path: &str, message: impl Into<String>) -> &mut Mistake {
        self.note(self.value_at(path), message)
    }

    /// Notes a mistake about the key at the end of `path`.
    pub fn wrong_key(&mut self, path: &str, message: impl Into<String>) -> &mut Mistake {
        self.note(self.key_at(path), message)
    }

    /// Notes a mistake at a place.
    pub fn note(&mut self, at: Position, message: impl Into<String>) -> &mut Mistake {
        let end = self.mistakes.len();
        self.mistakes.push(Mistake::at(at, message));
        &mut self.mistakes[end]
    }

    /// Where the value at `path` stands. Of a list, a mapping, or nothing at
    /// all, that is the key.
    fn value_at(&self, path: &str) -> Position {
        let Found { node, key } = self.find(path);
        match (&node.content, key) {
            (Content::List(_) | Content::Map(_) | Content::Null, Some(key)) => key.at,
            _ => node.at,
        }
    }

    fn key_at(&self, path: &str) -> Position {
        let Found { node, key } = self.find(path);
        key.map_or(node.at, |key| key.at)
    }

    /// The file's place for a line and column, from 1, inside the text at
    /// `path`; where they cannot be told, where the text begins.
    pub fn inside(&self, path: &str, line: usize, column: usize) -> Position {
        let node = self.find(path).node;
        let place = match &node.content {
            Content::Text(text, Style::Literal) => self.inside_literal(text, node.at, line, column),
            Content::Text(text, Style::Flow) => self.inside_flow(text, node.at, line, column),
            _ => None,
        };
        place.unwrap_or(node.at)
    }

    /// The lines of a literal block are lines of the file, indented. Its node
    /// begins at its first line that is not empty, or at its anchor before.
    fn inside_literal(
        &self,
        text: &str,
        at: Position,
        line: usize,
        column: usize,
    ) -> Option<Position> {
        let blank = text.lines().take_while(|line| line.trim().is_empty()).count();
        let first = text.lines().nth(blank)?.trim();
        let rest = self.lines.iter().enumerate().skip(at.line - 1);
        let start = rest.into_iter().find(|(_, raw)| raw.trim() == first)?.0 + 1;
        let place = (start + line).checked_sub(blank + 1)?;
        let raw = self.lines.get(place.checked_sub(1)?)?;
        let indent =
            raw.chars().count().checked_sub(text.lines().nth(line - 1)?.chars().count())?;
        Some(Position { line: place, column: indent + column })
    }

    /// On one line and without escapes, a text stands in the file as it is.
    fn inside_flow(
        &self,
        text: &str,
        at: Position,
        line: usize,
        column: usize,
    ) -> Option<Position> {
        let raw: Vec<char> = self.lines.get(at.line - 1)?.chars().collect();
        let quote = usize::from(matches!(raw.get(at.column - 1), Some('"' | '\'')));
        let start = at.column - 1 + quote;
        let before: Vec<char> = text.chars().take(column - 1).collect();
        let same = line == 1 && raw.get(start..)?.starts_with(&before);
        same.then_some(Position { line: at.line, column: start + column })
    }

    /// Follows `path` as far as it leads.
    fn find(&self, path: &str) -> Found<'_> {
        let mut found = Found { node: &self.root, key: None };
        let mut rest = path;
        while let Some((key, node, behind)) = found.node.step(rest) {
            found = Found { node, key };
            rest = behind;
        }
        found
    }

    /// Takes out what `path` leads to. False if it leads nowhere.
    pub fn remove(&mut self, path: &str) -> bool {
        let mut node = &mut self.root;
        let mut rest = path;
        loop {
            let Some((index, behind)) = node.index(rest) else { return false };
            let last = behind.is_empty();
            node = match &mut node.content {
                Content::List(items) if last => {
                    items.remove(index);
                    return true;
                }
                Content::Map(entries) if last => {
                    entries.remove(index);
                    return true;
                }
                Content::List(items) => &mut items[index],
                Content::Map(entries) => &mut entries[index].1,
                _ => return false,
            };
            rest = behind;
        }
    }
}

impl Node {
    /// The text at a key of a mapping.
    pub fn text(&self, key: &str) -> Option<&str> {
        match &self.step(key)?.1.content {
            Content::Text(text, _) => Some(text),
            _ => None,
        }
    }

    /// One step along `path`: the key, the value and the rest of the path.
    fn step<'n, 'p>(&'n self, path: &'p str) -> Option<(Option<&'n Key>, &'n Node, &'p str)> {
        let (index, behind) = self.index(path)?;
        match &self.content {
            Content::List(items) => Some((None, &items[index], behind)),
            Content::Map(entries) => Some((Some(&entries[index].0), &entries[index].1, behind)),
            _ => None,
        }
    }

    /// Which item or entry `path` goes on with, and the rest of it. Keys may
    /// have dots in them, as addresses do: the longest one that fits counts.
    fn index<'p>(&self, path: &'p str) -> Option<(usize, &'p str)> {
        if path.is_empty() {
            return None;
        }
        let behind = |key: &str| match path.strip_prefix(key)? {
            "" => Some(""),
            rest => rest.strip_prefix('.'),
        };
        match &self.content {
            Content::List(items) => {
                let number = path.split('.').next()?;
                let index = number.parse().ok().filter(|index| *index < items.len())?;
                Some((index, behind(number)?))
            }
            Content::Map(entries) => {
                let fitting = entries.iter().enumerate().filter_map(|(index, (key, _))| {
                    Some((key.text.len(), index, behind(&key.text)?))
                });
                fitting.max_by_key(|(length, ..)| *length).map(|(_, index, rest)| (index, rest))
            }
            _ => None,
        }
    }
}
