//! What the agent does about bearers that come and go by commands.

mod dynamic_users;
mod moving;
mod view;
mod written;

use serde_json::Value;

use weft_node_config::OnErrorIndication;

use super::Agent;
use crate::bearer::{
    Action, BearerCommand, BearerError, BearersChanged, MOST_WAITING, Settings, Staged, Steered,
    Work, Wrong, refused,
};

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
        let steered = self.check_movers(commands)?;
        let staged = self.stage(commands, &steered)?;
        Ok(self.commit(staged))
    }

    /// Works commands through in the books, whole or not at all. Workers learn nothing
    /// of it before it is [committed](Self::commit).
    ///
    /// # Errors
    /// [`BearerError`] for the first command that is wrong; then nothing has changed.
    pub(crate) fn stage(
        &mut self,
        commands: &[BearerCommand],
        steered: &[Steered],
    ) -> Result<Staged, BearerError> {
        let waiting = self.workers.waiting();
        let mut work = self.work(steered, Staged::for_workers(self.workers.count()));
        for (at, command) in commands.iter().enumerate() {
            let done = match waiting < MOST_WAITING {
                true => work.apply(command),
                false => Err(Wrong::Busy),
            };
            if let Err(wrong) = done {
                work.roll_back();
                return Err(BearerError { number: at + 1, id: command.id(), wrong });
            }
        }
        Ok(work.staged)
    }

    /// Tells the workers.
    pub(crate) fn commit(&mut self, staged: Staged) -> BearersChanged {
        let Staged { changes, mut summary, .. } = staged;
        summary.now = self.bearers.count();
        for (worker, changes) in changes.into_iter().enumerate() {
            self.workers.change_users(worker, changes);
        }
        summary
    }

    /// Takes back what was staged last.
    pub(crate) fn take_back(&mut self, staged: Staged) {
        self.work(&[], staged).roll_back();
    }

    fn work<'a>(&'a mut self, steered: &'a [Steered], staged: Staged) -> Work<'a> {
        Work {
            users: &mut self.users,
            bearers: &mut self.bearers,
            trials: &self.trials,
            paths: &mut self.gtpu_peers.paths,
            stopped: &mut self.gtpu_peers.stopped,
            stop: match self.blueprint.gtpu.error_indication {
                OnErrorIndication::Keep => Action::Forward,
                OnErrorIndication::Drop => Action::Drop,
                OnErrorIndication::Notify => Action::Notify,
            },
            handover: self.blueprint.handover.as_ref(),
            steered,
            now: self.clock.now(),
            staged,
        }
    }

    /// Reads settings of the function instance of that name, as `users` in the
    /// configuration would give them. They may be given to many bearers.
    ///
    /// # Errors
    /// [`Wrong`], when there is no such function or it refuses them.
    pub fn settings(&self, function: &str, written: &Value) -> Result<Settings, Wrong> {
        let number = self.trials.number(function);
        let number = number.ok_or_else(|| Wrong::NoFunction(function.to_owned()))?;
        let kind = self.blueprint.functions[number].kind;
        kind.settings(written).map_err(|error| refused(function, &error))
    }
}
