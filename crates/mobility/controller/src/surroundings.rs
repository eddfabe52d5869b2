//! What the engine works in: a clock, and connections with nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weft_mobility_protocol::{Envelope, NodeId};
use weft_mobility_transport::note::Note;
use weft_mobility_transport::{PeerAddress, Sender, Statistics};

/// Tells the time: that of the machine, or one that is set.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Set>);

#[derive(Clone, Debug)]
struct Set {
    began: Instant,
    /// Time since 1970 (UTC) at the beginning.
    since_1970: Duration,
    /// Microseconds since the beginning.
    now: Arc<AtomicU64>,
}

impl Clock {
    /// A clock that says what is stored there, in microseconds since it began; it began at that
    /// time since 1970 (UTC).
    pub fn set_by(now: Arc<AtomicU64>, since_1970: Duration) -> Clock {
        Clock(Some(Set { began: Instant::now(), since_1970, now }))
    }

    /// For what takes time.
    pub fn now(&self) -> Instant {
        self.0.as_ref().map_or_else(Instant::now, |set| set.began + set.passed())
    }

    /// Time since 1970 (UTC).
    pub fn since_1970(&self) -> Duration {
        match &self.0 {
            Some(set) => set.since_1970 + set.passed(),
            None => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        }
    }
}

impl Set {
    fn passed(&self) -> Duration {
        Duration::from_micros(self.now.load(Ordering::Relaxed))
    }
}

/// Connections with nodes: those of a [transport](Sender), or simulated ones.
pub trait Network: Send + Sync {
    /// See [`Sender::send`].
    fn send(&self, envelope: Envelope);
    /// See [`Sender::note`].
    fn note(&self, node: NodeId, note: &Note) -> bool;
    /// See [`Sender::place`].
    fn place(&self, place: PeerAddress);
    /// See [`Sender::displace`].
    fn displace(&self, node: NodeId);
    /// See [`Sender::is_connected`].
    fn is_connected(&self, node: NodeId) -> bool;
    /// See [`Sender::last_heard`].
    fn last_heard(&self, node: NodeId) -> Option<Duration>;
    /// See [`Sender::statistics`].
    fn statistics(&self) -> Statistics;
}

impl Network for Sender {
    fn send(&self, envelope: Envelope) {
        Sender::send(self, envelope);
    }

    fn note(&self, node: NodeId, note: &Note) -> bool {
        Sender::note(self, node, note)
    }

    fn place(&self, place: PeerAddress) {
        Sender::place(self, place);
    }

    fn displace(&self, node: NodeId) {
        Sender::displace(self, node);
    }

    fn is_connected(&self, node: NodeId) -> bool {
        Sender::is_connected(self, node)
    }

    fn last_heard(&self, node: NodeId) -> Option<Duration> {
        Sender::last_heard(self, node)
    }

    fn statistics(&self) -> Statistics {
        Sender::statistics(self)
    }
}
