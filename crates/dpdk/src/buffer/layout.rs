//! Where machine code finds what [`Packet`](crate::Packet) shows: offsets in
//! bytes from the address that a packet is.

use std::mem::offset_of;

use weft_dpdk_sys::rte_mbuf;

use super::packet::{ANNOTATION_OFFSET, Annotations};

/// Address of the buffer.
pub const BUF_ADDR: i32 = offset_of!(rte_mbuf, buf_addr) as i32;
/// Offset of the first byte of the packet in the buffer, 16 bits.
pub const DATA_OFF: i32 = offset_of!(rte_mbuf, data_off) as i32;
/// Bytes of the packet, 16 bits.
pub const DATA_LEN: i32 = offset_of!(rte_mbuf, data_len) as i32;
/// The same, 32 bits: a packet lies in one buffer.
pub const PKT_LEN: i32 = offset_of!(rte_mbuf, pkt_len) as i32;

const fn annotation(offset: usize) -> i32 {
    (ANNOTATION_OFFSET + offset) as i32
}

/// [`Annotations::tags`].
pub const TAGS: i32 = annotation(offset_of!(Annotations, tags));
/// [`Annotations::user`].
pub const USER: i32 = annotation(offset_of!(Annotations, user));
/// [`Annotations::bearer`].
pub const BEARER: i32 = annotation(offset_of!(Annotations, bearer));
/// [`Annotations::group`].
pub const GROUP: i32 = annotation(offset_of!(Annotations, group));
/// [`Annotations::network_offset`].
pub const NETWORK_OFFSET: i32 = annotation(offset_of!(Annotations, network_offset));
/// [`Annotations::transport_offset`].
pub const TRANSPORT_OFFSET: i32 = annotation(offset_of!(Annotations, transport_offset));
/// [`Annotations::ether_type`].
pub const ETHER_TYPE: i32 = annotation(offset_of!(Annotations, ether_type));
/// [`Annotations::protocol`].
pub const PROTOCOL: i32 = annotation(offset_of!(Annotations, protocol));
/// [`Annotations::flags`].
pub const FLAGS: i32 = annotation(offset_of!(Annotations, flags));
/// [`Annotations::outer_offset`].
pub const OUTER_OFFSET: i32 = annotation(offset_of!(Annotations, outer_offset));
/// [`Annotations::network_length`].
pub const NETWORK_LENGTH: i32 = annotation(offset_of!(Annotations, network_length));
