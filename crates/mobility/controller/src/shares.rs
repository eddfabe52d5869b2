//! Shares of nodes behind N4: what a node is known by (its number in SEIDs, addresses of its ports,
//! pools), with its PFCP sessions. A share is at the node that it is named after, its home, or at
//! another one. There is a record of each that is not at home or that moves, and none of a session.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weft_state::{Change, Kind, RecordStore, StateError};

/// Records of shares: the number, and the share.
const SHARES: Kind = Kind(21);
/// Version of these records.
const VERSION: u8 = 1;

/// A share as it is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareRecord {
    /// Its home.
    pub home: String,
    /// Where it is, if not there.
    pub holder: Option<Holder>,
    /// Its move, if it moves.
    pub moving: Option<Moving>,
    /// The move by which it came to where it is.
    pub last: Option<String>,
}

/// A node that has the share of another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its name.
    pub name: String,
    /// Where N4 finds it.
    pub address: IpAddr,
    /// The process that has it: one that comes later has lost it.
    pub process: u64,
}

/// A move of a share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moving {
    /// What it is known by, in hexadecimal digits.
    pub id: String,
    /// The node that gives the share.
    pub from: String,
    /// The node that takes it.
    pub to: Holder,
    /// Where that one waits, as `HOST:PORT`.
    pub at: String,
}

/// A share as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShareView {
    /// Its number: the first 16 bits of its SEIDs.
    pub number: u16,
    /// The node that it is named after.
    pub home: String,
    /// The node that has it.
    pub holder: String,
    /// The node that is to have it, while it moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moves_to: Option<String>,
    /// Packets that its last move since this controller leads has dropped: they waited for idle
    /// bearers or functions.
    #[serde(default)]
    pub dropped: u32,
    /// Why its last move since this controller leads has come to nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl ShareRecord {
    /// The node that has it.
    pub fn at(&self) -> &str {
        self.holder.as_ref().map_or(&self.home, |holder| &holder.name)
    }

    /// Whether the node of that name has it, and is not its home.
    pub fn is_held_by(&self, name: &str) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.name == name)
    }
}

/// All that are kept, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShareRecords(BTreeMap<u16, ShareRecord>);

impl ShareRecords {
    /// Those of a store.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn read(store: &dyn RecordStore) -> Result<ShareRecords, StateError> {
        let mut all = BTreeMap::new();
        store.each_of(SHARES, &mut |key, version, octets| {
            let number = key.try_into().map_err(|_| "a share without a number")?;
            let read = serde_json::from_slice(octets).ok().filter(|_| version == VERSION);
            let read: ShareRecord = read.ok_or("a share that means nothing here")?;
            all.insert(u16::from_be_bytes(number), read);
            Ok(())
        })?;
        Ok(ShareRecords(all))
    }

    /// One of them.
    pub fn get(&self, number: u16) -> Option<&ShareRecord> {
        self.0.get(&number)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &ShareRecord)> {
        self.0.iter().map(|(number, record)| (*number, record))
    }

    /// Puts one in place of what was kept; what says nothing is not kept.
    pub fn put(&mut self, number: u16, record: ShareRecord) -> Change {
        let key = number.to_be_bytes();
        // Who has taken part in the last move may ask what has become of it.
        if record.holder.is_none() && record.moving.is_none() && record.last.is_none() {
            self.0.remove(&number);
            return Change::remove(SHARES, &key);
        }
        // Names and addresses can be written.
        let octets = serde_json::to_vec(&record).unwrap_or_default();
        self.0.insert(number, record);
        Change::put(SHARES, &key, VERSION, &octets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_and_what_says_nothing_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let owner = weft_state::Owner { role: weft_state::Role::Controller, name: String::new() };
        let mut store = weft_state::Store::open(folder.path(), &owner).unwrap();
        let mut records = ShareRecords::default();
        let holder = Holder {
            name: "x".repeat(64),
            address: "2001:db8::1".parse().unwrap(),
            process: u64::MAX,
        };
        let record = ShareRecord {
            home: "y".repeat(64),
            holder: Some(holder.clone()),
            moving: Some(Moving {
                id: "f".repeat(32),
                from: holder.name.clone(),
                to: holder,
                at: "z".repeat(255),
            }),
            last: Some("f".repeat(32)),
        };
        let octets = serde_json::to_vec(&record).unwrap();
        assert!(octets.len() <= 900, "records in etcd are short: {}", octets.len());
        store.write(&[records.put(3, record.clone())]).unwrap();
        assert_eq!(ShareRecords::read(&store).unwrap(), records);
        let home = ShareRecord { holder: None, moving: None, ..record };
        store.write(&[records.put(3, home.clone())]).unwrap();
        assert_eq!(ShareRecords::read(&store).unwrap().get(3), Some(&home), "it may be asked for");
        let home = ShareRecord { last: None, ..home };
        store.write(&[records.put(3, home)]).unwrap();
        assert_eq!(ShareRecords::read(&store).unwrap(), ShareRecords::default());
    }
}
