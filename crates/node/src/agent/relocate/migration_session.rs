//! A function goes to another node, or comes back: somebody carries its contexts between the
//! two, who sees both (`weft ctl function … --peer`).
//!
//! This node decides: the other one may have contexts that nobody uses, but packets go there
//! only once the carrier has said that all are there. One that says nothing for a while has
//! gone, and the function stays where it was.

use weft_node_config::Composition;

use crate::agent::Agent;
use crate::error::NotComposed;
use crate::error::Refused;
use crate::migration::relocation::{Copying, MigrationSession, Relocation};

impl Agent {
    /// Lets the packets of a function wait that goes to another node, or comes back and is
    /// called here. Its contexts are then [read](Self::read_contexts) here and written there,
    /// or the other way round, until [`release`](Self::release_function).
    ///
    /// # Errors
    /// [`NotComposed`]; nothing has changed then.
    pub fn gate_function(&mut self, function: &str, goes: bool) -> Result<(), NotComposed> {
        self.migration.failure = None;
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
        if self.workers.is_changing() || self.migration.has_function() {
            return Err(Refused::Busy.into());
        }
        if goes && !self.functions.is_reachable(function) {
            return Err(NotComposed::NotYet(format!("`{function}`: its path does not come back")));
        }
        plan.composition = if goes { Composition::Remote } else { Composition::Call };
        (plan.stage, plan.auto) = (None, None);
        let session = MigrationSession::new(self.clock.now());
        self.lift(new, number, Copying::MigrationSession(session)).map(drop)
    }

    /// Whether nothing of a function that moves is on its way any more; none if it does not
    /// move to another node or back.
    pub fn is_gated(&mut self, function: &str) -> Option<bool> {
        Some(self.migration.carried(function, self.clock.now())?.is_lifted())
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
        let relocation = self.migration.carried(function, self.clock.now());
        let Some(Relocation { copying: Copying::MigrationSession(session), .. }) = relocation
        else {
            return Err(NotComposed::NotGated(function.to_owned()));
        };
        session.word = Some(word);
        Ok(())
    }
}
