//! From a path (`ports.access.gateways.0`) to the place in the file.

use crate::document::{Content, Key, Node, Style};
use crate::mistake::{Mistake, Position};

/// A configuration as it was written, with the mistakes that were found in it.
#[derive(Debug)]
pub struct Source<'t> {
    lines: Vec<&'t str>,
    /// The document.
    pub root: Node,
    /// What was found wrong so far.
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
    pub fn value_at(&self, path: &str) -> Position {
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

    /// The text at `path` with blanks before it, so that every character of it
    /// has the line and column that it has in the file: a mistake found in it has
    /// the right place. `None` for a text that stands in the file
    /// otherwise than it reads, with its lines joined or with escapes.
    pub fn in_place(&self, path: &str) -> Option<String> {
        let node = self.find(path).node;
        match &node.content {
            Content::Text(text, Style::Literal) => self.literal_in_place(text, node.at),
            Content::Text(text, Style::Flow) => self.flow_in_place(text, node.at),
            _ => None,
        }
    }

    /// Whether the text at `path` is written in several lines that YAML joins to one, as it does
    /// where no `|` stands before them.
    pub fn joins_lines(&self, path: &str) -> bool {
        let node = self.find(path).node;
        match &node.content {
            Content::Text(_, Style::Folded) => true,
            Content::Text(text, Style::Flow) => {
                let line = self.lines.get(node.at.line - 1);
                let first = line.and_then(|line| line.chars().nth(node.at.column - 1));
                first != Some('"') && self.flow_in_place(text, node.at).is_none()
            }
            _ => false,
        }
    }

    /// The lines of a literal block are lines of the file, indented. Its node
    /// begins at its first line that is not empty, or at its anchor before.
    fn literal_in_place(&self, text: &str, at: Position) -> Option<String> {
        let blank = text.lines().take_while(|line| line.trim().is_empty()).count();
        let first = text.lines().nth(blank)?;
        let mut rest = self.lines.iter().enumerate().skip(at.line - 1);
        let (start, raw) = rest.find(|(_, raw)| raw.trim() == first.trim())?;
        let indent = " ".repeat(raw.chars().count().checked_sub(first.chars().count())?);
        let mut placed = "\n".repeat(start.checked_sub(blank)?);
        for line in text.lines() {
            placed.extend([indent.as_str(), line, "\n"]);
        }
        Some(placed)
    }

    /// On one line and without escapes, a text stands in the file as it is.
    fn flow_in_place(&self, text: &str, at: Position) -> Option<String> {
        let mut raw = self.lines.get(at.line - 1)?.chars().skip(at.column - 1).peekable();
        let quote = raw.next_if(|first| matches!(first, '"' | '\''));
        let before = at.column - 1 + usize::from(quote.is_some());
        let same = raw.take(text.chars().count()).eq(text.chars());
        same.then(|| format!("{}{}{text}", "\n".repeat(at.line - 1), " ".repeat(before)))
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

    /// Takes the mapping at the key `from` of the document out and adds its entries to each of
    /// the mappings at the keys `into`, where they lack them. A mistake in an entry is still
    /// reported where the entry was written.
    pub fn distribute(&mut self, from: &str, into: &[&str]) {
        let Content::Map(entries) = &mut self.root.content else { return };
        let Some(at) = entries.iter().position(|(key, _)| key.text == from) else { return };
        let (key, shared) = entries.remove(at);
        let Content::Map(shared) = shared.content else {
            self.note(key.at, format!("`{from}` must be a mapping"));
            return;
        };
        for (_, node) in entries.iter_mut().filter(|(key, _)| into.contains(&&*key.text)) {
            let Content::Map(own) = &mut node.content else { continue };
            let missing =
                shared.iter().filter(|(key, _)| own.iter().all(|(k, _)| k.text != key.text));
            let missing: Vec<_> = missing.cloned().collect();
            own.extend(missing);
        }
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
