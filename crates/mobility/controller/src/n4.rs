//! One N4 for several nodes: what the controller knows of it, and keeps for it.
//!
//! The proxy itself is `weft-pfcp`'s, which is above this crate; the program connects the two.

pub mod nodes;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weft_state::{Change, Kind, RecordStore, StateError};
use weft_yaml::values::Subnet;

/// Records of the proxy: a key, and the part of a value.
const N4: Kind = Kind(20);
/// Version of these records.
const VERSION: u8 = 1;
/// Octets of a part: records in etcd are short.
const PART: usize = 900;
/// UDP port at which nodes listen.
pub(crate) const PORT: u16 = 8805;

/// How N4 is served, as the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct N4 {
    /// Addresses at which the controller that leads listens, at most one of each family.
    pub listen: Vec<IpAddr>,
    /// UDP port.
    pub port: u16,
    /// Node ID: an address or a domain name.
    pub node_id: Result<IpAddr, String>,
    /// Networks of control planes; none for any.
    pub peers: Vec<(IpAddr, u8)>,
    /// The nodes that the file names.
    pub nodes: Vec<N4Node>,
    /// Whether others register.
    pub registers: bool,
    /// Time between heartbeats.
    pub heartbeat: Duration,
    /// T1.
    pub t1: Duration,
    /// N1.
    pub n1: u8,
    /// How long a node may be silent.
    pub lease: Duration,
    /// Most control planes.
    pub associations: usize,
}

/// A node behind N4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct N4Node {
    /// Its name, as other sections have it.
    pub name: String,
    /// Its number in SEIDs.
    pub number: u16,
    /// Where it listens.
    pub address: SocketAddr,
}

/// A node behind N4 as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct N4NodeView {
    /// Its name.
    pub name: String,
    /// Its number: the first 16 bits of its SEIDs.
    pub number: u16,
    /// Where it listens.
    pub address: String,
    /// `up`, `silent`, `cordoned`, `leaving`, `restarted` (control planes are being told that its
    /// sessions are gone) or `given-up`.
    pub state: String,
    /// Sessions that it has.
    pub sessions: u32,
    /// Sessions that it has room for.
    pub most: u32,
    /// Control planes that it is associated with.
    pub associations: usize,
    /// Whether it has registered, and is not in the controller's file.
    #[serde(default)]
    pub registered: bool,
}

/// A node that registers and cannot be behind N4.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct N4RefusedView {
    /// Its name.
    pub node: String,
    /// Why.
    pub reason: String,
}

/// A control plane as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct N4PeerView {
    /// Node ID.
    pub node: String,
    /// Its address.
    pub address: String,
    /// Whether it answers.
    pub up: bool,
}

/// N4 as it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct N4View {
    /// The nodes, by number.
    pub nodes: Vec<N4NodeView>,
    /// Nodes that register and cannot be behind N4.
    #[serde(default)]
    pub refused: Vec<N4RefusedView>,
    /// Control planes.
    pub control_planes: Vec<N4PeerView>,
    /// What was counted since this controller leads, by name.
    pub counts: BTreeMap<String, u64>,
}

/// What is shown of N4, by whom it is served; none while it is not.
#[derive(Clone, Debug, Default)]
pub struct N4Shown(Arc<Mutex<Option<N4View>>>);

impl N4Shown {
    /// What there is from now on; none if N4 is not served.
    pub fn set(&self, view: Option<N4View>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = view;
    }

    /// What there is.
    pub fn get(&self) -> Option<N4View> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl N4 {
    /// The node of that name.
    pub fn node(&self, name: &str) -> Option<&N4Node> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// Whether an address is in a network of control planes that the file names.
    pub fn is_of_peers(&self, address: IpAddr) -> bool {
        self.peers.iter().any(|(network, length)| Subnet(*network, *length).contains(address))
    }
}

/// Records of the proxy by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct N4Records(BTreeMap<Vec<u8>, Vec<u8>>);

impl N4Records {
    /// Those of a store.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn read(store: &dyn RecordStore) -> Result<N4Records, StateError> {
        let mut parts: BTreeMap<Vec<u8>, BTreeMap<u16, Vec<u8>>> = BTreeMap::new();
        store.each_of(N4, &mut |key, version, octets| {
            let (key, part) = key.split_last_chunk().ok_or("a record of N4 without a part")?;
            if version != VERSION {
                return Err("a record of N4 that means nothing here".into());
            }
            let parts = parts.entry(key.to_vec()).or_default();
            parts.insert(u16::from_be_bytes(*part), octets.to_vec());
            Ok(())
        })?;
        let whole = |parts: BTreeMap<u16, Vec<u8>>| parts.into_values().flatten().collect();
        Ok(N4Records(parts.into_iter().map(|(key, parts)| (key, whole(parts))).collect()))
    }

    /// All of them.
    pub fn all(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.0.iter().map(|(key, octets)| (key.clone(), octets.clone())).collect()
    }

    /// Takes a record, or that there is none; the changes of the store.
    pub fn take(&mut self, key: Vec<u8>, octets: Option<Vec<u8>>) -> Vec<Change> {
        let parts = |octets: &[u8]| octets.len().div_ceil(PART).max(1) as u16;
        let before = self.0.get(&key).map_or(0, |octets| parts(octets));
        let at = |part: u16| [&key[..], &part.to_be_bytes()].concat();
        let mut changes = Vec::new();
        let mut count = 0;
        if let Some(octets) = &octets {
            count = parts(octets);
            let mut all: Vec<&[u8]> = octets.chunks(PART).collect();
            if all.is_empty() {
                all.push(&[]);
            }
            let put = |(part, octets): (u16, &&[u8])| Change::put(N4, &at(part), VERSION, octets);
            changes.extend((0..count).zip(&all).map(put));
        }
        changes.extend((count..before).map(|part| Change::remove(N4, &at(part))));
        match octets {
            Some(octets) => drop(self.0.insert(key, octets)),
            None => drop(self.0.remove(&key)),
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_records_are_kept_in_parts() {
        let folder = tempfile::tempdir().unwrap();
        let owner = weft_state::Owner { role: weft_state::Role::Controller, name: String::new() };
        let mut store = weft_state::Store::open(folder.path(), &owner).unwrap();
        let mut records = N4Records::default();
        for length in [5000, 900, 901, 0, 2700] {
            let octets: Vec<u8> = (0..length).map(|nth| (nth % 251) as u8).collect();
            let changes = records.take(b"a".to_vec(), Some(octets));
            let others = records.take(b"ab".to_vec(), Some(vec![7; length]));
            store.write(&[changes, others].concat()).unwrap();
            assert_eq!(N4Records::read(&store).unwrap(), records, "{length}");
        }
        store.write(&records.take(b"a".to_vec(), None)).unwrap();
        assert_eq!(N4Records::read(&store).unwrap().all(), [(b"ab".to_vec(), vec![7; 2700])]);
    }
}
