//! Contexts that are in processes, as they go over to another process of the node. They are
//! copies: a function stays where it is until the other process goes on.

use std::sync::mpsc::SyncSender;

use weft_compose::Instance;
use weft_dataplane::clock::Clock;

use crate::agent::configuration::Configuration;
use crate::functions::{Exported, Functions};
use crate::plan;
use crate::subscribers::Room;
use crate::workers::Workers;

/// Contexts that are read before some are given away: a process may export a lot.
const PIECE: usize = 8192;

/// Contexts as they go over, in the order in which they were asked for: nothing where there is
/// none. Or why they cannot be had.
pub(crate) type Piece = Result<Vec<Vec<u8>>, String>;

/// Functions in processes that have no packet.
pub(crate) struct ProcessContexts<'a> {
    pub configuration: &'a Configuration,
    pub functions: &'a Functions,
    pub workers: &'a Workers,
    pub room: Room,
    pub clock: &'a Clock,
}

impl ProcessContexts<'_> {
    /// Gives `to` the contexts of a function at `slots`, as that version has them.
    pub fn read(&self, (function, version): (u16, u16), slots: &[u32], to: &SyncSender<Piece>) {
        let mut sieve = Sieve { contexts: self, function, version, instances: Vec::new() };
        let mut are_old = false;
        for some in slots.chunks(PIECE) {
            let name = &self.configuration.blueprint.functions[usize::from(function)].name;
            let read = self.functions.read_in_process(name, some, self.workers.shift());
            let read = read.and_then(|(contexts, lost)| {
                are_old |= lost;
                some.iter().zip(contexts).map(|(slot, one)| sieve.pass(*slot, one)).collect()
            });
            let piece = read.map_err(|why| format!("function {name}: {why}"));
            let is_last = piece.is_err();
            // Who does not wait any more does not want the rest.
            if to.send(piece).is_err() || is_last {
                break;
            }
        }
        if are_old {
            let function = &self.configuration.blueprint.functions[usize::from(function)].name;
            tracing::warn!(function, "its process was not there: its last checkpoints go over");
        }
    }
}

/// Lets sound contexts pass: what a process exports may be anything.
struct Sieve<'a> {
    contexts: &'a ProcessContexts<'a>,
    function: u16,
    version: u16,
    /// By worker, once there is a context.
    instances: Vec<Option<Box<dyn Instance>>>,
}

impl Sieve<'_> {
    /// A context as the version has it; nothing where it begins anew.
    fn pass(&mut self, slot: u32, context: Exported) -> Result<Vec<u8>, String> {
        let mut octets = Vec::new();
        let Some(context) = context.filter(|context| !context.is_empty()) else {
            return Ok(octets);
        };
        let (version, now) = (self.version, self.contexts.clock.now());
        let instance = self.instance(self.contexts.workers.shift().worker(slot))?;
        match instance.import(slot, now, &context) {
            Ok(()) => instance.export_as(version, slot, now, &mut octets),
            Err(error) => tracing::warn!(slot, %error, "a context of a process begins anew"),
        }
        instance.release(slot);
        Ok(octets)
    }

    /// What reads the contexts of a worker.
    fn instance(&mut self, worker: usize) -> Result<&mut Box<dyn Instance>, String> {
        let ProcessContexts { configuration, functions, workers, room, .. } = self.contexts;
        let plan = &configuration.blueprint.functions[usize::from(self.function)];
        if self.instances.len() <= worker {
            self.instances.resize_with(worker + 1, || None);
        }
        match &mut self.instances[worker] {
            Some(instance) => Ok(instance),
            place => {
                let (contexts, events) = (room.contexts(), functions.events.as_ref());
                let blueprint = &configuration.blueprint;
                let made =
                    plan::instance(plan, blueprint, worker, contexts, workers.shift(), events);
                Ok(place.insert(made.map_err(|error| error.to_string())?))
            }
        }
    }
}
