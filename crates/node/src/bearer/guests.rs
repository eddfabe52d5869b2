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
pub(super) struct Guest {
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
    pub(super) fn take_guest(
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
        if let Some(guest) = self.bearers.guests.get_mut(&user) {
            if let Some(other) = guest.id {
                return Err(Wrong::NumberTaken(user, other));
            }
            (guest.id, guest.nth) = (Some(id), nth);
            return Ok(guest.slot);
        }
        let record = bare(self.users, like);
        let slot = self.users.take(record.group)?;
        let guest = Guest { slot, like: like.into(), number, nth, id: Some(id), held: false };
        self.bearers.guests.insert(user, guest);
        self.changes_of(slot).extend(arrival(slot, record));
        Ok(slot)
    }

    /// The user has no bearer any more; returns it when it is gone with it.
    pub(super) fn leave_guest(&mut self, user: User) -> Option<Guest> {
        let guest = self.bearers.guests.get_mut(&user)?;
        guest.id = None;
        if guest.held {
            let (slot, like) = (guest.slot, guest.like.clone());
            let record = bare(self.users, &like);
            self.changes_of(slot).extend(arrival(slot, record));
            return None;
        }
        let guest = self.bearers.guests.remove(&user)?;
        self.users.give_back(guest.slot);
        Some(guest)
    }

    /// The user has its bearer after all.
    pub(super) fn put_guest_back(&mut self, user: User, id: BearerId, gone: Option<Guest>) {
        if let Some(guest) = gone {
            self.users.take_again(guest.slot);
            self.bearers.guests.insert(user, guest);
        }
        if let Some(guest) = self.bearers.guests.get_mut(&user) {
            guest.id = Some(id);
        }
    }
}

impl Agent {
    /// A slot for a user that is on its way here, or to another node from here.
    ///
    /// # Errors
    /// [`NoRoom::Users`].
    pub(crate) fn hold_guest(
        &mut self,
        user: User,
        like: &str,
        number: u32,
    ) -> Result<u32, NoRoom> {
        if let Some(guest) = self.bearers.guests.get_mut(&user) {
            guest.held = true;
            return Ok(guest.slot);
        }
        let record = bare(&self.users, like);
        let slot = self.users.take(record.group)?;
        let guest = Guest { slot, like: like.into(), number, nth: 0, id: None, held: true };
        self.bearers.guests.insert(user, guest);
        self.change_users(self.shift.worker(slot), arrival(slot, record));
        Ok(slot)
    }

    /// The node has nothing to do with the user's moves any more.
    pub(crate) fn release_guest(&mut self, user: User) {
        let Some(guest) = self.bearers.guests.get_mut(&user) else { return };
        guest.held = false;
        if guest.id.is_none() {
            let slot = guest.slot;
            self.bearers.guests.remove(&user);
            self.users.give_back(slot);
            let gone = UserChange::Remove { user: slot, contexts: vec![slot] };
            self.change_users(self.shift.worker(slot), vec![gone]);
        }
    }

    /// The `nth` user, from 0, of the plan of that name, or added like them.
    pub(crate) fn member_of(&self, plan: &str, nth: u32) -> Option<Member> {
        let configured = self.users.member_of(plan, nth);
        let member = configured.or_else(|| self.guest(self.number_in(plan, nth)?));
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

    fn guest(&self, user: User) -> Option<Member> {
        let guest = self.bearers.guests.get(&user)?;
        let entry = guest.id.and_then(|id| self.bearers.entries.get(&id));
        let like = || bare(&self.users, &guest.like);
        Some(Member {
            name: format!("{}-{}", guest.like, guest.number),
            plan: guest.like.to_string(),
            nth: guest.number,
            slots: vec![guest.slot],
            bearers: Vec::new(),
            default: guest.id,
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
