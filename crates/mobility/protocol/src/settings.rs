//! Times and bounds of the protocol.

use std::time::Duration;

/// How a station knows that a user's radio has arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Arrival {
    /// It is told.
    #[default]
    Order,
    /// It is told, or the first packet comes from the user while a move is under way.
    Uplink,
}

/// Times and bounds of the protocol; the defaults suit a network in which a
/// message takes milliseconds at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// After which a message without answer is sent again, the first time; each
    /// further time takes twice as long.
    pub resend: Duration,
    /// The longest time between two sendings.
    pub resend_most: Duration,
    /// Sendings after which the controller gives a move up, where it still can.
    pub attempts: u32,
    /// How long a gate with packets waits for its End Marker (TS 29.281 §7.3.2:
    /// it can be lost).
    pub gate: Duration,
    /// How long a source that may go waits for the radio to leave, and for the
    /// End Marker of the anchor.
    pub release: Duration,
    /// How a station knows that a user's radio has arrived.
    pub arrival: Arrival,
    /// Moves that the controller has under way at once; further ones wait.
    pub window: usize,
    /// Further moves whose records the controller makes durable before their turn, so that
    /// many records become durable together.
    pub ahead: usize,
    /// Users that a station prepares for at once; more are refused.
    pub prepared: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            resend: Duration::from_millis(20),
            resend_most: Duration::from_millis(500),
            attempts: 10,
            gate: Duration::from_millis(200),
            release: Duration::from_secs(2),
            arrival: Arrival::default(),
            window: 256,
            ahead: 2048,
            prepared: 16_384,
        }
    }
}

impl Settings {
    /// How long to wait for an answer to sending number `attempt`, from 0.
    pub fn wait(&self, attempt: u32) -> Duration {
        self.resend.saturating_mul(1 << attempt.min(16)).min(self.resend_most)
    }
}
