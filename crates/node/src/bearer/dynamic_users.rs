//! Users that move and are not of the configuration: commands have added them, or other
//! nodes have brought them.

use weft_dataplane::classify::UserRecord;
use weft_dataplane::command::UserChange;
use weft_node_config::UserKey;

use super::change::Work;
use super::entry::DynamicUser;
use super::{BearerId, User, Wrong};
use crate::subscribers::Users;

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
        let slot = self.users.take(record.group, keys)?;
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

/// What workers have to be told of a user that has no bearer yet: all that comes for it
/// goes through a gate.
pub(super) fn arrival(slot: u32, record: UserRecord) -> Vec<UserChange> {
    vec![UserChange::Record(slot, record), UserChange::Gate(slot)]
}

/// What a user that is like those of a plan has before it has a bearer.
pub(super) fn bare(users: &Users, like: &str) -> UserRecord {
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
