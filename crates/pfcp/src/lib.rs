//! PFCP (3GPP TS 29.244): how control planes drive the user plane.
//!
//! - [`codec`] reads and writes messages and does nothing else: no state, no input or output.
//! - [`UserPlane`] is the node as PFCP sees it: associations, transactions and sessions, as a
//!   state machine. Datagrams, events and time go in; datagrams and commands come out.
//! - [`server`] connects a state machine with UDP sockets and an agent.
#![forbid(unsafe_code)]

mod agent;
mod associations;
pub mod codec;
pub mod datagrams;
mod interfaces;
pub mod proxy;
mod random;
mod refusal;
pub mod server;
mod transactions;
mod translate;
pub mod user_plane;

pub use interfaces::Entropy;
pub use refusal::Refusal;
pub use server::{DataPlane, Server, ServerError, ServerHandle};
pub use user_plane::UserPlane;

#[cfg(test)]
mod tests;

/// UDP port of PFCP (§6.1).
pub const PORT: u16 = 8805;
