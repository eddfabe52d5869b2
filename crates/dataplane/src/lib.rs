//! The data plane of a node: its workers, and all that a packet meets on its way
//! from port to port.
//!
//! `worker.rs` is that way, from top to bottom; the modules it calls are its steps:
//! [`parse`], [`classify`], [`forward`] and [`transmit`]. What packets wait for lies in
//! [`buffering`] and [`gates`], what runs in another thread, process or node behind
//! [`offload`] and [`service_path`]. The rest of a node tells a worker what to do by
//! [`command`]s, reads its [`counters`], and watches packets by [`trace`]: it never touches
//! a packet.

#![forbid(unsafe_code)]

pub mod buffering;
pub mod classify;
pub mod clock;
pub mod command;
pub mod counters;
pub mod forward;
pub mod gates;
pub mod offload;
pub mod parse;
pub mod service_path;
pub mod trace;
pub mod transmit;
pub mod worker;
