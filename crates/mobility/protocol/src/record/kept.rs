//! What a station that keeps its users' contexts must know of a user when it starts again.
//!
//! Checkpoints of contexts say nothing of who has owned the user since. The controller does: where it
//! gives a user back to the node that had it last, Prepare names the epoch before
//! ([`Step::Prepare`](crate::Step::Prepare)). What is kept may therefore be old: a station that dies
//! before a record of it is durable, or before one is removed, is given the user back from another epoch.

use crate::identity::Epoch;

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

    /// Whether no other station has had the user between what is known here and `epoch`, by which
    /// the controller gives it back from the epoch `from`.
    pub(crate) fn is_followed_by(&self, epoch: Epoch, from: Epoch) -> bool {
        epoch > self.last && [self.epoch, self.last].contains(&from)
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
        let is_followed = |epoch, from| kept.is_followed_by(Epoch(epoch), Epoch(from));
        assert!(is_followed(8, 5) && is_followed(8, 7) && is_followed(u64::MAX, 7));
        // From an epoch that is not known here, also where only its last bits are the same.
        let others = (0..100_000).chain([5 + 1024, 7 + (1 << 32), u64::MAX]);
        assert!(
            !others.filter(|from| ![5, 7].contains(from)).any(|from| is_followed(1 << 40, from))
        );
        // A message that is late.
        assert!((0..=7).all(|epoch| !is_followed(epoch, 5) && !is_followed(epoch, 7)));
    }
}
