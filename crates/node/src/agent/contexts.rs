//! Reads and writes contexts of one function by the names of those they belong to.

pub mod usage;

use std::sync::mpsc::channel;

use weft_dataplane::command::Command;
use weft_dataplane::command::contexts::{read, write};
use weft_node_config::Blueprint;

use crate::bearer::Subscribers;
use crate::migration::Migration;
use crate::migration::contexts::{Named, NotCarried, PIECE, Reading, Whose, Writing};
use crate::plan::Trials;
use crate::workers::Workers;

/// Functions, those whose contexts they have, and the workers where these are.
pub(crate) struct FunctionContexts<'a> {
    pub blueprint: &'a Blueprint,
    pub trials: &'a Trials,
    pub subscribers: &'a Subscribers,
    pub workers: &'a mut Workers,
}

impl FunctionContexts<'_> {
    /// What function it is, and whose contexts it has.
    ///
    /// # Errors
    /// [`NotCarried::Unknown`].
    pub fn named(&self, function: &str) -> Result<(&'static str, Vec<Whose>), NotCarried> {
        let (number, kind) = self.number_of(function)?;
        let scope = self.trials.instance(number).scope();
        Ok((kind, self.subscribers.with_contexts(scope)))
    }

    /// Reads contexts of a function while it is at work, or moves to another node. Those of who is
    /// no longer here are left out.
    ///
    /// # Errors
    /// [`NotCarried`].
    pub fn read(
        &mut self,
        function: &str,
        names: &[Whose],
        (migration, now): (&mut Migration, u64),
    ) -> Result<Reading, NotCarried> {
        let (number, _) = self.number_of(function)?;
        if migration.instance_in_hand(function, 0, now).is_none() {
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
            match migration.instance_in_hand(function, worker, now) {
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
    pub fn write(
        &mut self,
        (function, kind): (&str, &str),
        (contexts, known_only): (Vec<Named>, bool),
        (migration, now): (&mut Migration, u64),
    ) -> Result<Writing, NotCarried> {
        let (number, is) = self.number_of(function)?;
        let name = || function.to_owned();
        if is != kind {
            return Err(NotCarried::OtherFunction { name: name(), was: kind.to_owned(), is });
        }
        if migration.instance_in_hand(function, 0, now).is_none() {
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
            match migration.instance_in_hand(function, worker, now) {
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

    pub fn number_of(&self, function: &str) -> Result<(usize, &'static str), NotCarried> {
        let mut functions = self.blueprint.functions.iter();
        let number = functions.position(|one| one.name == function);
        let number = number.ok_or_else(|| NotCarried::Unknown(function.to_owned()))?;
        Ok((number, self.blueprint.functions[number].kind.name))
    }

    pub fn check_at_hand(&self, number: usize) -> Result<(), NotCarried> {
        let plan = &self.blueprint.functions[number];
        match plan.composition.is_at_hand() {
            true => Ok(()),
            false => Err(NotCarried::Away(plan.name.clone())),
        }
    }

    /// Positions of slots, by worker and in pieces.
    pub fn by_worker(&self, slots: &[u32]) -> Vec<(usize, Vec<usize>)> {
        let mut all = Vec::new();
        for worker in 0..self.workers.count() {
            let own = (0..slots.len()).filter(|at| self.workers.owner(slots[*at]) == worker);
            let own: Vec<usize> = own.collect();
            all.extend(own.chunks(PIECE).map(|piece| (worker, piece.to_vec())));
        }
        all
    }
}
