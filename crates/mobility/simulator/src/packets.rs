//! What links, stations and anchors do with packets.

use weft_mobility_protocol::plane::{Action, DropReason, Origin};
use weft_mobility_protocol::{
    AnchorPosture, Direction, Epoch, NodeId, Posture, Treatment, User, Ways,
};

use crate::check::Promise;
use crate::event::{Event, Item, OCTETS, Packet};
use crate::functions::Functions;
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
            Item::RadioArrived(_) => self.input(to, Some(user), |machine, out| {
                if let Machine::Station(station) = machine {
                    station.radio_arrived(user, out);
                }
            }),
        }
    }

    fn at_station(&mut self, node: NodeId, packet: Packet, forwarded: bool) {
        let origin = match (forwarded, packet.direction) {
            (true, _) => Origin::Station(packet.tag),
            (false, Direction::Downlink) => Origin::Anchor(packet.tag),
            (false, Direction::Uplink) => Origin::Radio,
        };
        let Some(station) = self.stations.get_mut(&node) else { return };
        let whose = (packet.user, packet.direction);
        let action = station.plane.arrive(whose, origin, packet, OCTETS);
        let used = station.plane.used().packets;
        self.act(node, (packet.user, packet.direction), action, used);
    }

    /// Does with a packet what the plane of a node says; `used` packets wait there.
    fn act(
        &mut self,
        node: NodeId,
        (user, direction): (User, Direction),
        action: Action<Packet>,
        used: usize,
    ) {
        match action {
            Action::Drop(packet, reason) => self.lose(packet, cause(reason)),
            Action::Pass(packet) => self.deliver(packet),
            Action::Process(packet, epoch) => self.process(node, packet, epoch),
            Action::Forward(mut packet, to, link) => {
                packet.tag = link;
                if self.is(Mutation::DoubleForwarded) {
                    self.send_data(node, to, Item::Forwarded(packet));
                }
                self.send_data(node, to, Item::Forwarded(packet));
            }
            Action::Wait { first } => {
                self.statistics.held += 1;
                self.statistics.held_most = self.statistics.held_most.max(used as u64);
                if first {
                    self.input(node, Some(user), |machine, out| match machine {
                        Machine::Station(station) => station.held(user, direction, out),
                        Machine::Anchor(anchor) => anchor.held(user, out),
                        Machine::Controller(_) => {}
                    });
                }
            }
        }
    }

    /// A packet goes into the functions of a station.
    fn process(&mut self, node: NodeId, mut packet: Packet, epoch: Epoch) {
        let at = index(packet.direction);
        let slow = self.random.one_in_thousand(20);
        let delay = self.random.between(5, 50) + if slow { 1_000 } else { 0 };
        let out = self.time + delay;
        let Some(functions) = self.functions(node, packet.user) else { return };
        packet.tag = epoch;
        functions.inside += 1;
        functions.out[at] = functions.out[at].max(out);
        let (time, entry) = (functions.out[at], functions.number);
        self.at(time, Event::Emerge { node, entry, packet });
    }

    pub fn functions(&mut self, node: NodeId, user: User) -> Option<&mut Functions> {
        self.stations.get_mut(&node)?.functions.get_mut(&user)
    }

    /// A packet comes out of functions, which have counted it.
    pub fn emerge(&mut self, node: NodeId, number: u64, packet: Packet) {
        let (user, at) = (packet.user, index(packet.direction));
        let Some(entry) = self.functions(node, user).filter(|entry| entry.number == number) else {
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
        station.plane.steer(user, posture);
        station.functions.entry(user).or_insert_with(|| Functions::new(number));
        if self.is(Mutation::KeepHeld) {
            return;
        }
        let mut lose = self.is(Mutation::LoseHeld);
        while let Some(station) = self.stations.get_mut(&node)
            && let Some(action) = station.plane.next(user)
        {
            let used = station.plane.used().packets;
            if std::mem::take(&mut lose) {
                continue;
            }
            // Nothing that has waited waits again.
            self.act(node, (user, Direction::Uplink), action, used);
        }
    }

    /// A station forgets a user.
    pub fn discard(&mut self, node: NodeId, user: User) {
        let mut dropped = Vec::new();
        if let Some(station) = self.stations.get_mut(&node) {
            station.functions.remove(&user);
            station.plane.discard(user, |packet| dropped.push(packet));
        }
        if let Some(anchor) = self.anchors.get_mut(&node) {
            anchor.plane.discard(user, |packet| dropped.push(packet));
        }
        for packet in dropped {
            self.lose(packet, Cause::NoOwner);
        }
    }

    /// Downlink comes to an anchor from the core.
    pub fn downlink_at(&mut self, node: NodeId, mut packet: Packet) {
        let Some(anchor) = self.anchors.get(&node) else { return };
        match anchor.plane.downlink(packet.user) {
            Ok(leg) => {
                packet.tag = leg.epoch;
                self.send_data(node, leg.node, Item::Fresh(packet));
            }
            Err(reason) => self.lose(packet, cause(reason)),
        }
    }

    fn uplink_at(&mut self, node: NodeId, packet: Packet) {
        let Some(anchor) = self.anchors.get_mut(&node) else { return };
        let action = anchor.plane.uplink(packet.user, packet.tag, packet, OCTETS);
        let used = anchor.plane.used().packets;
        self.act(node, (packet.user, packet.direction), action, used);
    }

    /// An anchor is to treat a user so; what waited and may go, goes.
    pub fn steer_anchor(&mut self, node: NodeId, user: User, posture: AnchorPosture) {
        self.note(Some(user), || format!("{node}: {posture:?}"));
        let Some(anchor) = self.anchors.get_mut(&node) else { return };
        anchor.plane.steer(user, posture);
        while let Some(anchor) = self.anchors.get_mut(&node)
            && let Some(action) = anchor.plane.next(user)
        {
            let used = anchor.plane.used().packets;
            self.act(node, (user, Direction::Uplink), action, used);
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

fn cause(reason: DropReason) -> Cause {
    match reason {
        DropReason::NoOwner => Cause::NoOwner,
        DropReason::StaleEpoch => Cause::Stale,
        DropReason::GateFull => Cause::GateFull,
    }
}
