//! The highest load that a system carries.
//!
//! A search offers load to a [`SystemUnderTest`] in trials and looks at what was
//! lost. It knows nothing of packets, so it is itself tested on simulated systems
//! whose limits are known.

mod binary;
mod multiple;
mod record;
pub mod simulated;

use std::time::Duration;

pub use binary::{BinarySearch, Bracket};
pub use multiple::{Found, Goal, MultipleLossRatioSearch, Outcome};

/// Something that load can be offered to.
pub trait SystemUnderTest {
    /// Why a trial could not be made.
    type Error;

    /// Offers `rate` packets per second for `duration`, and waits for what is
    /// still on its way.
    ///
    /// # Errors
    /// Where the trial could not be made at all; loss is no error.
    fn offer(&mut self, rate: f64, duration: Duration) -> Result<Trial, Self::Error>;
}

/// What came of one trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trial {
    /// Packets per second that were to be offered.
    pub rate: f64,
    /// How long.
    pub duration: Duration,
    /// Packets that were sent.
    pub sent: u64,
    /// Packets that were due but could not be sent: the generator's limit.
    pub unsent: u64,
    /// Packets that were sent and did not arrive.
    pub lost: u64,
}

impl Trial {
    /// The share of the packets due that did not arrive, be it that they were
    /// lost or that they could not be sent; 0 where none was due.
    pub fn loss_ratio(&self) -> f64 {
        let due = self.sent.saturating_add(self.unsent);
        if due == 0 {
            return 0.0;
        }
        self.lost.saturating_add(self.unsent) as f64 / due as f64
    }
}
