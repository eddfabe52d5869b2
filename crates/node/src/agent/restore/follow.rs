//! A node that stands by: it has users, bearers and sessions as the records of another node say,
//! from change to change, and contexts of functions as they are checkpointed. Those that cannot be
//! taken one by one come from the store once the node owns the users, as after a restart.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weft_dataplane::command::UserChange;
use weft_state::{Change, Records, StateError, Store};

use super::ahead::Wanted;
use super::contexts::{Contexts, Record};
use super::{Restoration, UNREAD, tell_lost};
use crate::agent::state::{BEARERS, COMPOSITIONS, CONTEXTS, DEDICATED, NOTES, SESSIONS};
use crate::bearer::record::{self as bearer_record, Reading, Unreadable};
use crate::bearer::session::{Kept, KeptSession, SessionError, SessionId, StagedSessions};
use crate::bearer::{BearerCommand, BearerId, NewBearer};
use crate::error::BuildError;
use crate::subscribers::Whose;

/// What is known beside what the node has of bearers and sessions.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    sessions: BTreeMap<SessionId, KeptSession>,
    /// Sessions that the configuration cannot have, and why.
    lost: BTreeMap<SessionId, SessionError>,
    notes: BTreeMap<Vec<u8>, Vec<u8>>,
    contexts: Contexts,
}

/// A session that is to be made, with the `users` entry that it is like.
type Coming = (SessionId, (Arc<str>, KeptSession));

/// Whether changes are such that a node is built anew for them.
pub(crate) fn change_functions(changes: &[Change]) -> bool {
    changes.iter().any(|change| change.kind() == COMPOSITIONS)
}

impl Restoration<'_> {
    /// Takes users, bearers, sessions and contexts of `records`.
    ///
    /// # Errors
    /// As [`Self::restore`].
    pub fn begin_to_follow(
        &mut self,
        records: &(dyn Records + Sync),
    ) -> Result<Followed, BuildError> {
        self.restore_bearers(records)?;
        let (_, lost) = self.restore_sessions(records)?;
        let sessions = &mut self.node.subscribers.sessions;
        let Kept { sessions: kept, notes, .. } = std::mem::take(&mut sessions.kept);
        // Nothing is due before the node owns the users.
        sessions.timers.clear();
        let mut contexts = Contexts::default();
        self.restore_contexts(records, Wanted::Followed, &mut contexts)?;
        Ok(Followed {
            contexts,
            sessions: kept.into_iter().map(|session| (session.id, session)).collect(),
            lost: lost.into_iter().collect(),
            notes: notes.into_iter().collect(),
        })
    }

    /// Does what changes of those records say. They are such that belong together.
    ///
    /// # Errors
    /// As [`Self::restore`]; the node cannot be used any more then.
    pub fn follow(
        &mut self,
        changes: &[Change],
        followed: &mut Followed,
    ) -> Result<(), BuildError> {
        let (mut bearers, mut sessions) = (BTreeMap::new(), BTreeMap::new());
        let mut contexts = BTreeMap::new();
        for change in changes {
            let number = || change.key().try_into().map(u64::from_be_bytes);
            match (change.kind(), number()) {
                (BEARERS | DEDICATED, Ok(id)) => {
                    // A bearer that comes back as one of the other kind goes as one of its own.
                    let known: &mut Record<'_> = bearers.entry(BearerId(id)).or_default();
                    *known = known.or(change.record());
                }
                (SESSIONS, Ok(id)) => drop(sessions.insert(SessionId(id), change.record())),
                (CONTEXTS, _) => drop(contexts.insert(change.key(), change.record())),
                (NOTES, _) => match change.record() {
                    Some((_, note)) => {
                        drop(followed.notes.insert(change.key().to_vec(), note.to_vec()));
                    }
                    None => drop(followed.notes.remove(change.key())),
                },
                _ => {}
            }
        }
        // What goes makes room for what comes.
        let sessions = self.end_sessions(sessions, followed)?;
        self.follow_bearers(&bearers, &mut followed.contexts)?;
        let mut arrived = Vec::with_capacity(sessions.len());
        for (id, (like, session)) in sessions {
            let made = self.make_again(id, &like, &session.rules);
            let session = KeptSession { is_there: made.is_ok(), ..session };
            followed.sessions.insert(id, session);
            if let Err(error) = made {
                followed.lost.insert(id, error);
            } else {
                arrived.push(id);
            }
        }
        self.node.subscribers.sessions.timers.clear();
        self.take_carried(&mut followed.contexts);
        let followed = &mut followed.contexts;
        let mut arrived = arrived.into_iter();
        let early = arrived.try_for_each(|id| self.take_early(id, followed));
        let done = early.and_then(|()| self.follow_contexts(&contexts, followed));
        done.map_err(|what| {
            StateError::Damaged { path: "of the other node".into(), what: what.to_owned() }.into()
        })
    }

    fn follow_bearers(
        &mut self,
        records: &BTreeMap<BearerId, Record<'_>>,
        contexts: &mut Contexts,
    ) -> Result<(), BuildError> {
        let blueprint = self.node.blueprint;
        let bearers = &self.node.subscribers.bearers;
        let written = |id: &BearerId| {
            let entry = bearers.entries.get(id)?;
            Some(bearer_record::write(entry, blueprint))
        };
        let is_same = |id: &BearerId, record: &Record<'_>| match (written(id), record) {
            (Some(is), Some((version, to_be))) => {
                *version == bearer_record::VERSION && is == *to_be
            }
            (is, to_be) => is.is_none() && to_be.is_none(),
        };
        let changed = records.iter().filter(|(id, record)| !is_same(id, record));
        let mut come: BTreeMap<BearerId, (u8, Cow<'_, [u8]>)> = BTreeMap::new();
        let mut go = [BTreeSet::new(), BTreeSet::new()];
        for (id, record) in changed {
            if let Some((version, octets)) = record {
                come.insert(*id, (*version, Cow::Borrowed(octets)));
            }
            let Some(entry) = bearers.entries.get(id) else { continue };
            go[usize::from(!bearer_record::is_dedicated(entry))].insert(*id);
            // Dedicated bearers of a user that changes come back behind it, as they are.
            for own in bearers.dedicated_of(entry) {
                go[0].insert(*own);
                let is = written(own).filter(|_| record.is_some() && is_kept(own, records));
                if let Some(is) = is {
                    come.entry(*own).or_insert((bearer_record::VERSION, Cow::Owned(is)));
                }
            }
        }
        let slots = go.iter().flatten().map(|id| (*id, bearers.entries[id].slot));
        for (id, slot) in slots.collect::<Vec<_>>() {
            self.leave_contexts((&Whose::Added(id), slot), come.contains_key(&id), contexts);
        }
        let gone: Vec<_> =
            go.into_iter().flatten().map(|id| BearerCommand::Remove { id }).collect();
        let (mut reading, mut new) = (Reading::new(blueprint), Vec::with_capacity(come.len()));
        for (id, (version, octets)) in come {
            let bearer = reading.read(id, version, &octets);
            let unread = |wrong: Unreadable| BuildError::Kept { id, reason: wrong.to_string() };
            new.push(bearer.map_err(unread)?);
        }
        // Default bearers first, each kind in order.
        new.sort_by_key(NewBearer::is_dedicated);
        self.take_again(&gone, new)
    }

    /// Ends sessions that go or change; those that come, or come back changed.
    fn end_sessions(
        &mut self,
        records: BTreeMap<SessionId, Record<'_>>,
        followed: &mut Followed,
    ) -> Result<Vec<Coming>, BuildError> {
        if self.node.blueprint.pfcp.is_none() {
            return Ok(Vec::new());
        }
        let mut come = Vec::new();
        for (id, record) in records {
            let read = match record {
                Some((version, octets)) => {
                    let read = KeptSession::read(id, version, octets);
                    let unread = || BuildError::KeptSession { id, reason: UNREAD.to_owned() };
                    Some(read.ok_or_else(unread)?)
                }
                None => None,
            };
            if let (Some((like, session)), Some(entry)) =
                (&read, self.node.subscribers.sessions.entries.get(&id))
                && entry.like == *like
                && entry.rules == session.rules
            {
                followed.sessions.insert(id, session.clone());
                continue;
            }
            followed.lost.remove(&id);
            if followed.sessions.remove(&id).is_some_and(|session| session.is_there) {
                if let Some(entry) = self.node.subscribers.sessions.entries.get(&id) {
                    let (whose, slot) = (Whose::Session(id), entry.slot);
                    self.leave_contexts((&whose, slot), read.is_some(), &mut followed.contexts);
                }
                self.end_session(id)?;
            }
            come.extend(read.map(|read| (id, read)));
        }
        Ok(come)
    }

    fn end_session(&mut self, id: SessionId) -> Result<(), BuildError> {
        let mut staged = StagedSessions::of(self.node.workers, false);
        let ended = self.node.remove_session(id, &mut staged);
        ended.map_err(|error| BuildError::KeptSession { id, reason: error.to_string() })?;
        for (worker, mut changes) in self.workers.iter_mut().zip(staged.changes) {
            // Its last usage was reported by the other node.
            changes.retain(|change| !matches!(change, UserChange::Ask { .. }));
            worker.begin_with(&mut changes);
        }
        Ok(())
    }

    /// The node owns the users: what there is to tell of sessions can be asked for. How many
    /// sessions and contexts there are.
    ///
    /// # Errors
    /// [`BuildError`].
    pub(super) fn end_following(
        &mut self,
        followed: Followed,
        store: &Store,
    ) -> Result<(u64, u64), BuildError> {
        let Followed { sessions: kept, lost, notes, contexts } = followed;
        let lost: Vec<_> = lost.into_iter().collect();
        tell_lost(&lost);
        let now = self.node.clock.now();
        let sessions = &mut self.node.subscribers.sessions;
        sessions.kept = Kept {
            sessions: kept.into_values().collect(),
            notes: notes.into_iter().collect(),
            ..Kept::default()
        };
        sessions.start_all_inactivity(now);
        let count = sessions.entries.len() as u64;
        Ok((count, self.end_following_contexts(store, contexts)?))
    }
}

/// Whether a bearer stays, as far as `records` say something of it.
fn is_kept(id: &BearerId, records: &BTreeMap<BearerId, Record<'_>>) -> bool {
    records.get(id).is_none_or(Option::is_some)
}
