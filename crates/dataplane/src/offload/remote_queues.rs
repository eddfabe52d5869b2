//! The queues of one worker: which packets are away, and where each goes on.

mod links;

use weft_compose::Positions;
use weft_dpdk::Packet;
use weft_function::tunnel::settle_checksum;

pub(crate) use self::links::Links;
use super::Lifted;
use super::queues_ahead::QueuesAhead;
use super::stage::{DeployedFunction, Deployment, StageQueue};
use crate::counters::{DropReason, WorkerCounters};
use crate::offload::{Credits, NextHops, Policy, Refusal, RemoteQueue, ResumePoint};

/// RemoteQueues of a node at most, to processes and stages: a set of them is one number.
pub const REMOTE_QUEUES: usize = 64;

/// The queues of one worker.
#[derive(Default)]
pub struct RemoteQueues {
    pub(crate) remote_queues: Vec<RemoteQueue>,
    /// The function of each queue, by its number in the rules.
    pub(crate) functions: Vec<u16>,
    /// Which queues' functions send packets to each other.
    pub(crate) links: Links,
    /// RemoteQueues that functions are behind, one bit for each: the others only stand ready.
    pub(crate) used: u64,
    /// The function that is on its way.
    pub(crate) lifted: Option<Lifted>,
    /// The ways to stages, which have the last numbers.
    pub(crate) stages: Vec<StageQueue>,
    /// Where the functions of stages are.
    pub(crate) deployment: Deployment,
    /// Functions that have come back.
    pub(crate) recalled: Vec<DeployedFunction>,
}

impl RemoteQueues {
    /// Adds a queue; its number.
    pub fn add(&mut self, remote_queue: RemoteQueue) -> u16 {
        self.links.add(&remote_queue);
        self.remote_queues.push(remote_queue);
        self.functions.push(0);
        (self.remote_queues.len() - 1) as u16
    }

    /// Whether there is none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.used == 0 && self.stages.is_empty()
    }

    /// Whether there are stages.
    #[inline(always)]
    pub(crate) fn has_stages(&self) -> bool {
        !self.stages.is_empty()
    }

    /// Which stage a queue leads to.
    #[inline]
    pub(crate) fn stage_number(&self, remote_queue: u16) -> usize {
        REMOTE_QUEUES - 1 - usize::from(remote_queue)
    }

    #[inline]
    fn stage(&mut self, remote_queue: usize) -> Option<&mut StageQueue> {
        match remote_queue < self.remote_queues.len() {
            true => None,
            false => self.stages.get_mut(REMOTE_QUEUES - 1 - remote_queue),
        }
    }

    /// Functions have these places in the rules from now on.
    /// `remote_queues` has the queue of each, where it has one.
    pub fn renumber(&mut self, remote_queues: impl Iterator<Item = Option<u16>>) {
        self.used = 0;
        for (number, remote_queue) in remote_queues.enumerate() {
            if let Some(remote_queue) = remote_queue {
                self.functions[usize::from(remote_queue)] = number as u16;
                self.used |= 1 << remote_queue;
            }
        }
    }

    /// The function of a queue, by its number in the rules.
    pub(crate) fn function(&self, remote_queue: usize) -> u16 {
        self.functions[remote_queue]
    }

    /// A queue that does not lead to a stage.
    pub(crate) fn remote_queue(&mut self, remote_queue: u16) -> &mut RemoteQueue {
        &mut self.remote_queues[usize::from(remote_queue)]
    }

    /// All packets of a function wait at this queue from now on, so many at most.
    pub(crate) fn close(&mut self, remote_queue: u16, function: u16, bound: usize) {
        self.functions[usize::from(remote_queue)] = function;
        self.used |= 1 << remote_queue;
        self.remote_queues[usize::from(remote_queue)].close(bound);
    }

    /// The queue stands ready only.
    pub(crate) fn rest(&mut self, remote_queue: u16) {
        self.used &= !(1 << remote_queue);
    }

    /// What becomes of packets that come to a queue now; none when they go away or
    /// wait.
    #[inline]
    pub fn instead(&self, remote_queue: u16) -> Option<Policy> {
        // A stage is always there.
        let remote_queue = self
            .remote_queues
            .get(usize::from(remote_queue))
            .filter(|remote_queue| !remote_queue.is_closed())?;
        match (remote_queue.is_up(), remote_queue.policy()) {
            (true, _) | (false, Policy::Hold(_)) => None,
            (false, policy) => Some(policy),
        }
    }

    /// A burst begins.
    #[inline]
    pub fn begin(&mut self) {
        self.remote_queues.iter_mut().for_each(|queue| queue.credits.begin());
        self.stages.iter_mut().for_each(|queue| queue.credits.begin());
    }

    /// Lets up to `count` packets in that may come to the queues of `reach`; how
    /// many.
    #[inline]
    pub fn admit(&mut self, reach: u64, count: usize) -> usize {
        let remote_queues = Positions(reach);
        let credit = remote_queues.map(|remote_queue| self.credit(remote_queue)).min();
        let admitted = credit.map_or(count, |credit| credit.min(count));
        for remote_queue in remote_queues {
            self.credits(remote_queue).admit(admitted);
        }
        admitted
    }

    #[inline]
    fn credits(&mut self, remote_queue: usize) -> &mut Credits {
        match remote_queue < self.remote_queues.len() {
            true => &mut self.remote_queues[remote_queue].credits,
            false => &mut self.stages[REMOTE_QUEUES - 1 - remote_queue].credits,
        }
    }

    #[inline]
    fn credit(&mut self, remote_queue: usize) -> usize {
        match self.stage(remote_queue) {
            Some(stage) => stage.credit(),
            None => self.remote_queues[remote_queue].credit(),
        }
    }

    #[inline]
    fn reserve(&mut self, onward: u64) {
        for remote_queue in Positions(onward) {
            self.credits(remote_queue).reserve();
        }
    }

    /// Takes a packet away.
    #[inline]
    pub fn take(
        &mut self,
        leaving: Leaving,
        packet: Packet,
        original: Option<Packet>,
        now: u64,
    ) -> Result<(), DropReason> {
        let Leaving { remote_queue, place, length, .. } = leaving;
        let remote_queue = usize::from(remote_queue);
        if let Some(stage) = self.stage(remote_queue) {
            if !stage.take(packet, place, length, original, now) {
                return Err(DropReason::FunctionFull);
            }
        } else {
            // What reads it there knows nothing of what is owed.
            let packet = settle_checksum(packet);
            let onward = match self.links.has(remote_queue) {
                true => self.links.onward(&self.remote_queues, &leaving),
                false => NextHops::NOWHERE,
            };
            let at = &mut self.remote_queues[remote_queue];
            let was_up = at.is_up();
            at.take(packet, place, original, (now, &onward))
                .map_err(|refusal| reason_of(refusal, was_up))?;
        }
        if place.onward != 0 {
            self.reserve(place.onward);
        }
        Ok(())
    }

    /// Hands the bursts that leave to their rings.
    #[inline]
    pub fn flush(&mut self, counters: &WorkerCounters) {
        self.stages.iter_mut().for_each(StageQueue::flush);
        for number in 0..self.remote_queues.len() {
            let mut kept = CreditReservations::default();
            self.remote_queues[number].flush(|ticket| {
                counters.dropped(DropReason::FunctionFull, 1);
                kept.add(ticket.place);
            });
            self.release(&kept);
        }
    }

    pub(crate) fn release(&mut self, reservations: &CreditReservations) {
        for remote_queue in Positions(reservations.remote_queues) {
            for _ in 0..reservations.counts[remote_queue] {
                self.credits(remote_queue).release();
            }
        }
    }

    /// Whether packets of this user are away or wait.
    pub fn has_of(&self, user: u32) -> bool {
        self.remote_queues.iter().any(|remote_queue| remote_queue.has_of(user))
    }

    /// Gives up what waits of this user for a function that is not there.
    #[cold]
    pub fn drop_held_of(&mut self, user: u32, counters: &WorkerCounters) {
        let mut reservations = CreditReservations::default();
        for remote_queue in &mut self.remote_queues {
            remote_queue.drop_held_of(user, |place| {
                counters.dropped(DropReason::FunctionLost, 1);
                reservations.add(place);
            });
        }
        self.release(&reservations);
    }

    /// Whether packets are with functions at this machine that are there: they are waited
    /// for, what other nodes have is not.
    pub fn waits_here(&self) -> bool {
        let waits = |remote_queue: &RemoteQueue| {
            remote_queue.is_up() && remote_queue.is_busy() && remote_queue.keeps_order()
        };
        self.remote_queues.iter().any(waits) || self.stages.iter().any(|stage| stage.away() > 0)
    }

    /// Whether a function is reached by ports, at another node or behind a NIC, and its queue is
    /// as `is_so` says.
    pub(crate) fn are_at_ports(&self, is_so: impl Fn(&RemoteQueue) -> bool) -> bool {
        let mut used = Positions(self.used).filter_map(|number| self.remote_queues.get(number));
        used.any(|queue| !queue.keeps_order() && is_so(queue))
    }

    /// Whether functions that are there have room for packets that come to the node: a burst, and
    /// as many behind it.
    pub(crate) fn have_room(&self) -> bool {
        let mut used = Positions(self.used).filter_map(|number| self.remote_queues.get(number));
        used.all(RemoteQueue::has_room)
    }

    /// Whether those at this node have it for packets that come back from others, where these
    /// have their places reserved.
    pub(crate) fn have_room_at_node(&self) -> bool {
        let mut used = Positions(self.used).filter_map(|number| self.remote_queues.get(number));
        used.all(|queue| !queue.keeps_order() || queue.has_room_for_reserved())
    }

    /// Packets that wait for functions that are not there.
    pub(crate) fn held(&self) -> usize {
        self.remote_queues.iter().map(RemoteQueue::held).sum()
    }

    /// A frame came back by this queue that no function can have sent.
    pub fn reject(&self, remote_queue: u16) {
        self.remote_queues[usize::from(remote_queue)].reject();
    }
}

pub(crate) fn reason_of(refusal: Refusal, was_up: bool) -> DropReason {
    match refusal {
        Refusal::TooLong => DropReason::FunctionTooLong,
        Refusal::Full if was_up => DropReason::FunctionFull,
        Refusal::Full => DropReason::HoldFull,
    }
}

/// Where a packet goes that goes away, and how long it was as it came in.
#[derive(Clone, Copy, Debug)]
pub struct Leaving {
    /// The queue.
    pub remote_queue: u16,
    /// Where it stands.
    pub place: ResumePoint,
    /// Its length, in bytes.
    pub length: u16,
    /// The queues that it comes to next, whatever the function does to it.
    pub ahead: QueuesAhead,
    /// Whether a tap watches it: it is to come back from each function then.
    pub watched: bool,
}

/// CreditReservations to other queues that are no longer needed, as packets came back.
pub(crate) struct CreditReservations {
    remote_queues: u64,
    counts: [u16; REMOTE_QUEUES],
}

impl Default for CreditReservations {
    fn default() -> Self {
        CreditReservations { remote_queues: 0, counts: [0; REMOTE_QUEUES] }
    }
}

impl CreditReservations {
    #[inline]
    pub(crate) fn add(&mut self, place: ResumePoint) {
        let onward = place.onward;
        if onward != 0 {
            self.remote_queues |= onward;
            Positions(onward).for_each(|remote_queue| self.counts[remote_queue] += 1);
        }
    }
}
