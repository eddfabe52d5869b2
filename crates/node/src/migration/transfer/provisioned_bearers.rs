//! What commands have added for a user: it goes from node to node as it was written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bearer::WrittenBearer;

/// A bearer that a command has added, by names.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProvisionedBearer {
    /// As a command says it.
    pub bearer: WrittenBearer,
    /// For which of several users settings were written, by function, where it is not
    /// the first.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nth: BTreeMap<String, u32>,
}

impl PartialEq for ProvisionedBearer {
    fn eq(&self, other: &ProvisionedBearer) -> bool {
        self.written() == other.written()
    }
}

impl Eq for ProvisionedBearer {}

impl ProvisionedBearer {
    /// As octets.
    pub fn written(&self) -> Vec<u8> {
        // Writing to memory cannot fail, and all keys are texts.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads what [`written`](Self::written) wrote.
    pub fn read(octets: &[u8]) -> Option<ProvisionedBearer> {
        serde_json::from_slice(octets).ok()
    }
}
