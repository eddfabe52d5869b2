//! What carries the packets of a queue to a function and back.

use std::fmt::Debug;

use weft_dpdk::Packet;

use super::{NextHops, Past, Refusal};

/// Carries packets in both directions, each of which keeps its order unless
/// [`keeps_order`](Carrier::keeps_order) says otherwise.
///
/// A packet that is to go is *put*, which takes it in hand, and leaves with all that is
/// in hand when that is *sent*. The queue never has more than [`WINDOW`](super::WINDOW)
/// packets away.
pub trait Carrier: Debug + Send {
    /// Takes a packet in hand, under the number of its ticket. `now` is the time at the
    /// node, in nanoseconds; `onward` is where it goes before it comes back, and leads
    /// nowhere for a carrier without [`address`](Carrier::address).
    ///
    /// # Errors
    /// [`Refusal`]; the packet is dropped.
    fn put(
        &mut self,
        packet: Packet,
        ticket: u32,
        now: u64,
        onward: &NextHops,
    ) -> Result<(), Refusal>;

    /// By what other functions find this one, where they can send packets to it themselves.
    #[inline]
    fn address(&self) -> Option<Address> {
        None
    }

    /// Packets in hand.
    fn in_hand(&self) -> usize;

    /// Whether no packet can be taken in hand before some were sent.
    fn is_full(&self) -> bool;

    /// Sends what is in hand, as far as there is room.
    fn send(&mut self);

    /// Drops the packet in hand that was put last.
    fn drop_last(&mut self);

    /// Drops what is in hand and what has come back until now.
    fn clear(&mut self);

    /// Takes what has come back, up to a burst, to `sort`; returns how many frames that
    /// were.
    fn receive(&mut self, sort: &mut dyn FnMut(Coming)) -> usize;

    /// Whether frames carry no ticket.
    #[inline]
    fn is_plain(&self) -> bool {
        false
    }

    /// Whether to look for what has come back costs as much as some packets do. Where
    /// it does, one looks less often while many packets are away.
    #[inline]
    fn is_dear(&self) -> bool {
        false
    }

    /// Whether packets come back in the order in which they went. Where they do not, one
    /// that others have overtaken is not lost before the carrier says so.
    #[inline]
    fn keeps_order(&self) -> bool {
        true
    }
}

/// By what functions find each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Which network it is in.
    pub network: [u8; 6],
    /// Number of the function.
    pub function: u16,
    /// Number of the last order to it.
    pub order: u32,
}

/// What a carrier brings back.
#[derive(Debug)]
pub enum Coming {
    /// What became of the packet of a ticket.
    Ticketed {
        /// Number of the ticket, as the other side says it.
        ticket: u32,
        /// What it is.
        what: FrameKind,
        /// Number of the reason of a drop.
        reason: u8,
        /// Where it has been, if it went on by itself.
        past: Option<(NextHops, Past)>,
        /// The packet, without what the carrier had put in front, and with the metadata
        /// that the other side gives it; of no interest when none follows.
        packet: Packet,
    },
    /// The packet of this ticket will not come back.
    Lost(u32),
    /// A frame without a ticket, from a function that knows of none.
    Plain(Packet),
    /// A frame that a function may not send.
    Stray,
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// A packet: to be handled; on its way back, handled.
    Packet = 0,
    /// The packet of this ticket was dropped by the function. No packet follows.
    Dropped = 1,
    /// A packet that the function made while it handled that of this ticket.
    Emitted = 2,
    /// The function wants the packet of this ticket kept, which its composition
    /// cannot do. No packet follows.
    Kept = 3,
    /// An answer of the function to the packet of this ticket, for the user.
    Answer = 4,
}

impl FrameKind {
    /// What a number stands for.
    #[inline]
    pub fn of(octet: u8) -> Option<FrameKind> {
        use FrameKind::{Answer, Dropped, Emitted, Kept, Packet};
        [Packet, Dropped, Emitted, Kept, Answer].into_iter().find(|one| *one as u8 == octet)
    }
}
