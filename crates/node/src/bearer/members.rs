//! Users as they are known by name and by number: those of the configuration, and those that
//! move and are not of it, with the bearers that commands have added.

use weft_dataplane::command::{Configure, UserChange};
use weft_node_config::HandoverPlan;

use super::bearers::Bearers;
use super::dynamic_users::{arrival, bare};
use super::entry::{BearerRole, DynamicUser};
use super::{BearerId, User};
use crate::subscribers::{Member, NoRoom, Users};

/// All users, to be looked up.
pub(crate) struct Members<'a> {
    /// Those of the configuration.
    pub users: &'a Users,
    /// What commands have added.
    pub bearers: &'a Bearers,
    /// Which users move.
    pub handover: Option<&'a HandoverPlan>,
}

impl Members<'_> {
    /// The `nth` user, from 0, of the plan of that name, or added like them.
    pub fn nth_of(&self, plan: &str, nth: u32) -> Option<Member> {
        let configured = self.users.member_of(plan, nth);
        let member = configured.or_else(|| self.dynamic(self.number_in(plan, nth)?));
        member.map(|member| self.with_added(member))
    }

    /// The number that the `nth` user of a plan moves by, or that is added like them.
    pub fn number_in(&self, plan: &str, nth: u32) -> Option<User> {
        let mut ranges = self.handover.iter().flat_map(|handover| &handover.users);
        let range = ranges.find(|range| range.plan == plan)?;
        let user = User(range.first + u64::from(nth));
        range.nth(user).map(|_| user)
    }

    /// The user of that name.
    pub fn named(&self, name: &str) -> Option<Member> {
        if let Some(member) = self.users.member(name) {
            return Some(self.with_added(member));
        }
        let (plan, nth) = name.rsplit_once('-')?;
        let member = self.nth_of(plan, nth.parse().ok()?);
        member.filter(|member| member.name == name)
    }

    fn dynamic(&self, user: User) -> Option<Member> {
        let dynamic = self.bearers.dynamic_users.get(&user)?;
        let entry = dynamic.id.and_then(|id| self.bearers.entries.get(&id));
        let like = || bare(self.users, &dynamic.like);
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
    pub fn settings_of(&self, member: &Member) -> Vec<Configure> {
        let ids = member.default.iter().chain(&member.added);
        let entries = ids.filter_map(|id| self.bearers.entries.get(id));
        let given =
            entries.flat_map(|entry| entry.settings.iter().map(|one| one.configure(entry.slot)));
        self.users.settings(member).chain(given).collect()
    }
}

impl Bearers {
    /// A slot for a user that is on its way here, or to another node from here; with what
    /// its worker has to change.
    ///
    /// # Errors
    /// [`NoRoom::Users`].
    pub fn hold_dynamic_user(
        &mut self,
        users: &mut Users,
        user: User,
        (like, number): (&str, u32),
    ) -> Result<(u32, Vec<UserChange>), NoRoom> {
        if let Some(dynamic) = self.dynamic_users.get_mut(&user) {
            dynamic.held = true;
            return Ok((dynamic.slot, Vec::new()));
        }
        let record = bare(users, like);
        let slot = users.take(record.group, &[])?;
        let dynamic = DynamicUser { slot, like: like.into(), number, nth: 0, id: None, held: true };
        self.dynamic_users.insert(user, dynamic);
        Ok((slot, arrival(slot, record)))
    }

    /// The node has nothing to do with the user's moves any more. Returns the slot that is
    /// free then, with what its worker has to change.
    pub fn release_dynamic_user(
        &mut self,
        users: &mut Users,
        user: User,
    ) -> Option<(u32, Vec<UserChange>)> {
        let dynamic = self.dynamic_users.get_mut(&user)?;
        dynamic.held = false;
        if dynamic.id.is_some() {
            return None;
        }
        let slot = dynamic.slot;
        self.dynamic_users.remove(&user);
        users.give_back(slot);
        Some((slot, vec![UserChange::Remove { user: slot, contexts: vec![slot] }]))
    }

    /// The user has the class of that number from now on.
    pub fn note_class(&mut self, member: &Member, class: u16) {
        for id in member.default.iter().chain(&member.added) {
            if let Some(entry) = self.entries.get_mut(id) {
                entry.record.class = class;
            }
        }
    }

    /// The number that a bearer's user moves by, if commands have added the user.
    pub fn number_of_added(&self, id: BearerId) -> Option<User> {
        match self.entries.get(&id)?.place {
            BearerRole::Default { user, .. } => user.map(|number| User(number.into())),
            BearerRole::Dedicated { .. } => None,
        }
    }
}
