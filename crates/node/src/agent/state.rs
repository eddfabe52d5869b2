//! What outlives the node: what commands have set, and contexts in turn.
//!
//! Whatever changes by a command is noted here behind the change, and at the end of the
//! agent's round given to a thread that makes it durable with all that came in the meantime
//! ([`weft_state::Writer`]). Answers go along, and are given once their changes are durable. The
//! agent itself never waits for the disk.

pub(super) mod checkpoints;
mod compositions;
pub(super) mod last_life;
pub(super) mod loading;
pub(super) mod names;
pub(super) mod owned;
mod sessions;
mod standby;
mod suspended;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weft_node_config::Blueprint;
use weft_state::{Change, Done, Durability, Kind, Store, Writer};

pub(super) use self::checkpoints::Added;
use self::checkpoints::{Checkpoints, Told};
pub(crate) use self::compositions::Configured;
pub(crate) use self::compositions::{configured, restore as restore_compositions};
pub(crate) use self::loading::late_functions;
use self::loading::{Loading, Means, Step};
pub(super) use self::sessions::{NOTES, REPORTED, SESSIONS, change_of, started};
pub(crate) use self::standby::Standby;
pub use self::standby::{Lease, StandbyView};
use self::suspended::Upgrade;
use super::contexts::FunctionContexts;
use crate::bearer::{Bearers, Staged, Subscribers, record};
use crate::error::BuildError;
use crate::mobility::Remembered;
use crate::subscribers::Whose;

/// Default bearers that commands have added, by their numbers.
pub(super) const BEARERS: Kind = Kind(1);
/// Dedicated bearers, by their numbers: behind those, as they are of one of them.
pub(super) const DEDICATED: Kind = Kind(2);
/// How functions are run, where a command has said it, by their names.
pub(super) const COMPOSITIONS: Kind = Kind(3);
/// Contexts of functions, by function and whose they are.
pub(super) const CONTEXTS: Kind = Kind(4);
/// Users that a station owns, by their numbers.
pub(super) const OWNED: Kind = Kind(7);
/// An anchor's routes to users, by their numbers.
pub(super) const ROUTES: Kind = Kind(8);
/// All kinds but the node's own.
pub(super) const ALL: [Kind; 9] =
    [BEARERS, DEDICATED, COMPOSITIONS, CONTEXTS, OWNED, ROUTES, SESSIONS, REPORTED, NOTES];
/// What is known of the node itself.
pub(super) const NODE: Kind = Kind(5);

/// How the node's last life went, under [`NODE`].
pub(super) const LIFE: &[u8] = b"life";

/// Lives in a row that have ended without being stopped before all contexts had their turn of
/// checkpoints, under [`NODE`]: each may have gone as far beyond the checkpoints.
pub(super) const CRASHES: &[u8] = b"crashes";

/// Nanoseconds between two signs of life.
const SIGNS: u64 = 1_000_000_000;

/// What is kept, and how far that is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StateView {
    /// For how long the oldest change has waited that is not durable, in nanoseconds.
    pub behind: u64,
    /// Changes that were made durable.
    pub changes: u64,
    /// How many times the disk was written for them.
    pub commits: u64,
    /// Why nothing can be written at the moment, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Nanoseconds since the last round began in which all contexts were looked at.
    pub checkpoint_age: u64,
    /// Bearers that were there again when the node started.
    pub restored_bearers: u64,
    /// PFCP sessions that were there again.
    #[serde(default)]
    pub restored_sessions: u64,
    /// Contexts that went on from their checkpoints.
    pub restored_contexts: u64,
    /// How far the standby is, where the node is one of two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standby: Option<StandbyView>,
}

/// What was there again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Restored {
    /// Bearers.
    pub bearers: u64,
    /// PFCP sessions.
    pub sessions: u64,
    /// Contexts.
    pub contexts: u64,
}

/// How a node keeps what outlives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keeping {
    /// When a command is answered.
    pub durability: Durability,
    /// Users and bearers whose contexts are looked at in a second.
    pub rate: u32,
}

/// What outlives the node.
pub(crate) struct State {
    pub writer: Writer,
    /// Where the store lies.
    pub folder: PathBuf,
    /// What this round has changed, and who waits for it.
    pub changes: Vec<Change>,
    pub done: Vec<Done>,
    pub checkpoints: Checkpoints,
    /// When the last sign of life was given.
    sign: u64,
    /// Whether it is kept that all contexts had their turn in this life.
    has_all: bool,
    restored: Restored,
    keeping: Keeping,
}

impl State {
    /// Begins to keep things in `store`.
    ///
    /// # Errors
    /// [`BuildError::NoThread`].
    pub fn new(store: Store, keeping: Keeping, restored: Restored) -> Result<State, BuildError> {
        let folder = folder_of(&store);
        let writer = Writer::start(store, keeping.durability).map_err(BuildError::NoThread)?;
        Ok(State {
            writer,
            folder,
            changes: Vec::new(),
            done: Vec::new(),
            checkpoints: Checkpoints::new(keeping.rate),
            sign: 0,
            has_all: false,
            restored,
            keeping,
        })
    }

    /// So many contexts were there behind the first packet. What was there in all.
    pub fn note_loaded(&mut self, contexts: u64) -> Restored {
        self.restored.contexts += contexts;
        self.restored
    }
}

/// What outlives the node, and what may have the node meanwhile.
pub(crate) struct Persistence {
    /// The store at work; none where the node keeps nothing, or has it closed for a while.
    pub(super) state: Option<Box<State>>,
    /// What the configuration says of compositions.
    pub configured: Configured,
    /// What the last life has kept of users that move, until the node takes part in that.
    pub remembered: Remembered,
    /// Another node stands by.
    pub standby: Option<Box<Standby>>,
    /// Another process takes the node over.
    pub(super) upgrade: Option<Upgrade>,
    /// Contexts are still being read.
    pub(super) loading: Option<Box<Loading>>,
}

impl Persistence {
    /// Nothing is kept of a node whose configuration says this of compositions.
    pub fn new(configured: Configured) -> Persistence {
        Persistence {
            state: None,
            configured,
            remembered: Remembered::default(),
            standby: None,
            upgrade: None,
            loading: None,
        }
    }

    /// Why nothing can be kept at the moment; none where nothing is, or all is well.
    pub fn failure(&self) -> Option<Arc<str>> {
        let failure = self.state.as_ref()?.writer.lag().failure;
        failure.or_else(|| self.standby.as_ref()?.why_away())
    }

    /// Whether the node may not say or carry anything at the moment.
    pub fn is_away(&mut self) -> bool {
        self.standby.as_mut().is_some_and(|standby| standby.is_away())
    }

    /// What is kept, where something is.
    pub fn view(&self, now: u64) -> Option<StateView> {
        let state = self.state.as_ref()?;
        let lag = state.writer.lag();
        Some(StateView {
            behind: lag.behind.as_nanos() as u64,
            changes: lag.changes,
            commits: lag.commits,
            failure: lag.failure.map(|failure| failure.to_string()),
            checkpoint_age: state.checkpoints.age(now),
            restored_bearers: state.restored.bearers,
            restored_sessions: state.restored.sessions,
            restored_contexts: state.restored.contexts,
            standby: self.standby.as_ref().map(|standby| standby.view()),
        })
    }

    /// Calls `done` once everything that has changed so far is durable; at once where nothing
    /// is kept. While another process may take the node over, nothing is durable here: `done`
    /// waits for what comes of that, and is dropped with a node that has gone.
    pub fn when_durable(&mut self, done: Done) {
        match &mut self.state {
            Some(state) => state.done.push(done),
            None => match self.suspended() {
                Some(suspended) => suspended.when_durable(done),
                None => done(Ok(())),
            },
        }
    }

    /// Whether the node keeps anything, or will once more.
    pub fn keeps(&mut self) -> bool {
        self.state.is_some() || self.suspended().is_some()
    }

    /// Keeps what a batch has changed.
    pub fn keep_bearers(&mut self, staged: &Staged, bearers: &Bearers, blueprint: &Blueprint) {
        let mut changes = Vec::new();
        for (id, is_new) in staged.touched() {
            let key = id.0.to_be_bytes();
            match bearers.entries.get(&id) {
                Some(entry) => {
                    let kind = if record::is_dedicated(entry) { DEDICATED } else { BEARERS };
                    let octets = record::write(entry, blueprint);
                    changes.push(Change::put(kind, &key, record::VERSION, &octets));
                    if is_new {
                        self.keep_contexts_of(Added::Bearer(id), entry.slot);
                    }
                }
                None => {
                    changes.push(Change::remove(BEARERS, &key));
                    changes.push(Change::remove(DEDICATED, &key));
                    self.forget_contexts(&Whose::Added(id), &mut changes, blueprint);
                }
            }
        }
        self.keep_changes(changes);
    }

    /// A bearer or session has come to this slot: its contexts are kept from now on.
    pub fn keep_contexts_of(&mut self, added: Added, slot: u32) {
        if let Some(state) = &mut self.state {
            state.checkpoints.came(added, slot);
        }
    }

    /// A bearer or session went, and its contexts with it.
    fn forget_contexts(&mut self, whose: &Whose, changes: &mut Vec<Change>, blueprint: &Blueprint) {
        match &mut self.state {
            Some(state) => state.checkpoints.went(whose, changes),
            None => changes.extend(suspended::contexts_gone(whose, blueprint)),
        }
    }

    /// Keeps changes, where anything is kept.
    fn keep_changes(&mut self, changes: Vec<Change>) {
        match &mut self.state {
            Some(state) => state.changes.extend(changes),
            None => {
                if let Some(suspended) = self.suspended() {
                    suspended.keep(changes);
                }
            }
        }
    }

    /// Whether contexts are still being read.
    pub fn is_loading(&self) -> bool {
        self.loading.is_some()
    }

    /// A packet waits for contexts of the user at this slot.
    pub fn want(&mut self, slot: u32, subscribers: &Subscribers) {
        if let Some(loading) = &mut self.loading {
            loading.want(slot, subscribers);
        }
    }

    /// Goes on with contexts that are still being read; whether there was anything to do.
    pub fn load(&mut self, means: &mut Means<'_>) -> bool {
        let Some(loading) = &mut self.loading else { return false };
        match loading.go_on(means, self.state.as_deref_mut()) {
            Step::Idle => false,
            Step::Busy => true,
            Step::Done => {
                if let Some(loading) = self.loading.take() {
                    loading.end(means.blueprint, self.state.as_deref_mut(), true);
                }
                true
            }
        }
    }

    /// Looks at all contexts, and writes those that have changed, as fast as disk and standby
    /// take them. `told` hears how many these were; it is dropped where no contexts are kept.
    pub fn checkpoint_all(&mut self, told: Told) {
        if let Some(state) = &mut self.state {
            state.checkpoints.begin_round(told);
        }
    }

    /// Gives what this round has changed to the disk; whether there was anything. Contexts are
    /// read unless something moves (`is_moving`).
    pub fn write(
        &mut self,
        contexts: &mut FunctionContexts<'_>,
        is_moving: bool,
        now: u64,
    ) -> bool {
        let Some(state) = &mut self.state else { return false };
        let State { checkpoints, changes, done, .. } = &mut **state;
        // A standby that is behind would need a copy of all records in the end.
        let is_behind = checkpoints.is_in_round()
            && self.standby.as_ref().is_some_and(|standby| standby.is_behind());
        let is_not_now = is_moving || is_behind;
        let mut busy = checkpoints.look_after((changes, done), contexts, is_not_now, now);
        if now.wrapping_sub(state.sign) >= SIGNS && state.checkpoints.is_at_work() {
            state.sign = now;
            state.changes.push(life(false, state.checkpoints.age(now)));
            if state.checkpoints.has_all() && !std::mem::replace(&mut state.has_all, true) {
                state.changes.push(Change::remove(NODE, CRASHES));
            }
        }
        if !state.changes.is_empty() || !state.done.is_empty() {
            busy = true;
            let (changes, done) =
                (std::mem::take(&mut state.changes), std::mem::take(&mut state.done));
            state.writer.write(changes, done);
        }
        busy
    }
}

/// Where a store lies, by a path that is the same in all processes.
pub(crate) fn folder_of(store: &Store) -> PathBuf {
    let folder = store.path().parent().unwrap_or(store.path());
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}

/// The record that says how the node's life went: the time, whether it was stopped, and how
/// long before contexts may have been looked at last, in nanoseconds.
pub(super) fn life(stopped: bool, age: u64) -> Change {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut octets = (now.as_millis() as u64).to_le_bytes().to_vec();
    octets.push(stopped.into());
    octets.extend(age.to_le_bytes());
    Change::put(NODE, LIFE, 1, &octets)
}
