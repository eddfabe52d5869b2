//! PFCP sessions that outlive the node. The control protocol says what is kept and when, as it
//! answers for it; here it is written, and made again when the node starts.

use std::sync::Arc;

use weft_dataplane::command::UserChange;
use weft_dataplane::worker::Worker;
use weft_functions::session::rules::{Session, UrrId};
use weft_functions::session::usage::Question;
use weft_state::{Change, Done, Kind, StateError, Store};

use crate::agent::Agent;
use crate::bearer::session::{
    Keep, Kept, KeptSession, SessionError, SessionId, VERSION, has_timers,
};
use crate::subscribers::Whose;

/// Sessions, by their numbers.
const SESSIONS: Kind = Kind(64);
/// Numbers of the next reports of rules, by session and rule.
const REPORTED: Kind = Kind(65);
/// Notes of the control protocol, by keys of its own.
const NOTES: Kind = Kind(66);

impl Agent {
    /// Keeps something of sessions; `done` is called once that is durable, and at once where
    /// nothing is kept.
    pub fn keep(&mut self, keep: Vec<Keep>, done: Done) {
        let Some(state) = &mut self.state else { return done(Ok(())) };
        for one in keep {
            let change = match one {
                Keep::Session(id, octets) => {
                    Change::put(SESSIONS, &id.0.to_be_bytes(), VERSION, &octets)
                }
                Keep::Gone(id) => {
                    state.checkpoints.went(&Whose::Session(id), &mut state.changes);
                    Change::remove(SESSIONS, &id.0.to_be_bytes())
                }
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
            };
            state.changes.push(change);
        }
        state.done.push(done);
    }

    /// What was kept in the node's last life, for the one that asks first.
    pub fn kept(&mut self) -> Kept {
        let kept = std::mem::take(&mut self.subscribers.sessions.kept);
        Kept { keeps: self.state.is_some(), ..kept }
    }

    /// A session has come to this slot: its contexts are kept from now on.
    pub(in crate::agent) fn keep_contexts_of_session(&mut self, id: SessionId, slot: u32) {
        if let Some(state) = &mut self.state {
            state.checkpoints.came(Whose::Session(id), slot);
        }
    }

    /// Makes the sessions of the last life again. Those that the configuration cannot have any
    /// more are left for the control protocol to give up. How many there are.
    ///
    /// # Errors
    /// [`StateError`].
    pub(super) fn restore_sessions(
        &mut self,
        workers: &mut [Worker],
        store: &Store,
    ) -> Result<u64, StateError> {
        let mut kept = Kept::default();
        store.each(NOTES, |key, _, octets| {
            kept.notes.push((key.to_vec(), octets.to_vec()));
            Ok(())
        })?;
        if self.blueprint.pfcp.is_none() {
            return Ok(0);
        }
        let (mut count, mut lost) = (0, 0_u64);
        store.each(SESSIONS, |key, version, octets| {
            let id = key.try_into().map_err(|_| "a session without a number")?;
            let id = SessionId(u64::from_be_bytes(id));
            let read = KeptSession::read(id, version, octets);
            let (like, session) = read.ok_or_else(|| format!("session {id}: {UNREAD}"))?;
            let made = self.make_again(workers, id, &like, &session.rules);
            match &made {
                Ok(()) => count += 1,
                Err(error) => {
                    lost += 1;
                    if lost == 1 {
                        tracing::error!(session = %id, "cannot be had any more: {error}");
                    }
                }
            }
            kept.sessions.push(KeptSession { is_there: made.is_ok(), ..session });
            Ok(())
        })?;
        if lost > 0 {
            tracing::error!(
                sessions = lost,
                "given up, as the configuration cannot have them any more"
            );
        }
        self.subscribers.sessions.kept = kept;
        Ok(count)
    }

    fn make_again(
        &mut self,
        workers: &mut [Worker],
        id: SessionId,
        like: &Arc<str>,
        rules: &Arc<Session>,
    ) -> Result<(), SessionError> {
        let mut staged = self.stage_sessions(false);
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
        let now = self.clock.now();
        let sessions = &mut self.subscribers.sessions;
        for (id, entry) in &mut sessions.entries {
            if has_timers(&entry.rules) {
                entry.next = now;
                sessions.timers.ask_at(now, *id);
            }
        }
        Ok(())
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

fn reported_key(session: SessionId, urr: UrrId) -> Vec<u8> {
    let mut key = session.0.to_be_bytes().to_vec();
    key.extend(urr.0.to_be_bytes());
    key
}
