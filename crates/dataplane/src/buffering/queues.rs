//! What waits at a worker on behalf of functions: kept packets and timers.
//!
//! Both belong to the node, not to the function, so that they are bounded in
//! one place and can move with their user. All room is made beforehand: keeping
//! a packet and asking for a timer allocate nothing.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, VecDeque};

use arrayvec::ArrayVec;
use weft_compose::Positions;
use weft_dpdk::{Batch, Packet};

use crate::buffering::limits::WAITING;

/// Whose packets: a function (its index) and the slot of its context.
pub type Owner = (u16, u32);

/// Kept packets and timers of one worker.
#[derive(Debug)]
pub struct Queues {
    queues: HashMap<Owner, Queue>,
    /// The packets of all queues.
    places: Vec<QueueSlot>,
    /// The first place without a packet; [`NOWHERE`] when there is none.
    vacant: u32,
    /// Packets that each queue may hold.
    limit: usize,
    /// Packets of the burst at hand that are kept, oldest first.
    in_burst: ArrayVec<(Owner, usize), { Batch::CAPACITY }>,
    timers: BinaryHeap<Reverse<(u64, u16, u32)>>,
    /// Packets to users, which functions have answered.
    answers: ArrayVec<Packet, { Batch::CAPACITY }>,
    /// Contexts that were reset after a panic and want their settings again.
    resets: BTreeSet<Owner>,
    /// What functions have to tell the agent.
    reports: VecDeque<(Owner, u32)>,
}

/// The packets kept for one context, oldest first.
#[derive(Clone, Copy, Debug)]
struct Queue {
    first: u32,
    last: u32,
    length: usize,
}

#[derive(Debug)]
struct QueueSlot {
    packet: Option<Packet>,
    /// The place behind this one, in its queue or among the vacant ones.
    next: u32,
}

const NOWHERE: u32 = u32::MAX;

/// Timers that may run at one worker; further ones run out at once.
const TIMERS: usize = 1 << 16;

/// Reports of functions that may wait at one worker; further ones are lost.
const REPORTS: usize = 1 << 14;

impl Queues {
    /// Keeps up to `limit` packets for each function and context, and up to
    /// `room` in all.
    pub fn new(limit: usize, room: usize) -> Queues {
        let place = |number: usize| QueueSlot { packet: None, next: number as u32 + 1 };
        let mut places: Vec<_> = (0..room).map(place).collect();
        if let Some(last) = places.last_mut() {
            last.next = NOWHERE;
        }
        Queues {
            // A queue holds a packet or is none. With room for twice as many,
            // the map never grows to get rid of those that were removed.
            queues: HashMap::with_capacity(2 * room),
            vacant: if places.is_empty() { NOWHERE } else { 0 },
            places,
            limit,
            in_burst: ArrayVec::new(),
            timers: BinaryHeap::with_capacity(TIMERS),
            answers: ArrayVec::new(),
            resets: BTreeSet::new(),
            reports: VecDeque::with_capacity(REPORTS),
        }
    }

    /// Notes that the packet at `position` of the burst is kept. False when the
    /// queue is full.
    pub fn keep(&mut self, function: u16, slot: u32, position: usize) -> bool {
        let owner = (function, slot);
        let waiting = self.queues.get(&owner).map_or(0, |queue| queue.length);
        let here = self.in_burst.iter().filter(|(one, _)| *one == owner).count();
        waiting + here < self.limit && self.in_burst.try_push((owner, position)).is_ok()
    }

    /// Notes that the packet at `position` of the burst waits for its bearer,
    /// which [`Limits`](crate::buffering::limits::Limits) has allowed.
    pub fn keep_waiting(&mut self, slot: u32, position: usize) {
        let _ = self.in_burst.try_push(((WAITING, slot), position));
    }

    /// The oldest packet kept from an earlier burst.
    pub fn take(&mut self, function: u16, slot: u32) -> Option<Packet> {
        let owner = (function, slot);
        let queue = self.queues.get_mut(&owner)?;
        let at = queue.first;
        let place = &mut self.places[at as usize];
        let packet = place.packet.take();
        queue.first = std::mem::replace(&mut place.next, self.vacant);
        queue.length -= 1;
        self.vacant = at;
        if queue.length == 0 {
            self.queues.remove(&owner);
        }
        packet
    }

    /// The position of the oldest packet kept from this burst, which stays kept.
    pub fn first_of_burst(&self, function: u16, slot: u32) -> Option<usize> {
        let of = |(owner, _): &&(Owner, usize)| *owner == (function, slot);
        self.in_burst.iter().find(of).map(|(_, position)| *position)
    }

    /// The position of the oldest packet kept from this burst.
    pub fn take_from_burst(&mut self, function: u16, slot: u32) -> Option<usize> {
        let at = self.in_burst.iter().position(|(owner, _)| *owner == (function, slot))?;
        Some(self.in_burst.remove(at).1)
    }

    /// The burst is done: which of its positions stay kept.
    #[inline]
    pub fn kept(&self) -> Positions {
        let mut kept = Positions::NONE;
        for (_, position) in &self.in_burst {
            kept.insert(*position);
        }
        kept
    }

    /// Moves a packet that stays kept from the burst into its queue. False, and
    /// the packet is gone, when there is no room for it.
    pub fn store(&mut self, position: usize, packet: Packet) -> bool {
        let owner = self.in_burst.iter().find(|(_, kept)| *kept == position);
        let Some(&(owner, _)) = owner else { return false };
        self.put(owner, packet)
    }

    /// Keeps a packet that was kept at another node, behind what is kept already.
    /// False, and the packet is gone, when there is no room for it.
    pub fn restore(&mut self, function: u16, slot: u32, packet: Packet) -> bool {
        let owner = (function, slot);
        let waiting = self.queues.get(&owner).map_or(0, |queue| queue.length);
        waiting < self.limit && self.put(owner, packet)
    }

    /// The same for a packet that waits for its bearer, which
    /// [`Limits`](crate::buffering::limits::Limits) has allowed.
    pub fn wait_again(&mut self, slot: u32, packet: Packet) -> bool {
        self.put((WAITING, slot), packet)
    }

    fn put(&mut self, owner: Owner, packet: Packet) -> bool {
        let Some(place) = self.places.get_mut(self.vacant as usize) else { return false };
        let at = self.vacant;
        place.packet = Some(packet);
        self.vacant = std::mem::replace(&mut place.next, NOWHERE);
        let queue = self.queues.entry(owner).or_insert(Queue { first: at, last: at, length: 0 });
        if queue.length > 0 {
            self.places[queue.last as usize].next = at;
            queue.last = at;
        }
        queue.length += 1;
        true
    }

    /// Forgets the burst.
    #[inline]
    pub fn settle(&mut self) {
        self.in_burst.clear();
    }

    /// Calls the function's timer for this context at `time`.
    pub fn wake_at(&mut self, time: u64, function: u16, slot: u32) {
        let time = if self.timers.len() < TIMERS { time } else { 0 };
        self.timers.push(Reverse((time, function, slot)));
    }

    /// Takes the timers of one context out: when they run out.
    pub fn take_timers(&mut self, function: u16, slot: u32) -> Vec<u64> {
        let owner = (function, slot);
        let mut taken = Vec::new();
        if !self.timers.is_empty() {
            self.timers.retain(|Reverse((time, function, slot))| {
                let is_its = (*function, *slot) == owner;
                if is_its {
                    taken.push(*time);
                }
                !is_its
            });
        }
        taken
    }

    /// Whether any timer runs.
    #[inline]
    pub fn has_timers(&self) -> bool {
        !self.timers.is_empty()
    }

    /// When the next timer runs out.
    pub fn next_timer(&self) -> Option<u64> {
        self.timers.peek().map(|Reverse((time, ..))| *time)
    }

    /// The next timer that has run out by `now`.
    #[inline]
    pub fn due(&mut self, now: u64) -> Option<Owner> {
        let Reverse((time, function, slot)) = *self.timers.peek()?;
        if time > now {
            return None;
        }
        self.timers.pop();
        Some((function, slot))
    }

    /// Keeps a packet to a user until the burst at hand is done. False, and it is
    /// gone, when there is no room.
    pub fn answer(&mut self, packet: Packet) -> bool {
        self.answers.try_push(packet).is_ok()
    }

    /// Whether any packet is to go to a user.
    #[inline]
    pub fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// Takes the oldest of them.
    pub fn take_answer(&mut self) -> Option<Packet> {
        self.answers.pop_at(0)
    }

    /// Notes that a context was reset.
    pub fn note_reset(&mut self, function: u16, slot: u32) {
        self.resets.insert((function, slot));
    }

    /// Whether any context was reset.
    #[inline]
    pub fn has_resets(&self) -> bool {
        !self.resets.is_empty()
    }

    /// Takes one of the contexts that were reset.
    pub fn take_reset(&mut self) -> Option<Owner> {
        self.resets.pop_first()
    }

    /// Notes what a function has to tell the agent, if there is room.
    pub fn report(&mut self, function: u16, slot: u32, code: u32) {
        if self.reports.len() < REPORTS {
            self.reports.push_back(((function, slot), code));
        }
    }

    /// Whether any function has something to tell.
    #[inline]
    pub fn has_reports(&self) -> bool {
        !self.reports.is_empty()
    }

    /// Takes the oldest of it.
    pub fn take_report(&mut self) -> Option<(Owner, u32)> {
        self.reports.pop_front()
    }

    /// Notes again, in front of the others, what found no room on its way.
    pub fn report_again(&mut self, owner: Owner, code: u32) {
        self.reports.push_front((owner, code));
    }

    /// How many packets are kept for one context.
    pub fn length(&self, function: u16, slot: u32) -> usize {
        self.queues.get(&(function, slot)).map_or(0, |queue| queue.length)
    }

    /// How many packets are kept in all.
    pub fn packets(&self) -> usize {
        self.queues.values().map(|queue| queue.length).sum()
    }

    /// Drops what is kept for one context; returns how many packets that were.
    pub fn forget(&mut self, function: u16, slot: u32) -> usize {
        let owner = (function, slot);
        if !self.timers.is_empty() {
            self.timers.retain(|Reverse((_, function, slot))| (*function, *slot) != owner);
        }
        self.resets.remove(&owner);
        if !self.reports.is_empty() {
            self.reports.retain(|(one, _)| *one != owner);
        }
        std::iter::from_fn(|| self.take(function, slot)).count()
    }

    /// Functions get new numbers: `renumber` gives the new one, or none for a
    /// function that is gone. Returns how many packets went with those.
    pub fn renumber(&mut self, renumber: impl Fn(u16) -> Option<u16>) -> usize {
        let gone = |(function, _): &&Owner| renumber(*function).is_none();
        let gone: Vec<_> = self.queues.keys().filter(gone).copied().collect();
        let lost = gone.into_iter().map(|(function, slot)| self.forget(function, slot)).sum();
        let moved = |(function, slot): Owner| Some((renumber(function)?, slot));
        let queues: Vec<_> = self.queues.drain().collect();
        self.queues
            .extend(queues.into_iter().filter_map(|(owner, queue)| Some((moved(owner)?, queue))));
        self.resets = std::mem::take(&mut self.resets).into_iter().filter_map(moved).collect();
        self.reports.retain_mut(|(owner, _)| match moved(*owner) {
            Some(new) => {
                *owner = new;
                true
            }
            None => false,
        });
        let mut timers = std::mem::take(&mut self.timers).into_vec();
        timers.retain_mut(|Reverse((_, function, _))| {
            let new = renumber(*function);
            *function = new.unwrap_or(*function);
            new.is_some()
        });
        self.timers = timers.into();
        lost
    }

    /// Drops all that is kept, as the node stops; returns how many packets.
    pub fn clear(&mut self) -> usize {
        self.timers.clear();
        self.resets.clear();
        self.reports.clear();
        let answers = self.answers.drain(..).count();
        let owners: Vec<_> = self.queues.keys().copied().collect();
        let kept = owners.into_iter().map(|(function, slot)| self.forget(function, slot));
        answers + kept.sum::<usize>()
    }
}
