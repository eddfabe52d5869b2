//! Where machine code finds what [`PacketMetadata`] show: offsets in bytes from the address
//! that a packet is.

use std::mem::offset_of;

pub use weft_dpdk::layout::{BUF_ADDR, DATA_LEN, DATA_OFF, METADATA, PKT_LEN};

use super::PacketMetadata;

const fn field(offset: usize) -> i32 {
    METADATA + offset as i32
}

/// [`PacketMetadata::tags`].
pub const TAGS: i32 = field(offset_of!(PacketMetadata, tags));
/// [`PacketMetadata::user`].
pub const USER: i32 = field(offset_of!(PacketMetadata, user));
/// [`PacketMetadata::bearer`].
pub const BEARER: i32 = field(offset_of!(PacketMetadata, bearer));
/// [`PacketMetadata::group`].
pub const GROUP: i32 = field(offset_of!(PacketMetadata, group));
/// [`PacketMetadata::network_offset`].
pub const NETWORK_OFFSET: i32 = field(offset_of!(PacketMetadata, network_offset));
/// [`PacketMetadata::transport_offset`].
pub const TRANSPORT_OFFSET: i32 = field(offset_of!(PacketMetadata, transport_offset));
/// [`PacketMetadata::ether_type`].
pub const ETHER_TYPE: i32 = field(offset_of!(PacketMetadata, ether_type));
/// [`PacketMetadata::protocol`].
pub const PROTOCOL: i32 = field(offset_of!(PacketMetadata, protocol));
/// [`PacketMetadata::flags`].
pub const FLAGS: i32 = field(offset_of!(PacketMetadata, flags));
/// [`PacketMetadata::outer_offset`].
pub const OUTER_OFFSET: i32 = field(offset_of!(PacketMetadata, outer_offset));
/// [`PacketMetadata::network_length`].
pub const NETWORK_LENGTH: i32 = field(offset_of!(PacketMetadata, network_length));
