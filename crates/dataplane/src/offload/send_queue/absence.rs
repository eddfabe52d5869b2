//! How long the packets of a queue have been away, for carriers that may lose some.

use crate::offload::WINDOW;

/// When each packet that is away went.
#[derive(Debug)]
pub struct Absence {
    /// By ticket; 0 once it is back.
    sent: Box<[u64; WINDOW]>,
    /// The oldest ticket that may be away, and the next.
    oldest: u32,
    next: u32,
    /// Nanoseconds after which one that is not back is lost.
    timeout: u64,
}

impl Absence {
    /// Nothing is away. What is not back after `timeout` nanoseconds is lost.
    #[inline]
    pub fn new(timeout: u64) -> Absence {
        Absence { sent: Box::new([0; WINDOW]), oldest: 0, next: 0, timeout }
    }

    /// The packet of this ticket goes.
    #[inline]
    pub fn begin(&mut self, ticket: u32, now: u64) {
        if self.oldest == self.next {
            self.oldest = ticket;
        }
        self.next = ticket.wrapping_add(1);
        self.sent[ticket as usize % WINDOW] = now.max(1);
    }

    /// The packet that was to go last does not.
    #[inline]
    pub fn take_back(&mut self) {
        self.next = self.next.wrapping_sub(1);
        self.sent[self.next as usize % WINDOW] = 0;
    }

    /// Takes a ticket as back; false when it was not away.
    #[inline]
    pub fn settle(&mut self, ticket: u32) -> bool {
        let away = self.next.wrapping_sub(self.oldest);
        if ticket.wrapping_sub(self.oldest) >= away {
            return false;
        }
        let was = std::mem::take(&mut self.sent[ticket as usize % WINDOW]);
        while self.oldest != self.next && self.sent[self.oldest as usize % WINDOW] == 0 {
            self.oldest = self.oldest.wrapping_add(1);
        }
        was != 0
    }

    /// The oldest ticket, if it has been away for too long; it is not away any more. `now`
    /// is asked for the time, in nanoseconds, only where something is away.
    #[inline]
    pub fn overdue(&mut self, now: impl FnOnce() -> u64) -> Option<u32> {
        if self.oldest == self.next {
            return None;
        }
        let (ticket, sent) = (self.oldest, self.sent[self.oldest as usize % WINDOW]);
        let late = now().saturating_sub(sent) > self.timeout;
        (late && self.settle(ticket)).then_some(ticket)
    }

    /// All that is away is given up.
    #[inline]
    pub fn clear(&mut self) {
        self.sent.fill(0);
        self.oldest = self.next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_back_in_time_is_lost_once_and_in_order() {
        let mut absence = Absence::new(10);
        for (ticket, now) in [(u32::MAX - 1, 0), (u32::MAX, 1), (0, 2), (1, 20)] {
            absence.begin(ticket, now);
        }
        assert!(absence.settle(u32::MAX));
        assert!(!absence.settle(u32::MAX), "it is back already");
        assert!(!absence.settle(2), "it was never sent");
        assert_eq!(absence.overdue(|| 11), None, "packets that went at 0 went at 1");
        assert_eq!(absence.overdue(|| 12), Some(u32::MAX - 1));
        assert_eq!(absence.overdue(|| 12), None);
        assert_eq!(absence.overdue(|| 13), Some(0));
        assert!(!absence.settle(0), "it comes too late");
        assert!(absence.settle(1));
        assert_eq!(absence.overdue(|| 1000), None);
        absence.begin(2, 1000);
        absence.take_back();
        absence.begin(2, 1001);
        absence.clear();
        assert!(!absence.settle(2));
    }
}
