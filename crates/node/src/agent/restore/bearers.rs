//! Bearers that are there again when the node starts. A thread reads their records
//! ([`ReadAhead`]), this one puts them into the books, and another one gives them to the workers.

use std::sync::mpsc::sync_channel;
use std::thread;

use weft_dataplane::worker::Worker;
use weft_state::Records;

use super::Restoration;
use super::ahead::{Piece, ReadAhead};
use crate::agent::provisioning::Provisioning;
use crate::bearer::{BearerCommand, BearerError, NewBearer};
use crate::error::BuildError;
use crate::subscribers::Changes;

/// So many times as many bearers as are read at once wait for the workers.
const AHEAD: usize = 4;

impl Restoration<'_> {
    /// Adds the bearers that records say. How many there are.
    ///
    /// # Errors
    /// [`BuildError::Kept`] for a bearer that the configuration cannot have, or what is wrong
    /// with the records.
    pub(in crate::agent) fn restore_bearers(
        &mut self,
        records: &(dyn Records + Sync),
    ) -> Result<u64, BuildError> {
        let blueprint = self.node.blueprint;
        thread::scope(|scope| {
            let read = ReadAhead::bearers(scope, records, blueprint)?;
            self.take_bearers(&read)
        })
    }

    /// Adds those that a thread reads. How many there are.
    ///
    /// # Errors
    /// As [`restore_bearers`](Self::restore_bearers).
    pub(super) fn take_bearers(&mut self, read: &ReadAhead) -> Result<u64, BuildError> {
        let (node, workers) = (&mut self.node, &mut *self.workers);
        thread::scope(|scope| {
            let (give, given) = sync_channel::<Changes>(AHEAD);
            let begin = move || given.iter().for_each(|changes| begin_with(workers, changes));
            let thread = thread::Builder::new().name("restore-workers".to_owned());
            thread.spawn_scoped(scope, begin).map_err(BuildError::NoThread)?;
            let mut count = 0;
            let limits = &node.blueprint.limits;
            let room = limits.users.saturating_add(limits.bearers) as usize;
            node.subscribers.bearers.make_room(read.most.min(room));
            for piece in &read.read {
                let Piece::Bearers(bearers) = piece? else { break };
                count += bearers.len() as u64;
                // The thread ends behind this one.
                let _ = give.send(stage(node, bearers)?);
            }
            Ok(count)
        })
    }

    /// Takes bearers away and adds others, for workers that stand still.
    pub(super) fn take_again(
        &mut self,
        go: &[BearerCommand],
        mut come: Vec<NewBearer>,
    ) -> Result<(), BuildError> {
        let bearers = &mut self.node.subscribers.bearers;
        come.iter_mut().for_each(|bearer| bearers.share_plan_name(bearer));
        begin_with(self.workers, self.node.stage(go, &[]).map_err(kept)?.changes);
        begin_with(self.workers, stage(&mut self.node, come)?);
        Ok(())
    }
}

/// Puts bearers into the books; what workers are to be given.
fn stage(node: &mut Provisioning<'_>, bearers: Vec<NewBearer>) -> Result<Changes, BuildError> {
    let reader = node.reader();
    for bearer in &bearers {
        let kept = |reason| BuildError::Kept { id: bearer.id, reason };
        reader.check(bearer).map_err(|wrong| kept(wrong.to_string()))?;
    }
    Ok(node.stage_new(bearers).map_err(kept)?.changes)
}

fn kept(BearerError { id, wrong, .. }: BearerError) -> BuildError {
    BuildError::Kept { id, reason: wrong.to_string() }
}

fn begin_with(workers: &mut [Worker], changes: Changes) {
    for (worker, mut changes) in workers.iter_mut().zip(changes) {
        worker.begin_with(&mut changes);
    }
}
