//! A YAML document that knows where everything in it stands.
//!
//! There is one parser only: what is located is what is read. Plain scalars
//! are resolved by the core schema of YAML 1.2 (§10.3.2), so `on` and
//! `02:00:00:00:00:01` are text.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use crate::mistake::{Mistake, Position};
use crate::syntax::{position, unreadable};

/// Lists and mappings may be nested so deep, by way of aliases too.
pub(crate) const NESTING: usize = 64;
/// So many nodes may come of a file.
const NODES: usize = 2_000_000;
/// So many nodes may be copies: one of each that has an anchor, and one for each alias.
const COPIES: usize = 100_000;
/// So many bytes of text may be copies.
const COPIED_BYTES: usize = 4 << 20;

/// A value and where it begins.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where it begins.
    pub at: Position,
    /// What it is.
    pub content: Content,
}

/// What a value is.
#[derive(Clone, Debug)]
pub enum Content {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number from 0.
    Unsigned(u64),
    /// A whole number below 0.
    Signed(i64),
    /// Any other finite number.
    Float(f64),
    /// Text.
    Text(String, Style),
    /// A list.
    List(Vec<Node>),
    /// A mapping, in the order of the file.
    Map(Vec<(Key, Node)>),
}

/// How a text is written, as far as positions in it depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Plain or in quotes.
    Flow,
    /// A block in which line ends are kept: `|`.
    Literal,
    /// A block in which lines are joined: `>`.
    Folded,
}

/// A key of a mapping and where it stands.
#[derive(Clone, Debug)]
pub struct Key {
    /// The key.
    pub text: String,
    /// Where it stands.
    pub at: Position,
}

/// Where a carriage return stands that no line feed follows. It ends a line in YAML, but not
/// for what shows files, so that no place in the file could be named.
fn lone_return(text: &str) -> Option<Position> {
    let octets = text.as_bytes();
    let is_lone = |at: &usize| octets[*at] == b'\r' && octets.get(at + 1) != Some(&b'\n');
    let at = (0..octets.len()).find(is_lone)?;
    let before = &text[..at];
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |feed| feed + 1);
    Some(Position { line, column: before[start..].chars().count() + 1 })
}

impl Node {
    /// Reads the one document of `text`. Keys that are given twice are added to
    /// `mistakes`; the first value counts.
    ///
    /// # Errors
    /// The mistake behind which nothing can be read.
    pub fn parse(text: &str, mistakes: &mut Vec<Mistake>) -> Result<Node, Mistake> {
        if let Some(at) = lone_return(text) {
            let message = "a carriage return without a line feed: editors and YAML disagree \
                           whether a line ends here";
            return Err(Mistake::at(at, message));
        }
        let parser = Parser::new_from_str(text);
        let mut builder = Builder {
            text,
            parser,
            anchors: HashMap::new(),
            nodes: 0,
            copies: 0,
            copied_bytes: 0,
            mistakes,
        };
        let root = loop {
            match builder.event()? {
                (Event::StreamStart | Event::DocumentStart(_), _) => {}
                (Event::StreamEnd, _) => {
                    return Err(Mistake::at(Position::START, "there is nothing in this file"));
                }
                (event, at) => break builder.node(event, at, 0)?.0,
            }
        };
        loop {
            match builder.event()? {
                (Event::DocumentStart(_), at) => {
                    return Err(Mistake::at(at, "a second document begins: a file has one"));
                }
                (Event::StreamEnd, _) => return Ok(root),
                _ => {}
            }
        }
    }
}

struct Builder<'t, 'm> {
    text: &'t str,
    parser: Parser<'t, saphyr_parser::StrInput<'t>>,
    anchors: HashMap<usize, (Node, Size)>,
    nodes: usize,
    copies: usize,
    copied_bytes: usize,
    mistakes: &'m mut Vec<Mistake>,
}

/// How large a node is, with all that it has inside.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// Nodes, itself included.
    nodes: usize,
    /// Bytes of keys and texts.
    bytes: usize,
    /// Levels below itself.
    depth: usize,
}

impl Size {
    /// A node with nothing inside.
    const LEAF: Size = Size { nodes: 1, bytes: 0, depth: 0 };

    /// And one more node inside.
    fn hold(&mut self, inside: Size) {
        self.nodes += inside.nodes;
        self.bytes += inside.bytes;
        self.depth = self.depth.max(inside.depth + 1);
    }
}

impl<'t> Builder<'t, '_> {
    fn event(&mut self) -> Result<(Event<'t>, Position), Mistake> {
        match self.parser.next_event() {
            Some(Ok((event, Span { start, .. }))) => Ok((event, position(&start))),
            Some(Err(error)) => Err(unreadable(&error, self.text)),
            None => Ok((Event::StreamEnd, Position::START)),
        }
    }

    fn node(
        &mut self,
        event: Event<'t>,
        at: Position,
        depth: usize,
    ) -> Result<(Node, Size), Mistake> {
        check_depth(depth, at)?;
        let (content, size, anchor) = match event {
            Event::Alias(id) => return self.alias(id, at, depth),
            Event::Scalar(.., Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => {
                let mut mistake = Mistake::at(at, "YAML tags (`!`) mean nothing here");
                mistake.hint("put text in quotes to keep it text");
                return Err(mistake);
            }
            Event::Scalar(text, style, anchor, None) => {
                (scalar(&text, style), Size { bytes: text.len(), ..Size::LEAF }, anchor)
            }
            Event::SequenceStart(anchor, None) => {
                let (content, size) = self.list(depth)?;
                (content, size, anchor)
            }
            Event::MappingStart(anchor, None) => {
                let (content, size) = self.map(depth)?;
                (content, size, anchor)
            }
            _ => (Content::Null, Size::LEAF, 0),
        };
        self.count(1, at)?;
        let node = Node { at, content };
        if anchor > 0 {
            self.count_copy(size, at)?;
            self.anchors.insert(anchor, (node.clone(), size));
        }
        Ok((node, size))
    }

    /// A copy of what an anchor stands at, with its positions there. It is counted before
    /// it is made.
    fn alias(&mut self, id: usize, at: Position, depth: usize) -> Result<(Node, Size), Mistake> {
        let inside = || Mistake::at(at, "this alias stands inside its anchor");
        let size = self.anchors.get(&id).ok_or_else(inside)?.1;
        check_depth(depth + size.depth, at)?;
        self.count(size.nodes, at)?;
        self.count_copy(size, at)?;
        self.anchors.get(&id).cloned().ok_or_else(inside)
    }

    fn count(&mut self, more: usize, at: Position) -> Result<(), Mistake> {
        self.nodes += more;
        match self.nodes > NODES {
            true => Err(Mistake::at(at, format!("there are more than {NODES} values"))),
            false => Ok(()),
        }
    }

    fn count_copy(&mut self, size: Size, at: Position) -> Result<(), Mistake> {
        self.copies += size.nodes;
        self.copied_bytes += size.bytes;
        let message = match (self.copies > COPIES, self.copied_bytes > COPIED_BYTES) {
            (true, _) => format!("anchors and aliases make more than {COPIES} values"),
            (_, true) => format!("anchors and aliases copy more than {COPIED_BYTES} bytes of text"),
            _ => return Ok(()),
        };
        Err(Mistake::at(at, message))
    }

    fn list(&mut self, depth: usize) -> Result<(Content, Size), Mistake> {
        let (mut items, mut size) = (Vec::new(), Size::LEAF);
        loop {
            match self.event()? {
                (Event::SequenceEnd | Event::StreamEnd, _) => {
                    return Ok((Content::List(items), size));
                }
                (event, at) => {
                    let (item, inside) = self.node(event, at, depth + 1)?;
                    size.hold(inside);
                    items.push(item);
                }
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<(Content, Size), Mistake> {
        let mut entries: Vec<(Key, Node)> = Vec::new();
        let mut size = Size::LEAF;
        let mut seen = HashMap::new();
        loop {
            let key = match self.event()? {
                (Event::MappingEnd | Event::StreamEnd, _) => {
                    return Ok((Content::Map(entries), size));
                }
                (Event::Scalar(text, ..), at) => Key { text: text.into_owned(), at },
                (_, at) => return Err(Mistake::at(at, "a key is a word")),
            };
            let (event, at) = self.event()?;
            let (value, inside) = self.node(event, at, depth + 1)?;
            size.hold(inside);
            size.bytes += key.text.len();
            match seen.insert(key.text.clone(), key.at.line) {
                None => entries.push((key, value)),
                Some(line) => {
                    let message = format!("the key `{}` is given twice", key.text);
                    let mut mistake = Mistake::at(key.at, message);
                    mistake.hint(format!("first in line {line}"));
                    self.mistakes.push(mistake);
                }
            }
        }
    }
}

fn check_depth(depth: usize, at: Position) -> Result<(), Mistake> {
    match depth > NESTING {
        true => Err(Mistake::at(at, format!("this is nested more than {NESTING} deep"))),
        false => Ok(()),
    }
}

pub(crate) fn scalar(text: &str, style: ScalarStyle) -> Content {
    match style {
        ScalarStyle::Plain => plain(text),
        ScalarStyle::Literal => Content::Text(text.to_owned(), Style::Literal),
        ScalarStyle::Folded => Content::Text(text.to_owned(), Style::Folded),
        _ => Content::Text(text.to_owned(), Style::Flow),
    }
}

/// A plain scalar by the core schema; infinities and what is no number are
/// left as text.
fn plain(text: &str) -> Content {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Content::Null,
        "true" | "True" | "TRUE" => return Content::Bool(true),
        "false" | "False" | "FALSE" => return Content::Bool(false),
        _ => {}
    }
    let radix = |digits: Option<&str>, radix| u64::from_str_radix(digits?, radix).ok();
    let based = radix(text.strip_prefix("0x"), 16).or(radix(text.strip_prefix("0o"), 8));
    if let Some(number) = based.or_else(|| text.parse().ok()) {
        Content::Unsigned(number)
    } else if let Ok(number) = text.parse() {
        Content::Signed(number)
    } else if let Some(number) = float(text) {
        Content::Float(number)
    } else {
        Content::Text(text.to_owned(), Style::Flow)
    }
}

fn float(text: &str) -> Option<f64> {
    let numeric = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E');
    let finite = |number: &f64| number.is_finite();
    text.chars().all(numeric).then(|| text.parse().ok()).flatten().filter(finite)
}
