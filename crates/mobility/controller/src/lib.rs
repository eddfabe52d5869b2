//! The controller as a program: it carries the machine of
//! [`weft_mobility_protocol::Controller`] among nodes, disk, clock and operators.
//!
//! One thread, the [engine], has the machine. Messages of nodes, orders of
//! operators and timers reach it one after another; what becomes of many of them
//! is made durable in the [journal] at once, before any move that depends on it
//! goes on. The [HTTP API](api) is served by another thread, which asks the engine.
//!
//! With records in etcd there may be several [replicas](config::Records): one leads, and
//! another takes over when it ends.
//!
//! A controller that cannot make its records durable stops: to go on would be to
//! forget who owns a user.

#![forbid(unsafe_code)]

pub mod api;
pub mod config;
pub mod engine;
pub mod journal;
mod lead;
pub mod members;
pub mod n4;
mod pair;
mod replica;
mod running;
pub mod shares;
mod standing;
pub mod surroundings;

pub use running::{Controller, StartError};
