//! What workers are asked about sessions, and what is told of it.

use weft_compose::SlotShift;
use weft_dataplane::command::UserChange;
use weft_functions::session::rules::Apply;
use weft_functions::session::usage::{Answer, Question, USAGE, Usage, waiting_rule};

use super::books::{Batch, UNTOLD};
use super::{SessionEntry, SessionEvent, SessionFunctions, SessionId, Sessions};
use crate::subscribers::Changes;
use crate::workers::Workers;

/// Sessions that workers are asked about at once.
const QUESTIONS: usize = 4096;

const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;

/// What a batch of commands comes to.
pub(crate) struct StagedSessions {
    pub changes: Changes,
    batch: Batch,
    shift: SlotShift,
}

impl StagedSessions {
    /// Nothing yet; a control plane waits for it if it `is_command`.
    pub fn of(workers: &Workers, is_command: bool) -> StagedSessions {
        let changes = (0..workers.count()).map(|_| Vec::new()).collect();
        let asked = vec![Vec::new(); workers.count()];
        let batch = Batch { asked, is_command, ..Batch::default() };
        StagedSessions { changes, batch, shift: workers.shift() }
    }

    /// Asks the worker of a session.
    pub fn ask(
        &mut self,
        functions: &SessionFunctions,
        (id, slot): (SessionId, u32),
        question: Question,
    ) {
        let owner = self.shift.worker(slot);
        for function in &functions.detection {
            let question = question.to_bytes().into_boxed_slice();
            self.changes[owner].push(UserChange::Ask {
                function: *function,
                slot,
                question,
                answer: Vec::new(),
            });
            self.batch.asked[owner].push(id);
        }
    }
}

impl Sessions {
    /// Tells the workers; the number of the batch.
    pub fn commit(&mut self, staged: StagedSessions, workers: &mut Workers) -> u64 {
        let StagedSessions { changes, mut batch, .. } = staged;
        let number = self.next_batch;
        self.next_batch += 1;
        for id in batch.asked.iter().flatten() {
            self.asking += 1;
            if let Some(entry) = self.entries.get_mut(id) {
                entry.questions += 1;
            }
        }
        batch.left = changes.iter().filter(|changes| !changes.is_empty()).count();
        if batch.left == 0 {
            if batch.is_command {
                self.tell_applied(number, Vec::new());
            }
            return number;
        }
        self.batches.insert(number, batch);
        for (worker, mut changes) in changes.into_iter().enumerate() {
            if !changes.is_empty() {
                changes.push(UserChange::Batch(number));
                workers.change_users(worker, changes);
            }
        }
        number
    }

    /// The time of inactivity begins.
    pub fn start_inactivity(&mut self, id: SessionId, entry: &mut SessionEntry, now: u64) {
        entry.since = now.cast_signed();
        if let Some(seconds) = entry.rules.inactivity {
            let time = now.saturating_add(u64::from(seconds) * SECOND);
            self.schedule(id, entry, time);
        }
    }

    /// The time of inactivity begins for all sessions, of which nothing is to be done yet.
    pub fn start_all_inactivity(&mut self, now: u64) {
        let mut entries = std::mem::take(&mut self.entries);
        for (id, entry) in &mut entries {
            entry.next = u64::MAX;
            self.start_inactivity(*id, entry, now);
        }
        self.entries = entries;
    }

    /// A worker has made the changes of a batch.
    pub fn take_answers(&mut self, worker: usize, changes: &mut [UserChange], now: u64) {
        let Some(UserChange::Batch(number)) = changes.last() else { return };
        let number = *number;
        let Some(mut batch) = self.batches.remove(&number) else { return };
        let asked = std::mem::take(&mut batch.asked[worker]);
        self.asking -= asked.len();
        let answers = changes.iter_mut().filter_map(|change| match change {
            UserChange::Ask { answer, .. } => Some(std::mem::take(answer)),
            _ => None,
        });
        for (id, answer) in asked.into_iter().zip(answers) {
            self.take_answer(id, &answer, &mut batch, now);
        }
        batch.left -= 1;
        if batch.left > 0 {
            self.batches.insert(number, batch);
        } else if batch.is_command {
            self.tell_applied(number, batch.usage);
        }
    }

    fn tell_applied(&mut self, batch: u64, usage: Vec<(SessionId, Vec<Usage>)>) {
        self.told += u64::from(!usage.is_empty());
        for (id, _) in &usage {
            if let Some(entry) = self.entries.get_mut(id) {
                entry.usage = self.told;
            }
        }
        self.listeners.tell(&SessionEvent::Applied { batch, usage, told: self.told });
    }

    fn take_answer(&mut self, id: SessionId, answer: &[u8], batch: &mut Batch, now: u64) {
        let Ok(answer) = Answer::read(answer) else { return };
        let Answer { usage, next, last_packet } = answer;
        let mut is_idle = false;
        if let Some(mut entry) = self.entries.remove(&id) {
            entry.asked &= batch.is_command;
            entry.questions = entry.questions.saturating_sub(1);
            if !usage.is_empty() {
                self.told += u64::from(!batch.is_command);
                entry.usage = if batch.is_command { UNTOLD } else { self.told };
            }
            if let Some(seconds) = entry.rules.inactivity {
                let idle_at = last_packet.unwrap_or(now.cast_signed()).max(entry.since);
                let idle_at = idle_at.saturating_add_unsigned(u64::from(seconds) * SECOND);
                let idle_at = idle_at.max(0).cast_unsigned();
                is_idle = idle_at <= now && !entry.idle;
                entry.idle = idle_at <= now;
                // Inactive ones are looked at again as seldom.
                let again =
                    if entry.idle { now + u64::from(seconds.max(1)) * SECOND } else { idle_at };
                self.schedule(id, &mut entry, again);
            }
            if let Some(next) = next {
                self.schedule(id, &mut entry, next.max(now + MILLISECOND));
            }
            self.entries.insert(id, entry);
        }
        if is_idle {
            self.listeners.tell(&SessionEvent::Inactive { session: id });
        }
        if usage.is_empty() {
            return;
        }
        if !batch.is_command {
            let event = SessionEvent::Usage { session: id, usage, told: self.told };
            return self.listeners.tell(&event);
        }
        match batch.usage.last_mut().filter(|(last, _)| *last == id) {
            Some((_, all)) => all.extend(usage),
            None => batch.usage.push((id, usage)),
        }
    }

    /// A function has something to tell of the user at `slot`.
    pub fn hear(&mut self, function: u16, slot: u32, code: u32, now: u64) {
        if !self.functions.detection.contains(&function) {
            return;
        }
        let Some(id) = self.at(slot) else { return };
        let Some(entry) = self.entries.get_mut(&id) else { return };
        if code == USAGE {
            if !std::mem::replace(&mut entry.asked, true) {
                self.due.push(id);
            }
            return;
        }
        let Some(pdr) = waiting_rule(code) else { return };
        if std::mem::replace(&mut entry.told, true) {
            return;
        }
        let rules = &entry.rules;
        let far = rules.pdrs.iter().find(|rule| rule.id == pdr).and_then(|rule| rule.far);
        let far = far.and_then(|id| rules.fars.iter().find(|far| far.id == id));
        // The session may not be idle any more.
        let Some(far) = far.filter(|far| far.action == Apply::Notify) else { return };
        let bar = far.bar.and_then(|id| rules.bars.iter().find(|bar| bar.id == id));
        match bar.map_or(0, |bar| bar.delay) {
            0 if self.may_tell() => {
                self.listeners.tell(&SessionEvent::DownlinkData { session: id, pdr })
            }
            delay => {
                let time = now.saturating_add(u64::from(delay) * MILLISECOND);
                self.timers.tell_at(time, id, pdr);
            }
        }
    }

    /// Asks workers what is due, and tells what has waited. Returns whether there was
    /// anything.
    pub fn look_after(&mut self, workers: &mut Workers, now: u64) -> bool {
        if self.entries.is_empty() {
            return false;
        }
        self.listeners.flush();
        // Usage that is told to nothing would be lost.
        if !self.may_tell() {
            return false;
        }
        let mut busy = false;
        while let Some((session, pdr)) = self.timers.waiting(now) {
            if self.entries.get(&session).is_some_and(|entry| entry.told) {
                self.listeners.tell(&SessionEvent::DownlinkData { session, pdr });
                busy = true;
            }
        }
        if self.listeners.is_behind() || self.asking >= QUESTIONS {
            return busy;
        }
        let room = QUESTIONS - self.asking;
        while self.due.len() < room
            && let Some((time, id)) = self.timers.due(now)
        {
            let entry = self.entries.get_mut(&id).filter(|entry| entry.next == time);
            let Some(entry) = entry else { continue };
            entry.next = u64::MAX;
            if !std::mem::replace(&mut entry.asked, true) {
                self.due.push(id);
            }
        }
        if self.due.is_empty() {
            return busy;
        }
        let due: Vec<_> = self.due.drain(..room.min(self.due.len())).collect();
        let functions = self.functions.clone();
        let mut staged = StagedSessions::of(workers, false);
        for id in due {
            if let Some(entry) = self.entries.get(&id) {
                staged.ask(&functions, (id, entry.slot), Question::Due);
            }
        }
        self.commit(staged, workers);
        true
    }
}
