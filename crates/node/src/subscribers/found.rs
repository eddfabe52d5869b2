//! Users by name, by plan and number, and what is known of them.

use weft_dataplane::classify::UserRecord;
use weft_dataplane::command::Configure;
use weft_function::Scope;
use weft_node_config::UserPlan;

use super::range::Range;
use super::{Member, Users, Whose};

impl Users {
    /// Plan, number among the users of the plan, and slot of each user, in the
    /// order of the configuration.
    pub fn iter(&self) -> impl Iterator<Item = (&UserPlan, u32, u32)> + '_ {
        self.ranges.iter().flat_map(|range| {
            let slots = range.slots.iter().enumerate();
            slots.map(|(nth, slot)| (&range.plan, nth as u32, *slot))
        })
    }

    /// The names of the users that someone may mean who calls them `name`, which is no
    /// user's: that of a plan of several users, with or without a number.
    pub fn meant_by(&self, name: &str) -> Option<String> {
        let plan = |name: &str| self.ranges.iter().find(|range| range.plan.name == name);
        let number = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
        let without = name.rsplit_once('-').filter(|(_, rest)| number(rest));
        let range = plan(name).or_else(|| plan(without?.0))?;
        let last = range.slots.len().checked_sub(1)? as u32;
        Some(match range.plan.count {
            1 => format!("the one user is `{}`", range.plan.name),
            _ => format!("users are `{}` to `{}`", range.plan.name_of(0), range.plan.name_of(last)),
        })
    }

    /// Whose contexts functions with that scope have, but for bearers of commands.
    pub fn named(&self, scope: Scope) -> Vec<Whose> {
        if scope == Scope::Group {
            return self.groups.iter().map(|group| Whose::Group(group.name.clone())).collect();
        }
        let mut names = Vec::new();
        for range in &self.ranges {
            for nth in 0..range.slots.len() {
                let user = range.plan.name_of(nth as u32);
                if scope == Scope::Bearer {
                    let dedicated = range.bearer_plans.iter();
                    names.extend(dedicated.map(|bearer| {
                        let (user, bearer) = (user.clone(), bearer.name.clone());
                        Whose::Dedicated { user, bearer }
                    }));
                }
                names.push(Whose::User(user));
            }
        }
        names
    }

    /// How many there are of the configuration that contexts belong to: users, their dedicated
    /// bearers, and groups.
    pub fn subjects(&self) -> usize {
        let of = |range: &Range| range.slots.len() * (1 + range.bearer_plans.len());
        self.ranges.iter().map(of).sum::<usize>() + self.groups.len()
    }

    /// Positions of users among them, and their slots.
    pub fn positions(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut first = 0;
        self.ranges.iter().flat_map(move |range| {
            let (begin, each) = (first, 1 + range.bearer_plans.len() as u32);
            first += range.slots.len() as u32 * each;
            let slots = range.slots.iter().enumerate();
            slots.map(move |(nth, slot)| (begin + nth as u32 * each, *slot))
        })
    }

    /// One of them, by its position: whose contexts, the slot, and which scopes they have, that
    /// of bearers, users and groups.
    pub fn subject(&self, at: usize) -> Option<(Whose, u32, [bool; 3])> {
        let mut at = at;
        for range in &self.ranges {
            let each = 1 + range.bearer_plans.len();
            let count = range.slots.len() * each;
            if at >= count {
                at -= count;
                continue;
            }
            let (nth, bearer) = (at / each, at % each);
            let user = range.plan.name_of(nth as u32);
            return match bearer.checked_sub(1) {
                None => Some((Whose::User(user), range.slots[nth], [true, true, false])),
                Some(bearer) => {
                    let slot = range.bearer_slots(self.shift, nth).nth(bearer)?;
                    let bearer = range.bearer_plans[bearer].name.clone();
                    Some((Whose::Dedicated { user, bearer }, slot, [true, false, false]))
                }
            };
        }
        let group = self.groups.get(at)?;
        Some((Whose::Group(group.name.clone()), group.slot, [false, false, true]))
    }

    /// Whose contexts belong to a user of the configuration; none for one that was added.
    pub fn subjects_of(&self, member: &Member) -> Vec<(Whose, u32, [bool; 3])> {
        let mut before = 0;
        for range in &self.ranges {
            let each = 1 + range.bearer_plans.len();
            if range.plan.name == member.plan && (member.nth as usize) < range.slots.len() {
                let first = before + member.nth as usize * each;
                return (first..first + each).filter_map(|at| self.subject(at)).collect();
            }
            before += range.slots.len() * each;
        }
        Vec::new()
    }

    /// The slot of the group of that name.
    pub fn group(&self, name: &str) -> Option<u32> {
        self.groups.iter().find(|group| group.name == name).map(|group| group.slot)
    }

    /// The slot of the user of that name.
    pub fn slot(&self, name: &str) -> Option<u32> {
        self.find(name).map(|(range, nth)| range.slots[nth])
    }

    /// The user of that name.
    pub fn member(&self, name: &str) -> Option<Member> {
        self.find(name).map(|(range, nth)| self.member_at(range, nth))
    }

    /// The `nth` user, from 0, of the plan of that name.
    pub fn member_of(&self, plan: &str, nth: u32) -> Option<Member> {
        let range = self.ranges.iter().find(|range| range.plan.name == plan)?;
        let nth = nth as usize;
        (nth < range.slots.len()).then(|| self.member_at(range, nth))
    }

    /// Settings of all contexts of a user.
    pub fn settings(&self, member: &Member) -> impl Iterator<Item = Configure> + '_ {
        let range = self.ranges.iter().find(|range| range.plan.name == member.plan);
        let nth = member.nth as usize;
        let range = range.filter(|range| nth < range.slots.len());
        range.into_iter().flat_map(move |range| range.settings(self.shift, nth))
    }

    /// Slot and record of the user of that name.
    pub fn record_of(&self, name: &str) -> Option<(u32, UserRecord)> {
        let (range, nth) = self.find(name)?;
        Some((range.slots[nth], self.record(range, nth)))
    }

    /// Plan of the user of that name, and its number among the users of the plan.
    pub fn place_of(&self, name: &str) -> Option<(&str, u32)> {
        self.find(name).map(|(range, nth)| (&*range.plan.name, nth as u32))
    }

    /// The user at `slot` has dedicated bearers by commands, or has none any more.
    pub fn set_selects(&mut self, slot: u32, selects: bool) {
        match selects {
            true => self.selecting.insert(slot),
            false => self.selecting.remove(&slot),
        };
    }

    pub(super) fn record(&self, range: &Range, nth: usize) -> UserRecord {
        let selects = self.selecting.contains(&range.slots[nth]);
        UserRecord { selects, ..range.record(nth) }
    }

    fn find(&self, name: &str) -> Option<(&Range, usize)> {
        self.ranges.iter().find_map(|range| {
            let nth: u32 = match range.plan.count {
                1 => (range.plan.name == name).then_some(0)?,
                _ => {
                    let number = name.strip_prefix(&range.plan.name)?.strip_prefix('-')?;
                    number.parse().ok().filter(|nth| range.plan.name_of(*nth) == name)?
                }
            };
            ((nth as usize) < range.slots.len()).then_some((range, nth as usize))
        })
    }

    fn member_at(&self, range: &Range, nth: usize) -> Member {
        let own = std::iter::once(range.slots[nth]);
        Member {
            name: range.plan.name_of(nth as u32),
            plan: range.plan.name.clone(),
            nth: nth as u32,
            slots: own.chain(range.bearer_slots(self.shift, nth)).collect(),
            bearers: range.bearer_plans.iter().map(|bearer| bearer.name.clone()).collect(),
            default: None,
            added: Vec::new(),
            record: self.record(range, nth),
        }
    }
}
