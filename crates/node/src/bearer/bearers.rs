//! The agent's record of bearers that were added by commands.

use std::sync::Arc;

use indexmap::IndexMap;
use weft_dataplane::classify::Tables;
use weft_dataplane::command::{Configure, UserChange};
use weft_function::{Scope, TunnelEnd};
use weft_node_config::UserKey;
use weft_wire::gtpu::Teid;

use super::entry::{BearerRole, DynamicUser, Entry, Setting};
use super::new::{NewBearer, NewRole};
use super::tunnels::Tunnels;
use super::{Action, BearerId, Numbered, Selector, User};
use crate::gtpu_peers::{Ends, Paths};
use crate::plan::Trials;

/// Bearers by their numbers. They lie side by side, in no particular order: a table of numbers is
/// half empty, and must not be that of what is so much longer.
pub(crate) type Entries = IndexMap<BearerId, Entry, foldhash::fast::RandomState>;

/// Why users of the configuration cannot have their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyConflict {
    /// A bearer has one of them.
    Taken(BearerId),
    /// There is no room.
    NoRoom,
}

/// All bearers that were added by commands, and the keys of all users.
#[derive(Debug)]
pub(crate) struct Bearers {
    pub entries: Entries,
    /// Keys that are taken, by users or bearers.
    pub taken: Tables,
    /// Selectors that are taken, by the slot of their user.
    pub selectors: Numbered<(u32, Selector), BearerId>,
    /// Dedicated bearers, by the slot of their user.
    pub dedicated: Numbered<u32, Vec<BearerId>>,
    /// Users that move and are not of the configuration.
    pub dynamic_users: Numbered<User, DynamicUser>,
    /// Bearers, by slot, whose first waiting packet is to be told.
    pub told: Numbered<u32, BearerId>,
    /// The tunnels that they send into.
    pub tunnels: Tunnels<BearerId>,
    /// Names of the plans that users are like, once each.
    plan_names: Vec<Arc<str>>,
}

impl Bearers {
    /// A record without bearers. `taken` has the keys of the users that are there.
    pub fn new(taken: Tables) -> Bearers {
        Bearers {
            entries: Entries::default(),
            taken,
            selectors: Numbered::default(),
            dedicated: Numbered::default(),
            dynamic_users: Numbered::default(),
            told: Numbered::default(),
            tunnels: Tunnels::default(),
            plan_names: Vec::new(),
        }
    }

    /// So many bearers are about to come, each with a tunnel where one of the functions has any.
    pub fn make_room(&mut self, count: usize) {
        self.entries.reserve(count);
        self.tunnels.make_room(count);
    }

    /// The name of a plan, which all users that are like its users share.
    pub fn plan_name(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.plan_names.iter().find(|known| ***known == *name) {
            return known.clone();
        }
        let name: Arc<str> = name.into();
        self.plan_names.push(name.clone());
        name
    }

    /// Lets a bearer that came by a record have the name of its plan that all others have.
    pub fn share_plan_name(&mut self, bearer: &mut NewBearer) {
        if let NewRole::User { like, .. } = &mut bearer.role {
            *like = self.plan_name(like);
        }
    }

    /// Bearers there are.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Bearers that functions with that scope have contexts of.
    pub fn named(&self, scope: Scope) -> impl Iterator<Item = BearerId> + '_ {
        let has = move |entry: &Entry| entry.has_context(scope);
        self.entries.iter().filter(move |(_, entry)| has(entry)).map(|(id, _)| *id)
    }

    /// Slot and keys of a user that commands have added, by its default bearer.
    pub fn user_added(&self, id: BearerId) -> Option<(u32, &[UserKey])> {
        let entry = self.entries.get(&id)?;
        match &entry.place {
            BearerRole::Default { keys, .. } => Some((entry.slot, keys)),
            BearerRole::Dedicated { .. } => None,
        }
    }

    /// Dedicated bearers of the user whose default bearer this is.
    pub fn dedicated_of(&self, entry: &Entry) -> &[BearerId] {
        let is_default = matches!(entry.place, BearerRole::Default { .. });
        let of_user = self.dedicated.get(&entry.slot).filter(|_| is_default);
        of_user.map_or(&[], Vec::as_slice)
    }

    /// The slot of a bearer, if functions with that scope have contexts of it.
    pub fn slot_of(&self, id: BearerId, scope: Scope) -> Option<u32> {
        let entry = self.entries.get(&id).filter(|entry| entry.has_context(scope))?;
        Some(entry.slot)
    }

    /// The bearer at `slot` whose first waiting packet is to be told.
    pub fn told(&self, slot: u32) -> Option<BearerId> {
        self.told.get(&slot).copied()
    }

    /// The bearer that has `key`.
    pub fn with_key(&self, key: &UserKey) -> Option<BearerId> {
        let has = |place: &BearerRole| match place {
            BearerRole::Default { keys, .. } => keys.contains(key),
            BearerRole::Dedicated { .. } => false,
        };
        self.entries.iter().find(|(_, entry)| has(&entry.place)).map(|(id, _)| *id)
    }

    /// Settings of all bearers for the function of that number.
    pub fn settings_of(&self, function: usize) -> impl Iterator<Item = Configure> + '_ {
        self.entries.values().flat_map(move |entry| {
            let settings = entry.settings.iter();
            let of_function = settings.filter(move |one| usize::from(one.function) == function);
            of_function.map(|one| one.configure(entry.slot))
        })
    }

    /// What becomes of the bearer's packets.
    pub fn action(&self, id: BearerId) -> Option<Action> {
        self.entries.get(&id).map(|entry| entry.record.action)
    }

    /// The tunnel of a bearer that has this TEID at its peer.
    pub fn tunnel(&self, id: BearerId, trials: &Trials, teid: Teid) -> Option<TunnelEnd> {
        self.entries.get(&id)?.tunnels(trials).find(|end| end.teid == teid)
    }

    /// The paths that tunnels of bearers are on, once for each tunnel.
    pub fn paths<'a>(&'a self, trials: &'a Trials) -> impl Iterator<Item = Ends> + 'a {
        let ends = self.entries.values().flat_map(|entry| entry.tunnels(trials));
        ends.map(|end| (end.local, end.peer))
    }

    /// Notes the tunnels of all bearers anew.
    pub fn note_tunnels(&mut self, trials: &Trials, paths: &mut Paths, now: u64) {
        self.tunnels.clear();
        for (id, entry) in self.entries.iter() {
            self.tunnels.enter(*id, entry.tunnels(trials), paths, now);
        }
    }

    /// A dedicated bearer of one of the users that `changes` take away.
    pub fn of_leaving(&self, changes: &[UserChange]) -> Option<BearerId> {
        changes.iter().find_map(|change| match change {
            UserChange::Remove { user, .. } => self.dedicated.get(user)?.first().copied(),
            _ => None,
        })
    }

    /// Lets the keys of the users of the configuration change as `changes` say.
    ///
    /// # Errors
    /// [`KeyConflict::Taken`] when a bearer has one of them, [`KeyConflict::NoRoom`]
    /// without room; then nothing has changed.
    pub fn give_way_to(&mut self, changes: &[UserChange]) -> Result<(), KeyConflict> {
        let keys = changes.iter().filter_map(|change| match change {
            UserChange::Key(key, _) => Some(key),
            _ => None,
        });
        if !self.entries.is_empty() {
            let mut taken = keys.filter(|key| self.taken.get(key).is_some());
            if let Some(id) = taken.find_map(|key| self.with_key(key)) {
                return Err(KeyConflict::Taken(id));
            }
        }
        let leaving = changes.iter().filter_map(|change| match change {
            UserChange::Unkey(key) => Some((*key, self.taken.remove(key)?)),
            _ => None,
        });
        let left: Vec<_> = leaving.collect();
        let coming = || {
            changes.iter().filter_map(|change| match change {
                UserChange::Key(key, slot) => Some((key, *slot)),
                _ => None,
            })
        };
        let has_room = self.taken.has_room_for(coming().map(|(key, _)| key));
        let back = left.iter().map(|(key, slot)| (key, *slot)).filter(|_| !has_room);
        for (key, slot) in back.chain(coming().filter(|_| has_room)) {
            // There is room, or was.
            let _ = self.taken.insert(key, slot);
        }
        if has_room { Ok(()) } else { Err(KeyConflict::NoRoom) }
    }

    /// Functions have other numbers: `number` gives the new one, or none for a
    /// function that is gone.
    pub fn renumber(&mut self, number: impl Fn(u16) -> Option<u16>) {
        for entry in self.entries.values_mut() {
            let settings = std::mem::take(&mut entry.settings).into_vec().into_iter();
            let moved =
                |setting: Setting| Some(Setting { function: number(setting.function)?, ..setting });
            entry.settings = settings.filter_map(moved).collect();
        }
    }
}
