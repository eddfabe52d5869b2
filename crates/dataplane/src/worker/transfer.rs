//! A worker takes a user's belongings out, and takes in those of another node's.

use weft_function::Scope;

use super::Worker;
use crate::buffering::limits::WAITING;
use crate::command::Report;
use crate::command::transfer::{Extract, Intake};
use crate::counters::DropReason;
use crate::parse::is_sound;

/// A user that is taken out once nothing of it is away any more.
#[derive(Debug)]
pub struct Waiting {
    extract: Box<Extract>,
    /// When what is held for a process that is not there is given up.
    until: u64,
}

/// How long a user that goes waits for a process that is not there, in nanoseconds.
const HELD_WAIT: u64 = 1_000_000_000;

impl Worker {
    /// Takes a user's belongings out, once its packets are back from processes.
    pub(crate) fn begin_take_out(&mut self, extract: Box<Extract>) {
        let is_away = extract.slots.first().is_some_and(|user| self.remote_queues.has_of(*user));
        if is_away {
            let until = self.clock.now().saturating_add(HELD_WAIT);
            self.state.leaving.push(Waiting { extract, until });
        } else {
            self.take_out(extract);
        }
    }

    /// Takes those out whose packets have come back in the meantime.
    #[cold]
    pub(crate) fn take_out_waiting(&mut self) {
        let now = self.clock.now();
        for waiting in std::mem::take(&mut self.state.leaving) {
            let user = waiting.extract.slots[0];
            if waiting.until <= now {
                self.remote_queues.drop_held_of(user, &self.counters);
            }
            match self.remote_queues.has_of(user) {
                true => self.state.leaving.push(waiting),
                false => self.take_out(waiting.extract),
            }
        }
    }

    /// Takes a user's contexts, timers and kept packets out. The contexts stay,
    /// timers and packets go.
    fn take_out(&mut self, mut extract: Box<Extract>) {
        let now = self.clock.now();
        let functions = &self.element.plan().functions;
        extract.functions =
            functions.iter().map(|one| (one.name.clone(), one.instance.kind().name)).collect();
        for (number, function) in functions.iter().enumerate() {
            let scope = function.instance.scope();
            let number = number as u16;
            if scope == Scope::Group || extract.without == Some(number) {
                continue;
            }
            if function.remote_queue.is_some() {
                let count = if scope == Scope::User { 1 } else { extract.slots.len() };
                extract.away.push((number, count as u16));
                continue;
            }
            for (which, &slot) in extract.slots.iter().enumerate() {
                let which = which as u16;
                if scope == Scope::User && which > 0 {
                    break;
                }
                let mut bytes = Vec::new();
                function.instance.export(slot, now, &mut bytes);
                extract.contexts.push((number, which, bytes));
                for time in self.queues.take_timers(number, slot) {
                    extract.timers.push((number, which, time.saturating_sub(now)));
                }
                while let Some(packet) = self.queues.take(number, slot) {
                    extract.kept.push((number, which, packet));
                }
            }
        }
        for (which, &slot) in extract.slots.iter().enumerate() {
            self.idle.settle(slot);
            while let Some(packet) = self.queues.take(WAITING, slot) {
                extract.kept.push((WAITING, which as u16, packet));
            }
        }
        self.counters.moved_out.add(extract.kept.len() as u64);
        self.answer_transfer(Report::TakenOut(extract));
    }

    /// Gives a user contexts, timers and kept packets of another node.
    pub(crate) fn take_in(&mut self, mut intake: Box<Intake>) {
        let now = self.clock.now();
        if let (Some(record), Some(&user)) = (intake.record, intake.slots.first()) {
            self.classifier.set_record(user, record);
        }
        self.refresh(&intake);
        let functions = self.element.functions_mut();
        for (function, slot, bytes) in &intake.contexts {
            let Some(at) = functions.get_mut(usize::from(*function)) else { continue };
            if let Err(error) = at.instance.import(*slot, now, bytes) {
                intake.refused = Some((*function, error));
                break;
            }
        }
        self.counters.moved_in.add(intake.kept.len() as u64);
        if intake.refused.is_some() {
            self.refresh(&intake);
            self.counters.dropped(DropReason::UserRemoved, intake.kept.len());
            intake.kept.clear();
        } else {
            for (function, slot, left) in intake.timers.drain(..) {
                self.queues.wake_at(now.saturating_add(left), function, slot);
            }
            for (function, slot, mut packet) in intake.kept.drain(..) {
                if !is_sound(&mut packet) {
                    self.counters.dropped(DropReason::TransportMalformed, 1);
                } else if function == WAITING {
                    self.wait_again(slot, packet);
                } else if !self.queues.restore(function, slot, packet) {
                    self.counters.dropped(DropReason::KeptFull, 1);
                }
            }
            // What has waited goes on where its bearer does.
            for &slot in &intake.slots {
                self.act(slot, self.classifier.action_of(slot));
            }
        }
        self.answer_transfer(Report::TakenIn(intake));
    }

    /// Gives a user fresh contexts with their settings, but for the function whose
    /// contexts stay; what is kept for it is dropped.
    fn refresh(&mut self, intake: &Intake) {
        for &slot in &intake.slots {
            self.release_contexts(slot, |number, scope| {
                scope != Scope::Group && !intake.stay.contains(&number)
            });
            self.forget_waiting(slot);
        }
        intake.settings.iter().for_each(|configure| self.configure_one(configure));
    }

    /// Reports; what finds no room is reported with the next round.
    pub(crate) fn answer_transfer(&mut self, report: Report) {
        if let Err(report) = self.departure.report(report) {
            self.state.unreported.push_back(report);
        }
        self.waker.wake();
    }

    /// Reports what found no room.
    #[cold]
    pub(crate) fn report_again(&mut self) {
        while let Some(report) = self.state.unreported.pop_front() {
            if let Err(report) = self.departure.report(report) {
                return self.state.unreported.push_front(report);
            }
        }
    }
}
