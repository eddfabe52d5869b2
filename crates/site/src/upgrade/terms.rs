//! What an upgrade consists of, and what is said of it.

use serde::{Deserialize, Serialize};

/// How nodes are upgraded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Another process takes the node over from the one that runs it, with its users.
    #[default]
    InPlace,
    /// Users leave the node, and its process ends; its service manager starts another one.
    Drain,
}

/// How far an upgrade is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Nodes are being upgraded.
    Running,
    /// All nodes that were to be upgraded are, or there was no upgrade.
    #[default]
    Complete,
    /// A node could not be; those behind it were not begun.
    Failed,
    /// An operator has ended it.
    Cancelled,
}

/// How far a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodePhase {
    /// It has not begun.
    #[default]
    Waiting,
    /// It is being upgraded.
    InProgress,
    /// Another process of it runs.
    Done,
    /// It is not upgraded, and runs on or does not come back.
    Failed,
    /// It is not meant.
    Skipped,
}

/// What is being done at a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doing {
    /// It is asked which process it is.
    #[default]
    Asking,
    /// Its users leave.
    Leaving,
    /// It is told to go over to another process, or to end.
    Changing,
    /// Its users come back.
    Returning,
}

/// A node of an upgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeUpgrade {
    /// Its name.
    pub node: String,
    /// How far it is.
    pub phase: NodePhase,
    /// What is being done, while it is in progress.
    pub doing: Doing,
    /// Why it failed or is skipped, or what it waits for; else empty.
    pub reason: String,
    /// Version of its program before; empty until it has said so.
    pub before: String,
    /// Version of its program afterwards.
    pub after: String,
    /// The process that is to go; 0 until that is known.
    pub(super) process: u64,
    /// The incarnation of the node in that process.
    pub(super) incarnation: u32,
    /// Orders to move its users have this number or a higher one.
    pub orders: u64,
    /// It took no further users before.
    pub was_cordoned: bool,
}

/// What a node says of an upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The request that it has had last; 0 for a question.
    pub request: u64,
    /// The process that says so.
    pub process: u64,
    /// What has become of the request.
    pub standing: Standing,
    /// Version of its program.
    pub version: String,
    /// Why it refuses.
    pub reason: String,
}

/// What has become of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing: it was a question, or meant another process.
    Runs,
    /// It is under way.
    Begun,
    /// It was refused, or has failed; the node goes on as it was.
    Refused,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A node is to be asked which process it is; with a request, that process is to go.
    Tell {
        /// Its name.
        node: String,
        /// The number of the request, and the process; none for a question.
        request: Option<(u64, u64)>,
    },
    /// The users of a node are to leave it.
    Drain(String),
    /// A node is to take users again.
    Uncordon(String),
    /// Users that have left a node are to come back, if nothing else decides that.
    Return(String),
    /// A node is upgraded.
    Upgraded(String),
    /// The upgrade is over, and why if it was not completed.
    Over(Phase, String),
}

/// What is seen of nodes, by their names.
pub trait View {
    /// Whether no further node is to begin, as others are being changed otherwise.
    fn is_held(&self) -> bool;
    /// Whether it is connected.
    fn is_connected(&self, node: &str) -> bool;
    /// Whether its lease has ended.
    fn has_expired(&self, node: &str) -> bool;
    /// The number of its life, once it has said so.
    fn incarnation(&self, node: &str) -> u32;
    /// Users that it has and that stay, and those that come or go.
    fn users(&self, node: &str) -> [usize; 2];
    /// Users that orders from this number on still move from it or to it.
    fn under_way(&self, node: &str, orders: u64) -> usize;
}
