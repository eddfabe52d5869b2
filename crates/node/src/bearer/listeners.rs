//! Who is told of events.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use super::Event;

/// Events that wait for a listener.
const EVENTS: usize = 4096;

/// Those who listen to what bearers and peers tell.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Vec<SyncSender<Event>>);

impl Listeners {
    /// One more, who hears until the receiver is dropped. One that does not keep up misses
    /// events.
    pub fn add(&mut self) -> Receiver<Event> {
        let (tell, events) = sync_channel(EVENTS);
        self.0.push(tell);
        events
    }

    /// Tells all of them.
    pub fn tell(&mut self, event: &Event) {
        let listens = |listener: &SyncSender<Event>| {
            !matches!(listener.try_send(event.clone()), Err(TrySendError::Disconnected(_)))
        };
        self.0.retain(listens);
    }
}
