//! A store that is closed while another process may take the node over: what changes meanwhile
//! waits, and so does who wants to hear that it is durable.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weft_node_config::Blueprint;
use weft_state::{Change, Done, Feed, Owner, Role, Store};

use super::{Added, Keeping, Persistence, Restored, State, life, names};
use crate::bearer::Subscribers;
use crate::error::BuildError;
use crate::subscribers::Whose;

/// How long the old process waits before it tries again to open a store that it had closed.
const AGAIN: Duration = Duration::from_millis(500);

/// What the agent does not do while another process takes over.
#[derive(Debug)]
pub(crate) struct Upgrade {
    /// What is to be opened again if it does not; none where the node keeps nothing.
    pub(super) suspended: Option<Suspended>,
    /// It will not take over.
    pub(super) is_over: bool,
}

/// A store that is closed for a while.
pub(super) struct Suspended {
    folder: PathBuf,
    keeping: Keeping,
    restored: Restored,
    /// For the standby, where there is one.
    feed: Option<Feed>,
    /// What has changed meanwhile, by kind and key: no more than there are records.
    changes: HashMap<Vec<u8>, Change>,
    /// Who waits for that.
    done: Vec<Done>,
    /// When it was tried to open it again, and why that failed.
    refused: Option<(Instant, Arc<str>)>,
}

impl std::fmt::Debug for Suspended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Suspended").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Suspended {
    /// Keeps changes until the store is open again.
    pub fn keep(&mut self, changes: impl IntoIterator<Item = Change>) {
        for change in changes {
            self.changes.insert(change.stored().0.to_vec(), change);
        }
    }

    /// Calls `done` once what was given is durable, or why it is not, where the store cannot be
    /// opened again.
    pub fn when_durable(&mut self, done: Done) {
        match &self.refused {
            Some((_, why)) => done(Err(why.clone())),
            None => self.done.push(done),
        }
    }
}

impl State {
    /// Makes everything durable and closes the store.
    pub(super) fn suspend(mut self) -> Suspended {
        self.changes.push(life(false, 0));
        self.writer.write(self.changes, self.done);
        let feed = self.writer.stop().and_then(|store| store.feed().cloned());
        let State { folder, keeping, restored, .. } = self;
        let (changes, done) = (HashMap::new(), Vec::new());
        Suspended { folder, keeping, restored, feed, changes, done, refused: None }
    }
}

impl Persistence {
    /// Whether another process is taking the node over, or was and has left.
    pub fn is_upgrading(&self) -> bool {
        self.upgrade.is_some()
    }

    /// Closes the store, where there is one, until another process has the node or not.
    pub fn suspend(&mut self) {
        let suspended = self.state.take().map(|state| state.suspend());
        self.upgrade = Some(Upgrade { suspended, is_over: false });
    }

    /// Whether another process may have the node at any moment: nothing may change.
    pub fn is_given_away(&self) -> bool {
        self.upgrade.as_ref().is_some_and(|upgrade| !upgrade.is_over)
    }

    /// The store that is closed for a while, where one is.
    pub(super) fn suspended(&mut self) -> Option<&mut Suspended> {
        self.upgrade.as_mut()?.suspended.as_mut()
    }

    /// Keeps contexts and changes in `store` from now on. What there may be of contexts in it
    /// is known, so that those of bearers and sessions that go are removed.
    pub fn begin_to_keep(
        &mut self,
        (store, keeping, restored): (Store, Keeping, Restored),
        (blueprint, subscribers): (&Blueprint, &Subscribers),
    ) -> Result<&mut State, BuildError> {
        let mut state = Box::new(State::new(store, keeping, restored)?);
        let kept = blueprint.functions.iter().filter(|plan| plan.kind.checkpointed);
        kept.for_each(|plan| state.checkpoints.knows(&plan.name));
        let count = subscribers.bearers.entries.len() + subscribers.sessions.entries.len();
        state.checkpoints.make_room(count);
        let bearers = subscribers.bearers.entries.iter();
        bearers.for_each(|(id, entry)| state.checkpoints.came(Added::Bearer(*id), entry.slot));
        let sessions = subscribers.sessions.entries.iter();
        sessions.for_each(|(id, entry)| state.checkpoints.came(Added::Session(*id), entry.slot));
        Ok(self.state.insert(state))
    }

    /// The other process does not take over: the node goes on as before.
    pub fn end_upgrade(&mut self, blueprint: &Blueprint, subscribers: &Subscribers) {
        if let Some(upgrade) = &mut self.upgrade {
            upgrade.is_over = true;
        }
        self.look_after_upgrade(blueprint, subscribers);
    }

    /// Opens a store again that was closed for another process.
    pub fn look_after_upgrade(&mut self, blueprint: &Blueprint, subscribers: &Subscribers) {
        let Some(upgrade) = self.upgrade.as_mut().filter(|upgrade| upgrade.is_over) else { return };
        let Some(suspended) = &upgrade.suspended else {
            self.upgrade = None;
            return;
        };
        if suspended.refused.as_ref().is_some_and(|(tried, _)| tried.elapsed() < AGAIN) {
            return;
        }
        let owner = Owner { role: Role::Node, name: blueprint.name.clone() };
        let (keeping, restored) = (suspended.keeping, suspended.restored);
        let feed = suspended.feed.clone();
        let opened = Store::open(&suspended.folder, &owner).map_err(|error| error.to_string());
        let opened = opened.and_then(|mut store| {
            feed.into_iter().for_each(|feed| store.feed_into(feed));
            let kept = (store, keeping, restored);
            let state = self.begin_to_keep(kept, (blueprint, subscribers));
            state.map(|_| ()).map_err(|error| error.to_string())
        });
        if let Err(why) = opened {
            return self.not_opened_again(why.into());
        }
        let suspended = self.upgrade.take().and_then(|upgrade| upgrade.suspended);
        if let (Some(state), Some(suspended)) = (&mut self.state, suspended) {
            state.changes.push(life(false, 0));
            state.changes.extend(suspended.changes.into_values());
            state.done.extend(suspended.done);
        }
    }

    fn not_opened_again(&mut self, why: Arc<str>) {
        let Some(suspended) = self.suspended() else { return };
        let is_first = suspended.refused.replace((Instant::now(), why.clone())).is_none();
        std::mem::take(&mut suspended.done).into_iter().for_each(|done| done(Err(why.clone())));
        if is_first {
            tracing::warn!("{why}; commands are refused until it can be opened again");
        }
    }
}

/// That contexts of a bearer or session are in the store no more, while that is closed.
pub(super) fn contexts_gone(whose: &Whose, blueprint: &Blueprint) -> Vec<Change> {
    let kept = blueprint.functions.iter().filter(|plan| plan.kind.checkpointed);
    let keys = kept.map(|plan| names::key(&plan.name, whose));
    keys.map(|key| Change::remove(super::CONTEXTS, &key)).collect()
}
