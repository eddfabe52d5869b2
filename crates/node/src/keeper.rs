//! What waits at a worker on behalf of functions: kept packets and timers.
//!
//! Both belong to the node, not to the function, so that they are bounded in
//! one place and can move with their user.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use arrayvec::ArrayVec;
use weft_compose::Positions;
use weft_dpdk::{Batch, Packet};

/// Whose packets: a function (its index) and the slot of its context.
type Owner = (u16, u32);

/// Kept packets and timers of one worker.
#[derive(Debug)]
pub struct Keeper {
    queues: HashMap<Owner, VecDeque<Packet>>,
    /// Packets that each queue may hold.
    limit: usize,
    /// Packets of the burst at hand that are kept, oldest first.
    in_burst: ArrayVec<(Owner, usize), { Batch::CAPACITY }>,
    timers: BinaryHeap<Reverse<(u64, u16, u32)>>,
    /// Contexts that were reset after a panic and want their settings again.
    resets: Vec<Owner>,
}

/// Timers that may run at one worker; further ones run out at once.
const TIMERS: usize = 1 << 16;

impl Keeper {
    /// Keeps up to `limit` packets for each function and context.
    pub fn new(limit: usize) -> Keeper {
        Keeper {
            queues: HashMap::new(),
            limit,
            in_burst: ArrayVec::new(),
            timers: BinaryHeap::new(),
            resets: Vec::new(),
        }
    }

    /// Notes that the packet at `position` of the burst is kept. False when the
    /// queue is full.
    pub fn keep(&mut self, function: u16, slot: u32, position: usize) -> bool {
        let owner = (function, slot);
        let waiting = self.queues.get(&owner).map_or(0, VecDeque::len);
        let here = self.in_burst.iter().filter(|(one, _)| *one == owner).count();
        waiting + here < self.limit && self.in_burst.try_push((owner, position)).is_ok()
    }

    /// The oldest packet kept from an earlier burst.
    pub fn take(&mut self, function: u16, slot: u32) -> Option<Packet> {
        let owner = (function, slot);
        let queue = self.queues.get_mut(&owner)?;
        let packet = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(&owner);
        }
        packet
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

    /// Moves a packet that stays kept from the burst into its queue.
    pub fn store(&mut self, position: usize, packet: Packet) {
        if let Some((owner, _)) = self.in_burst.iter().find(|(_, kept)| *kept == position) {
            self.queues.entry(*owner).or_default().push_back(packet);
        }
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

    /// Whether any timer runs.
    #[inline]
    pub fn has_timers(&self) -> bool {
        !self.timers.is_empty()
    }

    /// The next timer that has run out by `now`.
    #[inline]
    pub fn due(&mut self, now: u64) -> Option<(u16, u32)> {
        let Reverse((time, function, slot)) = *self.timers.peek()?;
        if time > now {
            return None;
        }
        self.timers.pop();
        Some((function, slot))
    }

    /// Notes that a context was reset.
    pub fn note_reset(&mut self, function: u16, slot: u32) {
        self.resets.push((function, slot));
    }

    /// Whether any context was reset.
    #[inline]
    pub fn has_resets(&self) -> bool {
        !self.resets.is_empty()
    }

    /// Takes the contexts that were reset.
    pub fn take_resets(&mut self) -> std::vec::Drain<'_, Owner> {
        self.resets.drain(..)
    }

    /// Drops what is kept for one context; returns how many packets that were.
    pub fn forget(&mut self, function: u16, slot: u32) -> usize {
        self.timers.retain(|Reverse((_, f, s))| (*f, *s) != (function, slot));
        self.queues.remove(&(function, slot)).map_or(0, |queue| queue.len())
    }

    /// Functions get new numbers: `renumber` gives the new one, or none for a
    /// function that is gone. Returns how many packets went with those.
    pub fn renumber(&mut self, renumber: impl Fn(u16) -> Option<u16>) -> usize {
        let mut lost = 0;
        for ((function, slot), queue) in std::mem::take(&mut self.queues) {
            match renumber(function) {
                Some(function) => {
                    self.queues.insert((function, slot), queue);
                }
                None => lost += queue.len(),
            }
        }
        let timers = std::mem::take(&mut self.timers).into_iter();
        self.timers = timers
            .filter_map(|Reverse((time, function, slot))| {
                Some(Reverse((time, renumber(function)?, slot)))
            })
            .collect();
        lost
    }

    /// Packets kept in all.
    pub fn waiting(&self) -> usize {
        self.queues.values().map(VecDeque::len).sum()
    }

    /// Drops all that is kept, as the node stops; returns how many packets.
    pub fn clear(&mut self) -> usize {
        let count = self.waiting();
        self.queues.clear();
        self.timers.clear();
        count
    }
}
