//! The integration tests of this crate, as one program: one to link, not one for each file.

mod handover;
mod open_vswitch;
mod real_functions;
mod report;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One rig or world at a time is as much as there is memory for; and rigs of a process share
/// a folder.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
