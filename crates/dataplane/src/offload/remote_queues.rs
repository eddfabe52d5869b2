//! The lanes of one worker: which packets are away, and where each goes on.

use weft_compose::Positions;
use weft_dpdk::Packet;

use super::Lifted;
use super::queues_ahead::{Links, QueuesAhead};
use super::stage::{Hand, Lent, StageQueue};
use crate::counters::{DropReason, WorkerCounters};
use crate::offload::{NextHops, Policy, Refusal, RemoteQueue, ResumePoint};

/// RemoteQueues of a node at most, to processes and stages: a set of them is one number.
pub const LANES: usize = 64;

/// The lanes of one worker.
#[derive(Default)]
pub struct RemoteQueues {
    pub(crate) lanes: Vec<RemoteQueue>,
    /// The function of each lane, by its number in the rules.
    pub(crate) functions: Vec<u16>,
    /// Which lanes' functions send packets to each other.
    pub(crate) links: Links,
    /// RemoteQueues that functions are behind, one bit for each: the others only stand ready.
    pub(crate) used: u64,
    /// The function that is on its way.
    pub(crate) lifted: Option<Lifted>,
    /// The ways to stages, which have the last numbers.
    pub(crate) stages: Vec<StageQueue>,
    /// Where the functions of stages are.
    pub(crate) lent: Lent,
    /// Functions that have come home.
    pub(crate) home: Vec<Hand>,
}

impl RemoteQueues {
    /// Adds a lane; its number.
    pub fn add(&mut self, lane: RemoteQueue) -> u16 {
        self.links.add(&lane);
        self.lanes.push(lane);
        self.functions.push(0);
        (self.lanes.len() - 1) as u16
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

    /// Which stage a lane leads to.
    #[inline]
    pub(crate) fn stage_number(&self, lane: u16) -> usize {
        LANES - 1 - usize::from(lane)
    }

    #[inline]
    fn stage(&mut self, lane: usize) -> Option<&mut StageQueue> {
        match lane < self.lanes.len() {
            true => None,
            false => self.stages.get_mut(LANES - 1 - lane),
        }
    }

    /// Functions have these places in the rules from now on.
    /// `lanes` has the lane of each, where it has one.
    pub fn renumber(&mut self, lanes: impl Iterator<Item = Option<u16>>) {
        self.used = 0;
        for (number, lane) in lanes.enumerate() {
            if let Some(lane) = lane {
                self.functions[usize::from(lane)] = number as u16;
                self.used |= 1 << lane;
            }
        }
    }

    /// The function of a lane, by its number in the rules.
    pub(crate) fn function(&self, lane: usize) -> u16 {
        self.functions[lane]
    }

    /// A lane that does not lead to a stage.
    pub(crate) fn lane(&mut self, lane: u16) -> &mut RemoteQueue {
        &mut self.lanes[usize::from(lane)]
    }

    /// All packets of a function wait at this lane from now on, so many at most.
    pub(crate) fn close(&mut self, lane: u16, function: u16, bound: usize) {
        self.functions[usize::from(lane)] = function;
        self.used |= 1 << lane;
        self.lanes[usize::from(lane)].close(bound);
    }

    /// The lane stands ready only.
    pub(crate) fn rest(&mut self, lane: u16) {
        self.used &= !(1 << lane);
    }

    /// What becomes of packets that come to a lane now; none when they go away or
    /// wait.
    #[inline]
    pub fn instead(&self, lane: u16) -> Option<Policy> {
        // A stage is always there.
        let lane = self.lanes.get(usize::from(lane)).filter(|lane| !lane.is_closed())?;
        match (lane.is_up(), lane.policy()) {
            (true, _) | (false, Policy::Hold(_)) => None,
            (false, policy) => Some(policy),
        }
    }

    /// A burst begins.
    #[inline]
    pub fn begin(&mut self) {
        self.lanes.iter_mut().for_each(RemoteQueue::begin);
        self.stages.iter_mut().for_each(StageQueue::begin);
    }

    /// Lets up to `count` packets in that may come to the lanes of `reach`; how
    /// many.
    #[inline]
    pub fn admit(&mut self, reach: u64, count: usize) -> usize {
        let lanes = Positions(reach);
        let credit = lanes.map(|lane| self.credit(lane)).min();
        let admitted = credit.map_or(count, |credit| credit.min(count));
        for lane in lanes {
            match self.stage(lane) {
                Some(stage) => stage.admit(admitted),
                None => self.lanes[lane].admit(admitted),
            }
        }
        admitted
    }

    #[inline]
    fn credit(&mut self, lane: usize) -> usize {
        match self.stage(lane) {
            Some(stage) => stage.credit(),
            None => self.lanes[lane].credit(),
        }
    }

    #[inline]
    fn promise(&mut self, onward: u64) {
        for lane in Positions(onward) {
            match self.stage(lane) {
                Some(stage) => stage.reserve_credit(),
                None => self.lanes[lane].reserve_credit(),
            }
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
        let Leaving { lane, place, length, .. } = leaving;
        let lane = usize::from(lane);
        if let Some(stage) = self.stage(lane) {
            if !stage.take(packet, place, length, original, now) {
                return Err(DropReason::FunctionFull);
            }
        } else {
            let onward = match self.links.has(lane) {
                true => self.links.onward(&self.lanes, &leaving),
                false => NextHops::NOWHERE,
            };
            let at = &mut self.lanes[lane];
            let was_up = at.is_up();
            at.take(packet, place, original, (now, &onward))
                .map_err(|refusal| reason_of(refusal, was_up))?;
        }
        if place.onward != 0 {
            self.promise(place.onward);
        }
        Ok(())
    }

    /// Hands the bursts that leave to their rings.
    #[inline]
    pub fn flush(&mut self, counters: &WorkerCounters) {
        self.stages.iter_mut().for_each(StageQueue::flush);
        for number in 0..self.lanes.len() {
            let mut kept = CreditReservations::default();
            self.lanes[number].flush(|ticket| {
                counters.dropped(DropReason::FunctionFull, 1);
                kept.add(ticket.place);
            });
            self.keep(&kept);
        }
    }

    pub(crate) fn keep(&mut self, promises: &CreditReservations) {
        for lane in Positions(promises.lanes) {
            for _ in 0..promises.counts[lane] {
                match self.stage(lane) {
                    Some(stage) => stage.release_credit(),
                    None => self.lanes[lane].release_credit(),
                }
            }
        }
    }

    /// Whether packets of this user are away or wait.
    pub fn has_of(&self, user: u32) -> bool {
        self.lanes.iter().any(|lane| lane.has_of(user))
    }

    /// Gives up what waits of this user for a function that is not there.
    #[cold]
    pub fn drop_held_of(&mut self, user: u32, counters: &WorkerCounters) {
        let mut promises = CreditReservations::default();
        for lane in &mut self.lanes {
            lane.drop_held_of(user, |place| {
                counters.dropped(DropReason::FunctionLost, 1);
                promises.add(place);
            });
        }
        self.keep(&promises);
    }

    /// Whether packets are with functions at this machine that are there: they are waited
    /// for, what other nodes have is not.
    pub fn waits_here(&self) -> bool {
        let waits = |lane: &RemoteQueue| lane.is_up() && lane.is_busy() && lane.keeps_order();
        self.lanes.iter().any(waits) || self.stages.iter().any(|stage| stage.away() > 0)
    }

    /// A frame came back by this lane that nobody can have sent.
    pub fn reject(&self, lane: u16) {
        self.lanes[usize::from(lane)].reject();
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
    /// The lane.
    pub lane: u16,
    /// Where it stands.
    pub place: ResumePoint,
    /// Its length, in bytes.
    pub length: u16,
    /// The lanes that it comes to next, whatever the function does to it.
    pub ahead: QueuesAhead,
    /// Whether anybody watches it: it is to come back from each function then.
    pub watched: bool,
}

/// CreditReservations to other lanes that are no longer needed, as packets came back.
pub(crate) struct CreditReservations {
    lanes: u64,
    counts: [u16; LANES],
}

impl Default for CreditReservations {
    fn default() -> Self {
        CreditReservations { lanes: 0, counts: [0; LANES] }
    }
}

impl CreditReservations {
    #[inline]
    pub(crate) fn add(&mut self, place: ResumePoint) {
        let onward = place.onward;
        if onward != 0 {
            self.lanes |= onward;
            Positions(onward).for_each(|lane| self.counts[lane] += 1);
        }
    }
}
