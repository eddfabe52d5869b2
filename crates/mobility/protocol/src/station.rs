//! A station: a node that owns users, hands them over as their source and takes
//! them as their target.

mod path;
mod rest;
mod source;
mod target;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::identity::{Direction, Epoch, Incarnation, Leg, NodeId, User};
use crate::message::{Envelope, Message, Reason, Step};
use crate::output::{Counter, EndMarker, Output, Posture, TimerKey, TimerKind, Treatment, Ways};
use crate::record::Kept;
use crate::settings::Settings;
use crate::transition::{Role, Transition};

/// How long behind a station's first word with the controller a user may be given back. The
/// controller begins at once; who comes later has most likely been elsewhere.
const GIVEN_BACK: Duration = Duration::from_secs(60);

/// The machine of one station, in one incarnation.
///
/// It remembers, for each user that it once had, up to which epoch moves are
/// over: a message that was late cannot begin them again.
#[derive(Debug)]
pub struct Station {
    node: NodeId,
    incarnation: Incarnation,
    settings: Settings,
    known: bool,
    attempt: u32,
    entries: BTreeMap<User, Entry>,
    /// Moves up to these epochs are over. Below `settled` they are for everybody.
    over: HashMap<User, Epoch>,
    /// Users that the last life owned, and whether the controller is giving them back.
    kept: BTreeMap<User, (Kept, bool)>,
    settled: Epoch,
    prepared: usize,
}

/// Where a station is with a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Target: holds everything, waits for contexts.
    Prepared,
    /// Target: makes contexts.
    Importing,
    /// Owner: works off what is forwarded; fresh packets wait for End Markers.
    Settling,
    /// Owner.
    Owning,
    /// Source: forwards; what is inside functions comes out.
    Exporting,
    /// Source: forwards; sends contexts until they are taken.
    Exported,
    /// Source: forwards; waits for the ends of both paths.
    Forwarding,
    /// Owner again: what the target returns comes before what is fresh.
    Resuming,
    /// Target of a move that was given up: returns all packets.
    Returning,
}

impl State {
    /// The state's name in tables and logs.
    pub fn name(self) -> &'static str {
        match self {
            State::Prepared => "Prepared",
            State::Importing => "Importing",
            State::Settling => "Settling",
            State::Owning => "Owning",
            State::Exporting => "Exporting",
            State::Exported => "Exported",
            State::Forwarding => "Forwarding",
            State::Resuming => "Resuming",
            State::Returning => "Returning",
        }
    }

    /// The station processes the user's packets, or holds the only right to.
    fn owns(self) -> bool {
        matches!(self, State::Settling | State::Owning | State::Resuming)
    }

    fn is_source(self) -> bool {
        matches!(self, State::Exporting | State::Exported | State::Forwarding)
    }
}

/// What a station knows of the user's radio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Radio {
    Unknown,
    Here,
    Left,
}

/// What a station knows of a user.
#[derive(Debug)]
pub(crate) struct Entry {
    state: State,
    /// By which the station owns the user, or is to.
    epoch: Epoch,
    /// The move under way, or the last one.
    link: Epoch,
    /// The other station of that move.
    peer: Option<(NodeId, Incarnation)>,
    anchor: NodeId,
    /// The other station's path has ended, or is taken to have.
    ended: [bool; 2],
    /// Returning: the path back has ended.
    returned: [bool; 2],
    /// A fresh packet waits.
    held: [bool; 2],
    radio: Radio,
    /// The radio leaves, or has left; what the ports have received of it is awaited.
    leaving: bool,
    /// Source: may go once both paths have ended. Others: the controller waits
    /// to hear that the move is over here.
    asked: bool,
    /// The other station is done, or gone: gates open after their time in any case.
    grace: bool,
    /// Owning anew or in the place of another: nothing was exported for it.
    lost: bool,
    /// What is kept for the next life.
    kept: Option<Kept>,
    contexts: Option<Vec<u8>>,
    attempt: u32,
}

fn index(direction: Direction) -> usize {
    match direction {
        Direction::Uplink => 0,
        Direction::Downlink => 1,
    }
}

impl Entry {
    fn new(epoch: Epoch, peer: Option<(NodeId, Incarnation)>, anchor: NodeId) -> Entry {
        Entry {
            state: State::Prepared,
            epoch,
            link: epoch,
            peer,
            anchor,
            ended: [false; 2],
            returned: [false; 2],
            held: [false; 2],
            radio: Radio::Unknown,
            leaving: false,
            asked: false,
            grace: false,
            lost: false,
            kept: None,
            contexts: None,
            attempt: 0,
        }
    }

    fn ended(&self, direction: Direction) -> bool {
        self.ended[index(direction)]
    }

    fn all_ended(&self) -> bool {
        self.ended == [true; 2]
    }

    /// What is to be kept for the next life: that the station owns the user.
    fn to_keep(&self) -> Option<Kept> {
        self.state.owns().then_some(Kept { epoch: self.epoch, last: self.link })
    }

    fn posture(&self) -> Posture {
        let peer = self.peer.map_or(Treatment::Refuse, |(node, _)| Treatment::Forward(node));
        let gate = |direction, open| if self.ended(direction) { open } else { Treatment::Hold };
        let gates = |open| Ways {
            uplink: gate(Direction::Uplink, open),
            downlink: gate(Direction::Downlink, open),
        };
        let (fresh, forwarded) = match self.state {
            State::Prepared | State::Importing => {
                (Ways::both(Treatment::Hold), Ways::both(Treatment::Hold))
            }
            State::Settling | State::Resuming => {
                (gates(Treatment::Process), Ways::both(Treatment::Process))
            }
            State::Owning => (Ways::both(Treatment::Process), Ways::both(Treatment::Process)),
            // What a target returns that gives up waits until the source resumes.
            State::Exporting | State::Exported | State::Forwarding => {
                (Ways::both(peer), Ways::both(Treatment::Hold))
            }
            State::Returning => {
                let fresh = Ways { uplink: gate(Direction::Uplink, peer), downlink: peer };
                (fresh, Ways::both(peer))
            }
        };
        Posture { epoch: self.epoch, link: self.link, fresh, forwarded }
    }
}

type Outputs = Vec<Output>;

impl Station {
    /// A station that has just started, in an incarnation that it has never had
    /// before. It says hello until the controller answers.
    pub fn new(
        node: NodeId,
        incarnation: Incarnation,
        settings: Settings,
        out: &mut Outputs,
    ) -> Station {
        let mut station = Station {
            node,
            incarnation,
            settings,
            known: false,
            attempt: 0,
            entries: BTreeMap::new(),
            kept: BTreeMap::new(),
            over: HashMap::new(),
            settled: Epoch::default(),
            prepared: 0,
        };
        station.hello(out);
        station
    }

    /// Whether the station owns the user: processes its packets, or holds the
    /// only right to.
    pub fn owns(&self, user: User) -> bool {
        self.state(user).is_some_and(State::owns)
    }

    /// Where the station is with a user.
    pub fn state(&self, user: User) -> Option<State> {
        self.entries.get(&user).map(|entry| entry.state)
    }

    /// Users that the station has an entry for, in order.
    pub fn users(&self) -> impl Iterator<Item = User> {
        self.entries.keys().copied()
    }

    /// The last life owned the user so ([`Output::Keep`]), and its contexts are at hand.
    pub fn remember(&mut self, user: User, kept: Kept) {
        self.kept.insert(user, (kept, false));
    }

    /// Users that the controller has not begun to give back by now are not the station's.
    fn forget_kept(&mut self, out: &mut Outputs) {
        self.kept.retain(|user, (_, is_asked)| {
            if !*is_asked {
                out.push(Output::Keep(*user, None));
            }
            *is_asked
        });
    }

    /// The user is not as the last life had it any more; whether it was.
    fn take_kept(&mut self, user: User, out: &mut Outputs) -> bool {
        let was = self.kept.remove(&user).is_some();
        if was && self.kept.is_empty() {
            out.push(Output::CancelTimer(TimerKey { user: None, kind: TimerKind::Release }));
        }
        was
    }

    /// A message has come.
    pub fn message(&mut self, envelope: Envelope, out: &mut Outputs) {
        let Envelope { from, from_incarnation, to_incarnation, message, .. } = envelope;
        match message {
            Message::Probe => self.send(from, Incarnation(0), Message::Hello, out),
            Message::Welcome if to_incarnation == self.incarnation => {
                if !std::mem::replace(&mut self.known, true) && !self.kept.is_empty() {
                    let key = TimerKey { user: None, kind: TimerKind::Release };
                    out.push(Output::SetTimer(key, GIVEN_BACK));
                }
                out.push(Output::CancelTimer(TimerKey { user: None, kind: TimerKind::Resend }));
            }
            Message::Welcome if from == NodeId::CONTROLLER && to_incarnation > self.incarnation => {
                self.begin_anew(to_incarnation, out);
            }
            Message::Handover { user, epoch, step } if to_incarnation == self.incarnation => {
                self.step((from, from_incarnation), user, epoch, step, out);
            }
            _ => {
                out.push(Output::Count(Counter::Stale));
                if from == NodeId::CONTROLLER {
                    self.send(from, Incarnation(0), Message::Hello, out);
                }
            }
        }
    }

    fn step(
        &mut self,
        from: (NodeId, Incarnation),
        user: User,
        epoch: Epoch,
        step: Step,
        out: &mut Outputs,
    ) {
        match step {
            Step::Prepare { source, kept, anchor, settled } => {
                self.settle(settled);
                let peer = source.map(|leg| (leg.node, leg.incarnation));
                if !self.is_over(user, epoch) {
                    self.look_at_kept(user, epoch, kept.filter(|_| peer.is_none()), out);
                }
                self.prepare(user, epoch, peer, anchor, out);
            }
            Step::Contexts(bytes) => self.contexts(from, user, epoch, bytes, out),
            Step::Adopt { lost } => self.adopt(user, epoch, lost, out),
            Step::Abort => self.abort(user, epoch, out),
            Step::Move { target } => self.begin(user, epoch, target, out),
            Step::Taken => self.taken(user, epoch, out),
            Step::Resume { target, certain, target_gone } => {
                self.resume(user, Leg { epoch, ..target }, certain, target_gone, out);
            }
            Step::Arrived => self.arrived_there(user, epoch, out),
            Step::Release => self.release(user, epoch, out),
            Step::Complete => self.complete(user, epoch, out),
            Step::Remove => self.remove(user, epoch, out),
            // The target tells the controller, too, which decides.
            Step::Refused(_) => {}
            _ => out.push(Output::Count(Counter::Stale)),
        }
    }

    /// A timer has fired.
    pub fn timer(&mut self, key: TimerKey, out: &mut Outputs) {
        match (key.user, key.kind) {
            (None, TimerKind::Release) => self.forget_kept(out),
            (None, _) => self.hello(out),
            (Some(user), TimerKind::Resend) => {
                self.send_contexts(user, out);
                self.say_arrived(user, true, out);
            }
            (Some(user), TimerKind::Gate(direction)) => self.gate_timeout(user, direction, out),
            (Some(user), TimerKind::Release) => self.release_timeout(user, out),
        }
    }

    /// The user is forgotten, whatever was under way.
    fn remove(&mut self, user: User, epoch: Epoch, out: &mut Outputs) {
        if self.entries.get(&user).is_none_or(|entry| entry.link < epoch) {
            self.forget(user, epoch, "Remove", out);
            self.answer(user, epoch, Step::Removed, out);
        }
    }

    /// The controller has given this station up, and its users are another one's: it goes on as
    /// one that has just started.
    fn begin_anew(&mut self, incarnation: Incarnation, out: &mut Outputs) {
        let entries = self.entries.iter().map(|(user, entry)| (*user, entry.link));
        for (user, link) in entries.collect::<Vec<_>>() {
            self.forget(user, link, "Given up", out);
        }
        for user in self.kept.keys().copied().collect::<Vec<_>>() {
            self.take_kept(user, out);
            out.push(Output::Keep(user, None));
        }
        (self.incarnation, self.known, self.attempt) = (incarnation, false, 0);
        self.hello(out);
    }

    fn hello(&mut self, out: &mut Outputs) {
        if self.known {
            return;
        }
        self.send(NodeId::CONTROLLER, Incarnation(0), Message::Hello, out);
        let key = TimerKey { user: None, kind: TimerKind::Resend };
        out.push(Output::SetTimer(key, self.settings.wait(self.attempt)));
        self.attempt += 1;
    }

    /// Moves below `settled` are over; none have to be remembered.
    fn settle(&mut self, settled: Epoch) {
        if settled > self.settled {
            self.settled = settled;
            // Every so often, not each time.
            if self.over.len() > 64 && self.over.len() > 2 * self.entries.len() {
                self.over.retain(|_, epoch| *epoch >= settled);
            }
        }
    }

    /// Whether moves of `epoch` are over for the user.
    fn is_over(&self, user: User, epoch: Epoch) -> bool {
        epoch < self.settled || self.over.get(&user).is_some_and(|over| epoch <= *over)
    }

    fn note_over(&mut self, user: User, epoch: Epoch) {
        let over = self.over.entry(user).or_default();
        *over = epoch.max(*over);
    }

    /// The station has nothing to do with the user any more.
    fn forget(&mut self, user: User, epoch: Epoch, event: &'static str, out: &mut Outputs) {
        self.note_over(user, epoch);
        let Some(entry) = self.entries.remove(&user) else { return };
        self.note_over(user, entry.link);
        self.count_prepared(Some(entry.state), None);
        let kinds = Direction::ALL.map(TimerKind::Gate);
        for kind in kinds.into_iter().chain([TimerKind::Resend, TimerKind::Release]) {
            out.push(Output::CancelTimer(TimerKey { user: Some(user), kind }));
        }
        if self.take_kept(user, out) || entry.kept.is_some() {
            out.push(Output::Keep(user, None));
        }
        out.push(Output::Discard(user));
        let (from, to) = (entry.state.name(), "Absent");
        out.push(Output::Changed(user, Transition { role: Role::Station, from, event, to }));
    }

    fn count_prepared(&mut self, before: Option<State>, after: Option<State>) {
        let waits = |state| matches!(state, Some(State::Prepared | State::Importing));
        self.prepared += usize::from(waits(after));
        self.prepared -= usize::from(waits(before));
    }

    /// Puts a user's entry into a state, and its packets on the way of it.
    fn enter(&mut self, user: User, state: State, event: &'static str, out: &mut Outputs) {
        let Some(entry) = self.entries.get_mut(&user) else { return };
        let before = std::mem::replace(&mut entry.state, state);
        let kept = entry.to_keep();
        if entry.kept != kept {
            entry.kept = kept;
            out.push(Output::Keep(user, kept));
        }
        out.push(Output::Steer(user, entry.posture()));
        self.count_prepared(Some(before), Some(state));
        if before != state {
            let (from, to) = (before.name(), state.name());
            out.push(Output::Changed(user, Transition { role: Role::Station, from, event, to }));
        }
    }

    fn send(&self, to: NodeId, to_incarnation: Incarnation, message: Message, out: &mut Outputs) {
        out.push(Output::Send(Envelope {
            from: self.node,
            from_incarnation: self.incarnation,
            to,
            to_incarnation,
            message,
        }));
    }

    /// Says something to the controller.
    fn answer(&self, user: User, epoch: Epoch, step: Step, out: &mut Outputs) {
        let message = Message::Handover { user, epoch, step };
        self.send(NodeId::CONTROLLER, Incarnation(0), message, out);
    }

    fn refuse(&self, user: User, epoch: Epoch, reason: Reason, out: &mut Outputs) {
        self.answer(user, epoch, Step::Refused(reason), out);
    }

    fn set(&self, user: User, kind: TimerKind, out: &mut Outputs) {
        let after = match kind {
            TimerKind::Gate(_) => self.settings.gate,
            TimerKind::Resend => self.settings.resend,
            TimerKind::Release => self.settings.release,
        };
        out.push(Output::SetTimer(TimerKey { user: Some(user), kind }, after));
    }

    /// Sets the timers of all gates that are closed.
    fn set_gates(&self, user: User, out: &mut Outputs) {
        let Some(entry) = self.entries.get(&user) else { return };
        for direction in Direction::ALL.into_iter().filter(|way| !entry.ended(*way)) {
            self.set(user, TimerKind::Gate(direction), out);
        }
    }

    fn cancel(&self, user: User, kind: TimerKind, out: &mut Outputs) {
        out.push(Output::CancelTimer(TimerKey { user: Some(user), kind }));
    }
}

fn end_marker(user: User, to: NodeId, epoch: Epoch, direction: Direction, resumed: bool) -> Output {
    Output::SendEndMarker { user, to, marker: EndMarker { epoch, direction, resumed } }
}
