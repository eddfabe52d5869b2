//! What all requests share.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use weft_http::problem::Failure;
use weft_mobility_protocol::NodeId;

use crate::config::Configuration;
use crate::engine::Handle;
use crate::members::Members;
use crate::n4::N4Shown;
use crate::standing::Site;

/// What requests are answered with.
#[derive(Clone, Debug)]
pub struct Shared {
    pub handle: Handle,
    pub watchers: Arc<Semaphore>,
    pub configuration: Arc<Configuration>,
    pub members: Members,
    pub site: Site,
    pub n4: N4Shown,
}

impl Shared {
    /// The number of a node.
    pub fn node(&self, name: &str) -> Result<NodeId, Failure> {
        let none = || Failure::unknown(format!("there is no node `{name}`"));
        self.members.named(name).ok_or_else(none)
    }

    /// The name of a node.
    pub fn name(&self, node: NodeId) -> String {
        self.members.name_of(node)
    }
}

/// The body of a request, as JSON.
pub fn body<T: DeserializeOwned>(text: &str) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(Failure::bad)
}
