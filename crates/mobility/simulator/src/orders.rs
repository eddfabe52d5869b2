//! Orders to the controller, traffic, the radio, and users' contexts.

use weft_mobility_protocol::{
    Contexts, Controller, Counter, Direction, Epoch, NodeId, Output, User,
};

use crate::check::Promise;
use crate::event::{Event, Item};
use crate::scenario::Mutation;
use crate::user::{Context, Life};
use crate::world::{Machine, Phase, World};

/// For how long traffic goes on after the last fault, in microseconds.
const TRAFFIC_ON: u64 = 50_000;

impl World {
    pub fn any_station(&mut self) -> NodeId {
        NodeId(self.random.between(1, u64::from(self.scenario.stations.max(2)) + 1) as u32)
    }

    pub fn any_anchor(&mut self) -> NodeId {
        NodeId(1001 + self.random.between(0, u64::from(self.scenario.anchors.max(1))) as u32)
    }

    /// A packet from a user or for it, and the next one later.
    pub fn traffic(&mut self, user: User, direction: Direction) {
        match self.phase {
            Phase::Draining if self.time > self.since + TRAFFIC_ON && self.may_be_silent() => {
                return;
            }
            Phase::Running | Phase::Draining => {
                // Bursts now and then.
                let gap = self.scenario.packet_gap * 2;
                let burst = self.random.one_in_thousand(200);
                let after = self.random.between(1, if burst { 50 } else { gap.max(2) });
                self.after(after, Event::Traffic { user, direction });
            }
            Phase::Probing => {}
        }
        let Some(state) = self.users.get_mut(&user) else { return };
        if state.life != Life::There {
            return;
        }
        let packet = state.send(direction);
        state.spoke |= direction == Direction::Uplink;
        let (anchor, radio) = (state.anchor, state.radio);
        self.statistics.packets += 1;
        match direction {
            Direction::Uplink => self.send_air(user, radio, Item::Fresh(packet)),
            Direction::Downlink if self.is_dead(anchor) => {
                self.lose(packet, crate::user::Cause::Died);
            }
            Direction::Downlink => self.downlink_at(anchor, packet),
        }
    }

    /// Whether no station waits for what a radio says.
    fn may_be_silent(&self) -> bool {
        let idle = self.controller.machine.as_ref().is_some_and(Controller::is_idle);
        self.radios_are_told() || idle
    }

    /// The radio goes to where it is wanted. Stations that are told of radios hear of it
    /// behind the last packet, and before the first.
    pub fn move_radio(&mut self, user: User) {
        let told = self.radios_are_told();
        let untold = told && self.scenario.faults.radio && self.random.one_in_thousand(50);
        let Some(state) = self.users.get_mut(&user) else { return };
        let (from, to) = (state.radio, state.wanted);
        if from == to {
            return;
        }
        (state.radio, state.spoke) = (to, false);
        self.note(Some(user), || format!("the radio goes from {from} to {to}"));
        if untold {
            if let Some(state) = self.users.get_mut(&user) {
                state.untold = true;
            }
            self.note(Some(user), || format!("{from} is not told that the radio leaves"));
        } else if told {
            self.send_air(user, from, Item::RadioLeft(user));
        }
        if told {
            self.send_air(user, to, Item::RadioArrived(user));
        }
    }

    /// A station waits for what is in the air from a radio.
    pub fn drain_air(&mut self, node: NodeId, user: User, epoch: Epoch) {
        let last = self.air.get(&(user, node)).copied().unwrap_or_default();
        let last = if self.is(Mutation::SkipDrain) { 0 } else { last };
        let delay = self.random.between(1, 50);
        self.at(last.max(self.time) + delay, Event::Drained { node, user, epoch });
    }

    /// Some radios do not wait until the target owns the user.
    pub fn go_early(&mut self, user: User) {
        if !self.scenario.faults.radio || !self.random.one_in_thousand(50) {
            return;
        }
        let target = |(node, station): (&NodeId, &crate::world::StationNode)| {
            let state = station.machine.as_ref()?.state(user)?;
            (state == weft_mobility_protocol::station::State::Prepared).then_some(*node)
        };
        let Some(target) = self.stations.iter().find_map(target) else { return };
        if let Some(state) = self.users.get_mut(&user) {
            (state.early, state.wanted) = (true, target);
            self.move_radio(user);
        }
    }

    /// An order for the controller, and the next one later.
    pub fn order(&mut self) {
        if self.phase != Phase::Running {
            return;
        }
        let limit = self.scenario.moves * self.scenario.order_gap * 20 + 2_000_000;
        if self.statistics.moves >= self.scenario.moves || self.time > limit {
            return self.drain();
        }
        let gap = self.random.between(1, self.scenario.order_gap * 2);
        self.after(gap, Event::Order);
        let users = self.scenario.users.max(1);
        let user = User(self.random.between(1, users + 1));
        let to = self.any_station();
        let kind = self.random.between(0, 100);
        if kind < 6 {
            return self.remove(user);
        }
        let batch: Vec<User> = if kind < 16 {
            let from = self.any_station();
            let there = |state: &&crate::user::UserState| state.radio == from;
            self.users.values().filter(there).map(|state| state.user).collect()
        } else if kind < 24 {
            vec![user, user]
        } else {
            vec![user]
        };
        self.note(None, || format!("order: {batch:?} to {to}"));
        self.input(NodeId::CONTROLLER, None, |machine, out| {
            if let Machine::Controller(controller) = machine {
                controller.move_users(batch, to, out);
            }
        });
    }

    fn remove(&mut self, user: User) {
        let Some(state) = self.users.get_mut(&user) else { return };
        if state.life != Life::There || self.controller.machine.is_none() {
            return;
        }
        state.life = Life::Removing;
        state.touched = true;
        self.order_removal(user);
    }

    fn order_removal(&mut self, user: User) {
        self.note(Some(user), || "order: remove".to_owned());
        self.input(NodeId::CONTROLLER, Some(user), |machine, out| {
            if let Machine::Controller(controller) = machine {
                controller.remove(user, out);
            }
        });
    }

    pub fn removed(&mut self, user: User) {
        self.statistics.removed += 1;
        let back = self.random.between(1, 50_000);
        let Some(state) = self.users.get_mut(&user) else { return };
        // It was added again, and a controller that died has forgotten that.
        let again = state.life == Life::Adding;
        if again {
            self.after(back, Event::Add(user));
        } else if state.life == Life::Removing {
            state.life = Life::Removed;
            state.context = None;
            self.note(Some(user), || "told: removed".to_owned());
            if self.phase == Phase::Running {
                self.after(back, Event::Add(user));
            }
        }
    }

    /// The user is to be there.
    pub fn add(&mut self, user: User) {
        let node = self.any_station();
        let Some(state) = self.users.get_mut(&user) else { return };
        if !matches!(state.life, Life::Adding | Life::Removed) {
            return;
        }
        state.life = Life::Adding;
        state.touched = true;
        let anchor = state.anchor;
        if self.controller.machine.is_none() {
            return self.after(5_000, Event::Add(user));
        }
        // A user comes with its radio.
        (state.radio, state.wanted) = (node, node);
        if self.radios_are_told() {
            self.send_air(user, node, Item::RadioArrived(user));
        }
        self.note(Some(user), || format!("order: add at {node}"));
        self.input(NodeId::CONTROLLER, Some(user), |machine, out| {
            if let Machine::Controller(controller) = machine {
                controller.add(user, anchor, node, out);
            }
        });
    }

    /// A controller that has started again has forgotten orders that it had not
    /// begun; what it was told and answered, it must know.
    pub fn repeat_orders(&mut self) {
        for user in self.users.keys().copied().collect::<Vec<_>>() {
            let Some(machine) = &self.controller.machine else { return };
            let known = machine.stage(user).is_some();
            match self.users.get(&user).map(|state| state.life) {
                Some(Life::Adding) if !known => self.after(1_000, Event::Add(user)),
                Some(Life::There) if !known => {
                    let what = "the controller has forgotten the user".to_owned();
                    self.violated(Promise::Settled, Some(user), what);
                }
                Some(Life::Removing) if known => self.order_removal(user),
                Some(Life::Removing) => self.removed(user),
                _ => {}
            }
        }
        for (node, successor) in self.gone.clone() {
            if let Some(successor) = successor {
                self.say_gone(node, successor);
            }
        }
    }

    /// A station is to export; it does so once nothing is inside functions.
    pub fn export(&mut self, node: NodeId, user: User, epoch: Epoch) {
        let hurry = self.is(Mutation::SkipFence);
        let Some(entry) = self.functions(node, user) else { return };
        if entry.inside == 0 || hurry {
            return self.finish_export(node, user, epoch);
        }
        entry.exporting = Some(epoch);
    }

    pub fn finish_export(&mut self, node: NodeId, user: User, epoch: Epoch) {
        let delay = self.random.between(10, 200);
        let Some(entry) = self.functions(node, user) else { return };
        entry.exporting = None;
        let entry = entry.number;
        self.after(delay, Event::Exported { node, entry, user, epoch });
    }

    pub fn exported(&mut self, node: NodeId, number: u64, user: User, epoch: Epoch) {
        let Some(entry) = self.functions(node, user).filter(|entry| entry.number == number) else {
            return;
        };
        let bytes = bytes(entry.context.unwrap_or_default());
        self.input(node, Some(user), |machine, out| {
            if let Machine::Station(station) = machine {
                station.exported(user, epoch, bytes, out);
            }
        });
    }

    pub fn import(&mut self, node: NodeId, user: User, epoch: Epoch, contexts: Contexts) {
        let delay = self.random.between(50, 500);
        let Some(entry) = self.functions(node, user).map(|entry| entry.number) else { return };
        self.after(delay, Event::Imported { node, entry, user, epoch, contexts });
    }

    pub fn imported(
        &mut self,
        node: NodeId,
        number: u64,
        user: User,
        epoch: Epoch,
        contexts: Contexts,
    ) {
        let made = !(self.scenario.faults.contexts && self.random.one_in_thousand(50));
        let kept = self.stations.get(&node).and_then(|station| station.disk.context(user));
        let Some(entry) = self.functions(node, user).filter(|entry| entry.number == number) else {
            return;
        };
        let context = match &contexts {
            Contexts::Exported(bytes) => context(bytes),
            Contexts::Kept => Some(kept.unwrap_or_default()),
            Contexts::New => Some([0; 2]),
        };
        if made {
            entry.context = context;
        }
        let hidden = self.is(Mutation::HideLostContexts);
        let mut lost = false;
        let mut owns = false;
        let mut steps = Vec::new();
        self.input(node, None, |machine, _| {
            if let Machine::Station(station) = machine {
                station.imported(user, epoch, made, &mut steps);
                lost = steps.contains(&Output::Count(Counter::ContextLost));
                owns = station.owns(user);
            }
        });
        if owns {
            self.owns_by(node, user, contexts == Contexts::Kept);
            self.has_contexts(node, user, context, lost && !hidden);
        }
        self.carry_out(node, Some(user), steps);
    }

    /// A station goes on with contexts that it had exported.
    pub fn resume(&mut self, node: NodeId, user: User, lost: bool) {
        let context = self.functions(node, user).and_then(|entry| {
            entry.exporting = None;
            entry.context
        });
        self.owns_again(node, user);
        self.has_contexts(node, user, context, lost);
    }

    /// A station has made contexts: they are those of all packets so far, unless
    /// it counts them as lost.
    fn has_contexts(&mut self, node: NodeId, user: User, context: Option<Context>, lost: bool) {
        let Some(state) = self.users.get_mut(&user) else { return };
        let right = state.context.unwrap_or_default();
        state.context = context;
        if context != Some(right) && !lost {
            let what = format!("{node} begins with {context:?}, and {right:?} is right");
            self.violated(Promise::Contexts, Some(user), what);
        }
    }
}

fn bytes(context: Context) -> Vec<u8> {
    context.iter().flat_map(|count| count.to_be_bytes()).collect()
}

fn context(bytes: &[u8]) -> Option<Context> {
    let (uplink, downlink) = bytes.split_at_checked(8)?;
    Some([
        u64::from_be_bytes(uplink.try_into().ok()?),
        u64::from_be_bytes(downlink.try_into().ok()?),
    ])
}
