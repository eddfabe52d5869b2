//! A gateway of GTP-U tunnels: delay, loss, bearers, signalling.

pub(crate) mod bearers;
pub(crate) mod bearers_delay;
pub(crate) mod delay;
pub(crate) mod gateway;
mod install;
pub(crate) mod loss;
mod page;
mod sessions;
pub(crate) mod signalling;
