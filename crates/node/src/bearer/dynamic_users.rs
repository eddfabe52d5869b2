//! Users that move and are not of the configuration: commands have added them, or other
//! nodes have brought them.

use weft_dataplane::classify::UserRecord;
use weft_dataplane::command::{Configure, UserChange};
use weft_node_config::UserKey;

use super::book::Place;
use super::change::Work;
use super::{BearerId, User, Wrong};
use crate::agent::Agent;
use crate::users::{Member, NoRoom, Users};

/// Such a user. It is here as long as there is a bearer of it, or it is on its way.
#[derive(Clone, Debug)]
pub(super) struct DynamicUser {
    pub slot: u32,
    /// The plan that it is like, and its number among the plan's users.
    pub like: Box<str>,
    pub number: u32,
    /// Which of the plan's users it is like in its settings.
    pub nth: u32,
    /// Its default bearer.
    pub id: Option<BearerId>,
    /// The node has to do with its moves.
    pub held: bool,
}

impl Work<'_> {
    /// The slot of a user that moves by this number and has no bearer yet.
    pub(super) fn take_dynamic_user(
        &mut self,
        user: User,
        id: BearerId,
        (like, nth): (&str, u32),
        keys: &[UserKey],
    ) -> Result<u32, Wrong> {
        let mut ranges = self.handover.into_iter().flat_map(|plan| &plan.users);
        let range = ranges.find(|range| range.plan == like);
        let number = range.and_then(|range| range.added(user));
        let number = number.ok_or_else(|| Wrong::NoNumber { user, like: like.to_owned() })?;
        if !can_travel(keys) {
            return Err(Wrong::KeyStays);
        }
        if let Some(dynamic) = self.bearers.dynamic_users.get_mut(&user) {
            if let Some(other) = dynamic.id {
                return Err(Wrong::NumberTaken(user, other));
            }
            (dynamic.id, dynamic.nth) = (Some(id), nth);
            return Ok(dynamic.slot);
        }
        let record = bare(self.users, like);
        let slot = self.users.take(record.group)?;
        let dynamic =
            DynamicUser { slot, like: like.into(), number, nth, id: Some(id), held: false };
        self.bearers.dynamic_users.insert(user, dynamic);
        self.changes_of(slot).extend(arrival(slot, record));
        Ok(slot)
    }

    /// The user has no bearer any more; returns it when it is gone with it.
    pub(super) fn leave_dynamic_user(&mut self, user: User) -> Option<DynamicUser> {
        let dynamic = self.bearers.dynamic_users.get_mut(&user)?;
        dynamic.id = None;
        if dynamic.held {
            let (slot, like) = (dynamic.slot, dynamic.like.clone());
            let record = bare(self.users, &like);
            self.changes_of(slot).extend(arrival(slot, record));
            return None;
        }
        let dynamic = self.bearers.dynamic_users.remove(&user)?;
        self.users.give_back(dynamic.slot);
        Some(dynamic)
    }

    /// The user has its bearer after all.
    pub(super) fn put_dynamic_user_back(
        &mut self,
        user: User,
        id: BearerId,
        gone: Option<DynamicUser>,
    ) {
        if let Some(dynamic) = gone {
            self.users.take_again(dynamic.slot);
            self.bearers.dynamic_users.insert(user, dynamic);
        }
        if let Some(dynamic) = self.bearers.dynamic_users.get_mut(&user) {
            dynamic.id = Some(id);
        }
    }
}

impl Agent {
    /// A slot for a user that is on its way here, or to another node from here.
    ///
    /// # Errors
    /// [`NoRoom::Users`].
    pub(crate) fn hold_dynamic_user(
        &mut self,
        user: User,
        like: &str,
        number: u32,
    ) -> Result<u32, NoRoom> {
        if let Some(dynamic) = self.bearers.dynamic_users.get_mut(&user) {
            dynamic.held = true;
            return Ok(dynamic.slot);
        }
        let record = bare(&self.users, like);
        let slot = self.users.take(record.group)?;
        let dynamic = DynamicUser { slot, like: like.into(), number, nth: 0, id: None, held: true };
        self.bearers.dynamic_users.insert(user, dynamic);
        self.change_users(self.shift.worker(slot), arrival(slot, record));
        Ok(slot)
    }

    /// The node has nothing to do with the user's moves any more.
    pub(crate) fn release_dynamic_user(&mut self, user: User) {
        let Some(dynamic) = self.bearers.dynamic_users.get_mut(&user) else { return };
        dynamic.held = false;
        if dynamic.id.is_none() {
            let slot = dynamic.slot;
            self.bearers.dynamic_users.remove(&user);
            self.users.give_back(slot);
            let gone = UserChange::Remove { user: slot, contexts: vec![slot] };
            self.change_users(self.shift.worker(slot), vec![gone]);
        }
    }

    /// The `nth` user, from 0, of the plan of that name, or added like them.
    pub(crate) fn member_of(&self, plan: &str, nth: u32) -> Option<Member> {
        let configured = self.users.member_of(plan, nth);
        let member = configured.or_else(|| self.dynamic(self.number_in(plan, nth)?));
        member.map(|member| self.with_added(member))
    }

    /// The number that the `nth` user of a plan moves by, or that is added like them.
    pub(crate) fn number_in(&self, plan: &str, nth: u32) -> Option<User> {
        let mut ranges = self.blueprint.handover.iter().flat_map(|handover| &handover.users);
        let range = ranges.find(|range| range.plan == plan)?;
        let user = User(range.first + u64::from(nth));
        range.nth(user).map(|_| user)
    }

    /// The user of that name.
    pub(crate) fn member_named(&self, name: &str) -> Option<Member> {
        if let Some(member) = self.users.member(name) {
            return Some(self.with_added(member));
        }
        let (plan, nth) = name.rsplit_once('-')?;
        let member = self.member_of(plan, nth.parse().ok()?);
        member.filter(|member| member.name == name)
    }

    fn dynamic(&self, user: User) -> Option<Member> {
        let dynamic = self.bearers.dynamic_users.get(&user)?;
        let entry = dynamic.id.and_then(|id| self.bearers.entries.get(&id));
        let like = || bare(&self.users, &dynamic.like);
        Some(Member {
            name: format!("{}-{}", dynamic.like, dynamic.number),
            plan: dynamic.like.to_string(),
            nth: dynamic.number,
            slots: vec![dynamic.slot],
            bearers: Vec::new(),
            default: dynamic.id,
            added: Vec::new(),
            record: entry.map_or_else(like, |entry| entry.record),
        })
    }

    /// The member with the dedicated bearers that commands have added.
    fn with_added(&self, mut member: Member) -> Member {
        if let Some(ids) = self.bearers.dedicated.get(&member.slots[0]) {
            let slot = |id| self.bearers.entries.get(id).map(|entry| entry.slot);
            member.slots.extend(ids.iter().filter_map(slot));
            member.added = ids.clone();
        }
        member
    }

    /// Settings of all contexts of a user.
    pub(crate) fn settings_of_member(&self, member: &Member) -> Vec<Configure> {
        let ids = member.default.iter().chain(&member.added);
        let entries = ids.filter_map(|id| self.bearers.entries.get(id));
        let given =
            entries.flat_map(|entry| entry.settings.iter().map(|one| one.configure(entry.slot)));
        self.users.settings(member).chain(given).collect()
    }

    /// The user has the class of that number from now on.
    pub(crate) fn note_class(&mut self, member: &Member, class: u16) {
        for id in member.default.iter().chain(&member.added) {
            if let Some(entry) = self.bearers.entries.get_mut(id) {
                entry.record.class = class;
            }
        }
    }

    /// The number that a bearer's user moves by, if commands have added the user.
    pub(super) fn number_of_added(&self, id: BearerId) -> Option<User> {
        match self.bearers.entries.get(&id)?.place {
            Place::Default { user, .. } => user.map(|number| User(number.into())),
            Place::Dedicated { .. } => None,
        }
    }
}

/// What workers have to be told of a user that has no bearer yet: all that comes for it
/// goes through a gate.
fn arrival(slot: u32, record: UserRecord) -> Vec<UserChange> {
    vec![UserChange::Record(slot, record), UserChange::Gate(slot)]
}

/// What a user that is like those of a plan has before it has a bearer.
fn bare(users: &Users, like: &str) -> UserRecord {
    let vacant = UserRecord { present: true, ..UserRecord::VACANT };
    users.template(like).map_or(vacant, |template| template.record)
}

/// Whether keys mean the same at another node.
fn can_travel(keys: &[UserKey]) -> bool {
    let kind = |key: &UserKey| match key {
        UserKey::Ipv4 { .. } => Some(0),
        UserKey::Ipv6 { .. } => Some(1),
        UserKey::Teid { .. } => Some(2),
        UserKey::Spi { .. } => Some(3),
        _ => None,
    };
    let is_one = |(at, key): (usize, &UserKey)| {
        kind(key).is_some() && keys[..at].iter().all(|other| kind(other) != kind(key))
    };
    let networks = keys.iter().filter_map(|key| match key {
        UserKey::Ipv4 { network, .. } | UserKey::Ipv6 { network, .. } => Some(*network),
        _ => None,
    });
    let mut networks: Vec<_> = networks.collect();
    networks.dedup();
    keys.iter().enumerate().all(is_one) && networks.len() < 2
}
