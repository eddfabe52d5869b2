//! Contexts of one function, by the names of those they are of: so another node with the same
//! function goes on with them.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weft_dataplane::command::Command;
use weft_dataplane::command::contexts::{Octets, Written, read, write};
use weft_function::{ContextError, Scope};

use crate::agent::Agent;
use crate::bearer::BearerId;

/// Contexts that a worker reads or writes between two bursts.
const PIECE: usize = 64;

/// How long a worker is waited for that has contexts to read or to write.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whose a context is, by the names that nodes share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum Whose {
    /// A user's of the configuration, or its default bearer's.
    User(String),
    /// A dedicated bearer's of the configuration.
    Dedicated {
        /// Name of the user.
        user: String,
        /// Name of the bearer.
        bearer: String,
    },
    /// A bearer's that a command has added.
    Added(BearerId),
    /// A group's.
    Group(String),
}

impl std::fmt::Display for Whose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Whose::User(name) => write!(f, "user `{name}`"),
            Whose::Dedicated { user, bearer } => write!(f, "bearer `{bearer}` of user `{user}`"),
            Whose::Added(id) => write!(f, "bearer {id}, added by a command,"),
            Whose::Group(name) => write!(f, "group `{name}`"),
        }
    }
}

/// A context, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Whose it is.
    pub whose: Whose,
    /// As the function exports it, see [`weft_compose::Instance::export`].
    pub octets: Vec<u8>,
}

/// Why contexts are not read or written.
#[derive(Debug, thiserror::Error)]
pub enum NotCarried {
    /// There is no such function.
    #[error("there is no function `{0}`")]
    Unknown(String),
    /// It is something else.
    #[error("`{name}` is a {is} here, and was a {was}")]
    OtherFunction {
        /// Name of the instance.
        name: String,
        /// What it was where the contexts are from.
        was: String,
        /// What it is here.
        is: &'static str,
    },
    /// A process or another node has the contexts.
    #[error(
        "`{0}` is in a process or at another node; take it out first: `weft ctl function {0} \
         --composition call`"
    )]
    Away(String),
    /// No user or group has that name.
    #[error("there is no {1} here, of whom `{0}` has a context")]
    Nobody(String, Whose),
    /// The function does not take it.
    #[error("`{0}` does not take the context: {1}")]
    Refused(String, ContextError),
    /// A worker is not to be had.
    #[error("the workers are busy")]
    Late,
}

/// Contexts that are being read.
#[derive(Debug)]
pub struct Reading {
    names: Vec<Whose>,
    /// Positions among the names, and what comes for them.
    pieces: Vec<(Vec<usize>, Receiver<Octets>)>,
}

impl Reading {
    /// Waits for the contexts.
    ///
    /// # Errors
    /// [`NotCarried::Late`].
    pub fn wait(self) -> Result<Vec<Named>, NotCarried> {
        let mut all: Vec<_> =
            self.names.into_iter().map(|whose| Named { whose, octets: Vec::new() }).collect();
        for (at, piece) in self.pieces {
            let contexts = piece.recv_timeout(PATIENCE).map_err(|_| NotCarried::Late)?;
            for (at, octets) in at.into_iter().zip(contexts) {
                all[at].octets = octets;
            }
        }
        Ok(all)
    }
}

/// Contexts that are being written.
#[derive(Debug)]
pub struct Writing {
    name: String,
    pieces: Vec<Receiver<Written>>,
}

impl Writing {
    /// Waits until the function has them.
    ///
    /// # Errors
    /// [`NotCarried`]; some may be written.
    pub fn wait(self) -> Result<(), NotCarried> {
        for piece in self.pieces {
            let (_, outcome) = piece.recv_timeout(PATIENCE).map_err(|_| NotCarried::Late)?;
            outcome.map_err(|error| NotCarried::Refused(self.name.clone(), error))?;
        }
        Ok(())
    }
}

impl Agent {
    /// What function it is, and whose contexts it has.
    ///
    /// # Errors
    /// [`NotCarried::Unknown`].
    pub fn contexts_named(&self, function: &str) -> Result<(&'static str, Vec<Whose>), NotCarried> {
        let (number, kind) = self.number_of(function)?;
        let scope = self.trials.instance(number).scope();
        let mut names = self.users.named(scope);
        if scope != Scope::Group {
            names.extend(self.bearers.named(scope).map(Whose::Added));
        }
        Ok((kind, names))
    }

    /// Reads contexts of a function while it is at work, or [moves](Self::gate_function) to
    /// another node. Those of who is no longer here are left out.
    ///
    /// # Errors
    /// [`NotCarried`].
    pub fn read_contexts(
        &mut self,
        function: &str,
        names: &[Whose],
    ) -> Result<Reading, NotCarried> {
        let (number, _) = self.number_of(function)?;
        if self.instance_in_hand(function, 0).is_none() {
            self.check_at_hand(number)?;
        }
        let scope = self.trials.instance(number).scope();
        let known = names.iter().filter_map(|whose| Some((whose, self.slot_named(scope, whose)?)));
        let (names, slots): (Vec<&Whose>, Vec<u32>) = known.unzip();
        let names = names.into_iter().cloned().collect();
        let (now, mut pieces) = (self.clock.now(), Vec::new());
        for (worker, at) in self.by_worker(&slots) {
            let slots: Vec<u32> = at.iter().map(|at| slots[*at]).collect();
            let (answer, piece) = channel();
            pieces.push((at, piece));
            match self.instance_in_hand(function, worker) {
                // The receiver is above.
                Some(instance) => drop(answer.send(read(&**instance, &slots, now))),
                None => {
                    let function = number as u16;
                    self.links[worker].send(Command::ReadContexts { function, slots, answer });
                }
            }
        }
        Ok(Reading { names, pieces })
    }

    /// Gives a function contexts that were read at another node, where it is a `kind`. Those
    /// of no user here are left out with `known_only`.
    ///
    /// # Errors
    /// [`NotCarried`]; nothing has changed then.
    pub fn write_contexts(
        &mut self,
        function: &str,
        kind: &str,
        contexts: Vec<Named>,
        known_only: bool,
    ) -> Result<Writing, NotCarried> {
        let (number, is) = self.number_of(function)?;
        let name = || function.to_owned();
        if is != kind {
            return Err(NotCarried::OtherFunction { name: name(), was: kind.to_owned(), is });
        }
        if self.instance_in_hand(function, 0).is_none() {
            self.check_at_hand(number)?;
        }
        let scope = self.trials.instance(number).scope();
        let (mut slots, mut octets) = (Vec::new(), Vec::new());
        for context in contexts {
            match self.slot_named(scope, &context.whose) {
                Some(slot) => {
                    slots.push(slot);
                    octets.push(context.octets);
                }
                None if known_only => {}
                None => return Err(NotCarried::Nobody(name(), context.whose)),
            }
        }
        let (now, mut pieces) = (self.clock.now(), Vec::new());
        for (worker, at) in self.by_worker(&slots) {
            let contexts = at.iter().map(|at| (slots[*at], std::mem::take(&mut octets[*at])));
            let contexts: Vec<_> = contexts.collect();
            let (answer, piece) = channel();
            pieces.push(piece);
            match self.instance_in_hand(function, worker) {
                // The receiver is above.
                Some(instance) => drop(answer.send(write(&mut **instance, contexts, now))),
                None => {
                    let function = number as u16;
                    self.links[worker].send(Command::WriteContexts { function, contexts, answer });
                }
            }
        }
        Ok(Writing { name: name(), pieces })
    }

    fn number_of(&self, function: &str) -> Result<(usize, &'static str), NotCarried> {
        let mut functions = self.blueprint.functions.iter();
        let number = functions.position(|one| one.name == function);
        let number = number.ok_or_else(|| NotCarried::Unknown(function.to_owned()))?;
        Ok((number, self.blueprint.functions[number].kind.name))
    }

    fn check_at_hand(&self, number: usize) -> Result<(), NotCarried> {
        let plan = &self.blueprint.functions[number];
        match plan.composition.is_at_hand() {
            true => Ok(()),
            false => Err(NotCarried::Away(plan.name.clone())),
        }
    }

    /// Positions of slots, by worker and in pieces.
    fn by_worker(&self, slots: &[u32]) -> Vec<(usize, Vec<usize>)> {
        let mut all = Vec::new();
        for worker in 0..self.links.len() {
            let own = (0..slots.len()).filter(|at| self.shift.worker(slots[*at]) == worker);
            let own: Vec<usize> = own.collect();
            all.extend(own.chunks(PIECE).map(|piece| (worker, piece.to_vec())));
        }
        all
    }

    /// The slot of a context of a function with that scope.
    fn slot_named(&self, scope: Scope, whose: &Whose) -> Option<u32> {
        match (whose, scope) {
            (Whose::Group(name), Scope::Group) => self.users.group(name),
            (_, Scope::Group) | (Whose::Group(_), _) => None,
            (Whose::User(name), _) => self.users.slot(name),
            (Whose::Dedicated { user, bearer }, Scope::Bearer) => {
                let member = self.users.member(user)?;
                let at = member.bearers.iter().position(|known| known == bearer)?;
                member.slots.get(at + 1).copied()
            }
            (Whose::Dedicated { .. }, Scope::User) => None,
            (Whose::Added(id), _) => self.bearers.slot_of(*id, scope),
        }
    }
}
