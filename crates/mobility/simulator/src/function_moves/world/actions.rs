//! What machines ask of their nodes is done.

use weft_mobility_protocol::NodeId;
use weft_mobility_protocol::function_move::{Destination, MoveKey, Output, Piece};

use super::packets::{Contexts, Gate};
use super::{Event, FAR, NEAR, World};
use crate::check::Promise;
use crate::function_moves::Mutation;

/// Contexts of a piece.
const PIECE: usize = 2;

/// What a node has done.
#[derive(Clone, Debug)]
pub(crate) enum Done {
    Checked(Result<(), String>),
    Gated(Result<(), String>),
    Read(Result<Piece, String>),
    /// It is written now, unless it fails.
    Written(Piece, Result<(), String>),
    Switched(Result<(), String>),
    Restored,
}

impl World {
    pub fn carry_out_one(&mut self, node: NodeId, output: Output) {
        match output {
            Output::Send(address, envelope) => {
                let to = if address.is_some() { FAR } else { NEAR };
                self.send_message(&envelope, to);
            }
            Output::SetTimer(key, after) => {
                self.set_timer(key, u64::try_from(after.as_micros()).unwrap_or(u64::MAX));
            }
            Output::CancelTimer(key) => self.cancel_timer(&key),
            Output::Check(key, _) => {
                let checked = self.chance(20, ());
                self.finish(node, key, Done::Checked(checked));
            }
            Output::Gate(key, destination) => self.gate(key, destination),
            Output::Read(key, number) => {
                let piece = self.piece(node, number);
                let piece = self.chance(10, piece);
                self.finish(node, key, Done::Read(piece));
            }
            Output::Write(key, piece) => {
                let written = self.chance(10, ());
                self.finish(node, key, Done::Written(piece, written));
            }
            Output::Switch(key) => {
                let switched = self.chance(20, ());
                self.finish(node, key, Done::Switched(switched));
            }
            Output::Restore(key, reason) => {
                self.note(|| format!("restored: {reason}"));
                if self.plane.gate.as_ref().is_some_and(|gate| gate.key == key) {
                    self.open_gate(self.plane.place);
                }
                self.finish(node, key, Done::Restored);
            }
            Output::Ended(key) => {
                if node == NEAR {
                    self.ended(&key);
                }
            }
            Output::Changed(key, change) => {
                self.note(|| {
                    let (epoch, from, to, event) =
                        (key.epoch, change.from, change.to, change.event);
                    format!("{node}, {epoch}: {from} -> {to} by {event}")
                });
                if !change.is_allowed() {
                    self.violated(Promise::Transitions, format!("{node}: {change:?}"));
                }
            }
        }
    }

    /// It goes well, or fails so many times in a thousand.
    fn chance<T>(&mut self, times: u64, value: T) -> Result<T, String> {
        match self.scenario.faults.failures && self.random.one_in_thousand(times) {
            true => Err("it failed".to_owned()),
            false => Ok(value),
        }
    }

    /// It is done after a while.
    fn finish(&mut self, node: NodeId, key: MoveKey, done: Done) {
        let stuck = self.scenario.faults.failures && self.random.one_in_thousand(2);
        let most = if stuck { 45_000_000 } else { 3_000 };
        let (delay, life) = (self.random.between(50, most), self.life(node));
        self.after(delay, Event::Done { node, life, key, done });
    }

    fn gate(&mut self, key: MoveKey, destination: Destination) {
        if self.plane.place == destination {
            return self.finish(NEAR, key, Done::Gated(Err("it is there".to_owned())));
        }
        if let Err(reason) = self.chance(20, ()) {
            return self.finish(NEAR, key, Done::Gated(Err(reason)));
        }
        let incoming = Contexts::new();
        self.plane.gate = Some(Gate { key, destination, is_lifted: false, incoming, taken_in: 0 });
        self.look_at_gate();
    }

    /// The last packet may have come back.
    pub fn look_at_gate(&mut self) {
        let is_empty = self.plane.away.is_empty();
        if let Some(gate) = self.plane.gate.as_mut().filter(|gate| is_empty && !gate.is_lifted) {
            gate.is_lifted = true;
            let key = gate.key.clone();
            self.finish(NEAR, key, Done::Gated(Ok(())));
        }
    }

    /// A piece of the contexts at a node.
    fn piece(&self, node: NodeId, number: u32) -> Piece {
        let contexts = if node == NEAR { &self.plane.contexts } else { &self.far.contexts };
        let from = number as usize * PIECE;
        let octets: Vec<u8> = (1..=self.scenario.users)
            .skip(from)
            .take(PIECE)
            .flat_map(|user| [user, contexts.get(&user).copied().unwrap_or_default()])
            .flat_map(u64::to_be_bytes)
            .collect();
        let is_last =
            from + PIECE >= self.scenario.users as usize || self.is(Mutation::CopyFirstOnly);
        Piece { number, is_last, count: (octets.len() / 16) as u32, octets }
    }

    pub fn done(&mut self, node: NodeId, life: u32, key: &MoveKey, done: Done) {
        if life != self.life(node) {
            return;
        }
        let mut out = Vec::new();
        let done = self.take_effect(node, key, done);
        match (node, &mut self.coordinator, &mut self.participant) {
            (NEAR, Some(machine), _) => match done {
                Done::Gated(gated) => machine.gated(key, gated, &mut out),
                Done::Read(piece) => machine.read(key, piece, &mut out),
                Done::Written(piece, written) => {
                    let Piece { number, is_last, count, .. } = piece;
                    machine.written(key, (number, is_last, count), written, &mut out);
                }
                Done::Switched(switched) => machine.switched(key, switched, &mut out),
                Done::Restored => machine.restored(key, &mut out),
                Done::Checked(_) => {}
            },
            (FAR, _, Some(machine)) => match done {
                Done::Checked(checked) => machine.checked(key, checked, &mut out),
                Done::Read(piece) => machine.read(key, piece, &mut out),
                Done::Written(piece, written) => {
                    machine.written(key, (piece.number, piece.is_last), written, &mut out);
                }
                _ => {}
            },
            _ => {}
        }
        self.carry_out(node, out);
    }

    /// What is written and switched is so only now.
    fn take_effect(&mut self, node: NodeId, key: &MoveKey, done: Done) -> Done {
        let gate = self.plane.gate.as_mut().filter(|gate| gate.key.epoch == key.epoch);
        match done {
            Done::Written(piece, Ok(())) if self.participant.is_some() || node == NEAR => {
                let life = self.far_life;
                let contexts = match (node, gate) {
                    (NEAR, Some(gate)) => &mut gate.incoming,
                    (NEAR, None) => return Done::Written(piece, Err("no gate".to_owned())),
                    (_, gate) => {
                        if let Some(gate) = gate {
                            gate.taken_in = life;
                        }
                        &mut self.far.contexts
                    }
                };
                for pair in piece.octets.chunks_exact(16) {
                    let number = |at: usize| {
                        let octets: [u8; 8] = pair[at..at + 8].try_into().unwrap_or_default();
                        u64::from_be_bytes(octets)
                    };
                    contexts.insert(number(0), number(8));
                }
                Done::Written(piece, Ok(()))
            }
            Done::Switched(switched) => {
                let Some(gate) = gate else { return Done::Switched(Ok(())) };
                let (destination, taken_in) = (gate.destination, gate.taken_in);
                let incoming = std::mem::take(&mut gate.incoming);
                match &switched {
                    Ok(()) => self.switch(destination, taken_in, incoming),
                    Err(_) => self.open_gate(self.plane.place),
                }
                Done::Switched(switched)
            }
            done => done,
        }
    }

    fn switch(&mut self, destination: Destination, taken_in: u32, incoming: Contexts) {
        match destination {
            // What it had taken died with it.
            Destination::Peer if self.participant.is_none() || taken_in != self.far_life => {
                self.truth.clear();
            }
            Destination::Peer => {}
            Destination::Here => {
                if incoming.is_empty() {
                    self.truth.clear();
                } else if let Some(before) = self.before.take() {
                    self.truth = before;
                }
                if !self.is(Mutation::StaleContexts) {
                    self.plane.contexts = incoming;
                }
            }
        }
        self.open_gate(destination);
    }
}
