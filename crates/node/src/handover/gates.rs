//! The gates of one worker: what becomes of packets of users that move.
//!
//! Users that do not move pass without a look at any of this: whether packets go
//! through a gate stands in the user's record, which is read for every packet anyway.

use std::net::IpAddr;

use weft_dpdk::{Annotations, Batch, Packet};
use weft_function::{TagSlot, Tunnel};
use weft_mobility_protocol::plane::{
    Action, AnchorPlane, DropReason as Reason, Origin, StationPlane,
};
use weft_mobility_protocol::{AnchorPosture, Direction, EndMarker, Epoch, NodeId, Posture, User};

use super::tunnel::{self, Purpose};
use crate::command::{Configure, Report};
use crate::config::{HandoverPlan, HandoverRole, UserKey};
use crate::counters::DropReason;
use crate::tunnel::refuses_to_leave;
use crate::worker::{BURST, Worker};

/// What the agent asks of workers for one user: of all of them to know its tunnels, of
/// the user's own to treat it so from now on.
pub struct Order {
    /// Number of the user, told when it is done.
    pub user: User,
    /// Slot of the user.
    pub slot: u32,
    /// Tunnels that are over.
    pub gone: Vec<UserKey>,
    /// Tunnels that packets may come in.
    pub keys: Vec<UserKey>,
    /// Settings of the function that puts packets into the tunnel.
    pub settings: Vec<Configure>,
    /// What its own worker does.
    pub act: Act,
}

/// What the worker of a user does.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// Nothing: the user is another worker's.
    None,
    /// A station's: treats the user so, behind a gate.
    Station(Posture),
    /// An anchor's: treats the user so, behind a gate.
    Anchor(AnchorPosture),
    /// Takes the gate away, which lets all through.
    Open,
    /// Forgets how the user is treated; what waits is dropped, as is what comes.
    Forget,
}

/// Who is moved, and what waits.
enum Plane {
    Station(StationPlane<Packet>),
    Anchor(AnchorPlane<Packet>),
}

/// The gates of one worker. Users are known by their slots.
pub struct Gates {
    plane: Plane,
    local: IpAddr,
    peers: Box<[(NodeId, IpAddr)]>,
    /// The port that tunnels leave by.
    port: u16,
    /// The users' slots and numbers, in the order of the slots.
    numbers: Vec<(u32, u32)>,
    /// Numbers the tunnels' packets.
    sent: u16,
}

impl Gates {
    /// Gates for users of these slots and numbers, as one of so many workers.
    pub fn new(plan: &HandoverPlan, mut numbers: Vec<(u32, u32)>, workers: usize) -> Gates {
        let mut limits = plan.limits;
        limits.node.packets /= workers;
        limits.node.bytes /= workers;
        let plane = match plan.role {
            HandoverRole::Station => Plane::Station(StationPlane::new(limits)),
            HandoverRole::Anchor => Plane::Anchor(AnchorPlane::new(limits)),
        };
        numbers.sort_unstable();
        Gates {
            plane,
            local: plan.local,
            peers: plan.peers.clone().into(),
            port: plan.port,
            numbers,
            sent: 0,
        }
    }

    fn peer(&self, node: NodeId) -> Option<IpAddr> {
        self.peers.iter().find(|(known, _)| *known == node).map(|(_, address)| *address)
    }

    /// The user at this slot has this number.
    fn learn(&mut self, slot: u32, user: User) {
        let number = user.0 as u32;
        match self.numbers.binary_search_by_key(&slot, |(slot, _)| *slot) {
            Ok(at) => self.numbers[at].1 = number,
            Err(at) => self.numbers.insert(at, (slot, number)),
        }
    }

    fn number(&self, slot: u32) -> u32 {
        let at = self.numbers.binary_search_by_key(&slot, |(slot, _)| *slot);
        at.map_or(0, |at| self.numbers[at].1)
    }

    /// What is to be done with a packet of this direction.
    fn arrive(&mut self, packet: Packet, direction: Direction) -> Action<Packet> {
        let user = User(packet.annotations().user.into());
        let teid = tunnel::teid_of(&packet).filter(|teid| tunnel::purpose(*teid).is_some());
        let bytes = packet.len();
        match &mut self.plane {
            Plane::Station(plane) => {
                let Some(Posture { epoch, link, .. }) = plane.posture(user).copied() else {
                    return Action::Drop(packet, Reason::NoOwner);
                };
                let of = |teid: u32, epoch: Epoch| match tunnel::is_of(teid, epoch) {
                    true => epoch,
                    false => Epoch(0),
                };
                let origin = match (teid, teid.and_then(tunnel::purpose)) {
                    (Some(teid), Some(Purpose::Fresh)) => Origin::Anchor(of(teid, epoch)),
                    (Some(teid), Some(Purpose::Forwarded(_))) => Origin::Station(of(teid, link)),
                    _ if direction == Direction::Uplink => Origin::Radio,
                    // What the node itself has for the user.
                    _ => Origin::Anchor(epoch),
                };
                plane.arrive((user, direction), origin, packet, bytes)
            }
            Plane::Anchor(plane) if direction == Direction::Uplink => {
                let posture = plane.posture(user).copied();
                let Some(AnchorPosture { accept, next, .. }) = posture else {
                    return Action::Drop(packet, Reason::NoOwner);
                };
                let known = accept.into_iter().chain(next.map(|(epoch, _)| epoch));
                let mut known =
                    known.filter(|epoch| teid.is_none_or(|teid| tunnel::is_of(teid, *epoch)));
                let epoch = known.next().unwrap_or_default();
                plane.uplink(user, epoch, packet, bytes)
            }
            Plane::Anchor(plane) => match plane.downlink(user) {
                Ok(_) => Action::Pass(packet),
                Err(reason) => Action::Drop(packet, reason),
            },
        }
    }

    fn next(&mut self, slot: u32) -> Option<Action<Packet>> {
        let user = User(slot.into());
        match &mut self.plane {
            Plane::Station(plane) => plane.next(user),
            Plane::Anchor(plane) => plane.next(user),
        }
    }

    /// Forgets a user; how many packets waited for it.
    fn forget(&mut self, slot: u32) -> usize {
        let (user, mut dropped) = (User(slot.into()), 0);
        let count = |packet: Packet| {
            drop(packet);
            dropped += 1;
        };
        match &mut self.plane {
            Plane::Station(plane) => plane.discard(user, count),
            Plane::Anchor(plane) => plane.discard(user, count),
        }
        dropped
    }

    /// Drops all that waits, as the node stops; how many packets.
    pub fn clear(&mut self) -> usize {
        let slots: Vec<_> = self.numbers.iter().map(|(slot, _)| *slot).collect();
        slots.into_iter().map(|slot| self.forget(slot)).sum()
    }
}

impl From<Reason> for DropReason {
    fn from(reason: Reason) -> DropReason {
        match reason {
            Reason::NoOwner => DropReason::NoOwner,
            Reason::StaleEpoch => DropReason::StaleEpoch,
            Reason::GateFull => DropReason::GateFull,
        }
    }
}

impl Worker {
    /// Makes gates for users of these slots and numbers, before any packet comes.
    /// Nobody is here yet.
    pub(crate) fn start_gates(
        &mut self,
        plan: &HandoverPlan,
        numbers: Vec<(u32, u32)>,
        workers: usize,
    ) {
        numbers.iter().for_each(|(slot, _)| self.classifier.set_gated(*slot, true));
        self.gates = Some(Box::new(Gates::new(plan, numbers, workers)));
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
            let slot = packet.annotations().user;
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
        if !self.desk.burst.packets.is_empty() {
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
        match self.classifier.direction_at(packet.annotations().port) {
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
            let user = packet.annotations().user;
            let [uplink, _] = self.classifier.annotations(user, user);
            let annotations = packet.annotations_mut();
            (annotations.port, annotations.vlan) = (uplink.port, uplink.vlan);
            annotations.flags &= !Annotations::TUNNELLED;
            TagSlot::DIRECTION.set(annotations, weft_function::Direction::Uplink as u32);
        }
        packet.annotations_mut().flags |= Annotations::PASSED;
        // There is room: a full burst leaves at once.
        let _ = self.desk.burst.packets.push(packet);
        if self.desk.burst.packets.len() == BURST {
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
        let number = gates.number(packet.annotations().user);
        let teid = tunnel::teid(Purpose::Forwarded(direction), number, link);
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
                let slot = packet.annotations().user;
                self.answer_transfer(Report::EndMarker(slot, marker));
            }
            None => self.counters.dropped(DropReason::GtpuMalformed, 1),
        }
    }

    /// Obeys what the agent asks for a user. What waited and may go, goes first.
    pub(crate) fn obey_order(&mut self, order: Box<Order>) {
        let slot = order.slot;
        order.gone.iter().for_each(|key| self.classifier.remove(key));
        order.keys.iter().for_each(|key| self.classifier.insert(key, slot));
        order.settings.iter().for_each(|configure| self.configure_one(configure));
        if let Some(gates) = &mut self.gates {
            let user = User(slot.into());
            if !matches!(order.act, Act::None) {
                gates.learn(slot, order.user);
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
}

/// What the data plane tells of a user.
#[derive(Clone, Copy, Debug)]
pub enum Told {
    /// The first packet waits at the gate for fresh packets of this direction.
    Held(Direction),
    /// An End Marker has come.
    EndMarker(EndMarker),
}
