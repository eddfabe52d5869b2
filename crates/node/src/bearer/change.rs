//! Changes of the bearer table: checked one by one, applied whole or not at
//! all.

mod come;

use std::collections::HashMap;
use std::sync::Arc;

use weft_compose::Settings;
use weft_dataplane::classify::UserRecord;
use weft_dataplane::command::UserChange;
use weft_dataplane::gates::tunnel::FIRST_TEID;
use weft_function::{ConfigError, Scope};
use weft_node_config::{HandoverPlan, UserKey};

use super::bearers::Bearers;
use super::entry::{BearerRole, DynamicUser, Entry, Setting};
use super::new::{NewBearer, NewRole};
use super::{Action, BearerCommand, BearerId, BearerSettings, Detection, User, Wrong};
use crate::gtpu_peers::Paths;
use crate::plan::Trials;
use crate::subscribers::{Changes, Users};

/// Changes that may wait at the workers; more are refused, as no client gains by a
/// queue without end.
pub(crate) const MOST_WAITING: usize = 1 << 20;

/// What a batch came to.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Serialize,
    serde::Deserialize,
    utoipa::ToSchema,
)]
pub struct BearersChanged {
    /// Bearers that came.
    pub added: usize,
    /// Bearers that changed.
    pub changed: usize,
    /// Bearers that went.
    pub removed: usize,
    /// Bearers there are now, of those that came by commands.
    pub now: usize,
}

/// What takes a command back.
enum Undo {
    Added(BearerId),
    Changed(BearerId, Box<Entry>),
    Removed(BearerId, Box<Entry>, Option<DynamicUser>),
}

/// What a batch changes, before workers know of it.
pub(crate) struct Staged {
    pub changes: Changes,
    undo: Vec<Undo>,
    pub summary: BearersChanged,
}

impl Staged {
    pub fn for_workers(workers: usize) -> Staged {
        let changes = (0..workers).map(|_| Vec::new()).collect();
        Staged { changes, undo: Vec::new(), summary: BearersChanged::default() }
    }

    /// Bearers that came, changed or went, and whether they came; one may be named more than
    /// once.
    pub fn touched(&self) -> impl Iterator<Item = (BearerId, bool)> + '_ {
        self.undo.iter().map(|undo| match undo {
            Undo::Added(id) => (*id, true),
            Undo::Changed(id, _) | Undo::Removed(id, ..) => (*id, false),
        })
    }
}

/// The tunnel that a moving user's packets are put into by now.
#[derive(Debug)]
pub(crate) struct Steered {
    /// Slot of the user.
    pub user: u32,
    /// Number of the function that does it.
    pub function: u16,
    /// What puts packets into that tunnel.
    pub settings: Settings,
}

/// A batch at work.
pub(crate) struct Work<'a> {
    pub users: &'a mut Users,
    pub bearers: &'a mut Bearers,
    pub trials: &'a Trials,
    pub paths: &'a mut Paths,
    /// Bearers of the configuration that an Error Indication has stopped, and what
    /// they are like when they go on.
    pub stopped: &'a mut HashMap<u32, UserRecord>,
    /// What has become of their packets.
    pub stop: Action,
    pub handover: Option<&'a HandoverPlan>,
    pub steered: &'a [Steered],
    pub now: u64,
    pub staged: Staged,
}

impl Work<'_> {
    pub fn apply(&mut self, command: &BearerCommand) -> Result<(), Wrong> {
        match command {
            BearerCommand::Add { id, detection, action, settings } => {
                self.add(*id, detection, *action, settings)?;
            }
            BearerCommand::Change { id, action, settings, end_marker } => {
                self.change(*id, *action, settings, *end_marker)?;
                self.staged.summary.changed += 1;
            }
            BearerCommand::Remove { id } => {
                self.remove(*id)?;
                self.staged.summary.removed += 1;
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        id: BearerId,
        detection: &Detection,
        action: Action,
        given: &[BearerSettings],
    ) -> Result<(), Wrong> {
        let settings = self.numbered(given)?;
        let role = match detection {
            Detection::User { like, nth, keys, user } => {
                let like = self.bearers.plan_name(like);
                NewRole::User { like, nth: *nth, keys: keys.as_slice().into(), user: *user }
            }
            Detection::Dedicated { of, selector } => {
                NewRole::Dedicated { of: of.clone(), selector: *selector }
            }
        };
        self.come(NewBearer { id, action, role, settings })
    }

    fn user(
        &mut self,
        id: BearerId,
        (like, nth): (Arc<str>, u32),
        keys: Box<[UserKey]>,
        number: Option<User>,
        action: Action,
        given: Vec<Setting>,
    ) -> Result<Entry, Wrong> {
        let template = self.users.template(&like).ok_or_else(|| Wrong::NoPlan((*like).into()))?;
        let count = template.count;
        if nth >= count {
            return Err(Wrong::NoMember { like: (*like).into(), nth, count });
        }
        if template.has_bearers {
            return Err(Wrong::PlanWithBearers((*like).into()));
        }
        if keys.is_empty() {
            return Err(Wrong::NoKey);
        }
        let (mut record, mut settings) = (template.record, Vec::new());
        for (function, value) in template.settings {
            let (function, settings_of) = (*function as u16, value.clone());
            settings.push(Setting { function, settings: settings_of, nth, is_given: false });
        }
        let is_bare = settings.is_empty();
        self.check_given(&given, |scope| scope != Scope::Group)?;
        match is_bare && are_distinct(&given) {
            true => settings = given,
            false => drop(replace(&mut settings, given)),
        }
        record.action = action;
        self.check_keys(&keys)?;
        let slot = match number {
            Some(user) => self.take_dynamic_user(user, id, (&like, nth), &keys)?,
            None => self.users.take(record.group, &keys)?,
        };
        if number.is_some() {
            settings.retain(|one| !self.is_tunnel(one.function));
        }
        for key in &keys {
            // There is room: it was counted.
            let _ = self.bearers.taken.insert(key, slot);
        }
        let own = self.changes_of(slot);
        own.push(UserChange::Record(slot, record));
        own.extend(settings.iter().map(|one| UserChange::Configure(one.configure(slot))));
        for key in &keys {
            self.all_changes(|| UserChange::Key(*key, slot));
        }
        let user = number.map(|user| user.0 as u32);
        let place = BearerRole::Default { like, nth, keys, user };
        Ok(Entry { slot, record, place, settings: settings.into() })
    }

    /// Whether the function of that number puts packets of moving users into tunnels.
    fn is_tunnel(&self, function: u16) -> bool {
        self.handover.is_some_and(|plan| plan.tunnel == function)
    }

    /// What the worker that has `slot` is to change.
    pub(super) fn changes_of(&mut self, slot: u32) -> &mut Vec<UserChange> {
        &mut self.staged.changes[self.users.worker_of(slot)]
    }

    fn all_changes(&mut self, change: impl Fn() -> UserChange) {
        self.staged.changes.iter_mut().for_each(|list| list.push(change()));
    }

    /// Whether all `keys` are free and have room.
    fn check_keys(&self, keys: &[UserKey]) -> Result<(), Wrong> {
        for (at, key) in keys.iter().enumerate() {
            if self.bearers.taken.get(key).is_some() || keys[..at].contains(key) {
                return Err(Wrong::KeyTaken(text(key)));
            }
            let moves = |first: u32| self.handover.is_some() && first >= FIRST_TEID;
            if matches!(*key, UserKey::Teid { first, .. } if moves(first)) {
                return Err(Wrong::MovingTeid);
            }
        }
        match self.bearers.taken.has_room_for(keys) {
            true => Ok(()),
            false => Err(Wrong::NoRoomForKeys),
        }
    }

    fn change(
        &mut self,
        id: BearerId,
        action: Option<Action>,
        given: &[BearerSettings],
        end_marker: bool,
    ) -> Result<(), Wrong> {
        let entry = self.bearers.entries.get(&id).ok_or(Wrong::Unknown)?;
        let (before, is_user) =
            (Box::new(entry.clone()), matches!(entry.place, BearerRole::Default { .. }));
        let mut after = entry.clone();
        let mut settings = std::mem::take(&mut after.settings).into_vec();
        let given = self.numbered(given)?;
        self.check_given(&given, |scope| match is_user {
            true => scope != Scope::Group,
            false => scope == Scope::Bearer,
        })?;
        let changed = replace(&mut settings, given);
        let slot = after.slot;
        let user = match &after.place {
            BearerRole::Default { .. } => slot,
            BearerRole::Dedicated { user, .. } => *user,
        };
        let own = self.changes_of(slot);
        // What waits goes on with the new settings.
        for at in changed {
            let configure = settings[at].configure(slot);
            if end_marker {
                own.push(UserChange::EndTunnels { user, next: settings[at].configure(slot) });
            }
            own.push(UserChange::Configure(configure));
        }
        after.settings = settings.into();
        if let Some(action) = action {
            after.record.action = action;
            own.push(UserChange::Record(slot, after.record));
        }
        self.enter(id, after);
        self.staged.undo.push(Undo::Changed(id, before));
        Ok(())
    }

    fn remove(&mut self, id: BearerId) -> Result<(), Wrong> {
        let entry = self.bearers.entries.get(&id).ok_or(Wrong::Unknown)?;
        if let (BearerRole::Default { .. }, Some(dedicated)) =
            (&entry.place, self.bearers.dedicated.get(&entry.slot))
        {
            return Err(Wrong::HasDedicated(dedicated.len()));
        }
        let Some(entry) = self.bearers.entries.swap_remove(&id) else { return Err(Wrong::Unknown) };
        match &entry.place {
            BearerRole::Default { keys, .. } => {
                for key in keys {
                    self.all_changes(|| UserChange::Unkey(*key));
                }
            }
            BearerRole::Dedicated { user, selector, .. } => {
                let (user, selector) = (*user, *selector);
                self.changes_of(user).push(UserChange::Unselect { user, selector });
            }
        }
        let contexts = vec![entry.slot];
        self.changes_of(entry.slot).push(UserChange::Remove { user: entry.slot, contexts });
        let dynamic = self.take_out(id, &entry);
        self.staged.undo.push(Undo::Removed(id, Box::new(entry), dynamic));
        Ok(())
    }

    /// Gives back what a bearer has in the books.
    fn take_out(&mut self, id: BearerId, entry: &Entry) -> Option<DynamicUser> {
        self.bearers.told.remove(&entry.slot);
        self.bearers.tunnels.leave(id, entry.tunnels(self.trials), self.paths);
        match &entry.place {
            BearerRole::Default { keys, user, .. } => {
                for key in keys {
                    self.bearers.taken.remove(key);
                }
                match user {
                    Some(number) => return self.leave_dynamic_user(User(u64::from(*number))),
                    None => self.users.give_back(entry.slot),
                }
            }
            BearerRole::Dedicated { of, user, selector } => {
                self.bearers.selectors.remove(&(*user, *selector));
                self.note_dedicated(of, *user, |ids| ids.retain(|one| *one != id));
                self.users.give_back_bearer(entry.slot);
            }
        }
        None
    }

    /// Takes back what was applied so far, last first.
    pub fn roll_back(&mut self) {
        while let Some(undo) = self.staged.undo.pop() {
            match undo {
                Undo::Added(id) => {
                    if let Some(entry) = self.bearers.entries.swap_remove(&id) {
                        self.take_out(id, &entry);
                    }
                }
                Undo::Changed(id, before) => self.enter(id, *before),
                Undo::Removed(id, entry, dynamic) => self.put_back(id, *entry, dynamic),
            }
        }
    }

    fn put_back(&mut self, id: BearerId, entry: Entry, dynamic: Option<DynamicUser>) {
        match &entry.place {
            BearerRole::Default { keys, user, .. } => {
                for key in keys {
                    let _ = self.bearers.taken.insert(key, entry.slot);
                }
                match user {
                    Some(number) => {
                        self.put_dynamic_user_back(User(u64::from(*number)), id, dynamic)
                    }
                    None => self.users.take_again(entry.slot),
                }
            }
            BearerRole::Dedicated { of, user, selector } => {
                self.bearers.selectors.insert((*user, *selector), id);
                self.note_dedicated(of, *user, |ids| ids.push(id));
                self.users.take_bearer_again(entry.slot);
            }
        }
        self.enter(id, entry);
    }

    /// Puts a bearer into the record, in the place of what it was before.
    fn enter(&mut self, id: BearerId, entry: Entry) {
        self.tell(id, &entry);
        let Bearers { entries, tunnels, .. } = &mut *self.bearers;
        tunnels.enter(id, entry.tunnels(self.trials), self.paths, self.now);
        if let Some(before) = entries.insert(id, entry) {
            tunnels.leave(id, before.tunnels(self.trials), self.paths);
        }
    }

    /// Notes whether the bearer's first waiting packet is to be told.
    fn tell(&mut self, id: BearerId, entry: &Entry) {
        match entry.record.action {
            Action::Notify => drop(self.bearers.told.insert(entry.slot, id)),
            _ => drop(self.bearers.told.remove(&entry.slot)),
        }
    }

    /// Settings by the numbers of their functions.
    fn numbered(&self, given: &[BearerSettings]) -> Result<Vec<Setting>, Wrong> {
        let numbered = given.iter().map(|one| {
            let number = self.trials.number(&one.function);
            let number = number.ok_or_else(|| Wrong::NoFunction(one.function.clone()))?;
            let (function, settings, nth) = (number as u16, one.settings.clone(), one.nth);
            Ok(Setting { function, settings, nth, is_given: true })
        });
        numbered.collect()
    }

    /// Whether functions take settings of those whose scope concerns them.
    pub(super) fn check_given(
        &self,
        given: &[Setting],
        concerns: impl Fn(Scope) -> bool,
    ) -> Result<(), Wrong> {
        for Setting { function, settings, nth, .. } in given {
            let number = usize::from(*function);
            let (instance, name) = (self.trials.instance(number), || self.trials.name(number));
            if !concerns(instance.scope()) {
                let scope = match instance.scope() {
                    Scope::Bearer => "bearer",
                    Scope::User => "user",
                    Scope::Group => "group",
                };
                return Err(Wrong::WrongScope(name().to_owned(), scope));
            }
            let checked = instance.check(settings, nth.saturating_add(1));
            checked.map_err(|error| refused(name(), &error))?;
        }
        Ok(())
    }
}

/// Whether each function is given settings once.
pub(super) fn are_distinct(given: &[Setting]) -> bool {
    let is_given_before =
        |at: usize, function: u16| given[..at].iter().any(|before| before.function == function);
    !given.iter().enumerate().any(|(at, one)| is_given_before(at, one.function))
}

/// Puts given settings in the place of those for the same function; returns which have changed.
pub(super) fn replace(settings: &mut Vec<Setting>, given: Vec<Setting>) -> Vec<usize> {
    let mut changed = Vec::with_capacity(given.len());
    for setting in given {
        let known = settings.iter().position(|one| one.function == setting.function);
        match known {
            Some(at) => settings[at] = setting,
            None => settings.push(setting),
        }
        changed.push(known.unwrap_or(settings.len() - 1));
    }
    changed
}

/// What a function says of settings, with the path of the value.
pub(super) fn refused(function: &str, error: &ConfigError) -> Wrong {
    let path = match error.path.as_str() {
        "" => function.to_owned(),
        within => format!("{function}.{within}"),
    };
    Wrong::Settings(path, error.message.clone())
}

pub(crate) fn text(key: &UserKey) -> String {
    match key {
        UserKey::Ipv4 { first, .. } => first.to_string(),
        UserKey::Ipv6 { first, prefix_len, .. } => format!("{first}/{prefix_len}"),
        UserKey::Route { first, prefix_len, .. } => format!("{first}/{prefix_len}"),
        UserKey::Teid { first, .. } => format!("TEID {first:#x}"),
        UserKey::Spi { first, .. } => format!("SPI {first:#x}"),
        UserKey::Vlan { first, .. } => format!("VLAN {first}"),
        UserKey::Session { first, .. } => format!("session {first}"),
        UserKey::Port { .. } => "the port".to_owned(),
        UserKey::Flow { source, destination, .. } => {
            format!("the flow from {source} to {destination}")
        }
    }
}
