//! Contexts of functions that a node has again: all at once when it starts, and one by one while
//! it stands by.

mod bulk;

use std::collections::{BTreeMap, HashMap};

use weft_dataplane::command::UserChange;
use weft_dataplane::worker::Worker;
use weft_state::Store;

use super::Restoration;
use super::ahead::Wanted;
use crate::agent::state::checkpoints::octets_of;
use crate::agent::state::{checkpoints, names};
use crate::bearer::session::SessionId;
use crate::error::BuildError;
use crate::subscribers::Whose;

/// Version and octets of a record that is there; none of one that goes.
pub(super) type Record<'a> = Option<(u8, &'a [u8])>;

/// Which slots have a context that was taken, by function.
#[derive(Debug, Default)]
struct Taken(Vec<Vec<u64>>);

impl Taken {
    fn set(&mut self, function: usize, slot: u32) {
        let at = slot as usize / 64;
        if self.0.len() <= function {
            self.0.resize_with(function + 1, Vec::new);
        }
        let words = &mut self.0[function];
        if words.len() <= at {
            words.resize(at + 1, 0);
        }
        words[at] |= 1 << (slot % 64);
    }

    /// Whether there was one.
    fn clear(&mut self, function: usize, slot: u32) -> bool {
        let words = self.0.get_mut(function);
        let Some(word) = words.and_then(|words| words.get_mut(slot as usize / 64)) else {
            return false;
        };
        let before = std::mem::replace(word, *word & !(1 << (slot % 64)));
        before != *word
    }

    /// Whether a function has none.
    fn has_none(&self, function: usize) -> bool {
        self.0.get(function).is_none_or(|words| words.iter().all(|word| *word == 0))
    }

    fn count(&self) -> u64 {
        self.0.iter().flatten().map(|word| u64::from(word.count_ones())).sum()
    }
}

/// Contexts that functions do not take, by function: how many, and why the first.
#[derive(Debug, Default)]
struct Refused(BTreeMap<usize, (u64, String)>);

impl Refused {
    fn note(&mut self, function: usize, why: String) {
        self.0.entry(function).or_insert((0, why)).0 += 1;
    }
}

/// Hashes of contexts that are in the store as functions have them, by number of the function and
/// slot; 0 where there is none.
pub(super) type Written = BTreeMap<usize, Vec<u32>>;

/// Contexts that a node has from records.
#[derive(Debug, Default)]
pub(super) struct Contexts {
    taken: Taken,
    /// Those of the store that were taken all at once.
    written: Written,
    refused: Refused,
    /// Of bearers and sessions that are being made anew, by number of the function.
    carried: Vec<(Whose, usize, Vec<u8>)>,
    /// Of sessions that are not kept yet: a checkpoint may be durable before what it is of.
    early: HashMap<SessionId, BTreeMap<usize, (u8, Vec<u8>)>>,
}

/// Gives a function a context of that version.
///
/// # Errors
/// Why it does not take it.
fn import(
    worker: &mut Worker,
    (function, slot): (usize, u32),
    (version, octets): (u8, &[u8]),
) -> Result<(), String> {
    match version {
        1..=checkpoints::VERSION => {
            let taken = worker.begin_with_context(function as u16, slot, octets);
            taken.map_err(|error| error.to_string())
        }
        _ => Err(format!("version {version}, of a newer release")),
    }
}

impl Restoration<'_> {
    /// Says which contexts were refused, if any were. How many there are, and those that are in
    /// the store.
    pub(super) fn finish(&self, contexts: Contexts) -> (u64, Written) {
        for (function, (count, why)) in contexts.refused.0 {
            let function = &self.node.blueprint.functions[function].name;
            tracing::warn!(
                function,
                contexts = count,
                why,
                "contexts were not taken and begin anew"
            );
        }
        (contexts.taken.count(), contexts.written)
    }

    /// Gives a function a context from its record, where there is such a context.
    fn take_context(
        &mut self,
        (function, whose): (usize, &Whose),
        (version, record): (u8, &[u8]),
        contexts: &mut Contexts,
    ) -> Result<(), &'static str> {
        let kind = self.node.blueprint.functions[function].kind.name;
        let Some(octets) = octets_of(record, kind)? else { return Ok(()) };
        let scope = self.node.trials.instance(function).scope();
        let Some(slot) = self.node.subscribers.context_slot(scope, whose) else {
            if let Whose::Session(id) = whose {
                let early = contexts.early.entry(*id).or_default();
                early.insert(function, (version, record.to_vec()));
            }
            return Ok(());
        };
        let worker = &mut self.workers[self.node.workers.owner(slot)];
        match import(worker, (function, slot), (version, octets)) {
            Ok(()) => contexts.taken.set(function, slot),
            Err(why) => contexts.refused.note(function, why),
        }
        Ok(())
    }

    /// A bearer or session goes from its slot, or comes back changed (`comes_back`): then its
    /// contexts go along.
    pub(super) fn leave_contexts(
        &mut self,
        (whose, slot): (&Whose, u32),
        comes_back: bool,
        contexts: &mut Contexts,
    ) {
        for function in 0..contexts.taken.0.len() {
            if contexts.taken.clear(function, slot) && comes_back {
                let worker = &self.workers[self.node.workers.owner(slot)];
                let mut octets = Vec::new();
                worker.end_with_context(function as u16, slot, &mut octets);
                contexts.carried.push((whose.clone(), function, octets));
            }
        }
    }

    /// Bearers and sessions that changed are there again: so are their contexts.
    pub(super) fn take_carried(&mut self, contexts: &mut Contexts) {
        for (whose, function, octets) in std::mem::take(&mut contexts.carried) {
            let scope = self.node.trials.instance(function).scope();
            let Some(slot) = self.node.subscribers.context_slot(scope, &whose) else { continue };
            let worker = &mut self.workers[self.node.workers.owner(slot)];
            match worker.begin_with_context(function as u16, slot, &octets) {
                Ok(()) => contexts.taken.set(function, slot),
                Err(error) => contexts.refused.note(function, error.to_string()),
            }
            self.settle_again(function, &whose);
        }
    }

    /// A session has come: so have its contexts that came before it.
    ///
    /// # Errors
    /// What is wrong with a record.
    pub(super) fn take_early(
        &mut self,
        id: SessionId,
        contexts: &mut Contexts,
    ) -> Result<(), &'static str> {
        let whose = Whose::Session(id);
        for (function, (version, record)) in contexts.early.remove(&id).unwrap_or_default() {
            self.take_context((function, &whose), (version, &record), contexts)?;
            self.settle_again(function, &whose);
        }
        Ok(())
    }

    /// Does what changes of contexts say, for a node that stands by.
    ///
    /// # Errors
    /// What is wrong with a record.
    pub(super) fn follow_contexts(
        &mut self,
        changes: &BTreeMap<&[u8], Record<'_>>,
        contexts: &mut Contexts,
    ) -> Result<(), &'static str> {
        for (key, record) in changes {
            let (name, whose) = names::read(key).ok_or("a context without an owner")?;
            let plans = &self.node.blueprint.functions;
            let Some(function) = plans.iter().position(|plan| plan.name == name) else { continue };
            if !Wanted::Followed.has(&plans[function]) {
                continue;
            }
            match record {
                Some(record) => self.take_context((function, &whose), *record, contexts)?,
                None => {
                    if let Whose::Session(id) = &whose
                        && let Some(early) = contexts.early.get_mut(id)
                    {
                        early.remove(&function);
                    }
                    let scope = self.node.trials.instance(function).scope();
                    let slot = self.node.subscribers.context_slot(scope, &whose);
                    let Some(slot) = slot.filter(|slot| contexts.taken.clear(function, *slot))
                    else {
                        continue;
                    };
                    let worker = &mut self.workers[self.node.workers.owner(slot)];
                    worker.begin_with(&mut [UserChange::Reset { function: function as u16, slot }]);
                }
            }
            self.settle_again(function, &whose);
        }
        Ok(())
    }

    /// Gives the context of a bearer or session the settings that it has. Those of users of the
    /// configuration come before the first packet.
    fn settle_again(&mut self, function: usize, whose: &Whose) {
        if let Some(configure) = self.node.subscribers.settings_at(function, whose) {
            self.workers[self.node.workers.owner(configure.slot)].begin_with_settings(&configure);
        }
    }

    /// The node owns the users: takes what could not be followed. How many contexts there are.
    ///
    /// # Errors
    /// [`BuildError`].
    pub(super) fn end_following_contexts(
        &mut self,
        store: &Store,
        mut contexts: Contexts,
    ) -> Result<u64, BuildError> {
        self.restore_contexts(&store.snapshot()?, Wanted::AtOnce, &mut contexts)?;
        for (function, plan) in self.node.blueprint.functions.iter().enumerate() {
            if Wanted::Followed.has(plan) {
                for configure in self.node.subscribers.users.settings_of(function) {
                    self.workers[self.node.workers.owner(configure.slot)]
                        .begin_with_settings(&configure);
                }
            }
        }
        Ok(self.finish(contexts).0)
    }
}

#[cfg(test)]
mod tests {
    use super::Taken;

    #[test]
    fn slots_that_have_contexts_are_counted() {
        let mut taken = Taken::default();
        for (function, slot) in [(2, 0), (2, 63), (2, 64), (0, 1000), (2, 64)] {
            taken.set(function, slot);
        }
        assert_eq!(taken.count(), 4);
        assert!(taken.has_none(1) && taken.has_none(7) && !taken.has_none(2));
        assert!(taken.clear(2, 64) && !taken.clear(2, 64));
        assert!(!taken.clear(1, 0) && !taken.clear(7, 7) && !taken.clear(0, 5000));
        assert_eq!(taken.count(), 3);
    }
}
