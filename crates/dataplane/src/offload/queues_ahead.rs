//! The queues that a packet comes to in a row, whatever functions do to it.

use super::next_hops::HOPS;

/// RemoteQueues that a packet comes to in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueuesAhead {
    count: u8,
    remote_queues: [u8; HOPS],
}

impl QueuesAhead {
    /// Adds one; false where there is no room.
    pub fn push(&mut self, remote_queue: u16) -> bool {
        let Some(place) = self.remote_queues.get_mut(usize::from(self.count)) else { return false };
        *place = remote_queue as u8;
        self.count += 1;
        true
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn remote_queues(&self) -> impl Iterator<Item = usize> {
        self.remote_queues.into_iter().take(self.count.into()).map(usize::from)
    }
}
