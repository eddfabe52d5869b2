//! PFCP sessions that are made again when the node starts.

use std::sync::Arc;

use weft_dataplane::command::UserChange;
use weft_functions::session::rules::{Session, UrrId};
use weft_functions::session::usage::{NextReport, Question};
use weft_state::{Records, StateError, Store};

use super::Restoration;
use crate::agent::state::{NOTES, REPORTED, SESSIONS, started};
use crate::bearer::session::{
    Kept, KeptSession, SessionEntry, SessionError, SessionId, StagedSessions, VERSION, may_be_due,
};

pub(super) const UNREAD: &str = "the record is damaged, or of a newer release";

impl Restoration<'_> {
    /// Makes the sessions of the last life again. Those that the configuration cannot have any
    /// more are left for the control protocol to give up. How many there are, and those.
    ///
    /// # Errors
    /// [`StateError`].
    pub(in crate::agent) fn restore_sessions(
        &mut self,
        records: &dyn Records,
    ) -> Result<(u64, Vec<(SessionId, SessionError)>), StateError> {
        let mut kept = Kept::default();
        records.each_of(NOTES, &mut |key, _, octets| {
            kept.notes.push((key.to_vec(), octets.to_vec()));
            Ok(())
        })?;
        if self.node.blueprint.pfcp.is_none() {
            return Ok((0, Vec::new()));
        }
        let (mut count, mut lost) = (0, Vec::new());
        records.each_of(SESSIONS, &mut |key, version, octets| {
            let id = key.try_into().map_err(|_| "a session without a number")?;
            let id = SessionId(u64::from_be_bytes(id));
            let read = KeptSession::read(id, version, octets);
            let (like, session) = read.ok_or_else(|| format!("session {id}: {UNREAD}"))?;
            let made = self.make_again(id, &like, &session.rules);
            kept.sessions.push(KeptSession { is_there: made.is_ok(), ..session });
            match made {
                Ok(()) => count += 1,
                Err(error) => lost.push((id, error)),
            }
            Ok(())
        })?;
        self.node.subscribers.sessions.kept = kept;
        Ok((count, lost))
    }

    pub(super) fn make_again(
        &mut self,
        id: SessionId,
        like: &Arc<str>,
        rules: &Arc<Session>,
    ) -> Result<(), SessionError> {
        let mut staged = StagedSessions::of(self.node.workers, false);
        self.node.establish(id, like, rules, &mut staged)?;
        for (worker, mut changes) in self.workers.iter_mut().zip(staged.changes) {
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
    pub(super) fn go_on_with_sessions(&mut self, store: &Store) -> Result<(), StateError> {
        let mut of_session: (SessionId, Vec<(UrrId, NextReport)>) = (SessionId(0), Vec::new());
        let started = started(self.node.clock);
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
            let (created, number) = (u32::from_le_bytes(*created), u32::from_le_bytes(*next));
            // Earlier releases have not noted the time.
            let end = octets.get(4..12).and_then(|time| time.try_into().ok());
            let since = end.filter(|_| octets.len() == 16).map(i64::from_le_bytes);
            let since = since.map(|since| since.saturating_sub(started));
            let next = NextReport { number, since };
            if of_session.0 != session {
                self.tell_reported(&of_session);
                of_session = (session, Vec::new());
            }
            let entry = self.node.subscribers.sessions.entries.get(&session);
            let mut rules = entry.into_iter().flat_map(|entry| &entry.rules.urrs);
            if rules.any(|rule| rule.id == urr && rule.created == created) {
                of_session.1.push((urr, next));
            }
            Ok(())
        })?;
        self.tell_reported(&of_session);
        self.ask_all_sessions(|entry| may_be_due(&entry.rules));
        Ok(())
    }

    /// Asks those sessions what is due as soon as the node runs.
    fn ask_all_sessions(&mut self, wanted: impl Fn(&SessionEntry) -> bool) {
        let now = self.node.clock.now();
        let sessions = &mut self.node.subscribers.sessions;
        for (id, entry) in sessions.entries.iter_mut().filter(|(_, entry)| wanted(entry)) {
            // Its context says when its last packet passed, or its rules came.
            (entry.since, entry.next) = (i64::MIN, now);
            sessions.timers.ask_at(now, *id);
        }
    }

    /// Contexts of sessions are there as another process had them: what was due there, and not
    /// asked for any more, is asked for here.
    pub fn take_on_sessions(&mut self) {
        self.ask_all_sessions(|entry| !entry.rules.urrs.is_empty() || may_be_due(&entry.rules));
    }

    fn tell_reported(&mut self, (session, reported): &(SessionId, Vec<(UrrId, NextReport)>)) {
        let sessions = &self.node.subscribers.sessions;
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
        let worker = &mut self.workers[self.node.workers.owner(entry.slot)];
        asked.by_ref().for_each(|change| worker.begin_with(&mut [change]));
    }
}

/// Says that sessions are given up, if any are.
pub(in crate::agent) fn tell_lost(lost: &[(SessionId, SessionError)]) {
    if let Some((session, error)) = lost.first() {
        tracing::error!(%session, "cannot be had any more: {error}");
        let sessions = lost.len();
        tracing::error!(sessions, "given up, as the configuration cannot have them any more");
    }
}
