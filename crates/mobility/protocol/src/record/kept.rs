//! What a station that keeps its users' contexts must know of a user when it starts again.
//!
//! Checkpoints of contexts say nothing of who has owned the user since. The epoch does: tags of a
//! user's epochs follow each other ([`Epoch::tag`]), so a station to which the controller gives a
//! user back in the epoch that follows knows that no other one has had it meanwhile. What is kept
//! may therefore be old: a station that dies before a record of it is durable, or before one is
//! removed, is given the user in another epoch.

use crate::identity::Epoch;

/// Steps from the epoch that a controller had recorded to the first that it gives once it has
/// started again: moves that were given up are in no record. Odd, and no simple fraction of a
/// round: however often controllers start, a user has hundreds of moves before a tag comes again.
pub(crate) const FAR: u64 = 633;

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

    /// Whether the user has had no move between what is known here and that of `epoch`.
    pub(crate) fn is_followed_by(&self, epoch: Epoch) -> bool {
        let follows = |before: Epoch, steps| epoch.following(before, steps) == epoch;
        epoch > self.last && (follows(self.last, 1) || follows(self.epoch, FAR))
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
        let next = |steps| Epoch(100).following(kept.last, steps);
        assert!(kept.is_followed_by(next(1)));
        assert!(!kept.is_followed_by(next(2)) && !kept.is_followed_by(next(3)));
        assert!(!kept.is_followed_by(Epoch(8 - 2)) && !kept.is_followed_by(kept.last));
        // The controller has started again, and knows of the ownership only.
        assert!(kept.is_followed_by(Epoch(100).following(kept.epoch, FAR)));
        assert!(!kept.is_followed_by(Epoch(100).following(kept.epoch, FAR + 1)));
    }
}
