//! A function goes into its process, or comes back: the agent copies contexts by the control
//! protocol beside the ring.

use weft_node_config::Blueprint;

use crate::agent::{Agent, Changed};
use crate::error::NotComposed;
use crate::error::Refused;
use crate::migration::relocation::{Called, Copying, Pieces};

/// How long a process is kept ready for a function that does not come, in nanoseconds.
const READY: u64 = 30_000_000_000;

impl Agent {
    /// Takes a function into its process, or out of it; the blueprint says how it is run then.
    ///
    /// # Errors
    /// [`NotComposed`]; nothing has changed then.
    pub(crate) fn relocate(
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
        if self.workers.is_changing() || self.migration.has_function() {
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
    pub(super) fn look_after_called(&mut self) {
        if self.migration.called.as_ref().is_some_and(|called| {
            self.migration.relocation.is_none()
                && self.clock.now().saturating_sub(called.since) > READY
        }) {
            self.dismiss();
        }
    }
}
