//! Bearers that are there again when the node starts. A thread reads what their records say, while
//! this one puts them into the books and gives them to the workers.

use std::sync::mpsc::{channel, sync_channel};
use std::thread;

use weft_node_config::Blueprint;
use weft_state::Records;

use super::Restoration;
use crate::agent::state::{BEARERS, DEDICATED};
use crate::bearer::{BearerCommand, BearerError, BearerId, record};
use crate::error::BuildError;

/// Bearers that are put into the books at once.
const AT_ONCE: usize = 4096;
/// So many times as many records wait for the thread that reads them.
const AHEAD: usize = 4;

/// Records: number, version and octets.
type Given = Vec<(BearerId, u8, Box<[u8]>)>;

impl Restoration<'_> {
    /// Adds the bearers that records say. How many there are.
    ///
    /// # Errors
    /// [`BuildError::Kept`] for a bearer that the configuration cannot have, or what is wrong
    /// with the records.
    pub(in crate::agent) fn restore_bearers(
        &mut self,
        records: &dyn Records,
    ) -> Result<u64, BuildError> {
        let blueprint = self.node.blueprint;
        thread::scope(|scope| {
            let (give, given) = sync_channel::<Given>(AHEAD);
            let (tell, told) = channel();
            let read =
                move || given.iter().all(|some| tell.send(commands(some, blueprint)).is_ok());
            let thread = thread::Builder::new().name("restore".to_owned());
            thread.spawn_scoped(scope, read).map_err(BuildError::NoThread)?;
            let mut count = 0;
            for kind in [BEARERS, DEDICATED] {
                let mut some = Vec::with_capacity(AT_ONCE);
                let mut refused = None;
                let read = records.each_of(kind, &mut |key, version, octets| {
                    let number = key.try_into().map_err(|_| "a bearer without a number")?;
                    some.push((BearerId(u64::from_be_bytes(number)), version, octets.into()));
                    count += 1;
                    if some.len() < AT_ONCE {
                        return Ok(());
                    }
                    // The thread ends with this one.
                    let _ = give.send(std::mem::replace(&mut some, Vec::with_capacity(AT_ONCE)));
                    let mut read = told.try_iter();
                    read.try_for_each(|commands| self.take_again(&commands?)).map_err(|error| {
                        refused = Some(error);
                        String::new()
                    })
                });
                if let Some(refused) = refused {
                    return Err(refused);
                }
                read?;
                let _ = give.send(some);
            }
            drop(give);
            told.iter().try_for_each(|commands| self.take_again(&commands?))?;
            Ok(count)
        })
    }

    /// Gives bearers to the workers, which stand still.
    pub(super) fn take_again(&mut self, commands: &[BearerCommand]) -> Result<(), BuildError> {
        let reader = self.node.reader();
        for command in commands {
            let kept = |reason| BuildError::Kept { id: command.id(), reason };
            reader.check(command).map_err(|wrong| kept(wrong.to_string()))?;
        }
        let mut staged =
            self.node.stage(commands, &[]).map_err(|BearerError { id, wrong, .. }| {
                BuildError::Kept { id, reason: wrong.to_string() }
            })?;
        for (worker, changes) in self.workers.iter_mut().zip(&mut staged.changes) {
            worker.begin_with(changes);
        }
        Ok(())
    }
}

/// The commands that add the bearers of these records.
fn commands(some: Given, blueprint: &Blueprint) -> Result<Vec<BearerCommand>, BuildError> {
    let command = |(id, version, octets): (BearerId, u8, Box<[u8]>)| {
        let read = record::read(id, version, &octets, blueprint);
        read.map_err(|wrong| BuildError::Kept { id, reason: wrong.to_string() })
    };
    some.into_iter().map(command).collect()
}
