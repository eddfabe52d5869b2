//! A bounded ring between one producer and one consumer.

use std::ffi::{CString, c_void};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use weft_dpdk_sys as sys;

use crate::buffer::Batch;
use crate::buffer::Packet;
use crate::eal::Eal;
use crate::error::{self, Error, Result};
use crate::numa;

/// A ring of packets. [`Ring::new`] gives its two ends; each may move to
/// another thread. Packets that are left when both ends are gone go back to
/// their pool.
#[derive(Debug)]
pub struct Ring(NonNull<sys::rte_ring>);

// SAFETY: one producer and one consumer may use the ring at the same time, and
// its two ends see to it that there are no more.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

/// The end of a [`Ring`] that packets are put in at.
#[derive(Debug)]
pub struct Producer(Arc<Ring>);

/// The end of a [`Ring`] that packets are taken out at.
#[derive(Debug)]
pub struct Consumer(Arc<Ring>);

impl Ring {
    /// Makes a ring for at least `capacity` packets.
    ///
    /// # Errors
    /// [`Error::Ring`] when there is no memory for it.
    #[expect(clippy::new_ret_no_self, reason = "a ring is only used by its two ends")]
    pub fn new(eal: &Eal, name: &str, capacity: u32) -> Result<(Producer, Consumer)> {
        let ring = Arc::new(Ring::create(eal, name, capacity)?);
        Ok((Producer(ring.clone()), Consumer(ring)))
    }

    pub(crate) fn create(_: &Eal, name: &str, capacity: u32) -> Result<Ring> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let short: String = name.chars().filter(char::is_ascii_alphanumeric).take(12).collect();
        let text = CString::new(format!("{short}-{serial}")).unwrap_or_default();
        // One slot of a DPDK ring stays free; DPDK refuses what is too large.
        let slots = capacity.saturating_add(1).checked_next_power_of_two().unwrap_or(u32::MAX);
        // SAFETY: the environment stands; the name is a C string.
        let ring = numa::near_or_anywhere(|socket| unsafe {
            let flags = sys::RING_F_SP_ENQ | sys::RING_F_SC_DEQ;
            sys::rte_ring_create(text.as_ptr(), slots, socket, flags)
        });
        NonNull::new(ring)
            .map(Ring)
            .ok_or_else(|| Error::Ring { name: name.to_owned(), reason: error::last() })
    }

    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut sys::rte_ring {
        self.0.as_ptr()
    }

    /// Gives all packets in the ring back to their pools. No other thread may
    /// take packets out meanwhile.
    pub(crate) fn drain(&self) {
        let mut object = std::ptr::null_mut();
        // SAFETY: the ring is valid; what is in it was put in as packets.
        unsafe {
            while sys::weft_ring_dequeue_burst(self.as_ptr(), &mut object, 1) == 1 {
                drop(Packet::from_raw(object.cast()));
            }
        }
    }
}

impl Producer {
    /// Moves packets from the front of `batch` into the ring until it is full;
    /// the rest stays in `batch`. Returns how many were moved.
    #[inline]
    pub fn send(&mut self, batch: &mut Batch) -> usize {
        batch.offer(|first, count| {
            // SAFETY: `first` points to `count` owned packets, and only this
            // end puts packets in.
            unsafe {
                let objects = first.cast::<*mut c_void>();
                sys::weft_ring_enqueue_burst(self.0.as_ptr(), objects, count as u32) as usize
            }
        })
    }

    /// Packets that are in the ring.
    #[inline]
    pub fn len(&self) -> usize {
        // SAFETY: the ring lives as long as `self`.
        unsafe { sys::weft_ring_count(self.0.as_ptr()) as usize }
    }

    /// Whether no packet is in the ring.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Consumer {
    /// Adds up to `count` packets to `batch`, oldest first; returns how many.
    #[inline]
    pub fn receive(&mut self, batch: &mut Batch, count: usize) -> usize {
        batch.fill(count, |room, count| {
            // SAFETY: `room` has space for `count` pointers; all that comes out
            // was put in as a packet, and only this end takes packets out.
            unsafe {
                let objects = room.cast::<*mut c_void>();
                sys::weft_ring_dequeue_burst(self.0.as_ptr(), objects, count as u32) as usize
            }
        })
    }

    /// Packets waiting.
    #[inline]
    pub fn len(&self) -> usize {
        // SAFETY: the ring lives as long as `self`.
        unsafe { sys::weft_ring_count(self.0.as_ptr()) as usize }
    }

    /// Whether no packet waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.drain();
        // SAFETY: no end is left.
        unsafe { sys::rte_ring_free(self.as_ptr()) };
    }
}
