//! A server that takes no request, as another process may have the node.
//!
//! First what is under way ends: commands are applied and answered, what sessions have told is
//! reported. Responses are heard for a moment, so that few reports go along that the other
//! process has to send again. Then all that is to be kept is written, some sessions at a time, and told;
//! datagrams wait, but for heartbeats.

use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use weft_node::bearer::session::Keep;

use crate::user_plane::UserPlane;

/// How long responses to reports are waited for.
const RESPONSES: Duration = Duration::from_millis(300);
/// Sessions that are written before heartbeats are looked for: some milliseconds.
const AT_ONCE: usize = 64;
/// How long it may take until nothing is under way.
const PATIENCE: Duration = Duration::from_secs(5);

/// Told what is to be kept, or why that cannot be said.
pub(super) type Told = SyncSender<Result<Vec<Keep>, String>>;

/// A pause, and how far it is.
pub(super) struct Pause {
    since: Instant,
    /// Told once, when nothing is under way.
    told: Option<Told>,
    /// Nothing is under way.
    writing: Option<Writing>,
}

/// What is to be kept, as far as it is written.
struct Writing {
    kept: Vec<Keep>,
    /// SEIDs of the other sessions.
    left: Vec<u64>,
}

impl Pause {
    /// It begins now.
    pub fn new(told: Told) -> Pause {
        Pause { since: Instant::now(), told: Some(told), writing: None }
    }

    /// Whether something is under way still.
    pub fn waits(&self) -> bool {
        self.told.is_some() && !self.writes()
    }

    /// Whether what is to be kept is being written.
    pub fn writes(&self) -> bool {
        self.writing.is_some()
    }

    /// Begins to write what is to be kept once the server is at rest and reports are answered, or
    /// have had their time; tells where that takes too long.
    pub fn begin(&mut self, is_at_rest: bool, is_answered: bool, plane: &UserPlane) {
        let elapsed = self.since.elapsed();
        if is_at_rest && (is_answered || elapsed >= RESPONSES) {
            self.writing = Some(Writing { kept: plane.notes_to_keep(), left: plane.seids() });
        } else if elapsed >= PATIENCE {
            self.tell(Err("PFCP requests are under way; try again".to_owned()));
        }
    }

    /// Writes some more sessions, and tells all behind the last.
    pub fn write(&mut self, plane: &UserPlane) {
        let Some(Writing { kept, left }) = &mut self.writing else { return };
        let some = left.split_off(left.len().saturating_sub(AT_ONCE));
        kept.extend(plane.to_keep_of(&some));
        if left.is_empty() {
            let kept = std::mem::take(kept);
            self.writing = None;
            self.tell(Ok(kept));
        }
    }

    fn tell(&mut self, outcome: Result<Vec<Keep>, String>) {
        if let Some(told) = self.told.take() {
            // Who has asked may have gone.
            let _ = told.send(outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{TryRecvError, sync_channel};

    use super::*;
    use crate::tests::{Bench, peer, session};

    const SMF: &str = "10.0.0.1";

    #[test]
    fn all_is_written_once_nothing_is_under_way_and_told_behind_the_last() {
        let mut bench = Bench::new();
        bench.associate(peer(SMF));
        for ue in 1..5 {
            bench.establish(peer(SMF), session(peer(SMF), [10, 45, 0, ue]));
        }
        let (tell, told) = sync_channel(1);
        let mut pause = Pause::new(tell);
        pause.begin(false, true, &bench.plane);
        assert!(pause.waits() && !pause.writes(), "something is under way");
        pause.begin(true, true, &bench.plane);
        assert!(!pause.waits() && pause.writes());
        assert_eq!(told.try_recv().unwrap_err(), TryRecvError::Empty);
        pause.write(&bench.plane);
        let kept = told.try_recv().unwrap().unwrap();
        let sessions = kept.iter().filter(|one| matches!(one, Keep::Session(..))).count();
        assert_eq!(sessions, 4);
        assert!(kept.iter().any(|one| matches!(one, Keep::Note(..))));
        // It is told once.
        pause.write(&bench.plane);
        assert!(!pause.waits() && !pause.writes());
        assert!(told.try_recv().is_err());
    }
}
