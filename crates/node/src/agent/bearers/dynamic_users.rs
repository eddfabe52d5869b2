//! Users that move and are not of the configuration: found, held and released.

use weft_dataplane::command::{Configure, UserChange};

use crate::agent::Agent;
use crate::bearer::{BearerId, DynamicUser, Place, User, arrival, bare};
use crate::subscribers::{Member, NoRoom};

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
        self.workers.change_users(self.workers.owner(slot), arrival(slot, record));
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
            self.workers.change_users(self.workers.owner(slot), vec![gone]);
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
