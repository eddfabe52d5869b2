//! What all requests share.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use weft_http::problem::Failure;
use weft_mobility_protocol::NodeId;

use crate::config::Configuration;
use crate::engine::Handle;
use crate::standing::Site;

/// What requests are answered with.
#[derive(Clone, Debug)]
pub struct Shared {
    pub handle: Handle,
    pub watchers: Arc<Semaphore>,
    pub configuration: Arc<Configuration>,
    pub site: Site,
}

impl Shared {
    /// The number of a node.
    pub fn node(&self, name: &str) -> Result<NodeId, Failure> {
        let node = self.configuration.node(name);
        let none = || Failure::unknown(format!("there is no node `{name}`"));
        node.map(|node| node.number).ok_or_else(none)
    }

    /// The name of a node.
    pub fn name(&self, node: NodeId) -> String {
        self.configuration.name_of(node).map_or_else(|| node.to_string(), str::to_owned)
    }
}

/// The body of a request, as JSON.
pub fn body<T: DeserializeOwned>(text: &str) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(Failure::bad)
}
