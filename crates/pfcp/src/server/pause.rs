//! A server that takes no request, as another process may have the node.
//!
//! First what is under way ends: commands are applied and answered, what sessions have told is
//! reported. Responses are heard for a moment, so that few reports go along that the other
//! process has to send again. Then all that is to be kept is told, and datagrams wait.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use weft_node::bearer::session::Keep;

use super::working::Working;
use super::{DataPlane, WAITING};
use crate::user_plane::is_response;

/// How long responses to reports are waited for.
const RESPONSES: Duration = Duration::from_millis(300);
/// How long it may take until nothing is under way.
const PATIENCE: Duration = Duration::from_secs(5);

/// A pause, and how far it is.
pub(super) struct Pause {
    since: Instant,
    /// Told once, when nothing is under way.
    told: Option<SyncSender<Result<Vec<Keep>, String>>>,
}

impl Pause {
    /// It begins now.
    pub fn new(told: SyncSender<Result<Vec<Keep>, String>>) -> Pause {
        Pause { since: Instant::now(), told: Some(told) }
    }

    /// Whether something is under way still.
    pub fn waits(&self) -> bool {
        self.told.is_some()
    }
}

impl<D: DataPlane> Working<D> {
    /// A datagram has come: a request waits while another process may have the node, and so does
    /// a response once it is told what that has to do.
    pub fn take_datagram(&mut self, from: SocketAddr, datagram: Box<[u8]>) {
        match &self.pause {
            Some(pause) if !pause.waits() || !is_response(&datagram) => {
                if self.held.len() < WAITING {
                    self.held.push_back((from, datagram));
                } else {
                    self.dropped.fetch_add(1, Ordering::Relaxed);
                }
            }
            _ => self.plane.receive(self.clock.now(), from, &datagram),
        }
    }

    /// Whether nothing is under way; `at_rest` says that of the agent, before its events were
    /// taken.
    fn is_at_rest(&self, at_rest: bool) -> bool {
        at_rest && self.waiting.is_empty() && !self.plane.is_busy()
    }

    /// Tells what is to be kept, once nothing is under way.
    pub fn look_after_pause(&mut self, at_rest: bool, took_events: bool) {
        let Some(pause) = &mut self.pause else { return };
        if !pause.waits() {
            return;
        }
        let elapsed = pause.since.elapsed();
        let answered = !self.plane.awaits_responses() || elapsed >= RESPONSES;
        let is_at_rest = self.is_at_rest(at_rest) && !took_events;
        let outcome = match is_at_rest && answered {
            true => Ok(self.plane.all_to_keep()),
            false if elapsed >= PATIENCE => {
                Err("PFCP requests are under way; try again".to_owned())
            }
            false => return,
        };
        // Who fails resumes.
        if let Some(told) = self.pause.as_mut().and_then(|pause| pause.told.take()) {
            let _ = told.send(outcome);
        }
    }

    /// Requests are taken again.
    pub fn resume(&mut self) {
        self.pause = None;
        // A node that has stopped is found out in the next round.
        let _ = self.data_plane.hold(false);
        let now = self.clock.now();
        for (from, datagram) in std::mem::take(&mut self.held) {
            self.plane.receive(now, from, &datagram);
        }
    }
}
