//! One owned packet buffer and what travels with it.

use std::ptr::NonNull;

use weft_dpdk_sys as sys;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Bytes that travel with a packet beside its own: one cache line.
pub const METADATA_BYTES: usize = 64;
/// The private area lies right behind the buffer's header.
pub(crate) const METADATA_OFFSET: usize = size_of::<sys::rte_mbuf>();
const _: () = assert!(METADATA_OFFSET.is_multiple_of(METADATA_BYTES));

/// The metadata as DPDK sees them.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C, align(64))]
pub(crate) struct Opaque([u8; METADATA_BYTES]);

/// One packet: an owned, linear DPDK mbuf. Dropping it gives the buffer back to
/// its pool.
///
/// [`METADATA_BYTES`] in the private area of the buffer travel with the packet through rings
/// and queues, as a type of the caller's. A packet fresh from a port or a pool has what its
/// last user left there: code that brings a packet in writes all of it.
#[derive(Debug)]
#[repr(transparent)]
pub struct Packet(NonNull<sys::rte_mbuf>);

/// Where the metadata of a buffer lie.
#[inline(always)]
fn metadata_of<M>(mbuf: NonNull<sys::rte_mbuf>) -> NonNull<M> {
    const { assert!(size_of::<M>() == METADATA_BYTES && align_of::<M>() <= METADATA_BYTES) };
    // SAFETY: the private area lies in the same buffer, right behind its header.
    unsafe { mbuf.byte_add(METADATA_OFFSET).cast() }
}

// SAFETY: a packet owns its buffer alone.
unsafe impl Send for Packet {}

impl Packet {
    /// Takes over a buffer; null is no packet.
    ///
    /// # Safety
    /// A non-null pointer is an mbuf with one reference, made by a [`Pool`](super::Pool),
    /// and no other code uses it.
    #[inline]
    pub(crate) unsafe fn from_raw(mbuf: *mut sys::rte_mbuf) -> Option<Packet> {
        NonNull::new(mbuf).map(Packet)
    }

    #[inline(always)]
    pub(super) fn mbuf(&self) -> &sys::rte_mbuf {
        // SAFETY: the buffer is valid and ours while `self` lives.
        unsafe { self.0.as_ref() }
    }

    #[inline(always)]
    pub(super) fn mbuf_mut(&mut self) -> &mut sys::rte_mbuf {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { self.0.as_mut() }
    }

    /// Bytes of the packet, from the first of the Ethernet header.
    #[inline(always)]
    #[expect(clippy::len_without_is_empty, reason = "an empty packet means nothing here")]
    pub fn len(&self) -> usize {
        usize::from(self.mbuf().data_len)
    }

    /// Whether all bytes lie in this one buffer, as they do in every packet that
    /// a port or a pool hands out.
    #[inline(always)]
    pub fn is_linear(&self) -> bool {
        self.mbuf().nb_segs == 1
    }

    /// The bytes of the packet.
    #[inline(always)]
    pub fn data(&self) -> &[u8] {
        let mbuf = self.mbuf();
        // SAFETY: DPDK keeps data_off + data_len within the buffer, which is there: the compiler
        // is told, or it would look whether a part of the packet is at null.
        unsafe {
            let first = mbuf.buf_addr.cast::<u8>().add(usize::from(mbuf.data_off));
            std::hint::assert_unchecked(!first.is_null());
            std::slice::from_raw_parts(first, usize::from(mbuf.data_len))
        }
    }

    /// The bytes of the packet, to change them.
    #[inline(always)]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let mbuf = self.mbuf_mut();
        // SAFETY: as in `data`, and `self` is borrowed mutably.
        unsafe {
            let first = mbuf.buf_addr.cast::<u8>().add(usize::from(mbuf.data_off));
            std::hint::assert_unchecked(!first.is_null());
            std::slice::from_raw_parts_mut(first, usize::from(mbuf.data_len))
        }
    }

    /// What travels with the packet, as an `M`. It does not compile for a type that is not
    /// [`METADATA_BYTES`] long, or that wants more than a cache line's alignment.
    #[inline(always)]
    pub fn metadata_as<M: FromBytes + IntoBytes + Immutable>(&self) -> &M {
        // SAFETY: every pool reserves METADATA_BYTES at this offset, aligned to a cache
        // line; `M` is as long, and any bytes are a valid one.
        unsafe { metadata_of::<M>(self.0).as_ref() }
    }

    /// What travels with the packet, as [`Packet::metadata_as`] shows it, to change it.
    #[inline(always)]
    pub fn metadata_as_mut<M: FromBytes + IntoBytes + Immutable>(&mut self) -> &mut M {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { metadata_of::<M>(self.0).as_mut() }
    }

    /// Bytes and metadata at once, both to change.
    #[inline(always)]
    pub fn parts_as_mut<M: FromBytes + IntoBytes + Immutable>(&mut self) -> (&mut [u8], &mut M) {
        let mut metadata = metadata_of::<M>(self.0);
        // SAFETY: the two areas do not overlap; otherwise as above.
        unsafe { (self.data_mut(), metadata.as_mut()) }
    }

    /// Puts `count` bytes in front and returns them, or none when the headroom
    /// does not suffice. Offsets in the metadata are the caller's to mend.
    #[inline]
    pub fn prepend(&mut self, count: usize) -> Option<&mut [u8]> {
        let mbuf = self.mbuf_mut();
        if count > usize::from(mbuf.data_off) {
            return None;
        }
        mbuf.data_off -= count as u16;
        mbuf.data_len += count as u16;
        mbuf.pkt_len += count as u32;
        Some(&mut self.data_mut()[..count])
    }

    /// Adds `count` bytes at the end and returns them, or none when the buffer
    /// has no room. They hold what the buffer held before.
    #[inline]
    pub fn append(&mut self, count: usize) -> Option<&mut [u8]> {
        let mbuf = self.mbuf_mut();
        let used = usize::from(mbuf.data_off) + usize::from(mbuf.data_len);
        if count > usize::from(mbuf.buf_len).saturating_sub(used) {
            return None;
        }
        let length = usize::from(mbuf.data_len);
        mbuf.data_len += count as u16;
        mbuf.pkt_len += count as u32;
        Some(&mut self.data_mut()[length..])
    }

    /// Takes `count` bytes off the front; false when there are fewer.
    #[inline]
    pub fn trim_front(&mut self, count: usize) -> bool {
        let mbuf = self.mbuf_mut();
        if count > usize::from(mbuf.data_len) {
            return false;
        }
        mbuf.data_off += count as u16;
        mbuf.data_len -= count as u16;
        mbuf.pkt_len -= count as u32;
        true
    }

    /// Shortens the packet to `length` bytes; a shorter one stays as it is.
    #[inline]
    pub fn truncate(&mut self, length: usize) {
        let mbuf = self.mbuf_mut();
        if length < usize::from(mbuf.data_len) {
            mbuf.data_len = length as u16;
            mbuf.pkt_len = length as u32;
        }
    }

    /// Makes the packet begin `offset` bytes behind its first byte, or that many before where it
    /// is negative, and be `length` bytes long. What comes in front holds what the buffer held
    /// before. False, and nothing changes, where the headroom does not suffice or the packet
    /// would go on behind its end.
    #[inline(always)]
    pub fn reframe(&mut self, offset: i32, length: usize) -> bool {
        let mbuf = self.mbuf_mut();
        let first = i32::from(mbuf.data_off).saturating_add(offset);
        let end = i32::from(mbuf.data_off) + i32::from(mbuf.data_len);
        let room = usize::try_from(end.saturating_sub(first));
        if first < 0 || !room.is_ok_and(|room| length <= room) {
            return false;
        }
        mbuf.data_off = first as u16;
        mbuf.data_len = length as u16;
        mbuf.pkt_len = length as u32;
        true
    }

    /// Makes the packet as empty, and its headroom as long, as in one fresh from a
    /// [`Pool`](super::Pool). The buffer holds what it held before, and so do the metadata.
    #[inline]
    pub fn reset(&mut self) {
        let mbuf = self.mbuf_mut();
        mbuf.data_off = mbuf.buf_len.min(sys::RTE_PKTMBUF_HEADROOM as u16);
        (mbuf.data_len, mbuf.pkt_len) = (0, 0);
    }

    /// Asks the processor for the first bytes (two cache lines: a tunnel fills the
    /// first) and the metadata ahead of use.
    #[inline(always)]
    pub fn prefetch(&self) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch touches nothing, whatever the address.
        unsafe {
            let mbuf = self.0.as_ptr();
            let data = (*mbuf).buf_addr.cast::<i8>().wrapping_add(usize::from((*mbuf).data_off));
            _mm_prefetch::<_MM_HINT_T0>(data);
            _mm_prefetch::<_MM_HINT_T0>(data.wrapping_add(64));
            _mm_prefetch::<_MM_HINT_T0>(mbuf.cast::<i8>().wrapping_add(METADATA_OFFSET));
        }
    }
}

impl Drop for Packet {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the buffer is ours and is not used again.
        unsafe { sys::weft_mbuf_free(self.0.as_ptr()) };
    }
}
