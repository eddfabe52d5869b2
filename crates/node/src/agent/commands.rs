//! What requests ask the agent to do. Each hands over to the part that does it.

use std::sync::mpsc::Receiver;

use serde_json::Value;
use weft_mobility_protocol::Incarnation;
use weft_node_config::Blueprint;
use weft_state::Done;

use super::Agent;
use super::change::{Changed, Wanted};
use super::configuration::Configuration;
use super::state::{Lease, Standby, StandbyView, StateView};
use super::usage::{self, Cursor};
use crate::bearer::session::{Keep, Kept, SessionCommand, SessionEvent, SessionsChanged};
use crate::bearer::{
    BearerCommand, BearerError, BearersChanged, Reader, Settings, User, WrittenCommand, Wrong,
};
use crate::error::{NotComposed, Refused};
use crate::migration::contexts::{Named, NotCarried, Reading, Whose, Writing};
use crate::migration::transfer::TransferError;
use crate::mobility::{HandoverView, Mail, Mobility, NoHandover, Radio, RadioError};
use crate::workers::ThreadsError;

/// The configuration, and how functions are run.
impl Agent {
    /// Lets the node run by `new` from now on.
    ///
    /// # Errors
    /// [`Refused`]; nothing has changed then.
    pub fn apply(&mut self, new: Blueprint) -> Result<Changed, Refused> {
        self.reconfiguration().apply(new)
    }

    /// Runs a function otherwise from now on. Its contexts go along, no packet is lost,
    /// and none overtakes another: workers receive nothing until all that was under way
    /// has come back and the instances are where they are to be.
    ///
    /// # Errors
    /// [`NotComposed`]; nothing has changed then.
    pub fn compose(&mut self, function: &str, wanted: &Wanted) -> Result<Changed, NotComposed> {
        self.reconfiguration().compose(function, wanted)
    }

    /// Has the first `count` threads of the node run all of its workers from now on, while
    /// packets pass. Where there are more workers, the others are parked at these threads.
    ///
    /// # Errors
    /// [`ThreadsError`]; nothing has changed then.
    pub fn park_workers(&mut self, count: usize) -> Result<(), ThreadsError> {
        self.workers.park(count)
    }

    /// By the number of the worker: the thread that runs it, or is to; and whether all do. Empty
    /// where workers have no threads.
    pub fn threads_of_workers(&self) -> (Vec<usize>, bool) {
        (self.workers.threads(), self.workers.are_assigned())
    }

    /// Splits chains as if a packet took these cycles at its worker beside the functions, and at
    /// each function. A test of the choice needs it: what it would measure depends on what else
    /// the machine does.
    pub fn assume_cycles(&mut self, worker: u64, functions: &[u64]) {
        self.migration.split.assume(worker, functions);
    }

    /// Lets the packets of a function wait that goes to another node, or comes back and is
    /// called here. Its contexts are then [read](Self::read_contexts) here and written there,
    /// or the other way round, until [`release`](Self::release_function).
    ///
    /// # Errors
    /// [`NotComposed`]; nothing has changed then.
    pub fn gate_function(&mut self, function: &str, goes: bool) -> Result<(), NotComposed> {
        self.reconfiguration().gate(function, goes)
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
        self.migration.release(function, word, self.clock.now())
    }

    /// Why the last function that was to move did not, where that showed on its way.
    pub fn move_failure(&self) -> Option<&str> {
        self.migration.failure.as_deref()
    }
}

/// Contexts of functions.
impl Agent {
    /// What function it is, and whose contexts it has.
    ///
    /// # Errors
    /// [`NotCarried::Unknown`].
    pub fn contexts_named(
        &mut self,
        function: &str,
    ) -> Result<(&'static str, Vec<Whose>), NotCarried> {
        self.contexts().0.named(function)
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
        let now = self.clock.now();
        let (mut own, migration) = self.contexts();
        own.read(function, names, (migration, now))
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
        let now = self.clock.now();
        let (mut own, migration) = self.contexts();
        own.write((function, kind), (contexts, known_only), (migration, now))
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
        self.contexts().0.usage(function, from, count)
    }
}

/// Bearers.
impl Agent {
    /// Adds, changes and removes bearers, in this order, while traffic runs.
    ///
    /// # Errors
    /// [`BearerError`] for the first command that is wrong; then none has been
    /// applied.
    pub fn change_bearers(
        &mut self,
        commands: &[BearerCommand],
    ) -> Result<BearersChanged, BearerError> {
        let (mut provisioning, mobility) = self.provisioning();
        provisioning.change_bearers(commands, mobility)
    }

    /// Applies commands as they were written; see [`Agent::change_bearers`].
    ///
    /// # Errors
    /// [`BearerError`] for the first command that is wrong; then none has been
    /// applied.
    pub fn change_written(
        &mut self,
        commands: &[WrittenCommand],
    ) -> Result<BearersChanged, BearerError> {
        let (mut provisioning, mobility) = self.provisioning();
        provisioning.change_written(commands, mobility)
    }

    /// Reads settings of the function instance of that name, as `users` in the
    /// configuration would give them. They may be given to many bearers.
    ///
    /// # Errors
    /// [`Wrong`], when there is no such function or it refuses them.
    pub fn settings(&self, function: &str, written: &Value) -> Result<Settings, Wrong> {
        let Configuration { blueprint, trials, .. } = &self.configuration;
        Reader { blueprint, trials }.settings(function, written)
    }
}

/// PFCP sessions.
impl Agent {
    /// Changes sessions, each command whole or not at all.
    pub fn change_sessions(&mut self, commands: &[SessionCommand]) -> SessionsChanged {
        self.provisioning().0.change_sessions(commands)
    }

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

/// Users that move.
impl Agent {
    /// Takes out all that belongs to a user, as octets for
    /// [`import_user`](Self::import_user). They come once the worker has come to it, behind
    /// all packets that it has received before and that are in processes. Timers and kept
    /// packets go with them; the contexts stay until [`forget_user`](Self::forget_user).
    ///
    /// # Errors
    /// [`TransferError`].
    pub fn export_user(&mut self, name: &str) -> Result<Receiver<Vec<u8>>, TransferError> {
        self.transfers().export(name)
    }

    /// Gives a user what [`export_user`](Self::export_user) took out at another node,
    /// in place of what it has here.
    ///
    /// # Errors
    /// [`TransferError`], at once or once the worker has come to it; the user has
    /// fresh contexts in the second case.
    pub fn import_user(
        &mut self,
        octets: &[u8],
    ) -> Result<Receiver<Result<(), TransferError>>, TransferError> {
        self.transfers().import(octets)
    }

    /// Gives a user fresh contexts, drops what is kept for it, and removes what commands
    /// have added for it.
    ///
    /// # Errors
    /// [`TransferError::NoUser`].
    pub fn forget_user(&mut self, name: &str) -> Result<(), TransferError> {
        self.transfers().forget(name)
    }

    /// Begins to take part in handovers, in an incarnation that the node has never had
    /// before, and says hello. Messages come and go by the channels that are returned. From
    /// `secret`, which only the nodes have, they all derive the TEIDs of users that move.
    ///
    /// # Errors
    /// [`NoHandover`].
    pub fn join_handover(
        &mut self,
        incarnation: Incarnation,
        secret: &[u8],
    ) -> Result<Mail, NoHandover> {
        if let Some(mail) = self.mobility.as_mut().and_then(|mobility| mobility.claim()) {
            return Ok(mail);
        }
        let plan =
            self.configuration.blueprint.handover.clone().filter(|_| self.mobility.is_none());
        let plan = plan.ok_or(NoHandover)?;
        let (mut mobility, out, mail) =
            Mobility::new(plan, (incarnation, secret), self.waker.clone());
        let remembered = std::mem::take(&mut self.persistence.remembered);
        mobility.remember(&mut self.transfers(), remembered);
        mobility.take(&mut self.transfers(), out);
        self.mobility = Some(Box::new(mobility));
        Ok(mail)
    }

    /// Goes on with the part in moves that another process of the node had.
    ///
    /// # Errors
    /// What the configuration cannot have.
    pub(crate) fn go_on_with_moves(&mut self, moves: &[u8], secret: &[u8]) -> Result<(), String> {
        let plan = self.configuration.blueprint.handover.clone();
        let plan = plan.ok_or("the configuration takes no part in moves of users")?;
        let waker = self.waker.clone();
        let mobility = Mobility::taken_over(plan, (moves, secret), waker, &mut self.transfers());
        self.mobility = Some(Box::new(mobility.map_err(|error| error.to_string())?));
        Ok(())
    }

    /// What the node has to do with users that move.
    pub fn handover_view(&self) -> Option<HandoverView> {
        let waited = self.workers.iter().map(|link| link.counters.waited.get()).sum();
        self.mobility.as_ref().map(|mobility| mobility.view(waited))
    }

    /// Tells a station what has become of users' radios: of all of them, or of none.
    ///
    /// # Errors
    /// [`RadioError`].
    pub fn note_radios(&mut self, radio: Radio, users: &[User]) -> Result<(), RadioError> {
        let mobility = self.mobility.as_ref().ok_or(RadioError::NoStation)?;
        mobility.check_radios(users)?;
        if self.persistence.is_given_away() {
            return Err(RadioError::Upgrading);
        }
        users.iter().for_each(|user| self.note_radio(radio, *user));
        Ok(())
    }

    /// A user's radio has left this station: nothing comes from it any more that the
    /// ports have not received.
    pub fn radio_left(&mut self, user: User) {
        self.note_radio(Radio::Left, user);
    }

    /// A user's radio is at this station.
    pub fn radio_arrived(&mut self, user: User) {
        self.note_radio(Radio::Arrived, user);
    }

    fn note_radio(&mut self, radio: Radio, user: User) {
        if let Some((mobility, mut host)) = self.handover() {
            mobility.note_radio(&mut host, radio, user);
        }
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

    /// Looks at all contexts, and writes those that have changed since they were written, as
    /// fast as the disk and the standby take them, while packets pass. `told` hears how many
    /// these were, once they are durable; it is dropped where no contexts are kept. A node that
    /// is stopped behind it has little left to write.
    pub fn checkpoint_all(&mut self, told: impl FnOnce(u64) + Send + 'static) {
        self.persistence.checkpoint_all(Box::new(told));
    }

    /// What is kept, where something is.
    pub fn state_view(&self) -> Option<StateView> {
        self.persistence.view(self.clock.now())
    }

    /// Whether contexts are still being read, while packets pass already.
    pub fn is_loading(&self) -> bool {
        self.persistence.is_loading()
    }

    /// Keeps something of sessions; `done` is called once that is durable, and at once where
    /// nothing is kept. What usage was told up to the number `reported` is kept as reported with
    /// that, or before.
    pub fn keep(&mut self, keep: Vec<Keep>, reported: u64, done: Done) {
        let sessions = &mut self.subscribers.sessions;
        sessions.reported = sessions.reported.max(reported);
        self.persistence.keep(keep, done, (&self.configuration.blueprint, &self.clock));
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

    /// Whether the node is one of two for its users: another one stands by, or is to.
    #[must_use]
    pub fn is_one_of_two(&self) -> bool {
        self.persistence.standby.is_some()
    }

    /// The lease that the node carries packets by, if by one.
    pub(crate) fn lease(&self) -> Option<Lease> {
        Some(self.persistence.standby.as_ref()?.lease())
    }

    /// The process that was to have the node does not take over: it goes on as before.
    pub(crate) fn end_upgrade(&mut self) {
        self.persistence.end_upgrade(&self.configuration.blueprint, &self.subscribers);
    }
}
