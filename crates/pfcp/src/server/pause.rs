//! A server that takes no request, as another process may have the node.
//!
//! First what is under way ends: commands are applied and answered, what sessions have told is
//! reported. Responses are heard for a moment, so that few reports go along that the other
//! process has to send again. Then all that is to be kept is told, and datagrams wait.

use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use weft_node::bearer::session::Keep;

/// How long responses to reports are waited for.
const RESPONSES: Duration = Duration::from_millis(300);
/// How long it may take until nothing is under way.
const PATIENCE: Duration = Duration::from_secs(5);

/// Told what is to be kept, or why that cannot be said.
pub(super) type Told = SyncSender<Result<Vec<Keep>, String>>;

/// A pause, and how far it is.
pub(super) struct Pause {
    since: Instant,
    /// Told once, when nothing is under way.
    told: Option<Told>,
}

impl Pause {
    /// It begins now.
    pub fn new(told: Told) -> Pause {
        Pause { since: Instant::now(), told: Some(told) }
    }

    /// Whether something is under way still.
    pub fn waits(&self) -> bool {
        self.told.is_some()
    }

    /// Tells what is `to_keep` once the server is at rest and reports are answered, or have had
    /// their time; or that it takes too long.
    pub fn tell(&mut self, is_at_rest: bool, is_answered: bool, to_keep: impl Fn() -> Vec<Keep>) {
        let elapsed = self.since.elapsed();
        let outcome = match is_at_rest && (is_answered || elapsed >= RESPONSES) {
            true => Ok(to_keep()),
            false if elapsed >= PATIENCE => {
                Err("PFCP requests are under way; try again".to_owned())
            }
            false => return,
        };
        if let Some(told) = self.told.take() {
            // Who has asked may have gone.
            let _ = told.send(outcome);
        }
    }
}
