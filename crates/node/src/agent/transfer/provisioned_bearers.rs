//! What commands have added for a user: it goes from node to node as it was written.

use super::UserTransfers;
use crate::bearer::{
    BearerCommand, BearerError, BearerId, BearerSettings as Setting, DefaultBearer, Detection,
    Staged, Steered, Wrong,
};
use crate::migration::transfer::{Form, ProvisionedBearer, TransferError};
use crate::subscribers::Member;

impl UserTransfers<'_> {
    /// What commands have added for a user: its default bearer first.
    pub(super) fn given_for(&self, member: &Member) -> Vec<ProvisionedBearer> {
        let ids = member.default.iter().chain(&member.added);
        let written =
            ids.filter_map(|id| self.node.subscribers.bearers.write(*id, self.node.blueprint));
        written.map(|(bearer, nth)| ProvisionedBearer { bearer, nth }).collect()
    }

    /// Puts what a form says that commands have added in the place of what they have
    /// added here. None where there is nothing to do.
    pub(super) fn stage_given(
        &mut self,
        form: &Form,
        steered: &[Steered],
    ) -> Result<Option<Staged>, TransferError> {
        let user = || format!("{}-{}", form.plan, form.nth);
        let here = self.node.members().nth_of(&form.plan, form.nth);
        let is_configured = self.node.subscribers.users.member_of(&form.plan, form.nth).is_some();
        if is_configured && form.default_bearer().is_some() {
            return Err(TransferError::Configured(user()));
        }
        let mut commands: Vec<_> = here.as_ref().map_or(Vec::new(), removals);
        let name = here.map_or_else(user, |member| member.name);
        for given in &form.given {
            let id = given.bearer.id;
            let wrong = |wrong: Wrong| TransferError::Given {
                user: name.clone(),
                bearer: id,
                wrong: wrong.to_string(),
            };
            commands.push(self.read_given(given, form, &name).map_err(wrong)?);
        }
        if commands.is_empty() {
            return Ok(None);
        }
        let staged = self.node.stage(&commands, steered);
        let wrong = |BearerError { id, wrong, .. }: BearerError| TransferError::Given {
            user: name.clone(),
            bearer: id,
            wrong: wrong.to_string(),
        };
        staged.map(Some).map_err(wrong)
    }

    fn read_given(
        &self,
        given: &ProvisionedBearer,
        form: &Form,
        user: &str,
    ) -> Result<BearerCommand, Wrong> {
        let mut command = self.node.reader().bearer(&given.bearer)?;
        let tunnel = self.node.blueprint.handover.as_ref().map(|plan| usize::from(plan.tunnel));
        let tunnel = tunnel.map(|tunnel| &self.node.blueprint.functions[tunnel].name);
        if let BearerCommand::Add { detection, settings, .. } = &mut command {
            self.make_own(detection, form, user);
            for Setting { function, nth, .. } in settings {
                if Some(&*function) == tunnel {
                    return Err(Wrong::Tunnel(function.clone()));
                }
                *nth = given.nth.get(function).copied().unwrap_or_default();
            }
        }
        Ok(command)
    }

    /// Whatever is written, a bearer is of the user that the form is of.
    fn make_own(&self, detection: &mut Detection, form: &Form, name: &str) {
        match detection {
            Detection::User { like, user, .. } => {
                *like = form.plan.clone();
                *user = self.node.members().number_in(&form.plan, form.nth);
            }
            Detection::Dedicated { of, .. } => {
                *of = match form.default_bearer() {
                    Some(given) => DefaultBearer::Added(given.bearer.id),
                    None => DefaultBearer::Configured(name.into()),
                }
            }
        }
    }

    /// Removes what commands have added for a user.
    pub fn remove_added(&mut self, member: &Member) {
        let commands = removals(member);
        if commands.is_empty() {
            return;
        }
        match self.node.stage(&commands, &[]) {
            Ok(staged) => {
                self.node.commit(staged);
            }
            Err(error) => tracing::error!(user = member.name, %error, "its bearers stay"),
        }
    }
}

/// Commands that remove what others have added for a user.
fn removals(member: &Member) -> Vec<BearerCommand> {
    let ids = member.added.iter().chain(&member.default);
    ids.map(|id: &BearerId| BearerCommand::Remove { id: *id }).collect()
}
