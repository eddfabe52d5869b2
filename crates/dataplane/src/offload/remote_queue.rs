//! The packets of one worker that are on their way to a function and back.
//!
//! Every packet that goes out leaves a [`InFlightEntry`] here, and only what the ticket
//! says is believed when it comes back: whose packet it is, and where it stands on
//! its way. A carrier keeps order, so tickets come back in the order they were given;
//! what is passed over was lost by the function. The window of tickets is as large
//! as a ring: a packet that has a ticket has room.

mod pace;

use std::collections::VecDeque;
use std::sync::Arc;

use weft_dpdk::Packet;
use weft_function::Metadata;

use self::pace::Pace;
use super::Policy;
use super::carrier::{Address, Carrier};
use super::credits::Credits;
use super::in_flight_entry::{Back, InFlightEntry, Refusal, ResumePoint};
use super::in_flight_table::{InFlightTable, WINDOW};
use super::next_hops::NextHops;
use super::shared::Shared;

/// Packets that may wait for room in the carrier.
const BURST: usize = 32;

/// Places that stay free while packets go on that waited.
const LEFT: usize = 2 * BURST;

/// Packets that may wait at a gate beyond its bound: those of other queues.
const MORE: usize = 8 * WINDOW;

/// A queue, and the worker's packets in it.
#[derive(Debug)]
pub struct RemoteQueue {
    carrier: Box<dyn Carrier>,
    /// For carriers at which it is dear to look.
    pace: Option<Pace>,
    in_flight: InFlightTable,
    policy: Policy,
    /// Session that the tickets are of.
    session: u32,
    /// What waits for the function to come back, or to arrive.
    held: VecDeque<Held>,
    gate: Gate,
    /// Who may send packets here.
    pub credits: Credits,
}

/// A packet that waits, where it stands, and what was kept of it.
pub type Held = (Packet, ResumePoint, Option<Packet>);

/// What becomes of packets while their function moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    /// It does not move.
    Open,
    /// All of them wait, so many at most.
    Closed(usize),
    /// The function has arrived; what came behind what waits, waits as well.
    Emptying(usize),
}

/// How a queue is to be.
#[derive(Clone, Debug)]
pub struct Options {
    /// Slots of tags that the function may write, one bit for each.
    pub writes: u8,
    /// What becomes of packets while the function is not there.
    pub policy: Policy,
    /// Shared with who looks after the function.
    pub shared: Arc<Shared>,
}

impl RemoteQueue {
    /// A queue to a function that is not there yet.
    #[inline]
    pub fn new(carrier: Box<dyn Carrier>, options: Options) -> RemoteQueue {
        let Options { writes, policy, shared } = options;
        let held = if let Policy::Hold(packets) = policy { packets as usize } else { 0 };
        let goes_on = carrier.address().is_some();
        let in_flight = InFlightTable::new(writes, shared, carrier.keeps_order(), goes_on);
        RemoteQueue {
            pace: carrier.is_dear().then(Pace::new),
            carrier,
            in_flight,
            policy,
            session: 0,
            held: VecDeque::with_capacity(held),
            gate: Gate::Open,
            credits: Credits::default(),
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
        self.in_flight.away()
    }

    /// Whether anything is away or waits.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.away() > 0 || !self.held.is_empty()
    }

    /// Whether packets of this user are away or wait.
    #[inline]
    pub fn has_of(&self, user: u32) -> bool {
        let mut away = 0..self.away() as u32;
        let is_of = |ticket: &InFlightEntry| !ticket.back && ticket.metadata.user == user;
        away.any(|ahead| is_of(self.in_flight.ticket(ahead)))
            || self.held.iter().any(|(packet, ..)| packet.metadata().user == user)
    }

    /// Gives up what waits of this user, and hands its places to `lost`.
    pub fn drop_held_of(&mut self, user: u32, mut lost: impl FnMut(ResumePoint)) {
        self.held.retain(|(packet, place, _)| {
            let stays = packet.metadata().user != user;
            if !stays {
                lost(*place);
            }
            stays
        });
    }

    /// Whether there is something new about the function.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.in_flight.shared.session() != self.session
    }

    /// Hears what is new. What was away under the old session is lost and handed
    /// to `lost`.
    pub fn take_news(&mut self, mut lost: impl FnMut(InFlightEntry)) {
        self.session = self.in_flight.shared.session();
        while let Some((ticket, _)) = self.in_flight.redeem() {
            lost(ticket);
            self.in_flight.shared.count_lost();
        }
        // What still lies in the carrier is of the old session, too.
        self.carrier.clear();
        self.in_flight.publish();
    }

    /// Packets that may still be let in at the entry of a chain that leads here.
    #[inline]
    pub fn credit(&self) -> usize {
        let room = match (self.is_up(), self.policy) {
            (true, _) if self.held.is_empty() && self.gate == Gate::Open => self.room(),
            _ => match self.bound() {
                0 => return usize::MAX,
                bound => bound.saturating_sub(self.held.len()),
            },
        };
        self.credits.of(room)
    }

    /// Whether a burst may be let in, and one behind it. Nothing makes room where the function is
    /// not there.
    pub fn has_room(&self) -> bool {
        !self.is_up() || self.credit() >= LEFT
    }

    /// The same of packets that were let in before.
    pub fn has_room_for_reserved(&self) -> bool {
        !self.is_up() || self.room() >= LEFT
    }

    /// Packets that find room, by their tickets and in the carrier.
    #[inline]
    fn room(&self) -> usize {
        let room = WINDOW - self.away();
        match self.carrier.in_hand() {
            0 => room,
            waiting => room.min(BURST.saturating_sub(waiting)),
        }
    }

    /// By what other functions find this one, if they can send packets to it.
    #[inline]
    pub fn address(&self) -> Option<Address> {
        self.carrier.address()
    }

    /// Slots of tags that the function may write, one bit for each.
    #[inline]
    pub fn writes(&self) -> u8 {
        self.in_flight.writes
    }

    /// Takes a packet away, with the burst; or holds it. `original` is kept until
    /// the packet is back, which goes `onward` before.
    ///
    /// # Errors
    /// [`Refusal`], and the packet is dropped.
    #[inline]
    pub fn take(
        &mut self,
        packet: Packet,
        place: ResumePoint,
        original: Option<Packet>,
        (now, onward): (u64, &NextHops),
    ) -> Result<(), Refusal> {
        // Nothing overtakes what was held.
        if !self.is_up() || !self.held.is_empty() || self.is_closed() {
            return self.hold(packet, place, original);
        }
        if self.is_full() {
            self.carrier.send();
            if self.is_full() {
                return Err(Refusal::Full);
            }
        }
        self.dispatch(packet, place, original, (now, onward))
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.away() >= WINDOW || self.carrier.is_full()
    }

    #[cold]
    fn hold(
        &mut self,
        packet: Packet,
        place: ResumePoint,
        original: Option<Packet>,
    ) -> Result<(), Refusal> {
        // What was away elsewhere as the gate was closed had no credit for it.
        let more = if self.gate == Gate::Open { 0 } else { MORE };
        if self.held.len() >= self.bound() + more {
            return Err(Refusal::Full);
        }
        self.held.push_back((packet, place, original));
        Ok(())
    }

    /// Packets that may wait now.
    #[inline]
    fn bound(&self) -> usize {
        let held = if let Policy::Hold(packets) = self.policy { packets as usize } else { 0 };
        match self.gate {
            Gate::Open => held,
            Gate::Closed(bound) | Gate::Emptying(bound) => bound.max(held),
        }
    }

    /// Lets nothing pass from now on: up to `bound` packets wait for [`open`](Self::open),
    /// in order.
    #[inline]
    pub fn close(&mut self, bound: usize) {
        self.gate = Gate::Closed(bound);
    }

    /// Whether all packets wait.
    #[inline]
    pub fn is_closed(&self) -> bool {
        matches!(self.gate, Gate::Closed(_))
    }

    /// The function is where this queue leads, or has another way: what waits is to go on
    /// before all that comes.
    #[inline]
    pub fn open(&mut self) {
        if let Gate::Closed(bound) = self.gate {
            self.gate = Gate::Emptying(bound);
        }
        self.settle_gate();
    }

    #[inline]
    fn settle_gate(&mut self) {
        if self.held.is_empty() && !self.is_closed() {
            self.gate = Gate::Open;
            let held = if let Policy::Hold(packets) = self.policy { packets as usize } else { 0 };
            self.held.shrink_to(held);
        }
    }

    /// Takes the oldest packet that waits off the queue.
    #[inline]
    pub fn take_held(&mut self) -> Option<Held> {
        let held = self.held.pop_front();
        if self.gate != Gate::Open {
            self.settle_gate();
        }
        held
    }

    #[inline]
    fn dispatch(
        &mut self,
        packet: Packet,
        place: ResumePoint,
        original: Option<Packet>,
        (now, onward): (u64, &NextHops),
    ) -> Result<(), Refusal> {
        let (metadata, length) = (*packet.metadata(), packet.len() as u16);
        self.carrier.put(packet, self.in_flight.head, now, onward)?;
        self.in_flight.go_on(onward);
        self.in_flight.add(InFlightEntry::new(metadata, place, length), original);
        Ok(())
    }

    /// Hands what leaves to the carrier. What finds no room waits for the next time: by
    /// its ticket there is room, but the function, or a ring that was attached just
    /// now, may be late to make it. Of more than a burst the newest tickets are
    /// given back to `refused`.
    #[inline]
    pub fn flush(&mut self, mut refused: impl FnMut(InFlightEntry)) {
        if self.carrier.in_hand() == 0 {
            return;
        }
        self.carrier.send();
        while self.carrier.in_hand() > BURST {
            self.carrier.drop_last();
            refused(self.in_flight.take_back());
        }
        self.in_flight.publish();
    }

    /// Whether anything was held.
    #[inline]
    pub fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Packets that are held.
    #[inline]
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// The oldest packet that was held, once the function is there and has room.
    #[inline]
    pub fn next_held(&mut self, now: u64) -> Option<Result<(), (Refusal, ResumePoint)>> {
        // What has waited is not lost to a carrier that has no room yet, and what comes behind the
        // last of it finds room for a burst.
        let fits = self.away() + LEFT <= WINDOW && !self.carrier.is_full();
        let has_room = self.carrier.in_hand() < BURST && fits;
        if !self.is_up() || !has_room || self.is_closed() {
            return None;
        }
        let (packet, place, original) = self.take_held()?;
        let now = (now, &NextHops::NOWHERE);
        Some(self.dispatch(packet, place, original, now).map_err(|refusal| (refusal, place)))
    }

    /// Takes what came back, up to a burst, to `back`. Returns whether there was
    /// anything.
    #[inline]
    pub fn collect(&mut self, mut back: impl FnMut(Back)) -> bool {
        if self.away() == 0 && !self.is_up() {
            return false;
        }
        if self.carrier.in_hand() > 0 {
            self.carrier.send();
        }
        let in_flight = &mut self.in_flight;
        if self.pace.as_ref().is_some_and(|pace| pace.is_early(in_flight.away())) {
            return false;
        }
        let count = self.carrier.receive(&mut |coming| in_flight.sort(coming, &mut back));
        if let Some(pace) = &mut self.pace {
            pace.note(count);
        }
        if count == 0 {
            return false;
        }
        self.in_flight.shared.count_returned(count);
        self.in_flight.publish();
        true
    }

    /// Whether packets come back in the order in which they went, as they do from
    /// a function at this machine.
    #[inline]
    pub fn keeps_order(&self) -> bool {
        self.carrier.keeps_order()
    }

    /// Whether frames carry no ticket.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.carrier.is_plain()
    }

    /// The port that the oldest packet that is away came in at.
    #[inline]
    pub fn oldest_port(&self) -> Option<u16> {
        (self.away() > 0).then(|| self.in_flight.ticket(0).metadata.port)
    }

    /// The oldest ticket of a packet of `user` that came in at `port`: that of a
    /// plain frame that came back. Older ones were lost, and go to `lost`.
    pub fn claim(
        &mut self,
        user: u32,
        port: u16,
        mut lost: impl FnMut(InFlightEntry),
    ) -> Option<(InFlightEntry, Option<Packet>)> {
        let in_flight = &mut self.in_flight;
        let fits =
            |ticket: &InFlightEntry| ticket.metadata.user == user && ticket.metadata.port == port;
        let ahead = (0..in_flight.away() as u32).find(|ahead| fits(in_flight.ticket(*ahead)))?;
        in_flight.pass_over(ahead, &mut lost);
        let ticket = in_flight.redeem();
        in_flight.publish();
        ticket
    }

    /// A frame came back that no function can have sent.
    #[inline]
    pub fn reject(&self) {
        self.in_flight.shared.count_stray();
    }

    /// Drops all that waits, as the node stops; hands tickets of what was away to
    /// `lost` and returns how many were held.
    pub fn clear(&mut self, mut lost: impl FnMut(InFlightEntry)) -> usize {
        self.carrier.clear();
        while let Some((ticket, _)) = self.in_flight.redeem() {
            lost(ticket);
        }
        let held = self.held.len();
        self.held.clear();
        held
    }
}
