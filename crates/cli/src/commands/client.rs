//! Commands that talk to a running node or controller.

pub mod capture;
pub mod ctl;
mod difference;
pub mod show;
pub mod site;
mod target;
pub mod top;
pub mod trace;
pub mod upgrade;
mod watch;
