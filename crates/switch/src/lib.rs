//! Software VF: a switch in a process of its own that stands in for the one in a NIC where
//! no NIC has virtual functions.
//!
//! Each virtual function is a port: a ring in shared memory (vhost-user), whose front end is
//! a device of the process that has it. Frames go by destination MAC address. Each port has
//! two queues, its ring and what waits for it in the [`switch`], and a fixed [`share`] of the
//! switch in both directions. So a port that sends more than its share fills its own ring, and
//! a port that is sent more than its share loses its own frames, with a named reason; the time of
//! the switch and the queues of others stay theirs.
//!
//! [`host`] runs a switch in this process, [`child`] starts one in another, [`statistics`]
//! is what one says of itself.

#![forbid(unsafe_code)]

pub mod child;
pub mod host;
pub mod share;
pub mod statistics;
pub mod switch;

pub use child::Child;
pub use host::{Host, HostError};
pub use statistics::{DropReason, Statistics};
