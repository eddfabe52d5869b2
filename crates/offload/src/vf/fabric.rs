//! What carries packets to a process over a NIC, whose switch takes frames by destination
//! MAC from the node's port to the virtual function of the process, and back.
//!
//! A carriage belongs to the queue, which knows no ports, its [`VfEndpoint`] to the worker
//! that has them; two rings lie between, though one thread has both. A NIC may drop what
//! a full queue has no room for and not say so, so what is not back in time is lost.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rtrb::{Consumer, Producer, RingBuffer};
use weft_dataplane::offload::{
    Address, Carrier, Coming, FrameKind, NextHops, Refusal, SendQueue, WINDOW,
};
use weft_dataplane::service_path::{VfEndpoint, VfPath};
use weft_dpdk::{Packet, Pool};
use weft_function::Metadata;

use crate::frame::{Head, ROOM, Record};
pub use crate::vf::direct_path::{Ends, INDICES, PATHS, Peers};
use crate::vf::direct_path::{Line, worker_of};

/// Frames that wait between a carriage and its endpoint. There are no more than tickets and
/// what functions emit.
const RING: usize = 2 * WINDOW;
/// Frames taken from the ring at once.
const BURST: usize = 32;

/// How a function is reached that has virtual functions of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fabric {
    /// MAC addresses.
    pub ends: Ends,
    /// Functions behind the same port of the node, which this one can send packets to.
    pub peers: Peers,
    /// The function's devices: what it receives at, and what it sends at if that is
    /// another.
    pub devices: Vec<String>,
    /// Packets that each of its queues holds.
    pub descriptors: u16,
    /// A packet that is not back after so long is lost.
    pub timeout: Duration,
}

/// Carries the packets of a queue.
pub(crate) struct Carriage {
    line: Line,
    orders: Arc<AtomicU32>,
    pool: Pool,
    leaving: SendQueue,
    back: Consumer<Packet>,
    now: Arc<dyn Fn() -> u64 + Send + Sync>,
}

/// The other end of a carriage, at the ports.
#[derive(Debug)]
struct Endpoint {
    out: Consumer<Packet>,
    back: Producer<Packet>,
}

/// What a carriage is made of.
pub(crate) struct Parts {
    pub line: Line,
    pub function: String,
    pub path: u32,
    pub orders: Arc<AtomicU32>,
    pub pool: Pool,
    pub timeout: Duration,
    pub now: Arc<dyn Fn() -> u64 + Send + Sync>,
}

/// A carriage with its endpoint.
pub(crate) fn new(parts: Parts) -> (Carriage, VfPath) {
    let Parts { line, function, path, orders, pool, timeout, now } = parts;
    let (sent, out) = RingBuffer::new(RING);
    let (arriving, back) = RingBuffer::new(RING);
    let endpoint = Box::new(Endpoint { out, back: arriving });
    let back_index = INDICES[1];
    let path = VfPath { function, remote_queue: 0, port: 0, path, back_index, endpoint };
    let leaving = SendQueue::new(sent, timeout.as_nanos() as u64);
    (Carriage { line, orders, pool, leaving, back, now }, path)
}

impl Debug for Carriage {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_struct("Carriage").field("line", &self.line).finish_non_exhaustive()
    }
}

impl Carriage {
    /// A packet whose headroom others have used is copied behind the header.
    #[cold]
    fn copy(&self, record: &Record, onward: &NextHops, packet: &Packet) -> Result<Packet, Refusal> {
        let mut copy = self.pool.allocate().ok_or(Refusal::Full)?;
        let header = copy.append(self.line.header_length(onward.hops().len()));
        self.line.write(record, onward, header.ok_or(Refusal::TooLong)?);
        let room = copy.append(packet.len()).ok_or(Refusal::TooLong)?;
        room.copy_from_slice(packet.data());
        Ok(copy)
    }
}

impl Carrier for Carriage {
    fn put(
        &mut self,
        mut packet: Packet,
        ticket: u32,
        now: u64,
        onward: &NextHops,
    ) -> Result<(), Refusal> {
        let header = self.line.header_length(onward.hops().len());
        if packet.len() + header > Pool::PACKET_BYTES + usize::from(ROOM) {
            return Err(Refusal::TooLong);
        }
        let metadata = *packet.metadata();
        let order = self.orders.load(Ordering::Relaxed);
        let record = Record { ticket, what: FrameKind::Packet, reason: 0, now, order, metadata };
        if !self.line.put(&record, onward, &mut packet) {
            packet = self.copy(&record, onward, &packet)?;
        }
        self.leaving.take(packet, ticket, now)
    }

    fn address(&self) -> Option<Address> {
        let (network, function) = (self.line.network(), self.line.own());
        Some(Address { network, function, order: self.orders.load(Ordering::Relaxed) })
    }

    fn in_hand(&self) -> usize {
        self.leaving.in_hand()
    }

    fn is_full(&self) -> bool {
        self.leaving.is_full()
    }

    fn send(&mut self) {
        self.leaving.send();
    }

    fn drop_last(&mut self) {
        self.leaving.drop_last();
    }

    fn clear(&mut self) {
        self.leaving.clear();
        while self.back.pop().is_ok() {}
    }

    fn receive(&mut self, sort: &mut dyn FnMut(Coming)) -> usize {
        let mut count = 0;
        while count < BURST
            && let Ok(mut packet) = self.back.pop()
        {
            count += 1;
            let Some((Head { ticket, what, reason, .. }, past)) = self.line.back(&mut packet)
            else {
                sort(Coming::Stray);
                continue;
            };
            let is_last = !matches!(what, FrameKind::Emitted | FrameKind::Answer);
            if is_last && !self.leaving.settle(ticket) {
                sort(Coming::Stray);
                continue;
            }
            sort(Coming::Ticketed { ticket, what, reason, past, packet });
        }
        count + self.leaving.give_up(BURST - count, &*self.now, sort)
    }

    fn keeps_order(&self) -> bool {
        // A NIC does, but a gap is no proof of a loss before its time has passed.
        false
    }
}

impl VfEndpoint for Endpoint {
    #[inline]
    fn next_leaving(&mut self) -> Option<Packet> {
        self.out.pop().ok()
    }

    #[inline]
    fn take(&mut self, packet: Packet) -> bool {
        self.back.push(packet).is_ok()
    }

    #[inline]
    fn worker_of(&self, frame: &[u8]) -> u16 {
        worker_of(frame)
    }
}
