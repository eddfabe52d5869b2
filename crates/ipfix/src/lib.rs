//! IPFIX (RFC 7011): a node tells a collector what its users have used, and which public ports
//! a translator of addresses has given to whom (RFC 8158).
//!
//! [`message`] writes messages, [`records`] says what is in them and by which templates they are
//! read, [`transport`] carries them by UDP or TCP, and [`Exporter`] is the thread that asks the
//! node's agent and sends. Nothing here is on the way of a packet: counters are read in pieces
//! between bursts, and events wait in a ring with a bound.

#![forbid(unsafe_code)]

mod exporter;
pub mod message;
pub mod records;
pub mod transport;

pub use exporter::{Exporter, StartError};
