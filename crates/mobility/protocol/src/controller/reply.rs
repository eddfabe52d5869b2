//! What the controller makes of answers.

use super::{Controller, Outputs, Stage, Wants};
use crate::identity::{Epoch, NodeId, User};
use crate::message::{Reason, RouteStage, Step};
use crate::output::{Counter, Output};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Party {
    Source,
    Target,
    Anchor,
}

impl Controller {
    pub(super) fn reply(
        &mut self,
        from: NodeId,
        user: User,
        epoch: Epoch,
        step: Step,
        out: &mut Outputs,
    ) {
        let Some(managed) = self.users.get_mut(&user).filter(|managed| managed.epoch() == epoch)
        else {
            return out.push(Output::Count(Counter::Stale));
        };
        let party = if let Step::Routed(_) = step {
            (managed.record.anchor == from).then_some(Party::Anchor)
        } else if managed.target().is_some_and(|leg| leg.node == from) {
            Some(Party::Target)
        } else {
            managed.record.owner.filter(|leg| leg.node == from).map(|_| Party::Source)
        };
        let Some(party) = party else { return out.push(Output::Count(Counter::Stale)) };
        // An answer of another life than the one that is asked.
        let leg = match party {
            Party::Target => managed.target(),
            Party::Source => managed.record.owner,
            Party::Anchor => None,
        };
        if leg.is_some_and(|leg| self.is_gone(leg)) {
            return out.push(Output::Count(Counter::Stale));
        }
        match party {
            Party::Anchor => self.heard_anchor(user, &step, out),
            Party::Target => self.heard_target(user, &step, out),
            Party::Source => self.heard_source(user, &step, out),
        }
    }

    fn heard_anchor(&mut self, user: User, step: &Step, out: &mut Outputs) {
        let Some(managed) = self.users.get_mut(&user) else { return };
        let asked = match managed.stage {
            Stage::PreparingAnchor | Stage::Moving => RouteStage::Prepare,
            Stage::Switching | Stage::Releasing => RouteStage::Switch,
            Stage::Completing | Stage::Settled => RouteStage::Complete,
            Stage::AbortingSource | Stage::AbortClosing => RouteStage::Abort,
            Stage::Removing => RouteStage::Remove,
            Stage::Storing | Stage::PreparingTarget | Stage::AbortingTarget => return,
        };
        if *step == Step::Routed(asked) && std::mem::take(&mut managed.wants.anchor) {
            self.advance(user, step.name(), out);
        }
    }

    fn heard_target(&mut self, user: User, step: &Step, out: &mut Outputs) {
        let Some(managed) = self.users.get_mut(&user) else { return };
        let sourceless = managed.record.owner.is_none();
        let early = matches!(
            managed.stage,
            Stage::PreparingTarget | Stage::PreparingAnchor | Stage::Moving
        );
        let aborting = managed.stage == Stage::AbortingTarget;
        match step {
            Step::Imported if early || aborting => {
                self.enter(user, Stage::Switching, step.name(), out);
            }
            // No other node can have the user: begins again when the timer fires.
            Step::Refused(_) if early && sourceless => {
                managed.renew = true;
                managed.wants.target = true;
            }
            Step::Refused(_) | Step::Aborted if aborting || (early && *step != Step::Aborted) => {
                managed.certain = true;
                // It has made no entry, so it returns nothing.
                let absent = [Reason::Full, Reason::Busy, Reason::Unknown].map(Step::Refused);
                managed.target_absent = absent.contains(step);
                self.enter(user, Stage::AbortingSource, step.name(), out);
            }
            Step::Prepared if managed.stage == Stage::PreparingTarget => {
                managed.wants.target = false;
                self.advance(user, step.name(), out);
            }
            Step::Completed
                if matches!(managed.stage, Stage::Completing | Stage::AbortClosing)
                    && std::mem::take(&mut managed.wants.target) =>
            {
                self.advance(user, step.name(), out);
            }
            _ => {}
        }
    }

    fn heard_source(&mut self, user: User, step: &Step, out: &mut Outputs) {
        let Some(managed) = self.users.get_mut(&user) else { return };
        match (managed.stage, step) {
            (Stage::Moving, Step::Moved | Step::Released) => {
                // From now on the target knows how far it is.
                managed.wants = Wants { source: false, target: true, ..managed.wants };
            }
            (Stage::Moving, Step::Refused(Reason::Stale | Reason::Unknown)) => {
                self.enter(user, Stage::AbortingTarget, step.name(), out);
            }
            // It has let go of the user, whom the target had and lost.
            (Stage::AbortingSource, Step::Released) => self.restore(user, true, step.name(), out),
            (Stage::AbortingSource, Step::Resumed)
            | (Stage::Releasing, Step::Released)
            | (Stage::AbortClosing, Step::Completed)
            | (Stage::Removing, Step::Removed)
                if std::mem::take(&mut managed.wants.source) =>
            {
                self.advance(user, step.name(), out);
            }
            _ => {}
        }
    }
}
