//! What a worker does for users that move: it shows their packets to the gates, and carries
//! out what the agent orders.

use weft_compose::Positions;
use weft_dpdk::{Batch, Packet};
use weft_function::{Metadata, PacketMetadata, TagSlot, Tunnel};
use weft_mobility_protocol::plane::Action;
use weft_mobility_protocol::{Direction, Epoch, NodeId, User};

use super::{BURST, BurstState, Worker};
use crate::command::Report;
use crate::counters::DropReason;
use crate::gates::tunnel::{self, Purpose};
use crate::gates::{Act, Gates, GatesPlan, Order, Plane};
use crate::parse::tunnel::refuses_to_leave;
use crate::trace::Point;

/// Bursts that a full receive queue can hold: more is not waited for.
pub(super) const FULL_QUEUE: usize = 32_768 / BURST;

impl Worker {
    /// Makes gates for users of these slots, before any packet comes. No user is here
    /// yet.
    pub fn start_gates(&mut self, plan: &GatesPlan, slots: Vec<u32>, workers: usize) {
        slots.iter().for_each(|slot| self.classifier.set_gated(*slot, true));
        self.gates = Some(Box::new(Gates::new(plan, slots, workers)));
    }

    /// Drops packets in tunnels of users that move that no peer has sent.
    #[cold]
    pub(super) fn refuse_strangers(&mut self, tunnelled: Positions) -> Positions {
        let BurstState { burst, taps, .. } = &mut self.state;
        let Some(gates) = &self.gates else { return Positions::NONE };
        let strangers = gates.strangers(burst, tunnelled);
        if !strangers.is_empty() {
            let reason = DropReason::TunnelWrongPeer;
            self.counters.dropped(reason, strangers.len());
            if let Some(taps) = taps {
                taps.admit(strangers, burst);
                taps.at(Point::Dropped(reason), strangers, burst);
            }
        }
        strangers
    }

    /// Shows the gates what the burst had for users that move, in the order in which
    /// it came.
    #[cold]
    pub(crate) fn pass_gates(&mut self) {
        let mut gated = std::mem::replace(&mut self.departure.gated, Batch::new());
        for packet in gated.drain() {
            if packet.is_end_marker() {
                self.hear_end_marker(&packet);
                continue;
            }
            let direction = self.direction_of(&packet);
            let slot = packet.metadata().user;
            let Some(gates) = &mut self.gates else {
                self.counters.dropped(DropReason::NoOwner, 1);
                continue;
            };
            let action = gates.arrive(packet, direction);
            self.act_on(action, slot, direction);
        }
        self.finish_passing();
    }

    fn finish_passing(&mut self) {
        if !self.state.burst.packets.is_empty() {
            self.carry_on();
        }
        if let Some(port) = self.gates.as_ref().map(|gates| gates.port) {
            self.departure.flush(port);
        }
    }

    /// The way of a packet: what its tunnel is for, or else that of what comes in at
    /// its port.
    fn direction_of(&self, packet: &Packet) -> Direction {
        if let Some(Purpose::Forwarded(direction)) =
            tunnel::teid_of(packet).and_then(tunnel::purpose)
        {
            return direction;
        }
        match self.classifier.direction_at(packet.metadata().port) {
            weft_function::Direction::Uplink => Direction::Uplink,
            weft_function::Direction::Downlink => Direction::Downlink,
        }
    }

    /// Does with a packet what the plane says.
    fn act_on(&mut self, action: Action<Packet>, slot: u32, direction: Direction) {
        match action {
            Action::Process(packet, _) | Action::Pass(packet) => self.let_through(packet),
            Action::Forward(packet, to, link) => self.forward_to(packet, to, link),
            Action::Wait { first } => {
                self.counters.waited.add(1);
                if first {
                    self.answer_transfer(Report::Held(slot, direction));
                }
            }
            Action::Drop(_, reason) => self.counters.dropped(reason.into(), 1),
        }
    }

    /// A packet goes its way through the rules; what another station has forwarded, as
    /// if it had come in here.
    fn let_through(&mut self, mut packet: Packet) {
        let purpose = tunnel::teid_of(&packet).and_then(tunnel::purpose);
        let is_unwrapped = purpose == Some(Purpose::Forwarded(Direction::Uplink));
        if let Some(reason) = refuses_to_leave(&packet).filter(|_| is_unwrapped) {
            return self.counters.dropped(reason, 1);
        }
        if is_unwrapped && packet.unwrap_tunnel() {
            let user = packet.metadata().user;
            let [uplink, _] = self.classifier.metadata(user, user);
            let metadata = packet.metadata_mut();
            (metadata.port, metadata.vlan) = (uplink.port, uplink.vlan);
            metadata.flags &= !PacketMetadata::TUNNELLED;
            TagSlot::DIRECTION.set(metadata, weft_function::Direction::Uplink as u32);
        }
        packet.metadata_mut().flags |= PacketMetadata::PASSED;
        // There is room: a full burst leaves at once.
        let _ = self.state.burst.packets.push(packet);
        if self.state.burst.packets.len() == BURST {
            self.carry_on();
        }
    }

    /// A packet goes to another station, untouched.
    fn forward_to(&mut self, mut packet: Packet, to: NodeId, link: Epoch) {
        let direction = self.direction_of(&packet);
        let Some(gates) = &mut self.gates else { return };
        let Some(peer) = gates.peer(to) else {
            return self.counters.dropped(DropReason::NoOwner, 1);
        };
        let Some(teid) = gates.forwarding(packet.metadata().user, direction, link) else {
            return self.counters.dropped(DropReason::NoOwner, 1);
        };
        gates.sent = gates.sent.wrapping_add(1);
        let (ends, sent, port) = ((gates.local, peer), gates.sent, gates.port);
        match tunnel::wrap(&mut packet, ends, teid, sent) {
            Ok(()) => self.departure.send_tunnelled(port, packet),
            Err(reason) => self.counters.dropped(reason, 1),
        }
    }

    fn hear_end_marker(&mut self, packet: &Packet) {
        match tunnel::read_marker(packet) {
            Some(marker) => {
                self.counters.local.add(1);
                let slot = packet.metadata().user;
                self.answer_transfer(Report::EndMarker(slot, marker));
            }
            None => self.counters.dropped(DropReason::GtpuMalformed, 1),
        }
    }

    /// Applies what the agent asks for a user. What waited and may go, goes first.
    pub(crate) fn apply_order(&mut self, order: Box<Order>) {
        let slot = order.slot;
        order.gone.iter().for_each(|key| self.classifier.remove(key));
        order.keys.iter().for_each(|key| self.classifier.insert(key, slot));
        order.settings.iter().for_each(|configure| self.configure_one(configure));
        if let Some(gates) = &mut self.gates {
            let user = User(slot.into());
            if !matches!(order.act, Act::None) {
                gates.learn(slot, order.tunnels.clone());
            }
            match (order.act, &mut gates.plane) {
                (Act::Station(posture), Plane::Station(plane)) => plane.steer(user, posture),
                (Act::Anchor(posture), Plane::Anchor(plane)) => plane.steer(user, posture),
                (Act::Forget | Act::Open, _) => {
                    let lost = gates.forget(slot);
                    self.counters.dropped(DropReason::NoOwner, lost);
                }
                _ => {}
            }
        }
        match order.act {
            Act::None => {}
            Act::Open => self.classifier.set_gated(slot, false),
            Act::Forget => self.classifier.set_gated(slot, true),
            Act::Station(_) | Act::Anchor(_) => {
                self.classifier.set_gated(slot, true);
                self.let_go(slot);
            }
        }
        self.answer_transfer(Report::Ordered(order));
    }

    fn let_go(&mut self, slot: u32) {
        while let Some(action) = self.gates.as_mut().and_then(|gates| gates.next(slot)) {
            // What has waited does not wait again.
            self.act_on(action, slot, Direction::Uplink);
        }
        self.finish_passing();
    }

    /// Carries what the ports to users and the other workers have for this one by now.
    #[cold]
    pub(crate) fn drain(&mut self, number: u64) {
        self.carry_all_waiting();
        for inlet in 0..self.inlets.len() {
            let port = self.inlets[inlet].port;
            if self.classifier.direction_at(port) == weft_function::Direction::Uplink {
                let mut bursts = 0..FULL_QUEUE;
                while bursts.next().is_some() && self.carry(inlet) {}
            }
        }
        let mut bursts = 0..FULL_QUEUE;
        while bursts.next().is_some() && self.take_over() {}
        self.answer_transfer(Report::Drained(number));
    }
}
