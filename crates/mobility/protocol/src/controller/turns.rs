//! Which moves begin next: as many at once as the window allows.
//!
//! Records of further moves are made durable before their turn, many of them together, so a
//! move begins as soon as another one ends.

use std::collections::VecDeque;

use super::{Controller, Managed, Outputs, Stage};
use crate::identity::{Epoch, NodeId, User};

/// What a move waits for before it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing: it has begun, or does not wait for others.
    Come,
    /// Its record becomes durable.
    Storing,
    /// Its record is durable, and others have to end.
    Next,
}

/// Moves that have not begun.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Without a record.
    queue: VecDeque<(User, NodeId)>,
    /// Moves whose records become durable.
    storing: usize,
    /// Moves whose records are.
    next: VecDeque<(User, Epoch)>,
    /// A record is to become durable at once.
    pub hurries: bool,
}

impl Turns {
    pub fn queue(&mut self, users: impl IntoIterator<Item = User>, to: NodeId) {
        self.queue.extend(users.into_iter().map(|user| (user, to)));
    }

    /// Whether no move waits that has no record yet.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// One has been taken off the queue, and its record becomes durable.
    pub fn taken(&mut self, managed: &mut Managed) {
        managed.turn = Turn::Storing;
        self.storing += 1;
    }

    fn waiting(&self) -> usize {
        self.storing + self.next.len()
    }
}

impl Controller {
    /// Whether the record of this user's move is made durable before its turn.
    pub fn is_before_its_turn(&self, user: User) -> bool {
        self.users.get(&user).is_some_and(|managed| managed.turn != Turn::Come)
    }

    /// Whether records have to become durable now: few of those that are would be left to
    /// begin with.
    pub fn is_short_of_records(&self) -> bool {
        let Turns { storing, next, hurries, .. } = &self.turns;
        *hurries || (*storing > 0 && next.len() <= self.settings.ahead / 2)
    }

    /// Of moves that were not settled when the controller stopped, those that go on at once: as
    /// many as the window allows, those first that began first. The others wait for their turn.
    pub(super) fn first_of(&mut self, mut unsettled: Vec<(User, Stage)>) -> Vec<(User, Stage)> {
        unsettled.sort_by_key(|(user, _)| self.users.get(user).map(Managed::epoch));
        let mut moves = 0;
        unsettled.retain(|(user, stage)| {
            moves += usize::from(*stage == Stage::PreparingTarget);
            let goes_on = *stage != Stage::PreparingTarget || moves <= self.settings.window;
            if let Some(managed) = self.users.get_mut(user).filter(|_| !goes_on) {
                (managed.stage, managed.turn) = (Stage::Storing, Turn::Next);
                self.turns.next.push_back((*user, managed.epoch()));
            }
            goes_on
        });
        unsettled
    }

    /// The user has no owner any more: its move waits for no turn. Returns whether it has begun.
    pub(super) fn hurry(&mut self, user: User, out: &mut Outputs) -> bool {
        let Some(managed) = self.users.get_mut(&user) else { return false };
        match std::mem::replace(&mut managed.turn, Turn::Come) {
            Turn::Come => return false,
            Turn::Storing => {
                self.turns.storing -= 1;
                self.turns.hurries = true;
                return false;
            }
            Turn::Next => self.enter(user, Stage::PreparingTarget, "Stored", out),
        }
        true
    }

    /// Begins moves whose turn it is, and takes further ones off the queue.
    pub(super) fn begin_queued(&mut self, out: &mut Outputs) {
        while self.running < self.settings.window
            && let Some((user, epoch)) = self.turns.next.pop_front()
        {
            let Some(managed) = self.users.get_mut(&user) else { continue };
            if managed.turn == Turn::Next && managed.epoch() == epoch {
                managed.turn = Turn::Come;
                self.enter(user, Stage::PreparingTarget, "Stored", out);
            }
        }
        while self.running + self.turns.waiting() < self.settings.window + self.settings.ahead
            && let Some((user, to)) = self.turns.queue.pop_front()
        {
            self.begin_move(user, to, out);
        }
    }

    /// The record of a move that waits for its turn is durable.
    pub(super) fn wait_for_turn(&mut self, user: User, epoch: Epoch, out: &mut Outputs) {
        let Some(managed) = self.users.get_mut(&user) else { return };
        if managed.turn == Turn::Storing {
            managed.turn = Turn::Next;
            self.turns.storing -= 1;
            self.turns.next.push_back((user, epoch));
        }
        self.begin_queued(out);
    }
}
