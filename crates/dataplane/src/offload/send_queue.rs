//! Packets on their way to another thread that sends them, for carriers that may lose some.

mod absence;

use rtrb::Producer;
use weft_dpdk::{Batch, Packet};

use self::absence::Absence;
use super::carrier::Coming;
use super::in_flight_entry::Refusal;

/// A batch at hand, the queue that it goes to, and how long its packets are away.
#[derive(Debug)]
pub struct SendQueue {
    pending: Batch,
    out: Producer<Packet>,
    absence: Absence,
}

impl SendQueue {
    /// Nothing is away. What is not back after `timeout` nanoseconds is lost.
    #[inline]
    pub fn new(out: Producer<Packet>, timeout: u64) -> SendQueue {
        SendQueue { pending: Batch::new(), out, absence: Absence::new(timeout) }
    }

    /// Takes a packet in hand.
    ///
    /// # Errors
    /// [`Refusal::Full`] when there is no room.
    #[inline]
    pub fn take(&mut self, packet: Packet, ticket: u32, now: u64) -> Result<(), Refusal> {
        self.pending.push(packet).map_err(|_| Refusal::Full)?;
        self.absence.begin(ticket, now);
        Ok(())
    }

    /// Packets in hand.
    #[inline]
    pub fn in_hand(&self) -> usize {
        self.pending.len()
    }

    /// Whether no more fit.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.pending.is_full()
    }

    /// Hands all of them over, or none where there is no room for all.
    #[inline]
    pub fn send(&mut self) {
        if self.out.slots() >= self.pending.len() {
            for packet in self.pending.drain() {
                // There is room.
                drop(self.out.push(packet));
            }
        }
    }

    /// The packet that was taken last does not go.
    #[inline]
    pub fn drop_last(&mut self) {
        if self.pending.pop().is_some() {
            self.absence.take_back();
        }
    }

    /// Gives up what is in hand and what is away.
    #[inline]
    pub fn clear(&mut self) {
        self.pending.clear();
        self.absence.clear();
    }

    /// Takes a ticket as back; false when it was not away.
    #[inline]
    pub fn settle(&mut self, ticket: u32) -> bool {
        self.absence.settle(ticket)
    }

    /// Says which tickets, up to `most` of them, have been away for too long; returns how
    /// many. `now` tells the time, in nanoseconds.
    #[inline]
    pub fn give_up(
        &mut self,
        most: usize,
        now: impl Fn() -> u64,
        sort: &mut dyn FnMut(Coming),
    ) -> usize {
        let mut count = 0;
        while count < most
            && let Some(ticket) = self.absence.overdue(&now)
        {
            count += 1;
            sort(Coming::Lost(ticket));
        }
        count
    }
}
