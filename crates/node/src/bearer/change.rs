//! Changes of the bearer table: checked one by one, applied whole or not at
//! all.

use serde_json::Value;
use weft_compose::Settings;
use weft_function::{ConfigError, Scope};

use super::book::{Bearers, Entry, Place, Setting};
use super::{Action, BearerCommand, BearerId, Detection, Given, Selector};
use crate::agent::Agent;
use crate::classify::UserRecord;
use crate::command::{Command, UserChange};
use crate::config::UserKey;
use crate::path::Paths;
use crate::plan::Trials;
use crate::users::{Changes, NoRoom, Users};

/// Changes that may wait at the workers; more are refused, as nobody gains by a
/// queue without end.
const MOST_WAITING: usize = 1 << 20;

/// What a batch came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
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

/// Why a batch was refused; nothing has changed then.
#[derive(Debug, thiserror::Error)]
#[error("command {number} (bearer {id}): {wrong}")]
pub struct BearerError {
    /// Which command of the batch, from 1.
    pub number: usize,
    /// The bearer that it is about.
    pub id: BearerId,
    /// What is wrong with it.
    pub wrong: Wrong,
}

/// What can be wrong with a command.
#[derive(Debug, thiserror::Error)]
pub enum Wrong {
    /// The number is taken.
    #[error("there is such a bearer already; change it, or remove it first")]
    Exists,
    /// No command has added it.
    #[error("no command has added such a bearer")]
    Unknown,
    /// The plan is not in the configuration.
    #[error("no users of the configuration are called `{0}`; name a plan to be like")]
    NoPlan(String),
    /// The plan has dedicated bearers.
    #[error("`{0}` has dedicated bearers in the configuration; name a plan without")]
    PlanWithBearers(String),
    /// A key is taken.
    #[error("{0} belongs to somebody else already")]
    KeyTaken(String),
    /// A user without keys.
    #[error("nothing can match it; give a teid, ipv4, ipv6 or flow")]
    NoKey,
    /// The user is not there, or is itself a dedicated bearer.
    #[error("bearer {0} is not the default bearer of a user")]
    NoUser(BearerId),
    /// Another bearer of the user has the selector.
    #[error("bearer {0} of the same user has this selector already")]
    SelectorTaken(BearerId),
    /// A filter that says nothing.
    #[error("a filter gives at least one of protocol, remote, remotePort, userPort")]
    EmptyFilter,
    /// The default bearer cannot go first.
    #[error("{0} dedicated bearers of the user are still there; remove them first")]
    HasDedicated(u32),
    /// The function is not in the configuration.
    #[error("there is no function `{0}`")]
    NoFunction(String),
    /// The function keeps no context that is the bearer's.
    #[error("`{0}` keeps one context for each {1}, so a bearer cannot set it")]
    WrongScope(String, &'static str),
    /// The function refuses the settings.
    #[error("functions.{0}: {1}")]
    Settings(String, String),
    /// No slot is left.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// No room for the key.
    #[error("no room for so many keys of this kind; raise limits.users and restart")]
    NoRoomForKeys,
    /// The workers are behind.
    #[error("too many changes wait for the workers; try again")]
    Busy,
    /// The command as it was written means nothing.
    #[error("{0}")]
    Written(String),
}

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
        let number = self.links.len();
        let mut work = Work {
            users: &mut self.users,
            bearers: &mut self.bearers,
            trials: &self.trials,
            paths: &mut self.signalling.paths,
            now: self.clock.now(),
            changes: (0..number).map(|_| Vec::new()).collect(),
            undo: Vec::new(),
            summary: BearersChanged::default(),
        };
        for (at, command) in commands.iter().enumerate() {
            let done = match self.waiting < MOST_WAITING {
                true => work.apply(command),
                false => Err(Wrong::Busy),
            };
            if let Err(wrong) = done {
                work.roll_back();
                return Err(BearerError { number: at + 1, id: command.id(), wrong });
            }
        }
        let Work { changes, mut summary, .. } = work;
        summary.now = self.bearers.count();
        for (link, changes) in self.links.iter_mut().zip(changes) {
            if !changes.is_empty() {
                self.changing += 1;
                self.waiting += changes.len();
                link.send(Command::Users(changes.into_boxed_slice()));
            }
        }
        Ok(summary)
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

/// What takes a command back.
enum Undo {
    Added(BearerId),
    Changed(BearerId, Box<Entry>),
    Removed(BearerId, Box<Entry>),
}

/// A batch at work.
struct Work<'a> {
    users: &'a mut Users,
    bearers: &'a mut Bearers,
    trials: &'a Trials,
    paths: &'a mut Paths,
    now: u64,
    changes: Changes,
    undo: Vec<Undo>,
    summary: BearersChanged,
}

impl Work<'_> {
    fn apply(&mut self, command: &BearerCommand) -> Result<(), Wrong> {
        match command {
            BearerCommand::Add { id, detection, action, settings } => {
                self.add(*id, detection, *action, settings)?;
                self.summary.added += 1;
            }
            BearerCommand::Change { id, action, settings, end_marker } => {
                self.change(*id, *action, settings, *end_marker)?;
                self.summary.changed += 1;
            }
            BearerCommand::Remove { id } => {
                self.remove(*id)?;
                self.summary.removed += 1;
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        id: BearerId,
        detection: &Detection,
        action: Action,
        given: &[Given],
    ) -> Result<(), Wrong> {
        if self.bearers.entries.contains_key(&id) {
            return Err(Wrong::Exists);
        }
        let entry = match detection {
            Detection::User { like, nth, keys } => self.user(like, *nth, keys, action, given)?,
            Detection::Dedicated { of, selector } => {
                self.dedicated(id, *of, *selector, action, given)?
            }
        };
        self.enter(id, entry);
        self.undo.push(Undo::Added(id));
        Ok(())
    }

    fn user(
        &mut self,
        like: &str,
        nth: u32,
        keys: &[UserKey],
        action: Action,
        given: &[Given],
    ) -> Result<Entry, Wrong> {
        let template = self.users.template(like).ok_or_else(|| Wrong::NoPlan(like.to_owned()))?;
        if template.has_bearers {
            return Err(Wrong::PlanWithBearers(like.to_owned()));
        }
        if keys.is_empty() {
            return Err(Wrong::NoKey);
        }
        let (mut record, mut settings) = (template.record, Vec::new());
        for (function, value) in template.settings {
            let (function, settings_of) = (*function as u16, value.clone());
            settings.push(Setting { function, settings: settings_of, nth });
        }
        self.replace(&mut settings, given, |scope| scope != Scope::Group)?;
        record.action = action;
        self.check_keys(keys)?;
        let slot = self.users.take(record.group)?;
        for key in keys {
            // There is room: it was counted.
            let _ = self.bearers.taken.insert(key, slot);
        }
        let own = &mut self.changes[self.users.worker_of(slot)];
        own.push(UserChange::Record(slot, record));
        own.extend(settings.iter().map(|one| UserChange::Configure(one.configure(slot))));
        for key in keys {
            self.changes.iter_mut().for_each(|list| list.push(UserChange::Key(*key, slot)));
        }
        let place = Place::Default { keys: keys.into(), dedicated: 0 };
        Ok(Entry { slot, record, place, settings: settings.into() })
    }

    /// Whether all `keys` are free and have room.
    fn check_keys(&self, keys: &[UserKey]) -> Result<(), Wrong> {
        for (at, key) in keys.iter().enumerate() {
            if self.bearers.taken.get(key).is_some() || keys[..at].contains(key) {
                return Err(Wrong::KeyTaken(text(key)));
            }
        }
        match self.bearers.taken.has_room_for(keys) {
            true => Ok(()),
            false => Err(Wrong::NoRoomForKeys),
        }
    }

    fn dedicated(
        &mut self,
        id: BearerId,
        of: BearerId,
        selector: Selector,
        action: Action,
        given: &[Given],
    ) -> Result<Entry, Wrong> {
        if matches!(selector, Selector::Filter(filter) if filter == Default::default()) {
            return Err(Wrong::EmptyFilter);
        }
        let mut settings = Vec::new();
        self.replace(&mut settings, given, |scope| scope == Scope::Bearer)?;
        let user = self.bearers.entries.get_mut(&of).ok_or(Wrong::NoUser(of))?;
        let Place::Default { dedicated, .. } = &mut user.place else {
            return Err(Wrong::NoUser(of));
        };
        if let Some(other) = self.bearers.selectors.get(&(user.slot, selector)) {
            return Err(Wrong::SelectorTaken(*other));
        }
        let slot = self.users.take_bearer(user.slot)?;
        *dedicated += 1;
        self.bearers.selectors.insert((user.slot, selector), id);
        let own = &mut self.changes[self.users.worker_of(slot)];
        if !user.record.selects {
            user.record.selects = true;
            own.push(UserChange::Record(user.slot, user.record));
        }
        let record = UserRecord { action, selects: false, ..user.record };
        own.push(UserChange::Record(slot, record));
        own.extend(settings.iter().map(|one| UserChange::Configure(one.configure(slot))));
        own.push(UserChange::Select { user: user.slot, selector, bearer: slot });
        let place = Place::Dedicated { of, selector };
        Ok(Entry { slot, record, place, settings: settings.into() })
    }

    fn change(
        &mut self,
        id: BearerId,
        action: Option<Action>,
        given: &[Given],
        end_marker: bool,
    ) -> Result<(), Wrong> {
        let entry = self.bearers.entries.get(&id).ok_or(Wrong::Unknown)?;
        let (before, is_user) =
            (Box::new(entry.clone()), matches!(entry.place, Place::Default { .. }));
        let mut after = entry.clone();
        let mut settings = std::mem::take(&mut after.settings).into_vec();
        let changed = self.replace(&mut settings, given, |scope| match is_user {
            true => scope != Scope::Group,
            false => scope == Scope::Bearer,
        })?;
        let slot = after.slot;
        let user = match &after.place {
            Place::Default { .. } => slot,
            Place::Dedicated { of, .. } => self.bearers.entries.get(of).map_or(slot, |of| of.slot),
        };
        let own = &mut self.changes[self.users.worker_of(slot)];
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
        self.undo.push(Undo::Changed(id, before));
        Ok(())
    }

    fn remove(&mut self, id: BearerId) -> Result<(), Wrong> {
        let entry = self.bearers.entries.get(&id).ok_or(Wrong::Unknown)?;
        if let Place::Default { dedicated: dedicated @ 1.., .. } = entry.place {
            return Err(Wrong::HasDedicated(dedicated));
        }
        let Some(entry) = self.bearers.entries.remove(&id) else { return Err(Wrong::Unknown) };
        let worker = self.users.worker_of(entry.slot);
        match &entry.place {
            Place::Default { keys, .. } => {
                for key in keys {
                    self.changes.iter_mut().for_each(|list| list.push(UserChange::Unkey(*key)));
                }
            }
            Place::Dedicated { of, selector } => {
                let own = &mut self.changes[worker];
                if let Some(user) = self.bearers.entries.get(of) {
                    own.push(UserChange::Unselect { user: user.slot, selector: *selector });
                    if matches!(user.place, Place::Default { dedicated: 1, .. }) {
                        let record = UserRecord { selects: false, ..user.record };
                        own.push(UserChange::Record(user.slot, record));
                    }
                }
            }
        }
        let contexts = vec![entry.slot];
        self.changes[worker].push(UserChange::Remove { user: entry.slot, contexts });
        self.take_out(id, &entry);
        self.undo.push(Undo::Removed(id, Box::new(entry)));
        Ok(())
    }

    /// Gives back what a bearer has in the books.
    fn take_out(&mut self, id: BearerId, entry: &Entry) {
        self.bearers.told.remove(&entry.slot);
        self.bearers.tunnels.leave(id, entry, self.trials, self.paths);
        match &entry.place {
            Place::Default { keys, .. } => {
                for key in keys {
                    self.bearers.taken.remove(key);
                }
                self.users.give_back(entry.slot);
            }
            Place::Dedicated { of, selector } => {
                if let Some(user) = self.bearers.entries.get_mut(of)
                    && let Place::Default { dedicated, .. } = &mut user.place
                {
                    *dedicated -= 1;
                    user.record.selects = *dedicated > 0;
                    self.bearers.selectors.remove(&(user.slot, *selector));
                }
                self.users.give_back_bearer(entry.slot);
            }
        }
    }

    /// Takes back what was applied so far, last first.
    fn roll_back(&mut self) {
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Added(id) => {
                    if let Some(entry) = self.bearers.entries.remove(&id) {
                        self.take_out(id, &entry);
                    }
                }
                Undo::Changed(id, before) => self.enter(id, *before),
                Undo::Removed(id, entry) => self.put_back(id, *entry),
            }
        }
    }

    fn put_back(&mut self, id: BearerId, entry: Entry) {
        match &entry.place {
            Place::Default { keys, .. } => {
                for key in keys {
                    let _ = self.bearers.taken.insert(key, entry.slot);
                }
                self.users.take_again(entry.slot);
            }
            Place::Dedicated { of, selector } => {
                if let Some(user) = self.bearers.entries.get_mut(of)
                    && let Place::Default { dedicated, .. } = &mut user.place
                {
                    *dedicated += 1;
                    user.record.selects = true;
                    self.bearers.selectors.insert((user.slot, *selector), id);
                }
                self.users.take_bearer_again(entry.slot);
            }
        }
        self.enter(id, entry);
    }

    /// Puts a bearer into the book, in the place of what it was before.
    fn enter(&mut self, id: BearerId, entry: Entry) {
        self.tell(id, &entry);
        let Bearers { entries, tunnels, .. } = &mut *self.bearers;
        tunnels.enter(id, &entry, self.trials, self.paths, self.now);
        if let Some(before) = entries.insert(id, entry) {
            tunnels.leave(id, &before, self.trials, self.paths);
        }
    }

    /// Notes whether the bearer's first waiting packet is to be told.
    fn tell(&mut self, id: BearerId, entry: &Entry) {
        match entry.record.action {
            Action::Notify => drop(self.bearers.told.insert(entry.slot, id)),
            _ => drop(self.bearers.told.remove(&entry.slot)),
        }
    }

    /// Puts given settings in the place of those for the same function; returns
    /// which have changed.
    fn replace(
        &self,
        settings: &mut Vec<Setting>,
        given: &[Given],
        concerns: impl Fn(Scope) -> bool,
    ) -> Result<Vec<usize>, Wrong> {
        let mut changed = Vec::with_capacity(given.len());
        for Given { function: name, settings: value, nth } in given {
            let number = self.trials.number(name).ok_or_else(|| Wrong::NoFunction(name.clone()))?;
            let instance = self.trials.instance(number);
            if !concerns(instance.scope()) {
                let scope = match instance.scope() {
                    Scope::Bearer => "bearer",
                    Scope::User => "user",
                    Scope::Group => "group",
                };
                return Err(Wrong::WrongScope(name.clone(), scope));
            }
            let checked = instance.check(value, nth.saturating_add(1));
            checked.map_err(|error| refused(name, &error))?;
            let setting = Setting { function: number as u16, settings: value.clone(), nth: *nth };
            let known = settings.iter().position(|one| usize::from(one.function) == number);
            match known {
                Some(at) => settings[at] = setting,
                None => settings.push(setting),
            }
            changed.push(known.unwrap_or(settings.len() - 1));
        }
        Ok(changed)
    }
}

/// What a function says of settings, with the path of the value.
fn refused(function: &str, error: &ConfigError) -> Wrong {
    let path = match error.path.as_str() {
        "" => function.to_owned(),
        within => format!("{function}.{within}"),
    };
    Wrong::Settings(path, error.message.clone())
}

fn text(key: &UserKey) -> String {
    match key {
        UserKey::Ipv4 { first, .. } => first.to_string(),
        UserKey::Ipv6 { first, prefix_len, .. } => format!("{first}/{prefix_len}"),
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

/// The plan that bearers added by commands are like.
pub(crate) struct Template<'a> {
    pub record: UserRecord,
    pub has_bearers: bool,
    pub settings: &'a [(usize, Settings)],
}
