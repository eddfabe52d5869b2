//! Who is told of sessions.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use super::SessionEvent;

/// Events that wait at a listener.
const EVENTS: usize = 1 << 16;

/// Those that listen to sessions. Events wait for one that does not keep up: usage must not
/// be lost. As long as any wait, workers are asked for no more, so the memory is bounded.
#[derive(Debug, Default)]
pub(crate) struct SessionListeners(Vec<Listener>);

#[derive(Debug)]
struct Listener {
    tell: SyncSender<SessionEvent>,
    backlog: VecDeque<SessionEvent>,
}

impl Listener {
    /// Tells what has waited. False when nothing listens any more.
    fn flush(&mut self) -> bool {
        while let Some(event) = self.backlog.pop_front() {
            match self.tell.try_send(event) {
                Ok(()) => {}
                Err(TrySendError::Full(event)) => {
                    self.backlog.push_front(event);
                    return true;
                }
                Err(TrySendError::Disconnected(_)) => return false,
            }
        }
        true
    }
}

impl SessionListeners {
    /// One more, that hears until the receiver is dropped.
    pub fn add(&mut self) -> Receiver<SessionEvent> {
        let (tell, events) = sync_channel(EVENTS);
        self.0.push(Listener { tell, backlog: VecDeque::new() });
        events
    }

    /// Tells all of them.
    pub fn tell(&mut self, event: &SessionEvent) {
        self.0.iter_mut().for_each(|listener| listener.backlog.push_back(event.clone()));
        self.flush();
    }

    /// Whether nothing listens: what is told is lost.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether events wait.
    pub fn is_behind(&self) -> bool {
        self.0.iter().any(|listener| !listener.backlog.is_empty())
    }

    /// Tells what has waited.
    pub fn flush(&mut self) {
        self.0.retain_mut(Listener::flush);
    }
}
