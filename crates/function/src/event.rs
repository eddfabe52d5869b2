//! What functions tell of their own accord, to be exported from the node.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Something that a function tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionEvent {
    /// A block of public ports was given to a user, or came back (RFC 6888 section 4).
    PortBlock {
        /// Whether it was given; else it came back.
        is_given: bool,
        /// The inside address that it was given to, or the latest of its user's.
        inside: Ipv4Addr,
        /// The public address.
        outside: Ipv4Addr,
        /// First port.
        first: u16,
        /// Last port.
        last: u16,
    },
}

/// Where functions tell. Nothing waits: what finds no room is counted, and gone.
#[derive(Clone, Debug)]
pub struct EventSender {
    ring: SyncSender<FunctionEvent>,
    lost: Arc<AtomicU64>,
}

/// What functions have told.
#[derive(Debug)]
pub struct Events {
    ring: Receiver<FunctionEvent>,
    lost: Arc<AtomicU64>,
}

/// Both ends of a ring in which so many events may wait.
pub fn events(most: usize) -> (EventSender, Events) {
    let (sender, ring) = sync_channel(most);
    let lost = Arc::new(AtomicU64::new(0));
    (EventSender { ring: sender, lost: lost.clone() }, Events { ring, lost })
}

impl EventSender {
    /// Tells.
    pub fn tell(&self, event: FunctionEvent) {
        // The receiver never sleeps in the ring, so nothing is to be woken.
        if self.ring.try_send(event).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Events {
    /// What waits, in its order.
    pub fn waiting(&self) -> impl Iterator<Item = FunctionEvent> + '_ {
        self.ring.try_iter()
    }

    /// Events that found no room since this was asked last.
    pub fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted() {
        let (sender, told) = events(2);
        let event = |last| {
            let (inside, outside) = ([10, 0, 0, 1].into(), [192, 0, 2, 1].into());
            FunctionEvent::PortBlock { is_given: true, inside, outside, first: 1, last }
        };
        (0..5).for_each(|last| sender.tell(event(last)));
        assert_eq!(told.waiting().collect::<Vec<_>>(), [event(0), event(1)]);
        assert_eq!((told.take_lost(), told.take_lost()), (3, 0));
        sender.tell(event(9));
        assert_eq!(told.waiting().count(), 1);
        drop(told);
        sender.tell(event(9));
    }
}
