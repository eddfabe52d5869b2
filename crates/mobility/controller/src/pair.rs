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

/// What a node says that it is.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// By which it owns the users, or that it has heard of.
    pub epoch: Epoch,
    /// When it says so, by its clock.
    pub stamp: u64,
    /// What it is.
    pub standing: Standing,
    /// The standby has all records.
    pub whole: bool,
    /// It hears the other node.
    pub hears: bool,
    /// Of a standby: its node is built.
    pub built: bool,
}

/// What a standby has said last.
#[derive(Clone, Copy, Debug)]
struct Heard {
    at: Instant,
    whole: bool,
    built: bool,
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
    /// Up to when the owner is told to give the users to its standby.
    leaves_by: Option<Instant>,
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
    /// The owner is told to leave, too.
    pub leave: bool,
}

/// What was heard of a pair lately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The owner was heard.
    pub owner: bool,
    /// The standby was heard.
    pub standby: bool,
    /// It has all records, and may take over.
    pub whole: bool,
    /// Its node is built, with all users.
    pub built: bool,
}

/// Why an owner is not told to give the users to its standby.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSwitched {
    /// It has no standby.
    #[error("the node is of no pair: `standbyFor` says who stands by for it")]
    NoPair,
    /// It does not own the users.
    #[error("the node does not own the users of its pair")]
    NotOwner,
    /// It does not hear it.
    #[error("the node is not heard")]
    NotHeard,
    /// The other node cannot have them.
    #[error("its standby is not heard, or does not have all records: see `weft ctl pairs`")]
    NotWhole,
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
            leaves_by: None,
            said: None,
        }
    }

    /// A node claims to be something.
    pub fn claimed(&mut self, from: NodeId, claim: Claim, lease: Duration, now: Instant) -> Answer {
        let Claim { epoch, stamp, standing, whole, hears, built } = claim;
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
                let is_new = self.record != before;
                return Answer { is_new, takes_over, step: None, leave: false };
            }
            (self.has_left, self.owner, self.quiet) = (false, Some(now), now + lease);
            // A node that starts does not know yet; its word counts once it owns the users.
            if standing == Standing::Owns && is_of_epoch {
                self.record.whole = whole;
            }
        } else {
            self.standby = Some(Heard { at: now, whole, built });
            if self.takes_over(whole, hears, now) {
                takes_over = true;
                let epoch = Epoch(self.record.epoch.0 + 1);
                self.record = PairRecord { owner: from, epoch, whole: false };
                (self.has_left, self.owner, self.quiet) = (false, Some(now), now + lease);
                (self.standby, self.said, self.leaves_by) = (None, None, None);
            }
        }
        let PairRecord { owner, epoch, whole } = self.record;
        let (peer, lease) = (self.couple.other(from), lease.as_millis() as u32);
        let step = match from == owner {
            true => StandbyStep::Grant { epoch, stamp, lease, whole, peer },
            false => StandbyStep::Deny { epoch, stamp, lease, peer },
        };
        let owns = from == owner && standing == Standing::Owns;
        let leave = owns && self.leaves_by.is_some_and(|until| now < until);
        Answer { is_new: self.record != before, takes_over, step: Some(step), leave }
    }

    /// The owner `from` is to give the users to its standby: it is told with each answer for
    /// `patience`, or until it has done so.
    ///
    /// # Errors
    /// [`NotSwitched`].
    pub fn switch_over(
        &mut self,
        from: NodeId,
        (lately, patience): (Duration, Duration),
        now: Instant,
    ) -> Result<(), NotSwitched> {
        let Seen { owner: owner_heard, whole, .. } = self.heard(lately, now);
        match (self.record.owner == from, owner_heard, whole) {
            (false, ..) => Err(NotSwitched::NotOwner),
            (_, false, _) => Err(NotSwitched::NotHeard),
            (.., false) => Err(NotSwitched::NotWhole),
            _ => {
                self.leaves_by = Some(now + patience);
                Ok(())
            }
        }
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

    /// What was heard within a time.
    pub fn heard(&self, within: Duration, now: Instant) -> Seen {
        let is_recent = |at: Instant| now.saturating_duration_since(at) <= within;
        let standby = self.standby.filter(|heard| is_recent(heard.at));
        let has_all = self.record.whole && standby.is_some_and(|heard| heard.whole);
        Seen {
            owner: self.owner.is_some_and(is_recent) && !self.has_left,
            standby: standby.is_some(),
            whole: has_all,
            built: standby.is_some_and(|heard| heard.built),
        }
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
            let (epoch, stamp, built) = (Epoch(epoch), 7, whole);
            let claim = Claim { epoch, stamp, standing, whole, hears, built };
            self.0.claimed(from, claim, LEASE, self.1)
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
    fn an_owner_is_told_to_leave_where_its_standby_can_have_the_users() {
        let mut scene = Scene::new(Some(PairRecord { owner: A, epoch: Epoch(4), whole: true }));
        let times = (2 * LEASE, 10 * LEASE);
        let switch = |scene: &mut Scene, node| scene.0.switch_over(node, times, scene.1);
        assert_eq!(switch(&mut scene, A), Err(NotSwitched::NotHeard));
        assert!(!scene.owns(A, 4, true).leave);
        assert_eq!(switch(&mut scene, A), Err(NotSwitched::NotWhole));
        scene.stands(B, 4, true, true);
        assert_eq!(switch(&mut scene, B), Err(NotSwitched::NotOwner));
        assert_eq!(switch(&mut scene, A), Ok(()));
        assert!(!scene.stands(B, 4, true, true).leave);
        let told = scene.owns(A, 4, true);
        assert!(told.leave && granted(&told).is_some(), "it goes on until it has left");
        scene.claims(A, 4, Standing::Leaves, true, false);
        let taken = scene.stands(B, 4, true, false);
        assert!(taken.takes_over && !taken.leave);
        assert!(!scene.owns(B, 5, false).leave);
        // One that does not leave in time goes on.
        scene.stands(A, 5, true, true);
        scene.owns(B, 5, true);
        assert_eq!(switch(&mut scene, B), Ok(()));
        scene.later(5001);
        assert!(!scene.owns(B, 5, true).leave);
    }

    #[test]
    fn whether_the_standby_is_built_is_known_as_long_as_it_is_heard() {
        let mut scene = Scene::new(Some(PairRecord { owner: A, epoch: Epoch(4), whole: true }));
        let seen = |scene: &Scene| scene.0.heard(2 * LEASE, scene.1);
        scene.stands(B, 4, true, true);
        let all = Seen { owner: false, standby: true, whole: true, built: true };
        assert_eq!(seen(&scene), all);
        scene.later(1001);
        assert_eq!(seen(&scene), Seen { standby: false, whole: false, built: false, ..all });
        scene.stands(B, 4, false, true);
        assert_eq!(seen(&scene), Seen { whole: false, built: false, ..all });
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
