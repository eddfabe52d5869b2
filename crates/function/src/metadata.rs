//! What a node knows of a packet beyond its bytes.

pub mod layout;
mod step;

use weft_dpdk::{METADATA_BYTES, Packet};
use zerocopy::{FromBytes, Immutable, IntoBytes};

pub use self::step::{StepData, StepValue};

/// Tags that a packet carries at most.
pub const TAG_SLOTS: usize = 8;

/// What a node knows of a packet beyond its bytes: one cache line in the private
/// area of the buffer, so it stays with the packet through rings and queues.
///
/// A packet fresh from a port or a pool has what its last user left here:
/// code that brings a packet in writes all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C, align(64))]
pub struct PacketMetadata {
    /// Values of the tags, by slot.
    pub tags: [u32; TAG_SLOTS],
    /// Slot of the user; [`PacketMetadata::NONE`] before classification.
    pub user: u32,
    /// Slot of the bearer.
    pub bearer: u32,
    /// Slot of the user's group; [`PacketMetadata::NONE`] for a user without one.
    pub group: u32,
    /// What the last step of its way has left for the next.
    pub step: StepValue,
    /// Offset of the IP header from the first byte of the frame.
    pub network_offset: u16,
    /// Offset of the transport header; 0 where there is none (a fragment other
    /// than the first, say).
    pub transport_offset: u16,
    /// Ethernet type behind the VLAN tags, in host order.
    pub ether_type: u16,
    /// Outer VLAN identifier; [`PacketMetadata::NO_VLAN`] when untagged.
    pub vlan: u16,
    /// Port on which the packet came in.
    pub port: u16,
    /// IP protocol number of the transport header.
    pub protocol: u8,
    /// Bits such as [`PacketMetadata::FRAGMENT`].
    pub flags: u8,
    /// Bytes of the IP packet, from the IP header to its end.
    pub network_length: u16,
    /// Offset of the IP header of the tunnel that the packet travels in; 0
    /// outside tunnels. The offsets above are those of the packet inside, or
    /// of the tunnel itself when nothing is inside.
    pub outer_offset: u16,
}

const _: () = assert!(size_of::<PacketMetadata>() == METADATA_BYTES);

impl PacketMetadata {
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
    /// In `flags`: the packet has been let through the gate of its user, who moves.
    pub const PASSED: u8 = 32;
    /// In `flags`: the packet inside a tunnel is for one of the node's own addresses. A
    /// relay passes it on; nothing may take it out of the tunnel.
    pub const OWN_INSIDE: u8 = 64;
    /// In `flags`: the packet inside a tunnel is one that no router forwards. A relay passes
    /// it on; nothing may take it out of the tunnel.
    pub const MARTIAN_INSIDE: u8 = 128;
}

/// Access to the metadata of a packet.
pub trait Metadata {
    /// What travels with the packet.
    fn metadata(&self) -> &PacketMetadata;
    /// What travels with the packet, to change it.
    fn metadata_mut(&mut self) -> &mut PacketMetadata;
    /// Bytes and metadata at once, both to change.
    fn parts_mut(&mut self) -> (&mut [u8], &mut PacketMetadata);
}

impl Metadata for Packet {
    #[inline(always)]
    fn metadata(&self) -> &PacketMetadata {
        self.metadata_as()
    }

    #[inline(always)]
    fn metadata_mut(&mut self) -> &mut PacketMetadata {
        self.metadata_as_mut()
    }

    #[inline(always)]
    fn parts_mut(&mut self) -> (&mut [u8], &mut PacketMetadata) {
        self.parts_as_mut()
    }
}
