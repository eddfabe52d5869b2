//! What is remembered of a packet that is away, and what comes back for it.

use weft_dpdk::Packet;
use weft_function::PacketMetadata;

use super::Past;

/// Where a packet stands that goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumePoint {
    /// State of the compiled rules, or number of the function.
    pub state: u32,
    /// Which rules that is of.
    pub plan: u32,
    /// RemoteQueues that it may still come to, one bit for each.
    pub onward: u64,
}

/// What the node remembers of a packet that is away.
#[derive(Clone, Copy, Debug)]
pub struct InFlightEntry {
    /// Metadata it went with.
    pub metadata: PacketMetadata,
    /// Where it stood.
    pub place: ResumePoint,
    /// Its length, in bytes.
    pub length: u16,
    /// How far the packet came by itself behind the function of the queue.
    pub past: Past,
    pub(crate) emitted: u8,
    /// Whether its packet has come back before those of older tickets.
    pub(crate) back: bool,
}

impl InFlightEntry {
    #[inline]
    pub(crate) fn new(metadata: PacketMetadata, place: ResumePoint, length: u16) -> InFlightEntry {
        InFlightEntry { metadata, place, length, past: Past::default(), emitted: 0, back: false }
    }

    /// Of a packet that was held and never went.
    #[inline]
    pub fn lost(place: ResumePoint) -> InFlightEntry {
        InFlightEntry::new(PacketMetadata::default(), place, 0)
    }
}

/// What came back from a function.
#[derive(Debug)]
pub enum Back {
    /// It goes on, from where its ticket says. Offsets in its metadata are what
    /// the function says, and to be checked. With it comes the packet as it came in,
    /// if that was kept.
    Packet(Packet, InFlightEntry, Option<Packet>),
    /// A packet that the function made goes on from there, too.
    Emitted(Packet, InFlightEntry),
    /// An answer of the function to the user of a packet.
    Answer(Packet),
    /// The function dropped a packet for the reason of this number.
    Dropped(InFlightEntry, u8),
    /// The function lost it.
    Lost(InFlightEntry),
    /// A frame without a header: whose it is is to be found, and
    /// [`claim`](super::RemoteQueue::claim) says where it goes on.
    Plain(Packet),
}

/// Why a packet could not go away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The header does not fit into the buffer with it.
    TooLong,
    /// No ticket or no room is left.
    Full,
}
