//! Contexts of one function, read and written by their slots.

use weft_compose::Instance;
use weft_function::ContextError;

/// Contexts as a function has exported them.
pub type Octets = Vec<Vec<u8>>;

/// What contexts hold, by name.
pub type Values = Vec<Vec<(&'static str, u64)>>;

/// What a worker says of contexts that it was to write, which come back to be freed.
pub type Written = (Vec<(u32, Vec<u8>)>, Result<(), ContextError>);

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
