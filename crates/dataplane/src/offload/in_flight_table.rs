//! The tickets of packets that are away: what is remembered of each, and what may come back for it.

use std::sync::Arc;

use weft_dpdk::Packet;
use weft_function::{Metadata, PacketMetadata, StepValue, TAG_SLOTS};

use super::carrier::{Coming, FrameKind};
use super::in_flight_entry::{Back, InFlightEntry, ResumePoint};
use super::next_hops::{NextHops, Past};
use super::shared::Shared;

/// Tickets of one queue: packets that may be on their way to a function and back.
pub const WINDOW: usize = 256;

/// Packets that a function may emit beside one of its own.
const EMITTED: u8 = 32;

/// The tickets of packets that are away.
#[derive(Debug)]
pub(crate) struct InFlightTable {
    /// Slots of tags that the function may write, one bit for each.
    pub(crate) writes: u8,
    pub(crate) shared: Arc<Shared>,
    pub(crate) tickets: Box<[InFlightEntry]>,
    /// For some packets a copy of them as they came in, by ticket.
    pub(crate) originals: Box<[Option<Packet>]>,
    /// Where their packets go before they come back, by ticket; empty where they cannot.
    pub(crate) onwards: Box<[NextHops]>,
    /// The next ticket, and the oldest that is not back.
    pub(crate) head: u32,
    pub(crate) tail: u32,
    /// Whether packets come back in the order in which they went.
    pub(crate) in_order: bool,
}

impl InFlightTable {
    /// Nothing is away. `goes_on` says whether packets may go further before they come back.
    #[inline]
    pub(crate) fn new(
        writes: u8,
        shared: Arc<Shared>,
        in_order: bool,
        goes_on: bool,
    ) -> InFlightTable {
        let place = ResumePoint { state: 0, plan: 0, onward: 0 };
        let none = InFlightEntry::new(PacketMetadata::default(), place, 0);
        InFlightTable {
            writes,
            shared,
            tickets: vec![none; WINDOW].into_boxed_slice(),
            originals: (0..WINDOW).map(|_| None).collect(),
            onwards: vec![NextHops::NOWHERE; if goes_on { WINDOW } else { 0 }].into_boxed_slice(),
            head: 0,
            tail: 0,
            in_order,
        }
    }

    #[inline]
    pub(crate) fn away(&self) -> usize {
        self.head.wrapping_sub(self.tail) as usize
    }

    #[inline]
    pub(crate) fn ticket(&self, ahead: u32) -> &InFlightEntry {
        &self.tickets[self.tail.wrapping_add(ahead) as usize % WINDOW]
    }

    #[inline]
    pub(crate) fn add(&mut self, ticket: InFlightEntry, original: Option<Packet>) {
        self.tickets[self.head as usize % WINDOW] = ticket;
        if original.is_some() {
            self.originals[self.head as usize % WINDOW] = original;
        }
        self.head = self.head.wrapping_add(1);
    }

    /// The packet of the next ticket goes there before it comes back.
    #[inline]
    pub(crate) fn go_on(&mut self, onward: &NextHops) {
        if let Some(place) = self.onwards.get_mut(self.head as usize % WINDOW) {
            *place = *onward;
        }
    }

    /// Takes the newest ticket back.
    #[inline]
    pub(crate) fn take_back(&mut self) -> InFlightEntry {
        self.head = self.head.wrapping_sub(1);
        self.originals[self.head as usize % WINDOW] = None;
        self.tickets[self.head as usize % WINDOW]
    }

    #[inline]
    pub(crate) fn sort(&mut self, coming: Coming, back: &mut impl FnMut(Back)) {
        let (number, what, reason, past, mut packet) = match coming {
            Coming::Ticketed { ticket, what, reason, past, packet } => {
                (ticket, what, reason, past, packet)
            }
            Coming::Lost(ticket) => return self.give_up(ticket, back),
            Coming::Plain(packet) => return back(Back::Plain(packet)),
            Coming::Stray => return self.shared.count_stray(),
        };
        let ahead = number.wrapping_sub(self.tail);
        if !self.onwards.is_empty() && !self.has_passed(number, what, past) {
            return self.shared.count_stray();
        }
        if matches!(what, FrameKind::Emitted | FrameKind::Answer) {
            // Before its parent or right behind it; or while the ticket is no other's.
            let known = (ahead as usize) < self.away()
                || ahead == u32::MAX
                || !self.in_order && (self.head.wrapping_sub(number) as usize) <= WINDOW;
            let ticket = &mut self.tickets[number as usize % WINDOW];
            if !known || ticket.emitted >= EMITTED {
                return self.shared.count_stray();
            }
            ticket.emitted += 1;
            let ticket = self.numbered(number);
            Self::restore(&mut packet, ticket, self.writes_of(number));
            return back(match what {
                FrameKind::Answer => Back::Answer(packet),
                _ => Back::Emitted(packet, *ticket),
            });
        }
        if ahead as usize >= self.away() {
            return self.shared.count_stray();
        }
        let found = match self.in_order {
            true => {
                if ahead > 0 {
                    self.pass_over(ahead, &mut |ticket| back(Back::Lost(ticket)));
                }
                self.next_back()
            }
            false => self.settle(number).then_some(number),
        };
        let Some(number) = found else { return self.shared.count_stray() };
        let original = self.original(number);
        let ticket = self.numbered(number);
        match what {
            FrameKind::Dropped => back(Back::Dropped(*ticket, reason)),
            FrameKind::Kept => {
                self.shared.count_lost();
                back(Back::Lost(*ticket));
            }
            FrameKind::Packet | FrameKind::Emitted | FrameKind::Answer => {
                Self::restore(&mut packet, ticket, self.writes_of(number));
                back(Back::Packet(packet, *ticket, original));
            }
        }
    }

    /// Notes how far a packet came by itself; false where it was not to go there, or comes back
    /// handled before it has been everywhere.
    #[inline]
    pub(crate) fn has_passed(
        &mut self,
        number: u32,
        what: FrameKind,
        past: Option<(NextHops, Past)>,
    ) -> bool {
        let sent = &self.onwards[number as usize % WINDOW];
        let (way, past) = past.unwrap_or((*sent, Past::default()));
        let has_been = usize::from(past.count);
        let is_all = what != FrameKind::Packet || has_been == sent.hops().len();
        self.tickets[number as usize % WINDOW].past = past;
        is_all && has_been <= sent.hops().len() && way.is_way_of(sent)
    }

    /// The ticket of a number that is in use.
    #[inline]
    pub(crate) fn numbered(&self, number: u32) -> &InFlightEntry {
        &self.tickets[number as usize % WINDOW]
    }

    /// Slots of tags that functions on the way of this ticket's packet may write.
    #[inline]
    pub(crate) fn writes_of(&self, number: u32) -> u8 {
        let onward = self.onwards.get(number as usize % WINDOW);
        self.writes | onward.map_or(0, |onward| onward.writes)
    }

    /// Those before the ticket that is so far ahead were lost.
    #[inline]
    pub(crate) fn pass_over(&mut self, ahead: u32, lost: &mut impl FnMut(InFlightEntry)) {
        for _ in 0..ahead {
            let Some((ticket, _)) = self.redeem() else { return };
            lost(ticket);
            self.shared.count_lost();
        }
    }

    /// The oldest ticket whose packet is not back, and what was kept of it.
    #[inline]
    pub(crate) fn redeem(&mut self) -> Option<(InFlightEntry, Option<Packet>)> {
        let number = self.next_back()?;
        let original = self.original(number);
        Some((*self.numbered(number), original))
    }

    /// The number of the oldest ticket whose packet is not back: it is now.
    #[inline]
    pub(crate) fn next_back(&mut self) -> Option<u32> {
        while self.away() > 0 {
            let number = self.tail;
            self.tail = self.tail.wrapping_add(1);
            if !self.numbered(number).back {
                return Some(number);
            }
        }
        None
    }

    /// Takes one of the tickets that are away as back; false when it was already.
    #[inline]
    pub(crate) fn settle(&mut self, number: u32) -> bool {
        let ticket = &mut self.tickets[number as usize % WINDOW];
        if std::mem::replace(&mut ticket.back, true) {
            return false;
        }
        while self.away() > 0 && self.numbered(self.tail).back {
            self.tail = self.tail.wrapping_add(1);
        }
        true
    }

    /// What was kept of the packet of a ticket.
    #[inline]
    pub(crate) fn original(&mut self, number: u32) -> Option<Packet> {
        let doubtful = self.numbered(number).metadata.flags & PacketMetadata::DOUBTFUL != 0;
        if doubtful { self.originals[number as usize % WINDOW].take() } else { None }
    }

    /// The carrier has given up a packet, which may have come back unbeknown to it.
    #[cold]
    pub(crate) fn give_up(&mut self, number: u32, back: &mut impl FnMut(Back)) {
        if number.wrapping_sub(self.tail) as usize >= self.away() {
            return;
        }
        if self.settle(number) {
            drop(self.original(number));
            self.shared.count_lost();
            back(Back::Lost(*self.numbered(number)));
        }
    }

    /// What the function may say of a packet is what it may change: offsets, and
    /// the tags that it declares to write. All else is as it was. They are mended where
    /// they are: they were written just now, in pieces.
    #[inline]
    pub(crate) fn restore(packet: &mut Packet, ticket: &InFlightEntry, writes: u8) {
        let (now, was) = (packet.metadata_mut(), &ticket.metadata);
        for slot in (0..TAG_SLOTS).filter(|slot| writes >> slot & 1 == 0) {
            now.tags[slot] = was.tags[slot];
        }
        (now.user, now.bearer, now.group) = (was.user, was.bearer, was.group);
        (now.step, now.port) = (StepValue::NONE, was.port);
        let doubtful = PacketMetadata::DOUBTFUL;
        now.flags = now.flags & !doubtful | was.flags & doubtful;
    }

    #[inline]
    pub(crate) fn publish(&self) {
        self.shared.set_away(self.away());
    }
}
