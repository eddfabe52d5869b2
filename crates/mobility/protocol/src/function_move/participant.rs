//! The participant in functions' moves: the node that serves functions of others.

use std::collections::BTreeMap;

use super::{MoveKey, Output, Settings};
use crate::identity::{Epoch, Incarnation, NodeId};
use crate::message::{Envelope, FunctionStep, Message, Piece, Side};
use crate::transition::{Role, Transition};

/// The machine of one node, for all functions that it serves, in one incarnation.
///
/// It remembers, for each function of each coordinator, up to which epoch moves are over: a
/// message that was late cannot begin them again.
#[derive(Debug)]
pub struct Participant {
    node: NodeId,
    incarnation: Incarnation,
    settings: Settings,
    sessions: BTreeMap<Party, Session>,
    over: BTreeMap<Party, Epoch>,
}

/// A coordinator's node, and a function of it.
type Party = (NodeId, String);

/// Where a participant is with a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The node looks whether it has the function.
    Checking,
    /// The coordinator is to say what it wants.
    Ready,
    /// Target: a piece is written.
    Writing,
    /// Source: a piece is read.
    Reading,
    /// All contexts have come, or gone.
    Complete,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Checking => "Checking",
            State::Ready => "Ready",
            State::Writing => "Writing",
            State::Reading => "Reading",
            State::Complete => "Complete",
        }
    }
}

#[derive(Debug)]
struct Session {
    epoch: Epoch,
    coordinator: Incarnation,
    side: Side,
    state: State,
    /// The piece that is to come, or to be fetched.
    next: u32,
    /// Source: the piece before, which may not have arrived.
    sent: Option<Piece>,
}

type Outputs = Vec<Output>;

impl Participant {
    /// A participant that has just started, in an incarnation that it has never had before.
    pub fn new(node: NodeId, incarnation: Incarnation, settings: Settings) -> Participant {
        let (sessions, over) = (BTreeMap::new(), BTreeMap::new());
        Participant { node, incarnation, settings, sessions, over }
    }

    /// Moves that are under way: coordinator and function of each.
    pub fn moving(&self) -> impl Iterator<Item = (NodeId, &str)> {
        self.sessions.keys().map(|(node, function)| (*node, function.as_str()))
    }

    /// A message has come.
    pub fn message(&mut self, envelope: Envelope, out: &mut Outputs) {
        let Envelope { from, from_incarnation, to_incarnation, message, .. } = envelope;
        let Message::FunctionMove { function, epoch, step } = message else { return };
        let key = MoveKey { coordinator: Some(from), function, epoch };
        let is_prepare = matches!(step, FunctionStep::Prepare { .. });
        let is_meant = to_incarnation == self.incarnation
            || (is_prepare && to_incarnation == Incarnation::default());
        let to = from_incarnation;
        // A piece that is being written must not come behind those of another move.
        let is_writing = self.sessions.get(&party(&key)).map(|one| (one.state, one.epoch));
        if let Some((State::Writing, epoch)) = is_writing
            && key.epoch >= epoch
            && !matches!(step, FunctionStep::Contexts(_) | FunctionStep::Fetch(_))
        {
            return;
        }
        match step {
            FunctionStep::Release => {
                self.over(&key, "Release", out);
                self.send(&key, to, FunctionStep::Released, out);
            }
            FunctionStep::Abort => {
                self.over(&key, "Abort", out);
                self.send(&key, to, FunctionStep::Aborted, out);
            }
            _ if !is_meant => {
                self.refuse(&key, to, "it has started anew and knows nothing of the move", out);
            }
            FunctionStep::Prepare { side, kind } => self.prepare(&key, to, (side, kind), out),
            FunctionStep::Contexts(piece) => self.take(&key, to, piece, out),
            FunctionStep::Fetch(number) => self.fetch(&key, to, number, out),
            _ => {}
        }
    }

    fn prepare(
        &mut self,
        key: &MoveKey,
        to: Incarnation,
        (side, kind): (Side, String),
        out: &mut Outputs,
    ) {
        let party = party(key);
        let over = self.over.get(&party).copied().unwrap_or_default();
        let newest = self.sessions.get(&party).map_or(over, |one| one.epoch.max(over));
        if over >= key.epoch || newest > key.epoch {
            let reason = "it knows of a newer move".to_owned();
            return self.send(key, to, FunctionStep::Refused { newest, reason }, out);
        }
        match self.sessions.get(&party) {
            Some(session) if session.epoch == key.epoch => {
                if session.state == State::Ready && session.next == 0 {
                    self.send(key, to, FunctionStep::Prepared, out);
                }
                return;
            }
            Some(session) => {
                let before = MoveKey { epoch: session.epoch, ..key.clone() };
                self.over(&before, "Prepare", out);
            }
            None => {}
        }
        let (epoch, state) = (key.epoch, State::Checking);
        let session = Session { epoch, coordinator: to, side, state, next: 0, sent: None };
        self.sessions.insert(party, session);
        changed(key, "Absent", "Prepare", State::Checking.name(), out);
        out.push(Output::Check(key.clone(), kind));
        self.listen(key, out);
    }

    /// The node has the function; or why its contexts are not to be had.
    pub fn checked(&mut self, key: &MoveKey, checked: Result<(), String>, out: &mut Outputs) {
        let Some(to) = self.in_state(key, State::Checking).map(|one| one.coordinator) else {
            return;
        };
        match checked {
            Ok(()) => {
                self.enter(key, State::Ready, "Checked", out);
                self.send(key, to, FunctionStep::Prepared, out);
            }
            Err(reason) => {
                // Nothing has happened: said again, it is looked at again.
                self.forget(key, "Failed", out);
                self.refuse(key, to, &reason, out);
            }
        }
    }

    fn take(&mut self, key: &MoveKey, to: Incarnation, piece: Piece, out: &mut Outputs) {
        let Some(session) = self.current(key).filter(|one| one.side == Side::Target) else {
            return self.refuse(key, to, "it knows nothing of the move", out);
        };
        let (state, next) = (session.state, session.next);
        self.listen(key, out);
        if piece.number < next {
            self.send(key, to, FunctionStep::Taken(piece.number), out);
        } else if piece.number == next && state == State::Ready {
            self.enter(key, State::Writing, "Contexts", out);
            out.push(Output::Write(key.clone(), piece));
        }
    }

    /// The piece of this number was written; or why not.
    pub fn written(
        &mut self,
        key: &MoveKey,
        (number, is_last): (u32, bool),
        written: Result<(), String>,
        out: &mut Outputs,
    ) {
        let Some(session) = self.in_state(key, State::Writing) else { return };
        let to = session.coordinator;
        match written {
            Ok(()) if number == session.next => {
                session.next += 1;
                let state = if is_last { State::Complete } else { State::Ready };
                self.enter(key, state, "Written", out);
                self.send(key, to, FunctionStep::Taken(number), out);
            }
            Ok(()) => {}
            Err(reason) => self.fail(key, to, &reason, out),
        }
    }

    fn fetch(&mut self, key: &MoveKey, to: Incarnation, number: u32, out: &mut Outputs) {
        let Some(session) = self.current(key).filter(|one| one.side == Side::Source) else {
            return self.refuse(key, to, "it knows nothing of the move", out);
        };
        let (state, next, sent) = (session.state, session.next, session.sent.clone());
        self.listen(key, out);
        if let Some(piece) = sent.filter(|piece| piece.number == number) {
            self.send(key, to, FunctionStep::Contexts(piece), out);
        } else if number == next && state == State::Ready {
            self.enter(key, State::Reading, "Fetch", out);
            out.push(Output::Read(key.clone(), number));
        }
    }

    /// A piece was read; or why not.
    pub fn read(&mut self, key: &MoveKey, piece: Result<Piece, String>, out: &mut Outputs) {
        let Some(session) = self.in_state(key, State::Reading) else { return };
        let to = session.coordinator;
        match piece {
            Ok(piece) if piece.number == session.next => {
                session.next += 1;
                session.sent = Some(piece.clone());
                let state = if piece.is_last { State::Complete } else { State::Ready };
                self.enter(key, state, "Read", out);
                self.send(key, to, FunctionStep::Contexts(piece), out);
            }
            Ok(_) => {}
            Err(reason) => self.fail(key, to, &reason, out),
        }
    }

    /// A timer has fired: the coordinator has gone. What is here of contexts stays, since
    /// packets may come to it.
    pub fn timer(&mut self, key: &MoveKey, out: &mut Outputs) {
        match self.current(key).map(|session| session.state) {
            Some(State::Writing) => self.listen(key, out),
            Some(_) => self.over(key, "Silence", out),
            None => {}
        }
    }

    fn fail(&mut self, key: &MoveKey, to: Incarnation, reason: &str, out: &mut Outputs) {
        self.over(key, "Failed", out);
        self.refuse(key, to, reason, out);
    }

    /// Moves of a function up to this one are over.
    fn over(&mut self, key: &MoveKey, event: &'static str, out: &mut Outputs) {
        let over = self.over.entry(party(key)).or_default();
        *over = key.epoch.max(*over);
        self.forget(key, event, out);
    }

    fn forget(&mut self, key: &MoveKey, event: &'static str, out: &mut Outputs) {
        let party = party(key);
        if self.sessions.get(&party).is_some_and(|session| session.epoch <= key.epoch)
            && let Some(session) = self.sessions.remove(&party)
        {
            let key = MoveKey { epoch: session.epoch, ..key.clone() };
            out.push(Output::CancelTimer(key.clone()));
            changed(&key, session.state.name(), event, "Absent", out);
            out.push(Output::Ended(key));
        }
    }

    /// The coordinator was heard.
    fn listen(&self, key: &MoveKey, out: &mut Outputs) {
        out.push(Output::SetTimer(key.clone(), self.settings.silence));
    }

    fn enter(&mut self, key: &MoveKey, state: State, event: &'static str, out: &mut Outputs) {
        if let Some(session) = self.current(key) {
            let from = std::mem::replace(&mut session.state, state);
            changed(key, from.name(), event, state.name(), out);
        }
    }

    fn refuse(&self, key: &MoveKey, to: Incarnation, reason: &str, out: &mut Outputs) {
        let (newest, reason) = (Epoch::default(), reason.to_owned());
        self.send(key, to, FunctionStep::Refused { newest, reason }, out);
    }

    fn send(&self, key: &MoveKey, to: Incarnation, step: FunctionStep, out: &mut Outputs) {
        let MoveKey { coordinator, function, epoch } = key.clone();
        let envelope = Envelope {
            from: self.node,
            from_incarnation: self.incarnation,
            to: coordinator.unwrap_or_default(),
            to_incarnation: to,
            message: Message::FunctionMove { function, epoch, step },
        };
        out.push(Output::Send(None, envelope));
    }

    fn current(&mut self, key: &MoveKey) -> Option<&mut Session> {
        self.sessions.get_mut(&party(key)).filter(|session| session.epoch == key.epoch)
    }

    fn in_state(&mut self, key: &MoveKey, state: State) -> Option<&mut Session> {
        self.current(key).filter(|session| session.state == state)
    }
}

fn party(key: &MoveKey) -> Party {
    (key.coordinator.unwrap_or_default(), key.function.clone())
}

fn changed(
    key: &MoveKey,
    from: &'static str,
    event: &'static str,
    to: &'static str,
    out: &mut Outputs,
) {
    out.push(Output::Changed(key.clone(), Transition { role: Role::Participant, from, event, to }));
}
