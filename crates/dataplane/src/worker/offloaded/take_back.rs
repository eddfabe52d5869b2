//! What a worker does with its queues.

use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use weft_compose::{PANIC, Positions};
use weft_dpdk::{Batch, Packet};
use weft_function::{Metadata, PacketMetadata, StepValue};

use crate::counters::{DropReason, WorkerCounters};
use crate::forward::Function;
use crate::offload::{
    Back, CreditReservations, FunctionDrop, InFlightEntry, Links, Past, ResumePoint, reason_of,
};
use crate::parse::{Parsed, is_sound, parse};
use crate::worker::Worker;

/// How long a worker that stops waits for what is away.
const LAST_WAIT: Duration = Duration::from_millis(200);

/// A dropped packet: what was noted in it, the function that dropped it, and its reason.
type Dropped = (PacketMetadata, u16, u8);

/// What a burst from a queue came to, beside packets that go on.
struct Collected {
    reservations: CreditReservations,
    /// Frames without a ticket.
    plain: Batch,
    dropped: ArrayVec<Dropped, { Batch::CAPACITY }>,
    /// Packets that the queue's function had, and their octets.
    count: usize,
    bytes: u64,
}

impl Collected {
    #[inline]
    fn new() -> Collected {
        Collected {
            reservations: CreditReservations::default(),
            plain: Batch::new(),
            dropped: ArrayVec::new(),
            count: 0,
            bytes: 0,
        }
    }

    #[inline]
    fn add(&mut self, ticket: &InFlightEntry, origins: &Origins<'_>) {
        self.count += 1;
        self.bytes += u64::from(ticket.length);
        self.reservations.add(ticket.place);
        origins.note(&ticket.past);
    }
}

/// The functions that packets of a queue come from.
struct Origins<'a> {
    functions: &'a [Function],
    links: &'a Links,
    /// Of queues, the numbers of their functions.
    numbers: &'a [u16],
    /// The function of the queue.
    function: u16,
}

impl Origins<'_> {
    /// The function that a packet comes from, which is not the queue's where it went on by itself.
    #[inline]
    fn number_of(&self, number: u16) -> u16 {
        let remote_queue = self.links.remote_queue(number);
        remote_queue.map_or(self.function, |remote_queue| self.numbers[remote_queue])
    }

    #[inline]
    fn last(&self, past: &Past) -> u16 {
        past.last().map_or(self.function, |number| self.number_of(number))
    }

    #[inline]
    fn note(&self, past: &Past) {
        for (number, length) in past.functions() {
            let counters = &self.functions[usize::from(self.number_of(number))].counters;
            counters.handled.add(1, length.into());
        }
    }

    #[inline]
    fn note_dropped(
        &self,
        ticket: &InFlightEntry,
        reason: u8,
        counters: &WorkerCounters,
    ) -> Dropped {
        let by = self.last(&ticket.past);
        let at = &self.functions[usize::from(by)];
        let (drops, kind) = (&at.counters.drops, at.instance.kind());
        let number = usize::from(reason).min(drops.len() - 1);
        drops[number].add(1);
        if kind.reasons().nth(number) == Some(&PANIC) {
            counters.panics.add(1);
        }
        (ticket.metadata, by, reason)
    }
}

impl Worker {
    /// Whether packets are with function processes that are there.
    pub fn waits_for_functions(&self) -> bool {
        self.remote_queues.waits_here()
    }

    /// Takes what came back from function processes, and carries it on.
    #[inline]
    pub(crate) fn take_back(&mut self) -> bool {
        let mut busy = self.take_parcels();
        for remote_queue in Positions(self.remote_queues.used) {
            busy |= self.take_back_from(remote_queue);
        }
        if self.remote_queues.lifted.is_some() {
            busy |= self.drive_lifted();
        }
        busy
    }

    fn take_back_from(&mut self, remote_queue: usize) -> bool {
        let mut busy = false;
        if self.remote_queues.remote_queues[remote_queue].has_news() {
            busy = true;
            self.hear_news(remote_queue);
        }
        let mut places = ArrayVec::<(u16, ResumePoint), { Batch::CAPACITY }>::new();
        if self.collect(remote_queue, &mut places) {
            busy = true;
            if !places.is_empty() {
                self.carry_back(&places);
            }
        }
        if self.remote_queues.remote_queues[remote_queue].has_held() {
            busy |= self.send_held(remote_queue);
        }
        busy
    }

    /// The function has come or gone.
    #[cold]
    pub(crate) fn hear_news(&mut self, remote_queue: usize) {
        let mut reservations = CreditReservations::default();
        let counters = &self.counters;
        self.remote_queues.remote_queues[remote_queue].take_news(|ticket| {
            counters.dropped(DropReason::FunctionLost, 1);
            reservations.add(ticket.place);
        });
        self.remote_queues.release(&reservations);
    }

    /// Sends what was held while the function was away.
    #[cold]
    fn send_held(&mut self, remote_queue: usize) -> bool {
        self.give_up_waiting(remote_queue);
        let (now, mut any) = (self.clock.now(), false);
        let mut reservations = CreditReservations::default();
        while let Some(sent) = self.remote_queues.remote_queues[remote_queue].next_held(now) {
            any = true;
            if let Err((refusal, place)) = sent {
                self.counters.dropped(reason_of(refusal, true), 1);
                reservations.add(place);
            }
        }
        self.remote_queues.release(&reservations);
        self.remote_queues.flush(&self.counters);
        any
    }

    /// Takes a burst of what came back in hand; whether anything did.
    #[inline]
    fn collect(
        &mut self,
        remote_queue: usize,
        places: &mut ArrayVec<(u16, ResumePoint), { Batch::CAPACITY }>,
    ) -> bool {
        let element = &self.element;
        let origins = Origins {
            functions: &element.plan().functions,
            links: &self.remote_queues.links,
            numbers: &self.remote_queues.functions,
            function: self.remote_queues.functions[remote_queue],
        };
        let counters = &*self.counters;
        let mut collected = Collected::new();
        let (packets, queues) = (&mut self.state.burst.packets, &mut self.queues);
        let originals = &mut self.departure.originals;
        let mut go_on = |mut packet: Packet, ticket: &InFlightEntry, original: Option<Packet>| {
            // What a function says of a packet is not believed unseen.
            let position = packets.len();
            if !is_sound(&mut packet) {
                counters.dropped(DropReason::FunctionMalformed, 1);
            } else if packets.push(packet).is_err() {
                counters.dropped(DropReason::BurstFull, 1);
            } else {
                let place = element.place_behind(ticket.place, ticket.past.count);
                places.push((origins.last(&ticket.past), place));
                originals.extend(original.map(|original| (position, original)));
            }
        };
        let any = self.remote_queues.remote_queues[remote_queue].collect(|back| match back {
            Back::Packet(packet, ticket, original) => {
                collected.add(&ticket, &origins);
                go_on(packet, &ticket, original);
            }
            Back::Emitted(packet, ticket) => {
                counters.emitted.add(1);
                go_on(packet, &ticket, None);
            }
            Back::Answer(packet) => {
                counters.emitted.add(1);
                if !queues.answer(packet) {
                    counters.dropped(DropReason::BurstFull, 1);
                }
            }
            Back::Dropped(ticket, reason) => {
                collected.add(&ticket, &origins);
                collected.dropped.push(origins.note_dropped(&ticket, reason, counters));
            }
            // A burst has room for all that a queue gives at once.
            Back::Plain(packet) => drop(collected.plain.push(packet)),
            Back::Lost(ticket) => {
                counters.dropped(DropReason::FunctionLost, 1);
                collected.reservations.add(ticket.place);
            }
        });
        if any {
            self.settle(remote_queue, collected, places);
        }
        any
    }

    /// Counts what came back, gives its credits back, and sees to what is not carried on.
    #[inline]
    fn settle(
        &mut self,
        remote_queue: usize,
        collected: Collected,
        places: &mut ArrayVec<(u16, ResumePoint), { Batch::CAPACITY }>,
    ) {
        let Collected { reservations, plain, dropped, count, bytes } = collected;
        let functions = &self.element.plan().functions;
        let at = &functions[usize::from(self.remote_queues.functions[remote_queue])];
        at.counters.handled.add(count, bytes);
        at.counters.bursts.add(1);
        self.remote_queues.release(&reservations);
        for (mut metadata, by, reason) in dropped {
            let kind = functions[usize::from(by)].instance.kind();
            metadata.step = StepValue::new(FunctionDrop::new(reason, kind.name));
            self.departure.give_notice(&mut metadata);
        }
        self.departure.flush_touched();
        if !plain.is_empty() {
            self.recognise(remote_queue, plain, places);
        }
    }

    /// Finds out whose plain frames are that came back, by what is in them: of a
    /// user with a packet away, in the direction in which it went.
    #[cold]
    fn recognise(
        &mut self,
        remote_queue: usize,
        mut plain: Batch,
        places: &mut ArrayVec<(u16, ResumePoint), { Batch::CAPACITY }>,
    ) {
        let function = self.remote_queues.functions[remote_queue];
        let mut reservations = CreditReservations::default();
        let (mut count, mut bytes) = (0, 0);
        for packet in plain.drain() {
            let burst = &mut self.state.burst;
            let ports = self.counters.ports.len() as u16;
            let oldest = self.remote_queues.remote_queues[remote_queue].oldest_port();
            let others = (0..ports).filter(|port| Some(*port) != oldest);
            // One at a time, at the end of the burst in hand.
            let position = burst.packets.len();
            if burst.packets.push(packet).is_err() {
                self.counters.dropped(DropReason::BurstFull, 1);
                continue;
            }
            let ports = oldest.into_iter().chain(others);
            let found = self.claim(remote_queue, position, ports, &mut reservations);
            let Some((ticket, original)) = found else {
                self.remote_queues.remote_queues[remote_queue].reject();
                drop(self.state.burst.packets.pop());
                continue;
            };
            count += 1;
            bytes += u64::from(ticket.length);
            reservations.add(ticket.place);
            let was = ticket.metadata;
            let now = self.state.burst.packets[position].metadata_mut();
            (now.tags, now.bearer, now.group) = (was.tags, was.bearer, was.group);
            now.step = StepValue::NONE;
            now.flags |= was.flags & PacketMetadata::DOUBTFUL;
            places.push((function, ticket.place));
            self.departure.originals.extend(original.map(|original| (position, original)));
        }
        let at = &self.element.plan().functions[usize::from(function)];
        at.counters.handled.add(count, bytes);
        self.remote_queues.release(&reservations);
    }

    /// The entry of the plain frame at a position, and the packet as it was sent, where it is of a
    /// user at one of these ports with a packet away.
    fn claim(
        &mut self,
        remote_queue: usize,
        position: usize,
        ports: impl Iterator<Item = u16>,
        reservations: &mut CreditReservations,
    ) -> Option<(InFlightEntry, Option<Packet>)> {
        let burst = &mut self.state.burst;
        for port in ports {
            if let Parsed::Malformed(_) = parse(&mut burst.packets[position], port) {
                continue;
            }
            let at = Positions(1 << position);
            let classified = &mut self.state.classified;
            self.classifier.find(burst, at, Positions::NONE, port);
            self.classifier.sort(burst, at, classified);
            if !classified.unknown.is_empty() {
                continue;
            }
            let user = burst.packets[position].metadata().user;
            let counters = &self.counters;
            let queue = &mut self.remote_queues.remote_queues[remote_queue];
            let found = queue.claim(user, port, |ticket| {
                counters.dropped(DropReason::FunctionLost, 1);
                reservations.add(ticket.place);
            });
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Carries packets on, each from behind a function.
    #[inline]
    pub(crate) fn carry_back(&mut self, places: &[(u16, ResumePoint)]) {
        let state = &mut self.state;
        let crate::worker::BurstState { burst, classified, watch, taps, .. } = state;
        burst.now = self.clock.now();
        classified.clear();
        watch.start();
        if let Some(taps) = taps {
            let all = Positions::first(burst.packets.len());
            taps.begin();
            taps.admit(all, burst);
            for (position, (function, _)) in places.iter().enumerate() {
                taps.at(crate::trace::Point::After(*function), Positions(1 << position), burst);
            }
        }
        self.visit(|element, burst, _, context| element.rejoin(burst, places, context));
    }

    /// Waits a little for what is away, as the worker stops; the rest is counted.
    pub(crate) fn finish_remote_queues(&mut self) {
        let until = Instant::now() + LAST_WAIT;
        while self.remote_queues.waits_here() && Instant::now() < until {
            if !self.take_back() {
                std::thread::yield_now();
            }
        }
        let mut stopped = 0;
        for remote_queue in &mut self.remote_queues.remote_queues {
            let held = remote_queue.clear(|_| stopped += 1);
            stopped += held;
        }
        self.counters.dropped(DropReason::Stopped, stopped);
    }
}
