//! Reads and writes contexts of one function by the names of those they belong to.

use std::sync::mpsc::channel;

use weft_dataplane::command::Command;
use weft_dataplane::command::contexts::{read, write};

use super::Agent;
use crate::migration::contexts::{Named, NotCarried, PIECE, Reading, Whose, Writing};

impl Agent {
    /// What function it is, and whose contexts it has.
    ///
    /// # Errors
    /// [`NotCarried::Unknown`].
    pub fn contexts_named(&self, function: &str) -> Result<(&'static str, Vec<Whose>), NotCarried> {
        let (number, kind) = self.number_of(function)?;
        let scope = self.trials.instance(number).scope();
        Ok((kind, self.subscribers.with_contexts(scope)))
    }

    /// Reads contexts of a function while it is at work, or [moves](Self::gate_function) to
    /// another node. Those of who is no longer here are left out.
    ///
    /// # Errors
    /// [`NotCarried`].
    pub fn read_contexts(
        &mut self,
        function: &str,
        names: &[Whose],
    ) -> Result<Reading, NotCarried> {
        let now = self.clock.now();
        let (number, _) = self.number_of(function)?;
        if self.migration.instance_in_hand(function, 0, now).is_none() {
            self.check_at_hand(number)?;
        }
        let scope = self.trials.instance(number).scope();
        let known = names
            .iter()
            .filter_map(|whose| Some((whose, self.subscribers.context_slot(scope, whose)?)));
        let (names, slots): (Vec<&Whose>, Vec<u32>) = known.unzip();
        let names = names.into_iter().cloned().collect();
        let mut pieces = Vec::new();
        for (worker, at) in self.by_worker(&slots) {
            let slots: Vec<u32> = at.iter().map(|at| slots[*at]).collect();
            let (answer, piece) = channel();
            pieces.push((at, piece));
            match self.migration.instance_in_hand(function, worker, now) {
                // The receiver is above.
                Some(instance) => drop(answer.send(read(&**instance, &slots, now))),
                None => {
                    let function = number as u16;
                    self.workers[worker].send(Command::ReadContexts { function, slots, answer });
                }
            }
        }
        Ok(Reading { names, pieces })
    }

    /// Gives a function contexts that were read at another node, where it is a `kind`. Those
    /// of no user here are left out with `known_only`.
    ///
    /// # Errors
    /// [`NotCarried`]; nothing has changed then.
    pub fn write_contexts(
        &mut self,
        function: &str,
        kind: &str,
        contexts: Vec<Named>,
        known_only: bool,
    ) -> Result<Writing, NotCarried> {
        let now = self.clock.now();
        let (number, is) = self.number_of(function)?;
        let name = || function.to_owned();
        if is != kind {
            return Err(NotCarried::OtherFunction { name: name(), was: kind.to_owned(), is });
        }
        if self.migration.instance_in_hand(function, 0, now).is_none() {
            self.check_at_hand(number)?;
        }
        let scope = self.trials.instance(number).scope();
        let (mut slots, mut octets) = (Vec::new(), Vec::new());
        for context in contexts {
            match self.subscribers.context_slot(scope, &context.whose) {
                Some(slot) => {
                    slots.push(slot);
                    octets.push(context.octets);
                }
                None if known_only => {}
                None => return Err(NotCarried::NoOwner(name(), context.whose)),
            }
        }
        let mut pieces = Vec::new();
        for (worker, at) in self.by_worker(&slots) {
            let contexts = at.iter().map(|at| (slots[*at], std::mem::take(&mut octets[*at])));
            let contexts: Vec<_> = contexts.collect();
            let (answer, piece) = channel();
            pieces.push(piece);
            match self.migration.instance_in_hand(function, worker, now) {
                // The receiver is above.
                Some(instance) => drop(answer.send(write(&mut **instance, contexts, now))),
                None => {
                    let function = number as u16;
                    self.workers[worker].send(Command::WriteContexts {
                        function,
                        contexts,
                        answer,
                    });
                }
            }
        }
        Ok(Writing { name: name(), pieces })
    }

    pub(super) fn number_of(&self, function: &str) -> Result<(usize, &'static str), NotCarried> {
        let mut functions = self.blueprint.functions.iter();
        let number = functions.position(|one| one.name == function);
        let number = number.ok_or_else(|| NotCarried::Unknown(function.to_owned()))?;
        Ok((number, self.blueprint.functions[number].kind.name))
    }

    pub(super) fn check_at_hand(&self, number: usize) -> Result<(), NotCarried> {
        let plan = &self.blueprint.functions[number];
        match plan.composition.is_at_hand() {
            true => Ok(()),
            false => Err(NotCarried::Away(plan.name.clone())),
        }
    }

    /// Positions of slots, by worker and in pieces.
    pub(super) fn by_worker(&self, slots: &[u32]) -> Vec<(usize, Vec<usize>)> {
        let mut all = Vec::new();
        for worker in 0..self.workers.count() {
            let own = (0..slots.len()).filter(|at| self.workers.owner(slots[*at]) == worker);
            let own: Vec<usize> = own.collect();
            all.extend(own.chunks(PIECE).map(|piece| (worker, piece.to_vec())));
        }
        all
    }
}
