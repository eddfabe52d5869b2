//! One instance of the function, for the packets of one worker.

use std::collections::{HashMap, VecDeque};

use weft_compose::{Burst, Instance, Kind, Outcome, Positions, SlotShift};
use weft_dataplane::offload::NextHops;
use weft_dpdk::{Batch, Packet, RxQueue, TxQueue};
use weft_function::{Emission, EmissionKind as Asked, Metadata, PacketMetadata, Position, Scope};

use super::line::Line;
use crate::frame::{Form, FrameKind, Head, Record};
use crate::process::protocol::Message;
use crate::vf::direct_path::{self, DirectPath};

/// Attempts to put a packet into a ring that is full.
const FULL_SPINS: u32 = 1 << 20;

/// One worker's queues of the ring.
pub(super) struct Queues {
    pub(super) rx: RxQueue,
    pub(super) tx: TxQueue,
}

/// How packets go through a NIC.
pub(super) struct Through {
    pub(super) line: direct_path::Line,
    trails: [DirectPath; Batch::CAPACITY],
}

impl Through {
    pub(super) fn new(line: direct_path::Line) -> Through {
        let nowhere = DirectPath { first: 0, before: 0, onward: NextHops::NOWHERE };
        Through { line, trails: [nowhere; Batch::CAPACITY] }
    }
}

/// The instance for one worker.
pub(super) struct HostedInstance {
    pub(super) instance: Box<dyn Instance>,
    /// None where packets go through a NIC.
    pub(super) queues: Option<Queues>,
    pub(super) form: Form,
    /// The form of frames that go through a NIC, and where those of the burst are on their way.
    pub(super) through: Option<Through>,
    pub(super) shift: SlotShift,
    pub(super) burst: Burst,
    pub(super) coming: Batch,
    pub(super) leaving: Batch,
    pub(super) tickets: [u32; Batch::CAPACITY],
    pub(super) outcome: Outcome,
    pub(super) orders: VecDeque<Message>,
    /// Slots of contexts that could not be imported, and why.
    pub(super) refused: Vec<(u32, String)>,
    /// Number of the last order that was carried out.
    pub(super) done: u32,
    /// Settings in force, for contexts that are reset.
    pub(super) settings: HashMap<u32, (u32, String)>,
    /// Contexts that have changed since the last checkpoint.
    pub(super) dirty: Vec<bool>,
    pub(super) changed: Vec<u32>,
}

impl HostedInstance {
    /// Takes the header off a frame: what it says, and which order is to be carried out before
    /// its packet is handled. None for what is no such frame.
    #[inline]
    pub(super) fn open(&self, packet: &mut Packet) -> Option<(Head, Option<DirectPath>)> {
        match &self.through {
            None => Some((self.form.open(packet)?, None)),
            Some(through) => {
                let (mut head, mut trail) = through.line.take(packet)?;
                head.order = trail.order(&head);
                trail.note_length(packet.len());
                Some((head, Some(trail)))
            }
        }
    }

    /// Takes a packet into the burst.
    pub(super) fn accept(&mut self, packet: Packet, (head, trail): (&Head, Option<DirectPath>)) {
        let position = self.burst.packets.len();
        if let (Some(through), Some(trail)) = (&mut self.through, trail) {
            through.trails[position] = trail;
        }
        self.burst.now = head.now;
        self.touch(packet.metadata());
        if self.burst.packets.push(packet).is_ok() {
            self.tickets[position] = head.ticket;
        }
    }

    fn touch(&mut self, metadata: &PacketMetadata) {
        let slot = match self.instance.scope() {
            Scope::Bearer => metadata.bearer,
            Scope::User => metadata.user,
            Scope::Group => metadata.group,
        };
        if let Some(dirty) = self.dirty.get_mut(self.shift.index(slot))
            && !std::mem::replace(dirty, true)
        {
            self.changed.push(slot);
        }
    }

    /// Lets the function handle the burst; what comes of it is to be sent.
    pub(super) fn visit(&mut self, kind: &Kind, line: &mut Option<Line>) {
        let count = self.burst.packets.len();
        if count == 0 {
            return;
        }
        self.outcome.clear();
        let all = Positions::first(count);
        self.instance.prefetch(&self.burst.packets, all);
        self.instance.visit(&mut self.burst, all, &mut self.outcome);
        for slot in std::mem::take(&mut self.outcome.resets) {
            self.configure_again(kind, slot);
        }
        let emissions = std::mem::take(&mut self.outcome.emissions);
        let mut emissions =
            emissions.into_iter().filter_map(|Emission { parent, what }| match what {
                Asked::Send(packet, place) => Some((parent, place, packet, FrameKind::Emitted)),
                Asked::Answer(packet) => Some((parent, Position::After, packet, FrameKind::Answer)),
                _ => None,
            });
        let mut next = emissions.next();
        let mut packets = std::mem::take(&mut self.burst.packets);
        for (position, packet) in packets.drain().enumerate() {
            let ticket = self.tickets[position];
            while let Some((_, _, emitted, what)) = next
                .take_if(|(parent, place, ..)| *parent == position && *place == Position::Before)
            {
                self.put(emitted, (ticket, position), what, 0, line);
                next = emissions.next();
            }
            let dropped = self.outcome.dropped.contains(position);
            let reason = if dropped { self.outcome.reasons[position] } else { 0 };
            let what = match (dropped, self.outcome.kept.contains(position)) {
                (true, _) => FrameKind::Dropped,
                (false, true) => FrameKind::Kept,
                (false, false) => FrameKind::Packet,
            };
            self.put(packet, (ticket, position), what, reason, line);
            while let Some((_, _, emitted, what)) = next.take_if(|(parent, ..)| *parent == position)
            {
                self.put(emitted, (ticket, position), what, 0, line);
                next = emissions.next();
            }
        }
        self.burst.packets = packets;
    }

    /// Puts a packet among those that leave.
    fn put(
        &mut self,
        mut packet: Packet,
        (ticket, position): (u32, usize),
        what: FrameKind,
        reason: u8,
        line: &mut Option<Line>,
    ) {
        if matches!(what, FrameKind::Dropped | FrameKind::Kept) {
            packet.truncate(0);
        }
        let metadata = *packet.metadata();
        let now = self.burst.now;
        let record = Record { ticket, what, reason, now, order: self.done, metadata };
        // A packet that fits nowhere is lost, and the node will see that it is.
        let has_room = match &self.through {
            None => self.form.put(&record, &mut packet),
            Some(through) => {
                let goes_on = what == FrameKind::Packet;
                through.line.pass(&record, &through.trails[position], goes_on, &mut packet)
            }
        };
        if !has_room {
            return;
        }
        for _ in 0..FULL_SPINS {
            match self.leaving.push(packet) {
                Ok(()) => return,
                Err(back) => packet = back,
            }
            self.send(line);
        }
        // The node has not taken anything for long: it is gone, and will not miss it.
    }

    /// Sends what leaves; whether all has left.
    pub(super) fn send(&mut self, line: &mut Option<Line>) -> bool {
        match (&mut self.queues, line) {
            (Some(queues), _) => drop(queues.tx.transmit(&mut self.leaving)),
            (None, Some(line)) => line.send(&mut self.leaving),
            (None, None) => self.leaving.clear(),
        }
        self.leaving.is_empty()
    }

    pub(super) fn apply_next(&mut self, kind: &Kind) -> bool {
        let Some(message) = self.orders.pop_front() else { return false };
        let refused = self.apply_order(kind, &message);
        self.refused.extend(refused);
        true
    }

    /// Number of the last order that has come.
    pub(super) fn last_order(&self) -> u32 {
        let last = self.orders.back().and_then(order_of);
        last.map_or(self.done, |((_, number), _)| number)
    }

    /// Carries out an order. Settings were checked by the node; of a context that
    /// cannot be imported, its slot and why.
    pub(super) fn apply_order(&mut self, kind: &Kind, message: &Message) -> Option<(u32, String)> {
        let ((_, number), slot) = order_of(message)?;
        self.done = number;
        match message {
            Message::Configure { nth, settings, .. } => {
                self.settings.insert(slot, (*nth, settings.clone()));
                self.configure_again(kind, slot);
            }
            Message::Release { .. } => {
                self.settings.remove(&slot);
                self.instance.release(slot);
                if let Some(dirty) = self.dirty.get_mut(self.shift.index(slot)) {
                    *dirty = false;
                    self.changed.retain(|changed| *changed != slot);
                }
            }
            Message::Import { now, context, .. } => {
                let outcome = self.instance.import(slot, *now, context);
                return outcome.err().map(|error| (slot, error.to_string()));
            }
            _ => {}
        }
        None
    }

    fn configure_again(&mut self, kind: &Kind, slot: u32) {
        let Some((nth, text)) = self.settings.get(&slot) else { return };
        let value = serde_json::from_str(text).unwrap_or_default();
        match kind.settings(&value) {
            Ok(settings) => self.instance.configure(slot, &settings, *nth),
            Err(error) => tracing::warn!(slot, %error, "settings that cannot be read"),
        }
    }
}

/// Gives a packet to the instance of its worker.
#[inline]
pub(super) fn give(instances: &mut [HostedInstance], worker: u16, packet: Packet) {
    if let Some(hosted) = instances.get_mut(usize::from(worker)) {
        // It is emptied before the next burst, for which it has room.
        drop(hosted.coming.push(packet));
    }
}

/// Worker and number of an order, and the slot that it concerns.
pub(super) fn order_of(message: &Message) -> Option<((u16, u32), u32)> {
    match message {
        Message::Configure { order, slot, .. }
        | Message::Release { order, slot }
        | Message::Import { order, slot, .. } => Some((*order, *slot)),
        _ => None,
    }
}
