//! Pools of packet buffers.

use std::ffi::{CString, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use weft_dpdk_sys as sys;

use super::packet::{METADATA_BYTES, Opaque, Packet};
use crate::eal::{Eal, LISTED};
use crate::error::{self, Error, Result};
use crate::lock;
use crate::numa;

/// Buffers that each registered thread keeps at hand.
const THREAD_CACHE: u32 = 256;

/// A pool of packet buffers, cheap to clone; freed with its last clone.
///
/// Every buffer has room for [`METADATA_BYTES`](crate::METADATA_BYTES), a headroom of
/// 128 bytes for headers that are put in front, and
/// [`Pool::PACKET_BYTES`] bytes of packet.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pool: NonNull<sys::rte_mempool>,
    size: u32,
    /// Bytes of packet that a buffer holds.
    room: usize,
}

// SAFETY: a mempool is made for use by any number of threads.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Pool {
    /// Longest packet that fits, in bytes.
    pub const PACKET_BYTES: usize = 2048;
    /// Longest IP packet that fits behind an Ethernet header with two VLAN tags.
    pub const PLAIN_MTU: u16 = (Self::PACKET_BYTES - 14 - 8) as u16;
    /// The same as `PACKET_BYTES` of a pool for jumbo frames: 9,000 bytes of IP and all that may be in front.
    pub const JUMBO_BYTES: usize = 9216;

    /// Makes a pool of `size` buffers; 2ⁿ − 1 uses memory best. `name` need not
    /// be unique. The memory is touched here, so that no packet meets a page
    /// fault.
    ///
    /// # Errors
    /// [`Error::Pool`] when there is not enough memory.
    pub fn new(eal: &Eal, name: &str, size: u32) -> Result<Pool> {
        Pool::with_room(eal, name, size, 0)
    }

    /// Makes a pool of which no thread keeps buffers at hand: each buffer that is free can
    /// be had by every thread. For small pools, away from the way of packets.
    ///
    /// # Errors
    /// As [`Pool::new`].
    pub fn without_caches(eal: &Eal, name: &str, size: u32) -> Result<Pool> {
        Pool::make(eal, name, size, (0, 0))
    }

    /// Makes a pool for IP packets of up to `mtu` bytes: of the usual buffers, or of those for
    /// jumbo frames. Such a frame lies in one buffer, as all packets do, so that functions see
    /// it whole.
    ///
    /// # Errors
    /// As [`Pool::new`].
    pub fn for_mtu(eal: &Eal, name: &str, size: u32, mtu: u16) -> Result<Pool> {
        Pool::with_room(eal, name, size, Self::extra(mtu))
    }

    /// As [`Pool::for_mtu`], without caches as in [`Pool::without_caches`].
    ///
    /// # Errors
    /// As [`Pool::new`].
    pub fn without_caches_for_mtu(eal: &Eal, name: &str, size: u32, mtu: u16) -> Result<Pool> {
        Pool::make(eal, name, size, (0, Self::extra(mtu)))
    }

    /// Longest packet that a buffer of such a pool holds, in bytes.
    pub const fn room_for(mtu: u16) -> usize {
        if mtu <= Self::PLAIN_MTU { Self::PACKET_BYTES } else { Self::JUMBO_BYTES }
    }

    fn extra(mtu: u16) -> u16 {
        (Self::room_for(mtu) - Self::PACKET_BYTES) as u16
    }

    /// Makes a pool whose buffers have room for `extra` bytes beyond
    /// [`Pool::PACKET_BYTES`]: for headers around packets that may have any length.
    ///
    /// # Errors
    /// As [`Pool::new`].
    pub fn with_room(eal: &Eal, name: &str, size: u32, extra: u16) -> Result<Pool> {
        Pool::make(eal, name, size, (THREAD_CACHE.min(size / 2), extra))
    }

    /// `cached` is how many buffers a thread keeps at hand, `extra` as in
    /// [`Pool::with_room`].
    fn make(_: &Eal, name: &str, size: u32, (cached, extra): (u32, u16)) -> Result<Pool> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        // DPDK wants names unique and at most 25 bytes long.
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).take(12).collect();
        let name = CString::new(format!("{name}-{serial}")).unwrap_or_default();
        let listed = lock(&LISTED);
        // SAFETY: the environment stands, as its proof was given.
        let pool = numa::near_or_anywhere(|socket| unsafe {
            sys::rte_pktmbuf_pool_create(
                name.as_ptr(),
                size,
                cached,
                METADATA_BYTES as u16,
                (sys::RTE_PKTMBUF_HEADROOM as usize + Self::PACKET_BYTES) as u16 + extra,
                socket,
            )
        });
        let Some(pool) = NonNull::new(pool) else {
            return Err(Error::Pool { packets: size, reason: error::last() });
        };
        drop(listed);
        // SAFETY: the pool is whole, and no other thread knows it yet.
        unsafe { sys::rte_mempool_mem_iter(pool.as_ptr(), Some(touch), null_mut()) };
        let room = Self::PACKET_BYTES + usize::from(extra);
        Ok(Pool(Arc::new(Inner { pool, size, room })))
    }

    /// An empty packet, or none when the pool is exhausted.
    #[inline]
    pub fn allocate(&self) -> Option<Packet> {
        // SAFETY: the pool lives as long as `self`.
        unsafe { Packet::from_raw(sys::weft_mbuf_alloc(self.as_ptr())) }
    }

    /// A packet that holds `bytes`, or none when the pool is exhausted or the
    /// bytes do not fit.
    #[inline]
    pub fn packet(&self, bytes: &[u8]) -> Option<Packet> {
        let mut packet = self.allocate()?;
        packet.append(bytes.len())?.copy_from_slice(bytes);
        Some(packet)
    }

    /// Longest packet that a buffer holds, in bytes.
    pub fn packet_bytes(&self) -> usize {
        self.0.room
    }

    /// Buffers that are free.
    pub fn available(&self) -> u32 {
        // SAFETY: the pool lives as long as `self`.
        unsafe { sys::rte_mempool_avail_count(self.as_ptr()) }
    }

    /// Buffers in all.
    #[inline]
    pub fn size(&self) -> u32 {
        self.0.size
    }

    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut sys::rte_mempool {
        self.0.pool.as_ptr()
    }
}

impl Packet {
    /// A deep copy, bytes and metadata, with all of its headroom; none when
    /// `pool` is exhausted or the bytes do not fit behind that headroom.
    #[inline]
    pub fn duplicate(&self, pool: &Pool) -> Option<Packet> {
        let mut copy = pool.packet(self.data())?;
        *copy.metadata_as_mut::<Opaque>() = *self.metadata_as::<Opaque>();
        copy.owe_udp_checksum(self.owes_udp_checksum());
        Some(copy)
    }
}

/// Writes every page of a chunk of a pool's memory, leaving it as it is.
unsafe extern "C" fn touch(
    _: *mut sys::rte_mempool,
    _: *mut c_void,
    chunk: *mut sys::rte_mempool_memhdr,
    _: u32,
) {
    const PAGE_BYTES: usize = 4096;
    // SAFETY: DPDK gives a chunk of the pool that [`Pool::new`] has to itself.
    unsafe {
        let first = (*chunk).addr.cast::<u8>();
        for offset in (0..(*chunk).len).step_by(PAGE_BYTES) {
            let byte = first.add(offset);
            byte.write_volatile(byte.read_volatile());
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let _listed = lock(&LISTED);
        // A packet or a device may still point into the pool; memory that is
        // leaked is better than memory that is used after it was freed.
        // SAFETY: the pool is valid until here.
        unsafe {
            if sys::rte_mempool_avail_count(self.pool.as_ptr()) == self.size {
                sys::rte_mempool_free(self.pool.as_ptr());
            }
        }
    }
}
