//! Documents: what they describe, and how they are read.

use std::collections::BTreeMap;
use std::time::Duration;

use weft_functions::KINDS;
use weft_yaml::locate::Source;
use weft_yaml::mistake::{Mistake, Mistakes, Position};
use weft_yaml::shape;

mod file;

pub use file::{RebalanceFile, RolloutFile, SiteFile, TemplateFile, Word};

pub use crate::kind::{ApiVersion, DocumentKind, Metadata};

use crate::balance::Settings as Rebalance;
use crate::kind::{ALL, Head};
use crate::part::{self, Part, Parts};
use crate::template;

/// A node as a document says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Its name.
    pub node: String,
    /// Its configuration.
    pub text: String,
    /// What that is known by: the same text has the same one, and none is 0.
    pub generation: u64,
}

/// How a site rolls changes out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// How long a node is looked at after its change.
    pub watch: Duration,
    /// How long it may take to say that it has changed.
    pub answer: Duration,
    /// Share of packets that it may drop beyond what it dropped before, 0 to 1.
    pub drops: f64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace::of(&RolloutFile::default())
    }
}

impl Pace {
    fn of(file: &RolloutFile) -> Pace {
        Pace {
            watch: Duration::from_secs(file.watch),
            answer: Duration::from_secs(file.answer),
            drops: file.drops / 100.0,
        }
    }
}

/// How a site treats its nodes and their users.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Treatment {
    /// How changes are rolled out.
    pub pace: Pace,
    /// How users are spread over stations; none where they stay where they are.
    pub rebalance: Option<Rebalance>,
}

/// What a document says.
#[derive(Clone, Debug, PartialEq)]
pub enum Meaning {
    /// Of a site.
    Site(Treatment),
    /// Of nodes, in the order in which they are changed. Those of a document that refers to
    /// parts are known in the [set](crate::set::Set).
    Nodes(Vec<Described>),
    /// Of what nodes have.
    Part(Part),
}

/// A document, read and checked by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// What it describes.
    pub kind: DocumentKind,
    /// Its name.
    pub name: String,
    /// As it was written.
    pub text: String,
    /// What it says.
    pub meaning: Meaning,
    /// What mistakes call it, and the line at which it begins there.
    pub place: (String, usize),
}

/// Reads the documents of a file, which stand one behind the other with a line `---` between.
///
/// # Errors
/// [`Mistakes`] of all of them.
pub fn read(text: &str, file: &str) -> Result<Vec<Document>, Mistakes> {
    let (mut documents, mut mistakes) = (Vec::new(), Vec::new());
    let (mut first, mut piece) = (1, String::new());
    let lines = text.lines().chain(["---"]);
    for (nth, line) in lines.enumerate() {
        if line.trim_end() != "---" {
            piece.push_str(line);
            piece.push('\n');
            continue;
        }
        let says = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        if piece.lines().any(says) {
            match one(&piece, file, first) {
                Ok(document) => documents.push(document),
                Err(wrong) => mistakes.extend(wrong.0),
            }
        }
        (first, piece) = (nth + 2, String::new());
    }
    if documents.is_empty() && mistakes.is_empty() {
        mistakes.push(Mistake::at(Position::START, "there is no document in this file"));
    }
    match mistakes.is_empty() {
        true => Ok(documents),
        false => Err(Mistakes::of(file, mistakes)),
    }
}

/// Reads one document, which begins at that line.
fn one(piece: &str, file: &str, line: usize) -> Result<Document, Mistakes> {
    // With lines before it, so that every mistake has its place in the file.
    let placed = format!("{}{piece}", "\n".repeat(line - 1));
    let read = Source::read(&placed).map_err(|mistake| Mistakes::of(file, vec![mistake]))?;
    let said = read.root.text("kind").unwrap_or("Node").to_owned();
    let Some((kind, name)) = ALL.iter().find(|(_, name)| *name == said) else {
        let mut source = read;
        let message = format!("`{said}` is not a kind of document of a site");
        source.wrong("kind", message).suggest(&said, ALL.iter().map(|(_, name)| *name));
        return Err(Mistakes::of(file, source.mistakes));
    };
    let (name, meaning) = match kind {
        DocumentKind::Node => {
            if part::references(piece).is_empty() {
                let node = described(&placed, file, piece)?;
                (node.node.clone(), Meaning::Nodes(vec![node]))
            } else {
                let mut source = weft_yaml::parse(&placed, file, name)?;
                let head: Option<Head> = shape::read(&mut source);
                let head = head.ok_or_else(|| Mistakes::of(file, source.mistakes))?;
                (head.metadata.name, Meaning::Nodes(Vec::new()))
            }
        }
        DocumentKind::Site => {
            let mut source = weft_yaml::parse(&placed, file, name)?;
            site(&mut source).ok_or_else(|| Mistakes::of(file, source.mistakes))?
        }
        DocumentKind::NodeTemplate => {
            let mut source = weft_yaml::parse(&placed, file, name)?;
            let read = shape::read(&mut source);
            let Some(read) = read.filter(|read| is_template(read, &mut source)) else {
                return Err(Mistakes::of(file, source.mistakes));
            };
            let nodes = match part::references(piece).is_empty() {
                true => nodes(&read, &source, file, &Parts::new())?,
                false => Vec::new(),
            };
            (read.metadata.name.clone(), Meaning::Nodes(nodes))
        }
        part => {
            let mut source = weft_yaml::parse(&placed, file, name)?;
            let read = part::read(*part, &mut source);
            let (name, says) = read.ok_or_else(|| Mistakes::of(file, source.mistakes))?;
            (name, Meaning::Part(says))
        }
    };
    let place = (file.to_owned(), line);
    Ok(Document { kind: *kind, name, text: piece.to_owned(), meaning, place })
}

impl Document {
    /// The nodes of a document that refers to parts, with what these say.
    ///
    /// # Errors
    /// [`Mistakes`], at their places in what was written.
    pub fn with_parts(
        &self,
        (file, line): &(String, usize),
        parts: &Parts,
    ) -> Result<Vec<Described>, Mistakes> {
        let placed = format!("{}{}", "\n".repeat(line - 1), self.text);
        if self.kind == DocumentKind::NodeTemplate {
            let mut source = weft_yaml::parse(&placed, file, "NodeTemplate")?;
            return match shape::read(&mut source) {
                Some(read) => nodes(&read, &source, file, parts),
                None => Err(Mistakes::of(file, source.mistakes)),
            };
        }
        let fill = |text: &str| template::fill(text, parts);
        let wrong = |(octets, message): (usize, String)| {
            let at = template::position(&placed, octets);
            Mistakes::of(file, vec![Mistake::at(at, message)])
        };
        let text = fill(&self.text).map_err(|(octets, message)| (octets + line - 1, message));
        let (filled, text) = (fill(&placed).map_err(wrong)?, text.map_err(wrong)?);
        described(&filled, file, &text).map(|node| vec![node])
    }
}

fn site(source: &mut Source<'_>) -> Option<(String, Meaning)> {
    let read: SiteFile = shape::read(source)?;
    check_name(&read.metadata.name, source);
    let RolloutFile { watch, answer, drops } = read.rollout;
    for (key, seconds) in [("watch", watch), ("answer", answer)] {
        if !(1..=3600).contains(&seconds) {
            let message = format!("must be 1 to 3600 seconds, not {seconds}");
            source.wrong(&format!("rollout.{key}"), message);
        }
    }
    if !(0.0..=100.0).contains(&drops) {
        source.wrong("rollout.drops", format!("must be 0 to 100 percent, not {drops}"));
    }
    let rebalance = read.rebalance.map(|file| rebalance(&file, source));
    let treatment = Treatment { pace: Pace::of(&read.rollout), rebalance };
    source.mistakes.is_empty().then_some((read.metadata.name, Meaning::Site(treatment)))
}

fn rebalance(file: &RebalanceFile, source: &mut Source<'_>) -> Rebalance {
    let RebalanceFile { over, tolerance, users } = *file;
    let bounds = [
        ("over", over, 10..=3600, "seconds"),
        ("tolerance", tolerance, 1..=100, "percent"),
        ("users", users, 1..=1_000_000, "users"),
    ];
    for (key, value, bounds, unit) in bounds {
        if !bounds.contains(&value) {
            let (least, most) = bounds.into_inner();
            let message = format!("must be {least} to {most} {unit}, not {value}");
            source.wrong(&format!("rebalance.{key}"), message);
        }
    }
    Rebalance {
        over: Duration::from_secs(over),
        tolerance: tolerance as f64 / 100.0,
        users: users as usize,
    }
}

fn check_name(name: &str, source: &mut Source<'_>) {
    let plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-_.".contains(&octet);
    if !(1..=64).contains(&name.len()) || !name.bytes().all(plain) {
        let message = format!("`{name}` is not a name: 1 to 64 letters, digits, `-`, `_` and `.`");
        source.wrong("metadata.name", message);
    }
}

fn is_template(read: &TemplateFile, source: &mut Source<'_>) -> bool {
    check_name(&read.metadata.name, source);
    if read.nodes.0.is_empty() {
        source.wrong("nodes", "a template has at least one node");
    }
    if source.joins_lines("template") {
        source.wrong("template", "YAML joins these lines to one").hint("write `template: |`");
    }
    for (node, values) in &read.nodes.0 {
        if values.contains_key("name") {
            let message = "`name` is the name of the node itself";
            source.wrong(&format!("nodes.{node}.name"), message);
        }
    }
    source.mistakes.is_empty()
}

/// The nodes of a template, each checked with its gaps filled in.
fn nodes(
    read: &TemplateFile,
    source: &Source<'_>,
    file: &str,
    parts: &Parts,
) -> Result<Vec<Described>, Mistakes> {
    let (mut nodes, mut mistakes) = (Vec::new(), Vec::new());
    let placed = source.in_place("template");
    for (name, values) in &read.nodes.0 {
        let mut values: BTreeMap<_, _> =
            values.iter().map(|(key, word)| (key.clone(), word.to_string())).collect();
        values.insert("name".to_owned(), name.clone());
        values.extend(parts.clone());
        let wrong = |text: &str, (octets, message): (usize, String)| {
            let at = match placed {
                Some(_) => template::position(text, octets),
                None => source.value_at("template"),
            };
            Mistakes::of(file, vec![Mistake::at(at, format!("of {name}: {message}"))])
        };
        let checked = placed.as_ref().unwrap_or(&read.template);
        let filled = template::fill(checked, &values).map_err(|error| wrong(checked, error));
        let node = filled.and_then(|filled| {
            let text = template::fill(&read.template, &values);
            described(&filled, file, &text.map_err(|error| wrong(&read.template, error))?)
        });
        match node {
            Ok(node) if node.node == *name => nodes.push(node),
            Ok(node) => {
                let message = format!(
                    "the template calls the node {name} `{}`: write `metadata: {{name: $(name)}}`",
                    node.node
                );
                mistakes.push(Mistake::at(source.value_at("template"), message));
            }
            Err(wrong) => mistakes.extend(wrong.0),
        }
    }
    match mistakes.is_empty() {
        true => Ok(nodes),
        false => Err(Mistakes::of(file, mistakes)),
    }
}

/// The node of a configuration. It is read as it is `placed`, and is `text`.
fn described(placed: &str, file: &str, text: &str) -> Result<Described, Mistakes> {
    let blueprint = weft_node_config::read(placed, file, KINDS)?;
    Ok(Described { node: blueprint.name, text: text.to_owned(), generation: generation(text) })
}

/// FNV-1a of 64 bits: names texts that are not hostile to each other.
fn generation(text: &str) -> u64 {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| {
        (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3)
    });
    hash.max(1)
}
