//! Which of two nodes owns the users of both.
//!
//! A node owns them while it is granted a lease, and for that long after its last one. The
//! other one is granted them, in a new epoch, when no lease is left, the other node does not
//! hear the owner either, and it has all records. What the epoch is, and whether the standby has
//! all records, is durable before a node is told.

use std::time::{Duration, Instant};

use weft_mobility_protocol::standby::{StandbyStep, Standing};
use weft_mobility_protocol::{Epoch, NodeId};

/// What is durable of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairRecord {
    /// Who owns the users.
    pub owner: NodeId,
    /// By which.
    pub epoch: Epoch,
    /// The other one had all records when the owner said it last.
    pub whole: bool,
}

/// Two nodes for one set of users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Couple {
    /// Who owns the users at first.
    pub first: NodeId,
    /// Who stands by at first.
    pub second: NodeId,
}

impl Couple {
    /// The other one of two.
    pub fn other(&self, node: NodeId) -> NodeId {
        if node == self.first { self.second } else { self.first }
    }
}

/// What a standby has said last.
#[derive(Clone, Copy, Debug)]
struct Heard {
    at: Instant,
    whole: bool,
}

/// What is known of a pair.
#[derive(Clone, Debug)]
pub struct Pair {
    pub couple: Couple,
    pub record: PairRecord,
    /// No lease lasts beyond.
    quiet: Instant,
    /// The owner has said that it has stopped.
    has_left: bool,
    /// When the owner has last said something.
    owner: Option<Instant>,
    standby: Option<Heard>,
    /// Why the standby does not take over, as it was logged.
    said: Option<&'static str>,
}

/// What follows from a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The record is new, and must be durable before the answer goes.
    pub is_new: bool,
    /// The standby owns the users now.
    pub takes_over: bool,
    /// What is said; nothing to a node that leaves.
    pub step: Option<StandbyStep>,
}

impl Pair {
    /// What is known at the start: grants of a controller before this one may still hold.
    pub fn new(couple: Couple, record: Option<PairRecord>, lease: Duration, now: Instant) -> Pair {
        let begun = PairRecord { owner: couple.first, epoch: Epoch(0), whole: false };
        Pair {
            couple,
            // A node that is no longer of the pair owns nothing.
            record: record
                .filter(|one| couple.has(one.owner))
                .unwrap_or(PairRecord { epoch: record.map_or(Epoch(0), |one| one.epoch), ..begun }),
            quiet: now + lease,
            has_left: false,
            owner: None,
            standby: None,
            said: None,
        }
    }

    /// A node claims to be something.
    pub fn claimed(
        &mut self,
        from: NodeId,
        claim: (Epoch, u64, Standing, bool, bool),
        lease: Duration,
        now: Instant,
    ) -> Answer {
        let (epoch, stamp, standing, whole, hears) = claim;
        let before = self.record;
        let mut takes_over = false;
        if self.record.epoch == Epoch(0) {
            self.record.epoch = Epoch(1);
        }
        if from == self.record.owner {
            let is_of_epoch = epoch == self.record.epoch;
            if standing == Standing::Leaves {
                if is_of_epoch {
                    (self.has_left, self.quiet, self.record.whole) = (true, now, whole);
                }
                return Answer { is_new: self.record != before, takes_over, step: None };
            }
            (self.has_left, self.owner, self.quiet) = (false, Some(now), now + lease);
            // A node that starts does not know yet; its word counts once it owns the users.
            if standing == Standing::Owns && is_of_epoch {
                self.record.whole = whole;
            }
        } else {
            self.standby = Some(Heard { at: now, whole });
            if self.takes_over(whole, hears, now) {
                takes_over = true;
                let epoch = Epoch(self.record.epoch.0 + 1);
                self.record = PairRecord { owner: from, epoch, whole: false };
                (self.has_left, self.owner, self.quiet) = (false, Some(now), now + lease);
                (self.standby, self.said) = (None, None);
            }
        }
        let PairRecord { owner, epoch, whole } = self.record;
        let (peer, lease) = (self.couple.other(from), lease.as_millis() as u32);
        let step = match from == owner {
            true => StandbyStep::Grant { epoch, stamp, lease, whole, peer },
            false => StandbyStep::Deny { epoch, stamp, lease, peer },
        };
        Answer { is_new: self.record != before, takes_over, step: Some(step) }
    }

    fn takes_over(&mut self, whole: bool, hears: bool, now: Instant) -> bool {
        if now < self.quiet {
            self.said = None;
            return false;
        }
        let why = if hears && !self.has_left {
            "it hears the owner"
        } else if !whole || !self.record.whole {
            "it does not have all records"
        } else {
            return true;
        };
        if self.said != Some(why) {
            tracing::warn!(
                owner = self.record.owner.0,
                "the owner is not heard, and the standby does not take over: {why}"
            );
            self.said = Some(why);
        }
        false
    }

    /// Whether the owner, and the standby, were heard within a time; and whether the standby
    /// has all records.
    pub fn heard(&self, within: Duration, now: Instant) -> (bool, bool, bool) {
        let is_recent = |at: Instant| now.saturating_duration_since(at) <= within;
        let standby = self.standby.filter(|heard| is_recent(heard.at));
        let has_all = self.record.whole && standby.is_some_and(|heard| heard.whole);
        let hears = standby.is_some();
        (self.owner.is_some_and(is_recent) && !self.has_left, hears, has_all)
    }
}

impl Couple {
    /// Whether a node is one of the two.
    pub fn has(&self, node: NodeId) -> bool {
        [self.first, self.second].contains(&node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);
    const LEASE: Duration = Duration::from_millis(500);

    struct Scene(Pair, Instant);

    impl Scene {
        fn new(record: Option<PairRecord>) -> Scene {
            let now = Instant::now();
            Scene(Pair::new(Couple { first: A, second: B }, record, LEASE, now), now)
        }

        fn later(&mut self, milliseconds: u64) {
            self.1 += Duration::from_millis(milliseconds);
        }

        fn claims(
            &mut self,
            from: NodeId,
            epoch: u64,
            standing: Standing,
            whole: bool,
            hears: bool,
        ) -> Answer {
            self.0.claimed(from, (Epoch(epoch), 7, standing, whole, hears), LEASE, self.1)
        }

        fn owns(&mut self, from: NodeId, epoch: u64, whole: bool) -> Answer {
            self.claims(from, epoch, Standing::Owns, whole, true)
        }

        fn stands(&mut self, from: NodeId, epoch: u64, whole: bool, hears: bool) -> Answer {
            self.claims(from, epoch, Standing::Stands, whole, hears)
        }
    }

    fn granted(answer: &Answer) -> Option<(u64, bool)> {
        match answer.step {
            Some(StandbyStep::Grant { epoch, whole, .. }) => Some((epoch.0, whole)),
            _ => None,
        }
    }

    #[test]
    fn the_first_owns_the_users_and_the_standby_takes_over_when_it_has_all() {
        let mut scene = Scene::new(None);
        assert_eq!(granted(&scene.stands(B, 0, false, false)), None);
        let first = scene.stands(A, 0, false, false);
        assert_eq!(granted(&first), Some((1, false)));
        assert!(first.is_new || scene.0.record.epoch == Epoch(1));
        assert!(scene.owns(A, 1, true).is_new);
        assert_eq!(granted(&scene.owns(A, 1, true)), Some((1, true)));
        // The lease still holds.
        scene.later(499);
        assert_eq!(granted(&scene.stands(B, 1, true, false)), None);
        // It does not, and the standby hears the owner.
        scene.later(2);
        assert_eq!(granted(&scene.stands(B, 1, true, true)), None);
        // The standby does not have all.
        assert_eq!(granted(&scene.stands(B, 1, false, false)), None);
        let taken = scene.stands(B, 1, true, false);
        assert!(taken.takes_over && taken.is_new);
        assert_eq!(granted(&taken), Some((2, false)));
        // The one that comes back does not take them.
        let back = scene.owns(A, 1, true);
        assert!(matches!(back.step, Some(StandbyStep::Deny { epoch: Epoch(2), peer: B, .. })));
        assert!(!back.is_new);
        scene.later(600);
        assert_eq!(granted(&scene.owns(A, 1, true)), None);
        assert_eq!(scene.0.record, PairRecord { owner: B, epoch: Epoch(2), whole: false });
    }

    #[test]
    fn what_was_answered_without_the_standby_keeps_it_from_taking_over() {
        let mut scene = Scene::new(Some(PairRecord { owner: A, epoch: Epoch(4), whole: true }));
        assert!(scene.owns(A, 4, false).is_new);
        scene.later(5000);
        assert_eq!(granted(&scene.stands(B, 4, true, false)), None);
    }

    #[test]
    fn grants_of_an_earlier_controller_are_waited_for() {
        let mut scene = Scene::new(Some(PairRecord { owner: A, epoch: Epoch(4), whole: true }));
        assert_eq!(granted(&scene.stands(B, 4, true, false)), None);
        scene.later(501);
        assert_eq!(granted(&scene.stands(B, 4, true, false)), Some((5, false)));
    }

    #[test]
    fn an_owner_that_leaves_is_followed_at_once_and_an_old_word_means_nothing() {
        let mut scene = Scene::new(Some(PairRecord { owner: A, epoch: Epoch(4), whole: true }));
        assert_eq!(granted(&scene.owns(A, 4, true)), Some((4, true)));
        // Of an epoch that is over.
        scene.claims(A, 3, Standing::Leaves, true, false);
        assert_eq!(granted(&scene.stands(B, 4, true, false)), None);
        assert_eq!(scene.claims(A, 4, Standing::Leaves, true, false).step, None);
        assert_eq!(granted(&scene.stands(B, 4, true, true)), Some((5, false)));
        // It comes back behind that, and then stands by.
        assert_eq!(granted(&scene.stands(A, 4, true, false)), None);
    }

    #[test]
    fn an_owner_that_starts_again_in_time_goes_on() {
        let mut scene = Scene::new(Some(PairRecord { owner: A, epoch: Epoch(4), whole: true }));
        assert_eq!(granted(&scene.owns(A, 4, true)), Some((4, true)));
        scene.later(400);
        // It says nothing yet of the standby, whose records count.
        assert_eq!(granted(&scene.stands(A, 4, true, false)), Some((4, true)));
        scene.later(400);
        assert_eq!(granted(&scene.stands(B, 4, true, false)), None);
        assert_eq!(granted(&scene.owns(A, 4, false)), Some((4, false)));
    }

    #[test]
    fn a_node_that_is_no_longer_of_the_pair_owns_nothing() {
        let gone = PairRecord { owner: NodeId(9), epoch: Epoch(4), whole: true };
        let mut scene = Scene::new(Some(gone));
        assert_eq!(granted(&scene.stands(A, 0, false, false)), Some((4, false)));
    }
}
