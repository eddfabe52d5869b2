//! PFCP sessions that outlive the node. The control protocol says what is kept and when, as it
//! answers for it; here it is written, and made again when the node starts.

use std::sync::Arc;

use weft_dataplane::command::UserChange;
use weft_dataplane::worker::Worker;
use weft_functions::session::rules::{Session, UrrId};
use weft_functions::session::usage::Question;
use weft_node_config::Blueprint;
use weft_state::{Change, Done, Kind, Records, StateError, Store};

use super::Persistence;
use crate::agent::Agent;
use crate::bearer::session::{
    Keep, Kept, KeptSession, SessionEntry, SessionError, SessionId, StagedSessions, VERSION,
    has_timers,
};
use crate::subscribers::Whose;

/// Sessions, by their numbers.
pub(super) const SESSIONS: Kind = Kind(64);
/// Numbers of the next reports of rules, by session and rule.
pub(super) const REPORTED: Kind = Kind(65);
/// Notes of the control protocol, by keys of its own.
pub(super) const NOTES: Kind = Kind(66);

impl Persistence {
    /// Keeps something of sessions; `done` is called once that is durable, and at once where
    /// nothing is kept.
    pub fn keep(&mut self, keep: Vec<Keep>, done: Done, blueprint: &Blueprint) {
        if self.keeps() {
            let mut changes = Vec::with_capacity(keep.len());
            for one in keep {
                if let Keep::Gone(id) = one {
                    self.forget_contexts(&Whose::Session(id), &mut changes, blueprint);
                }
                changes.push(change_of(one));
            }
            self.keep_changes(changes);
        }
        self.when_durable(done);
    }
}

impl Agent {
    /// Makes the sessions of the last life again. Those that the configuration cannot have any
    /// more are left for the control protocol to give up. How many there are, and those.
    ///
    /// # Errors
    /// [`StateError`].
    pub(super) fn restore_sessions(
        &mut self,
        workers: &mut [Worker],
        records: &dyn Records,
    ) -> Result<(u64, Vec<(SessionId, SessionError)>), StateError> {
        let mut kept = Kept::default();
        records.each_of(NOTES, &mut |key, _, octets| {
            kept.notes.push((key.to_vec(), octets.to_vec()));
            Ok(())
        })?;
        if self.blueprint.pfcp.is_none() {
            return Ok((0, Vec::new()));
        }
        let (mut count, mut lost) = (0, Vec::new());
        records.each_of(SESSIONS, &mut |key, version, octets| {
            let id = key.try_into().map_err(|_| "a session without a number")?;
            let id = SessionId(u64::from_be_bytes(id));
            let read = KeptSession::read(id, version, octets);
            let (like, session) = read.ok_or_else(|| format!("session {id}: {UNREAD}"))?;
            let made = self.make_again(workers, id, &like, &session.rules);
            kept.sessions.push(KeptSession { is_there: made.is_ok(), ..session });
            match made {
                Ok(()) => count += 1,
                Err(error) => lost.push((id, error)),
            }
            Ok(())
        })?;
        self.subscribers.sessions.kept = kept;
        Ok((count, lost))
    }

    /// Says that sessions are given up, if any are.
    pub(super) fn tell_lost(lost: &[(SessionId, SessionError)]) {
        if let Some((session, error)) = lost.first() {
            tracing::error!(%session, "cannot be had any more: {error}");
            let sessions = lost.len();
            tracing::error!(sessions, "given up, as the configuration cannot have them any more");
        }
    }

    fn make_again(
        &mut self,
        workers: &mut [Worker],
        id: SessionId,
        like: &Arc<str>,
        rules: &Arc<Session>,
    ) -> Result<(), SessionError> {
        let mut staged = StagedSessions::of(&self.workers, false);
        self.establish(id, like, rules, &mut staged)?;
        for (worker, mut changes) in workers.iter_mut().zip(staged.changes) {
            // Nothing is due before contexts are there.
            changes.retain(|change| !matches!(change, UserChange::Ask { .. }));
            worker.begin_with(&mut changes);
        }
        Ok(())
    }

    /// Contexts are there: usage that was reported behind their checkpoints is not counted once
    /// more, and what may be due is asked for once the node runs.
    ///
    /// # Errors
    /// [`StateError`].
    pub(super) fn go_on_with_sessions(
        &mut self,
        workers: &mut [Worker],
        store: &Store,
    ) -> Result<(), StateError> {
        let mut of_session: (SessionId, Vec<(UrrId, u32)>) = (SessionId(0), Vec::new());
        store.each(REPORTED, |key, version, octets| {
            let (session, urr) = key.split_first_chunk().ok_or("a report of no session")?;
            let session = SessionId(u64::from_be_bytes(*session));
            let urr = urr.try_into().map_err(|_| "a report of no rule")?;
            let urr = UrrId(u32::from_be_bytes(urr));
            let (Some(created), Some(next), 1..=VERSION) =
                (octets.first_chunk(), octets.last_chunk(), version)
            else {
                return Err(format!("reports of session {session}: {UNREAD}"));
            };
            let (created, next) = (u32::from_le_bytes(*created), u32::from_le_bytes(*next));
            if of_session.0 != session {
                self.tell_reported(workers, &of_session);
                of_session = (session, Vec::new());
            }
            let entry = self.subscribers.sessions.entries.get(&session);
            let mut rules = entry.into_iter().flat_map(|entry| &entry.rules.urrs);
            if rules.any(|rule| rule.id == urr && rule.created == created) {
                of_session.1.push((urr, next));
            }
            Ok(())
        })?;
        self.tell_reported(workers, &of_session);
        self.ask_all_sessions(|entry| has_timers(&entry.rules));
        Ok(())
    }

    /// Asks those sessions what is due as soon as the node runs.
    fn ask_all_sessions(&mut self, wanted: impl Fn(&SessionEntry) -> bool) {
        let now = self.clock.now();
        let sessions = &mut self.subscribers.sessions;
        for (id, entry) in sessions.entries.iter_mut().filter(|(_, entry)| wanted(entry)) {
            entry.next = now;
            sessions.timers.ask_at(now, *id);
        }
    }

    /// Contexts of sessions are there as another process had them: what was due there, and not
    /// asked for any more, is asked for here.
    pub(crate) fn take_on_sessions(&mut self) {
        self.ask_all_sessions(|entry| !entry.rules.urrs.is_empty() || has_timers(&entry.rules));
    }

    fn tell_reported(
        &self,
        workers: &mut [Worker],
        (session, reported): &(SessionId, Vec<(UrrId, u32)>),
    ) {
        let sessions = &self.subscribers.sessions;
        let Some(entry) = sessions.entries.get(session).filter(|_| !reported.is_empty()) else {
            return;
        };
        let question = Question::Reported(reported.clone()).to_bytes().into_boxed_slice();
        let mut asked = sessions.functions.detection.iter().map(|function| UserChange::Ask {
            function: *function,
            slot: entry.slot,
            question: question.clone(),
            answer: Vec::new(),
        });
        let worker = &mut workers[self.workers.owner(entry.slot)];
        asked.by_ref().for_each(|change| worker.begin_with(&mut [change]));
    }
}

const UNREAD: &str = "the record is damaged, or of a newer release";

/// The record of what is to be kept.
pub(super) fn change_of(keep: Keep) -> Change {
    match keep {
        Keep::Session(id, octets) => Change::put(SESSIONS, &id.0.to_be_bytes(), VERSION, &octets),
        Keep::Gone(id) => Change::remove(SESSIONS, &id.0.to_be_bytes()),
        Keep::Reported { session, urr, next } => {
            let key = reported_key(session, urr);
            match next {
                Some((created, next)) => {
                    let octets = [created.to_le_bytes(), next.to_le_bytes()].concat();
                    Change::put(REPORTED, &key, VERSION, &octets)
                }
                None => Change::remove(REPORTED, &key),
            }
        }
        Keep::Note(key, Some(octets)) => Change::put(NOTES, &key, VERSION, &octets),
        Keep::Note(key, None) => Change::remove(NOTES, &key),
    }
}

fn reported_key(session: SessionId, urr: UrrId) -> Vec<u8> {
    let mut key = session.0.to_be_bytes().to_vec();
    key.extend(urr.0.to_be_bytes());
    key
}
