//! A worker: the thread that carries packets, and their way from port to port.
//!
//! `Worker::carry` is that way, from top to bottom. Everything a worker
//! touches there is its own; what it shares are rings with one producer and one
//! consumer each, and counters that only it writes.

mod apply_commands;
mod contexts;
mod downlink;
mod ending;
mod idle;
mod leaving;
mod moving;
mod offloaded;
mod overload;
mod redirect;
mod serving;
mod state;
mod transfer;
mod upgrade;

use std::sync::Arc;

use rtrb::Consumer as Mailbox;
use weft_compose::{Burst, Positions};
use weft_dpdk::{Consumer, Packet, Wakeup};
use weft_function::{Direction, Metadata, PacketMetadata, TagSlot};

use self::apply_commands::retire;
use self::ending::{drop_malformed, refuse_sessions};
pub use self::idle::Idle;
use self::overload::DelayBound;
pub use self::state::{BurstState, WorkerParts};
pub use self::upgrade::{Copies, Direct, END_OF_RELAYED, Relayed, Seen, Uncarried, digest};
use crate::buffering::limits::Limits;
use crate::buffering::queues::Queues;
use crate::classify::{Classified, Classifier};
use crate::clock::Clock;
pub use crate::command::attachment::{Attachment, Inlet};
use crate::command::{Command, Waker};
use crate::counters::{Stage, WorkerCounters};
use crate::forward::{Element, VisitContext};
use crate::gates::Gates;
use crate::offload::RemoteQueues;
use crate::parse::local::Divided;
use crate::parse::usual::Usual;
use crate::parse::{Sorted, parse_burst};
use crate::transmit::{Departure, LeftOver};

/// Packets that are received at once. More gains nothing, and a burst has room
/// left for what functions add to it.
pub const BURST: usize = 32;

/// Timers that are called between two bursts.
const TIMERS_AT_ONCE: usize = 64;

/// All that a worker works with.
pub struct Worker {
    /// Queues it receives from.
    pub(crate) inlets: Vec<Inlet>,
    /// Rings from the other workers: packets of this worker's users.
    pub(crate) crossings: Vec<Consumer>,
    /// Finds users.
    pub(crate) classifier: Classifier,
    /// Steers packets through functions.
    pub(crate) element: Element,
    /// Holds kept packets and timers.
    pub(crate) queues: Queues,
    /// Says what may wait for idle users.
    pub(crate) idle: Limits,
    /// Takes packets away.
    pub(crate) departure: Departure,
    /// What it counts.
    pub counters: Arc<WorkerCounters>,
    /// The time.
    pub(crate) clock: Clock,
    /// Commands from the agent.
    pub(crate) commands: Mailbox<Command>,
    /// Ways to functions in processes and threads of their own.
    pub(crate) remote_queues: RemoteQueues,
    /// Gates of users that move.
    pub(crate) gates: Option<Box<Gates>>,
    /// Wakes the agent for users that move.
    pub(crate) waker: Waker,
    /// How long packets may wait for it, where that is bounded.
    pub(crate) delay_bound: Option<Box<DelayBound>>,
    /// What another process has carried, for a moment after an upgrade.
    pub(crate) copies: Option<Arc<Copies>>,
    /// Contexts of users are still to come.
    pub(crate) is_loading: bool,
    /// Ends its sleep, where it sleeps until something comes.
    pub(crate) wakeup: Option<Wakeup>,
    /// What goes on at the moment.
    pub(crate) state: BurstState,
}

impl Worker {
    /// One round: commands, a burst from each queue and ring, and timers.
    /// Returns whether there was anything to do.
    pub fn poll(&mut self) -> bool {
        if self.remote_queues.has_stages()
            && let Some(busy) = self.drive_stages()
        {
            return busy;
        }
        let mut busy = self.apply_commands();
        if !self.remote_queues.is_empty() {
            busy |= self.take_back();
            if !self.state.leaving.is_empty() {
                self.take_out_waiting();
            }
        }
        if self.copies.is_some() {
            busy |= self.carry_without_copies();
        } else {
            for inlet in 0..self.inlets.len() {
                busy |= self.carry(inlet);
            }
        }
        busy |= self.take_over();
        busy |= self.departure.relay();
        busy |= self.wake();
        busy |= self.drive_remotes();
        if self.queues.has_resets() {
            self.report_resets();
        }
        if self.queues.has_reports() {
            self.report_of_functions();
        }
        if self.queues.has_answers() {
            self.answer();
        }
        if !self.state.unreported.is_empty() {
            self.report_again();
        }
        if !busy {
            self.counters.empty_polls.add(1);
        }
        busy
    }

    /// The way of a packet: a burst from one queue, to wherever it goes.
    pub(crate) fn carry(&mut self, inlet: usize) -> bool {
        if self.delay_bound.is_some() {
            return self.carry_bounded(inlet);
        }
        // 1. Receive: up to 32 packets of one port.
        if self.receive(inlet) == 0 {
            return false;
        }
        self.carry_received(inlet);
        true
    }

    #[inline]
    fn carry_received(&mut self, inlet: usize) {
        // 2. Parse: outer headers once, offsets into the metadata. What is
        //    malformed, or for the node itself, ends here.
        let (transit, tunnelled) = self.parse(inlet);
        // 3. Classify: the one lookup per user; tags, group and bearer.
        self.classify(inlet, transit, tunnelled);
        // 4. Forward: through the functions, as the rules say.
        // 5. Transmit: next hop, MTU, one burst per port.
        self.forward_and_transmit();
        self.serve_arrived();
    }

    #[inline]
    fn receive(&mut self, inlet: usize) -> usize {
        let BurstState { burst, watch, .. } = &mut self.state;
        watch.start();
        let count = self.inlets[inlet].queue.receive(&mut burst.packets, BURST);
        if count > 0 {
            self.note_received(inlet, count);
        }
        count
    }

    #[inline]
    fn note_received(&mut self, inlet: usize, count: usize) {
        let burst = &mut self.state.burst;
        let Inlet { port, .. } = &self.inlets[inlet];
        let mut bytes = 0;
        for packet in burst.packets.iter() {
            packet.prefetch();
            bytes += packet.len() as u64;
        }
        self.counters.bursts.note(count);
        self.counters.ports[usize::from(*port)].received.add(count, bytes);
        self.begin_burst();
    }

    /// What a burst begins with.
    #[inline]
    fn begin_burst(&mut self) {
        let BurstState { burst, watch, taps, .. } = &mut self.state;
        burst.now = self.clock.now();
        if let Some(all) = taps
            && all.begin()
        {
            retire(taps, &mut self.departure);
        }
        watch.lap(&self.counters.stages[Stage::Receive as usize], burst.packets.len());
    }

    #[inline]
    fn parse(&mut self, inlet: usize) -> (Positions, Positions) {
        let Inlet { port, own, .. } = &self.inlets[inlet];
        let BurstState { burst, watch, taps, doubtful, framed, .. } = &mut self.state;
        let counters = &*self.counters;
        let count = burst.packets.len();
        let usual = match (own, self.classifier.ahead(*port)) {
            (Some(own), Some(ahead)) => own.read_usual(burst, *port, |known| ahead.ask(&known)),
            (Some(own), None) => own.read_usual(burst, *port, |_| {}),
            (None, _) => Usual::default(),
        };
        let rest = Positions::first(count).without(usual.all());
        let Sorted { ip, arp, session, service, malformed } = parse_burst(burst, rest, *port);
        for position in malformed {
            drop_malformed(position, burst, counters, taps);
        }
        let mut divided = match own {
            Some(own) => own.divide(burst, ip),
            // A wire carries what the stations at its ends ask each other.
            None => Divided { transit: ip.or(arp).or(session), ..Divided::default() },
        };
        if own.is_some() && !session.is_empty() {
            refuse_sessions(burst, session, counters, taps);
        }
        divided.local = divided.local.or(arp.without(divided.transit));
        *framed = divided.service.or(service);
        if !framed.is_empty() {
            *framed = self.departure.sort_frames(burst, *framed, service, counters, taps);
        }
        *doubtful = divided.doubtful;
        for position in divided.doubtful {
            burst.packets[position].metadata_mut().flags |= PacketMetadata::DOUBTFUL;
        }
        watch.lap(&counters.stages[Stage::Parse as usize], count);
        if !divided.ending().is_empty() {
            self.not_for_users(&divided);
        }
        let (transit, tunnelled) =
            (divided.transit.or(usual.all()), divided.tunnelled.or(usual.tunnelled));
        if self.gates.is_some() && !tunnelled.is_empty() {
            let strangers = self.refuse_strangers(tunnelled);
            return (transit.without(strangers), tunnelled.without(strangers));
        }
        (transit, tunnelled)
    }

    #[inline]
    fn classify(&mut self, inlet: usize, transit: Positions, tunnelled: Positions) {
        self.classify_at(self.inlets[inlet].port, transit, tunnelled);
    }

    #[inline]
    fn classify_at(&mut self, port: u16, transit: Positions, tunnelled: Positions) {
        let BurstState { burst, classified, watch, taps, .. } = &mut self.state;
        self.classifier.find(burst, transit, tunnelled, port);
        self.element.expect(burst, transit);
        self.classifier.sort(burst, transit, classified);
        watch.lap(&self.counters.stages[Stage::Classify as usize], transit.len());
        if taps.is_some() || !classified.is_usual() {
            self.after_classification(transit);
        }
    }

    /// Lets a classified burst visit its functions, and sends it.
    #[inline]
    fn forward_and_transmit(&mut self) {
        let BurstState { burst, doubtful, .. } = &mut self.state;
        if !doubtful.is_empty() {
            self.departure.keep_originals(burst, *doubtful);
        }
        self.visit(|element, burst, classified, context| {
            let count = burst.packets.len();
            element.forward(burst, &classified.entries, context);
            context.watch.lap(&context.counters.stages[Stage::Forward as usize], count);
        });
    }

    /// Lets packets visit functions as `visit` says, and sends what comes of it.
    #[inline]
    fn visit(
        &mut self,
        visit: impl FnOnce(&mut Element, &mut Burst, &Classified, &mut VisitContext<'_>),
    ) {
        self.visit_and_then(visit, |_| {});
    }

    /// The same, and does something `between` the packets and what comes behind them: the
    /// one place where bursts meet functions and leave.
    #[inline]
    fn visit_and_then(
        &mut self,
        visit: impl FnOnce(&mut Element, &mut Burst, &Classified, &mut VisitContext<'_>),
        between: impl FnOnce(&mut RemoteQueues),
    ) {
        let BurstState { burst, classified, watch, taps, .. } = &mut self.state;
        let (counters, queues, remote_queues) =
            (&*self.counters, &mut self.queues, &mut self.remote_queues);
        let mut context = VisitContext { counters, queues, watch, taps, remote_queues };
        visit(&mut self.element, burst, classified, &mut context);
        self.transmit();
        between(&mut self.remote_queues);
        self.finish_transmit();
    }

    /// What comes behind a burst that has left.
    #[inline]
    fn finish_transmit(&mut self) {
        self.departure.forget_originals();
        if !self.departure.gated.is_empty() {
            self.pass_gates();
        }
    }

    #[inline]
    fn transmit(&mut self) {
        let BurstState { burst, classified, watch, taps, framed, .. } = &mut self.state;
        let count = burst.packets.len();
        let left_over = LeftOver {
            kept: self.queues.kept(),
            elsewhere: classified.elsewhere,
            gated: classified.gated,
            framed: std::mem::take(framed),
        };
        match (self.element.ports_used(), self.element.order()) {
            (&[], None) if !self.element.away().is_empty() => self.send_away(&left_over),
            // Nearly always: one port, arrival order.
            (&[port], None) => {
                let leaving = self.element.leaving(port);
                if leaving == Positions::first(count)
                    && taps.is_none()
                    && self.departure.send_whole(port, &mut burst.packets)
                {
                    watch.lap(&self.counters.stages[Stage::Transmit as usize], count);
                    watch.note_burst(&self.counters.times, burst.now, &self.clock);
                    return;
                }
                for (position, packet) in burst.packets.drain().enumerate() {
                    if leaving.contains(position) {
                        self.departure.send(port, position, packet, taps, burst.now);
                    } else if let Some(leaving) = self.element.away_at(position) {
                        let original = self.departure.original_of(position, &packet);
                        let taken = self.remote_queues.take(leaving, packet, original, burst.now);
                        self.counters.note(taken);
                    } else {
                        self.departure.keep(&left_over, position, packet, &mut self.queues);
                    }
                }
            }
            _ => self.send_one_by_one(&left_over),
        }
        if !self.element.away().is_empty() {
            self.remote_queues.flush(&self.counters);
        }
        self.queues.settle();
        self.departure.hand_over();
        for &port in self.element.ports_used() {
            self.departure.flush(port);
        }
        self.departure.flush_touched();
        let BurstState { burst, watch, .. } = &mut self.state;
        watch.lap(&self.counters.stages[Stage::Transmit as usize], count);
        watch.note_burst(&self.counters.times, burst.now, &self.clock);
    }

    /// Takes packets of this worker's users from the other workers.
    pub(crate) fn take_over(&mut self) -> bool {
        let mut busy = false;
        for number in 0..self.crossings.len() {
            let BurstState { burst, watch, .. } = &mut self.state;
            watch.start();
            if self.crossings[number].receive(&mut burst.packets, BURST) > 0 {
                busy = true;
                if let Some(service) = &mut self.departure.service {
                    service.sift(&mut burst.packets);
                }
                if !burst.packets.is_empty() {
                    self.carry_on();
                }
                self.serve_arrived();
            }
        }
        busy
    }

    /// Goes on with what came in service headers.
    #[inline]
    fn serve_arrived(&mut self) {
        let service = self.departure.service.as_ref();
        if service.is_some_and(|service| !service.arrived.is_empty()) {
            self.serve();
        }
    }

    /// Carries on packets in hand that were classified before: received by
    /// another worker, or kept for an idle user.
    pub(crate) fn carry_on(&mut self) {
        let BurstState { burst, classified, watch, taps, doubtful, .. } = &mut self.state;
        burst.now = self.clock.now();
        let all = Positions::first(burst.packets.len());
        if let Some(taps) = taps {
            taps.begin();
        }
        self.classifier.admit(burst, classified);
        let is_doubtful = |position: &usize| {
            burst.packets[*position].metadata().flags & PacketMetadata::DOUBTFUL != 0
        };
        *doubtful = Positions::NONE;
        all.filter(is_doubtful).for_each(|position| doubtful.insert(position));
        watch.lap(&self.counters.stages[Stage::Classify as usize], all.len());
        if taps.is_some() || !classified.is_usual() {
            self.after_classification(all);
        }
        self.forward_and_transmit();
    }

    /// Carries the packets to users that functions have answered.
    #[cold]
    pub(crate) fn answer(&mut self) {
        // What answers are answered with waits for the next round.
        for _ in 0..BURST {
            let Some(packet) = self.queues.take_answer() else { return };
            let uplink = TagSlot::DIRECTION.get(packet.metadata()) == Direction::Uplink as u32;
            let direction = if uplink { Direction::Downlink } else { Direction::Uplink };
            self.carry_to_user(packet, direction);
        }
    }

    /// Carries a packet as if it had come in for its user in this direction.
    pub(crate) fn carry_to_user(&mut self, mut packet: Packet, direction: Direction) {
        let user = packet.metadata().user;
        let [uplink, downlink] = self.classifier.metadata(user, user);
        let like = if direction == Direction::Uplink { uplink } else { downlink };
        let metadata = packet.metadata_mut();
        (metadata.port, metadata.vlan) = (like.port, like.vlan);
        metadata.flags &= !PacketMetadata::PASSED;
        // The burst was sent: there is room.
        let _ = self.state.burst.packets.push(packet);
        self.carry_on();
    }

    /// Calls the timers that have run out.
    fn wake(&mut self) -> bool {
        if !self.queues.has_timers() {
            return false;
        }
        let now = self.clock.now();
        let mut busy = false;
        // A timer that asks for itself again must not hold up the packets.
        for _ in 0..TIMERS_AT_ONCE {
            let Some((function, slot)) = self.queues.due(now) else { break };
            match self.wake_at_stage(function, slot, now) {
                None => {}
                Some(true) => {
                    busy = true;
                    continue;
                }
                Some(false) => {
                    self.queues.wake_at(now, function, slot);
                    break;
                }
            }
            busy = true;
            let BurstState { burst, classified, .. } = &mut self.state;
            classified.clear();
            burst.now = now;
            self.visit(|element, burst, _, context| {
                element.timer(burst, function, slot, context);
                element.resume(burst, function, context);
            });
        }
        busy
    }
}
