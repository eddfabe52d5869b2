//! A node that starts again: everything that its last life has kept is there before the first
//! packet.

mod ahead;
mod bearers;
mod contexts;
pub(crate) mod follow;
mod sessions;

use std::time::Instant;

use weft_dataplane::worker::Worker;
use weft_function::Scope;
use weft_state::{Change, StateError, Store};

pub(crate) use self::ahead::ReadAhead;
use self::contexts::{Contexts, Written};
pub(crate) use self::follow::Followed;
use self::sessions::UNREAD;
pub(super) use self::sessions::tell_lost;
use super::provisioning::Provisioning;
use super::state::checkpoints::{is_new, record};
use super::state::last_life::{Goes, LastLife, NEVER};
use super::state::loading::{LateFunction, Loading};
use super::state::{CRASHES, Keeping, LIFE, NODE, Restored, State, life, owned};
use crate::error::BuildError;
use crate::subscribers::Whose;

/// A node before its first packet, or behind its last: its workers stand still.
pub(crate) struct Restoration<'a> {
    pub node: Provisioning<'a>,
    pub workers: &'a mut [Worker],
}

impl Restoration<'_> {
    /// Takes what is in `store`, of which a thread reads bearers and contexts, and keeps what
    /// changes from now on. Workers have met no packet. Contexts of `late` functions are read while
    /// packets pass; the thread leaves them out.
    ///
    /// # Errors
    /// [`BuildError`], above all [`BuildError::Kept`].
    pub fn restore(
        &mut self,
        (store, read): (Store, ReadAhead),
        late: Vec<LateFunction>,
        keeping: Keeping,
    ) -> Result<(), BuildError> {
        let begun = Instant::now();
        let bearers = self.take_bearers(&read)?;
        let (sessions, lost) = self.restore_sessions(&store)?;
        tell_lost(&lost);
        let mut contexts = Contexts::default();
        self.take_contexts(read, &mut contexts)?;
        let (contexts, written) = self.finish(contexts);
        let restored = Restored { bearers, sessions, contexts };
        self.go_on((store, keeping), (restored, written), late, begun)
    }

    /// Goes on with `store` as a node that has followed its records: they are of the life of the
    /// other node.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn own(
        &mut self,
        store: Store,
        keeping: Keeping,
        followed: Followed,
    ) -> Result<(), BuildError> {
        let begun = Instant::now();
        let (sessions, contexts) = self.end_following(followed, &store)?;
        let bearers = self.node.subscribers.bearers.count() as u64;
        // Contexts that were followed one by one may be others than those of the store.
        let restored = (Restored { bearers, sessions, contexts }, Written::default());
        self.go_on((store, keeping), restored, Vec::new(), begun)
    }

    /// Users, bearers, sessions and contexts are there: keeps what changes from now on. What is
    /// known to be `written` of contexts is not written again before it changes.
    fn go_on(
        &mut self,
        (mut store, keeping): (Store, Keeping),
        (restored, written): (Restored, Written),
        late: Vec<LateFunction>,
        begun: Instant,
    ) -> Result<(), BuildError> {
        let goes = Goes { last: read_life(&store)?, begun };
        self.node.persistence.remembered = owned::read(&store)?;
        self.go_on_with_sessions(&store)?;
        let crashes = match goes.last {
            Some(life) if !life.stopped => read_crashes(&store)?.saturating_add(1),
            _ => 0,
        };
        for _ in 0..crashes {
            self.workers.iter_mut().for_each(Worker::go_on);
        }
        // Durable before the first packet: from then on the node may die, and the next life has
        // to skip what this one may have used.
        let age = if keeping.rate > 0 { 0 } else { NEVER };
        store.write(&[life(false, age), Change::put(NODE, CRASHES, 1, &crashes.to_le_bytes())])?;
        let reader = store.snapshot()?.reader()?;
        let Provisioning { persistence, blueprint, subscribers, .. } = &mut self.node;
        let state =
            persistence.begin_to_keep((store, keeping, restored), (blueprint, subscribers))?;
        for (function, hashes) in written {
            *state.checkpoints.written_of(&blueprint.functions[function].name) = hashes;
        }
        if late.is_empty() {
            goes.tell(restored);
            return Ok(());
        }
        let users = subscribers.room.users as usize;
        self.workers.iter_mut().for_each(|worker| worker.begin_loading(users));
        let (Restored { bearers, sessions, .. }, seconds) = (restored, begun.elapsed());
        persistence.loading = Some(Box::new(Loading::begin(reader, late, (goes, crashes))?));
        let seconds = seconds.as_secs_f64();
        tracing::info!(bearers, sessions, seconds, "packets pass while contexts are read");
        Ok(())
    }

    /// Keeps all contexts as they stand, and that the node was stopped. No packet comes any
    /// more. Returns when that is durable.
    pub fn end(&mut self) {
        let Some(mut state) = self.node.persistence.state.take() else { return };
        let (begun, changes) = (Instant::now(), state.changes.len());
        let mut octets = Vec::new();
        // What is still being read stays in the store as it is.
        let loading = self.node.persistence.loading.take();
        if loading.is_some() {
            self.node.workers.apply_commands(self.workers);
        }
        if state.checkpoints.is_at_work() {
            for (number, plan) in self.node.blueprint.functions.iter().enumerate() {
                if !plan.kind.checkpointed || !plan.composition.is_at_hand() {
                    continue;
                }
                let State { checkpoints, changes, .. } = &mut *state;
                let written = checkpoints.written_of(&plan.name);
                let scope = self.node.trials.instance(number).scope();
                let sessions = &self.node.subscribers.sessions;
                let sessions = sessions.entries.keys().filter(|id| sessions.is_reported(**id));
                let sessions = sessions.map(|id| Whose::Session(*id));
                let sessions = sessions.filter(|_| scope != Scope::Group);
                for whose in self.node.subscribers.with_contexts(scope).into_iter().chain(sessions)
                {
                    let Some(slot) = self.node.subscribers.context_slot(scope, &whose) else {
                        continue;
                    };
                    let lacks = |one: &&Loading| scope != Scope::Group && one.lacks(number, slot);
                    if loading.as_deref().filter(lacks).is_some() {
                        continue;
                    }
                    let Some(worker) = self.workers.get_mut(self.node.workers.owner(slot)) else {
                        continue;
                    };
                    octets.clear();
                    worker.end_with_context(number as u16, slot, &mut octets);
                    if is_new(written, slot, &octets) {
                        changes.push(record(&plan.name, plan.kind.name, &whose, &octets));
                    }
                }
            }
        }
        if let Some(loading) = loading {
            loading.end(self.node.blueprint, None, false);
        }
        let contexts = state.changes.len() - changes;
        let age = if state.checkpoints.is_at_work() { 0 } else { NEVER };
        state.changes.extend([life(true, age), Change::remove(NODE, CRASHES)]);
        state.writer.write(state.changes, state.done);
        drop(state.writer.stop());
        let seconds = begun.elapsed().as_secs_f64();
        tracing::info!(contexts, seconds, "behind the last packet contexts were written");
    }
}

fn read_life(store: &Store) -> Result<Option<LastLife>, StateError> {
    let mut found = None;
    store.each(NODE, |key, _, octets| {
        if let (LIFE, [_, _, _, _, _, _, _, _, stopped, age @ ..]) = (key, octets)
            && let Ok(age) = age.try_into()
        {
            found = Some(LastLife { stopped: *stopped != 0, age: u64::from_le_bytes(age) });
        }
        Ok(())
    })?;
    Ok(found)
}

/// Lives before the last one that have gone beyond the same checkpoints.
fn read_crashes(store: &Store) -> Result<u32, StateError> {
    let mut found = 0;
    store.each(NODE, |key, _, octets| {
        if let (CRASHES, Ok(octets)) = (key, octets.try_into()) {
            found = u32::from_le_bytes(octets);
        }
        Ok(())
    })?;
    Ok(found)
}
