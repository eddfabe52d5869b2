//! The rules that a device should have, and those that it has.
//!
//! A rule that leads to the wrong worker does no harm: its packets cross a ring, as those that no
//! rule matches. So there is no haste, and each turn gives the device few rules.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use weft_dpdk::{FlowLevel, FlowMatch, FlowRefusal, FlowRule};

use super::scheme::MOST_RULES;

/// A device's table of rules.
pub(crate) trait RuleTable {
    /// A rule that it has.
    type Id: Copy;

    /// Takes a rule.
    ///
    /// # Errors
    /// What the driver says; nothing has changed then.
    fn add(&self, rule: &FlowRule) -> Result<Self::Id, FlowRefusal>;

    /// Gives one back.
    ///
    /// # Errors
    /// What the driver says; the device still has it then.
    fn remove(&self, id: Self::Id) -> Result<(), FlowRefusal>;
}

/// Rules that are refused in a row before a table counts as full.
const FULL_AFTER: u32 = 8;

/// Those of the second level come first, as they are for most users.
type Turn = (bool, FlowMatch);

/// The rules of one device.
#[derive(Debug)]
pub(crate) struct RuleSet<I> {
    wanted: BTreeMap<FlowMatch, Wanted>,
    present: HashMap<FlowMatch, (FlowRule, I)>,
    /// Present, and to be taken back.
    leaving: BTreeSet<FlowMatch>,
    /// Wanted, and not present.
    coming: BTreeSet<Turn>,
    /// Wanted, and not tried again before there is room.
    refused: BTreeSet<Turn>,
    in_a_row: u32,
    /// Rules that the device does not give back.
    stuck: u64,
    /// Users of the configuration for which there is no room here, and keys of others that have
    /// found none.
    beyond: (u64, u64),
    /// The first refusal, until it is told.
    untold: Option<FlowRefusal>,
    is_told: bool,
}

#[derive(Clone, Copy, Debug)]
struct Wanted {
    queue: u16,
    level: FlowLevel,
    /// Of one user whom a command has added.
    is_added: bool,
}

/// Rules of a device, as it is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleCounts {
    /// That it has.
    pub present: u64,
    /// That it should have and has not, as it refuses them, or has no room.
    pub refused: u64,
}

impl<I: Copy> RuleSet<I> {
    /// None.
    pub fn new() -> RuleSet<I> {
        RuleSet {
            wanted: BTreeMap::new(),
            present: HashMap::new(),
            leaving: BTreeSet::new(),
            coming: BTreeSet::new(),
            refused: BTreeSet::new(),
            in_a_row: 0,
            stuck: 0,
            beyond: (0, 0),
            untold: None,
            is_told: false,
        }
    }

    /// The rules of the configuration are these from now on, and for so many of its users there
    /// is none. Those of users whom commands have added stay.
    pub fn configure(&mut self, rules: Vec<FlowRule>, beyond: u64) {
        self.beyond.0 = beyond;
        let new: HashMap<_, _> = rules.iter().map(|rule| (rule.of, ())).collect();
        let gone = self.wanted.iter().filter(|(of, one)| !one.is_added && !new.contains_key(of));
        for of in gone.map(|(of, _)| *of).collect::<Vec<_>>() {
            self.forget(&of);
        }
        for rule in rules {
            self.want(&rule, false);
        }
    }

    /// A user whom a command has added has this rule.
    pub fn add(&mut self, rule: &FlowRule) {
        match self.wanted.len() < MOST_RULES || self.wanted.contains_key(&rule.of) {
            true => self.want(rule, true),
            false => self.beyond.1 += 1,
        }
    }

    /// A user who is gone, or has another worker, has a rule for this no more.
    pub fn remove(&mut self, of: &FlowMatch) {
        if self.wanted.get(of).is_some_and(|one| one.is_added) {
            self.forget(of);
        }
    }

    /// The device has no rule any more: it was closed, or all were taken back.
    pub fn lose_all(&mut self) {
        self.present.clear();
        self.leaving.clear();
        self.refused.clear();
        (self.in_a_row, self.stuck, self.untold, self.is_told) = (0, 0, None, false);
        self.coming = self.wanted.iter().map(|(of, one)| turn(of, one.level)).collect();
    }

    /// Gives the device rules, and takes others back, at most so many; whether there was anything
    /// to do.
    pub fn work(&mut self, table: &impl RuleTable<Id = I>, budget: usize) -> bool {
        for done in 0..budget {
            let some = self.take_one_back(table) || self.give_one(table);
            if !some {
                return done > 0;
            }
        }
        true
    }

    /// What it has.
    pub fn counts(&self) -> RuleCounts {
        let waiting = if self.is_full() { self.coming.len() } else { 0 };
        let here = (self.refused.len() + waiting) as u64;
        RuleCounts {
            present: self.present.len() as u64,
            refused: here + self.beyond.0 + self.beyond.1,
        }
    }

    /// Why the device refuses a rule, once; when there is nothing more to be tried.
    pub fn news(&mut self) -> Option<FlowRefusal> {
        let is_done = self.leaving.is_empty() && (self.coming.is_empty() || self.is_full());
        if self.counts().refused == 0 {
            self.untold = None;
        }
        let told = self.untold.take_if(|_| is_done && !self.is_told);
        self.is_told |= told.is_some();
        told
    }

    fn is_full(&self) -> bool {
        self.in_a_row >= FULL_AFTER
    }

    fn want(&mut self, rule: &FlowRule, is_added: bool) {
        let one = Wanted { queue: rule.queue, level: rule.level, is_added };
        if let Some(before) = self.wanted.insert(rule.of, one).filter(|old| old.level != rule.level)
        {
            self.coming.remove(&turn(&rule.of, before.level));
            self.refused.remove(&turn(&rule.of, before.level));
        }
        match self.present.get(&rule.of) {
            Some((present, _)) if present == rule => {
                self.leaving.remove(&rule.of);
            }
            Some(_) => {
                self.leaving.insert(rule.of);
            }
            None => {
                if !self.refused.contains(&turn(&rule.of, rule.level)) {
                    self.coming.insert(turn(&rule.of, rule.level));
                }
            }
        }
    }

    fn forget(&mut self, of: &FlowMatch) {
        let Some(one) = self.wanted.remove(of) else { return };
        self.coming.remove(&turn(of, one.level));
        self.refused.remove(&turn(of, one.level));
        if self.present.contains_key(of) {
            self.leaving.insert(*of);
        }
    }

    fn take_one_back(&mut self, table: &impl RuleTable<Id = I>) -> bool {
        let Some(of) = self.leaving.pop_first() else { return false };
        let Some((_, id)) = self.present.get(&of).copied() else { return true };
        if let Err(refusal) = table.remove(id) {
            // Its packets cross a ring until the port is opened again.
            self.stuck += 1;
            tracing::debug!(%refusal, "a device does not give a flow rule back");
            return true;
        }
        self.present.remove(&of);
        if let Some(one) = self.wanted.get(&of) {
            self.coming.insert(turn(&of, one.level));
        }
        // There is room for another.
        self.in_a_row = 0;
        self.coming.extend(self.refused.pop_first());
        true
    }

    fn give_one(&mut self, table: &impl RuleTable<Id = I>) -> bool {
        if self.is_full() {
            return false;
        }
        let Some(next) = self.coming.pop_first() else { return false };
        let Some(one) = self.wanted.get(&next.1).copied() else { return true };
        if self.present.contains_key(&next.1) {
            return true;
        }
        let rule = FlowRule { of: next.1, queue: one.queue, level: one.level };
        match table.add(&rule) {
            Ok(id) => {
                self.present.insert(rule.of, (rule, id));
                self.in_a_row = 0;
            }
            Err(refusal) => {
                self.refused.insert(next);
                self.in_a_row += 1;
                self.untold.get_or_insert(refusal);
            }
        }
        true
    }
}

fn turn(of: &FlowMatch, level: FlowLevel) -> Turn {
    (level == FlowLevel::First, *of)
}
