//! A burst of owned packets.

use std::ops::{Deref, DerefMut};

use arrayvec::ArrayVec;
use weft_dpdk_sys as sys;

use super::packet::Packet;
use super::pool::Pool;

/// Up to [`Batch::CAPACITY`] owned packets, in order. A batch derefs to a slice
/// of packets; what is left in it when it is dropped goes back to the pool.
#[derive(Debug, Default)]
pub struct Batch(ArrayVec<Packet, { Batch::CAPACITY }>);

impl Batch {
    /// Packets that fit: two bursts of 32, so that what functions add to a
    /// burst fits beside it, and a set of positions is one `u64`.
    pub const CAPACITY: usize = 64;

    /// A batch without packets.
    #[inline]
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Adds a packet behind the others; gives it back when there is no room.
    #[inline]
    pub fn push(&mut self, packet: Packet) -> Result<(), Packet> {
        self.0.try_push(packet).map_err(|full| full.element())
    }

    /// Takes all packets out, in order.
    #[inline]
    pub fn drain(&mut self) -> impl Iterator<Item = Packet> + '_ {
        self.0.drain(..)
    }

    /// Takes the last packet out.
    #[inline]
    pub fn pop(&mut self) -> Option<Packet> {
        self.0.pop()
    }

    /// Whether no packet fits any more.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.0.is_full()
    }

    /// Drops the packets behind the first `length`, all in one call.
    #[inline]
    pub fn truncate(&mut self, length: usize) {
        let keep = length.min(self.len());
        let count = self.len() - keep;
        if count == 0 {
            return;
        }
        // SAFETY: the packets behind `keep` are owned and are forgotten here
        // before DPDK takes them back.
        unsafe {
            let first = self.0.as_mut_ptr().add(keep).cast::<*mut sys::rte_mbuf>();
            self.0.set_len(keep);
            sys::rte_pktmbuf_free_bulk(first, count as u32);
        }
    }

    /// Drops the packets for which `keep` says no; the others stay in order.
    pub fn retain(&mut self, mut keep: impl FnMut(&Packet) -> bool) {
        self.0.retain(|packet| keep(packet));
    }

    /// Drops all packets in one call.
    #[inline]
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Lets `source` write up to `count` packets behind the present ones;
    /// `source` returns how many it wrote.
    #[inline]
    pub(crate) fn fill(
        &mut self,
        count: usize,
        source: impl FnOnce(*mut *mut sys::rte_mbuf, usize) -> usize,
    ) -> usize {
        let length = self.0.len();
        let room = count.min(Self::CAPACITY - length);
        // SAFETY: a packet is a transparent pointer; `room` slots behind
        // `length` are allocated, and `source` says how many it made valid.
        unsafe {
            let first = self.0.as_mut_ptr().add(length).cast::<*mut sys::rte_mbuf>();
            let written = source(first, room).min(room);
            self.0.set_len(length + written);
            written
        }
    }

    /// Offers all packets to `sink`, which says how many of the first it took;
    /// those are no longer ours, the others move to the front.
    #[inline]
    pub(crate) fn offer(
        &mut self,
        sink: impl FnOnce(*mut *mut sys::rte_mbuf, usize) -> usize,
    ) -> usize {
        let length = self.0.len();
        let first = self.0.as_mut_ptr().cast::<*mut sys::rte_mbuf>();
        let taken = sink(first, length).min(length);
        // SAFETY: the first `taken` packets belong to the sink now; the rest is
        // moved over them bit by bit and the length says so.
        unsafe {
            std::ptr::copy(first.add(taken), first, length - taken);
            self.0.set_len(length - taken);
        }
        taken
    }
}

impl Pool {
    /// Adds `count` empty packets to `batch`; all of them or none.
    #[inline]
    pub fn allocate_bulk(&self, batch: &mut Batch, count: usize) -> bool {
        batch.fill(count, |room, count| {
            // SAFETY: `room` has space for `count` pointers, and on success all
            // of them are valid packets that are now ours.
            match unsafe { sys::weft_mbuf_alloc_bulk(self.as_ptr(), room, count as u32) } {
                0 => count,
                _ => 0,
            }
        }) == count
    }
}

impl Deref for Batch {
    type Target = [Packet];

    #[inline]
    fn deref(&self) -> &[Packet] {
        &self.0
    }
}

impl DerefMut for Batch {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Packet] {
        &mut self.0
    }
}

impl Extend<Packet> for Batch {
    /// # Panics
    /// When the packets do not fit.
    fn extend<I: IntoIterator<Item = Packet>>(&mut self, packets: I) {
        self.0.extend(packets);
    }
}
