//! The subscribers of a node: users and groups of the configuration, users that moved here,
//! and the bearers that commands have added.

use std::collections::HashMap;

use weft_dataplane::command::{Configure, UserChange};
use weft_function::{Scope, TunnelEnd};
use weft_node_config::HandoverPlan;
use weft_wire::gtpu::Teid;

use super::bearers::Bearers;
use super::entry::BearerRole;
use super::members::Members;
use super::session::Sessions;
use super::{BearerCommand, BearerId, DefaultBearer, Detection, User};
use crate::gtpu_peers::{Ends, Paths};
use crate::plan::Trials;
use crate::subscribers::{Found, Keys, NoRoom, Room, Users, Whose};

/// The subscribers of a node, as its agent knows them. Workers learn of changes by commands,
/// which the agent sends.
#[derive(Debug)]
pub(crate) struct Subscribers {
    /// Users and groups of the configuration.
    pub users: Users,
    /// Bearers and users that commands have added.
    pub bearers: Bearers,
    /// PFCP sessions.
    pub sessions: Sessions,
    /// How many there may be.
    pub room: Room,
    /// Keys that the tables of the workers were made for.
    pub keys: Keys,
}

/// A bearer of a command's, and one of the configuration, that send into a tunnel.
pub(crate) struct TunnelUsers {
    /// Those that commands have added.
    pub bearers: Vec<BearerId>,
    /// The user of the configuration, where no command's bearer does.
    pub user: Option<Found>,
    /// The tunnel as it is written there.
    pub end: TunnelEnd,
}

impl Subscribers {
    /// All users, to be looked up; `handover` says which of them move.
    pub fn members<'a>(&'a self, handover: Option<&'a HandoverPlan>) -> Members<'a> {
        Members { users: &self.users, bearers: &self.bearers, handover }
    }

    /// Settings of all contexts for the function of that number.
    pub fn settings_of(&self, function: usize) -> impl Iterator<Item = Configure> + '_ {
        let users = self.users.settings_of(function).chain(self.bearers.settings_of(function));
        users.chain(self.sessions.settings_of(function))
    }

    /// Settings of a bearer or session that a command has added, for the function of that number.
    pub fn settings_at(&self, function: usize, whose: &Whose) -> Option<Configure> {
        match whose {
            Whose::Added(id) => {
                let entry = self.bearers.entries.get(id)?;
                let mut settings = entry.settings.iter();
                let one = settings.find(|one| usize::from(one.function) == function)?;
                Some(one.configure(entry.slot))
            }
            Whose::Session(id) => self.sessions.settings_at(function, *id),
            Whose::User(_) | Whose::Dedicated { .. } | Whose::Group(_) => None,
        }
    }

    /// Whose contexts a function of that scope has.
    pub fn with_contexts(&self, scope: Scope) -> Vec<Whose> {
        let mut names = self.users.named(scope);
        if scope != Scope::Group {
            names.extend(self.bearers.named(scope).map(Whose::Added));
        }
        names
    }

    /// The slot of a context of a function with that scope.
    pub fn context_slot(&self, scope: Scope, whose: &Whose) -> Option<u32> {
        match (whose, scope) {
            (Whose::Group(name), Scope::Group) => self.users.group(name),
            (_, Scope::Group) | (Whose::Group(_), _) => None,
            (Whose::User(name), _) => self.users.slot(name),
            (Whose::Dedicated { user, bearer }, Scope::Bearer) => {
                let member = self.users.member(user)?;
                let at = member.bearers.iter().position(|known| known == bearer)?;
                member.slots.get(at + 1).copied()
            }
            (Whose::Dedicated { .. }, Scope::User) => None,
            (Whose::Added(id), _) => self.bearers.slot_of(*id, scope),
            (Whose::Session(id), _) => self.sessions.entries.get(id).map(|entry| entry.slot),
        }
    }

    /// The user that a command is about, if it is one that moves; `added` has those that its
    /// batch adds.
    pub fn mover(
        &self,
        command: &BearerCommand,
        added: &HashMap<BearerId, User>,
        handover: Option<&HandoverPlan>,
    ) -> Option<User> {
        let number_of = |of: &DefaultBearer| match of {
            DefaultBearer::Added(id) => {
                added.get(id).copied().or_else(|| self.bearers.number_of_added(*id))
            }
            DefaultBearer::Configured(name) => {
                let (plan, nth) = self.users.place_of(name)?;
                self.members(handover).number_in(plan, nth)
            }
        };
        match command {
            BearerCommand::Add { detection: Detection::User { user, .. }, .. } => *user,
            BearerCommand::Add { detection: Detection::Dedicated { of, .. }, .. } => number_of(of),
            BearerCommand::Change { id, .. } | BearerCommand::Remove { id } => {
                match &self.bearers.entries.get(id)?.place {
                    BearerRole::Default { user, .. } => user.map(|number| User(number.into())),
                    BearerRole::Dedicated { of, .. } => number_of(of),
                }
            }
        }
    }

    /// Numbers of bearers that commands have added, in order: up to `count` from `first` on.
    pub fn bearer_numbers(&self, first: BearerId, count: usize) -> Vec<BearerId> {
        let entries = self.bearers.entries.keys().copied();
        let mut numbers: Vec<_> = entries.filter(|id| *id >= first).collect();
        let wanted = count.min(numbers.len());
        if wanted < numbers.len() {
            numbers.select_nth_unstable(wanted);
            numbers.truncate(wanted);
        }
        numbers.sort_unstable();
        numbers
    }

    /// Name of the user at a slot; the slot's number where there is none.
    pub fn user_name(&self, slot: u32) -> String {
        if let Some(id) = self.sessions.at(slot) {
            return id.user_name();
        }
        let user = self.users.iter().find(|(_, _, one)| *one == slot);
        user.map_or_else(|| format!("#{slot}"), |(plan, nth, _)| plan.name_of(nth))
    }

    /// Gives a user that moves here a place; its slot, and what its worker has to change.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub fn hold_dynamic_user(
        &mut self,
        user: User,
        like: &str,
        number: u32,
    ) -> Result<(u32, Vec<UserChange>), NoRoom> {
        self.bearers.hold_dynamic_user(&mut self.users, user, (like, number))
    }

    /// Takes that place back.
    pub fn release_dynamic_user(&mut self, user: User) -> Option<(u32, Vec<UserChange>)> {
        self.bearers.release_dynamic_user(&mut self.users, user)
    }

    /// What sends into the tunnel with that TEID on `path`, between `ends`.
    pub fn of_tunnel(
        &self,
        trials: &Trials,
        (path, ends): (u32, Ends),
        teid: Teid,
    ) -> Option<TunnelUsers> {
        let bearers = self.bearers.tunnels.of(path, teid.0);
        if let Some(end) = bearers.first().and_then(|id| self.bearers.tunnel(*id, trials, teid)) {
            return Some(TunnelUsers { bearers, user: None, end });
        }
        let (user, end) = self.users.with_tunnel(trials, ends, teid.0)?;
        Some(TunnelUsers { bearers, user: Some(user), end })
    }

    /// The paths that bearers of the configuration and of commands are on, and how
    /// many are on each.
    pub fn paths_in_use(&self, trials: &Trials) -> HashMap<Ends, u32> {
        let mut count = HashMap::new();
        let bearers = self.bearers.paths(trials).chain(self.sessions.paths(trials));
        for ends in self.users.paths(trials).chain(bearers) {
            *count.entry(ends).or_default() += 1;
        }
        count
    }

    /// Notes the tunnels of all bearers in `paths` after a change of the configuration;
    /// `before` is what [`Subscribers::paths_in_use`] was before.
    pub fn note_tunnels(
        &mut self,
        trials: &Trials,
        paths: &mut Paths,
        before: HashMap<Ends, u32>,
        now: u64,
    ) {
        for ends in self.users.paths(trials) {
            paths.enter(ends, now);
        }
        self.bearers.note_tunnels(trials, paths, now);
        self.sessions.note_tunnels(trials, paths, now);
        for (ends, count) in before {
            paths.leave(ends, count);
        }
    }
}
