//! Parts that several nodes have: functions, chains, classes of users, and users. Templates and
//! nodes refer to them by `$(KIND/NAME)`, in whose place stands what the document says.
//!
//! What a part may say is what a node's configuration may say there: it is checked in each node
//! that refers to it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value};
use weft_functions::KINDS;
use weft_yaml::locate::Source;
use weft_yaml::shape;

use crate::kind::{ApiVersion, DocumentKind, Metadata};

/// What stands for a reference, by `KIND/NAME`.
pub type Parts = BTreeMap<String, String>;

/// A document of a part.
#[derive(Deserialize)]
struct PartFile {
    #[serde(rename = "apiVersion")]
    _api_version: ApiVersion,
    #[serde(rename = "kind")]
    _kind: DocumentKind,
    metadata: Metadata,
    /// What a node has in the place of a reference.
    #[serde(flatten)]
    says: Map<String, Value>,
}

/// What a part says, before it is known what it refers to itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Part(Map<String, Value>);

/// Which kinds a node can refer to.
const REFERRED: [DocumentKind; 3] =
    [DocumentKind::Function, DocumentKind::Chain, DocumentKind::Users];

/// The references in a text, each `KIND/NAME`.
pub fn references(text: &str) -> BTreeSet<&str> {
    let gaps = text.split("$(").skip(1);
    let keys = gaps.filter_map(|behind| behind.split_once(')').map(|(key, _)| key));
    let is_part = |key: &&str| {
        let kind = key.split_once('/').map(|(kind, _)| kind);
        REFERRED.iter().any(|part| kind.is_some_and(|kind| kind == part.to_string()))
    };
    keys.filter(is_part).collect()
}

/// Reads a part; returns its name, too.
pub fn read(kind: DocumentKind, source: &mut Source<'_>) -> Option<(String, Part)> {
    let PartFile { metadata, says, .. } = shape::read(source)?;
    let wanted = match kind {
        DocumentKind::Function => "function",
        DocumentKind::Chain => "chain",
        _ => return Some((metadata.name, Part(says))),
    };
    match says.get(wanted).map(Value::as_str) {
        None => {
            source.wrong("metadata", format!("a {kind} says its `{wanted}`"));
        }
        Some(None) => {
            source.wrong(wanted, "this is a text");
        }
        Some(Some(named)) if kind == DocumentKind::Function => {
            let known = || KINDS.iter().map(|kind| kind.name);
            if !known().any(|name| name == named) {
                let message = format!("`{named}` is not a function");
                source.wrong(wanted, message).suggest(named, known());
            }
        }
        Some(Some(_)) => {
            for key in says.keys().filter(|key| *key != wanted) {
                source.wrong_key(key, "a Chain says only its `chain`");
            }
        }
    }
    source.mistakes.is_empty().then_some((metadata.name, Part(says)))
}

/// What stands for references to a part. Users have what their class says, unless they say it
/// themselves.
///
/// # Errors
/// A class that there is not, in one line.
pub fn stands_for<'p>(
    (kind, name, part): (DocumentKind, &str, &Part),
    class_of: impl Fn(&str) -> Option<&'p Part>,
) -> Result<Option<String>, String> {
    let mut says = part.0.clone();
    match kind {
        DocumentKind::Function => {}
        DocumentKind::Chain => {
            let chain = says.get("chain").and_then(Value::as_str).unwrap_or_default();
            // A node's rules have one chain on a line.
            let chain = chain.split_whitespace().collect::<Vec<_>>().join(" ");
            return Ok(Some(format!("chain {name} = {chain}")));
        }
        DocumentKind::Users => {
            if let Some(class) = says.remove("class") {
                let class = class.as_str().unwrap_or_default().to_owned();
                let found = class_of(&class);
                let found = found.ok_or_else(|| format!("there is no UserClass `{class}`"))?;
                for (key, value) in &found.0 {
                    says.entry(key.clone()).or_insert_with(|| value.clone());
                }
            }
            says.insert("name".to_owned(), Value::String(name.to_owned()));
        }
        _ => return Ok(None),
    }
    Ok(Some(Value::Object(says).to_string()))
}
