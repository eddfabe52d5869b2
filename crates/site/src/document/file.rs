//! Documents as they are written. The comments of types with `Deserialize` are the
//! descriptions in the published schema, so they speak to the author of a document.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use weft_yaml::values::Entries;

use crate::kind::{ApiVersion, DocumentKind, Metadata};

/// How a site treats its nodes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Site")]
pub struct SiteFile {
    /// Version of this format.
    #[serde(rename = "apiVersion")]
    pub _api_version: ApiVersion,
    /// `Site`.
    #[serde(rename = "kind")]
    pub _kind: DocumentKind,
    /// Name of the site.
    pub metadata: Metadata,
    /// How nodes come to run as documents say.
    #[serde(default)]
    pub rollout: RolloutFile,
    /// Lets users go from stations that carry much to those that carry little, as nodes say what
    /// they carry. Users stay where they are without it.
    pub rebalance: Option<RebalanceFile>,
}

/// How users are spread over stations.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Rebalance")]
pub struct RebalanceFile {
    /// Seconds over which loads are smoothed; stations must differ for three times as long.
    #[serde(default = "over")]
    #[schemars(range(min = 10, max = 3600))]
    pub over: u64,
    /// Percent of what a station can carry by which loads may differ.
    #[serde(default = "tolerance")]
    #[schemars(range(min = 1, max = 100))]
    pub tolerance: u64,
    /// Users that move at a time, at most.
    #[serde(default = "users")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub users: u64,
}

fn over() -> u64 {
    60
}

fn tolerance() -> u64 {
    10
}

fn users() -> u64 {
    1000
}

/// How nodes come to run as documents say.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Rollout")]
pub struct RolloutFile {
    /// Seconds that a node is looked at after its change, before the next one is changed.
    #[serde(default = "watch")]
    #[schemars(range(min = 1, max = 3600))]
    pub watch: u64,
    /// Seconds that a node may take to say that it has changed.
    #[serde(default = "answer")]
    #[schemars(range(min = 1, max = 3600))]
    pub answer: u64,
    /// Percent of packets that a node may drop beyond what it dropped before its change.
    #[serde(default = "drops")]
    #[schemars(range(min = 0, max = 100))]
    pub drops: f64,
}

impl Default for RolloutFile {
    fn default() -> RolloutFile {
        RolloutFile { watch: watch(), answer: answer(), drops: drops() }
    }
}

fn watch() -> u64 {
    5
}

fn answer() -> u64 {
    30
}

fn drops() -> f64 {
    0.1
}

/// Nodes that are alike.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "NodeTemplate")]
pub struct TemplateFile {
    /// Version of this format.
    #[serde(rename = "apiVersion")]
    pub _api_version: ApiVersion,
    /// `NodeTemplate`.
    #[serde(rename = "kind")]
    pub _kind: DocumentKind,
    /// Name of the template.
    pub metadata: Metadata,
    /// The nodes by name, in the order in which they are changed, and what each has for the
    /// gaps of the template.
    pub nodes: Entries<BTreeMap<String, Word>>,
    /// A node's configuration with gaps: `$(name)` is the name of the node, `$(KEY)` what it
    /// has for KEY.
    pub template: String,
}

/// A value of one word.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Word {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
    /// A truth.
    Truth(bool),
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Word::Text(text) => f.write_str(text),
            Word::Number(number) => write!(f, "{number}"),
            Word::Truth(truth) => write!(f, "{truth}"),
        }
    }
}
