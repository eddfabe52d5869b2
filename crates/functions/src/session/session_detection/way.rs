//! What is noted in a packet that a rule has detected.

use weft_function::{Direction, PacketMetadata, TagSlot};

/// Where packets of a rule go on: eight octets, which the usual packet finds in its context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Way {
    /// Number of the rule: the tag `pdr`.
    pub pdr: u16,
    /// The tag `network`; [`Way::SAME`] to leave it.
    pub network: u16,
    /// The tag `chain`; [`Way::SAME`] to leave it.
    pub chain: u16,
    /// The tag `destination`.
    pub destination: u8,
    /// Bits such as [`Way::USUAL`].
    pub flags: u8,
}

const _: () = assert!(size_of::<Way>() == 8);

/// The slots of the tags that are noted.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    /// Of `pdr`.
    pub pdr: TagSlot,
    /// Of `destination`.
    pub destination: TagSlot,
}

impl Way {
    /// A tag stays as it is.
    pub const SAME: u16 = u16::MAX;

    /// In `flags`: all packets that come like this one are of the rule.
    pub const USUAL: u8 = 1;
    /// Packets are from the access side.
    pub const UPLINK: u8 = 2;
    /// Nothing passes for the time being.
    pub const CLOSED: u8 = 4;
    /// The tunnel is taken off.
    pub const UNWRAP: u8 = 8;
    /// Packets pass a bucket.
    pub const METERED: u8 = 16;
    /// The user's address is looked at.
    pub const CHECKED: u8 = 32;
    /// Packets stay in a tunnel: End Markers go on.
    pub const RELAYED: u8 = 64;
    /// The packet would leave the node in the tunnel that it came in.
    pub const NOT_REMOVED: u8 = 128;

    /// Whether a flag is set.
    #[inline(always)]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Notes it in a packet.
    #[inline(always)]
    pub fn note(&self, metadata: &mut PacketMetadata, slots: &Slots) {
        slots.pdr.set(metadata, self.pdr.into());
        slots.destination.set(metadata, self.destination.into());
        let direction =
            if self.has(Self::UPLINK) { Direction::Uplink } else { Direction::Downlink };
        TagSlot::DIRECTION.set(metadata, direction as u32);
        if self.network != Self::SAME {
            TagSlot::NETWORK.set(metadata, self.network.into());
        }
        if self.chain != Self::SAME {
            TagSlot::CHAIN.set(metadata, self.chain.into());
        }
    }
}
