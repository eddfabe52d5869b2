//! A station as source: it stops, exports, forwards, and goes; or resumes.

use super::{Outputs, Radio, State, Station, end_marker, index};
use crate::identity::{Direction, Epoch, Leg, User};
use crate::message::{Message, Reason, Step};
use crate::output::{Counter, Output, TimerKey, TimerKind};
use crate::settings::Arrival;

impl Station {
    pub(super) fn begin(&mut self, user: User, epoch: Epoch, target: Leg, out: &mut Outputs) {
        let over = self.is_over(user, epoch);
        // What is known from packets only is known again from packets.
        let told = self.settings.arrival == Arrival::Order;
        let Some(entry) = self.entries.get_mut(&user) else {
            let step = if over { Step::Released } else { Step::Refused(Reason::Unknown) };
            return self.answer(user, epoch, step, out);
        };
        match entry.state {
            state if state.is_source() && entry.link == epoch => {
                self.answer(user, epoch, Step::Moved, out);
            }
            _ if over => self.refuse(user, epoch, Reason::Stale, out),
            State::Owning if entry.epoch < epoch => {
                entry.link = epoch;
                entry.peer = Some((target.node, target.incarnation));
                let left = told && entry.radio == Radio::Left;
                entry.ended = [left, false];
                entry.held = [false; 2];
                entry.asked = false;
                entry.contexts = None;
                entry.attempt = 0;
                self.enter(user, State::Exporting, "Move", out);
                out.push(Output::Export { user, epoch });
                if left {
                    out.push(end_marker(user, target.node, epoch, Direction::Uplink, false));
                }
                self.answer(user, epoch, Step::Moved, out);
            }
            _ => self.refuse(user, epoch, Reason::Busy, out),
        }
    }

    /// The data plane has exported: nothing of the user comes out of functions
    /// any more.
    pub fn exported(&mut self, user: User, epoch: Epoch, bytes: Vec<u8>, out: &mut Outputs) {
        let Some(entry) = self.entries.get_mut(&user) else { return };
        if entry.state != State::Exporting || entry.link != epoch {
            return;
        }
        entry.contexts = Some(bytes);
        // Whatever the anchor gets from here came before this.
        out.push(end_marker(user, entry.anchor, epoch, Direction::Uplink, false));
        out.push(Output::Count(Counter::Exported));
        self.enter(user, State::Exported, "Export done", out);
        self.send_contexts(user, out);
    }

    pub(super) fn send_contexts(&mut self, user: User, out: &mut Outputs) {
        let Some(entry) = self.entries.get_mut(&user) else { return };
        let (State::Exported, Some((peer, incarnation)), Some(bytes)) =
            (entry.state, entry.peer, entry.contexts.clone())
        else {
            return;
        };
        let (epoch, attempt) = (entry.link, entry.attempt);
        entry.attempt += 1;
        if attempt > 0 {
            out.push(Output::Count(Counter::Resent));
        }
        let message = Message::Handover { user, epoch, step: Step::Contexts(bytes) };
        self.send(peer, incarnation, message, out);
        let key = TimerKey { user: Some(user), kind: TimerKind::Resend };
        out.push(Output::SetTimer(key, self.settings.wait(attempt)));
    }

    pub(super) fn taken(&mut self, user: User, epoch: Epoch, out: &mut Outputs) {
        let Some(entry) = self.entries.get_mut(&user) else { return };
        if entry.state == State::Exported && entry.link == epoch {
            entry.contexts = None;
            self.cancel(user, TimerKind::Resend, out);
            self.enter(user, State::Forwarding, "Taken", out);
        }
    }

    pub(super) fn release(&mut self, user: User, epoch: Epoch, out: &mut Outputs) {
        let Some(entry) = self.entries.get_mut(&user).filter(|entry| entry.link == epoch) else {
            self.note_over(user, epoch);
            return self.answer(user, epoch, Step::Released, out);
        };
        match entry.state {
            State::Exported | State::Forwarding if !entry.asked => {
                entry.asked = true;
                entry.contexts = None;
                if entry.state == State::Exported {
                    self.cancel(user, TimerKind::Resend, out);
                    self.enter(user, State::Forwarding, "Release", out);
                }
                self.set(user, TimerKind::Release, out);
                self.end_forwarding(user, "Release", out);
            }
            _ => {}
        }
    }

    /// Goes when asked to, once both paths have ended.
    pub(super) fn end_forwarding(&mut self, user: User, event: &'static str, out: &mut Outputs) {
        let Some(entry) = self.entries.get(&user) else { return };
        if entry.state == State::Forwarding && entry.asked && entry.all_ended() {
            let epoch = entry.link;
            self.forget(user, epoch, event, out);
            self.answer(user, epoch, Step::Released, out);
        }
    }

    /// Owns the user again: the move is given up.
    pub(super) fn resume(
        &mut self,
        user: User,
        target: Leg,
        certain: bool,
        target_gone: bool,
        out: &mut Outputs,
    ) {
        let epoch = target.epoch;
        let over = self.is_over(user, epoch);
        let Some(entry) = self.entries.get_mut(&user) else {
            self.note_over(user, epoch);
            return self.answer(user, epoch, Step::Released, out);
        };
        let moving = entry.state.is_source() && entry.link == epoch;
        // Never told to move: only what the radio brought to the target returns.
        let unmoved = entry.state == State::Owning && entry.epoch < epoch && !over;
        if !moving && !unmoved {
            if matches!(entry.state, State::Owning | State::Resuming) && entry.epoch < epoch {
                // A controller that has started since may have prepared the target
                // anew, which waits for these.
                if entry.link == epoch && !target_gone {
                    self.end_resumed(user, &target, out);
                }
                self.answer(user, epoch, Step::Resumed, out);
            } else {
                out.push(Output::Count(Counter::Stale));
            }
            return;
        }
        entry.peer = Some((target.node, target.incarnation));
        entry.link = epoch;
        entry.contexts = None;
        entry.asked = false;
        entry.grace = target_gone;
        entry.leaving = false;
        // A target without contexts returns uplink only, and after the End Marker
        // that it is sent now.
        entry.ended = [unmoved && target_gone, unmoved];
        entry.held = [false; 2];
        self.note_over(user, epoch);
        self.cancel(user, TimerKind::Resend, out);
        self.cancel(user, TimerKind::Release, out);
        out.push(Output::Count(Counter::Resumed));
        if moving {
            if !certain {
                out.push(Output::Count(Counter::ContextLost));
            }
            out.push(Output::Resume { user, rolled_back: !certain });
        }
        self.enter(user, State::Resuming, "Resume", out);
        self.end_resumed(user, &target, out);
        if target_gone {
            self.set_gates(user, out);
        }
        self.answer(user, epoch, Step::Resumed, out);
        self.say_arrived(user, false, out);
        self.settle_user(user, "Resume", out);
    }

    /// Ends the paths to the target of a move that is given up.
    fn end_resumed(&self, user: User, target: &Leg, out: &mut Outputs) {
        for direction in Direction::ALL {
            out.push(end_marker(user, target.node, target.epoch, direction, true));
        }
    }

    /// The anchor's or the radio's End Marker for a source.
    pub(super) fn pass_on(
        &mut self,
        user: User,
        direction: Direction,
        event: &'static str,
        out: &mut Outputs,
    ) {
        let Some(entry) = self.entries.get_mut(&user) else { return };
        let Some((peer, _)) = entry.peer else { return };
        if entry.state.is_source() && !entry.ended(direction) {
            entry.ended[index(direction)] = true;
            out.push(end_marker(user, peer, entry.link, direction, false));
            self.end_forwarding(user, event, out);
        }
    }
}
