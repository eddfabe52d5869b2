//! An anchor: it stands before the stations, and switches a user's path.

mod rest;

use std::collections::{BTreeMap, HashMap};

use crate::identity::{Direction, Epoch, Incarnation, Leg, NodeId, User};
use crate::message::{Envelope, Message, RouteStage, Step};
use crate::output::{AnchorPosture, Counter, EndMarker, Output, TimerKey, TimerKind};
use crate::record::Route;
use crate::settings::Settings;
use crate::transition::{Role, Transition};

/// The machine of one anchor, in one incarnation.
#[derive(Debug)]
pub struct Anchor {
    node: NodeId,
    incarnation: Incarnation,
    settings: Settings,
    known: bool,
    attempt: u32,
    entries: BTreeMap<User, Entry>,
    /// Users that were removed, by the epoch of that.
    removed: HashMap<User, Epoch>,
}

/// Where an anchor is with a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// One way.
    Serving,
    /// Downlink the old way; uplink of the new one waits.
    Prepared,
    /// Downlink the new way; uplink of the new one may still wait.
    Switched,
    /// The old way is over; uplink of the new one waits for the End Marker, or
    /// for the gate's time to pass.
    Closing,
}

impl State {
    /// The state's name in tables and logs.
    pub fn name(self) -> &'static str {
        match self {
            State::Serving => "Serving",
            State::Prepared => "Prepared",
            State::Switched => "Switched",
            State::Closing => "Closing",
        }
    }
}

#[derive(Debug)]
struct Entry {
    state: State,
    /// What was said last: the move, and how far it is.
    epoch: Epoch,
    stage: RouteStage,
    serving: Option<Leg>,
    next: Option<Leg>,
    /// The source has ended its path.
    ended: bool,
}

impl Entry {
    fn posture(&self) -> AnchorPosture {
        let downlink = match self.state {
            State::Serving | State::Prepared => self.serving.or(self.next),
            State::Switched | State::Closing => self.next,
        };
        AnchorPosture {
            downlink,
            accept: self.serving.map(|leg| leg.epoch),
            next: self.next.map(|leg| (leg.epoch, self.is_open())),
        }
    }

    /// What is to be kept for the next life: the only route.
    fn route(&self) -> Option<Route> {
        let serves = self.state == State::Serving && self.next.is_none();
        let is_aborted = self.stage == RouteStage::Abort;
        serves.then_some(Route { epoch: self.epoch, is_aborted, leg: self.serving })
    }

    fn is_open(&self) -> bool {
        self.ended || self.serving.is_none()
    }
}

type Outputs = Vec<Output>;

impl Anchor {
    /// An anchor that has just started, in an incarnation that it has never had
    /// before. It says hello until the controller answers.
    pub fn new(
        node: NodeId,
        incarnation: Incarnation,
        settings: Settings,
        out: &mut Outputs,
    ) -> Anchor {
        let mut anchor = Anchor {
            node,
            incarnation,
            settings,
            known: false,
            attempt: 0,
            entries: BTreeMap::new(),
            removed: HashMap::new(),
        };
        anchor.hello(out);
        anchor
    }

    /// The last life has kept this route to the user ([`Output::KeepRoute`]): no move that would
    /// change it has gone on since. The controller says the routes of all users anew in any case.
    pub fn remember(&mut self, user: User, route: Route, out: &mut Outputs) {
        let Route { epoch, is_aborted, leg } = route;
        let stage = if is_aborted { RouteStage::Abort } else { RouteStage::Complete };
        let entry = entry(State::Serving, (epoch, stage), leg, None);
        out.push(Output::SteerAnchor(user, entry.posture()));
        self.entries.insert(user, entry);
    }

    /// Where the anchor is with a user.
    pub fn state(&self, user: User) -> Option<State> {
        self.entries.get(&user).map(|entry| entry.state)
    }

    /// Users that the anchor has an entry for, in order.
    pub fn users(&self) -> impl Iterator<Item = User> {
        self.entries.keys().copied()
    }

    /// A message has come.
    pub fn message(&mut self, envelope: Envelope, out: &mut Outputs) {
        let Envelope { to_incarnation, message, .. } = envelope;
        match message {
            Message::Probe => self.send(Message::Hello, out),
            Message::Welcome if to_incarnation == self.incarnation => {
                self.known = true;
                out.push(Output::CancelTimer(TimerKey { user: None, kind: TimerKind::Resend }));
            }
            Message::Handover { user, epoch, step: Step::Route { stage, old, new } }
                if to_incarnation == self.incarnation =>
            {
                self.route(user, epoch, stage, (old, new), out);
            }
            _ => {
                out.push(Output::Count(Counter::Stale));
                self.send(Message::Hello, out);
            }
        }
    }

    fn route(
        &mut self,
        user: User,
        epoch: Epoch,
        stage: RouteStage,
        ways: (Option<Leg>, Option<Leg>),
        out: &mut Outputs,
    ) {
        let last = self.entries.get(&user).map(|entry| (entry.epoch, entry.stage.rank()));
        let news = last.is_none_or(|last| (epoch, stage.rank()) > last)
            && self.removed.get(&user).is_none_or(|removed| epoch > *removed);
        if !news {
            // What the gate waits for is answered when it opens.
            let closing = self.state(user) == Some(State::Closing);
            if !(closing && stage == RouteStage::Complete) {
                self.routed(user, epoch, stage, out);
            }
            return;
        }
        match stage {
            RouteStage::Remove => {
                self.removed.insert(user, epoch);
                self.forget(user, out);
                self.routed(user, epoch, stage, out);
            }
            RouteStage::Complete => self.finish(user, epoch, ways.1, out),
            RouteStage::Abort => {
                let fresh = entry(State::Serving, (epoch, stage), ways.0, None);
                self.put(user, fresh, "Route(Abort)", out);
                self.cancel(user, out);
                self.routed(user, epoch, stage, out);
            }
            RouteStage::Prepare | RouteStage::Switch => self.change(user, epoch, stage, ways, out),
        }
    }

    fn change(
        &mut self,
        user: User,
        epoch: Epoch,
        stage: RouteStage,
        (old, new): (Option<Leg>, Option<Leg>),
        out: &mut Outputs,
    ) {
        let same = self.entries.get(&user).filter(|entry| entry.epoch == epoch);
        let ended = same.is_some_and(|entry| entry.ended);
        let (state, event) = match stage {
            RouteStage::Switch => (State::Switched, "Route(Switch)"),
            _ => (State::Prepared, "Route(Prepare)"),
        };
        if same.is_none() {
            self.cancel(user, out);
        }
        let fresh = Entry { ended, ..entry(state, (epoch, stage), old, new) };
        self.put(user, fresh, event, out);
        if let (RouteStage::Switch, Some(old)) = (stage, old) {
            let marker = EndMarker { epoch, direction: Direction::Downlink, resumed: false };
            out.push(Output::SendEndMarker { user, to: old.node, marker });
        }
        self.routed(user, epoch, stage, out);
    }

    /// Only the new way is left, once its gate is open.
    fn finish(&mut self, user: User, epoch: Epoch, new: Option<Leg>, out: &mut Outputs) {
        let stage = RouteStage::Complete;
        match self.entries.get_mut(&user) {
            Some(entry) if entry.epoch == epoch && entry.next == new && !entry.is_open() => {
                entry.stage = stage;
                let change = change(entry.state, "Route(Complete)", State::Closing);
                entry.state = State::Closing;
                out.push(Output::Changed(user, change));
                self.set(user, out);
            }
            _ => {
                let fresh = entry(State::Serving, (epoch, stage), new, None);
                self.put(user, fresh, "Route(Complete)", out);
                self.cancel(user, out);
                self.routed(user, epoch, stage, out);
            }
        }
    }

    /// The End Marker of a source has come, behind its packets.
    pub fn end_marker(&mut self, user: User, marker: EndMarker, out: &mut Outputs) {
        if marker.direction == Direction::Uplink {
            self.open(user, marker.epoch, "End Marker", out);
        }
    }

    /// The first packet waits at the user's gate: the End Marker is under way, or
    /// lost.
    pub fn held(&mut self, user: User, out: &mut Outputs) {
        let closed = |entry: &Entry| entry.next.is_some() && !entry.is_open();
        if self
            .entries
            .get(&user)
            .is_some_and(|entry| closed(entry) && entry.state != State::Closing)
        {
            self.set(user, out);
        }
    }

    /// A timer has fired.
    pub fn timer(&mut self, key: TimerKey, out: &mut Outputs) {
        let Some(user) = key.user else { return self.hello(out) };
        let Some(entry) = self.entries.get(&user) else { return };
        if entry.next.is_some() && !entry.is_open() {
            let epoch = entry.epoch;
            out.push(Output::Count(Counter::UplinkGateTimeout));
            self.open(user, epoch, "Gate timeout", out);
        }
    }

    fn open(&mut self, user: User, epoch: Epoch, event: &'static str, out: &mut Outputs) {
        let Some(entry) = self.entries.get_mut(&user) else { return };
        if entry.epoch != epoch || entry.next.is_none() || entry.ended {
            return;
        }
        entry.ended = true;
        out.push(Output::SteerAnchor(user, entry.posture()));
        if entry.state == State::Closing {
            entry.serving = entry.next.take();
            entry.state = State::Serving;
            out.push(Output::Changed(user, change(State::Closing, event, State::Serving)));
            out.push(Output::SteerAnchor(user, entry.posture()));
            out.push(Output::KeepRoute(user, entry.route()));
            self.routed(user, epoch, RouteStage::Complete, out);
        }
        self.cancel(user, out);
    }

    fn put(&mut self, user: User, entry: Entry, event: &'static str, out: &mut Outputs) {
        out.push(Output::SteerAnchor(user, entry.posture()));
        let (to, kept) = (entry.state, entry.route());
        let before = self.entries.insert(user, entry);
        if before.as_ref().and_then(Entry::route) != kept {
            out.push(Output::KeepRoute(user, kept));
        }
        let from = before.map_or("Absent", |before| before.state.name());
        if from != to.name() {
            let to = to.name();
            out.push(Output::Changed(user, Transition { role: Role::Anchor, from, event, to }));
        }
    }

    fn forget(&mut self, user: User, out: &mut Outputs) {
        self.cancel(user, out);
        out.push(Output::Discard(user));
        if let Some(entry) = self.entries.remove(&user) {
            if entry.route().is_some() {
                out.push(Output::KeepRoute(user, None));
            }
            let (from, event, to) = (entry.state.name(), "Route(Remove)", "Absent");
            out.push(Output::Changed(user, Transition { role: Role::Anchor, from, event, to }));
        }
    }

    fn set(&self, user: User, out: &mut Outputs) {
        out.push(Output::SetTimer(gate_timer(user), self.settings.gate));
    }

    fn cancel(&self, user: User, out: &mut Outputs) {
        out.push(Output::CancelTimer(gate_timer(user)));
    }

    fn hello(&mut self, out: &mut Outputs) {
        if !self.known {
            self.send(Message::Hello, out);
            let key = TimerKey { user: None, kind: TimerKind::Resend };
            out.push(Output::SetTimer(key, self.settings.wait(self.attempt)));
            self.attempt += 1;
        }
    }

    fn routed(&self, user: User, epoch: Epoch, stage: RouteStage, out: &mut Outputs) {
        self.send(Message::Handover { user, epoch, step: Step::Routed(stage) }, out);
    }

    fn send(&self, message: Message, out: &mut Outputs) {
        out.push(Output::Send(Envelope {
            from: self.node,
            from_incarnation: self.incarnation,
            to: NodeId::CONTROLLER,
            to_incarnation: Incarnation(0),
            message,
        }));
    }
}

fn gate_timer(user: User) -> TimerKey {
    TimerKey { user: Some(user), kind: TimerKind::Gate(Direction::Uplink) }
}

fn entry(
    state: State,
    (epoch, stage): (Epoch, RouteStage),
    serving: Option<Leg>,
    next: Option<Leg>,
) -> Entry {
    Entry { state, epoch, stage, serving, next, ended: false }
}

fn change(from: State, event: &'static str, to: State) -> Transition {
    Transition { role: Role::Anchor, from: from.name(), event, to: to.name() }
}
