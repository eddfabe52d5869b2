//! Dedicated bearers: of users that commands have added, and of those of the
//! configuration.

use weft_dataplane::classify::UserRecord;
use weft_dataplane::command::{Configure, UserChange};
use weft_function::Scope;

use super::change::{Work, are_distinct, replace};
use super::entry::{BearerRole, Entry, Setting};
use super::{Action, BearerId, DefaultBearer, Selector, Wrong};

impl Work<'_> {
    pub(super) fn dedicated(
        &mut self,
        id: BearerId,
        of: DefaultBearer,
        selector: Selector,
        action: Action,
        given: Vec<Setting>,
    ) -> Result<Entry, Wrong> {
        if matches!(selector, Selector::Filter(filter) if filter == Default::default()) {
            return Err(Wrong::EmptyFilter);
        }
        self.check_given(&given, |scope| scope == Scope::Bearer)?;
        let settings = match are_distinct(&given) {
            true => given,
            false => {
                let mut settings = Vec::new();
                replace(&mut settings, given);
                settings
            }
        };
        let (user, of_user) = self.user_of(&of)?;
        if let Some(other) = self.bearers.selectors.get(&(user, selector)) {
            return Err(Wrong::SelectorTaken(*other));
        }
        let slot = self.users.take_bearer(user)?;
        self.bearers.selectors.insert((user, selector), id);
        self.note_dedicated(&of, user, |ids| ids.push(id));
        let tunnel = self.tunnel_of(user, slot);
        let record = UserRecord { action, selects: false, bearer_profile: 0, ..of_user };
        let own = self.changes_of(slot);
        own.push(UserChange::Record(slot, record));
        own.extend(settings.iter().map(|one| UserChange::Configure(one.configure(slot))));
        own.extend(tunnel.map(UserChange::Configure));
        own.push(UserChange::Select { user, selector, bearer: slot });
        let place = BearerRole::Dedicated { of, user, selector };
        Ok(Entry { slot, record, place, settings: settings.into() })
    }

    /// Slot and record of the user whose default bearer this is.
    fn user_of(&self, of: &DefaultBearer) -> Result<(u32, UserRecord), Wrong> {
        match of {
            DefaultBearer::Added(id) => match self.bearers.entries.get(id) {
                Some(Entry { slot, record, place: BearerRole::Default { .. }, .. }) => {
                    Ok((*slot, *record))
                }
                _ => Err(Wrong::NoUser(*id)),
            },
            DefaultBearer::Configured(name) => {
                let found = self.users.record_of(name);
                found.ok_or_else(|| Wrong::NoConfigured {
                    name: name.clone(),
                    meant: self.users.meant_by(name),
                })
            }
        }
    }

    /// Changes the list of a user's dedicated bearers; its worker learns whether it has
    /// any.
    pub(super) fn note_dedicated(
        &mut self,
        of: &DefaultBearer,
        user: u32,
        change: impl FnOnce(&mut Vec<BearerId>),
    ) {
        let ids = self.bearers.dedicated.entry(user).or_default();
        let before = !ids.is_empty();
        change(ids);
        let selects = !ids.is_empty();
        if !selects {
            self.bearers.dedicated.remove(&user);
        }
        if before == selects {
            return;
        }
        let record = match of {
            DefaultBearer::Added(id) => self.bearers.entries.get_mut(id).map(|entry| {
                entry.record.selects = selects;
                entry.record
            }),
            DefaultBearer::Configured(name) => {
                self.users.set_selects(user, selects);
                let record = self.users.record_of(name).map(|(_, record)| record);
                match self.stopped.get_mut(&user) {
                    Some(usual) => {
                        usual.selects = selects;
                        record.map(|record| UserRecord { action: self.stop, ..record })
                    }
                    None => record,
                }
            }
        };
        if let Some(record) = record {
            self.changes_of(user).push(UserChange::Record(user, record));
        }
    }

    /// What puts packets of the bearer at `slot` into the tunnel that those of its
    /// user are put into, if it moves.
    fn tunnel_of(&self, user: u32, slot: u32) -> Option<Configure> {
        let steered = self.steered.iter().find(|one| one.user == user)?;
        let function = steered.function;
        let of_bearers = self.trials.instance(function.into()).scope() == Scope::Bearer;
        let settings = steered.settings.clone();
        of_bearers.then_some(Configure { function, slot, settings, nth: 0 })
    }
}
