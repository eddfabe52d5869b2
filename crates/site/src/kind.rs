//! What documents describe, and what all of them begin with.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a document describes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum DocumentKind {
    /// How a site treats its nodes; there is one at most.
    Site,
    /// Nodes that are alike.
    NodeTemplate,
    /// One node: its configuration.
    Node,
    /// A function, as nodes have it.
    Function,
    /// A chain of functions.
    Chain,
    /// What users of a class have in common.
    UserClass,
    /// Users of one class.
    Users,
}

/// All kinds, with their names.
pub(crate) const ALL: [(DocumentKind, &str); 7] = [
    (DocumentKind::Site, "Site"),
    (DocumentKind::NodeTemplate, "NodeTemplate"),
    (DocumentKind::Node, "Node"),
    (DocumentKind::Function, "Function"),
    (DocumentKind::Chain, "Chain"),
    (DocumentKind::UserClass, "UserClass"),
    (DocumentKind::Users, "Users"),
];

impl fmt::Display for DocumentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = ALL.iter().find(|(kind, _)| kind == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

impl FromStr for DocumentKind {
    type Err = String;

    /// Reads a kind in any case, in the singular or the plural.
    fn from_str(text: &str) -> Result<DocumentKind, String> {
        let said = text.to_ascii_lowercase();
        let is = |name: &str| {
            let name = name.to_ascii_lowercase();
            let behind = said.strip_prefix(&name).or_else(|| name.strip_prefix(&said));
            behind.is_some_and(|behind| ["", "s", "es"].contains(&behind))
        };
        let found = ALL.iter().find(|(_, name)| is(name));
        found.map(|(kind, _)| *kind).ok_or_else(|| {
            let names: Vec<_> = ALL.iter().map(|(_, name)| *name).collect();
            format!("`{text}` is not a kind of document; there are {}", names.join(", "))
        })
    }
}

/// Versions of this format.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ApiVersion {
    /// The one there is.
    #[serde(rename = "weft/v1")]
    V1,
}

/// What a document is called.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// Its name.
    pub name: String,
}

/// What all documents begin with.
#[derive(Debug, Deserialize)]
pub(crate) struct Head {
    pub metadata: Metadata,
}
