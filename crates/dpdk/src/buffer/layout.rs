//! Where machine code finds what [`Packet`](crate::Packet) shows: offsets in
//! bytes from the address that a packet is.

use std::mem::offset_of;

use weft_dpdk_sys::rte_mbuf;

use super::packet::METADATA_OFFSET;

/// Address of the buffer.
pub const BUF_ADDR: i32 = offset_of!(rte_mbuf, buf_addr) as i32;
/// Offset of the first byte of the packet in the buffer, 16 bits.
pub const DATA_OFF: i32 = offset_of!(rte_mbuf, data_off) as i32;
/// Bytes of the packet, 16 bits.
pub const DATA_LEN: i32 = offset_of!(rte_mbuf, data_len) as i32;
/// The same, 32 bits: a packet lies in one buffer.
pub const PKT_LEN: i32 = offset_of!(rte_mbuf, pkt_len) as i32;
/// The metadata, [`METADATA_BYTES`](crate::METADATA_BYTES) of them.
pub const METADATA: i32 = METADATA_OFFSET as i32;
