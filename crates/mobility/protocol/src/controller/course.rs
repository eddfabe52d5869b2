//! The course of a move: its stages, what is asked in each, and what becomes of
//! it when a node is gone.

use super::{Controller, Intent, Managed, Notice, Outputs, Stage, Turn, Wants, resend};
use crate::identity::{Leg, NodeId, User};
use crate::message::{Message, RouteStage, Step};
use crate::output::{Counter, Output};
use crate::transition::{Role, Transition};

/// Removed users whose last epochs are remembered.
const REMEMBERED: usize = 1 << 16;

impl Controller {
    /// Puts a user into a stage and asks what is to be asked there.
    pub(super) fn enter(
        &mut self,
        user: User,
        stage: Stage,
        event: &'static str,
        out: &mut Outputs,
    ) {
        let Some(managed) = self.users.get_mut(&user) else { return };
        let before = std::mem::replace(&mut managed.stage, stage);
        if before != stage {
            let (from, to) = (before.name(), stage.name());
            let change = Transition { role: Role::Controller, from, event, to };
            out.push(Output::Changed(user, change));
        }
        managed.attempt = 0;
        managed.renew = false;
        managed.wants = wants(stage, managed);
        let has_begun = stage != Stage::Settled && managed.turn == Turn::Come;
        if has_begun && !std::mem::replace(&mut managed.counted, true) {
            self.running += 1;
        }
        let Some(managed) = self.users.get_mut(&user) else { return };
        match stage {
            Stage::Storing => {
                let record = Some(managed.record);
                let next_epoch = self.next_epoch;
                out.push(Output::CancelTimer(resend(user)));
                out.push(Output::Persist { user, record, next_epoch });
                return;
            }
            Stage::PreparingTarget => managed.target_absent = false,
            Stage::Moving => managed.certain = false,
            // Not earlier: a move that is given up then leaves the radio where it is.
            Stage::Switching if managed.record.owner.is_some() => {
                if let Some(target) = managed.target() {
                    out.push(Output::Tell(Notice::Ready(user, target.node)));
                }
            }
            Stage::AbortingSource => {
                if let Some(owner) = managed.record.owner {
                    out.push(Output::Tell(Notice::Aborting(user, owner.node)));
                }
            }
            _ => {}
        }
        if !self.check(user, out) {
            self.request(user, out);
        }
    }

    /// Asks once more for what is still wanted.
    pub(super) fn request(&mut self, user: User, out: &mut Outputs) {
        let Some(managed) = self.users.get(&user) else { return };
        if managed.wants.nothing() {
            return out.push(Output::CancelTimer(resend(user)));
        }
        let (wants, epoch, owner) = (managed.wants, managed.epoch(), managed.record.owner);
        if let Some(owner) = owner.filter(|_| wants.source)
            && let Some(step) = self.to_source(managed)
        {
            self.say(owner, user, epoch, step, out);
        }
        if let Some(target) = managed.target().filter(|_| wants.target)
            && let Some(step) = self.to_target(managed)
        {
            self.say(target, user, epoch, step, out);
        }
        if wants.anchor
            && let Some(step) = to_anchor(managed)
        {
            let node = managed.record.anchor;
            match self.nodes.get(&node) {
                Some(&incarnation) => {
                    self.say(Leg { node, incarnation, epoch }, user, epoch, step, out);
                }
                None => self.send(node, Default::default(), Message::Probe, out),
            }
        }
        out.push(Output::SetTimer(resend(user), self.settings.wait(managed.attempt)));
    }

    fn to_source(&self, managed: &Managed) -> Option<Step> {
        let target = managed.target();
        Some(match managed.stage {
            Stage::Moving => Step::Move { target: target? },
            Stage::AbortingSource => Step::Resume {
                target: target?,
                certain: managed.certain,
                target_gone: managed.target_absent || self.is_gone(target?),
            },
            Stage::AbortClosing => Step::Complete,
            Stage::Releasing => Step::Release,
            Stage::Removing => Step::Remove,
            _ => return None,
        })
    }

    fn to_target(&self, managed: &Managed) -> Option<Step> {
        let owner = managed.record.owner;
        let prepare = || Step::Prepare {
            source: owner,
            kept: managed.kept(),
            anchor: managed.record.anchor,
            settled: self.settled_below(),
        };
        Some(match managed.stage {
            Stage::PreparingTarget => prepare(),
            Stage::Moving if owner.is_none() => Step::Adopt { lost: super::is_lost(managed) },
            // The answer says whether it has the user yet.
            Stage::Moving => prepare(),
            Stage::AbortingTarget => Step::Abort,
            Stage::AbortClosing | Stage::Completing => Step::Complete,
            _ => return None,
        })
    }

    /// Whether a node does not have what it had in the incarnation of the leg.
    pub(super) fn is_gone(&self, leg: Leg) -> bool {
        self.nodes.get(&leg.node).is_some_and(|known| *known > leg.incarnation)
            || self.gone.get(&leg.node).is_some_and(|(last, _)| *last >= leg.incarnation)
    }

    /// Looks whether a party of what is under way is gone, and acts on it.
    /// Returns whether another stage was entered.
    pub(super) fn check(&mut self, user: User, out: &mut Outputs) -> bool {
        let Some(managed) = self.users.get(&user) else { return false };
        let (stage, lost) = (managed.stage, super::is_lost(managed));
        let source = managed.record.owner;
        let source_gone = source.is_none_or(|leg| self.is_gone(leg));
        let target_gone = managed.target().is_some_and(|leg| self.is_gone(leg));
        let fallback = match source {
            Some(_) if !source_gone => Some(Stage::AbortingSource),
            _ => None,
        };
        let next = match stage {
            Stage::Settled if source.is_some() && source_gone => {
                out.push(Output::Count(Counter::NoOwner));
                out.push(Output::Tell(Notice::NoOwner(user)));
                None
            }
            Stage::PreparingTarget
            | Stage::PreparingAnchor
            | Stage::Moving
            | Stage::AbortingTarget
            | Stage::Switching
                if target_gone =>
            {
                fallback
            }
            Stage::Releasing if target_gone => fallback,
            Stage::Releasing if source_gone => Some(Stage::Completing),
            Stage::Completing if target_gone => None,
            Stage::AbortingSource | Stage::AbortClosing if source_gone => None,
            _ => return self.adjust(user, source_gone, target_gone, out),
        };
        match next {
            Some(stage) => self.enter(user, stage, "Node gone", out),
            None => self.restore(user, source.is_some() || lost || target_gone, "Node gone", out),
        }
        true
    }

    /// Leaves out a party that is gone, within a stage.
    fn adjust(
        &mut self,
        user: User,
        source_gone: bool,
        target_gone: bool,
        out: &mut Outputs,
    ) -> bool {
        let Some(managed) = self.users.get_mut(&user) else { return false };
        match managed.stage {
            Stage::Storing if source_gone => return self.hurry(user, out),
            // The anchor takes packets of the source, which may be cut off and not dead. Unless
            // the target has the user already, it begins anew, by an epoch of its own.
            Stage::Moving if source_gone && managed.record.owner.is_some() => {
                self.enter(user, Stage::AbortingTarget, "Node gone", out);
                return true;
            }
            Stage::AbortClosing if target_gone => {
                managed.wants.target = false;
                self.advance(user, "Node gone", out);
            }
            Stage::Removing if source_gone => {
                managed.wants.source = false;
                self.advance(user, "Node gone", out);
            }
            _ => {}
        }
        false
    }

    /// Looks at the users that a node has or is to have, as something is known of it. There may
    /// be many users and many nodes, so others are passed over.
    pub(super) fn check_those_of(&mut self, node: NodeId, out: &mut Outputs) {
        for user in self.by_node.users(node, User(0)).collect::<Vec<_>>() {
            self.check(user, out);
        }
    }

    /// An anchor that has started anew has forgotten all ways.
    pub(super) fn anchor_is_new(&mut self, node: NodeId) {
        if !self.is_anchor(node) {
            return;
        }
        for managed in self.users.values_mut().filter(|managed| managed.record.anchor == node) {
            if to_anchor(managed).is_some() {
                managed.wants.anchor = true;
                managed.attempt = 0;
            }
        }
    }

    /// Asks anew whatever concerns an anchor.
    pub(super) fn request_all(&mut self, anchor: NodeId, out: &mut Outputs) {
        if !self.is_anchor(anchor) {
            return;
        }
        let concerned = |managed: &Managed| managed.record.anchor == anchor && managed.wants.anchor;
        let users = self.users.iter().filter(|(_, managed)| concerned(managed));
        for user in users.map(|(user, _)| *user).collect::<Vec<_>>() {
            self.request(user, out);
        }
    }

    /// All that this stage waited for is there: on to the next.
    pub(super) fn advance(&mut self, user: User, event: &'static str, out: &mut Outputs) {
        let Some(managed) = self.users.get(&user) else { return };
        if !managed.wants.nothing() {
            return;
        }
        let next = match managed.stage {
            Stage::PreparingTarget => Stage::PreparingAnchor,
            Stage::PreparingAnchor => Stage::Moving,
            Stage::Switching if managed.record.owner.is_none() => Stage::Completing,
            Stage::Switching => Stage::Releasing,
            Stage::Releasing => Stage::Completing,
            Stage::AbortingTarget => Stage::AbortingSource,
            Stage::AbortingSource => Stage::AbortClosing,
            Stage::Completing | Stage::AbortClosing | Stage::Removing => {
                return self.finish(user, event, out);
            }
            Stage::Settled | Stage::Storing | Stage::Moving => return,
        };
        self.enter(user, next, event, out);
    }

    fn finish(&mut self, user: User, event: &'static str, out: &mut Outputs) {
        let Some(managed) = self.users.get(&user) else { return };
        let (epoch, removal, mut record) = (managed.epoch(), managed.removal, managed.record);
        let owner = record.owner;
        self.active.remove(&epoch);
        out.push(Output::CancelTimer(resend(user)));
        let notice = match (managed.stage, managed.target()) {
            (Stage::Completing, Some(target)) => {
                record.owner = Some(target);
                match owner {
                    Some(_) => Notice::Moved(user, target.node),
                    None => Notice::Owned(user, target.node),
                }
            }
            (Stage::AbortClosing, _) => {
                Notice::Aborted(user, owner.map_or(NodeId(0), |leg| leg.node))
            }
            _ => Notice::Removed(user),
        };
        out.push(Output::Tell(notice));
        let next_epoch = self.next_epoch;
        if managed.stage == Stage::Removing {
            let (from, to) = (managed.stage.name(), "Absent");
            let change = Transition { role: Role::Controller, from, event, to };
            out.push(Output::Changed(user, change));
            self.uncount(user);
            if let Some(managed) = self.users.remove(&user) {
                self.by_node.remove(user, &managed.record);
                self.removed.insert(user, managed.last.0);
            }
            if self.removed.len() > REMEMBERED {
                self.removed.pop_first();
            }
            out.push(Output::Persist { user, record: None, next_epoch });
            return self.begin_queued(out);
        }
        record.intent = Intent::Settled;
        self.change_record(user, |known| *known = record);
        out.push(Output::Persist { user, record: Some(record), next_epoch });
        self.uncount(user);
        self.enter(user, Stage::Settled, event, out);
        if removal && self.stage(user) == Some(Stage::Settled) {
            self.begin_removal(user, out);
        }
        self.begin_queued(out);
    }

    pub(super) fn uncount(&mut self, user: User) {
        if let Some(managed) = self.users.get_mut(&user)
            && std::mem::take(&mut managed.counted)
        {
            self.running -= 1;
        }
    }

    /// The move has taken long: gives it up where nothing is lost by that.
    pub(super) fn give_up(&mut self, user: User, out: &mut Outputs) {
        let Some(managed) = self.users.get(&user) else { return };
        let early = matches!(
            managed.stage,
            Stage::PreparingTarget | Stage::PreparingAnchor | Stage::Moving
        );
        if early && managed.record.owner.is_some() {
            self.enter(user, Stage::AbortingTarget, "Given up", out);
        }
    }

    /// No node has the user: one is to own it, with new contexts.
    pub(super) fn restore(
        &mut self,
        user: User,
        lost: bool,
        event: &'static str,
        out: &mut Outputs,
    ) {
        let Some(managed) = self.users.get(&user) else { return };
        let last = managed.target().or(managed.record.owner);
        let mut node = last.map_or(NodeId(0), |leg| leg.node);
        let before = managed.epoch();
        // A node that came back after all is as good as any.
        if let Some((last, successor)) = self.gone.get(&node)
            && self.nodes.get(&node).is_none_or(|known| known <= last)
        {
            node = *successor;
        }
        let incarnation = self.nodes.get(&node).copied().unwrap_or_default();
        self.active.remove(&before);
        let epoch = self.raise(user);
        let target = Leg { node, incarnation, epoch };
        // Given back: no other node has had the user since. A message that named a later epoch
        // would be refused as a whole.
        let kept = last.filter(|leg| leg.node == node && before < epoch).map(|_| before);
        let intent = Intent::Move { target, lost, kept };
        self.change_record(user, |record| (record.owner, record.intent) = (None, intent));
        self.enter(user, Stage::Storing, event, out);
    }
}

/// Whose answers a stage waits for.
fn wants(stage: Stage, managed: &Managed) -> Wants {
    let some = managed.record.owner.is_some();
    let (source, target, anchor) = match stage {
        Stage::Settled | Stage::Storing => (false, false, false),
        Stage::PreparingTarget | Stage::AbortingTarget => (false, true, false),
        Stage::PreparingAnchor | Stage::Switching => (false, false, true),
        Stage::Moving => (some, !some, false),
        Stage::Releasing => (true, false, false),
        Stage::Completing => (false, true, true),
        Stage::AbortingSource => (true, false, true),
        Stage::AbortClosing => (true, true, false),
        Stage::Removing => (some, false, true),
    };
    Wants { source, target, anchor }
}

/// What the anchor is to do in a stage.
fn to_anchor(managed: &Managed) -> Option<Step> {
    let (old, new) = (managed.record.owner, managed.target());
    let (stage, old, new) = match managed.stage {
        Stage::Settled => (RouteStage::Complete, None, old),
        Stage::PreparingAnchor | Stage::Moving => (RouteStage::Prepare, old, new),
        Stage::Switching | Stage::Releasing => (RouteStage::Switch, old, new),
        Stage::Completing => (RouteStage::Complete, None, new),
        Stage::AbortingSource | Stage::AbortClosing => (RouteStage::Abort, old, None),
        Stage::Removing => (RouteStage::Remove, None, None),
        Stage::Storing | Stage::PreparingTarget | Stage::AbortingTarget => return None,
    };
    Some(Step::Route { stage, old, new })
}
