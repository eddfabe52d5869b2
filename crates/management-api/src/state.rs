//! What all requests share: the way to the node's agent.

use std::sync::{Arc, OnceLock};

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weft_compose::Kind;
use weft_http::problem::Failure;
use weft_node::{Agent, Handle};
use weft_pfcp::ServerHandle;

/// Traces and captures at once.
const WATCHERS: usize = 8;

/// A node as requests see it.
#[derive(Clone)]
pub(crate) struct State {
    pub handle: Handle,
    /// Functions that a configuration may use.
    pub kinds: &'static [Kind],
    /// The server of control planes, once there is one.
    pub pfcp: Arc<OnceLock<ServerHandle>>,
    /// Free places for traces and captures.
    watchers: Arc<Semaphore>,
}

impl State {
    pub fn new(handle: Handle, kinds: &'static [Kind]) -> State {
        State { handle, kinds, pfcp: Arc::default(), watchers: Arc::new(Semaphore::new(WATCHERS)) }
    }

    /// Asks the agent, away from the thread that serves.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Agent) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let handle = self.handle.clone();
        let answer = tokio::task::spawn_blocking(move || handle.ask(question)).await;
        answer.ok().and_then(Result::ok).ok_or(stopped())
    }

    /// Asks the server of control planes, away from the thread that serves.
    pub async fn ask_pfcp<T: Send + 'static>(
        &self,
        question: impl FnOnce(&ServerHandle) -> Option<T> + Send + 'static,
    ) -> Result<T, Failure> {
        let Some(server) = self.pfcp.get().cloned() else {
            let detail = "the configuration has no `pfcp`";
            return Err(Failure::new(StatusCode::NOT_FOUND, detail));
        };
        let answer = tokio::task::spawn_blocking(move || question(&server)).await;
        answer.ok().flatten().ok_or(stopped())
    }

    /// Takes a place for a trace, a capture or a listener.
    pub fn watcher(&self) -> Result<OwnedSemaphorePermit, Failure> {
        self.watchers.clone().try_acquire_owned().map_err(|_| {
            let detail = "too many traces, captures and listeners at once";
            Failure::new(StatusCode::TOO_MANY_REQUESTS, detail)
        })
    }
}

/// The node cannot answer any more.
pub(crate) fn stopped() -> Failure {
    Failure::new(StatusCode::SERVICE_UNAVAILABLE, "the node is stopping")
}
