//! What all requests share: the way to the node's agent.

use std::sync::Arc;

use tokio::sync::Semaphore;
use weft_compose::Kind;
use weft_node::{Agent, Handle};

use crate::answer::Failure;
use crate::function_move::Moves;

/// Traces and captures at once.
const WATCHERS: usize = 8;

/// A node as requests see it.
#[derive(Clone)]
pub(crate) struct State {
    pub handle: Handle,
    /// Functions that a configuration may use.
    pub kinds: &'static [Kind],
    /// Free places for traces and captures.
    pub watchers: Arc<Semaphore>,
    /// Functions on their way between nodes.
    pub moves: Arc<Moves>,
}

impl State {
    pub fn new(node: &str, handle: Handle, kinds: &'static [Kind]) -> State {
        let moves = Arc::new(Moves::new(node));
        State { handle, kinds, watchers: Arc::new(Semaphore::new(WATCHERS)), moves }
    }

    /// Asks the agent, away from the thread that serves.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Agent) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let handle = self.handle.clone();
        let answer = tokio::task::spawn_blocking(move || handle.ask(question)).await;
        answer.ok().and_then(Result::ok).ok_or(Failure::stopped())
    }
}
