//! What outlives the node.

use schemars::JsonSchema;
use serde::Deserialize;
use weft_state::Durability;

use crate::blueprint::Loading;

/// Where the node keeps what commands have set, so that it has it again when it starts.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "State")]
pub struct StateFile {
    /// Folder of the store, of this node alone; made if it is not there. A relative path begins
    /// at the folder of this file.
    pub directory: String,
    /// When a command is answered: once what it has set is `durable`, or at once as long as the
    /// disk is no more than 10 ms behind (`relaxed`).
    #[serde(default)]
    pub durability: Durability,
    /// When contexts of users are read at the start: before the first packet, or `onDemand`.
    #[serde(default)]
    pub loading: Loading,
    /// How contexts of functions are kept that may go back in time: counters, meters.
    #[serde(default)]
    pub checkpoints: CheckpointsFile,
}

/// How contexts of functions are kept.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "Checkpoints")]
pub struct CheckpointsFile {
    /// Users and bearers whose contexts are looked at in a second, in turn; those that have
    /// changed are written. 0 for none.
    #[schemars(range(max = 1_000_000))]
    pub rate: u32,
}

impl Default for CheckpointsFile {
    fn default() -> Self {
        CheckpointsFile { rate: 20_000 }
    }
}
