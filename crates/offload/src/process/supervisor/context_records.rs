//! What a function process must know of contexts if it has to begin again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weft_compose::SlotShift;

use crate::process::order::{Change, Order};
use crate::process::protocol::Message;

/// Octets of the longest checkpoint of one context.
const CONTEXT_BYTES: usize = 64 << 10;
/// Octets of all checkpoints of one function.
const ALL_BYTES: usize = 256 << 20;

/// Settings and checkpoints of one function, by worker and slot.
#[derive(Debug)]
pub struct ContextRecords {
    known: BTreeMap<(u16, u32), Known>,
    numbers: Vec<u32>,
    contexts: usize,
    /// Whether a process may begin with what was put down: a function that may not be set
    /// back gets a context once.
    rollback: bool,
    /// Contexts that were released or replaced while a checkpoint was on its way.
    stale: Option<BTreeSet<(u16, u32)>>,
    /// Octets of what was put down.
    bytes: usize,
}

#[derive(Debug, Default)]
struct Known {
    settings: Option<(u32, Arc<str>)>,
    context: Option<Vec<u8>>,
}

impl ContextRecords {
    /// Nothing is known yet of that many contexts of each worker, of a function that may
    /// be set back or may not.
    pub fn new(workers: u16, contexts: usize, rollback: bool) -> ContextRecords {
        let numbers = vec![0; workers.into()];
        ContextRecords {
            known: BTreeMap::new(),
            numbers,
            contexts,
            rollback,
            stale: None,
            bytes: 0,
        }
    }

    /// Notes an order, which a process was given or was not. What was exported elsewhere
    /// counts as a checkpoint.
    pub fn note(&mut self, order: Order, given: bool) {
        if let Some(number) = self.numbers.get_mut(usize::from(order.worker)) {
            *number = order.number;
        }
        let at = (order.worker, order.slot);
        if let (Some(stale), Change::Release | Change::Import(_)) = (&mut self.stale, &order.change)
        {
            stale.insert(at);
        }
        match order.change {
            Change::Configure { nth, settings } => {
                self.known.entry(at).or_default().settings = Some((nth, settings));
            }
            Change::Release => {
                self.replace(at, None);
                self.known.remove(&at);
            }
            Change::Import(context) => {
                let keep = self.rollback || !given;
                self.replace(at, keep.then_some(context));
            }
        }
    }

    /// A process was told [`messages`](Self::messages).
    pub fn given(&mut self) {
        if !self.rollback {
            self.known.values_mut().for_each(|known| known.context = None);
            self.bytes = 0;
        }
    }

    /// Contexts of all workers.
    pub fn most_contexts(&self) -> usize {
        self.contexts * self.numbers.len()
    }

    /// Puts a context in the place of another.
    fn replace(&mut self, at: (u16, u32), context: Option<Vec<u8>>) {
        let place = &mut self.known.entry(at).or_default().context;
        self.bytes += context.as_ref().map_or(0, Vec::len);
        self.bytes -= place.as_ref().map_or(0, Vec::len);
        *place = context;
    }

    /// A checkpoint is asked for. What is released from now on may still be in it.
    pub fn begin_checkpoint(&mut self) {
        self.stale = Some(BTreeSet::new());
    }

    /// Whether one is on its way.
    pub fn is_checkpointing(&self) -> bool {
        self.stale.is_some()
    }

    /// The checkpoint is complete, or will not come.
    pub fn end_checkpoint(&mut self) {
        self.stale = None;
    }

    /// The last checkpoint of a context.
    pub fn context(&self, worker: u16, slot: u32) -> Option<&Vec<u8>> {
        let known = self.known.get(&(worker, slot))?;
        known.context.as_ref().filter(|context| !context.is_empty())
    }

    /// Notes a checkpoint of one context. False where there would be too much of them.
    pub fn put_down(&mut self, worker: u16, slot: u32, context: Vec<u8>) -> bool {
        // A process may not fill the node's memory with slots that have no user.
        let shift = SlotShift::for_workers(self.numbers.len());
        let is_slot = shift.index(slot) < self.contexts && context.len() <= CONTEXT_BYTES;
        let is_stale = self.stale.as_ref().is_some_and(|stale| stale.contains(&(worker, slot)));
        if is_slot && shift.worker(slot) == usize::from(worker) && self.rollback && !is_stale {
            if self.bytes + context.len() > ALL_BYTES {
                return false;
            }
            self.replace((worker, slot), Some(context));
        }
        true
    }

    /// Number of the last order of each worker.
    pub fn numbers(&self) -> &[u32] {
        &self.numbers
    }

    /// Contexts that were put down.
    pub fn checkpointed(&self) -> u64 {
        self.known.values().filter(|known| known.context.is_some()).count() as u64
    }

    /// All that a process that begins must be told.
    pub fn messages(&self, now: u64) -> impl Iterator<Item = Message> + '_ {
        self.known.iter().flat_map(move |(&(worker, slot), known)| {
            let order = (worker, self.numbers[usize::from(worker)]);
            let settings = known.settings.iter().map(move |(nth, settings)| Message::Configure {
                order,
                slot,
                nth: *nth,
                settings: settings.to_string(),
            });
            let context = known.context.iter().filter(|context| !context.is_empty());
            let context = context.map(move |context| Message::Import {
                order,
                slot,
                now,
                context: context.clone(),
            });
            settings.chain(context)
        })
    }
}

impl Order {
    /// The order as it goes over the socket, at the time `now` of the node.
    pub fn message(&self, now: u64) -> Message {
        let order = (self.worker, self.number);
        let slot = self.slot;
        match &self.change {
            Change::Configure { nth, settings } => {
                Message::Configure { order, slot, nth: *nth, settings: settings.to_string() }
            }
            Change::Release => Message::Release { order, slot },
            Change::Import(context) => {
                Message::Import { order, slot, now, context: context.clone() }
            }
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn a_process_that_begins_again_gets_settings_and_checkpoints_of_who_is_there() {
        let mut records = ContextRecords::new(2, 100, true);
        let order = |number, slot, change| Order { worker: 1, number, slot, change };
        let configure = |text: &str| Change::Configure { nth: 3, settings: text.into() };
        records.note(order(1, 5, configure("1")), true);
        records.note(order(2, 7, configure("2")), true);
        records.note(order(3, 9, configure("2")), true);
        records.note(order(3, 5, configure("3")), true);
        records.put_down(1, 7, vec![9]);
        records.put_down(1, 201, vec![9]);
        records.put_down(7, 6, vec![9]);
        records.note(order(4, 9, Change::Release), true);
        assert_eq!(records.numbers(), [0, 4]);
        let order = (1, 4);
        let settings = |slot, settings: &str| Message::Configure {
            order,
            slot,
            nth: 3,
            settings: settings.to_owned(),
        };
        let import = Message::Import { order, slot: 7, now: 8, context: vec![9] };
        let told: Vec<_> = records.messages(8).collect();
        assert_eq!(told, [settings(5, "3"), settings(7, "2"), import]);
        assert_eq!(records.checkpointed(), 1);
    }

    #[test]
    fn a_checkpoint_that_was_on_its_way_does_not_bring_back_who_was_released() {
        let mut records = ContextRecords::new(1, 100, true);
        records.begin_checkpoint();
        records.note(Order { worker: 0, number: 1, slot: 5, change: Change::Release }, true);
        records.put_down(0, 5, vec![9]);
        records.put_down(0, 6, vec![9]);
        records.end_checkpoint();
        assert_eq!((records.context(0, 5), records.context(0, 6)), (None, Some(&vec![9])));
        records.put_down(0, 5, vec![8]);
        assert_eq!(records.context(0, 5), Some(&vec![8]));
    }

    #[test]
    fn a_context_that_may_not_be_set_back_is_given_once() {
        let import = |number| Order { worker: 0, number, slot: 5, change: Change::Import(vec![1]) };
        let mut records = ContextRecords::new(1, 100, false);
        records.note(import(1), false);
        assert_eq!(records.messages(0).count(), 1);
        records.given();
        assert_eq!(records.messages(0).count(), 0);
        records.note(import(2), true);
        records.put_down(0, 5, vec![9]);
        assert_eq!(records.messages(0).count(), 0);
    }
}
