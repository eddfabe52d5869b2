//! Batches of commands about bearers: checked, applied whole or not at all.

use std::collections::HashMap;

use weft_node_config::OnErrorIndication;

use super::Provisioning;
use crate::bearer::{
    Action, BearerCommand, BearerError, BearerSettings, BearersChanged, Detection, MOST_WAITING,
    Members, NewBearer, Reader, Staged, Steered, User, Work, WrittenCommand, Wrong,
};
use crate::mobility::{Mobility, Standing};

impl Provisioning<'_> {
    /// Adds, changes and removes bearers, in this order, while traffic runs.
    ///
    /// # Errors
    /// [`BearerError`] for the first command that is wrong; then none has been
    /// applied.
    pub fn change_bearers(
        &mut self,
        commands: &[BearerCommand],
        mobility: Option<&Mobility>,
    ) -> Result<BearersChanged, BearerError> {
        if let (true, Some(first)) = (self.persistence.is_upgrading(), commands.first()) {
            return Err(BearerError { number: 1, id: first.id(), wrong: Wrong::Upgrading });
        }
        if let (Some(failure), Some(first)) = (self.persistence.failure(), commands.first()) {
            return Err(BearerError { number: 1, id: first.id(), wrong: Wrong::NotKept(failure) });
        }
        let steered = self.check_movers(commands, mobility)?;
        let staged = self.stage(commands, &steered)?;
        Ok(self.commit(staged))
    }

    /// Works commands through in the books, whole or not at all. Workers learn nothing
    /// of it before it is [committed](Self::commit).
    ///
    /// # Errors
    /// [`BearerError`] for the first command that is wrong; then nothing has changed.
    pub fn stage(
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

    /// Works bearers that records say into the books, as [`stage`](Self::stage) does commands.
    ///
    /// # Errors
    /// [`BearerError`] for the first that is wrong; then nothing has changed.
    pub fn stage_new(&mut self, bearers: Vec<NewBearer>) -> Result<Staged, BearerError> {
        let mut work = self.work(&[], Staged::for_workers(self.workers.count()));
        if let Err((at, id, wrong)) = work.come_all(bearers) {
            work.roll_back();
            return Err(BearerError { number: at + 1, id, wrong });
        }
        Ok(work.staged)
    }

    /// Tells the workers.
    pub fn commit(&mut self, staged: Staged) -> BearersChanged {
        self.persistence.keep_bearers(&staged, &self.subscribers.bearers, self.blueprint);
        let Staged { changes, mut summary, .. } = staged;
        summary.now = self.subscribers.bearers.count();
        for (worker, changes) in changes.into_iter().enumerate() {
            self.workers.change_users(worker, changes);
        }
        summary
    }

    /// Takes back what was staged last.
    pub fn take_back(&mut self, staged: Staged) {
        self.work(&[], staged).roll_back();
    }

    fn work<'a>(&'a mut self, steered: &'a [Steered], staged: Staged) -> Work<'a> {
        Work {
            users: &mut self.subscribers.users,
            bearers: &mut self.subscribers.bearers,
            trials: self.trials,
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

    /// Applies commands as they were written; see [`Self::change_bearers`].
    ///
    /// # Errors
    /// [`BearerError`] for the first command that is wrong; then none has been
    /// applied.
    pub fn change_written(
        &mut self,
        commands: &[WrittenCommand],
        mobility: Option<&Mobility>,
    ) -> Result<BearersChanged, BearerError> {
        let reader = self.reader();
        let mut read = Vec::with_capacity(commands.len());
        for (at, command) in commands.iter().enumerate() {
            let one = reader.command(command).map_err(|wrong| {
                let id = command.id();
                BearerError { number: at + 1, id, wrong }
            })?;
            read.push(one);
        }
        self.change_bearers(&read, mobility)
    }

    /// Reads commands as they are written.
    pub fn reader(&self) -> Reader<'_> {
        Reader { blueprint: self.blueprint, trials: self.trials }
    }

    /// All users, to be looked up.
    pub fn members(&self) -> Members<'_> {
        self.subscribers.members(self.blueprint.handover.as_ref())
    }

    /// Whether users that commands are about may be changed here and now; and the
    /// tunnels of those that may.
    fn check_movers(
        &self,
        commands: &[BearerCommand],
        mobility: Option<&Mobility>,
    ) -> Result<Vec<Steered>, BearerError> {
        let Some(plan) = &self.blueprint.handover else { return Ok(Vec::new()) };
        let mut steered: Vec<Steered> = Vec::new();
        // Of users that the batch itself adds.
        let mut added = HashMap::new();
        for (at, command) in commands.iter().enumerate() {
            let wrong = |wrong| BearerError { number: at + 1, id: command.id(), wrong };
            if let BearerCommand::Add {
                id,
                detection: Detection::User { user: Some(user), .. },
                ..
            } = command
            {
                added.insert(*id, *user);
            }
            let Some(user) = self.subscribers.mover(command, &added, Some(plan)) else { continue };
            let tunnel = &self.blueprint.functions[usize::from(plan.tunnel)].name;
            if given(command).iter().any(|one| one.function == *tunnel) {
                return Err(wrong(Wrong::Tunnel(tunnel.clone())));
            }
            self.check_mover(command, user, mobility).map_err(wrong)?;
            if let Some(one) = mobility.and_then(|all| all.steered(self.blueprint, user))
                && steered.iter().all(|known| known.user != one.user)
            {
                steered.push(one);
            }
        }
        Ok(steered)
    }

    fn check_mover(
        &self,
        command: &BearerCommand,
        user: User,
        mobility: Option<&Mobility>,
    ) -> Result<(), Wrong> {
        // No user has a place yet.
        let Some(mobility) = mobility else { return Ok(()) };
        let adds_user =
            matches!(command, BearerCommand::Add { detection: Detection::User { .. }, .. });
        let is_dynamic = adds_user || mobility.is_dynamic(user);
        let removes_user = match command {
            BearerCommand::Remove { id } => self.subscribers.bearers.number_of_added(*id).is_some(),
            _ => false,
        };
        match mobility.standing(user) {
            Standing::Here if removes_user => Err(Wrong::Owned(user)),
            Standing::Here | Standing::Nowhere => Ok(()),
            Standing::Away if is_dynamic => Ok(()),
            Standing::Away => Err(Wrong::Elsewhere(user)),
            Standing::Moves => Err(Wrong::Moving(user)),
        }
    }
}

fn given(command: &BearerCommand) -> &[BearerSettings] {
    match command {
        BearerCommand::Add { settings, .. } | BearerCommand::Change { settings, .. } => settings,
        BearerCommand::Remove { .. } => &[],
    }
}
