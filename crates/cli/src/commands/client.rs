//! Commands that talk to a running node or controller.

pub mod capture;
pub mod ctl;
pub mod show;
mod target;
pub mod top;
pub mod trace;
mod watch;
