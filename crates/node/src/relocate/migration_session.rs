//! A function goes to another node, or comes back: a client carries its contexts between the
//! two, who sees both (`weft ctl function … --peer`).
//!
//! This node decides: the other one may have contexts that no packet uses, but packets go there
//! only once the carrier has said that all are there. One that says nothing for a while has
//! gone, and the function stays where it was.

use weft_compose::Instance;
use weft_node_config::Composition;

use super::{Copying, Relocation};
use crate::agent::Agent;
use crate::change::Refused;
use crate::stage::NotComposed;

/// How long a gate stays closed for a carrier that says nothing, in nanoseconds.
const PATIENCE: u64 = 5_000_000_000;

/// Who carries contexts between two nodes.
pub(super) struct MigrationSession {
    /// When it has gone, unless it is heard before.
    until: u64,
    /// What it has said in the end.
    word: Option<Result<(), String>>,
}

impl MigrationSession {
    /// What it has said in the end, or what its silence says.
    pub(super) fn word(&self, now: u64) -> Option<Result<(), String>> {
        let silence = || Err("whoever carried its contexts said nothing for 5 s".to_owned());
        self.word.clone().or_else(|| (now > self.until).then(silence))
    }
}

impl Agent {
    /// Lets the packets of a function wait that goes to another node, or comes back and is
    /// called here. Its contexts are then [read](Self::read_contexts) here and written there,
    /// or the other way round, until [`release`](Self::release_function).
    ///
    /// # Errors
    /// [`NotComposed`]; nothing has changed then.
    pub fn gate_function(&mut self, function: &str, goes: bool) -> Result<(), NotComposed> {
        self.move_failure = None;
        let mut new = self.blueprint().clone();
        let name = || function.to_owned();
        let Some(number) = new.functions.iter().position(|one| one.name == function) else {
            return Err(NotComposed::Unknown(name()));
        };
        let plan = &mut new.functions[number];
        if plan.remote.is_none() {
            return Err(NotComposed::NoPath(name()));
        }
        match (goes, plan.composition == Composition::Remote) {
            (true, true) => return Err(NotComposed::There(name())),
            (false, false) => return Err(NotComposed::Here(name())),
            _ => {}
        }
        if self.changing > 0 || self.relocation.is_some() {
            return Err(Refused::Busy.into());
        }
        if goes && !self.is_reachable(function) {
            return Err(NotComposed::NotYet(format!("`{function}`: its path does not come back")));
        }
        plan.composition = if goes { Composition::Remote } else { Composition::Call };
        (plan.stage, plan.auto) = (None, None);
        let session = MigrationSession { until: self.clock.now() + PATIENCE, word: None };
        self.lift(new, number, Copying::MigrationSession(session)).map(drop)
    }

    /// Whether nothing of a function that moves is on its way any more; none if it does not
    /// move to another node or back.
    pub fn is_gated(&mut self, function: &str) -> Option<bool> {
        Some(self.carried(function)?.is_lifted())
    }

    /// Lets the packets of a function go on that moves: where it is to be, or where it was if
    /// there is a reason for that.
    ///
    /// # Errors
    /// [`NotComposed::NotGated`].
    pub fn release_function(
        &mut self,
        function: &str,
        word: Result<(), String>,
    ) -> Result<(), NotComposed> {
        let relocation = self.carried(function);
        let Some(Relocation { copying: Copying::MigrationSession(session), .. }) = relocation
        else {
            return Err(NotComposed::NotGated(function.to_owned()));
        };
        session.word = Some(word);
        Ok(())
    }

    /// The instance of a function that moves whose contexts are read, or written, with its
    /// worker's number; none if it does not move now, or is not to be had yet.
    pub(crate) fn instance_in_hand(
        &mut self,
        function: &str,
        worker: usize,
    ) -> Option<&mut Box<dyn Instance>> {
        let relocation = self.carried(function).filter(|one| one.is_lifted())?;
        match relocation.goes {
            true => relocation.lifted[worker].as_mut(),
            false => relocation.instance(worker),
        }
    }

    /// The relocation of this function, if its contexts are carried by a client, which has just
    /// been heard.
    fn carried(&mut self, function: &str) -> Option<&mut Relocation> {
        let until = self.clock.now() + PATIENCE;
        let relocation = self.relocation.as_deref_mut().filter(|one| one.name == function)?;
        let Copying::MigrationSession(session) = &mut relocation.copying else { return None };
        session.until = until;
        Some(relocation)
    }
}
