//! What a function can do beyond its verdict.

use crate::metadata::{Metadata, PacketMetadata};
use arrayvec::ArrayVec;
use weft_dpdk::{Batch, Packet, Pool};

/// What a function asked for while it handled a burst, in the order it asked.
pub type Emissions = ArrayVec<Emission, { Batch::CAPACITY }>;

/// One thing a function asked for.
#[derive(Debug)]
pub struct Emission {
    /// Position in the burst of the packet it was handling;
    /// [`Emission::NO_PACKET`] when a timer had run out.
    pub parent: usize,
    /// What it asked for.
    pub what: EmissionKind,
}

impl Emission {
    /// The parent of what a timer emits.
    pub const NO_PACKET: usize = usize::MAX;
}

/// The kinds of [`Emission`].
#[derive(Debug)]
pub enum EmissionKind {
    /// A packet goes on at the next place, before or after its parent.
    Send(Packet, Position),
    /// A packet goes to the user of the parent, as if it had come in for it.
    Answer(Packet),
    /// The parent was kept.
    Keep,
    /// This many of the user's kept packets go on, oldest first, before the
    /// parent.
    Release(usize),
    /// The function wants to be called at this time, in nanoseconds.
    WakeAt(u64),
    /// The function has something to tell the node's agent of the context.
    Report(u32),
}

/// Where an emitted packet goes on, relative to the packet being handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Leaves before it.
    Before,
    /// Leaves after it.
    After,
}

/// Handed to a function with each packet: the time, and a way to send, copy,
/// keep and release packets and to ask for a timer.
#[derive(Debug)]
pub struct Emit<'a> {
    now: u64,
    pool: &'a Pool,
    emissions: &'a mut Emissions,
    parent: usize,
    note: u64,
    refused: u64,
}

impl<'a> Emit<'a> {
    /// For the loop around a function: what is emitted goes into `emissions`.
    #[inline]
    pub fn new(now: u64, pool: &'a Pool, emissions: &'a mut Emissions) -> Emit<'a> {
        Emit { now, pool, emissions, parent: Emission::NO_PACKET, note: 0, refused: 0 }
    }

    /// For the loop around a function: the packet at `position` comes next, and this was
    /// noted of it.
    #[inline(always)]
    pub fn at(&mut self, position: usize, note: u64) {
        (self.parent, self.note) = (position, note);
    }

    /// What [`look_ahead`](crate::UserPlaneFunction::look_ahead) has noted of the packet
    /// in hand; 0 for nothing.
    #[inline(always)]
    pub fn note(&self) -> u64 {
        self.note
    }

    /// For the loop around a function: the position of the packet in hand.
    #[inline]
    pub fn position(&self) -> usize {
        self.parent
    }

    /// For the loop around a function: notes that the packet in hand is kept. False
    /// when there is no room to note it.
    #[inline]
    pub fn keep(&mut self) -> bool {
        self.push(EmissionKind::Keep).is_ok()
    }

    /// Packets that could not be emitted because the burst has no more room.
    #[inline]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Nanoseconds since the node started. Read once per burst.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// An empty packet with the metadata of `like`, to be filled and sent;
    /// none when the pool is exhausted.
    #[inline]
    pub fn allocate(&self, like: &PacketMetadata) -> Option<Packet> {
        let mut packet = self.pool.allocate()?;
        *packet.metadata_mut() = *like;
        Some(packet)
    }

    /// Sends a packet on to the next place. False, and the packet is dropped
    /// and counted, when the burst has no more room.
    #[inline]
    pub fn send(&mut self, packet: Packet, position: Position) -> bool {
        let sent = self.push(EmissionKind::Send(packet, position)).is_ok();
        self.refused += u64::from(!sent);
        sent
    }

    /// Sends a packet to the user of the packet in hand, in the other direction: it
    /// takes the way through the rules of one that came in there. The metadata say
    /// where its IP header and its end are. False, and the packet is dropped and
    /// counted, when the burst has no more room.
    #[inline]
    pub fn answer(&mut self, packet: Packet) -> bool {
        let sent = self.push(EmissionKind::Answer(packet)).is_ok();
        self.refused += u64::from(!sent);
        sent
    }

    /// Sends a deep copy of `packet` on to the next place, after it. False when
    /// the pool or the burst has no more room.
    #[inline]
    pub fn duplicate(&mut self, packet: &Packet) -> bool {
        match packet.duplicate(self.pool) {
            Some(copy) => self.send(copy, Position::After),
            None => {
                self.refused += 1;
                false
            }
        }
    }

    /// Lets up to `count` of the packets that this function keeps for the user
    /// go on, oldest first, before the packet in hand. False when the burst has
    /// no more room for the request.
    #[inline]
    pub fn release(&mut self, count: usize) -> bool {
        self.push(EmissionKind::Release(count)).is_ok()
    }

    /// Asks that [`timer`](crate::UserPlaneFunction::timer) be called with this
    /// context at `time` (nanoseconds, on the clock of [`now`](Self::now)) or
    /// soon after. False when the burst has no more room for the request.
    #[inline]
    pub fn wake_at(&mut self, time: u64) -> bool {
        self.push(EmissionKind::WakeAt(time)).is_ok()
    }

    /// Tells the node's agent something of the context, by a code of the function's own; the
    /// agent may [ask](crate::UserPlaneFunction::ask) then. False when the burst has no more
    /// room for it. Reports are bounded at each worker and may be lost there: what must
    /// not be missed stays noted in the context, and is reported again with a later packet.
    #[inline]
    pub fn report(&mut self, code: u32) -> bool {
        self.push(EmissionKind::Report(code)).is_ok()
    }

    #[inline]
    fn push(&mut self, what: EmissionKind) -> Result<(), ()> {
        self.emissions.try_push(Emission { parent: self.parent, what }).map_err(|_| ())
    }
}
