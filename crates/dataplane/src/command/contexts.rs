//! Contexts of one function, read and written by their slots.

use std::ops::Range;
use std::sync::mpsc::Sender;

use weft_compose::Instance;
use weft_function::ContextError;

use super::Configure;

/// Contexts as a function has exported them.
pub type Octets = Vec<Vec<u8>>;

/// What contexts hold, by name.
pub type Values = Vec<Vec<(&'static str, u64)>>;

/// What a worker says of contexts that it was to write, which come back to be freed.
pub type Written = (Vec<(u32, Vec<u8>)>, Result<(), ContextError>);

/// Contexts that were read from the store after the node has started.
#[derive(Debug)]
pub struct Load {
    /// The contexts.
    pub contexts: Vec<LoadedContext>,
    /// What functions have exported, one behind the other.
    pub octets: Vec<u8>,
    /// All users have all of their contexts then.
    pub is_last: bool,
    /// Lives that may have gone beyond these contexts: functions skip ahead once for each.
    pub crashes: u32,
    /// Settings of these contexts, which hold in place of those in them.
    pub settings: Vec<Configure>,
    /// Slots of users that have all of their contexts then.
    pub users: Vec<u32>,
    /// Positions of contexts that functions did not take, and why: the worker says it.
    pub refused: Vec<(usize, ContextError)>,
    /// Where all of it goes when it is done.
    pub answer: Sender<Box<Load>>,
}

/// A context, and where its octets are.
#[derive(Clone, Debug)]
pub struct LoadedContext {
    /// Number of the function.
    pub function: u16,
    /// Slot of the context.
    pub slot: u32,
    /// Where among all octets those are that the function has exported.
    pub octets: Range<usize>,
    /// What the agent notes of it once it is there.
    pub hash: u32,
}

/// What an instance exports of these slots.
pub fn read(instance: &dyn Instance, slots: &[u32], now: u64) -> Octets {
    let read = |slot: &u32| {
        let mut octets = Vec::new();
        instance.export(*slot, now, &mut octets);
        octets
    };
    slots.iter().map(read).collect()
}

/// What an instance shows of these slots.
pub fn show(instance: &dyn Instance, slots: &[u32]) -> Values {
    slots.iter().map(|slot| instance.show(*slot)).collect()
}

/// Gives an instance contexts; stops at the first that it does not take.
pub fn write(instance: &mut dyn Instance, contexts: Vec<(u32, Vec<u8>)>, now: u64) -> Written {
    let mut write = |(slot, octets): &(u32, Vec<u8>)| instance.import(*slot, now, octets);
    let outcome = contexts.iter().try_for_each(&mut write);
    (contexts, outcome)
}
