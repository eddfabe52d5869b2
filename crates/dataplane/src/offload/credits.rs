//! Credits of one queue: who may send a packet there.

/// What a queue has promised of its room.
#[derive(Clone, Copy, Debug, Default)]
pub struct Credits {
    /// For packets that are at functions before this one.
    reserved: usize,
    /// For packets of the burst at hand, which were let in at an entry.
    admitted: usize,
}

impl Credits {
    /// A burst begins: nothing of it was let in yet.
    #[inline]
    pub fn begin(&mut self) {
        self.admitted = 0;
    }

    /// Packets that may still be let in, where so many find `room`.
    #[inline]
    pub fn of(&self, room: usize) -> usize {
        room.saturating_sub(self.reserved + self.admitted)
    }

    /// Lets packets in.
    #[inline]
    pub fn admit(&mut self, count: usize) {
        self.admitted += count;
    }

    /// A packet at another function may come here.
    #[inline]
    pub fn reserve(&mut self) {
        self.reserved += 1;
    }

    /// It came, or it will not.
    #[inline]
    pub fn release(&mut self) {
        self.reserved = self.reserved.saturating_sub(1);
    }
}
