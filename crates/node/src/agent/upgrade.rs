//! A node gives all that it has to another process of the same node, whole.
//!
//! What commands have set goes as the records of the store, while packets pass. Whose contexts
//! follow is agreed on beforehand, so that behind the last packet only their octets have to go.
//! From the beginning to the end the store is closed and commands are refused.

mod processes;
mod share;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weft_function::Scope;
use weft_node_config::{Blueprint, Composition};
use weft_state::{Change, Collection, Kind, Records, StateError, Store};

pub(crate) use self::processes::{Piece, ProcessContexts};
pub use self::share::{OfferedShare, SharedAddresses, SharedInterface};
use super::provisioning::Provisioning;
use super::restore::{Restoration, tell_lost};
use super::state::{ALL, BEARERS, DEDICATED, Keeping, Restored, change_of, life, names, started};
use crate::bearer::session::Keep;
use crate::bearer::{Subscribers, record};
use crate::error::BuildError;
use crate::functions::Functions;
use crate::migration::Migration;
use crate::mobility::Mobility;
use crate::ports::device::OfferedDevice;
use crate::ports::{Means, Ports};
use crate::subscribers::Whose;

/// The conversation between the two processes. It is raised when more may go along than an
/// earlier release takes; a node offers the lowest in which all goes along that it has.
pub(crate) const FORMAT: u16 = 5;

/// Records and names that go in one piece, and octets of records after which it ends.
const PIECE: usize = 1000;
const OCTETS: usize = 4 << 20;

/// The formats that a node needs whose PFCP sessions go along, one that has a standby, one that
/// takes part in moves of users, and one with functions in processes or at other nodes; those
/// without any of it need the first.
const WITH_SESSIONS: u16 = 2;
const WITH_STANDBY: u16 = 3;
const WITH_MOVES: u16 = 4;
const WITH_FUNCTIONS_AWAY: u16 = 5;

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
    /// Where, if that is said.
    #[serde(default)]
    pub store: Option<PathBuf>,
    /// PFCP sessions.
    #[serde(default)]
    pub sessions: u64,
    /// Its number, where it is one of two nodes for its users.
    #[serde(default)]
    pub standby: Option<u32>,
    /// Its number, and what it is, where it takes part in moves of users.
    #[serde(default)]
    pub handover: Option<(u32, String)>,
    /// Devices of its ports.
    pub devices: Vec<String>,
    /// Its workers, where that is said.
    #[serde(default)]
    pub workers: usize,
    /// Its devices with what they have, where that is said.
    #[serde(default)]
    pub ports: Vec<OfferedDevice>,
    /// Its functions.
    pub functions: Vec<OfferedFunction>,
    /// Neighbours that its ports know.
    pub neighbours: Vec<OfferedNeighbour>,
    /// What others know it by, where another node is to have that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<OfferedShare>,
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
    /// Oldest version that they can be written as, where that is said.
    #[serde(default)]
    pub oldest: Option<u16>,
    /// Whose contexts it has.
    pub scope: Scope,
    /// How it is run, where that is said.
    #[serde(default)]
    pub composition: Option<Composition>,
    /// Whether the path to it is there, at another node.
    #[serde(default)]
    pub is_reachable: bool,
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
    /// The node's part in moves of users, if it takes part.
    pub moves: Option<Vec<u8>>,
    /// Records of what commands have set, in pieces.
    pub records: Vec<Vec<u8>>,
    /// Whose contexts there are, by scope and in pieces: names as in keys of the store, each
    /// behind its length (u16).
    pub subjects: Vec<(Scope, Vec<u8>)>,
    /// Their slots, by scope: that of bearers, users, groups.
    pub slots: [Vec<u32>; 3],
    /// Functions that are in processes, and their contexts with them.
    pub in_processes: Vec<u16>,
    /// How many of them, from the first on, have settings of the configuration or of records
    /// that the other process may read otherwise; the others are sessions.
    pub before_sessions: [usize; 3],
}

/// The position of a scope among [`Prepared::slots`].
pub(crate) fn position(scope: Scope) -> usize {
    match scope {
        Scope::Bearer => 0,
        Scope::User => 1,
        Scope::Group => 2,
    }
}

/// A node whose users another process is to have.
pub(crate) struct Offering<'a> {
    pub node: Provisioning<'a>,
    pub functions: &'a Functions,
    pub migration: &'a Migration,
    pub mobility: Option<&'a Mobility>,
    /// Whether a redirection table is being changed.
    pub is_redirecting: bool,
}

impl Offering<'_> {
    /// What this node has.
    ///
    /// # Errors
    /// Why another process cannot have all of it now.
    pub fn offer(&self) -> Result<Offer, String> {
        self.check_whole()?;
        let functions =
            self.node.blueprint.functions.iter().enumerate().map(|(at, plan)| OfferedFunction {
                name: plan.name.clone(),
                function: plan.kind.name.to_owned(),
                version: plan.kind.context_version,
                oldest: Some(plan.kind.oldest_version),
                scope: self.node.trials.instance(at).scope(),
                composition: Some(plan.composition),
                is_reachable: self.functions.is_reachable(&plan.name),
            });
        let now = self.node.clock.now();
        let known = self.node.ports.iter().flat_map(|port| port.neighbours(now));
        let neighbours = known.filter_map(|known| {
            let is_asked_for = matches!(&*known.state, "reachable" | "probing");
            let mac = known.mac.filter(|_| is_asked_for)?;
            Some(OfferedNeighbour { port: known.port, address: known.address, mac })
        });
        let sessions = self.node.subscribers.sessions.entries.len() as u64;
        Ok(Offer {
            format: self.format(),
            node: self.node.blueprint.name.clone(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            process: std::process::id(),
            state: self.node.persistence.state.is_some(),
            store: self.node.persistence.state.as_ref().map(|state| state.folder.clone()),
            sessions,
            standby: self.node.blueprint.standby.as_ref().map(|plan| plan.node.0),
            handover: part_in_moves(self.node.blueprint),
            devices: self.node.blueprint.devices().iter().map(|port| port.device.clone()).collect(),
            workers: self.node.blueprint.workers.count,
            ports: self.node.ports.iter().filter_map(|port| port.port_device().offered()).collect(),
            functions: functions.collect(),
            neighbours: neighbours.collect(),
            share: None,
        })
    }

    /// Whether another process can have all of the node, once nothing is under way.
    fn check_whole(&self) -> Result<(), String> {
        if self.node.persistence.is_upgrading() {
            return Err("another process is taking the node over already".to_owned());
        }
        match self.node.persistence.standby.as_ref().and_then(|standby| standby.why_away()) {
            Some(why) => Err(format!("{why}; try again")),
            None => Ok(()),
        }
    }

    /// The lowest format in which all goes along.
    fn format(&self) -> u16 {
        let blueprint = self.node.blueprint;
        if blueprint.functions.iter().any(|plan| !plan.composition.is_at_hand()) {
            return WITH_FUNCTIONS_AWAY;
        }
        match (&blueprint.handover, &blueprint.standby, &blueprint.pfcp) {
            (Some(_), ..) => WITH_MOVES,
            (None, Some(_), _) => WITH_STANDBY,
            (None, None, Some(_)) => WITH_SESSIONS,
            (None, None, None) => 1,
        }
    }

    /// What is still under way, if anything is.
    pub fn under_way(&self) -> Option<&'static str> {
        if self.migration.has_users() || self.migration.has_function() {
            return Some("a user or a function moves; try again");
        }
        if self.mobility.is_some_and(|mobility| mobility.at_rest().is_none()) {
            return Some("a user moves; try again");
        }
        if self.is_redirecting {
            return Some("a redirection table is being changed; try again");
        }
        // The records are read meanwhile, and nothing else can open the store.
        let standby = self.node.persistence.standby.as_ref();
        if standby.is_some_and(|standby| standby.is_copied_to()) {
            return Some("the standby is given all records; try again");
        }
        self.node
            .workers
            .is_changing()
            .then_some("an earlier change is still being applied; try again")
    }

    /// Closes the store, refuses commands from now on, and says what goes over first; `keep` is
    /// what the control protocol has of PFCP sessions.
    ///
    /// # Errors
    /// As [`offer`](Self::offer), and what is [under way](Self::under_way).
    pub fn begin(&mut self, keep: Vec<Keep>) -> Result<Prepared, String> {
        self.check_whole()?;
        if let Some(what) = self.under_way() {
            return Err(what.to_owned());
        }
        let moves = self.mobility.and_then(Mobility::at_rest);
        let functions = (0..).zip(&self.node.blueprint.functions);
        let in_processes = functions.filter(|(_, plan)| plan.is_isolated());
        let in_processes = in_processes.map(|(number, _)| number).collect();
        let mut prepared = Prepared { moves, in_processes, ..Prepared::default() };
        let (mut piece, mut size) = (Collection::default(), 0);
        let mut put = |change: Option<Change>| {
            let is_last = change.is_none();
            size += change.as_ref().map_or(0, Change::size);
            change.into_iter().for_each(|change| piece.add(change));
            if piece.len() >= PIECE || size >= OCTETS || is_last && !piece.is_empty() {
                let mut octets = Vec::new();
                // There is always room in memory.
                let _ = std::mem::take(&mut piece).write_to(&mut octets);
                prepared.records.push(octets);
                size = 0;
            }
        };
        self.bearer_records(&mut |change| put(Some(change)));
        self.node
            .persistence
            .composition_records(self.node.blueprint)
            .into_iter()
            .for_each(|change| put(Some(change)));
        let started = started(self.node.clock);
        keep.into_iter().for_each(|keep| put(Some(change_of(keep, started))));
        put(None);
        for scope in [Scope::Bearer, Scope::User, Scope::Group] {
            let mut all = self.node.subscribers.with_contexts(scope);
            if scope != Scope::Group {
                let sessions = self.node.subscribers.sessions.entries.keys();
                all.extend(sessions.copied().map(Whose::Session));
            }
            for some in all.chunks(PIECE) {
                let mut octets = Vec::new();
                for whose in some {
                    let Some(slot) = self.node.subscribers.context_slot(scope, whose) else {
                        continue;
                    };
                    let is_session = matches!(whose, Whose::Session(_));
                    prepared.before_sessions[position(scope)] += usize::from(!is_session);
                    prepared.slots[position(scope)].push(slot);
                    let key = names::key("", whose);
                    octets.extend((key.len() as u16).to_le_bytes());
                    octets.extend(key);
                }
                prepared.subjects.push((scope, octets));
            }
        }
        self.node.persistence.suspend();
        Ok(prepared)
    }

    /// All bearers that commands have added, default bearers first.
    fn bearer_records(&self, put: &mut dyn FnMut(Change)) {
        for dedicated in [false, true] {
            let kind: Kind = if dedicated { DEDICATED } else { BEARERS };
            for (id, entry) in self.node.subscribers.bearers.entries.iter() {
                if record::is_dedicated(entry) == dedicated {
                    let octets = record::write(entry, self.node.blueprint);
                    put(Change::put(kind, &id.0.to_be_bytes(), record::VERSION, &octets));
                }
            }
        }
    }
}

impl Restoration<'_> {
    /// Takes what another process of the node had: records, and a store. Where that is another
    /// one than the other process had, it has these records from now on, and no others. Where
    /// the other process can go on (`is_beside`), all is taken or nothing.
    ///
    /// # Errors
    /// [`BuildError`], above all [`BuildError::Kept`].
    pub fn take_records(
        &mut self,
        records: &(dyn Records + Sync),
        store: Option<(Store, Keeping)>,
        (is_beside, has_them): (bool, bool),
    ) -> Result<(), BuildError> {
        let bearers = self.restore_bearers(records)?;
        let (sessions, lost) = self.restore_sessions(records)?;
        if let Some((id, error)) = lost.first().filter(|_| is_beside) {
            return Err(BuildError::KeptSession { id: *id, reason: error.to_string() });
        }
        tell_lost(&lost);
        let Some((store, keeping)) = store else { return Ok(()) };
        let restored = Restored { bearers, sessions, contexts: 0 };
        let changes = if has_them { Vec::new() } else { replaced(&store, records)? };
        let Provisioning { persistence, blueprint, subscribers, .. } = &mut self.node;
        let kept = (store, keeping, restored);
        let state = persistence.begin_to_keep(kept, (blueprint, subscribers))?;
        state.changes.extend(changes);
        state.changes.push(life(false, 0));
        Ok(())
    }
}

/// Whether functions at other nodes are at other nodes still, as their contexts stay there.
///
/// # Errors
/// Which one is not.
pub(crate) fn check_places(offer: &Offer, blueprint: &Blueprint) -> Result<(), String> {
    for offered in &offer.functions {
        let mut own = blueprint.functions.iter();
        let Some(own) = own.find(|own| own.name == offered.name) else { continue };
        let (name, remote) = (&own.name, Composition::Remote);
        match (offered.composition == Some(remote), own.composition == remote) {
            (false, true) => {
                return Err(format!(
                    "function {name}: its contexts are at this node, and the configuration runs \
                     it at another one; move it there first (`weft ctl function {name} \
                     --composition remote --peer NODE`)"
                ));
            }
            (true, false) => {
                return Err(format!(
                    "function {name}: its contexts are at another node, and the configuration \
                     runs it at this one; call it back first (`weft ctl function {name} \
                     --composition call --peer NODE`)"
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether a function of a node is behind a NIC: two processes cannot have its devices at a time.
pub(crate) fn has_vf(offer: &Offer, blueprint: &Blueprint) -> bool {
    let vf = Composition::Vf;
    offer.functions.iter().any(|offered| offered.composition == Some(vf))
        || blueprint.functions.iter().any(|own| own.composition == vf)
}

/// The number of a node, and what it is, where it takes part in moves of users.
pub(crate) fn part_in_moves(blueprint: &Blueprint) -> Option<(u32, String)> {
    let plan = blueprint.handover.as_ref()?;
    Some((plan.node.0, plan.role.name().to_owned()))
}

/// The slots of those whose names another process has given; none for those that this
/// configuration does not have.
///
/// # Errors
/// When they are no names.
pub(crate) fn named_slots(
    subscribers: &Subscribers,
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
        slots.push(subscribers.context_slot(scope, &whose));
        rest = behind;
    }
    match rest.is_empty() {
        true => Ok(slots),
        false => Err("a name that is cut off".to_owned()),
    }
}

/// Neighbours are known to be there, as another process had heard.
pub(crate) fn take_neighbours(
    neighbours: &[OfferedNeighbour],
    ports: &mut Ports,
    means: &mut Means<'_>,
    now: u64,
) {
    for known in neighbours {
        let (Ok(address), Ok(mac)) = (known.address.parse(), known.mac.parse()) else {
            continue;
        };
        if let Some(port) = ports.restore(&known.port, address, mac, now) {
            ports.send(port, means);
        }
    }
}

/// What makes a store one of these records and no others.
fn replaced(store: &Store, records: &dyn Records) -> Result<Vec<Change>, StateError> {
    let mut changes = Vec::new();
    for kind in ALL {
        store.each(kind, |key, _, _| {
            changes.push(Change::remove(kind, key));
            Ok(())
        })?;
        records.each_of(kind, &mut |key, version, octets| {
            changes.push(Change::put(kind, key, version, octets));
            Ok(())
        })?;
    }
    Ok(changes)
}

/// In which version each function's contexts are to come: as they are, or as the newest that this
/// program reads. None where all come as they are.
pub(crate) fn versions(offer: &Offer, blueprint: &Blueprint) -> Option<Vec<u16>> {
    let wanted = offer.functions.iter().map(|offered| {
        let own = blueprint.functions.iter().find(|own| own.name == offered.name);
        let own = own.filter(|own| own.kind.name == offered.function);
        own.map_or(offered.version, |own| own.kind.context_version.min(offered.version))
    });
    let wanted: Vec<_> = wanted.collect();
    let offered = offer.functions.iter().map(|offered| offered.version);
    (!offered.eq(wanted.iter().copied())).then_some(wanted)
}

/// Whether the configuration has the functions whose contexts are offered, and can read them.
///
/// # Errors
/// What it cannot read.
pub(crate) fn check_functions(offer: &Offer, blueprint: &Blueprint) -> Result<(), String> {
    for offered in &offer.functions {
        let mut own = blueprint.functions.iter();
        let Some(own) = own.find(|own| own.name == offered.name) else { continue };
        let oldest = offered.oldest.unwrap_or(offered.version);
        if own.kind.name == offered.function && own.kind.context_version < oldest {
            return Err(format!(
                "function {}: contexts of version {}, of a newer release; this one reads up to \
                 version {}",
                own.name, offered.version, own.kind.context_version
            ));
        }
    }
    Ok(())
}
