//! Bearers that are there again when the node starts. A thread reads their records, this one puts
//! them into the books, and another one gives them to the workers.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Scope};

use weft_dataplane::worker::Worker;
use weft_node_config::Blueprint;
use weft_state::Records;

use super::Restoration;
use crate::agent::provisioning::Provisioning;
use crate::agent::state::{BEARERS, DEDICATED};
use crate::bearer::record::Reading;
use crate::bearer::{BearerCommand, BearerError, BearerId, NewBearer};
use crate::error::BuildError;
use crate::subscribers::Changes;

/// Bearers that are put into the books at once.
const AT_ONCE: usize = 4096;
/// So many times as many are read before they are wanted: while the node is assembled.
const READ_AHEAD: usize = 64;
/// So many times as many wait for the workers.
const AHEAD: usize = 4;

/// Bearers that are to come, or why there are none.
type Read = Result<Vec<NewBearer>, BuildError>;

/// Bearers that a thread reads from their records, default bearers first.
pub(crate) struct ReadBearers {
    read: Receiver<Read>,
    /// There are no more than these.
    most: usize,
}

impl ReadBearers {
    /// Begins to read those of `records` that a node of this configuration is to have.
    ///
    /// # Errors
    /// [`BuildError::NoThread`].
    pub fn begin<'scope>(
        scope: &'scope Scope<'scope, '_>,
        records: &'scope (dyn Records + Sync),
        blueprint: &'scope Blueprint,
    ) -> Result<ReadBearers, BuildError> {
        let (tell, told) = sync_channel(READ_AHEAD);
        let read = move || {
            if let Err(error) = read_all(records, blueprint, &tell) {
                // Who wanted them may have given up.
                let _ = tell.send(Err(error));
            }
        };
        let thread = thread::Builder::new().name("restore".to_owned());
        thread.spawn_scoped(scope, read).map_err(BuildError::NoThread)?;
        Ok(ReadBearers { read: told, most: records.most() })
    }
}

fn read_all(
    records: &dyn Records,
    blueprint: &Blueprint,
    tell: &SyncSender<Read>,
) -> Result<(), BuildError> {
    let mut reading = Reading::new(blueprint);
    for kind in [BEARERS, DEDICATED] {
        let mut some = Vec::with_capacity(AT_ONCE);
        let mut refused = None;
        let read = records.each_of(kind, &mut |key, version, octets| {
            let number = key.try_into().map_err(|_| "a bearer without a number")?;
            let id = BearerId(u64::from_be_bytes(number));
            match reading.read(id, version, octets) {
                Ok(bearer) => some.push(bearer),
                Err(wrong) => {
                    refused = Some(BuildError::Kept { id, reason: wrong.to_string() });
                    return Err(String::new());
                }
            }
            if some.len() < AT_ONCE {
                return Ok(());
            }
            let full = std::mem::replace(&mut some, Vec::with_capacity(AT_ONCE));
            tell.send(Ok(full)).map_err(|_| "nothing takes it any more".to_owned())
        });
        if let Some(refused) = refused {
            return Err(refused);
        }
        read?;
        let _ = tell.send(Ok(some));
    }
    Ok(())
}

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
            let read = ReadBearers::begin(scope, records, blueprint)?;
            self.take_bearers(read)
        })
    }

    /// Adds those that a thread reads. How many there are.
    ///
    /// # Errors
    /// As [`restore_bearers`](Self::restore_bearers).
    pub(super) fn take_bearers(&mut self, read: ReadBearers) -> Result<u64, BuildError> {
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
            for bearers in read.read {
                let bearers = bearers?;
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
