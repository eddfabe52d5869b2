//! A node gives all that it has to another process of the same node, whole.
//!
//! What commands have set goes as the records of the store, while packets pass. Whose contexts
//! follow is agreed on beforehand, so that behind the last packet only their octets have to go.
//! From the beginning to the end the store is closed and commands are refused.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weft_function::Scope;
use weft_node_config::Blueprint;
use weft_state::{Change, Collection, Kind, Owner, Records, Role, Store};

use super::{BEARERS, DEDICATED, Keeping, Restored, State, life, names};
use crate::agent::Agent;
use crate::bearer::record;
use crate::error::BuildError;
use crate::subscribers::Whose;

/// The conversation between the two processes. It is raised when an earlier one could not be
/// followed any more.
pub(crate) const FORMAT: u16 = 1;

/// Records and names that go in one piece.
const PIECE: usize = 1000;

/// How long the old process waits before it tries again to open a store that it had closed.
const AGAIN: Duration = Duration::from_millis(500);

/// What a node has, as it offers it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Offer {
    /// Format of the conversation.
    pub format: u16,
    /// Name of the node.
    pub node: String,
    /// Release of its program.
    pub release: String,
    /// Process that has it.
    pub process: u32,
    /// Whether it keeps what commands set.
    pub state: bool,
    /// Devices of its ports.
    pub devices: Vec<String>,
    /// Its functions.
    pub functions: Vec<OfferedFunction>,
    /// Neighbours that its ports know.
    pub neighbours: Vec<OfferedNeighbour>,
}

/// A function of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferedFunction {
    /// Its name.
    pub name: String,
    /// What function it is.
    pub function: String,
    /// Version of its contexts.
    pub version: u16,
    /// Whose contexts it has.
    pub scope: Scope,
}

/// A neighbour that a port knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferedNeighbour {
    /// Name of the port.
    pub port: String,
    /// IP address.
    pub address: String,
    /// MAC address.
    pub mac: String,
}

/// What goes over before packets stop.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    /// Records of what commands have set, in pieces.
    pub records: Vec<Vec<u8>>,
    /// Whose contexts there are, by scope and in pieces: names as in keys of the store, each
    /// behind its length (u16).
    pub subjects: Vec<(Scope, Vec<u8>)>,
    /// Their slots, by scope: that of bearers, users, groups.
    pub slots: [Vec<u32>; 3],
}

/// The position of a scope among [`Prepared::slots`].
pub(crate) fn position(scope: Scope) -> usize {
    match scope {
        Scope::Bearer => 0,
        Scope::User => 1,
        Scope::Group => 2,
    }
}

/// What the agent does not do while another process takes over.
#[derive(Debug)]
pub(crate) struct Upgrade {
    /// What is to be opened again if it does not.
    suspended: Option<Suspended>,
    /// Whether bearers have changed by themselves meanwhile.
    missed: bool,
    /// It will not take over.
    is_over: bool,
    tried: Option<Instant>,
}

/// A store that is closed for a while.
#[derive(Debug)]
struct Suspended {
    folder: PathBuf,
    keeping: Keeping,
    restored: Restored,
}

impl Agent {
    /// What this node has.
    ///
    /// # Errors
    /// Why another process cannot have all of it now.
    pub(crate) fn offer(&self) -> Result<Offer, String> {
        self.check_whole()?;
        let functions = self.blueprint.functions.iter().enumerate().map(|(at, plan)| {
            let (function, version) = (plan.kind.name.to_owned(), plan.kind.context_version);
            let scope = self.trials.instance(at).scope();
            OfferedFunction { name: plan.name.clone(), function, version, scope }
        });
        let now = self.clock.now();
        let known = self.ports.iter().flat_map(|port| port.neighbours(now));
        let neighbours = known.filter_map(|known| {
            let is_asked_for = matches!(&*known.state, "reachable" | "probing");
            let mac = known.mac.filter(|_| is_asked_for)?;
            Some(OfferedNeighbour { port: known.port, address: known.address, mac })
        });
        Ok(Offer {
            format: FORMAT,
            node: self.blueprint.name.clone(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            process: std::process::id(),
            state: self.state.is_some(),
            devices: self.blueprint.devices().iter().map(|port| port.device.clone()).collect(),
            functions: functions.collect(),
            neighbours: neighbours.collect(),
        })
    }

    fn check_whole(&self) -> Result<(), String> {
        if self.upgrade.is_some() {
            return Err("another process is taking the node over already".to_owned());
        }
        if let Some(plan) =
            self.blueprint.functions.iter().find(|plan| !plan.composition.is_at_hand())
        {
            return Err(format!(
                "function {} runs in a process, behind a NIC or at another node; call it back \
                 first (`weft ctl function {} --composition call`)",
                plan.name, plan.name
            ));
        }
        if self.blueprint.handover.is_some() {
            return Err("the node takes part in moves of users (`handover`)".to_owned());
        }
        if !self.subscribers.sessions.entries.is_empty() {
            return Err("the node has PFCP sessions".to_owned());
        }
        if self.lease().is_some() {
            return Err("the node has a standby (`standby`); stop it, and the standby takes over"
                .to_owned());
        }
        if self.migration.has_users() || self.migration.has_function() {
            return Err("a user or a function moves; try again".to_owned());
        }
        if self.workers.is_changing() {
            return Err("an earlier change is still being applied; try again".to_owned());
        }
        Ok(())
    }

    /// Closes the store, refuses commands from now on, and says what goes over first.
    ///
    /// # Errors
    /// As [`offer`](Self::offer).
    pub(crate) fn begin_upgrade(&mut self) -> Result<Prepared, String> {
        self.check_whole()?;
        let mut prepared = Prepared::default();
        let mut piece = Collection::default();
        let mut put = |change: Option<Change>| {
            let is_last = change.is_none();
            change.into_iter().for_each(|change| piece.add(change));
            if piece.len() >= PIECE || is_last && !piece.is_empty() {
                let mut octets = Vec::new();
                // There is always room in memory.
                let _ = std::mem::take(&mut piece).write_to(&mut octets);
                prepared.records.push(octets);
            }
        };
        self.bearer_records(&mut |change| put(Some(change)));
        self.composition_records().into_iter().for_each(|change| put(Some(change)));
        put(None);
        for scope in [Scope::Bearer, Scope::User, Scope::Group] {
            let all = self.subscribers.with_contexts(scope);
            for some in all.chunks(PIECE) {
                let mut octets = Vec::new();
                for whose in some {
                    let Some(slot) = self.subscribers.context_slot(scope, whose) else { continue };
                    prepared.slots[position(scope)].push(slot);
                    let key = names::key("", whose);
                    octets.extend((key.len() as u16).to_le_bytes());
                    octets.extend(key);
                }
                prepared.subjects.push((scope, octets));
            }
        }
        let suspended = self.state.take().map(|state| state.suspend());
        self.upgrade = Some(Upgrade { suspended, missed: false, is_over: false, tried: None });
        Ok(prepared)
    }

    /// All bearers that commands have added, default bearers first.
    fn bearer_records(&self, put: &mut dyn FnMut(Change)) {
        for dedicated in [false, true] {
            let kind: Kind = if dedicated { DEDICATED } else { BEARERS };
            for (id, entry) in &self.subscribers.bearers.entries {
                if record::is_dedicated(entry) == dedicated {
                    let octets = record::write(entry, &self.blueprint);
                    put(Change::put(kind, &id.0.to_be_bytes(), record::VERSION, &octets));
                }
            }
        }
    }

    /// The other process does not take over: the node goes on as before.
    pub(crate) fn end_upgrade(&mut self) {
        if let Some(upgrade) = &mut self.upgrade {
            upgrade.is_over = true;
        }
        self.look_after_upgrade();
    }

    /// Opens a store again that was closed for another process.
    pub(in crate::agent) fn look_after_upgrade(&mut self) {
        let Some(upgrade) = self.upgrade.as_mut().filter(|upgrade| upgrade.is_over) else { return };
        let Some(suspended) = &upgrade.suspended else {
            self.upgrade = None;
            return;
        };
        if upgrade.tried.is_some_and(|tried| tried.elapsed() < AGAIN) {
            return;
        }
        let owner = Owner { role: Role::Node, name: self.blueprint.name.clone() };
        let opened = Store::open(&suspended.folder, &owner)
            .map_err(|error| error.to_string())
            .and_then(|store| {
                let state = State::new(store, suspended.keeping, suspended.restored);
                state.map_err(|error| error.to_string())
            });
        let mut state = match opened {
            Ok(state) => state,
            Err(why) => {
                if upgrade.tried.replace(Instant::now()).is_none() {
                    tracing::warn!("{why}; commands are refused until it can be opened again");
                }
                return;
            }
        };
        let missed = upgrade.missed;
        self.upgrade = None;
        let entries = self.subscribers.bearers.entries.iter();
        entries.for_each(|(id, entry)| state.checkpoints.came(Whose::Added(*id), entry.slot));
        state.changes.push(life(false, 0));
        if missed {
            self.bearer_records(&mut |change| state.changes.push(change));
        }
        self.state = Some(Box::new(state));
    }

    /// Bearers change while the store is closed.
    pub(super) fn note_missed(&mut self) {
        if let Some(upgrade) = &mut self.upgrade {
            upgrade.missed = true;
        }
    }

    /// Takes what another process of the node had: records, and a store that has them already.
    ///
    /// # Errors
    /// [`BuildError`], above all [`BuildError::Kept`].
    pub(crate) fn take_records(
        &mut self,
        workers: &mut [weft_dataplane::worker::Worker],
        records: &dyn Records,
        store: Option<(Store, Keeping)>,
    ) -> Result<(), BuildError> {
        let bearers = self.restore_bearers(workers, records)?;
        let Some((store, keeping)) = store else { return Ok(()) };
        let mut state = State::new(store, keeping, Restored { bearers, sessions: 0, contexts: 0 })?;
        let entries = self.subscribers.bearers.entries.iter();
        entries.for_each(|(id, entry)| state.checkpoints.came(Whose::Added(*id), entry.slot));
        state.changes.push(life(false, 0));
        self.state = Some(Box::new(state));
        Ok(())
    }

    /// The slots of those whose names another process has given; none for those that this
    /// configuration does not have.
    ///
    /// # Errors
    /// When they are no names.
    pub(crate) fn named_slots(
        &self,
        scope: Scope,
        names: &[u8],
    ) -> Result<Vec<Option<u32>>, String> {
        let mut slots = Vec::new();
        let mut rest = names;
        while let Some((length, behind)) = rest.split_first_chunk() {
            let length = usize::from(u16::from_le_bytes(*length));
            let (key, behind) =
                behind.split_at_checked(length).ok_or("a name that is cut off".to_owned())?;
            let (_, whose): (_, Whose) = names::read(key).ok_or("a name of nothing".to_owned())?;
            slots.push(self.subscribers.context_slot(scope, &whose));
            rest = behind;
        }
        match rest.is_empty() {
            true => Ok(slots),
            false => Err("a name that is cut off".to_owned()),
        }
    }

    /// Neighbours are known to be there, as another process had heard.
    pub(crate) fn take_neighbours(&mut self, neighbours: &[OfferedNeighbour]) {
        let now = self.clock.now();
        for known in neighbours {
            let (Ok(address), Ok(mac)) = (known.address.parse(), known.mac.parse()) else {
                continue;
            };
            if let Some(port) = self.ports.restore(&known.port, address, mac, now) {
                self.send_of_port(port);
            }
        }
    }
}

impl State {
    /// Makes everything durable and closes the store.
    fn suspend(mut self) -> Suspended {
        self.changes.push(life(false, 0));
        self.writer.write(self.changes, self.done);
        let store = self.writer.stop();
        let path = store.as_ref().map(|store| store.path().to_owned()).unwrap_or_default();
        let folder = path.parent().map(PathBuf::from).unwrap_or_default();
        Suspended { folder, keeping: self.keeping, restored: self.restored }
    }
}

/// Whether the configuration has the functions whose contexts are offered, and can read them.
///
/// # Errors
/// What it cannot read.
pub(crate) fn check_functions(offer: &Offer, blueprint: &Blueprint) -> Result<(), String> {
    for offered in &offer.functions {
        let mut own = blueprint.functions.iter();
        let Some(own) = own.find(|own| own.name == offered.name) else { continue };
        if own.kind.name == offered.function && own.kind.context_version < offered.version {
            return Err(format!(
                "function {}: contexts of version {}, of a newer release; this one reads up to \
                 version {}",
                own.name, offered.version, own.kind.context_version
            ));
        }
        if !own.composition.is_at_hand() {
            return Err(format!(
                "function {}: the configuration runs it in a process, behind a NIC or at another \
                 node, where its contexts cannot be taken to",
                own.name
            ));
        }
    }
    Ok(())
}
