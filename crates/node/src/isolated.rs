//! Functions in processes of their own, as a worker sees them: lanes that packets
//! go away by and come back on, while the worker goes on with others.

mod ahead;
mod elsewhere;
mod seats;

use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use weft_compose::{PANIC, Positions};
use weft_dpdk::{Annotations, Batch, Packet};
use weft_lane::{Back, Lane, Onward, Past, Place, Policy, Refusal, Ticket};

use crate::config::Blueprint;
use crate::counters::{DropReason, WorkerCounters};
use crate::element::{Function, Surroundings};
use crate::parse::{Parsed, is_sound, parse};
use crate::plan;
use crate::relocate::Lifted;
use crate::service::state_of_drop;
use crate::stage::{Crew, Hand, Lent, StageLane};
use crate::worker::Worker;

pub use self::ahead::Ahead;
use self::ahead::Links;
pub use self::elsewhere::remote;
pub use self::seats::{Seats, start};

/// Lanes of a node at most, to processes and stages: a set of them is one number.
pub const LANES: usize = 64;

/// How long a worker that stops waits for what is away.
const LAST_WAIT: Duration = Duration::from_millis(200);

/// The lanes of one worker.
#[derive(Default)]
pub struct Lanes {
    lanes: Vec<Lane>,
    /// The function of each lane, by its number in the rules.
    functions: Vec<u16>,
    /// Which lanes' functions send packets to each other.
    links: Links,
    /// Lanes that functions are behind, one bit for each: the others only stand ready.
    used: u64,
    /// The function that is on its way.
    pub(crate) lifted: Option<Lifted>,
    /// The ways to stages, which have the last numbers.
    pub(crate) stages: Vec<StageLane>,
    /// Where the functions of stages are.
    pub(crate) lent: Lent,
    /// Functions that have come home.
    pub(crate) home: Vec<Hand>,
}

impl Lanes {
    /// Adds a lane; its number.
    pub fn add(&mut self, lane: Lane) -> u16 {
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
    fn stage(&mut self, lane: usize) -> Option<&mut StageLane> {
        match lane < self.lanes.len() {
            true => None,
            false => self.stages.get_mut(LANES - 1 - lane),
        }
    }

    /// Functions have these places in the rules from now on.
    pub fn renumber(&mut self, functions: &[Function]) {
        self.used = 0;
        for (number, function) in functions.iter().enumerate() {
            if let Some(lane) = function.lane {
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
    pub(crate) fn lane(&mut self, lane: u16) -> &mut Lane {
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
        self.lanes.iter_mut().for_each(Lane::begin);
        self.stages.iter_mut().for_each(StageLane::begin);
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
                Some(stage) => stage.promise(),
                None => self.lanes[lane].promise(),
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
                false => Onward::NOWHERE,
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
        self.stages.iter_mut().for_each(StageLane::flush);
        for number in 0..self.lanes.len() {
            let mut kept = Promises::default();
            self.lanes[number].flush(|ticket| {
                counters.dropped(DropReason::FunctionFull, 1);
                kept.add(ticket.place);
            });
            self.keep(&kept);
        }
    }

    pub(crate) fn keep(&mut self, promises: &Promises) {
        for lane in Positions(promises.lanes) {
            for _ in 0..promises.counts[lane] {
                match self.stage(lane) {
                    Some(stage) => stage.keep_promise(),
                    None => self.lanes[lane].keep_promise(),
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
        let mut promises = Promises::default();
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
        let waits = |lane: &Lane| lane.is_up() && lane.is_busy() && lane.keeps_order();
        self.lanes.iter().any(waits) || self.stages.iter().any(|stage| stage.away() > 0)
    }

    /// A frame came back by this lane that nobody can have sent.
    pub fn reject(&self, lane: u16) {
        self.lanes[usize::from(lane)].reject();
    }
}

fn reason_of(refusal: Refusal, was_up: bool) -> DropReason {
    match refusal {
        Refusal::TooLong => DropReason::FunctionTooLong,
        Refusal::Full if was_up => DropReason::FunctionFull,
        Refusal::Full => DropReason::HoldFull,
    }
}

/// Lanes that a node has with the stages there are and those of a blueprint.
pub(crate) fn lanes_with(crew: &Crew, blueprint: &Blueprint) -> usize {
    let others = blueprint
        .functions
        .iter()
        .filter(|one| one.process.is_some() || one.remote.is_some())
        .count();
    others + crew.count_with(plan::stages(blueprint))
}

/// Where a packet goes that goes away, and how long it was as it came in.
#[derive(Clone, Copy, Debug)]
pub struct Leaving {
    /// The lane.
    pub lane: u16,
    /// Where it stands.
    pub place: Place,
    /// Its length, in bytes.
    pub length: u16,
    /// The lanes that it comes to next, whatever the function does to it.
    pub ahead: Ahead,
    /// Whether anybody watches it: it is to come back from each function then.
    pub watched: bool,
}

/// Promises to other lanes that are no longer needed, as packets came back.
pub(crate) struct Promises {
    lanes: u64,
    counts: [u16; LANES],
}

impl Default for Promises {
    fn default() -> Self {
        Promises { lanes: 0, counts: [0; LANES] }
    }
}

impl Promises {
    #[inline]
    pub(crate) fn add(&mut self, place: Place) {
        let onward = place.onward;
        if onward != 0 {
            self.lanes |= onward;
            Positions(onward).for_each(|lane| self.counts[lane] += 1);
        }
    }
}

impl Worker {
    /// Whether packets are with function processes that are there.
    pub(crate) fn waits_for_functions(&self) -> bool {
        self.lanes.waits_here()
    }

    /// Takes what came back from function processes, and carries it on.
    #[inline]
    pub(crate) fn take_back(&mut self) -> bool {
        let mut busy = self.take_parcels();
        for lane in Positions(self.lanes.used) {
            busy |= self.take_back_from(lane);
        }
        if self.lanes.lifted.is_some() {
            busy |= self.mind_lifted();
        }
        busy
    }

    fn take_back_from(&mut self, lane: usize) -> bool {
        let mut busy = false;
        if self.lanes.lanes[lane].has_news() {
            busy = true;
            self.hear_news(lane);
        }
        let mut places = ArrayVec::<(u16, Place), { Batch::CAPACITY }>::new();
        if self.collect(lane, &mut places) {
            busy = true;
            if !places.is_empty() {
                self.carry_back(&places);
            }
        }
        if self.lanes.lanes[lane].has_held() {
            busy |= self.send_held(lane);
        }
        busy
    }

    /// The function has come or gone.
    #[cold]
    pub(crate) fn hear_news(&mut self, lane: usize) {
        let mut promises = Promises::default();
        let counters = &self.counters;
        self.lanes.lanes[lane].take_news(|ticket| {
            counters.dropped(DropReason::FunctionLost, 1);
            promises.add(ticket.place);
        });
        self.lanes.keep(&promises);
    }

    /// Sends what was held while the function was away.
    #[cold]
    fn send_held(&mut self, lane: usize) -> bool {
        self.give_up_waiting(lane);
        let (now, mut any) = (self.clock.now(), false);
        let mut promises = Promises::default();
        while let Some(sent) = self.lanes.lanes[lane].next_held(now) {
            any = true;
            if let Err((refusal, place)) = sent {
                self.counters.dropped(reason_of(refusal, true), 1);
                promises.add(place);
            }
        }
        self.lanes.keep(&promises);
        self.lanes.flush(&self.counters);
        any
    }

    /// Takes a burst of what came back in hand; whether anything did.
    #[inline]
    fn collect(
        &mut self,
        lane: usize,
        places: &mut ArrayVec<(u16, Place), { Batch::CAPACITY }>,
    ) -> bool {
        let function = self.lanes.functions[lane];
        let functions = &self.element.plan().functions;
        let at = &functions[usize::from(function)];
        let element = &self.element;
        let (links, numbers) = (&self.lanes.links, &self.lanes.functions);
        // The function that a packet comes from, which is not the lane's where it went on by itself.
        let number_of = |number: u16| links.lane(number).map_or(function, |lane| numbers[lane]);
        let last = |past: &Past| past.last().map_or(function, number_of);
        let note = |past: &Past| {
            for (number, length) in past.functions() {
                let counters = &functions[usize::from(number_of(number))].counters;
                counters.handled.add(1, length.into());
            }
        };
        let counters = &*self.counters;
        let packets = &mut self.desk.burst.packets;
        let mut promises = Promises::default();
        let mut plain = Batch::new();
        let mut dropped = ArrayVec::<(Annotations, u16, u8), { Batch::CAPACITY }>::new();
        let (mut count, mut bytes) = (0, 0);
        let (originals, keeper) = (&mut self.departure.originals, &mut self.keeper);
        let mut go_on = |mut packet: Packet, ticket: &Ticket, original: Option<Packet>| {
            // What a function says of a packet is not believed unseen.
            let position = packets.len();
            if !is_sound(&mut packet) {
                counters.dropped(DropReason::FunctionMalformed, 1);
            } else if packets.push(packet).is_err() {
                counters.dropped(DropReason::BurstFull, 1);
            } else {
                let place = element.place_behind(ticket.place, ticket.past.count);
                places.push((last(&ticket.past), place));
                originals.extend(original.map(|original| (position, original)));
            }
        };
        let lanes = &mut self.lanes.lanes;
        let any = lanes[lane].collect(|back| match back {
            Back::Packet(packet, ticket, original) => {
                count += 1;
                bytes += u64::from(ticket.length);
                promises.add(ticket.place);
                note(&ticket.past);
                go_on(packet, &ticket, original);
            }
            Back::Emitted(packet, ticket) => {
                counters.emitted.add(1);
                go_on(packet, &ticket, None);
            }
            Back::Answer(packet) => {
                counters.emitted.add(1);
                if !keeper.answer(packet) {
                    counters.dropped(DropReason::BurstFull, 1);
                }
            }
            Back::Dropped(ticket, reason) => {
                let by = last(&ticket.past);
                dropped.push((ticket.annotations, by, reason));
                count += 1;
                bytes += u64::from(ticket.length);
                promises.add(ticket.place);
                note(&ticket.past);
                let at = &functions[usize::from(by)];
                let (drops, kind) = (&at.counters.drops, at.instance.kind());
                let reason = usize::from(reason).min(drops.len() - 1);
                drops[reason].add(1);
                if kind.reasons().nth(reason) == Some(&PANIC) {
                    counters.panics.add(1);
                }
            }
            Back::Plain(packet) => {
                // A burst has room for all that a lane gives at once.
                drop(plain.push(packet));
            }
            Back::Lost(ticket) => {
                counters.dropped(DropReason::FunctionLost, 1);
                promises.add(ticket.place);
            }
        });
        if any {
            at.counters.handled.add(count, bytes);
            at.counters.bursts.add(1);
            self.lanes.keep(&promises);
            for (mut annotations, by, reason) in dropped {
                let kind = self.element.plan().functions[usize::from(by)].instance.kind();
                annotations.state = state_of_drop(reason, kind.name);
                self.departure.give_notice(&mut annotations);
            }
            self.departure.flush_touched();
            if !plain.is_empty() {
                self.recognise(lane, plain, places);
            }
        }
        any
    }

    /// Finds out whose plain frames are that came back, by what is in them: of a
    /// user with a packet away, in the direction in which it went.
    #[cold]
    fn recognise(
        &mut self,
        lane: usize,
        mut plain: Batch,
        places: &mut ArrayVec<(u16, Place), { Batch::CAPACITY }>,
    ) {
        let function = self.lanes.functions[lane];
        let mut promises = Promises::default();
        let (mut count, mut bytes) = (0, 0);
        for packet in plain.drain() {
            let burst = &mut self.desk.burst;
            let ports = self.counters.ports.len() as u16;
            let oldest = self.lanes.lanes[lane].oldest_port();
            let others = (0..ports).filter(|port| Some(*port) != oldest);
            // One at a time, at the end of the burst in hand.
            let position = burst.packets.len();
            if burst.packets.push(packet).is_err() {
                self.counters.dropped(DropReason::BurstFull, 1);
                continue;
            }
            let mut found = None;
            for port in oldest.into_iter().chain(others) {
                let packet = &mut burst.packets[position];
                if let Parsed::Malformed(_) = parse(packet, port) {
                    continue;
                }
                let at = Positions(1 << position);
                let classified = &mut self.desk.classified;
                self.classifier.find(burst, at, Positions::NONE, port);
                self.classifier.sort(burst, at, classified);
                if !classified.unknown.is_empty() {
                    continue;
                }
                let user = burst.packets[position].annotations().user;
                let counters = &self.counters;
                found = self.lanes.lanes[lane].claim(user, port, |ticket| {
                    counters.dropped(DropReason::FunctionLost, 1);
                    promises.add(ticket.place);
                });
                if found.is_some() {
                    break;
                }
            }
            let Some((ticket, original)) = found else {
                self.lanes.lanes[lane].reject();
                drop(burst.packets.pop());
                continue;
            };
            count += 1;
            bytes += u64::from(ticket.length);
            promises.add(ticket.place);
            let was = ticket.annotations;
            let now = burst.packets[position].annotations_mut();
            (now.tags, now.bearer, now.group) = (was.tags, was.bearer, was.group);
            now.state = ticket.place.state;
            now.flags |= was.flags & Annotations::DOUBTFUL;
            places.push((function, ticket.place));
            self.departure.originals.extend(original.map(|original| (position, original)));
        }
        let at = &self.element.plan().functions[usize::from(function)];
        at.counters.handled.add(count, bytes);
        self.lanes.keep(&promises);
    }

    /// Carries packets on, each from behind a function.
    #[inline]
    pub(crate) fn carry_back(&mut self, places: &[(u16, Place)]) {
        let (element, desk) = (&mut self.element, &mut self.desk);
        let crate::worker::Desk { burst, classified, watch, taps, .. } = desk;
        burst.now = self.clock.now();
        classified.clear();
        watch.start();
        if let Some(taps) = taps {
            let all = Positions::first(burst.packets.len());
            taps.begin();
            taps.admit(all, burst);
            for (position, (function, _)) in places.iter().enumerate() {
                taps.at(crate::tap::Point::After(*function), Positions(1 << position), burst);
            }
        }
        let counters = &self.counters;
        let (keeper, lanes) = (&mut self.keeper, &mut self.lanes);
        let mut around = Surroundings { counters, keeper, watch, taps, lanes };
        element.rejoin(burst, places, &mut around);
        self.transmit();
    }

    /// Waits a little for what is away, as the worker stops; the rest is counted.
    pub(crate) fn finish_lanes(&mut self) {
        let until = Instant::now() + LAST_WAIT;
        while self.lanes.waits_here() && Instant::now() < until {
            if !self.take_back() {
                std::thread::yield_now();
            }
        }
        let mut stopped = 0;
        for lane in &mut self.lanes.lanes {
            let held = lane.clear(|_| stopped += 1);
            stopped += held;
        }
        self.counters.dropped(DropReason::Stopped, stopped);
    }
}
