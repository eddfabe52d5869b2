//! What requests ask the agent to do. Each hands over to the part that does it.

use std::sync::mpsc::Receiver;

use super::Agent;
use super::contexts::FunctionContexts;
use super::usage::{self, Cursor};
use crate::bearer::session::SessionEvent;
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
}
