//! One owned packet buffer and what travels with it.

use std::ptr::NonNull;

use weft_dpdk_sys as sys;

/// Tags that a packet carries at most.
pub const TAG_SLOTS: usize = 8;

pub(crate) const ANNOTATION_BYTES: usize = size_of::<Annotations>();
/// The private area lies right behind the buffer's header.
pub(crate) const ANNOTATION_OFFSET: usize = size_of::<sys::rte_mbuf>();
const _: () = assert!(ANNOTATION_BYTES == 64 && ANNOTATION_OFFSET == 128);

/// What Weft knows of a packet beyond its bytes: one cache line in the private
/// area of the buffer, so it stays with the packet through rings and queues.
///
/// A packet fresh from a port or a pool has what its last user left here:
/// code that brings a packet in writes all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Annotations {
    /// Values of the tags, by slot.
    pub tags: [u32; TAG_SLOTS],
    /// Slot of the user; [`Annotations::NONE`] before classification.
    pub user: u32,
    /// Slot of the bearer.
    pub bearer: u32,
    /// Slot of the user's group; [`Annotations::NONE`] for a user without one.
    pub group: u32,
    /// Where on its path the packet stands.
    pub state: u32,
    /// Offset of the IP header from the first byte of the frame.
    pub network_offset: u16,
    /// Offset of the transport header; 0 where there is none (a fragment other
    /// than the first, say).
    pub transport_offset: u16,
    /// Ethernet type behind the VLAN tags, in host order.
    pub ether_type: u16,
    /// Outer VLAN identifier; [`Annotations::NO_VLAN`] when untagged.
    pub vlan: u16,
    /// Port on which the packet came in.
    pub port: u16,
    /// IP protocol number of the transport header.
    pub protocol: u8,
    /// Bits such as [`Annotations::FRAGMENT`].
    pub flags: u8,
    /// Bytes of the IP packet, from the IP header to its end.
    pub network_length: u16,
    /// Offset of the IP header of the tunnel that the packet travels in; 0
    /// outside tunnels. The offsets above are those of the packet inside, or
    /// of the tunnel itself when nothing is inside.
    pub outer_offset: u16,
}

impl Annotations {
    /// No user, bearer or group.
    pub const NONE: u32 = u32::MAX;
    /// An untagged frame.
    pub const NO_VLAN: u16 = u16::MAX;
    /// In `flags`: the packet is a fragment of a larger one.
    pub const FRAGMENT: u8 = 1;
    /// In `flags`: the packet may be refused as it leaves, and its sender told.
    pub const DOUBTFUL: u8 = 2;
    /// In `flags`: the packet came in a tunnel, so its sender is not to be
    /// answered outside of it.
    pub const TUNNELLED: u8 = 4;
    /// In `flags`: the packet is neighbour discovery (RFC 4861) between a user and
    /// the end of its link, which no node forwards.
    pub const LINK_SCOPE: u8 = 8;
    /// In `flags`: the GTP-U message around the packet has extension headers that
    /// are not passed on to another tunnel.
    pub const DISCARDED_EXTENSIONS: u8 = 16;
    /// In `flags`: the packet inside a tunnel is for one of the node's own addresses. A
    /// relay passes it on; nothing may take it out of the tunnel.
    pub const OWN_INSIDE: u8 = 64;
    /// In `flags`: the packet inside a tunnel is one that no router forwards. A relay passes
    /// it on; nothing may take it out of the tunnel.
    pub const MARTIAN_INSIDE: u8 = 128;
    /// In `flags`: the packet has been let through the gate of its user, who moves.
    pub const PASSED: u8 = 32;
}

/// One packet: an owned, linear DPDK mbuf. Dropping it gives the buffer back to
/// its pool.
#[derive(Debug)]
#[repr(transparent)]
pub struct Packet(NonNull<sys::rte_mbuf>);

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
    fn mbuf(&self) -> &sys::rte_mbuf {
        // SAFETY: the buffer is valid and ours while `self` lives.
        unsafe { self.0.as_ref() }
    }

    #[inline(always)]
    fn mbuf_mut(&mut self) -> &mut sys::rte_mbuf {
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
        // SAFETY: DPDK keeps data_off + data_len within the buffer.
        unsafe {
            let first = mbuf.buf_addr.cast::<u8>().add(usize::from(mbuf.data_off));
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
            std::slice::from_raw_parts_mut(first, usize::from(mbuf.data_len))
        }
    }

    /// What travels with the packet.
    #[inline(always)]
    pub fn annotations(&self) -> &Annotations {
        // SAFETY: every pool reserves ANNOTATION_BYTES at this offset, aligned
        // to a cache line, and any bytes are valid annotations.
        unsafe { self.0.cast::<Annotations>().byte_add(ANNOTATION_OFFSET).as_ref() }
    }

    /// What travels with the packet, to change it.
    #[inline(always)]
    pub fn annotations_mut(&mut self) -> &mut Annotations {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { self.0.cast::<Annotations>().byte_add(ANNOTATION_OFFSET).as_mut() }
    }

    /// Bytes and annotations at once, both to change.
    #[inline(always)]
    pub fn parts_mut(&mut self) -> (&mut [u8], &mut Annotations) {
        let mut annotations = self.0.cast::<Annotations>();
        // SAFETY: the two areas do not overlap; otherwise as above.
        unsafe {
            annotations = annotations.byte_add(ANNOTATION_OFFSET);
            (self.data_mut(), annotations.as_mut())
        }
    }

    /// Puts `count` bytes in front and returns them, or none when the headroom
    /// does not suffice. Offsets in the annotations are the caller's to mend.
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

    /// Makes the packet as empty, and its headroom as long, as in one fresh from a
    /// [`Pool`](super::Pool). The buffer holds what it held before, and so do the annotations.
    #[inline]
    pub fn reset(&mut self) {
        let mbuf = self.mbuf_mut();
        mbuf.data_off = mbuf.buf_len.min(sys::RTE_PKTMBUF_HEADROOM as u16);
        (mbuf.data_len, mbuf.pkt_len) = (0, 0);
    }

    /// Asks the processor for the first bytes (two cache lines: a tunnel fills the
    /// first) and the annotations ahead of use.
    #[inline(always)]
    pub fn prefetch(&self) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch touches nothing, whatever the address.
        unsafe {
            let mbuf = self.0.as_ptr();
            let data = (*mbuf).buf_addr.cast::<i8>().wrapping_add(usize::from((*mbuf).data_off));
            _mm_prefetch::<_MM_HINT_T0>(data);
            _mm_prefetch::<_MM_HINT_T0>(data.wrapping_add(64));
            _mm_prefetch::<_MM_HINT_T0>(mbuf.cast::<i8>().wrapping_add(ANNOTATION_OFFSET));
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
