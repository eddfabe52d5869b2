//! How a function is run.
//!
//! The forwarding element sees functions through one interface, [`Instance`]:
//! "visit these positions of the burst, and say what came of them". Behind it
//! stands a composition method: *call*, a trusted Rust function in the worker's
//! own thread, one indirect call per function and burst. Small functions that say
//! what they do in micro-operations can also be *fused* (the crate `weft-fusion`):
//! neighbours become one loop of machine code over the burst, which works on the same
//! contexts.
//!
//! [`Kind`] is what is known of a function before there is an instance of it:
//! its name, its schemas, its tags and drop reasons, and how to make one.

#![forbid(unsafe_code)]

mod call;
mod instance;
mod kind;
mod positions;
mod slab;

pub use instance::{
    Burst, Instance, KEEP_REFUSED, Kind, Outcome, PANIC, REASONS, Settings, UNDECLARED,
};
pub use positions::Positions;
pub use slab::{Slab, SlotShift};
