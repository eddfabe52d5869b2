//! What the agent does about PFCP sessions: applies commands, asks workers what is due, tells
//! of it.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use weft_dataplane::classify::UserRecord;
use weft_dataplane::command::{Configure, UserChange};
use weft_dataplane::gates::tunnel::FIRST_TEID;
use weft_functions::session::rules::{Apply, FarId, Session, Urr};
use weft_functions::session::usage::{Answer, Question, USAGE, waiting_rule};
use weft_node_config::UserKey;

use super::Agent;
use crate::bearer::session::{
    Batch, Query, SessionCommand, SessionEntry, SessionError, SessionEvent, SessionFunctions,
    SessionId, SessionsChanged, has_timers,
};
use crate::bearer::{MOST_WAITING, key_text};
use crate::subscribers::Changes;

/// Sessions that workers are asked about at once.
const QUESTIONS: usize = 4096;

const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;

/// What a batch of commands comes to.
pub(super) struct Staged {
    pub(super) changes: Changes,
    batch: Batch,
}

impl Agent {
    /// Changes sessions, each command whole or not at all.
    pub fn change_sessions(&mut self, commands: &[SessionCommand]) -> SessionsChanged {
        let mut staged = self.stage_sessions(true);
        let results = commands.iter().map(|command| self.apply_session(command, &mut staged));
        let results = results.collect();
        let batch = self.commit_sessions(staged);
        SessionsChanged { batch, results }
    }

    /// What the node tells of sessions from now on, until the receiver is dropped.
    pub fn listen_to_sessions(&mut self) -> Receiver<SessionEvent> {
        self.subscribers.sessions.listeners.add()
    }

    pub(super) fn stage_sessions(&self, is_command: bool) -> Staged {
        let workers = self.workers.count();
        let changes = (0..workers).map(|_| Vec::new()).collect();
        let asked = vec![Vec::new(); workers];
        Staged { changes, batch: Batch { asked, is_command, ..Batch::default() } }
    }

    /// Tells the workers; the number of the batch.
    fn commit_sessions(&mut self, staged: Staged) -> u64 {
        let Staged { changes, mut batch } = staged;
        let sessions = &mut self.subscribers.sessions;
        let number = sessions.next_batch;
        sessions.next_batch += 1;
        sessions.asking += batch.asked.iter().map(Vec::len).sum::<usize>();
        batch.left = changes.iter().filter(|changes| !changes.is_empty()).count();
        if batch.left == 0 {
            if batch.is_command {
                let event = SessionEvent::Applied { batch: number, usage: Vec::new() };
                sessions.listeners.tell(&event);
            }
            return number;
        }
        sessions.batches.insert(number, batch);
        for (worker, mut changes) in changes.into_iter().enumerate() {
            if !changes.is_empty() {
                changes.push(UserChange::Batch(number));
                self.workers.change_users(worker, changes);
            }
        }
        number
    }

    fn apply_session(
        &mut self,
        command: &SessionCommand,
        staged: &mut Staged,
    ) -> Result<(), SessionError> {
        if self.is_given_away() {
            return Err(SessionError::Busy);
        }
        if self.workers.waiting() + staged.changes.iter().map(Vec::len).sum::<usize>()
            >= MOST_WAITING
        {
            return Err(SessionError::Busy);
        }
        match command {
            SessionCommand::Establish { id, like, rules } => {
                self.establish(*id, like, rules, staged)
            }
            SessionCommand::Modify { id, rules, end_markers, query, drop_waiting } => {
                self.modify(*id, rules, (end_markers, query, *drop_waiting), staged)
            }
            SessionCommand::Remove { id } => self.remove_session(*id, staged),
        }
    }

    pub(super) fn establish(
        &mut self,
        id: SessionId,
        like: &Arc<str>,
        rules: &Arc<Session>,
        staged: &mut Staged,
    ) -> Result<(), SessionError> {
        let sessions = &self.subscribers.sessions;
        if sessions.entries.contains_key(&id) {
            return Err(SessionError::Exists(id));
        }
        let users = &self.subscribers.users;
        let template = users.template(like).ok_or_else(|| SessionError::NoPlan(like.clone()))?;
        let record = template.record;
        let functions = sessions.functions.clone();
        let is_of_session = |number: u16| functions.all().any(|one| one == number);
        let of_plan: Vec<_> = template
            .settings
            .iter()
            .filter(|(number, _)| !is_of_session(*number as u16))
            .cloned()
            .collect();
        let mut entry = SessionEntry::new(0, like.clone(), rules.clone());
        self.check_session(&entry, &functions)?;
        let keys = sessions.keys(rules);
        if keys.is_empty() {
            return Err(SessionError::NoKey);
        }
        self.check_session_keys(&keys)?;
        let slot = self.subscribers.users.take(record.group).map_err(|_| SessionError::NoRoom)?;
        entry.slot = slot;
        for key in &keys {
            // There is room: it was counted.
            let _ = self.subscribers.bearers.taken.insert(key, slot);
        }
        let own = &mut staged.changes[self.workers.owner(slot)];
        own.push(UserChange::Record(slot, UserRecord { present: true, ..record }));
        own.extend(of_plan.into_iter().map(|(number, settings)| {
            UserChange::Configure(Configure { function: number as u16, slot, settings, nth: 0 })
        }));
        own.extend(functions.all().map(|number| UserChange::Configure(entry.configure(number))));
        if has_timers(rules) {
            self.ask(&functions, (id, slot), Question::Due, staged);
        }
        self.start_inactivity(id, &mut entry);
        for key in &keys {
            staged.changes.iter_mut().for_each(|list| list.push(UserChange::Key(*key, slot)));
        }
        self.enter_session(id, entry);
        self.keep_contexts_of_session(id, slot);
        Ok(())
    }

    fn modify(
        &mut self,
        id: SessionId,
        rules: &Arc<Session>,
        (end_markers, query, drop_waiting): (&[FarId], &Query, bool),
        staged: &mut Staged,
    ) -> Result<(), SessionError> {
        let sessions = &self.subscribers.sessions;
        let before = sessions.entries.get(&id).ok_or(SessionError::Unknown(id))?.clone();
        let functions = sessions.functions.clone();
        let mut after = SessionEntry::new(before.slot, before.like.clone(), rules.clone());
        self.check_session(&after, &functions)?;
        let (old, new) = (sessions.keys(&before.rules), sessions.keys(rules));
        if new.is_empty() {
            return Err(SessionError::NoKey);
        }
        let come: Vec<_> = new.iter().filter(|key| !old.contains(key)).copied().collect();
        let gone: Vec<_> = old.iter().filter(|key| !new.contains(key)).copied().collect();
        self.check_session_keys(&come)?;
        let slot = before.slot;
        match query {
            Query::None => {}
            Query::Of(rules) => {
                self.ask(&functions, (id, slot), Question::Of(rules.clone()), staged);
            }
            Query::All => self.ask(&functions, (id, slot), Question::All, staged),
        }
        let is_gone = |old: &&Urr| rules.urrs.iter().all(|rule| !rule.is(old));
        let last: Vec<_> = before.rules.urrs.iter().filter(is_gone).map(|rule| rule.id).collect();
        if !last.is_empty() {
            self.ask(&functions, (id, slot), Question::Last(last), staged);
        }
        let own = &mut staged.changes[self.workers.owner(slot)];
        if !end_markers.is_empty() {
            let mut marked = Session { fars: rules.fars.clone(), ..Session::default() };
            marked.fars.iter_mut().for_each(|far| far.end_marker = end_markers.contains(&far.id));
            let marked = SessionEntry::new(slot, before.like.clone(), Arc::new(marked));
            own.extend(functions.forwarding.iter().map(|number| UserChange::EndTunnels {
                user: slot,
                next: marked.configure(*number),
            }));
        }
        if drop_waiting {
            let detection = functions.detection.iter();
            own.extend(detection.map(|function| UserChange::Forget { function: *function, slot }));
        }
        own.extend(functions.all().map(|number| UserChange::Configure(after.configure(number))));
        if has_timers(rules) {
            self.ask(&functions, (id, slot), Question::Due, staged);
        }
        for key in &gone {
            self.subscribers.bearers.taken.remove(key);
            staged.changes.iter_mut().for_each(|list| list.push(UserChange::Unkey(*key)));
        }
        for key in &come {
            // There is room: it was counted.
            let _ = self.subscribers.bearers.taken.insert(key, slot);
            staged.changes.iter_mut().for_each(|list| list.push(UserChange::Key(*key, slot)));
        }
        after.asked = before.asked;
        self.start_inactivity(id, &mut after);
        self.leave_session(id);
        self.enter_session(id, after);
        Ok(())
    }

    fn remove_session(&mut self, id: SessionId, staged: &mut Staged) -> Result<(), SessionError> {
        let sessions = &self.subscribers.sessions;
        let entry = sessions.entries.get(&id).ok_or(SessionError::Unknown(id))?;
        let (slot, keys) = (entry.slot, sessions.keys(&entry.rules));
        let functions = sessions.functions.clone();
        if !entry.rules.urrs.is_empty() {
            self.ask(&functions, (id, slot), Question::End, staged);
        }
        for key in &keys {
            self.subscribers.bearers.taken.remove(key);
            staged.changes.iter_mut().for_each(|list| list.push(UserChange::Unkey(*key)));
        }
        let own = &mut staged.changes[self.workers.owner(slot)];
        own.push(UserChange::Remove { user: slot, contexts: vec![slot] });
        self.leave_session(id);
        self.subscribers.users.give_back(slot);
        Ok(())
    }

    /// Puts a session into the record.
    fn enter_session(&mut self, id: SessionId, entry: SessionEntry) {
        let now = self.clock.now();
        let sessions = &mut self.subscribers.sessions;
        let ends = entry.tunnels(&sessions.functions, &self.trials);
        sessions.tunnels.enter(id, ends, &mut self.gtpu_peers.paths, now);
        sessions.by_slot.insert(entry.slot, id);
        sessions.entries.insert(id, entry);
    }

    /// Takes it out.
    fn leave_session(&mut self, id: SessionId) {
        let sessions = &mut self.subscribers.sessions;
        let Some(entry) = sessions.entries.remove(&id) else { return };
        let ends = entry.tunnels(&sessions.functions, &self.trials);
        sessions.tunnels.leave(id, ends, &mut self.gtpu_peers.paths);
        sessions.by_slot.remove(&entry.slot);
    }

    /// Whether functions take the rules of a session, and its tunnels begin at the node.
    fn check_session(
        &self,
        entry: &SessionEntry,
        functions: &SessionFunctions,
    ) -> Result<(), SessionError> {
        let detection = functions.detection.first().ok_or(SessionError::NoFunction)?;
        let instance = self.trials.instance(usize::from(*detection));
        instance
            .check(&entry.settings, 1)
            .map_err(|error| SessionError::Rule { path: error.path, message: error.message })?;
        for end in entry.tunnels(functions, &self.trials) {
            if self.ports.with_address(end.local).is_none() {
                let message = format!("no port has the address {}", end.local);
                return Err(SessionError::Rule { path: "fars".to_owned(), message });
            }
        }
        Ok(())
    }

    /// Whether all `keys` are free and have room.
    fn check_session_keys(&self, keys: &[UserKey]) -> Result<(), SessionError> {
        let taken = &self.subscribers.bearers.taken;
        for key in keys {
            if taken.get(key).is_some() {
                return Err(SessionError::KeyTaken(key_text(key)));
            }
            if let UserKey::Teid { first, .. } = *key
                && self.blueprint.handover.is_some()
                && first >= FIRST_TEID
            {
                return Err(SessionError::KeyTaken(key_text(key)));
            }
        }
        if taken.has_room_for(keys) { Ok(()) } else { Err(SessionError::NoRoom) }
    }

    /// The time of inactivity begins.
    fn start_inactivity(&mut self, id: SessionId, entry: &mut SessionEntry) {
        entry.since = self.clock.now();
        if let Some(seconds) = entry.rules.inactivity {
            let time = entry.since.saturating_add(u64::from(seconds) * SECOND);
            self.subscribers.sessions.schedule(id, entry, time);
        }
    }

    /// Asks the worker of a session.
    fn ask(
        &self,
        functions: &SessionFunctions,
        (id, slot): (SessionId, u32),
        question: Question,
        staged: &mut Staged,
    ) {
        let owner = self.workers.owner(slot);
        for function in &functions.detection {
            let question = question.to_bytes().into_boxed_slice();
            staged.changes[owner].push(UserChange::Ask {
                function: *function,
                slot,
                question,
                answer: Vec::new(),
            });
            staged.batch.asked[owner].push(id);
        }
    }

    /// A worker has made the changes of a batch.
    pub(super) fn take_answers(&mut self, worker: usize, changes: &mut [UserChange]) {
        let Some(UserChange::Batch(number)) = changes.last() else { return };
        let number = *number;
        let Some(mut batch) = self.subscribers.sessions.batches.remove(&number) else { return };
        let asked = std::mem::take(&mut batch.asked[worker]);
        self.subscribers.sessions.asking -= asked.len();
        let answers = changes.iter_mut().filter_map(|change| match change {
            UserChange::Ask { answer, .. } => Some(std::mem::take(answer)),
            _ => None,
        });
        for (id, answer) in asked.into_iter().zip(answers) {
            self.take_answer(id, &answer, &mut batch);
        }
        batch.left -= 1;
        if batch.left > 0 {
            self.subscribers.sessions.batches.insert(number, batch);
        } else if batch.is_command {
            let event = SessionEvent::Applied { batch: number, usage: batch.usage };
            self.subscribers.sessions.listeners.tell(&event);
        }
    }

    fn take_answer(&mut self, id: SessionId, answer: &[u8], batch: &mut Batch) {
        let now = self.clock.now();
        let Ok(answer) = Answer::read(answer) else { return };
        let Answer { usage, next, last_packet } = answer;
        let sessions = &mut self.subscribers.sessions;
        let mut is_idle = false;
        if let Some(mut entry) = sessions.entries.remove(&id) {
            entry.asked &= batch.is_command;
            if let Some(seconds) = entry.rules.inactivity {
                let idle_at = last_packet.unwrap_or(entry.since).max(entry.since);
                let idle_at = idle_at.saturating_add(u64::from(seconds) * SECOND);
                is_idle = idle_at <= now && !entry.idle;
                entry.idle = idle_at <= now;
                // Inactive ones are looked at again as seldom.
                let again =
                    if entry.idle { now + u64::from(seconds.max(1)) * SECOND } else { idle_at };
                sessions.schedule(id, &mut entry, again);
            }
            if let Some(next) = next {
                sessions.schedule(id, &mut entry, next.max(now + MILLISECOND));
            }
            sessions.entries.insert(id, entry);
        }
        if is_idle {
            sessions.listeners.tell(&SessionEvent::Inactive { session: id });
        }
        if usage.is_empty() {
            return;
        }
        if !batch.is_command {
            return sessions.listeners.tell(&SessionEvent::Usage { session: id, usage });
        }
        match batch.usage.last_mut().filter(|(last, _)| *last == id) {
            Some((_, all)) => all.extend(usage),
            None => batch.usage.push((id, usage)),
        }
    }

    /// A function has something to tell of the user at `slot`.
    pub(super) fn hear_function(&mut self, function: &str, slot: u32, code: u32) {
        let sessions = &mut self.subscribers.sessions;
        let number = self.functions.number(function);
        if !number.is_some_and(|number| sessions.functions.detection.contains(&(number as u16))) {
            return;
        }
        let Some(id) = sessions.at(slot) else { return };
        let Some(entry) = sessions.entries.get_mut(&id) else { return };
        if code == USAGE {
            if !std::mem::replace(&mut entry.asked, true) {
                sessions.due.push(id);
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
            0 if sessions.may_tell() => {
                sessions.listeners.tell(&SessionEvent::DownlinkData { session: id, pdr })
            }
            delay => {
                let time = self.clock.now().saturating_add(u64::from(delay) * MILLISECOND);
                sessions.timers.tell_at(time, id, pdr);
            }
        }
    }

    /// Asks workers what is due, and tells what has waited. Returns whether there was
    /// anything.
    pub(super) fn look_after_sessions(&mut self) -> bool {
        let now = self.clock.now();
        let sessions = &mut self.subscribers.sessions;
        if sessions.entries.is_empty() {
            return false;
        }
        sessions.listeners.flush();
        // Usage that is told to nothing would be lost.
        if !sessions.may_tell() {
            return false;
        }
        let mut busy = false;
        while let Some((session, pdr)) = sessions.timers.waiting(now) {
            if sessions.entries.get(&session).is_some_and(|entry| entry.told) {
                sessions.listeners.tell(&SessionEvent::DownlinkData { session, pdr });
                busy = true;
            }
        }
        if sessions.listeners.is_behind() || sessions.asking >= QUESTIONS {
            return busy;
        }
        let room = QUESTIONS - sessions.asking;
        while sessions.due.len() < room
            && let Some((time, id)) = sessions.timers.due(now)
        {
            let entry = sessions.entries.get_mut(&id).filter(|entry| entry.next == time);
            let Some(entry) = entry else { continue };
            entry.next = u64::MAX;
            if !std::mem::replace(&mut entry.asked, true) {
                sessions.due.push(id);
            }
        }
        if sessions.due.is_empty() {
            return busy;
        }
        let due: Vec<_> = sessions.due.drain(..room.min(sessions.due.len())).collect();
        let functions = sessions.functions.clone();
        let mut staged = self.stage_sessions(false);
        for id in due {
            if let Some(entry) = self.subscribers.sessions.entries.get(&id) {
                self.ask(&functions, (id, entry.slot), Question::Due, &mut staged);
            }
        }
        self.commit_sessions(staged);
        true
    }
}
