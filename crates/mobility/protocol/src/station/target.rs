//! A station as target: it prepares, imports, owns; or returns what it held.

use super::{Entry, Outputs, Radio, State, Station};
use crate::identity::{Direction, Epoch, Incarnation, NodeId, User};
use crate::message::{Message, Reason, Step};
use crate::output::{Contexts, Counter, Output, TimerKind};
use crate::transition::{Role, Transition};

impl Station {
    pub(super) fn prepare(
        &mut self,
        user: User,
        epoch: Epoch,
        peer: Option<(NodeId, Incarnation)>,
        anchor: NodeId,
        out: &mut Outputs,
    ) {
        let known = self.entries.get(&user).map(|entry| (entry.state, entry.epoch));
        let over = self.is_over(user, epoch);
        match known {
            Some((State::Prepared | State::Importing, of)) if of == epoch => {
                self.answer(user, epoch, Step::Prepared, out);
            }
            Some((State::Settling | State::Owning, of)) if of == epoch => {
                self.answer(user, epoch, Step::Imported, out);
            }
            _ if over => self.refuse(user, epoch, Reason::Stale, out),
            None if self.prepared >= self.settings.prepared => {
                self.refuse(user, epoch, Reason::Full, out);
            }
            None => {
                let entry = Entry::new(epoch, peer, anchor);
                out.push(Output::Steer(user, entry.posture()));
                self.count_prepared(None, Some(entry.state));
                self.entries.insert(user, entry);
                let change = Transition {
                    role: Role::Station,
                    from: "Absent",
                    event: "Prepare",
                    to: "Prepared",
                };
                out.push(Output::Changed(user, change));
                self.answer(user, epoch, Step::Prepared, out);
            }
            // What waits here for a move whose other end is gone waits for this
            // one.
            Some((State::Prepared | State::Returning, of)) if of < epoch => {
                self.note_over(user, of);
                if let Some(entry) = self.entries.get_mut(&user) {
                    let (held, radio) = (entry.held, entry.radio);
                    *entry = Entry {
                        held,
                        radio,
                        state: entry.state,
                        ..Entry::new(epoch, peer, anchor)
                    };
                }
                for direction in Direction::ALL {
                    self.cancel(user, TimerKind::Gate(direction), out);
                }
                self.cancel(user, TimerKind::Release, out);
                self.enter(user, State::Prepared, "Prepare", out);
                self.answer(user, epoch, Step::Prepared, out);
            }
            Some(_) => self.refuse(user, epoch, Reason::Busy, out),
        }
    }

    /// What the last life has kept of a user counts only where no other station has had the user
    /// since: where the controller gives the user back `from` an epoch of the record.
    pub(super) fn look_at_kept(
        &mut self,
        user: User,
        epoch: Epoch,
        from: Option<Epoch>,
        out: &mut Outputs,
    ) {
        let Some((kept, is_asked)) = self.kept.get_mut(&user) else { return };
        if kept.last == epoch {
            return;
        }
        if from.is_some_and(|from| kept.is_followed_by(epoch, from)) {
            // The controller may have to ask again, in a further epoch, or the next life.
            (kept.last, *is_asked) = (epoch, true);
            out.push(Output::Keep(user, Some(*kept)));
        } else {
            self.forget_kept_of(user, out);
        }
    }

    fn forget_kept_of(&mut self, user: User, out: &mut Outputs) {
        if self.take_kept(user, out) {
            out.push(Output::Keep(user, None));
        }
    }

    pub(super) fn contexts(
        &mut self,
        from: (NodeId, Incarnation),
        user: User,
        epoch: Epoch,
        bytes: Vec<u8>,
        out: &mut Outputs,
    ) {
        match self.entries.get(&user).map(|entry| (entry.state, entry.epoch)) {
            Some((State::Prepared, of)) if of == epoch => {
                self.enter(user, State::Importing, "Contexts", out);
                let contexts = Contexts::Exported(bytes);
                out.push(Output::Import { user, epoch, contexts });
            }
            Some((State::Importing, of)) if of == epoch => {}
            Some((State::Settling | State::Owning, of)) if of == epoch => {
                let message = Message::Handover { user, epoch, step: Step::Taken };
                self.send(from.0, from.1, message, out);
            }
            _ => out.push(Output::Count(Counter::Stale)),
        }
    }

    pub(super) fn adopt(&mut self, user: User, epoch: Epoch, lost: bool, out: &mut Outputs) {
        match self.entries.get(&user).map(|entry| (entry.state, entry.epoch)) {
            Some((State::Prepared, of)) if of == epoch => {
                if let Some(entry) = self.entries.get_mut(&user) {
                    entry.lost = lost;
                }
                self.enter(user, State::Importing, "Adopt", out);
                if !lost {
                    self.forget_kept_of(user, out);
                }
                let contexts = match self.kept.contains_key(&user) {
                    true => Contexts::Kept,
                    false => Contexts::New,
                };
                out.push(Output::Import { user, epoch, contexts });
            }
            Some((State::Importing, of)) if of == epoch => {}
            Some((State::Settling | State::Owning, of)) if of == epoch => {
                self.answer(user, epoch, Step::Imported, out);
            }
            _ => self.refuse(user, epoch, Reason::Stale, out),
        }
    }

    /// The data plane has made contexts, or could not.
    pub fn imported(&mut self, user: User, epoch: Epoch, made: bool, out: &mut Outputs) {
        let Some(entry) = self.entries.get_mut(&user) else { return };
        if entry.state != State::Importing || entry.epoch != epoch {
            return;
        }
        if !made {
            self.forget_kept_of(user, out);
            self.refuse(user, epoch, Reason::Import, out);
            self.give_back(user, "Import failed", out);
            return;
        }
        let (peer, lost) = (entry.peer, entry.lost);
        if self.take_kept(user, out) {
            out.push(Output::Count(Counter::ContextKept));
        }
        if lost {
            out.push(Output::Count(Counter::ContextLost));
        } else if peer.is_some() {
            out.push(Output::Count(Counter::Imported));
        }
        if let Some((node, incarnation)) = peer {
            let message = Message::Handover { user, epoch, step: Step::Taken };
            self.send(node, incarnation, message, out);
        }
        let Some(entry) = self.entries.get_mut(&user) else { return };
        if peer.is_none() {
            entry.ended = [true; 2];
        }
        // After a source that is gone no node sends End Markers; what it sent still
        // has the time of a gate to arrive.
        entry.grace = lost;
        let waits =
            Direction::ALL.map(|way| !entry.ended(way) && (lost || entry.held[super::index(way)]));
        self.enter(user, State::Settling, "Import done", out);
        self.answer(user, epoch, Step::Imported, out);
        for (direction, _) in Direction::ALL.into_iter().zip(waits).filter(|(_, waits)| *waits) {
            self.set(user, TimerKind::Gate(direction), out);
        }
        self.say_arrived(user, false, out);
        self.settle_user(user, "Import done", out);
    }

    pub(super) fn abort(&mut self, user: User, epoch: Epoch, out: &mut Outputs) {
        match self.entries.get(&user).map(|entry| (entry.state, entry.epoch)) {
            Some((State::Prepared, of)) if of == epoch => {
                self.give_back(user, "Abort", out);
                self.answer(user, epoch, Step::Aborted, out);
            }
            // What becomes of the import decides; the controller asks again.
            Some((State::Importing, of)) if of == epoch => {}
            Some((State::Settling | State::Owning, of)) if of == epoch => {
                self.answer(user, epoch, Step::Imported, out);
            }
            _ => {
                self.note_over(user, epoch);
                self.answer(user, epoch, Step::Aborted, out);
            }
        }
    }

    /// The move is given up before the station has owned the user: what it holds
    /// goes back, or is dropped when there is no node to send it to.
    fn give_back(&mut self, user: User, event: &'static str, out: &mut Outputs) {
        let Some(entry) = self.entries.get_mut(&user) else { return };
        let epoch = entry.epoch;
        if entry.peer.is_none() {
            self.forget(user, epoch, event, out);
            return;
        }
        entry.ended = [false; 2];
        entry.returned = [false; 2];
        entry.asked = false;
        self.note_over(user, epoch);
        self.enter(user, State::Returning, event, out);
    }

    /// Ends paths back to the source that are at their end, and the entry with
    /// the second.
    pub(super) fn end_return(&mut self, user: User, event: &'static str, out: &mut Outputs) {
        let Some(entry) = self.entries.get_mut(&user) else { return };
        let (link, Some((peer, _))) = (entry.link, entry.peer) else { return };
        for direction in Direction::ALL {
            let at = super::index(direction);
            let radio = direction == Direction::Uplink && entry.radio == Radio::Here;
            if entry.ended[at] && !entry.returned[at] && !radio {
                entry.returned[at] = true;
                out.push(super::end_marker(user, peer, link, direction, true));
            }
        }
        if entry.returned == [true; 2] {
            let asked = entry.asked;
            self.forget(user, link, event, out);
            if asked {
                self.answer(user, link, Step::Completed, out);
            }
        }
    }

    /// The owner has opened its last gate: the move is over here.
    pub(super) fn settle_user(&mut self, user: User, event: &'static str, out: &mut Outputs) {
        let Some(entry) = self.entries.get_mut(&user) else { return };
        if !matches!(entry.state, State::Settling | State::Resuming) || !entry.all_ended() {
            return;
        }
        let (link, asked) = (entry.link, std::mem::take(&mut entry.asked));
        entry.held = [false; 2];
        self.enter(user, State::Owning, event, out);
        if asked {
            self.answer(user, link, Step::Completed, out);
        }
    }

    pub(super) fn complete(&mut self, user: User, epoch: Epoch, out: &mut Outputs) {
        let Some(entry) = self.entries.get_mut(&user).filter(|entry| entry.link == epoch) else {
            self.note_over(user, epoch);
            self.answer(user, epoch, Step::Completed, out);
            return;
        };
        match entry.state {
            State::Owning => self.answer(user, epoch, Step::Completed, out),
            State::Settling | State::Resuming => {
                entry.asked = true;
                // The other station has sent its End Markers, or is gone.
                if !std::mem::replace(&mut entry.grace, true) {
                    self.set_gates(user, out);
                }
            }
            State::Returning => {
                if !entry.asked {
                    entry.asked = true;
                    self.set(user, TimerKind::Release, out);
                }
            }
            _ => out.push(Output::Count(Counter::Stale)),
        }
    }
}
