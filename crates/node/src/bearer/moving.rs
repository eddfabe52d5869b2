//! Commands about users that move: obeyed where the user is, while it stays there.

use std::collections::HashMap;

use super::book::Place;
use super::change::Steered;
use super::{BearerCommand, BearerError, BearerId, DefaultBearer, Detection, Given, User, Wrong};
use crate::agent::Agent;
use crate::handover::Standing;

impl Agent {
    /// Whether users that commands are about may be changed here and now; and the
    /// tunnels of those that may.
    pub(super) fn check_movers(
        &self,
        commands: &[BearerCommand],
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
            let Some(user) = self.mover(command, &added) else { continue };
            let tunnel = &self.blueprint.functions[usize::from(plan.tunnel)].name;
            if given(command).iter().any(|one| one.function == *tunnel) {
                return Err(wrong(Wrong::Tunnel(tunnel.clone())));
            }
            self.check_mover(command, user).map_err(wrong)?;
            if let Some(one) = self.mobility.as_ref().and_then(|all| all.steered(self, user))
                && steered.iter().all(|known| known.user != one.user)
            {
                steered.push(one);
            }
        }
        Ok(steered)
    }

    fn check_mover(&self, command: &BearerCommand, user: User) -> Result<(), Wrong> {
        // No user is anywhere yet.
        let Some(mobility) = &self.mobility else { return Ok(()) };
        let adds_user =
            matches!(command, BearerCommand::Add { detection: Detection::User { .. }, .. });
        let is_dynamic = adds_user || mobility.is_dynamic(user);
        let removes_user = match command {
            BearerCommand::Remove { id } => self.number_of_added(*id).is_some(),
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

    /// The user that a command is about, if it is one that moves.
    fn mover(&self, command: &BearerCommand, added: &HashMap<BearerId, User>) -> Option<User> {
        let number_of = |of: &DefaultBearer| match of {
            DefaultBearer::Added(id) => {
                added.get(id).copied().or_else(|| self.number_of_added(*id))
            }
            DefaultBearer::Configured(name) => {
                let (plan, nth) = self.users.place_of(name)?;
                self.number_in(plan, nth)
            }
        };
        match command {
            BearerCommand::Add { detection: Detection::User { user, .. }, .. } => *user,
            BearerCommand::Add { detection: Detection::Dedicated { of, .. }, .. } => number_of(of),
            BearerCommand::Change { id, .. } | BearerCommand::Remove { id } => {
                match &self.bearers.entries.get(id)?.place {
                    Place::Default { user, .. } => user.map(|number| User(number.into())),
                    Place::Dedicated { of, .. } => number_of(of),
                }
            }
        }
    }
}

fn given(command: &BearerCommand) -> &[Given] {
    match command {
        BearerCommand::Add { settings, .. } | BearerCommand::Change { settings, .. } => settings,
        BearerCommand::Remove { .. } => &[],
    }
}
