//! What machines ask for is done.

use weft_mobility_protocol::controller::{Intent, Notice, Refusal};
use weft_mobility_protocol::{
    Counter, Direction, Envelope, Epoch, Incarnation, Leg, Message, NodeId, Output, Step,
    TimerKind, User,
};

use crate::check::Promise;
use crate::event::{Event, Item};
use crate::scenario::Mutation;
use crate::user::{Life, index};
use crate::world::{Machine, World, Write};

impl World {
    /// Does what a machine asks for, in order. `about` is the user of the input.
    pub fn carry_out(&mut self, node: NodeId, about: Option<User>, out: Vec<Output>) {
        let hidden = self.is(Mutation::HideLostContexts);
        let lost = !hidden && out.contains(&Output::Count(Counter::ContextLost));
        for output in out {
            match output {
                Output::Send(envelope) => self.send_behind_kept(node, envelope),
                Output::SetTimer(key, after) => {
                    if self.is(Mutation::NoGateTimers) && matches!(key.kind, TimerKind::Gate(_)) {
                        continue;
                    }
                    let generation = self.unique();
                    self.timers.insert((node, key), generation);
                    let after = u64::try_from(after.as_micros()).unwrap_or(u64::MAX);
                    self.after(after, Event::Timer { node, key, generation });
                }
                Output::CancelTimer(key) => _ = self.timers.remove(&(node, key)),
                Output::Steer(user, posture) => self.steer(node, user, posture),
                Output::SteerAnchor(user, posture) => self.steer_anchor(node, user, posture),
                Output::Export { user, epoch } => self.export(node, user, epoch),
                Output::Import { user, epoch, contexts } => {
                    let contexts = self.kept_or(node, user, contexts);
                    self.import(node, user, epoch, contexts);
                }
                Output::Keep(user, kept) => self.keep(node, user, kept),
                Output::KeepRoute(user, route) => self.keep_route(node, user, route),
                Output::Resume { user, rolled_back } => {
                    self.resume(node, user, rolled_back && lost);
                }
                Output::Drain { user, epoch } => self.drain_air(node, user, epoch),
                Output::Discard(user) => self.discard(node, user),
                Output::SendEndMarker { user, to, marker } => {
                    if !self.is(Mutation::NoMarkers) {
                        self.send_data(node, to, Item::Marker(user, marker));
                    }
                }
                Output::Persist { user, record, next_epoch } => {
                    self.persist(Write { user, record, next_epoch });
                }
                Output::Count(counter) => self.count(node, counter, about),
                Output::Tell(notice) => self.told(notice),
                Output::Changed(user, change) => {
                    self.note(Some(user), || {
                        format!("{node}: {} -> {} by {}", change.from, change.to, change.event)
                    });
                    if !change.is_allowed() {
                        let what = format!("{node}: {change:?}");
                        self.violated(Promise::Transitions, Some(user), what);
                    }
                    self.radio_is_there(node, user, change.to);
                    if node == NodeId::CONTROLLER && change.to == "Moving" {
                        self.go_early(user);
                    }
                }
            }
        }
        if let Some(user) = about {
            self.check_owner(user);
        }
    }

    /// A station that makes an entry knows whether the radio is there.
    fn radio_is_there(&mut self, node: NodeId, user: User, state: &str) {
        if state != "Prepared" {
            return;
        }
        let on_air = self.air.get(&(user, node)).is_some_and(|last| *last >= self.time);
        let Some(state) = self.users.get_mut(&user) else { return };
        let there = state.radio == node;
        // It has come unbidden, or did not follow a user that another node had to
        // take: what it sends from elsewhere later may be there earlier.
        if state.touched && (there || on_air) {
            state.disordered[index(Direction::Uplink)] = true;
        }
        if there && self.radios_are_told() {
            self.input(node, None, |machine, out| {
                if let Machine::Station(station) = machine {
                    station.radio_arrived(user, out);
                }
            });
        }
    }

    fn count(&mut self, node: NodeId, counter: Counter, about: Option<User>) {
        *self.statistics.counters.entry(counter.name()).or_default() += 1;
        let direction = match counter {
            Counter::UplinkGateTimeout => Some(Direction::Uplink),
            Counter::DownlinkGateTimeout => Some(Direction::Downlink),
            Counter::ReleaseTimeout => None,
            _ => return,
        };
        let told = self.radios_are_told();
        let Some(user) = about.and_then(|user| self.users.get_mut(&user)) else { return };
        // No node can know where a radio is that has said nothing since.
        let silent = !told && !user.spoke && counter == Counter::ReleaseTimeout;
        let excused = user.touched || user.untold || silent;
        if let Some(direction) = direction {
            user.disordered[index(direction)] = true;
        }
        if !excused {
            let what = format!("{node} counts {} though no End Marker is lost", counter.name());
            self.violated(Promise::Markers, about, what);
        }
    }

    /// A message goes on its way: it may be lost, doubled, late.
    pub fn send_message(&mut self, envelope: Envelope) {
        if self.is(Mutation::ResumeUnasked) {
            self.resume_unasked(&envelope);
        }
        let (from, to) = (envelope.from, envelope.to);
        self.statistics.messages += 1;
        let faulty = self.scenario.faults.messages;
        if let Message::Handover { user, step: Step::Arrived, .. } = &envelope.message
            && (self.is_cut(from, to) || self.is_untold(*user))
        {
            return self.leave_untold(*user);
        }
        if self.is_cut(from, to) || (faulty && self.random.one_in_thousand(100)) {
            self.statistics.messages_lost += 1;
            return;
        }
        let mut bytes = Vec::new();
        if envelope.emit(&mut bytes).is_err() {
            return self.violated(Promise::Transitions, None, format!("{envelope:?} has no form"));
        }
        let copies = if faulty && self.random.one_in_thousand(50) { 2 } else { 1 };
        self.statistics.messages_doubled += copies - 1;
        for _ in 0..copies {
            let delay = self.random.between(100, 500);
            let late = faulty && self.random.one_in_thousand(50);
            let times = if late { self.random.between(2, 50) } else { 1 };
            self.after(delay * times, Event::Message { to, bytes: bytes.clone() });
        }
    }

    fn is_untold(&self, user: User) -> bool {
        self.users.get(&user).is_some_and(|state| state.untold)
    }

    /// The station that the radio has left does not hear of it from the other one.
    fn leave_untold(&mut self, user: User) {
        self.statistics.messages_lost += 1;
        if let Some(state) = self.users.get_mut(&user) {
            state.untold = true;
        }
    }

    /// Tells a source to resume as soon as the controller moves its user.
    fn resume_unasked(&mut self, envelope: &Envelope) {
        let Message::Handover { user, epoch, step: Step::Imported } = &envelope.message else {
            return;
        };
        let (user, epoch) = (*user, *epoch);
        let moving = |(id, node): (&NodeId, &crate::world::StationNode)| {
            let state = node.machine.as_ref().and_then(|machine| machine.state(user));
            let source =
                state.is_some_and(|state| matches!(state.name(), "Exported" | "Forwarding"));
            source.then_some((*id, node.life))
        };
        let Some((to, life)) = self.stations.iter().find_map(moving) else { return };
        let target = Leg { node: envelope.from, incarnation: envelope.from_incarnation, epoch };
        let step = Step::Resume { target, certain: true, target_gone: false };
        self.send_message(Envelope {
            from: NodeId::CONTROLLER,
            from_incarnation: Incarnation(0),
            to,
            to_incarnation: Incarnation(life),
            message: Message::Handover { user, epoch, step },
        });
    }

    fn persist(&mut self, write: Write) {
        let life = self.controller.life;
        let delay = self.random.between(50, 1_000);
        self.controller.last_write = self.controller.last_write.max(self.time + delay);
        let time = self.controller.last_write;
        self.controller.writes.push_back(write);
        self.at(time, Event::Stored { life });
    }

    /// The oldest write is done.
    pub fn stored(&mut self, life: u32) {
        if life != self.controller.life || self.controller.machine.is_none() {
            return;
        }
        let Some((user, epoch)) = self.write_oldest() else { return };
        self.input(NodeId::CONTROLLER, Some(user), |machine, out| {
            if let Machine::Controller(controller) = machine {
                controller.persisted(user, epoch, out);
            }
        });
    }

    pub fn write_oldest(&mut self) -> Option<(User, Epoch)> {
        let Write { user, record, next_epoch } = self.controller.writes.pop_front()?;
        if !self.is(Mutation::ForgetRecords) {
            match record {
                Some(record) => _ = self.controller.records.insert(user, record),
                None => _ = self.controller.records.remove(&user),
            }
        }
        self.controller.next_epoch = next_epoch;
        let epoch = match record?.intent {
            Intent::Settled => Epoch(0),
            Intent::Move { target, .. } => target.epoch,
            Intent::Remove { epoch } => epoch,
        };
        Some((user, epoch))
    }

    /// The controller tells the program that gives it orders.
    fn told(&mut self, notice: Notice) {
        let (user, station) = match notice {
            Notice::Ready(user, node) | Notice::Aborting(user, node) => (user, Some(node)),
            Notice::Moved(user, node) => {
                self.statistics.moves += 1;
                (user, Some(node))
            }
            Notice::Aborted(user, node) => {
                self.statistics.aborted += 1;
                (user, Some(node))
            }
            Notice::Owned(user, node) => {
                self.statistics.adopted += 1;
                (user, Some(node))
            }
            Notice::NoOwner(user) => (user, None),
            Notice::Removed(user) => return self.removed(user),
            Notice::Refused(user, refusal) => {
                self.statistics.refused += 1;
                self.note(Some(user), || format!("refused: {refusal}"));
                let adding = self.users.get(&user).is_some_and(|state| state.life == Life::Adding);
                if adding && refusal == Refusal::UnknownNode {
                    self.after(5_000, Event::Add(user));
                }
                return;
            }
        };
        self.note(Some(user), || format!("told: {notice:?}"));
        let Some(state) = self.users.get_mut(&user) else { return };
        if std::mem::take(&mut state.early) && matches!(notice, Notice::Aborting(..)) {
            (state.touched, state.disordered) = (true, [true; 2]);
        }
        if matches!(notice, Notice::Owned(..)) && state.life == Life::Adding {
            state.life = Life::There;
        }
        if let Some(station) = station {
            state.wanted = station;
            let delay = self.random.between(200, 5_000);
            self.after(delay, Event::Radio(user));
        }
    }
}

/// A message in a few words, for the log.
pub(crate) fn word(message: &Message) -> String {
    match message {
        Message::Handover { epoch, step, .. } => match step {
            Step::Contexts(bytes) => format!("Contexts of {} octets, {epoch}", bytes.len()),
            Step::Prepare { .. } | Step::Route { .. } | Step::Move { .. } => {
                format!("{}, {epoch}", step.name())
            }
            step => format!("{step:?}, {epoch}"),
        },
        other => format!("{other:?}"),
    }
}
