//! What one process of the node that owns the users says to the next one of the same node.

use std::sync::mpsc::Sender;

use weft_mobility_protocol::{Epoch, Incarnation, NodeId};

use crate::clock::milliseconds;

const VERSION: u8 = 1;
const LENGTH: usize = 8 + 4 + 8 + 8 + 1 + 4 + 8;

/// The longest lease that a controller gives, in milliseconds.
const LONGEST_LEASE: u32 = 60_000;

/// What the owner of the users goes on with in another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handoff {
    pub epoch: Epoch,
    pub peer: Option<NodeId>,
    pub lease: u64,
    /// For how long the users are still owned.
    pub left: u64,
    /// The stream of changes and the newest of them, where the standby has all of them.
    pub level: Option<(Incarnation, u64)>,
}

impl Handoff {
    pub fn write(&self) -> Vec<u8> {
        let mut octets = Vec::with_capacity(1 + LENGTH);
        octets.push(VERSION);
        octets.extend(self.epoch.0.to_be_bytes());
        octets.extend(self.peer.unwrap_or(NodeId::CONTROLLER).0.to_be_bytes());
        octets.extend(self.lease.to_be_bytes());
        octets.extend(self.left.to_be_bytes());
        octets.push(self.level.is_some().into());
        let (stream, newest) = self.level.unwrap_or((Incarnation(0), 0));
        octets.extend(stream.0.to_be_bytes());
        octets.extend(newest.to_be_bytes());
        octets
    }

    /// What was written; no lease is longer than a controller gives it.
    pub fn read(octets: &[u8]) -> Option<Handoff> {
        let rest: &[u8; LENGTH] = octets.strip_prefix(&[VERSION])?.try_into().ok()?;
        let long = |at: usize| Some(u64::from_be_bytes(*rest[at..].first_chunk()?));
        let short = |at: usize| Some(u32::from_be_bytes(*rest[at..].first_chunk()?));
        let lease = long(12)?.min(milliseconds(LONGEST_LEASE));
        Some(Handoff {
            epoch: Epoch(long(0)?),
            peer: Some(NodeId(short(8)?)).filter(|peer| *peer != NodeId::CONTROLLER),
            lease,
            left: long(20)?.min(lease),
            level: (rest[28] == 1).then_some((Incarnation(short(29)?), long(33)?)),
        })
    }
}

/// A part in a pair that another process may have by now. Dropped without a word it has ended.
#[derive(Debug)]
pub struct Released(pub(crate) Sender<bool>);

impl Released {
    /// The other process does not go on with it: it goes on here.
    pub fn resume(self) {
        let _ = self.0.send(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written_and_no_lease_is_longer_than_any() {
        let level = Some((Incarnation(7), 99));
        let (epoch, peer) = (Epoch(3), Some(NodeId(2)));
        let handoff = Handoff { epoch, peer, lease: 800_000_000, left: 700_000_000, level };
        let octets = handoff.write();
        assert_eq!(Handoff::read(&octets), Some(handoff));
        let alone = Handoff { peer: None, level: None, left: 0, ..handoff };
        assert_eq!(Handoff::read(&alone.write()), Some(alone));
        // Of one who lies.
        let long = Handoff { left: u64::MAX, ..handoff };
        assert_eq!(Handoff::read(&long.write()).unwrap().left, 800_000_000);
        let long = Handoff { lease: u64::MAX, ..long };
        assert_eq!(Handoff::read(&long.write()).unwrap().left, 60_000_000_000);
        for wrong in [&octets[..20], b"", b"\x02", &[&octets[..], b"x"].concat()] {
            assert_eq!(Handoff::read(wrong), None);
        }
    }
}
