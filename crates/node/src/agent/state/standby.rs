//! Another node stands by: how long this one may carry packets, and how far that one is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ports::{Means, Ports};

/// How often the node says at its ports where its addresses are.
const ANNOUNCEMENTS: u8 = 3;

/// Octets of changes that wait for a standby that keeps up: fewer than the least that may.
const KEEPS_UP: u64 = 256 << 10;

/// How long the node may carry packets; clones are the same one.
///
/// Workers and agent look at it before each round. A process that stood still therefore carries
/// at most the burst that it had in hand, when another node may have the users meanwhile.
#[derive(Clone, Debug)]
pub struct Lease(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    begun: Instant,
    /// Nanoseconds from then on.
    until: AtomicU64,
}

impl Default for Lease {
    fn default() -> Lease {
        Lease(Arc::new(Shared { begun: Instant::now(), until: AtomicU64::new(0) }))
    }
}

impl Lease {
    /// It holds up to this moment.
    pub fn extend(&self, until: Instant) {
        let until = until.saturating_duration_since(self.0.begun).as_nanos() as u64;
        self.0.until.store(until, Ordering::Release);
    }

    /// Whether it holds now.
    pub fn holds(&self) -> bool {
        let now = self.0.begun.elapsed().as_nanos() as u64;
        now < self.0.until.load(Ordering::Acquire)
    }
}

/// How far the standby is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StandbyView {
    /// The number of the other node; 0 while the controller has not said it.
    pub peer: u32,
    /// By which this node owns the users.
    pub epoch: u64,
    /// Whether the other node was heard within a lease.
    pub hears: bool,
    /// Whether it has all records, and answers wait for it: it may take over.
    pub whole: bool,
    /// For how long this node may still carry packets without a word, in nanoseconds.
    pub lease: u64,
    /// For how long the other node has not had all that is durable here, in nanoseconds.
    pub lag: u64,
    /// Octets of changes that wait for it.
    pub waiting: u64,
    /// Answers that wait for it.
    pub answers: u64,
    /// Copies of all records that were begun.
    pub copies: u64,
    /// Pieces of changes that were sent.
    pub pieces: u64,
    /// Messages of others than the other node, or of another epoch.
    pub refused: u64,
}

/// Shows how far the standby is.
type Show = Box<dyn Fn() -> StandbyView + Send>;

/// The node is one of two for its users.
pub(crate) struct Standby {
    lease: Lease,
    show: Show,
    announcements: u8,
    is_away: bool,
}

impl Standby {
    /// The node carries packets while the lease holds; `show` says how far its standby is. Its
    /// addresses were those of another node before.
    pub fn new(lease: Lease, show: impl Fn() -> StandbyView + Send + 'static) -> Standby {
        let (show, announcements) = (Box::new(show), ANNOUNCEMENTS);
        Standby { lease, show, announcements, is_away: false }
    }

    /// The lease that the node carries packets by.
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// How far the standby is.
    pub fn view(&self) -> StandbyView {
        (self.show)()
    }

    /// Whether more waits for the standby than for one that keeps up.
    pub fn is_behind(&self) -> bool {
        self.view().waiting > KEEPS_UP
    }

    /// Whether the standby is given all records, as it lacks some.
    pub fn is_copied_to(&self) -> bool {
        let view = self.view();
        view.hears && !view.whole
    }

    /// Whether the node may not say or carry anything at the moment.
    pub fn is_away(&mut self) -> bool {
        let is_away = !self.lease.holds();
        if is_away != self.is_away {
            self.is_away = is_away;
            match is_away {
                true => tracing::warn!(
                    "neither controller nor standby is heard: the node carries no packets"
                ),
                false => tracing::info!("the node carries packets again"),
            }
        }
        is_away
    }

    /// Why commands are refused at the moment, if they are.
    pub fn why_away(&self) -> Option<Arc<str>> {
        let why = "neither controller nor standby is heard, and another node may have the users";
        (!self.lease.holds()).then(|| why.into())
    }

    /// Says at the ports that the addresses are here now, some times: gratuitous ARP (RFC 5227
    /// §3) and unsolicited neighbour advertisements (RFC 4861 §7.2.6).
    pub fn announce(&mut self, ports: &mut Ports, means: &mut Means<'_>) {
        if self.announcements > 0 {
            self.announcements -= 1;
            ports.announce(means);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_lease_holds_up_to_its_end() {
        let lease = Lease::default();
        assert!(!lease.holds());
        lease.extend(Instant::now() + Duration::from_secs(60));
        assert!(lease.holds() && lease.clone().holds());
        lease.extend(Instant::now());
        assert!(!lease.holds());
    }
}
