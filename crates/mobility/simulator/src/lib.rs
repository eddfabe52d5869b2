//! The handover protocol under faults, in virtual time.
//!
//! Stations, anchors and a controller run the state machines of `weft-mobility-protocol`
//! as they are; what is simulated is all around them: links, functions, durable
//! storage, radio, traffic, deaths and cuts. Everything follows from a seed, so a
//! run that breaks a promise can be had again, with its log.
//!
//! Moves of functions are simulated in the same way, in [`function_moves`].
//!
//! What is checked, all the while and at the end, is in [`Promise`].
#![forbid(unsafe_code)]

mod check;
mod event;
mod faults;
pub mod function_moves;
mod functions;
mod orders;
mod packets;
mod random;
mod scenario;
mod statistics;
mod survey;
mod user;
mod world;

pub use check::{Promise, Violation};
pub use random::Random;
pub use scenario::{Faults, Mutation, Scenario};
pub use statistics::Statistics;
pub use world::{Outcome, run};
