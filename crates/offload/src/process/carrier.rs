//! What carries packets to a process and back: frames with a network service header
//! over the ring, or plain frames.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use weft_dataplane::offload::{Carrier, Coming, FrameKind, NextHops, Refusal, WINDOW};
use weft_dpdk::{Batch, Packet, Pool, RxQueue, TxQueue};
use weft_function::Metadata;

use crate::frame::{self, Form, Head, Record};

const ROOM: usize = frame::ROOM as usize;

/// Frames taken from a ring at once.
const BURST: usize = 32;
/// Bursts that a ring can have when a function has gone; it holds fewer frames, but who
/// fills it while it is emptied must not hold the worker.
const LEFT: usize = 4 * WINDOW / BURST;

/// One worker's queues of the ring.
#[derive(Debug)]
pub(crate) struct Frames {
    pub rx: RxQueue,
    pub tx: TxQueue,
    /// None for plain frames.
    pub form: Option<Form>,
    /// Plain frames on their way.
    pub sent: Sent,
    /// Number of the last order to the function.
    pub orders: Arc<AtomicU32>,
    /// Where packets are copied to whose headroom others have used.
    pub pool: Pool,
    /// What leaves with the burst at hand.
    pub leaving: Batch,
    pub coming: Batch,
}

/// When plain frames went out. Nothing but time tells that one was dropped: what a
/// function of others does with its frames is its own affair.
#[derive(Debug)]
pub(crate) struct Sent {
    patience: Duration,
    /// Tickets of the last frames, oldest first, and when they were sent; some of them are
    /// back. The newest may wait for room.
    tickets: VecDeque<(u32, Option<Instant>)>,
}

impl Sent {
    /// Frames that are lost when they are not back after `patience`.
    pub(crate) fn new(patience: Duration) -> Sent {
        Sent { patience, tickets: VecDeque::with_capacity(WINDOW) }
    }

    /// A frame is about to be sent.
    fn note(&mut self, ticket: u32) {
        // No more are away.
        if self.tickets.len() == WINDOW {
            self.tickets.pop_front();
        }
        self.tickets.push_back((ticket, None));
    }

    /// All have been sent but the newest `waiting`.
    fn stamp(&mut self, waiting: usize) {
        let now = Instant::now();
        for (_, sent) in self.tickets.iter_mut().rev().skip(waiting) {
            if sent.is_some() {
                break;
            }
            *sent = Some(now);
        }
    }

    /// Hands the tickets that are overdue to `lost`.
    fn expire(&mut self, mut lost: impl FnMut(u32)) {
        let now = Instant::now();
        while let Some((ticket, Some(sent))) = self.tickets.front()
            && now.duration_since(*sent) > self.patience
        {
            lost(*ticket);
            self.tickets.pop_front();
        }
    }
}

impl Carrier for Frames {
    fn put(
        &mut self,
        mut packet: Packet,
        ticket: u32,
        now: u64,
        _: &NextHops,
    ) -> Result<(), Refusal> {
        let length = packet.len();
        let header = self.form.as_ref().map_or(0, Form::header_length);
        if length > Pool::PACKET_BYTES || length + header > Pool::PACKET_BYTES + ROOM {
            return Err(Refusal::TooLong);
        }
        if let Some(form) = &self.form {
            let metadata = *packet.metadata();
            let order = self.orders.load(Ordering::Relaxed);
            let record =
                Record { ticket, what: FrameKind::Packet, reason: 0, now, order, metadata };
            if !form.put(&record, &mut packet) {
                packet = copy(form, &self.pool, &record, &packet)?;
            }
        }
        self.leaving.push(packet).map_err(|_| Refusal::Full)?;
        if self.form.is_none() {
            self.sent.note(ticket);
        }
        Ok(())
    }

    fn in_hand(&self) -> usize {
        self.leaving.len()
    }

    fn is_full(&self) -> bool {
        self.leaving.is_full()
    }

    fn send(&mut self) {
        self.tx.transmit(&mut self.leaving);
        if self.form.is_none() {
            self.sent.stamp(self.leaving.len());
        }
    }

    fn drop_last(&mut self) {
        drop(self.leaving.pop());
        self.sent.tickets.pop_back();
    }

    fn clear(&mut self) {
        self.leaving.clear();
        self.sent.tickets.clear();
        for _ in 0..LEFT {
            if self.rx.receive(&mut self.coming, BURST) == 0 {
                break;
            }
            self.coming.clear();
        }
    }

    fn receive(&mut self, sort: &mut dyn FnMut(Coming)) -> usize {
        let count = self.rx.receive(&mut self.coming, BURST);
        if count == 0 && !self.sent.tickets.is_empty() {
            let mut overdue = 0;
            self.sent.expire(|ticket| {
                overdue += 1;
                sort(Coming::Lost(ticket));
            });
            return overdue;
        }
        self.coming.iter().for_each(Packet::prefetch);
        for mut packet in self.coming.drain() {
            let Some(form) = &self.form else {
                sort(Coming::Plain(packet));
                continue;
            };
            let Some(Head { ticket, what, reason, .. }) = form.open(&mut packet) else {
                sort(Coming::Stray);
                continue;
            };
            sort(Coming::Ticketed { ticket, what, reason, past: None, packet });
        }
        count
    }

    fn is_plain(&self) -> bool {
        self.form.is_none()
    }

    fn is_dear(&self) -> bool {
        // The driver takes and gives back buffers for a whole burst, whatever came.
        true
    }
}

/// A packet whose headroom others have used is copied behind the header.
#[cold]
fn copy(form: &Form, pool: &Pool, record: &Record, packet: &Packet) -> Result<Packet, Refusal> {
    let mut copy = pool.allocate().ok_or(Refusal::Full)?;
    let header = copy.append(form.header_length()).ok_or(Refusal::TooLong)?;
    form.write(record, header);
    let room = copy.append(packet.len()).ok_or(Refusal::TooLong)?;
    room.copy_from_slice(packet.data());
    Ok(copy)
}
