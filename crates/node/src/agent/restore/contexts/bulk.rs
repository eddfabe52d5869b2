//! Contexts of all users at once: a thread reads their records, this one finds out where they
//! belong, and another one gives them to functions.

use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use weft_compose::SlotShift;
use weft_dataplane::worker::Worker;
use weft_state::Records;

use super::{Contexts, Refused, Taken, Written, import};
use crate::agent::restore::Restoration;
use crate::agent::restore::ahead::{ContextRecords, Piece, ReadAhead, Wanted};
use crate::agent::state::checkpoints;
use crate::error::BuildError;
use crate::subscribers::Whose;

/// Pieces that wait for the functions.
const AHEAD: usize = 4;

/// No slot: whose the context is is not there.
const NO_SLOT: u32 = u32::MAX;

/// Contexts, and the slot of each.
type Placed = (ContextRecords, Vec<u32>);

impl Restoration<'_> {
    /// Gives functions the contexts that they had, those of them that are wanted. Those of users
    /// that the configuration does not have any more are left out.
    ///
    /// # Errors
    /// What is wrong with the records, or [`BuildError::NoThread`].
    pub(in crate::agent::restore) fn restore_contexts(
        &mut self,
        records: &(dyn Records + Sync),
        wanted: Wanted,
        contexts: &mut Contexts,
    ) -> Result<(), BuildError> {
        let blueprint = self.node.blueprint;
        thread::scope(|scope| {
            let read = ReadAhead::contexts(scope, records, blueprint, wanted)?;
            self.take_contexts(read, contexts)
        })
    }

    /// The same of those that a thread reads.
    ///
    /// # Errors
    /// As [`restore_contexts`](Self::restore_contexts).
    pub(in crate::agent::restore) fn take_contexts(
        &mut self,
        read: ReadAhead,
        contexts: &mut Contexts,
    ) -> Result<(), BuildError> {
        let mut seen = Vec::new();
        let (node, workers) = (&self.node, &mut *self.workers);
        let Contexts { taken, written, refused, early, .. } = contexts;
        thread::scope(|scope| {
            let shift = SlotShift::for_workers(workers.len());
            let (give, given) = sync_channel(AHEAD);
            let mut giving = Giving { workers, shift, taken, written, refused };
            let thread = thread::Builder::new().name("restore-workers".to_owned());
            let thread = thread.spawn_scoped(scope, move || giving.give_all(&given));
            thread.map_err(BuildError::NoThread)?;
            for piece in read.read {
                let Piece::Contexts(records) = piece? else { continue };
                let function = records.function;
                if seen.last() != Some(&function) {
                    seen.push(function);
                }
                let scope = node.trials.instance(function).scope();
                let slot = |whose: &Whose| node.subscribers.context_slot(scope, whose);
                let slots = records.all.iter().map(|one| slot(&one.whose).unwrap_or(NO_SLOT));
                let slots: Vec<_> = slots.collect();
                for (one, slot) in records.all.iter().zip(&slots) {
                    if let (NO_SLOT, Whose::Session(id)) = (*slot, &one.whose) {
                        let record = (one.version, records.record(one).to_vec());
                        early.entry(*id).or_default().insert(function, record);
                    }
                }
                // The thread ends behind this one.
                let _ = give.send((records, slots));
            }
            Ok::<_, BuildError>(())
        })?;
        for function in seen {
            if contexts.taken.has_none(function) {
                continue;
            }
            // Contexts have settings in them; those of the configuration hold.
            for configure in self.node.subscribers.settings_of(function) {
                self.workers[self.node.workers.owner(configure.slot)]
                    .begin_with_settings(&configure);
            }
        }
        Ok(())
    }
}

/// What gives contexts to functions, and notes what comes of it.
struct Giving<'a> {
    workers: &'a mut [Worker],
    shift: SlotShift,
    taken: &'a mut Taken,
    written: &'a mut Written,
    refused: &'a mut Refused,
}

impl Giving<'_> {
    fn give_all(&mut self, given: &Receiver<Placed>) {
        for (records, slots) in given {
            let function = records.function;
            let written = self.written.entry(function).or_default();
            for (one, slot) in records.all.iter().zip(slots) {
                if slot == NO_SLOT {
                    continue;
                }
                let worker = &mut self.workers[self.shift.worker(slot)];
                let exported = (one.version, records.exported(one));
                if let Err(why) = import(worker, (function, slot), exported) {
                    self.refused.note(function, why);
                    continue;
                }
                self.taken.set(function, slot);
                if one.version == checkpoints::VERSION {
                    let slot = slot as usize;
                    if written.len() <= slot {
                        written.resize(slot + 1, 0);
                    }
                    written[slot] = one.hash;
                }
            }
        }
    }
}
