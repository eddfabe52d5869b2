//! What requests ask the agent to do. Each hands over to the part that does it.

use std::sync::mpsc::Receiver;

use weft_state::Done;

use super::Agent;
use super::contexts::FunctionContexts;
use super::state::{Lease, Standby, StandbyView, StateView};
use super::usage::{self, Cursor};
use crate::bearer::session::{Keep, Kept, SessionEvent};
use crate::migration::contexts::{Named, NotCarried, Reading, Whose, Writing};

/// Contexts of functions.
impl Agent {
    pub(super) fn function_contexts(&mut self) -> FunctionContexts<'_> {
        let Agent { blueprint, trials, subscribers, workers, .. } = self;
        FunctionContexts { blueprint, trials, subscribers, workers }
    }

    /// What function it is, and whose contexts it has.
    ///
    /// # Errors
    /// [`NotCarried::Unknown`].
    pub fn contexts_named(
        &mut self,
        function: &str,
    ) -> Result<(&'static str, Vec<Whose>), NotCarried> {
        self.function_contexts().named(function)
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
        let Agent { blueprint, trials, subscribers, workers, migration, clock, .. } = self;
        let mut contexts = FunctionContexts { blueprint, trials, subscribers, workers };
        contexts.read(function, names, (migration, clock.now()))
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
        let Agent { blueprint, trials, subscribers, workers, migration, clock, .. } = self;
        let mut own = FunctionContexts { blueprint, trials, subscribers, workers };
        own.write((function, kind), (contexts, known_only), (migration, clock.now()))
    }

    /// Asks for what `function`, a counter of users, has counted for the next `count` of them;
    /// and where to go on, if there are more.
    ///
    /// # Errors
    /// [`NotCarried`].
    pub fn usage(
        &mut self,
        function: &str,
        from: Cursor,
        count: usize,
    ) -> Result<(usage::Reading, Option<Cursor>), NotCarried> {
        self.function_contexts().usage(function, from, count)
    }
}

/// PFCP sessions.
impl Agent {
    /// What the node tells of sessions from now on, until the receiver is dropped.
    pub fn listen_to_sessions(&mut self) -> Receiver<SessionEvent> {
        self.subscribers.sessions.listeners.add()
    }

    /// Asks sessions for nothing and tells nothing of them, or does so again. Whether all that
    /// was asked is answered, and told.
    pub fn hold_sessions(&mut self, is_held: bool) -> bool {
        self.subscribers.sessions.hold(is_held)
    }
}

/// What outlives the node, and who else may have it.
impl Agent {
    /// Calls `done` once everything that has changed so far is durable; at once where nothing
    /// is kept. While another process may take the node over, nothing is durable here: `done`
    /// waits for what comes of that, and is dropped with a node that has gone.
    pub fn when_durable(&mut self, done: Done) {
        self.persistence.when_durable(done);
    }

    /// What is kept, where something is.
    pub fn state_view(&self) -> Option<StateView> {
        self.persistence.view(self.clock.now())
    }

    /// Keeps something of sessions; `done` is called once that is durable, and at once where
    /// nothing is kept.
    pub fn keep(&mut self, keep: Vec<Keep>, done: Done) {
        self.persistence.keep(keep, done, &self.blueprint);
    }

    /// What was kept in the node's last life, for the one that asks first.
    pub fn kept(&mut self) -> Kept {
        let kept = std::mem::take(&mut self.subscribers.sessions.kept);
        Kept { keeps: self.persistence.keeps(), ..kept }
    }

    /// The node carries packets while the lease holds; `show` says how far its standby is. Its
    /// addresses were those of another node before.
    pub fn hold_by(&mut self, lease: Lease, show: impl Fn() -> StandbyView + Send + 'static) {
        self.persistence.standby = Some(Box::new(Standby::new(lease, show)));
    }

    /// The lease that the node carries packets by, if by one.
    pub(crate) fn lease(&self) -> Option<Lease> {
        Some(self.persistence.standby.as_ref()?.lease())
    }

    /// The process that was to have the node does not take over: it goes on as before.
    pub(crate) fn end_upgrade(&mut self) {
        self.persistence.end_upgrade(&self.blueprint, &self.subscribers);
    }
}
