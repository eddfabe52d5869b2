//! What a station that keeps its users' contexts must know of a user when it starts again.
//!
//! Checkpoints of contexts say nothing of who has owned the user since. The epoch does by which the
//! controller gives a user back to the node that had it last ([`Epoch::gives_back`]): it names the
//! node and the epoch before. What is kept may therefore be old: a station that dies before a record of it is
//! durable, or before one is removed, is given the user in another epoch.

use crate::identity::{Epoch, NodeId};

/// The ownership of a user whose contexts are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// By which the station owns the user.
    pub epoch: Epoch,
    /// The last move of the user that the station knows of: of that epoch, or later and given up.
    pub last: Epoch,
}

impl Kept {
    /// Version of its octets.
    pub const VERSION: u8 = 1;

    /// Its octets, in network byte order.
    pub fn octets(&self) -> [u8; 16] {
        let mut octets = [0; 16];
        octets[..8].copy_from_slice(&self.epoch.0.to_be_bytes());
        octets[8..].copy_from_slice(&self.last.0.to_be_bytes());
        octets
    }

    /// Reads its octets; none where they mean nothing.
    pub fn read(version: u8, octets: &[u8]) -> Option<Kept> {
        let octets: &[u8; 16] = octets.try_into().ok()?;
        let (epoch, last) = octets.split_at(8);
        let number = |octets: &[u8]| octets.try_into().ok().map(u64::from_be_bytes).map(Epoch);
        let kept = Kept { epoch: number(epoch)?, last: number(last)? };
        let has_meaning = kept.epoch > Epoch(0) && kept.last >= kept.epoch;
        (version == Kept::VERSION && has_meaning).then_some(kept)
    }

    /// Whether no other station has had the user between what is known here and `epoch`.
    pub(crate) fn is_followed_by(&self, epoch: Epoch, node: NodeId) -> bool {
        let before = [self.epoch, self.last];
        epoch > self.last && before.iter().any(|one| epoch.gives_back(node, *one))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_that_mean_nothing_are_refused() {
        let kept = Kept { epoch: Epoch(1 << 40 | 5), last: Epoch(1 << 40 | 9) };
        let octets = kept.octets();
        assert_eq!(Kept::read(Kept::VERSION, &octets), Some(kept));
        assert_eq!(Kept::read(0, &octets), None);
        assert_eq!(Kept::read(Kept::VERSION + 1, &octets), None);
        for length in 0..octets.len() {
            assert_eq!(Kept::read(Kept::VERSION, &octets[..length]), None, "{length} octets");
        }
        assert_eq!(Kept::read(Kept::VERSION, &[&octets[..], &[0]].concat()), None);
        assert_eq!(Kept::read(Kept::VERSION, &[0; 16]), None);
        // A move before the one by which the user is owned.
        let older = Kept { last: Epoch(3), ..kept };
        assert_eq!(Kept::read(Kept::VERSION, &older.octets()), None);
    }

    #[test]
    fn a_user_that_another_station_may_have_had_is_not_followed() {
        let kept = Kept { epoch: Epoch(5), last: Epoch(7) };
        let (node, other) = (NodeId(2), NodeId(3));
        let is_followed = |epoch| kept.is_followed_by(epoch, node);
        let given = |before| Epoch(100).giving_back(node, Epoch(before));
        assert!(is_followed(given(5)) && is_followed(given(7)));
        assert_eq!(given(5).tag(), 100);
        assert!(!is_followed(kept.last) && !is_followed(Epoch(3)));
        // By the same epoch another node, which was to have the user, is given it back.
        assert!(!is_followed(Epoch(100).giving_back(other, kept.last)));
        // Of so many that give it back from another epoch, few seem to.
        let others = (8..1_000_000).filter(|before| is_followed(given(*before))).count();
        assert!(others <= 40, "{others}");
        // Of the others none, and of those that have the same bits above the tag none either.
        assert!(!(8..1_000_000).any(|epoch| is_followed(Epoch(epoch).giving())));
        let near = (1..923).map(|steps| Epoch(given(7).0 + steps));
        assert!(!near.clone().any(is_followed) && !near.map(Epoch::giving).any(is_followed));
    }
}
