//! The coordinator of functions' moves: the node that steers their packets, and decides.

use std::collections::BTreeMap;
use std::time::Duration;

use super::state::State;
use super::{Destination, MoveKey, Order, Output, Settings};
use crate::identity::{Epoch, Incarnation, NodeId};
use crate::message::{Envelope, FunctionStep, Message, Piece, Side};
use crate::transition::{Role, Transition};

/// The machine of one node, for all functions of its rules, in one incarnation.
#[derive(Debug)]
pub struct Coordinator {
    node: NodeId,
    incarnation: Incarnation,
    settings: Settings,
    /// No move has this epoch, or a higher one.
    next: Epoch,
    /// The last move of each function.
    moves: BTreeMap<String, Move>,
}

/// What an order comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderOutcome {
    /// A move begins.
    Begun,
    /// The same move is under way.
    Joined,
    /// The last move was the same, and has taken the function there.
    Done,
    /// Another move of the function is under way.
    Busy,
}

/// What a move has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is under way.
    Moving(State),
    /// The function is at the destination, with so many contexts.
    Moved {
        /// Contexts that went along.
        contexts: u64,
    },
    /// The function is where it was: why.
    Failed(String),
}

#[derive(Debug)]
struct Move {
    epoch: Epoch,
    order: Order,
    state: State,
    /// The participant, once it has answered.
    party: Option<(NodeId, Incarnation)>,
    /// What was said last and is not answered.
    request: Option<FunctionStep>,
    attempt: u32,
    piece: u32,
    contexts: u64,
    /// Why the other node was not to be reached the last time.
    unreachable: Option<String>,
    /// Why the function stays where it was.
    failure: Option<String>,
}

type Outputs = Vec<Output>;

impl Coordinator {
    /// A coordinator that has just started; its moves have epochs from `first` on, which rise
    /// from one life of the node to the next.
    pub fn new(
        node: NodeId,
        incarnation: Incarnation,
        first: Epoch,
        settings: Settings,
    ) -> Coordinator {
        Coordinator { node, incarnation, settings, next: first, moves: BTreeMap::new() }
    }

    /// A function is to be elsewhere. An order that is given again joins the move that the
    /// first one has begun, or is told what has come of it; a move that has failed begins anew.
    pub fn order(&mut self, function: &str, order: Order, out: &mut Outputs) -> OrderOutcome {
        if let Some(last) = self.moves.get(function) {
            match (last.state, last.order == order) {
                (State::Failed, _) => {}
                (State::Moved, true) => return OrderOutcome::Done,
                (State::Moved, false) => {}
                (_, true) => return OrderOutcome::Joined,
                (_, false) => return OrderOutcome::Busy,
            }
        }
        let epoch = self.raise();
        let side = match order.destination {
            Destination::Peer => Side::Target,
            Destination::Here => Side::Source,
        };
        let (kind, has_peer) = (order.kind.clone(), order.peer.is_some());
        let begun = Move {
            epoch,
            order,
            state: State::Failed,
            party: None,
            request: None,
            attempt: 0,
            piece: 0,
            contexts: 0,
            unreachable: None,
            failure: None,
        };
        self.moves.insert(function.to_owned(), begun);
        match has_peer {
            true => {
                self.enter_from("Absent", function, State::Preparing, "Order", out);
                self.ask(function, FunctionStep::Prepare { side, kind }, out);
            }
            false => {
                self.enter_from("Absent", function, State::Gating, "Order", out);
                self.gate(function, out);
            }
        }
        OrderOutcome::Begun
    }

    /// What the last move of a function has come to.
    pub fn outcome(&self, function: &str) -> Option<Outcome> {
        let last = self.moves.get(function)?;
        Some(match last.state {
            State::Moved => Outcome::Moved { contexts: last.contexts },
            State::Failed => Outcome::Failed(last.failure.clone().unwrap_or_default()),
            state => Outcome::Moving(state),
        })
    }

    /// Functions that are on the move.
    pub fn moving(&self) -> impl Iterator<Item = &str> {
        let moving = self.moves.iter().filter(|(_, one)| !one.state.is_over());
        moving.map(|(function, _)| function.as_str())
    }

    /// A message has come.
    pub fn message(&mut self, envelope: Envelope, out: &mut Outputs) {
        let Envelope { from, from_incarnation, to_incarnation, message, .. } = envelope;
        let Message::FunctionMove { function, epoch, step } = message else { return };
        let party = (from, from_incarnation);
        let Some(one) = self.moves.get_mut(&function) else { return };
        let known = one.party.is_none_or(|known| known == party);
        if to_incarnation != self.incarnation || one.epoch != epoch || !known {
            return;
        }
        match (one.state, step) {
            (State::Preparing, FunctionStep::Prepared) => {
                one.party = Some(party);
                self.enter(&function, State::Gating, "Prepared", out);
                self.gate(&function, out);
            }
            (State::Sending, FunctionStep::Taken(number)) if number == one.piece => {
                let was_last = matches!(
                    &one.request,
                    Some(FunctionStep::Contexts(Piece { is_last: true, .. }))
                );
                self.next_piece(&function, was_last, "Taken", out);
            }
            (State::Fetching, FunctionStep::Contexts(piece)) if piece.number == one.piece => {
                self.enter(&function, State::Writing, "Contexts", out);
                self.act(&function, |key| Output::Write(key, piece), out);
            }
            (State::Releasing, FunctionStep::Released) => {
                self.end(&function, State::Moved, "Released", out);
            }
            (State::Releasing, FunctionStep::Refused { .. }) => {
                self.end(&function, State::Moved, "Refused", out);
            }
            (State::Aborting, FunctionStep::Aborted) => {
                self.end(&function, State::Failed, "Aborted", out);
            }
            (State::Aborting, FunctionStep::Refused { .. }) => {
                self.end(&function, State::Failed, "Refused", out);
            }
            (_, FunctionStep::Refused { newest, reason }) => {
                self.refused(&function, newest, reason, out);
            }
            _ => {}
        }
    }

    fn refused(&mut self, function: &str, newest: Epoch, reason: String, out: &mut Outputs) {
        let Some(one) = self.moves.get_mut(function) else { return };
        let said = format!("the other node: {reason}");
        match one.state {
            // It knows of newer moves of this node than this node does, which has started since.
            State::Preparing if newest >= one.epoch => {
                self.next = self.next.max(Epoch(newest.0.saturating_add(1)));
                let epoch = self.raise();
                if let Some(one) = self.moves.get_mut(function) {
                    out.push(Output::CancelTimer(key(function, one.epoch)));
                    one.epoch = epoch;
                    one.attempt = 0;
                    self.send(function, out);
                }
            }
            State::Preparing => {
                one.failure = Some(said);
                self.end(function, State::Failed, "Refused", out);
            }
            // What a participant refuses once packets wait is the piece that was asked for; a
            // refusal that was late tells the same: it has forgotten the move.
            State::Reading | State::Sending | State::Fetching | State::Writing => {
                self.give_up(function, said, "Refused", out);
            }
            _ => {}
        }
    }

    /// A message of the move did not leave, or was not answered for this reason.
    pub fn unreachable(&mut self, key: &MoveKey, reason: &str, out: &mut Outputs) {
        let Some(one) = self.current(key) else { return };
        let said = format!("the other node: {reason}");
        if one.state == State::Preparing {
            // Nothing waits yet, so nothing is to be waited for.
            one.failure = Some(said);
            return self.end(&key.function, State::Failed, "Unreachable", out);
        }
        one.unreachable = Some(said);
    }

    /// Packets wait and none is at the function; or why not.
    pub fn gated(&mut self, key: &MoveKey, gated: Result<(), String>, out: &mut Outputs) {
        let function = &key.function;
        let Some(one) = self.in_state(key, State::Gating) else { return };
        let (destination, has_peer) = (one.order.destination, one.order.peer.is_some());
        match (gated, destination) {
            (Err(reason), _) => self.give_up(function, reason, "Failed", out),
            (Ok(()), Destination::Peer) if !has_peer => {
                self.give_up(function, "no other node is named".to_owned(), "Failed", out);
            }
            (Ok(()), Destination::Peer) => {
                self.enter(function, State::Reading, "Gated", out);
                self.act(function, |key| Output::Read(key, 0), out);
            }
            (Ok(()), Destination::Here) if has_peer => {
                self.enter(function, State::Fetching, "Gated", out);
                self.ask(function, FunctionStep::Fetch(0), out);
            }
            (Ok(()), Destination::Here) => {
                self.enter(function, State::Switching, "Gated", out);
                self.act(function, Output::Switch, out);
            }
        }
    }

    /// A piece was read; or why not.
    pub fn read(&mut self, key: &MoveKey, piece: Result<Piece, String>, out: &mut Outputs) {
        let Some(one) = self.in_state(key, State::Reading) else { return };
        match piece {
            Ok(piece) if piece.number == one.piece => {
                one.contexts += u64::from(piece.count);
                self.enter(&key.function, State::Sending, "Read", out);
                self.ask(&key.function, FunctionStep::Contexts(piece), out);
            }
            Ok(_) => {}
            Err(reason) => self.give_up(&key.function, reason, "Failed", out),
        }
    }

    /// The piece of this number, with so many contexts, was written; or why not.
    pub fn written(
        &mut self,
        key: &MoveKey,
        (number, is_last, count): (u32, bool, u32),
        written: Result<(), String>,
        out: &mut Outputs,
    ) {
        let Some(one) = self.in_state(key, State::Writing) else { return };
        match written {
            Ok(()) if number == one.piece => {
                one.contexts += u64::from(count);
                self.next_piece(&key.function, is_last, "Written", out);
            }
            Ok(()) => {}
            Err(reason) => self.give_up(&key.function, reason, "Failed", out),
        }
    }

    /// Packets go on at the destination; or where the function was, and why.
    pub fn switched(&mut self, key: &MoveKey, switched: Result<(), String>, out: &mut Outputs) {
        let function = &key.function;
        let Some(one) = self.in_state(key, State::Switching) else { return };
        let has_party = one.party.is_some();
        match switched {
            Ok(()) if has_party => {
                self.enter(function, State::Releasing, "Switched", out);
                self.ask(function, FunctionStep::Release, out);
            }
            Ok(()) => self.end(function, State::Moved, "Switched", out),
            Err(reason) => {
                one.failure = Some(reason);
                self.abort(function, "Failed", out);
            }
        }
    }

    /// Packets go on where the function was.
    pub fn restored(&mut self, key: &MoveKey, out: &mut Outputs) {
        if self.in_state(key, State::Restoring).is_some() {
            self.abort(&key.function, "Restored", out);
        }
    }

    /// A timer has fired.
    pub fn timer(&mut self, key: &MoveKey, out: &mut Outputs) {
        let most = self.settings.attempts;
        let function = &key.function;
        let Some(one) = self.current(key) else { return };
        if one.state.is_local() {
            return self.late(key, out);
        }
        one.attempt += 1;
        if one.attempt < most {
            return self.send(function, out);
        }
        let silent = || "the other node does not answer".to_owned();
        let reason = one.unreachable.clone().unwrap_or_else(silent);
        match one.state {
            State::Releasing => self.end(function, State::Moved, "Given up", out),
            State::Aborting => self.end(function, State::Failed, "Given up", out),
            State::Preparing => {
                one.failure = Some(reason);
                self.abort(function, "Given up", out);
            }
            _ => self.give_up(function, reason, "Given up", out),
        }
    }

    /// The node itself has taken too long.
    fn late(&mut self, key: &MoveKey, out: &mut Outputs) {
        let Some(one) = self.current(key) else { return };
        match one.state {
            // It may have happened: there is no way but on.
            State::Switching => self.act(&key.function, Output::Switch, out),
            State::Restoring => {
                let reason = one.failure.clone().unwrap_or_default();
                self.act(&key.function, |key| Output::Restore(key, reason), out);
            }
            _ => self.give_up(&key.function, "the workers are busy".to_owned(), "Given up", out),
        }
    }

    /// The next piece, or the switch where there is none.
    fn next_piece(
        &mut self,
        function: &str,
        was_last: bool,
        event: &'static str,
        out: &mut Outputs,
    ) {
        let Some(one) = self.moves.get_mut(function) else { return };
        if was_last {
            self.enter(function, State::Switching, event, out);
            return self.act(function, Output::Switch, out);
        }
        one.piece += 1;
        let number = one.piece;
        match one.order.destination {
            Destination::Peer => {
                self.enter(function, State::Reading, event, out);
                self.act(function, |key| Output::Read(key, number), out);
            }
            Destination::Here => {
                self.enter(function, State::Fetching, event, out);
                self.ask(function, FunctionStep::Fetch(number), out);
            }
        }
    }

    fn gate(&mut self, function: &str, out: &mut Outputs) {
        let Some(one) = self.moves.get(function) else { return };
        let destination = one.order.destination;
        self.act(function, |key| Output::Gate(key, destination), out);
    }

    /// The function stays where it was: first its packets go on there.
    fn give_up(&mut self, function: &str, reason: String, event: &'static str, out: &mut Outputs) {
        let Some(one) = self.moves.get_mut(function) else { return };
        one.failure = Some(reason.clone());
        self.enter(function, State::Restoring, event, out);
        self.act(function, |key| Output::Restore(key, reason), out);
    }

    /// Then the participant forgets the move.
    fn abort(&mut self, function: &str, event: &'static str, out: &mut Outputs) {
        let Some(one) = self.moves.get(function) else { return };
        match one.order.peer.is_some() {
            true => {
                self.enter(function, State::Aborting, event, out);
                self.ask(function, FunctionStep::Abort, out);
            }
            false => self.end(function, State::Failed, event, out),
        }
    }

    fn end(&mut self, function: &str, state: State, event: &'static str, out: &mut Outputs) {
        self.enter(function, state, event, out);
        if let Some(one) = self.moves.get_mut(function) {
            one.request = None;
            out.push(Output::CancelTimer(key(function, one.epoch)));
            out.push(Output::Ended(key(function, one.epoch)));
        }
    }

    /// Says something to the participant, until it is answered.
    fn ask(&mut self, function: &str, step: FunctionStep, out: &mut Outputs) {
        if let Some(one) = self.moves.get_mut(function) {
            one.request = Some(step);
            one.attempt = 0;
            one.unreachable = None;
            self.send(function, out);
        }
    }

    fn send(&self, function: &str, out: &mut Outputs) {
        let Some(one) = self.moves.get(function) else { return };
        let Some(step) = one.request.clone() else { return };
        let (to, to_incarnation) = one.party.unwrap_or_default();
        let message =
            Message::FunctionMove { function: function.to_owned(), epoch: one.epoch, step };
        let (from, from_incarnation) = (self.node, self.incarnation);
        let envelope = Envelope { from, from_incarnation, to, to_incarnation, message };
        out.push(Output::Send(one.order.peer.clone(), envelope));
        let wait = self.settings.wait(one.attempt);
        out.push(Output::SetTimer(key(function, one.epoch), wait));
    }

    /// Asks something of this node itself.
    fn act(&self, function: &str, output: impl FnOnce(MoveKey) -> Output, out: &mut Outputs) {
        let Some(one) = self.moves.get(function) else { return };
        out.push(output(key(function, one.epoch)));
        out.push(Output::SetTimer(key(function, one.epoch), self.local()));
    }

    fn local(&self) -> Duration {
        self.settings.local
    }

    fn enter(&mut self, function: &str, state: State, event: &'static str, out: &mut Outputs) {
        let Some(one) = self.moves.get(function) else { return };
        self.enter_from(one.state.name(), function, state, event, out);
    }

    fn enter_from(
        &mut self,
        from: &'static str,
        function: &str,
        state: State,
        event: &'static str,
        out: &mut Outputs,
    ) {
        let Some(one) = self.moves.get_mut(function) else { return };
        one.state = state;
        let change = Transition { role: Role::Coordinator, from, event, to: state.name() };
        out.push(Output::Changed(key(function, one.epoch), change));
    }

    /// The move of this key, if it is under way.
    fn current(&mut self, key: &MoveKey) -> Option<&mut Move> {
        let one = self.moves.get_mut(&key.function)?;
        (one.epoch == key.epoch && !one.state.is_over()).then_some(one)
    }

    fn in_state(&mut self, key: &MoveKey, state: State) -> Option<&mut Move> {
        self.current(key).filter(|one| one.state == state)
    }

    fn raise(&mut self) -> Epoch {
        let epoch = self.next;
        self.next = Epoch(epoch.0.saturating_add(1));
        epoch
    }
}

fn key(function: &str, epoch: Epoch) -> MoveKey {
    MoveKey { coordinator: None, function: function.to_owned(), epoch }
}
