//! What links, stations and anchors do with packets.

use weft_handover::gate::Held;
use weft_handover::{AnchorPosture, Direction, Epoch, NodeId, Posture, Treatment, User, Ways};

use crate::check::Promise;
use crate::event::{Event, Item, OCTETS, Packet};
use crate::plane::{AnchorEntry, StationEntry};
use crate::scenario::Mutation;
use crate::user::{Cause, Context, index};
use crate::world::{Machine, World};

impl World {
    /// Something goes over a link of packets, behind all that went before.
    pub fn send_data(&mut self, from: NodeId, to: NodeId, item: Item) {
        if self.is_cut(from, to) {
            self.touch(item.user());
            if let Item::Fresh(packet) | Item::Forwarded(packet) = item {
                self.lose(packet, Cause::Cut);
            }
            return;
        }
        let slow = self.random.one_in_thousand(10);
        let delay = self.random.between(50, 300) + if slow { 3_000 } else { 0 };
        let overtakes = self.is(Mutation::MarkerOvertakes) && matches!(item, Item::Marker(..));
        let mut arrival = self.time + if overtakes { 1 } else { delay };
        if !self.scenario.disorder && !overtakes {
            let last = self.links.entry((from, to)).or_default();
            arrival = arrival.max(*last);
            *last = arrival;
        }
        if let Item::Marker(user, marker) = item {
            self.note(Some(user), || format!("{from} => {to}: {marker:?}"));
        }
        self.at(arrival, Event::Data { to, item });
    }

    /// Something of a user's radio comes to a station, behind all before.
    pub fn send_air(&mut self, user: User, to: NodeId, item: Item) {
        let delay = self.random.between(100, 1_000);
        let last = self.air.entry((user, to)).or_default();
        *last = (*last).max(self.time + delay);
        let time = *last;
        self.at(time, Event::Data { to, item });
    }

    pub fn arrive(&mut self, to: NodeId, item: Item) {
        let user = item.user();
        if self.is_dead(to) {
            self.touch(user);
            if let Item::Fresh(packet) | Item::Forwarded(packet) = item {
                self.lose(packet, Cause::Died);
            }
            return;
        }
        match item {
            Item::Fresh(packet) if self.anchors.contains_key(&to) => self.uplink_at(to, packet),
            Item::Fresh(packet) => self.at_station(to, packet, false),
            Item::Forwarded(packet) => self.at_station(to, packet, true),
            Item::Marker(_, marker) => {
                self.note(Some(user), || format!("{to} has {marker:?}"));
                self.input(to, Some(user), |machine, out| match machine {
                    Machine::Station(station) => station.end_marker(user, marker, out),
                    Machine::Anchor(anchor) => anchor.end_marker(user, marker, out),
                    Machine::Controller(_) => {}
                });
            }
            Item::RadioLeft(_) => {
                self.note(Some(user), || format!("{to}: the radio has left"));
                self.input(to, Some(user), |machine, out| {
                    if let Machine::Station(station) = machine {
                        station.radio_left(user, out);
                    }
                });
            }
            Item::RadioArrived(_) => self.input(to, Some(user), |machine, _| {
                if let Machine::Station(station) = machine {
                    station.radio_arrived(user);
                }
            }),
        }
    }

    fn at_station(&mut self, node: NodeId, packet: Packet, forwarded: bool) {
        let entry = self.stations.get(&node).and_then(|node| node.plane.users.get(&packet.user));
        let Some(posture) = entry.map(|entry| entry.posture) else {
            return self.lose(packet, Cause::NoOwner);
        };
        let stale = match (forwarded, packet.direction) {
            (true, _) => packet.tag != posture.link,
            (false, Direction::Downlink) => packet.tag != posture.epoch,
            (false, Direction::Uplink) => false,
        };
        if stale {
            return self.lose(packet, Cause::Stale);
        }
        let ways = if forwarded { posture.forwarded } else { posture.fresh };
        self.treat(node, packet, forwarded, ways.of(packet.direction));
    }

    /// Does with a packet what the posture says.
    fn treat(&mut self, node: NodeId, mut packet: Packet, forwarded: bool, treatment: Treatment) {
        let at = index(packet.direction);
        let user = packet.user;
        match treatment {
            Treatment::Refuse => self.lose(packet, Cause::Stale),
            Treatment::Forward(to) => {
                let Some(entry) = self.entry(node, user) else { return };
                packet.tag = entry.posture.link;
                if self.is(Mutation::DoubleForwarded) {
                    self.send_data(node, to, Item::Forwarded(packet));
                }
                self.send_data(node, to, Item::Forwarded(packet));
            }
            Treatment::Hold => self.hold(node, packet, forwarded),
            Treatment::Process => {
                let slow = self.random.one_in_thousand(20);
                let delay = self.random.between(5, 50) + if slow { 1_000 } else { 0 };
                let out = self.time + delay;
                let Some(entry) = self.entry(node, user) else { return };
                packet.tag = entry.posture.epoch;
                entry.inside += 1;
                entry.out[at] = entry.out[at].max(out);
                let (time, entry) = (entry.out[at], entry.number);
                self.at(time, Event::Emerge { node, entry, packet });
            }
        }
    }

    pub fn entry(&mut self, node: NodeId, user: User) -> Option<&mut StationEntry> {
        self.stations.get_mut(&node)?.plane.users.get_mut(&user)
    }

    fn hold(&mut self, node: NodeId, packet: Packet, forwarded: bool) {
        let (bounds, policy) = (self.scenario.gate, self.scenario.policy);
        let at = index(packet.direction);
        let Some(station) = self.stations.get_mut(&node) else { return };
        let Some(entry) = station.plane.users.get_mut(&packet.user) else { return };
        let gate = if forwarded { &mut entry.forwarded[at] } else { &mut entry.fresh[at] };
        let held = gate.hold(packet, OCTETS, bounds, &mut station.plane.room, policy);
        let used = station.plane.room.used().packets;
        self.note_held(used);
        match held {
            Held::First if !forwarded => self.input(node, Some(packet.user), |machine, out| {
                if let Machine::Station(station) = machine {
                    station.held(packet.user, packet.direction, out);
                }
            }),
            Held::First | Held::Behind => {}
            Held::Full(dropped) => self.lose(dropped, Cause::GateFull),
        }
    }

    fn note_held(&mut self, used: usize) {
        self.statistics.held += 1;
        self.statistics.held_most = self.statistics.held_most.max(used as u64);
    }

    /// A packet comes out of functions, which have counted it.
    pub fn emerge(&mut self, node: NodeId, number: u64, packet: Packet) {
        let (user, at) = (packet.user, index(packet.direction));
        let Some(entry) = self.entry(node, user).filter(|entry| entry.number == number) else {
            let cause = if self.is_dead(node) { Cause::Died } else { Cause::NoOwner };
            return self.lose(packet, cause);
        };
        entry.inside -= 1;
        if let Some(context) = &mut entry.context {
            context[at] += 1;
        }
        let (context, inside, exporting) = (entry.context, entry.inside, entry.exporting);
        self.processed(node, user, at, context);
        match packet.direction {
            Direction::Downlink => self.deliver(packet),
            Direction::Uplink => {
                let Some(anchor) = self.users.get(&user).map(|user| user.anchor) else { return };
                self.send_data(node, anchor, Item::Fresh(packet));
            }
        }
        if let (0, Some(epoch)) = (inside, exporting) {
            self.finish_export(node, user, epoch);
        }
    }

    fn processed(&mut self, node: NodeId, user: User, at: usize, context: Option<Context>) {
        let Some(state) = self.users.get_mut(&user) else { return };
        if let Some(all) = &mut state.context {
            all[at] += 1;
        }
        let expected = state.context;
        if context != expected {
            let what = format!("{node} has {context:?}, and {expected:?} is right");
            self.violated(Promise::Contexts, Some(user), what);
        }
    }

    /// A station is to treat a user so; what waited and may go, goes.
    pub fn steer(&mut self, node: NodeId, user: User, mut posture: Posture) {
        if self.is(Mutation::OpenGateEarly) && posture.forwarded == Ways::both(Treatment::Process) {
            posture.fresh = posture.forwarded;
        }
        let source = matches!(posture.fresh.downlink, Treatment::Forward(_));
        if self.is(Mutation::KeepProcessing) && source {
            posture.fresh = Ways::both(Treatment::Process);
        }
        let number = self.unique();
        let Some(station) = self.stations.get_mut(&node) else { return };
        let users = &mut station.plane.users;
        users.entry(user).or_insert_with(|| StationEntry::new(number, posture)).posture = posture;
        if self.is(Mutation::KeepHeld) {
            return;
        }
        for forwarded in [true, false] {
            for direction in Direction::ALL {
                self.release(node, user, forwarded, direction);
            }
        }
    }

    fn release(&mut self, node: NodeId, user: User, forwarded: bool, direction: Direction) {
        let at = index(direction);
        let mut first = true;
        while let Some(station) = self.stations.get_mut(&node)
            && let Some(entry) = station.plane.users.get_mut(&user)
        {
            let (gate, ways) = if forwarded {
                (&mut entry.forwarded[at], entry.posture.forwarded)
            } else {
                (&mut entry.fresh[at], entry.posture.fresh)
            };
            let treatment = ways.of(direction);
            if treatment == Treatment::Hold {
                return;
            }
            let Some(packet) = gate.release(&mut station.plane.room) else { return };
            if std::mem::take(&mut first) && self.is(Mutation::LoseHeld) {
                continue;
            }
            self.treat(node, packet, forwarded, treatment);
        }
    }

    /// A station forgets a user.
    pub fn discard(&mut self, node: NodeId, user: User) {
        let mut dropped = Vec::new();
        if let Some(station) = self.stations.get_mut(&node)
            && let Some(mut entry) = station.plane.users.remove(&user)
        {
            dropped = entry.take_held(&mut station.plane.room);
        }
        if let Some(anchor) = self.anchors.get_mut(&node)
            && let Some(mut entry) = anchor.plane.users.remove(&user)
        {
            dropped.extend(std::iter::from_fn(|| entry.gate.release(&mut anchor.plane.room)));
        }
        for packet in dropped {
            self.lose(packet, Cause::NoOwner);
        }
    }

    /// Downlink comes to an anchor from the core.
    pub fn downlink_at(&mut self, node: NodeId, mut packet: Packet) {
        let entry = self.anchors.get(&node).and_then(|node| node.plane.users.get(&packet.user));
        match entry.and_then(|entry| entry.posture.downlink) {
            Some(leg) => {
                packet.tag = leg.epoch;
                self.send_data(node, leg.node, Item::Fresh(packet));
            }
            None => self.lose(packet, Cause::NoOwner),
        }
    }

    fn uplink_at(&mut self, node: NodeId, packet: Packet) {
        let (bounds, policy) = (self.scenario.gate, self.scenario.policy);
        let Some(anchor) = self.anchors.get_mut(&node) else { return };
        let Some(entry) = anchor.plane.users.get_mut(&packet.user) else {
            return self.lose(packet, Cause::NoOwner);
        };
        match verdict(&entry.posture, packet.tag) {
            Some(true) => self.deliver(packet),
            None => self.lose(packet, Cause::Stale),
            Some(false) => {
                let room = &mut anchor.plane.room;
                let held = entry.gate.hold(packet, OCTETS, bounds, room, policy);
                let used = room.used().packets;
                self.note_held(used);
                match held {
                    Held::First => self.input(node, Some(packet.user), |machine, out| {
                        if let Machine::Anchor(anchor) = machine {
                            anchor.held(packet.user, out);
                        }
                    }),
                    Held::Behind => {}
                    Held::Full(dropped) => self.lose(dropped, Cause::GateFull),
                }
            }
        }
    }

    /// An anchor is to treat a user so; what waited and may go, goes.
    pub fn steer_anchor(&mut self, node: NodeId, user: User, posture: AnchorPosture) {
        self.note(Some(user), || format!("{node}: {posture:?}"));
        let Some(anchor) = self.anchors.get_mut(&node) else { return };
        let fresh = || AnchorEntry { posture, gate: Default::default() };
        let entry = anchor.plane.users.entry(user).or_insert_with(fresh);
        entry.posture = posture;
        let room = &mut anchor.plane.room;
        let held: Vec<Packet> = std::iter::from_fn(|| entry.gate.release(room)).collect();
        for packet in held {
            self.uplink_at(node, packet);
        }
    }

    fn deliver(&mut self, packet: Packet) {
        self.statistics.delivered += 1;
        let Some(user) = self.users.get_mut(&packet.user) else { return };
        if let Some((promise, what)) = user.deliver(packet)
            && !(promise == Promise::Order && self.scenario.disorder)
        {
            self.violated(promise, Some(packet.user), what);
        }
    }

    pub fn lose(&mut self, packet: Packet, cause: Cause) {
        *self.statistics.lost.entry(cause.name()).or_default() += 1;
        self.note(Some(packet.user), || {
            format!("{:?} packet {} is lost: {}", packet.direction, packet.sequence, cause.name())
        });
        let Some(user) = self.users.get_mut(&packet.user) else { return };
        if let Some((promise, what)) = user.lose(packet, cause)
            && !(promise == Promise::NothingLost && self.scenario.disorder)
        {
            self.violated(promise, Some(packet.user), what);
        }
    }
}

/// Whether an anchor passes uplink of a tunnel on, or holds it; `None`: neither.
fn verdict(posture: &AnchorPosture, tag: Epoch) -> Option<bool> {
    match posture.next {
        _ if posture.accept == Some(tag) => Some(true),
        Some((epoch, open)) if epoch == tag => Some(open),
        _ => None,
    }
}
