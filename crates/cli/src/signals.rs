//! SIGINT and SIGTERM, which ask a command to come to its end.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::Failure;

/// What ends the command when no signal can any more.
const NO_THREAD: &str = "the end of the thread that waits for signals";

/// The signals, caught from now on.
pub struct Termination(Receiver<&'static str>);

impl Termination {
    /// Catches them.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn catch() -> Result<Termination, Failure> {
        let broken = |error| Failure::broken(format!("signals: {error}"));
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(broken)?;
        let (tell, caught) = channel();
        let wait = move || {
            for signal in signals.forever() {
                let name = if signal == SIGINT { "SIGINT" } else { "SIGTERM" };
                // Further signals are for a command that waits no more.
                let _ = tell.send(name);
            }
        };
        thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(broken)?;
        Ok(Termination(caught))
    }

    /// Waits for one; returns its name.
    pub fn wait(&self) -> &'static str {
        self.0.recv().unwrap_or(NO_THREAD)
    }

    /// Waits for one, but no longer than `patience`.
    pub fn wait_for(&self, patience: Duration) -> Option<&'static str> {
        match self.0.recv_timeout(patience) {
            Err(RecvTimeoutError::Timeout) => None,
            caught => Some(caught.unwrap_or(NO_THREAD)),
        }
    }
}
