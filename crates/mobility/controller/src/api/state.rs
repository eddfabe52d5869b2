//! What all requests share.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use weft_http::problem::Failure;
use weft_mobility_protocol::NodeId;

use crate::config::Configuration;
use crate::engine::Handle;
use crate::members::Members;
use crate::n4::N4Shown;
use crate::standing::Site;

/// Requests that ask nodes at a time.
pub const AT_ONCE: usize = 4;
/// Time between two questions to nodes, of all requests together.
const BETWEEN: Duration = Duration::from_millis(50);

/// What requests are answered with.
#[derive(Clone, Debug)]
pub struct Shared {
    pub handle: Handle,
    pub watchers: Arc<Semaphore>,
    pub configuration: Arc<Configuration>,
    pub members: Members,
    pub site: Site,
    pub n4: N4Shown,
    pub pace: Pace,
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

/// What bounds how often nodes are asked as a request comes.
#[derive(Clone, Debug)]
pub struct Pace {
    pub at_once: Arc<Semaphore>,
    next: Arc<Mutex<Instant>>,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            at_once: Arc::new(Semaphore::new(AT_ONCE)),
            next: Arc::new(Mutex::new(Instant::now())),
        }
    }
}

impl Pace {
    /// Waits for the turn of a question.
    pub async fn turn(&self) {
        let turn = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let turn = (*next).max(Instant::now());
            *next = turn + BETWEEN;
            turn
        };
        tokio::time::sleep_until(turn.into()).await;
    }
}

/// The body of a request, as JSON.
pub fn body<T: DeserializeOwned>(text: &str) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(Failure::bad)
}
