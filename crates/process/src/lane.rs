//! The node's end of a ring to a function process, at one worker.
//!
//! Every packet that goes out leaves a [`Ticket`] here, and only what the ticket
//! says is believed when it comes back: whose packet it is, and where it stands on
//! its way. A ring keeps order, so tickets come back in the order they were given;
//! what is passed over was lost by the function. The window of tickets is as large
//! as the ring: a packet that has a ticket has room.

mod ticket;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use weft_dpdk::{Annotations, Batch, Packet, Pool, RxQueue, TAG_SLOTS, TxQueue};

use crate::frame::{self, Form, Record, What};
use crate::supervisor::Policy;

pub use ticket::{Back, Place, Refusal, Ticket};

/// Tickets of one lane: packets that may be on their way to a function and back.
pub const WINDOW: usize = 256;

const ROOM: usize = frame::ROOM as usize;

/// Frames taken from a ring at once.
const BURST: usize = 32;

/// Packets that a function may emit beside one of its own.
const EMITTED: u8 = 32;

/// What the worker and the supervisor tell each other.
#[derive(Debug, Default)]
pub struct Shared {
    /// Odd while the function is there; every change adds one.
    pub(crate) session: AtomicU32,
    /// Packets of this worker that are away.
    pub(crate) away: AtomicU32,
    /// Frames that came back; wraps.
    pub(crate) returned: AtomicU32,
    /// Frames that came back and were none that a function may send.
    pub(crate) strays: AtomicU32,
    /// Packets that were away when the function failed, or that it passed over.
    pub(crate) lost: AtomicU32,
}

/// A lane, and the worker's packets in it.
#[derive(Debug)]
pub struct Lane {
    rx: RxQueue,
    tx: TxQueue,
    /// None for plain frames.
    form: Option<Form>,
    /// Slots of tags that the function may write, one bit for each.
    writes: u8,
    shared: Arc<Shared>,
    orders: Arc<AtomicU32>,
    policy: Policy,
    /// Session that the tickets are of.
    session: u32,
    tickets: Box<[Ticket]>,
    /// For some packets a copy of them as they came in, by ticket.
    originals: Box<[Option<Packet>]>,
    /// The next ticket, and the oldest that is not back.
    head: u32,
    tail: u32,
    /// What leaves with the burst at hand.
    leaving: Batch,
    coming: Batch,
    /// What waits for the function to come back.
    held: VecDeque<(Packet, Place, Option<Packet>)>,
    /// Packets that may come from other lanes.
    promised: usize,
    /// Packets of the burst at hand that were let in.
    admitted: usize,
    pool: Pool,
}

/// What a lane is made of.
pub(crate) struct Parts {
    pub rx: RxQueue,
    pub tx: TxQueue,
    pub form: Option<Form>,
    pub writes: u8,
    pub shared: Arc<Shared>,
    pub orders: Arc<AtomicU32>,
    pub policy: Policy,
    pub pool: Pool,
}

impl Lane {
    pub(crate) fn new(parts: Parts) -> Lane {
        let Parts { rx, tx, form, writes, shared, orders, policy, pool } = parts;
        let place = Place { state: 0, plan: 0, onward: 0 };
        let annotations = Annotations::default();
        let none = Ticket { annotations, place, length: 0, emitted: 0 };
        let held = if let Policy::Hold(packets) = policy { packets as usize } else { 0 };
        Lane {
            rx,
            tx,
            form,
            writes,
            shared,
            orders,
            policy,
            session: 0,
            tickets: vec![none; WINDOW].into_boxed_slice(),
            originals: (0..WINDOW).map(|_| None).collect(),
            head: 0,
            tail: 0,
            leaving: Batch::new(),
            coming: Batch::new(),
            held: VecDeque::with_capacity(held),
            promised: 0,
            admitted: 0,
            pool,
        }
    }

    /// Whether the function is there.
    #[inline]
    pub fn is_up(&self) -> bool {
        self.session & 1 == 1
    }

    /// What becomes of packets while it is not.
    #[inline]
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Packets that are away.
    #[inline]
    pub fn away(&self) -> usize {
        self.head.wrapping_sub(self.tail) as usize
    }

    /// Whether anything is away or waits.
    pub fn is_busy(&self) -> bool {
        self.away() > 0 || !self.held.is_empty()
    }

    /// Whether packets of this user are away or wait.
    pub fn has_of(&self, user: u32) -> bool {
        let mut away = 0..self.away() as u32;
        away.any(|ahead| self.ticket(ahead).annotations.user == user)
            || self.held.iter().any(|(packet, ..)| packet.annotations().user == user)
    }

    /// Gives up what waits of this user, and hands its places to `lost`.
    pub fn drop_held_of(&mut self, user: u32, mut lost: impl FnMut(Place)) {
        self.held.retain(|(packet, place, _)| {
            let stays = packet.annotations().user != user;
            if !stays {
                lost(*place);
            }
            stays
        });
    }

    fn ticket(&self, ahead: u32) -> &Ticket {
        &self.tickets[self.tail.wrapping_add(ahead) as usize % WINDOW]
    }

    /// Whether the supervisor has something new to say.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.shared.session.load(Ordering::Acquire) != self.session
    }

    /// Hears what is new. What was away under the old session is lost and handed
    /// to `lost`.
    pub fn take_news(&mut self, mut lost: impl FnMut(Ticket)) {
        self.session = self.shared.session.load(Ordering::Acquire);
        self.leaving.clear();
        while self.tail != self.head {
            lost(self.redeem().0);
            self.count_lost();
        }
        // What still lies in the ring is of the old session, too.
        while self.rx.receive(&mut self.coming, BURST) > 0 {
            self.coming.clear();
        }
        self.publish();
    }

    /// A burst begins: nothing of it was let in yet.
    #[inline]
    pub fn begin(&mut self) {
        self.admitted = 0;
    }

    /// Packets that may still be let in at the entry of a chain that leads here.
    #[inline]
    pub fn credit(&self) -> usize {
        let room = match (self.is_up(), self.policy) {
            (true, _) if self.held.is_empty() => WINDOW - self.away(),
            (_, Policy::Hold(packets)) => (packets as usize).saturating_sub(self.held.len()),
            _ => return usize::MAX,
        };
        room.saturating_sub(self.promised + self.admitted)
    }

    /// Lets packets in.
    #[inline]
    pub fn admit(&mut self, count: usize) {
        self.admitted += count;
    }

    /// A packet in another lane may come here.
    #[inline]
    pub fn promise(&mut self) {
        self.promised += 1;
    }

    /// It came, or it will not.
    #[inline]
    pub fn keep_promise(&mut self) {
        self.promised = self.promised.saturating_sub(1);
    }

    /// Takes a packet away, with the burst; or holds it. `original` is kept until
    /// the packet is back.
    ///
    /// # Errors
    /// [`Refusal`], and the packet is dropped.
    #[inline]
    pub fn take(
        &mut self,
        packet: Packet,
        place: Place,
        original: Option<Packet>,
        now: u64,
    ) -> Result<(), Refusal> {
        // Nothing overtakes what was held.
        if !self.is_up() || !self.held.is_empty() {
            return self.hold(packet, place, original);
        }
        if self.away() >= WINDOW || self.leaving.is_full() {
            self.flush_full();
            if self.away() >= WINDOW || self.leaving.is_full() {
                return Err(Refusal::Full);
            }
        }
        self.dispatch(packet, place, original, now)
    }

    #[cold]
    fn hold(
        &mut self,
        packet: Packet,
        place: Place,
        original: Option<Packet>,
    ) -> Result<(), Refusal> {
        match self.policy {
            Policy::Hold(packets) if self.held.len() < packets as usize => {
                self.held.push_back((packet, place, original));
                Ok(())
            }
            _ => Err(Refusal::Full),
        }
    }

    #[inline]
    fn dispatch(
        &mut self,
        mut packet: Packet,
        place: Place,
        original: Option<Packet>,
        now: u64,
    ) -> Result<(), Refusal> {
        let length = packet.len();
        let annotations = *packet.annotations();
        let header = self.form.as_ref().map_or(0, Form::header_length);
        if length > Pool::PACKET_BYTES || length + header > Pool::PACKET_BYTES + ROOM {
            return Err(Refusal::TooLong);
        }
        let record = Record {
            ticket: self.head,
            what: What::Packet,
            reason: 0,
            now,
            order: self.orders.load(Ordering::Relaxed),
            annotations,
        };
        if let Some(form) = &self.form
            && !form.put(&record, &mut packet)
        {
            packet = copy(form, &self.pool, &record, &packet)?;
        }
        // There is room: `take` has looked.
        if self.leaving.push(packet).is_err() {
            return Err(Refusal::Full);
        }
        self.tickets[self.head as usize % WINDOW] =
            Ticket { annotations, place, length: length as u16, emitted: 0 };
        if original.is_some() {
            self.originals[self.head as usize % WINDOW] = original;
        }
        self.head = self.head.wrapping_add(1);
        Ok(())
    }

    #[cold]
    fn flush_full(&mut self) {
        self.tx.transmit(&mut self.leaving);
    }

    /// Hands what leaves to the ring. What finds no room waits for the next time: by
    /// its ticket there is room, but the function, or a ring that was attached just
    /// now, may be late to make it. Of more than a burst the newest tickets are
    /// given back to `refused`.
    #[inline]
    pub fn flush(&mut self, mut refused: impl FnMut(Ticket)) {
        if self.leaving.is_empty() {
            return;
        }
        self.tx.transmit(&mut self.leaving);
        while self.leaving.len() > BURST {
            self.leaving.pop();
            self.head = self.head.wrapping_sub(1);
            self.originals[self.head as usize % WINDOW] = None;
            refused(self.tickets[self.head as usize % WINDOW]);
        }
        self.publish();
    }

    /// Whether anything was held.
    #[inline]
    pub fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// The oldest packet that was held, once the function is there and has room.
    pub fn next_held(&mut self, now: u64) -> Option<Result<(), (Refusal, Place)>> {
        if !self.is_up() || self.away() >= WINDOW || self.leaving.is_full() {
            return None;
        }
        let (packet, place, original) = self.held.pop_front()?;
        Some(self.dispatch(packet, place, original, now).map_err(|refusal| (refusal, place)))
    }

    /// Takes what came back, up to a burst, to `back`. Returns whether there was
    /// anything.
    #[inline]
    pub fn collect(&mut self, mut back: impl FnMut(Back)) -> bool {
        if self.away() == 0 && !self.is_up() {
            return false;
        }
        if !self.leaving.is_empty() {
            self.tx.transmit(&mut self.leaving);
        }
        let count = self.rx.receive(&mut self.coming, BURST);
        if count == 0 {
            return false;
        }
        self.coming.iter().for_each(Packet::prefetch);
        let mut coming = std::mem::take(&mut self.coming);
        for packet in coming.drain() {
            self.sort(packet, &mut back);
        }
        self.coming = coming;
        let returned = self.shared.returned.load(Ordering::Relaxed).wrapping_add(count as u32);
        self.shared.returned.store(returned, Ordering::Relaxed);
        self.publish();
        true
    }

    #[inline]
    fn sort(&mut self, mut packet: Packet, back: &mut impl FnMut(Back)) {
        let Some(form) = &self.form else { return back(Back::Plain(packet)) };
        let Some((record, header)) = form.read(packet.data()) else {
            return self.count_stray();
        };
        let ahead = record.ticket.wrapping_sub(self.tail);
        if matches!(record.what, What::Emitted | What::Answer) {
            // Before its parent or right behind it.
            let known = (ahead as usize) < self.away() || ahead == u32::MAX;
            let ticket = &mut self.tickets[record.ticket as usize % WINDOW];
            if !known || ticket.emitted >= EMITTED {
                return self.count_stray();
            }
            ticket.emitted += 1;
            let ticket = *ticket;
            packet.trim_front(header);
            self.restore(&mut packet, &record, &ticket);
            return back(match record.what {
                What::Answer => Back::Answer(packet),
                _ => Back::Emitted(packet, ticket),
            });
        }
        if ahead as usize >= self.away() {
            return self.count_stray();
        }
        for _ in 0..ahead {
            back(Back::Lost(self.redeem().0));
            self.count_lost();
        }
        let (ticket, original) = self.redeem();
        match record.what {
            What::Dropped => back(Back::Dropped(ticket, record.reason)),
            What::Kept => {
                self.count_lost();
                back(Back::Lost(ticket));
            }
            What::Packet | What::Emitted | What::Answer => {
                packet.trim_front(header);
                self.restore(&mut packet, &record, &ticket);
                back(Back::Packet(packet, ticket, original));
            }
        }
    }

    #[inline]
    fn redeem(&mut self) -> (Ticket, Option<Packet>) {
        let at = self.tail as usize % WINDOW;
        self.tail = self.tail.wrapping_add(1);
        let doubtful = self.tickets[at].annotations.flags & Annotations::DOUBTFUL != 0;
        (self.tickets[at], if doubtful { self.originals[at].take() } else { None })
    }

    /// What the function may say of a packet is what it may change: offsets, and
    /// the tags that it declares to write. All else is as it was.
    #[inline]
    fn restore(&self, packet: &mut Packet, record: &Record, ticket: &Ticket) {
        let (said, was) = (&record.annotations, &ticket.annotations);
        let mut tags = was.tags;
        if self.writes != 0 {
            for slot in (0..TAG_SLOTS).filter(|slot| self.writes >> slot & 1 == 1) {
                tags[slot] = said.tags[slot];
            }
        }
        let doubtful = Annotations::DOUBTFUL;
        *packet.annotations_mut() = Annotations {
            tags,
            user: was.user,
            bearer: was.bearer,
            group: was.group,
            state: ticket.place.state,
            port: was.port,
            flags: said.flags & !doubtful | was.flags & doubtful,
            ..*said
        };
    }

    /// Whether frames carry no header.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.form.is_none()
    }

    /// The port that the oldest packet that is away came in at.
    pub fn oldest_port(&self) -> Option<u16> {
        (self.away() > 0).then(|| self.tickets[self.tail as usize % WINDOW].annotations.port)
    }

    /// The oldest ticket of a packet of `user` that came in at `port`: that of a
    /// plain frame that came back. Older ones were lost, and go to `lost`.
    pub fn claim(
        &mut self,
        user: u32,
        port: u16,
        mut lost: impl FnMut(Ticket),
    ) -> Option<(Ticket, Option<Packet>)> {
        let fits =
            |ticket: &Ticket| ticket.annotations.user == user && ticket.annotations.port == port;
        let ahead = (0..self.away() as u32).find(|ahead| fits(self.ticket(*ahead)))?;
        for _ in 0..ahead {
            lost(self.redeem().0);
            self.count_lost();
        }
        let ticket = self.redeem();
        self.publish();
        Some(ticket)
    }

    /// A frame came back that nobody can have sent.
    pub fn reject(&self) {
        self.count_stray();
    }

    /// Drops all that waits, as the node stops; hands tickets of what was away to
    /// `lost` and returns how many were held.
    pub fn clear(&mut self, mut lost: impl FnMut(Ticket)) -> usize {
        self.leaving.clear();
        while self.tail != self.head {
            lost(self.redeem().0);
        }
        let held = self.held.len();
        self.held.clear();
        held
    }

    #[cold]
    fn count_stray(&self) {
        let strays = self.shared.strays.load(Ordering::Relaxed).wrapping_add(1);
        self.shared.strays.store(strays, Ordering::Relaxed);
    }

    #[cold]
    fn count_lost(&self) {
        let lost = self.shared.lost.load(Ordering::Relaxed).wrapping_add(1);
        self.shared.lost.store(lost, Ordering::Relaxed);
    }

    #[inline]
    fn publish(&self) {
        self.shared.away.store(self.away() as u32, Ordering::Relaxed);
    }
}

/// A packet whose headroom others have used is copied behind the header.
#[cold]
fn copy(form: &Form, pool: &Pool, record: &Record, packet: &Packet) -> Result<Packet, Refusal> {
    let mut copy = pool.allocate().ok_or(Refusal::Full)?;
    let header = copy.append(form.header_length()).ok_or(Refusal::TooLong)?;
    form.write(record, header);
    let room = copy.append(packet.len()).ok_or(Refusal::TooLong)?;
    room.copy_from_slice(packet.data());
    Ok(copy)
}
