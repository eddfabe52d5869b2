//! The queues of a port: where packets come in and go out.

use std::os::fd::RawFd;
use std::sync::Arc;

use weft_dpdk_sys as sys;

use super::device::Interrupt;
use super::open::Open;
use crate::buffer::Batch;
use crate::buffer::Packet;

/// One receive queue; used by one thread at a time.
#[derive(Debug)]
pub struct RxQueue {
    port: Arc<Open>,
    queue: u16,
    /// Whether the device may spread a packet over several buffers.
    may_chain: bool,
    interrupt: Option<Interrupt>,
}

/// One transmit queue; used by one thread at a time.
#[derive(Debug)]
pub struct TxQueue {
    port: Arc<Open>,
    queue: u16,
    /// Whether packets may ask the device for something.
    prepares: bool,
    is_tended: bool,
}

impl RxQueue {
    pub(crate) fn new(port: Arc<Open>, queue: u16) -> RxQueue {
        // What comes out of a memory ring was a `Packet` when it went in.
        let may_chain = port.device.ring.is_none();
        let interrupt = port.device.interrupts().get(usize::from(queue)).copied();
        RxQueue { port, queue, may_chain, interrupt }
    }

    /// Whether its device tells of packets, so that a thread can [sleep](crate::Sleep) for them.
    pub fn has_interrupt(&self) -> bool {
        self.interrupt.is_some()
    }

    /// Asks the device to tell of packets; by this descriptor, which is readable then.
    pub(crate) fn arm(&self) -> Option<RawFd> {
        let interrupt = self.interrupt?;
        interrupt.arm(self.port.device.id, self.queue).then_some(interrupt.descriptor)
    }

    /// The device need not tell of packets any more.
    pub fn disarm(&self) {
        if let Some(interrupt) = self.interrupt {
            interrupt.disarm(self.port.device.id, self.queue);
        }
    }

    /// Adds up to `count` packets to `batch`; returns how many. A packet longer
    /// than [`Pool::PACKET_BYTES`](crate::Pool::PACKET_BYTES), which a device
    /// can only give in several buffers, is dropped and counted as one of the
    /// port's `rx_errors`.
    #[inline]
    pub fn receive(&mut self, batch: &mut Batch, count: usize) -> usize {
        let (port, queue) = (self.port.device.id, self.queue);
        let received = batch.fill(count, |room, count| {
            // SAFETY: `room` has space for `count` pointers; the queue exists
            // and this is its only handle.
            unsafe { usize::from(sys::weft_rx_burst(port, queue, room, count as u16)) }
        });
        if self.may_chain {
            let first = batch.len() - received;
            if !batch[first..].iter().all(Packet::is_linear) {
                return received - self.drop_chained(batch);
            }
        }
        received
    }

    /// Drops the packets in several buffers; returns how many there were.
    #[cold]
    fn drop_chained(&self, batch: &mut Batch) -> usize {
        let before = batch.len();
        batch.retain(|packet| packet.is_linear());
        let dropped = before - batch.len();
        self.port.count_chained(dropped as u64);
        dropped
    }
}

impl TxQueue {
    pub(crate) fn new(port: Arc<Open>, queue: u16) -> TxQueue {
        let prepares = port.device.offloads().sums_udp;
        let is_tended = port.device.is_tended();
        TxQueue { port, queue, prepares, is_tended }
    }

    /// Whether the device computes UDP checksums for packets that
    /// [ask for one](Packet::ask_for_udp_checksum).
    #[inline(always)]
    pub fn sums_udp(&self) -> bool {
        self.prepares
    }

    /// Lets messages leave that the driver keeps for the next burst (LACP): to be called between
    /// bursts, at least every 100 ms.
    #[inline]
    pub fn tend(&mut self) {
        if self.is_tended {
            // SAFETY: the queue exists and this is its only handle; no packet is read.
            unsafe {
                sys::weft_tx_burst(self.port.device.id, self.queue, std::ptr::null_mut(), 0);
            }
        }
    }

    /// Whether the device is known to be gone, so that it takes nothing.
    pub fn is_gone(&self) -> bool {
        self.port.is_gone()
    }

    /// Sends packets from the front of `batch`; what the device does not take
    /// stays in `batch`. Returns how many were taken.
    ///
    /// A memory ring takes all: it behaves as a wire into the other end's
    /// receive queue. What finds that full is counted as the other end's
    /// `rx_missed`; what finds no other end, as this end's `tx_errors`.
    #[inline]
    pub fn transmit(&mut self, batch: &mut Batch) -> usize {
        let (port, queue) = (self.port.device.id, self.queue);
        if self.prepares {
            return prepared_burst(port, queue, batch);
        }
        let Some(ring) = &self.port.device.ring else { return burst(port, queue, batch) };
        let offered = batch.len();
        if !ring.is_connected() {
            ring.count_unconnected(offered as u64);
        } else {
            let sent = burst(port, queue, batch);
            if sent == offered {
                return offered;
            }
            ring.count_missed_by_peer((offered - sent) as u64);
        }
        batch.clear();
        offered
    }
}

/// Offers `batch` to a transmit queue of which the caller has the only handle.
#[inline(always)]
fn burst(port: u16, queue: u16, batch: &mut Batch) -> usize {
    batch.offer(|first, count| {
        // SAFETY: `first` points to `count` owned packets; the queue exists.
        unsafe { usize::from(sys::weft_tx_burst(port, queue, first, count as u16)) }
    })
}

/// The same where packets may ask the device for checksums, which some drivers want prepared.
#[inline(never)]
fn prepared_burst(port: u16, queue: u16, batch: &mut Batch) -> usize {
    batch.offer(|first, count| {
        // SAFETY: as in `burst`. Packets behind one that is refused are not sent either.
        unsafe {
            let ready = sys::weft_tx_prepare(port, queue, first, count as u16);
            usize::from(sys::weft_tx_burst(port, queue, first, ready))
        }
    })
}
