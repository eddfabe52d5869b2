//! `functions.*.process`.

use schemars::JsonSchema;
use serde::Deserialize;

/// How the process of a function is run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "Process")]
pub struct ProcessFile {
    /// What becomes of packets while the process is not there: they are dropped,
    /// they go on as if the function had handled them, or they wait for it.
    pub on_failure: OnFailure,
    /// Packets of each worker that may wait for it, with `onFailure: hold`.
    #[schemars(range(min = 1, max = 65536))]
    pub hold: u32,
    /// Milliseconds after which a process that does not answer is ended.
    #[schemars(range(min = 1, max = 60000))]
    pub heartbeat: u32,
    /// Milliseconds between two checkpoints of the contexts; 0 for none.
    #[schemars(range(min = 0, max = 3600000))]
    pub checkpoint: u32,
    /// Who starts the process: the `node`, or another program `elsewhere`.
    pub start: StartedBy,
    /// Path of the ring; needed where another program starts the process.
    pub socket: Option<String>,
    /// How tags travel: in a network service header (RFC 8300), or not at all, for
    /// a function that knows only plain frames.
    pub tags: TagsBy,
    /// Number of the user (and group) that the process runs as; that of the node
    /// when absent. Only a node that runs as root can give another.
    #[schemars(range(min = 1, max = 4_294_967_294_u32))]
    pub user: Option<u32>,
    /// What a process that the node starts may use at most (cgroups v2). A node that may
    /// not limit it says so, and starts it all the same.
    pub limits: ProcessLimitsFile,
    /// Pauses before a process that has failed is started again.
    pub restart: RestartFile,
}

/// Pauses before a process is started again.
#[derive(Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "Restart")]
pub struct RestartFile {
    /// Milliseconds before the first time; doubled with each failure, until the process has
    /// run for five seconds.
    #[schemars(range(min = 1, max = 3600000))]
    pub first: u32,
    /// Milliseconds of the longest pause.
    #[schemars(range(min = 1, max = 3600000))]
    pub longest: u32,
}

impl Default for RestartFile {
    fn default() -> Self {
        RestartFile { first: 10, longest: 5000 }
    }
}

/// What a process may use at most.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "ProcessLimits")]
pub struct ProcessLimitsFile {
    /// Megabytes of memory; packets are the node's and do not count.
    #[schemars(range(min = 16, max = 1048576))]
    pub megabytes: Option<u32>,
    /// Processor time in percent of one core.
    #[schemars(range(min = 1, max = 10000))]
    pub cpu: Option<u32>,
    /// Threads and processes.
    #[schemars(range(min = 4, max = 65536))]
    pub tasks: Option<u32>,
}

impl Default for ProcessFile {
    fn default() -> Self {
        ProcessFile {
            on_failure: OnFailure::Drop,
            hold: 256,
            heartbeat: 100,
            checkpoint: 1000,
            start: StartedBy::Node,
            socket: None,
            tags: TagsBy::Nsh,
            user: None,
            limits: ProcessLimitsFile::default(),
            restart: RestartFile::default(),
        }
    }
}

/// What becomes of packets while a process is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum OnFailure {
    /// They are dropped.
    Drop,
    /// They go on as if the function had handled them.
    Bypass,
    /// They wait, as many as may.
    Hold,
}

/// How tags travel with packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum TagsBy {
    /// In a network service header.
    Nsh,
    /// Not at all.
    None,
}

/// Who starts a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum StartedBy {
    /// The node.
    Node,
    /// Another program.
    Elsewhere,
}
