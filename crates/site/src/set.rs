//! All documents of a site, which have no mistakes together.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use weft_yaml::mistake::{Mistake, Mistakes, Position};

use crate::balance::Settings as Rebalance;
use crate::document::{self, Described, Document, DocumentKind, Meaning, Pace, Treatment};
use crate::part::{self, Parts};

/// Octets of all documents together.
pub const MOST_OCTETS: usize = 256 << 10;
/// Documents that there are at most.
pub const MOST: usize = 1024;

/// A document as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// What it describes.
    pub kind: DocumentKind,
    /// Its name.
    pub name: String,
    /// As it was written.
    pub text: String,
}

/// What becomes of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// There was none of its kind and name.
    New,
    /// It says something else.
    Changed,
    /// It says the same.
    Unchanged,
    /// There is none any more.
    Deleted,
}

/// All documents, by kind and name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Set(BTreeMap<(DocumentKind, String), Document>);

impl Set {
    /// Reads documents that were kept.
    ///
    /// # Errors
    /// [`Mistakes`], above all when another version of the program has kept them.
    pub fn of(kept: &[Kept]) -> Result<Set, Mistakes> {
        let mut documents = Vec::new();
        for Kept { kind, name, text } in kept {
            documents.extend(document::read(text, &format!("{kind}/{name}"))?);
        }
        Set::default().with(documents).map(|(set, _)| set)
    }

    /// As they are kept.
    pub fn kept(&self) -> Vec<Kept> {
        let kept = |document: &Document| Kept {
            kind: document.kind,
            name: document.name.clone(),
            text: document.text.clone(),
        };
        self.0.values().map(kept).collect()
    }

    /// These documents, and those of before that have other names; and what becomes of each.
    ///
    /// # Errors
    /// [`Mistakes`] of documents that do not go together.
    pub fn with(&self, documents: Vec<Document>) -> Result<(Set, Vec<Change>), Mistakes> {
        let (mut set, mut changes, mut mistakes) = (self.clone(), Vec::new(), Vec::new());
        let mut new: BTreeMap<_, (String, usize)> = BTreeMap::new();
        for mut document in documents {
            let key = (document.kind, document.name.clone());
            let place = document.place.clone();
            if let Some((file, line)) = new.insert(key.clone(), place.clone()) {
                let message = format!(
                    "a {} of the name {} stands before, at {file}:{line}",
                    document.kind, document.name
                );
                mistakes.push(at(&place, message));
            }
            changes.push(match self.0.get(&key) {
                None => Change::New,
                Some(before) if before.text == document.text => Change::Unchanged,
                Some(_) => Change::Changed,
            });
            // What is kept is known by its kind and name.
            document.place = (format!("{}/{}", document.kind, document.name), 1);
            set.0.insert(key, document);
        }
        let place_of = |document: &Document| {
            let key = (document.kind, document.name.clone());
            new.get(&key).unwrap_or(&document.place).clone()
        };
        mistakes.extend(set.resolve(place_of));
        mistakes.extend(set.conflicts(place_of));
        match mistakes.is_empty() {
            true => Ok((set, changes)),
            false => Err(Mistakes(mistakes)),
        }
    }

    /// Nodes get what the parts say that they refer to.
    fn resolve(&mut self, place_of: impl Fn(&Document) -> (String, usize)) -> Vec<Mistake> {
        let (mut parts, mut mistakes) = (Parts::new(), Vec::new());
        let part_of = |kind, name: &str| match &self.0.get(&(kind, name.to_owned()))?.meaning {
            Meaning::Part(part) => Some(part),
            _ => None,
        };
        for document in self.0.values() {
            let Meaning::Part(part) = &document.meaning else { continue };
            let class_of = |class: &str| part_of(DocumentKind::UserClass, class);
            match part::stands_for((document.kind, &document.name, part), class_of) {
                Ok(Some(text)) => {
                    parts.insert(format!("{}/{}", document.kind, document.name), text);
                }
                Ok(None) => {}
                Err(message) => mistakes.push(at(&place_of(document), message)),
            }
        }
        for document in self.0.values_mut() {
            if !matches!(document.meaning, Meaning::Nodes(_))
                || part::references(&document.text).is_empty()
            {
                continue;
            }
            match document.with_parts(&place_of(&*document), &parts) {
                Ok(nodes) => document.meaning = Meaning::Nodes(nodes),
                Err(wrong) => mistakes.extend(wrong.0),
            }
        }
        mistakes
    }

    /// What does not go together.
    fn conflicts(&self, place_of: impl Fn(&Document) -> (String, usize)) -> Vec<Mistake> {
        let mut mistakes = Vec::new();
        let mut nodes: HashMap<&str, &Document> = HashMap::new();
        let mut site: Option<&Document> = None;
        for document in self.0.values() {
            match &document.meaning {
                Meaning::Part(_) => {}
                Meaning::Site(_) => {
                    if let Some(other) = site.replace(document) {
                        let message = format!("there is a Site already: {}", other.name);
                        mistakes.push(at(&place_of(document), message));
                    }
                }
                Meaning::Nodes(described) => {
                    for Described { node, .. } in described {
                        if let Some(other) = nodes.insert(node, document) {
                            let message = format!(
                                "the node {node} is that of {} {} already",
                                other.kind, other.name
                            );
                            mistakes.push(at(&place_of(document), message));
                        }
                    }
                }
            }
        }
        let octets: usize = self.0.values().map(|document| document.text.len()).sum();
        if let Some(document) =
            self.0.values().next().filter(|_| octets > MOST_OCTETS || self.0.len() > MOST)
        {
            let message = format!(
                "there would be {} documents of {octets} octets, and {MOST} of {MOST_OCTETS} octets \
                 are taken at most",
                self.0.len()
            );
            mistakes.push(at(&place_of(document), message));
        }
        mistakes
    }

    /// Without one of them; none if there is no such document.
    ///
    /// # Errors
    /// [`Mistakes`] of documents that refer to it.
    pub fn without(&self, kind: DocumentKind, name: &str) -> Result<Option<Set>, Mistakes> {
        let mut set = self.clone();
        if set.0.remove(&(kind, name.to_owned())).is_none() {
            return Ok(None);
        }
        let mistakes = set.resolve(|document| document.place.clone());
        if mistakes.is_empty() { Ok(Some(set)) } else { Err(Mistakes(mistakes)) }
    }

    /// How nodes are to run, in the order in which they are changed: templates before nodes,
    /// by their names.
    pub fn nodes(&self) -> Vec<Described> {
        let nodes = self.0.values().filter_map(|document| match &document.meaning {
            Meaning::Nodes(nodes) => Some(nodes),
            Meaning::Site(_) | Meaning::Part(_) => None,
        });
        nodes.flatten().cloned().collect()
    }

    /// How changes are rolled out.
    pub fn pace(&self) -> Pace {
        self.treatment().pace
    }

    /// How users are spread over stations; none where they stay where they are.
    pub fn rebalance(&self) -> Option<Rebalance> {
        self.treatment().rebalance
    }

    fn treatment(&self) -> Treatment {
        let site = self.0.values().find_map(|document| match document.meaning {
            Meaning::Site(treatment) => Some(treatment),
            Meaning::Nodes(_) | Meaning::Part(_) => None,
        });
        site.unwrap_or_default()
    }
}

fn at((file, line): &(String, usize), message: String) -> Mistake {
    let position = Position { line: *line, column: 1 };
    Mistake { file: file.clone(), ..Mistake::at(position, message) }
}
