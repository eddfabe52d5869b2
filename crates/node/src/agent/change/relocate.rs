//! A function goes into a process of its own or to another node, or comes back from there,
//! while traffic runs.
//!
//! **Gate.** Each worker lets the function's packets wait, up to a bound, at the queue to
//! where it goes, and hands its instance to the agent once none is away. Packets that do not
//! come to the function go on. **Fence.** Contexts are copied from where they are to where
//! they are to be, some at a time: the agent asks the process, and the one who carries them
//! between two nodes says that they are there. Commands about users wait
//! meanwhile. **Release.** The worker gets the other instance, what waited goes on in order
//! before what comes, and the commands follow.

use weft_compose::{Instance, SlotShift};
use weft_dataplane::command::{Arrival, Command};
use weft_function::Scope;
use weft_node_config::{Blueprint, Composition};

use super::{Changed, Reconfiguration};
use crate::error::NotComposed;
use crate::error::Refused;
use crate::migration::relocation::{Called, Copying, MigrationSession, Pieces, Relocation};
use crate::plan;

/// How long a process is kept ready for a function that does not come, in nanoseconds.
const READY: u64 = 30_000_000_000;

impl Reconfiguration<'_> {
    /// Lets the packets of a function wait, which the blueprint says how to run from now on.
    ///
    /// # Errors
    /// [`NotComposed`]; nothing has changed then.
    fn lift(
        &mut self,
        new: Blueprint,
        function: usize,
        copying: Copying,
    ) -> Result<Changed, NotComposed> {
        let plan = &new.functions[function];
        let (name, goes) = (plan.name.clone(), !plan.composition.is_at_hand());
        if self.migration.has_users() {
            return Err(NotComposed::NotYet(format!("`{name}`: users are on the move")));
        }
        let Some(remote_queue) = self.functions.prepared.remote_queue(&name) else {
            return Err(NotComposed::NotPrepared(name));
        };
        let mut instances = match goes {
            true => self.functions.prepared.take(&name),
            false => self.instances_of(&new, function)?,
        };
        let changed = self.change(new, Some((function, &mut instances)));
        let (changed, mut replacements) = match changed {
            Ok(changed) => changed,
            Err(refused) => {
                if goes {
                    self.functions.prepared.put(&name, instances);
                }
                return Err(refused.into());
            }
        };
        let scope = self.configuration.trials.instance(function).scope();
        let workers = self.workers.count();
        let slots = (0..workers).map(|worker| self.slots_of(worker, scope)).collect();
        let number = function as u16;
        for link in self.workers.iter_mut() {
            link.send(Command::Lift { function: number, remote_queue });
            link.hold();
        }
        for replacement in &mut replacements {
            replacement.parts[function].remote_queue = Some(remote_queue);
            replacement.arrival = Some(Arrival { function: number, remote_queue, at_hand: !goes });
        }
        self.migration.relocation = Some(Box::new(Relocation {
            function,
            name,
            remote_queue,
            goes,
            replacements,
            lifted: (0..workers).map(|_| None).collect(),
            slots,
            copying,
            refusal: None,
        }));
        self.migration.failure = None;
        Ok(changed)
    }

    /// Fresh instances for all workers.
    fn instances_of(
        &self,
        new: &Blueprint,
        function: usize,
    ) -> Result<Vec<Box<dyn Instance>>, Refused> {
        let plan = &new.functions[function];
        let instance = |worker| {
            plan::instance(
                plan,
                new,
                worker,
                self.subscribers.room.contexts(),
                self.workers.shift(),
                self.functions.events.as_ref(),
            )
            .map_err(|error| {
                let function = plan.name.clone();
                crate::error::BuildError::Function { function, error }.into()
            })
        };
        (0..self.workers.count()).map(instance).collect()
    }

    /// Slots of all contexts that a worker has of a function with that scope.
    fn slots_of(&self, worker: usize, scope: Scope) -> Vec<u32> {
        let slot = |shift: SlotShift| move |index: u32| shift.slot(worker, index as usize);
        self.subscribers.users.indexes(worker, scope).map(slot(self.workers.shift())).collect()
    }

    /// Goes on with a function that moves; whether there was anything to do.
    pub fn look_after_relocation(&mut self) -> bool {
        self.look_after_called();
        let Some(mut relocation) = self.migration.relocation.take() else { return false };
        let mut busy = false;
        let is_copied = match &relocation.copying {
            Copying::Process(_) => {
                let (now, transfers) = (self.clock.now(), &mut self.migration.transfers);
                busy = relocation.copy_some(self.functions, transfers, now);
                relocation.is_copied()
            }
            Copying::MigrationSession(session) => {
                let word = session.outcome(self.clock.now());
                relocation.refusal = relocation.refusal.or(word.clone().and_then(Result::err));
                word.is_some()
            }
        };
        if relocation.is_lifted() && is_copied {
            self.release(*relocation);
            return true;
        }
        self.migration.relocation = Some(relocation);
        busy
    }

    /// Gives the workers what is to be at work from now on.
    fn release(&mut self, relocation: Relocation) {
        let Relocation { function, name, remote_queue, goes, mut replacements, mut lifted, .. } =
            relocation;
        let stays = relocation.refusal.is_some();
        if let Some(reason) = relocation.refusal {
            // It has its contexts still.
            for (replacement, old) in replacements.iter_mut().zip(&mut lifted) {
                std::mem::swap(&mut replacement.parts[function].instance, old);
                let function = function as u16;
                replacement.arrival = Some(Arrival { function, remote_queue, at_hand: goes });
            }
            let plan = &mut self.configuration.blueprint.functions[function];
            let before = if goes { Composition::Call } else { Composition::Remote };
            (plan.composition, plan.stage) = (before, None);
            let is_now = if goes { "is called" } else { "stays at the other node" };
            tracing::warn!(function = name, reason, "the function {is_now}");
            self.migration.failure = Some(format!("`{name}` {is_now}: {reason}"));
        } else if let Copying::Process(Pieces { lost: true, .. }) = relocation.copying {
            tracing::warn!(
                function = name,
                "its process was not there: it goes on with the last checkpoint"
            );
        }
        if stays == goes {
            let mut away: Vec<_> = lifted.into_iter().flatten().collect();
            for (away, slots) in away.iter_mut().zip(&relocation.slots) {
                slots.iter().for_each(|slot| away.release(*slot));
            }
            self.functions.prepared.put(&name, away);
            if let Some(supervisor) = self.functions.supervisor(&name) {
                supervisor.want(false);
            }
        }
        self.persistence.keep_composition(&name, &self.configuration.blueprint);
        for (link, replacement) in self.workers.iter_mut().zip(replacements) {
            link.send_first(Command::Replace(Box::new(replacement)));
            link.let_go();
        }
    }

    // Into a process, and back.

    /// Takes a function into its process, or out of it; the blueprint says how it is run then.
    ///
    /// # Errors
    /// [`NotComposed`]; nothing has changed then.
    pub(super) fn relocate(
        &mut self,
        new: Blueprint,
        function: usize,
    ) -> Result<Changed, NotComposed> {
        self.check_prepared(&new, function)?;
        if new.functions[function].is_isolated() {
            let name = new.functions[function].name.clone();
            self.call_process(&name)?;
        }
        let changed = self.lift(new, function, Copying::Process(Pieces::default()))?;
        self.migration.called = None;
        Ok(changed)
    }

    fn check_prepared(&self, new: &Blueprint, function: usize) -> Result<(), NotComposed> {
        let plan = &new.functions[function];
        let name = || plan.name.clone();
        let Some(process) = &plan.process else { return Err(NotComposed::NotPrepared(name())) };
        if process.plain {
            return Err(NotComposed::Plain(name()));
        }
        if self.persistence.is_upgrading()
            || self.workers.is_changing()
            || self.migration.has_function()
        {
            return Err(Refused::Busy.into());
        }
        Ok(())
    }

    /// Has the process of a function started, and says whether it is there.
    fn call_process(&mut self, name: &str) -> Result<(), NotComposed> {
        let Some(supervisor) = self.functions.supervisors.iter().find(|one| one.instance() == name)
        else {
            return Err(NotComposed::NotPrepared(name.to_owned()));
        };
        let view = supervisor.view();
        let is_called =
            self.migration.called.as_ref().is_some_and(|called| called.function == name);
        if !is_called {
            let called = Called {
                function: name.to_owned(),
                failures: view.failures,
                since: self.clock.now(),
            };
            supervisor.want(true);
            if let Some(before) = self.migration.called.replace(called)
                && let Some(other) = self.functions.supervisor(&before.function)
            {
                other.want(false);
            }
        }
        if supervisor.is_there() {
            return Ok(());
        }
        let failed =
            self.migration.called.as_ref().is_some_and(|called| view.failures > called.failures);
        if let Some(reason) = view.last_failure.filter(|_| failed) {
            self.dismiss();
            return Err(NotComposed::Absent(name.to_owned(), reason));
        }
        Err(NotComposed::NotYet(format!("the process of `{name}` is not there yet")))
    }

    /// Lets a process rest that was called for a function that did not come.
    fn dismiss(&mut self) {
        if let Some(called) = self.migration.called.take()
            && let Some(supervisor) = self.functions.supervisor(&called.function)
        {
            supervisor.want(false);
        }
    }

    /// A process that was called for a function that does not come rests again.
    fn look_after_called(&mut self) {
        if self.migration.called.as_ref().is_some_and(|called| {
            self.migration.relocation.is_none()
                && self.clock.now().saturating_sub(called.since) > READY
        }) {
            self.dismiss();
        }
    }

    // To another node, and back.

    /// Lets the packets of a function wait that goes to another node, or comes back and is
    /// called here. Its contexts are then read here and written there,
    /// or the other way round, until [`Migration::release`](crate::migration::Migration::release).
    ///
    /// # Errors
    /// [`NotComposed`]; nothing has changed then.
    pub fn gate(&mut self, function: &str, goes: bool) -> Result<(), NotComposed> {
        self.migration.failure = None;
        let mut new = self.configuration.blueprint.clone();
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
        if self.persistence.is_upgrading()
            || self.workers.is_changing()
            || self.migration.has_function()
        {
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
}
