//! Which number a node behind N4 has, and where one that has registered is. A number that a node has
//! had is never another one's: control planes may hear of its sessions late.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use weft_state::{Change, Kind, RecordStore, StateError};

/// Records of nodes: the number, and the node.
const NODES: Kind = Kind(22);
/// Version of these records.
const VERSION: u8 = 1;

/// A node as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct N4NodeRecord {
    /// Its name.
    pub name: String,
    /// Where it is, if it is a node for N4 because it has registered.
    pub address: Option<IpAddr>,
}

/// All that are kept, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct N4NodeRecords(BTreeMap<u16, N4NodeRecord>);

impl N4NodeRecords {
    /// Those of a store.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn read(store: &dyn RecordStore) -> Result<N4NodeRecords, StateError> {
        let mut all = BTreeMap::new();
        store.each_of(NODES, &mut |key, version, octets| {
            let number = key.try_into().map_err(|_| "a node of N4 without a number")?;
            let read = serde_json::from_slice(octets).ok().filter(|_| version == VERSION);
            let read: N4NodeRecord = read.ok_or("a node of N4 that means nothing here")?;
            all.insert(u16::from_be_bytes(number), read);
            Ok(())
        })?;
        Ok(N4NodeRecords(all))
    }

    /// The node that has, or had, a number.
    pub fn get(&self, number: u16) -> Option<&N4NodeRecord> {
        self.0.get(&number)
    }

    /// The nodes that have registered: number, name and address.
    pub fn registered(&self) -> impl Iterator<Item = (u16, &str, IpAddr)> {
        self.0.iter().filter_map(|(number, one)| Some((*number, &*one.name, one.address?)))
    }

    /// The number by which a node has registered.
    pub fn registered_as(&self, name: &str) -> Option<u16> {
        let mut registered = self.registered();
        registered.find(|(_, known, _)| *known == name).map(|(number, ..)| number)
    }

    /// The number of a node: that by which it has registered, or one that it has had.
    pub fn of(&self, name: &str) -> Option<u16> {
        let had = || self.0.iter().find(|(_, one)| one.name == name).map(|(number, _)| *number);
        self.registered_as(name).or_else(had)
    }

    /// Puts one in place of what was kept.
    pub fn put(&mut self, number: u16, record: N4NodeRecord) -> Change {
        // A name and an address can be written.
        let octets = serde_json::to_vec(&record).unwrap_or_default();
        self.0.insert(number, record);
        Change::put(NODES, &number.to_be_bytes(), VERSION, &octets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_keeps_its_number_and_no_other_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let owner = weft_state::Owner { role: weft_state::Role::Controller, name: String::new() };
        let mut store = weft_state::Store::open(folder.path(), &owner).unwrap();
        let mut records = N4NodeRecords::default();
        let long = N4NodeRecord {
            name: "x".repeat(64),
            address: Some("2001:db8:1111:2222:3333:4444:5555:6666".parse().unwrap()),
        };
        let octets = serde_json::to_vec(&long).unwrap();
        assert!(octets.len() <= 900, "records in etcd are short: {}", octets.len());
        let gone = N4NodeRecord { name: "y".to_owned(), address: None };
        let changes = [records.put(u16::MAX, long.clone()), records.put(7, gone)];
        store.write(&changes).unwrap();
        assert_eq!(N4NodeRecords::read(&store).unwrap(), records);
        let registered: Vec<_> = records.registered().collect();
        assert_eq!(registered, [(u16::MAX, &*long.name, long.address.unwrap())]);
        assert_eq!((records.of("y"), records.of("z")), (Some(7), None));
        // Where it has registered counts before what it had.
        let again = N4NodeRecord { name: "y".to_owned(), ..long };
        store.write(&[records.put(9, again)]).unwrap();
        assert_eq!(N4NodeRecords::read(&store).unwrap().of("y"), Some(9));
    }
}
