//! The agent's record of users: who has which slot.
//!
//! Slots are dealt out so that a slot names its worker (see [`SlotShift`]).
//! Users of one group get slots of one worker, since a group's context is
//! shared by its users and workers share nothing.

mod found;
mod keys;
mod names;
mod range;
mod room;
mod search;
mod settings;
mod slots;
pub(crate) mod steering;
mod tunnels;

use std::collections::BTreeSet;

use weft_compose::{Settings, SlotShift};
use weft_dataplane::classify::UserRecord;
use weft_dataplane::command::{Configure, UserChange};
use weft_function::{PacketMetadata, Scope};
use weft_node_config::{Blueprint, UserKey, UserPlan};

pub(crate) use self::keys::Keys;
pub use self::names::{BearerId, SessionId, Whose};
use self::range::Range;
pub use self::room::{NoRoom, Room};
pub(crate) use self::search::Sought;
use self::settings::{Delta, configure};
use self::slots::Slots;
pub use self::tunnels::Found;

/// A group and its slot.
#[derive(Clone, Debug)]
struct Group {
    name: String,
    slot: u32,
    settings: Vec<(usize, Settings)>,
}

/// A user.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Name of its plan.
    pub plan: String,
    /// Its number among the users of the plan, from 0.
    pub nth: u32,
    /// Its own slot, and those of its dedicated bearers.
    pub slots: Vec<u32>,
    /// Names of its dedicated bearers in the configuration.
    pub bearers: Vec<String>,
    /// Its default bearer, if a command has added it.
    pub default: Option<BearerId>,
    /// Its dedicated bearers that commands have added, which have the last slots.
    pub added: Vec<BearerId>,
    /// What its worker knows of it.
    pub record: UserRecord,
}

/// The plan that users added by commands are like.
pub(crate) struct Template<'a> {
    pub record: UserRecord,
    pub has_bearers: bool,
    pub settings: &'a [(usize, Settings)],
    /// How many users the plan has itself.
    pub count: u32,
}

const VACANT: UserRecord = UserRecord::VACANT;

/// What each worker has to change.
pub type Changes = Vec<Vec<UserChange>>;

/// All users of a node.
#[derive(Clone, Debug)]
pub struct Users {
    shift: SlotShift,
    ranges: Vec<Range>,
    groups: Vec<Group>,
    user_slots: Slots,
    bearer_slots: Slots,
    group_slots: Slots,
    /// Where the search for a worker with room begins.
    next_worker: usize,
    /// Slots of users that have dedicated bearers by commands.
    selecting: BTreeSet<u32>,
}

impl Users {
    /// A record without users.
    pub fn new(room: Room, workers: usize) -> Users {
        Users {
            shift: SlotShift::for_workers(workers),
            ranges: Vec::new(),
            groups: Vec::new(),
            user_slots: Slots::new(workers, 0, room.users),
            bearer_slots: Slots::new(workers, room.users, room.bearers),
            group_slots: Slots::new(workers, 0, room.groups),
            next_worker: 0,
            selecting: BTreeSet::new(),
        }
    }

    /// Users there are.
    pub fn count(&self) -> usize {
        self.ranges.iter().map(|range| range.slots.len()).sum()
    }

    /// Indexes of the contexts that a worker has of functions with that scope.
    pub fn indexes(&self, worker: usize, scope: Scope) -> Box<dyn Iterator<Item = u32> + '_> {
        match scope {
            Scope::User => Box::new(self.user_slots.taken(worker)),
            Scope::Group => Box::new(self.group_slots.taken(worker)),
            Scope::Bearer => {
                let bearers = self.bearer_slots.taken(worker);
                Box::new(self.user_slots.taken(worker).chain(bearers))
            }
        }
    }

    /// Becomes the users of `new`. `classes` and `profiles` give the node's
    /// numbers for those of `new`; `old_functions` are the names that earlier
    /// settings refer to. Users whose name and keys stay are kept with their
    /// contexts. Returns what has to change, in order.
    ///
    /// # Errors
    /// [`NoRoom`]; nothing has changed then.
    pub fn become_those_of(
        &mut self,
        new: &Blueprint,
        old_functions: &[String],
        classes: &[u16],
        profiles: &[u16],
    ) -> Result<Changes, NoRoom> {
        self.check_room(new)?;
        // Whether there is room at each worker shows as slots are dealt out.
        let mut next = self.clone();
        let changes = next.turn_into(new, old_functions, classes, profiles)?;
        *self = next;
        Ok(changes)
    }

    fn turn_into(
        &mut self,
        new: &Blueprint,
        old_functions: &[String],
        classes: &[u16],
        profiles: &[u16],
    ) -> Result<Changes, NoRoom> {
        let mut changes: Changes = (0..self.user_slots.workers()).map(|_| Vec::new()).collect();
        let gone = self.regroup(new, old_functions, &mut changes);
        let mut old = std::mem::take(&mut self.ranges);
        let mut next = Vec::new();
        for plan in &new.users {
            let bearer_plans =
                plan.bearers.map_or(Vec::new(), |profile| new.bearer_profiles[profile].clone());
            let wanted = Range {
                plan: plan.clone(),
                bearer_plans,
                class: classes[plan.class],
                profile: plan.bearers.map_or(0, |profile| profiles[profile]),
                group: plan.group.map_or(PacketMetadata::NONE, |group| self.groups[group].slot),
                slots: Vec::new(),
                bearers: Vec::new(),
            };
            let known = old.iter().position(|range| range.is_same_as(&wanted));
            next.push((wanted, known.map(|at| old.swap_remove(at))));
        }
        // First those that leave, so that their slots and keys are free.
        for range in old {
            self.remove(range, 0, &mut changes);
        }
        for group in gone {
            self.remove_group(group.slot, &mut changes);
        }
        for (mut wanted, known) in next {
            if let Some(known) = known {
                self.keep(known, &mut wanted, new, old_functions, &mut changes);
            }
            self.fill(&mut wanted, &mut changes)?;
            self.ranges.push(wanted);
        }
        Ok(changes)
    }

    /// Settings of all contexts for the function of that number, with the slot
    /// and the number of the user among those they were written for.
    pub fn settings_of(&self, function: usize) -> impl Iterator<Item = Configure> + '_ {
        let of_function = move |one: &Configure| usize::from(one.function) == function;
        let groups = self.groups.iter();
        let of_groups = groups.flat_map(|group| configure(&group.settings, group.slot, 0));
        let of_users = self.ranges.iter().flat_map(move |range| {
            (0..range.slots.len()).flat_map(move |nth| range.settings(self.shift, nth))
        });
        of_groups.chain(of_users).filter(of_function)
    }

    /// What users are like that are added by commands, like those of the plan of
    /// that name.
    pub(crate) fn template(&self, name: &str) -> Option<Template<'_>> {
        let range = self.ranges.iter().find(|range| range.plan.name == name)?;
        let record = UserRecord { group: range.group, class: range.class, present: true, ..VACANT };
        let (settings, has_bearers) = (&*range.plan.settings, !range.bearer_plans.is_empty());
        Some(Template { record, has_bearers, settings, count: range.plan.count })
    }

    /// A slot for a user of `group`, or of none, at the worker where packets with these keys are
    /// received, unless that has many more users than others.
    ///
    /// # Errors
    /// [`NoRoom::Users`].
    pub fn take(&mut self, group: u32, keys: &[UserKey]) -> Result<u32, NoRoom> {
        let worker = match self.worker_by(keys).filter(|_| group == PacketMetadata::NONE) {
            Some(worker) => worker,
            None => self.worker_for(group, 0)?,
        };
        let index = self.user_slots.take(worker).ok_or(NoRoom::Users)?;
        Ok(self.shift.slot(worker, index as usize))
    }

    /// A slot for a dedicated bearer of the user at `user`.
    ///
    /// # Errors
    /// [`NoRoom::Bearers`].
    pub fn take_bearer(&mut self, user: u32) -> Result<u32, NoRoom> {
        let worker = self.shift.worker(user);
        let index = self.bearer_slots.take(worker).ok_or(NoRoom::Bearers)?;
        Ok(self.shift.slot(worker, index as usize))
    }

    /// The slot of a user is free again.
    pub fn give_back(&mut self, slot: u32) {
        self.user_slots.give_back(self.shift.worker(slot), self.shift.index(slot) as u32);
    }

    /// The slot of a dedicated bearer is free again.
    pub fn give_back_bearer(&mut self, slot: u32) {
        self.bearer_slots.give_back(self.shift.worker(slot), self.shift.index(slot) as u32);
    }

    /// The user has its slot, which was just given back, after all.
    pub fn take_again(&mut self, slot: u32) {
        self.user_slots.take_again(self.shift.worker(slot), self.shift.index(slot) as u32);
    }

    /// The dedicated bearer has its slot after all.
    pub fn take_bearer_again(&mut self, slot: u32) {
        self.bearer_slots.take_again(self.shift.worker(slot), self.shift.index(slot) as u32);
    }

    /// The worker that owns `slot`.
    pub fn worker_of(&self, slot: u32) -> usize {
        self.shift.worker(slot)
    }

    /// The most that may be in use.
    fn check_room(&self, new: &Blueprint) -> Result<(), NoRoom> {
        let users: u64 = new.users.iter().map(|plan| u64::from(plan.count)).sum();
        if users > u64::from(new.limits.users) {
            return Err(NoRoom::Users);
        }
        if new.groups.len() > self.group_slots.capacity() {
            return Err(NoRoom::Groups);
        }
        let bearers_of =
            |plan: &UserPlan| plan.bearers.map_or(0, |at| new.bearer_profiles[at].len());
        let bearers: u64 =
            new.users.iter().map(|plan| u64::from(plan.count) * bearers_of(plan) as u64).sum();
        if bearers > u64::from(new.limits.bearers) { Err(NoRoom::Bearers) } else { Ok(()) }
    }

    /// Gives groups their slots and settings; the order is that of `new`.
    /// Returns the groups that are gone, whose users are still there.
    fn regroup(
        &mut self,
        new: &Blueprint,
        old_functions: &[String],
        changes: &mut Changes,
    ) -> Vec<Group> {
        let workers = changes.len();
        let mut old = std::mem::take(&mut self.groups);
        for (number, plan) in new.groups.iter().enumerate() {
            let known = old.iter().position(|group| group.name == plan.name);
            let known = known.map(|at| old.swap_remove(at));
            let slot = known.as_ref().map(|group| group.slot).or_else(|| {
                let index = self.group_slots.take(number % workers)?;
                Some(self.shift.slot(number % workers, index as usize))
            });
            let slot = slot.unwrap_or(PacketMetadata::NONE);
            let settings = known.map_or(Vec::new(), |group| group.settings);
            let delta = Delta::between(&settings, old_functions, &plan.settings, new);
            changes[self.shift.worker(slot) % workers].extend(delta.changes(slot, 0));
            let (name, settings) = (plan.name.clone(), plan.settings.clone());
            self.groups.push(Group { name, slot, settings });
        }
        old
    }

    fn remove_group(&mut self, slot: u32, changes: &mut Changes) {
        let worker = self.shift.worker(slot);
        self.group_slots.give_back(worker, self.shift.index(slot) as u32);
        changes[worker].push(UserChange::RemoveGroup { slot });
    }

    /// Takes over the users of `known`; those beyond the wanted number leave.
    fn keep(
        &mut self,
        mut known: Range,
        wanted: &mut Range,
        new: &Blueprint,
        old_functions: &[String],
        changes: &mut Changes,
    ) {
        let count = (wanted.plan.count as usize).min(known.slots.len());
        if known.slots.len() > count {
            let bearers = match known.bearers.is_empty() {
                true => Vec::new(),
                false => known.bearers.split_off(count),
            };
            let rest = Range {
                plan: known.plan.clone(),
                bearer_plans: known.bearer_plans.clone(),
                slots: known.slots.split_off(count),
                bearers,
                ..known
            };
            self.remove(rest, count, changes);
        }
        wanted.slots = std::mem::take(&mut known.slots);
        wanted.bearers = std::mem::take(&mut known.bearers);
        let moved = (known.class, known.profile) != (wanted.class, wanted.profile);
        let own = Delta::between(&known.plan.settings, old_functions, &wanted.plan.settings, new);
        let plans = known.bearer_plans.iter().zip(&wanted.bearer_plans);
        let of_bearers: Vec<_> = plans
            .map(|(old, wanted)| {
                Delta::between(&old.settings, old_functions, &wanted.settings, new)
            })
            .collect();
        for nth in 0..wanted.slots.len() {
            let slot = wanted.slots[nth];
            let changes = &mut changes[self.shift.worker(slot)];
            if moved {
                changes.push(UserChange::Record(slot, self.record(wanted, nth)));
            }
            changes.extend(own.changes(slot, nth as u32));
            for (slot, delta) in wanted.bearer_slots(self.shift, nth).zip(&of_bearers) {
                changes.extend(delta.changes(slot, nth as u32));
            }
        }
    }

    /// Adds users until there are as many as wanted.
    fn fill(&mut self, range: &mut Range, changes: &mut Changes) -> Result<(), NoRoom> {
        for nth in range.slots.len()..range.plan.count as usize {
            let worker = self.worker_for(range.group, range.bearer_plans.len())?;
            let index = self.user_slots.take(worker).ok_or(NoRoom::Users)?;
            let slot = self.shift.slot(worker, index as usize);
            range.slots.push(slot);
            if !range.bearer_plans.is_empty() {
                let count = range.bearer_plans.len() as u32;
                let first = self.bearer_slots.take_run(worker, count).ok_or(NoRoom::Bearers)?;
                range.bearers.push(self.shift.slot(worker, first as usize));
            }
            let own = &mut changes[worker];
            own.push(UserChange::Record(slot, self.record(range, nth)));
            own.extend(range.settings(self.shift, nth).map(UserChange::Configure));
            for key in &range.plan.keys {
                let key = key.nth(nth as u32);
                changes.iter_mut().for_each(|list| list.push(UserChange::Key(key, slot)));
            }
        }
        Ok(())
    }

    /// Removes users, the first of whom is the `first`th of their plan.
    fn remove(&mut self, range: Range, first: usize, changes: &mut Changes) {
        for (at, &slot) in range.slots.iter().enumerate() {
            for key in &range.plan.keys {
                let key = key.nth((first + at) as u32);
                changes.iter_mut().for_each(|list| list.push(UserChange::Unkey(key)));
            }
            let worker = self.shift.worker(slot);
            self.user_slots.give_back(worker, self.shift.index(slot) as u32);
            let mut contexts = vec![slot];
            if let Some(&bearer) = range.bearers.get(at) {
                let index = self.shift.index(bearer);
                for index in index..index + range.bearer_plans.len() {
                    contexts.push(self.shift.slot(worker, index));
                    self.bearer_slots.give_back(worker, index as u32);
                }
            }
            changes[worker].push(UserChange::Remove { user: slot, contexts });
        }
    }

    /// The worker for a new user with so many dedicated bearers: that of its
    /// group, or the next with room.
    fn worker_for(&mut self, group: u32, bearers: usize) -> Result<usize, NoRoom> {
        if group != PacketMetadata::NONE {
            return Ok(self.shift.worker(group));
        }
        let workers = self.user_slots.workers();
        let mut with_room = (self.next_worker..self.next_worker + workers)
            .map(|number| number % workers)
            .filter(|worker| self.user_slots.free(*worker) > 0)
            .peekable();
        with_room.peek().ok_or(NoRoom::Users)?;
        let chosen = with_room.find(|worker| self.bearer_slots.free(*worker) >= bearers);
        let chosen = chosen.ok_or(NoRoom::Bearers)?;
        self.next_worker = chosen + 1;
        Ok(chosen)
    }
}

#[cfg(test)]
mod tests {
    use weft_functions::KINDS;

    use super::*;
    use weft_node_config::read;

    /// A node of two workers whose users have `bearers`, by range: users of a
    /// range, and bearers of each.
    fn blueprint(ranges: &[(usize, usize)]) -> Blueprint {
        let mut text = "
apiVersion: weft/v1
kind: Node
metadata: {name: users}
workers: {count: 2}
limits: {users: 8, bearers: 8}
ports:
  access: {device: 'ring:access', direction: uplink}
  core: {device: 'ring:core', direction: downlink}
rules: |
  from access -> core
  from core -> access
users:
"
        .to_owned();
        for (at, (count, bearers)) in ranges.iter().enumerate() {
            let bearers: Vec<_> = (0..*bearers)
                .map(|nth| format!("{{name: b{nth}, when: destination-port == {nth}}}"))
                .collect();
            let bearers = bearers.join(", ");
            text.push_str(&format!(
                "  - {{name: u{at}, count: {count}, match: {{ipv4: 10.0.{at}.1}}, bearers: [{bearers}]}}\n"
            ));
        }
        read(&text, "users.yaml", KINDS).unwrap_or_else(|mistakes| panic!("{mistakes}"))
    }

    fn become_those_of(users: &mut Users, new: &Blueprint) -> Result<Changes, NoRoom> {
        let classes = vec![0; new.users.len()];
        users.become_those_of(new, &[], &classes, &vec![1; new.bearer_profiles.len()])
    }

    #[test]
    fn a_user_goes_where_there_is_room_for_its_bearers() {
        let start = blueprint(&[(1, 4), (1, 0), (1, 4)]);
        let mut users = Users::new(Room::of(&start.limits, 2, false), 2);
        become_those_of(&mut users, &start).unwrap();
        let workers: Vec<_> = users.iter().map(|(_, _, slot)| users.worker_of(slot)).collect();
        assert_eq!(workers, [0, 1, 1]);
    }

    #[test]
    fn users_without_room_leave_the_book_as_it_was() {
        // Five bearers fit the limit of eight, but neither worker's four.
        let start = blueprint(&[(2, 2), (1, 0)]);
        let mut users = Users::new(Room::of(&start.limits, 2, false), 2);
        become_those_of(&mut users, &start).unwrap();
        let look = |users: &Users| -> Vec<_> {
            users.iter().map(|(plan, nth, slot)| (plan.name_of(nth), slot)).collect()
        };
        let before = look(&users);
        let refused = become_those_of(&mut users, &blueprint(&[(1, 0), (3, 0), (1, 5)]));
        assert_eq!(refused.err(), Some(NoRoom::Bearers));
        assert_eq!(look(&users), before);
        // And nothing is taken that is not in the record.
        become_those_of(&mut users, &blueprint(&[(4, 2)])).unwrap();
        assert_eq!(users.count(), 4);
    }
}
