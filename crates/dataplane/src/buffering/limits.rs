//! What may wait for idle users: bounds in packets and bytes for each bearer,
//! and one for all of a worker.
//!
//! The packets themselves lie with the [`Queues`](crate::buffering::queues::Queues); here
//! is the account that says whether one more may.

use std::collections::HashMap;

use crate::counters::DropReason;

/// The function that the queues is told for packets that wait for their bearer:
/// none has this number.
pub const WAITING: u16 = u16::MAX;

/// The account of one worker.
#[derive(Debug)]
pub struct Limits {
    /// By slot; room is made beforehand, so that no packet waits for memory.
    bearers: HashMap<u32, Account>,
    bounds: Bounds,
    packets: usize,
}

/// How much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Packets of one bearer.
    pub packets: usize,
    /// Bytes of one bearer.
    pub bytes: usize,
    /// Packets of all bearers of the worker.
    pub in_all: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    packets: usize,
    bytes: usize,
    told: bool,
}

impl Limits {
    /// Nothing waits yet.
    pub fn new(bounds: Bounds) -> Limits {
        // A bearer has an account while something waits for it.
        let bearers = HashMap::with_capacity(2 * bounds.in_all);
        Limits { bearers, bounds, packets: 0 }
    }

    /// Notes that a packet of so many bytes waits for the bearer at `slot`, if
    /// it may.
    ///
    /// # Errors
    /// Why it may not.
    pub fn take(&mut self, slot: u32, bytes: usize) -> Result<(), DropReason> {
        if self.packets >= self.bounds.in_all {
            return Err(DropReason::BuffersExhausted);
        }
        let account = self.bearers.get(&slot).copied().unwrap_or_default();
        let after =
            Account { packets: account.packets + 1, bytes: account.bytes + bytes, ..account };
        if after.packets > self.bounds.packets || after.bytes > self.bounds.bytes {
            return Err(DropReason::BufferFull);
        }
        self.bearers.insert(slot, after);
        self.packets += 1;
        Ok(())
    }

    /// Whether the first packet that waits for `slot` is still to be told.
    pub fn is_untold(&self, slot: u32) -> bool {
        self.bearers.get(&slot).is_some_and(|account| !account.told)
    }

    /// It was told.
    pub fn note_told(&mut self, slot: u32) {
        if let Some(account) = self.bearers.get_mut(&slot) {
            account.told = true;
        }
    }

    /// Whether anything waits for the bearer at `slot`.
    pub fn holds(&self, slot: u32) -> bool {
        self.packets > 0 && self.bearers.contains_key(&slot)
    }

    /// Nothing waits for the bearer any more.
    pub fn settle(&mut self, slot: u32) {
        if self.packets > 0
            && let Some(account) = self.bearers.remove(&slot)
        {
            self.packets -= account.packets;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bound_has_a_name_of_its_own() {
        let mut idle = Limits::new(Bounds { packets: 2, bytes: 100, in_all: 3 });
        assert_eq!(idle.take(1, 60), Ok(()));
        assert_eq!(idle.take(1, 60), Err(DropReason::BufferFull));
        assert_eq!(idle.take(1, 40), Ok(()));
        assert_eq!(idle.take(1, 0), Err(DropReason::BufferFull));
        assert_eq!(idle.take(2, 1), Ok(()));
        assert_eq!(idle.take(3, 1), Err(DropReason::BuffersExhausted));
        idle.settle(1);
        assert!(!idle.holds(1) && idle.holds(2));
        assert_eq!((idle.take(3, 1), idle.take(4, 1)), (Ok(()), Ok(())));
        assert_eq!(idle.take(5, 1), Err(DropReason::BuffersExhausted));
    }
}
