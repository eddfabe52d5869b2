//! Sends the packets of one stream.

use weft_dpdk::{Batch, Pool, TxQueue, tsc};

use crate::order::Order;
use crate::pace::Pace;
use crate::stamp::Stamp;
use crate::template::{Prototype, Template, TemplateError};

/// Packets that are sent at once.
const BURST: usize = 32;

/// What became of the packets that were due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The port took them.
    pub sent: u64,
    /// They never left: the port did not take them, the pool was exhausted, or
    /// the source was held up until it was too late for them.
    pub unsent: u64,
}

/// Sends the packets of one stream at a steady rate, in an open loop: what
/// cannot leave when it is due does not wait for better times.
#[derive(Debug)]
pub struct Source {
    stream: u16,
    prototype: Prototype,
    order: Order,
    pace: Pace,
    /// By user: packets sent, of which follows the next sequence number.
    sent: Vec<u64>,
    tally: Tally,
    batch: Batch,
}

impl Source {
    /// A source of `rate` packets per second for as many users as there are
    /// weights. Of the packets a user sends a share that is proportional to its
    /// weight, evenly spread. The environment must have been started.
    ///
    /// # Errors
    /// What is wrong with the template or the weights.
    pub fn new(template: &Template, weights: &[u32], rate: u64) -> Result<Source, TemplateError> {
        let prototype = Prototype::new(template, weights.len())?;
        let order = Order::new(weights);
        if order.is_empty() {
            return Err(TemplateError::Silent);
        }
        Ok(Source {
            stream: template.stream,
            prototype,
            order,
            pace: Pace::new(rate, tsc::hz()),
            sent: vec![0; weights.len()],
            tally: Tally::default(),
            batch: Batch::new(),
        })
    }

    /// Sends what is due, at most one burst; returns how many packets left. The
    /// clock starts with the first call.
    pub fn send(&mut self, tx: &mut TxQueue, pool: &Pool) -> usize {
        let now = tsc::now();
        let due = self.pace.due(now, BURST as u64);
        self.tally.unsent += due.too_late;
        if due.now == 0 {
            return 0;
        }
        if !pool.allocate_bulk(&mut self.batch, due.now as usize) {
            self.tally.unsent += due.now;
            return 0;
        }
        self.write(now);
        let sent = tx.transmit(&mut self.batch);
        self.tally.sent += sent as u64;
        self.take_back();
        sent
    }

    /// Ends the sending for good: what is due by now and was not sent counts as
    /// unsent.
    pub fn finish(&mut self) {
        self.tally.unsent += self.pace.stop(tsc::now());
    }

    /// What became of the packets so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Packets sent so far, by user.
    pub fn sent(&self) -> &[u64] {
        &self.sent
    }

    /// Writes the packets of the batch, which are empty.
    #[inline]
    fn write(&mut self, now: u64) {
        for packet in self.batch.iter_mut() {
            let user = self.order.turn();
            let sent = &mut self.sent[user as usize];
            let sequence = *sent as u32;
            *sent += 1;
            let stamp = Stamp { stream: self.stream, user, sequence, sent: now };
            // A buffer of a pool has room for every prototype.
            if let Some(frame) = packet.append(self.prototype.len()) {
                self.prototype.write(frame, &stamp);
            }
        }
    }

    /// Drops what the port did not take. A sequence number that was not sent is
    /// free again, so that a gap at the receiver is always a loss.
    #[inline]
    fn take_back(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        self.tally.unsent += self.batch.len() as u64;
        for packet in self.batch.iter() {
            if let Some(stamp) = self.prototype.stamp_of(packet.data()) {
                self.sent[stamp.user as usize] -= 1;
            }
        }
        self.batch.clear();
    }
}
