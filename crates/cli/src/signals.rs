//! SIGINT and SIGTERM, which ask a command to come to its end.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::Failure;

/// The signals, caught from now on.
pub struct Termination(Signals);

impl Termination {
    /// Catches them.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn catch() -> Result<Termination, Failure> {
        let signals = Signals::new([SIGINT, SIGTERM]);
        signals.map(Termination).map_err(|error| Failure::broken(format!("signals: {error}")))
    }

    /// Waits for one; returns its name.
    pub fn wait(&mut self) -> &'static str {
        match self.0.forever().next() {
            Some(SIGINT) => "SIGINT",
            _ => "SIGTERM",
        }
    }
}
