//! An upgrade as records of a store.
//!
//! ```text
//! kind 19  upgrade  key "upgrade"    all but its nodes, as JSON
//!                   key 0..2 place   the node at that place, as JSON
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weft_state::{Change, Kind, RecordStore, StateError};

use super::{Method, NodeUpgrade, Phase, Upgrade};

const UPGRADE: Kind = Kind(19);
const HEAD: &[u8] = b"upgrade";
const VERSION: u8 = 1;
/// Octets of a record, as a store may take no longer ones.
const MOST: usize = 1000;

/// What is durable of an upgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records(BTreeMap<Vec<u8>, Vec<u8>>);

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Head {
    number: u64,
    method: Method,
    phase: Phase,
    reason: String,
    cancelled: bool,
}

impl Records {
    /// Reads what a store has.
    ///
    /// # Errors
    /// [`StateError`], above all when a record means nothing.
    pub fn read(store: &dyn RecordStore) -> Result<Records, StateError> {
        let mut records = BTreeMap::new();
        store.each_of(UPGRADE, &mut |key, version, octets| {
            let means = match key {
                HEAD => serde_json::from_slice::<Head>(octets).is_ok(),
                [_, _] => serde_json::from_slice::<NodeUpgrade>(octets).is_ok(),
                _ => false,
            };
            if !means || version != VERSION {
                return Err("an upgrade that means nothing here".to_owned());
            }
            records.insert(key.to_vec(), octets.to_vec());
            Ok(())
        })?;
        Ok(Records(records))
    }

    /// The upgrade that they say.
    pub fn upgrade(&self) -> Upgrade {
        let head = self.0.get(HEAD).and_then(|octets| serde_json::from_slice(octets).ok());
        let Head { number, method, phase, reason, cancelled } = head.unwrap_or_default();
        let nodes = self.0.iter().filter(|(key, _)| key.as_slice() != HEAD);
        // Keys are in the order of places.
        let nodes = nodes.filter_map(|(_, octets)| serde_json::from_slice(octets).ok()).collect();
        Upgrade {
            method,
            phase,
            reason,
            is_cancelled: cancelled,
            nodes,
            ..Upgrade::begin(number, method, Vec::new())
        }
    }

    /// What is to be written so that they say this upgrade.
    pub fn follow(&mut self, upgrade: &Upgrade) -> Vec<Change> {
        let head = Head {
            number: upgrade.number,
            method: upgrade.method,
            phase: upgrade.phase,
            reason: upgrade.reason.clone(),
            cancelled: upgrade.is_cancelled,
        };
        let head = fitting(&head, |head| &mut head.reason);
        let mut wanted = BTreeMap::from([(HEAD.to_vec(), head)]);
        let nodes = upgrade.nodes.iter().enumerate();
        wanted.extend(nodes.map(|(at, node)| {
            ((at as u16).to_be_bytes().to_vec(), fitting(node, |node| &mut node.reason))
        }));
        let gone = self.0.keys().filter(|key| !wanted.contains_key(*key));
        let mut changes: Vec<_> = gone.map(|key| Change::remove(UPGRADE, key)).collect();
        let new = wanted.iter().filter(|(key, octets)| self.0.get(*key) != Some(octets));
        changes.extend(new.map(|(key, octets)| Change::put(UPGRADE, key, VERSION, octets)));
        self.0 = wanted;
        changes
    }
}

/// As JSON that fits into a record: with as much of its reason as there is room for.
fn fitting<T: Serialize + Clone>(value: &T, reason: impl Fn(&mut T) -> &mut String) -> Vec<u8> {
    let mut value = value.clone();
    loop {
        // Texts and numbers: there is nothing that JSON could not say.
        let octets = serde_json::to_vec(&value).unwrap_or_default();
        let reason = reason(&mut value);
        if octets.len() <= MOST || reason.is_empty() {
            return octets;
        }
        let kept = reason.chars().count() * 3 / 4;
        *reason = reason.chars().take(kept).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store of etcd takes 1,024 octets.
    #[test]
    fn the_longest_records_fit() {
        let text = |octets: usize| "\"".repeat(octets);
        let mut upgrade = Upgrade::begin(u64::MAX, Method::Drain, vec![(text(64), None)]);
        upgrade.reason = text(600);
        let node = &mut upgrade.nodes[0];
        (node.before, node.after, node.reason) = (text(40), text(40), text(500));
        (node.process, node.incarnation, node.orders) = (u64::MAX, u32::MAX, u64::MAX);
        let mut records = Records::default();
        assert_eq!((records.upgrade().number, records.upgrade().phase), (0, Phase::Complete));
        assert_eq!(records.follow(&upgrade).len(), 2);
        assert!(records.0.values().all(|octets| octets.len() <= 1024), "{records:?}");
        let read = records.upgrade();
        assert!(!read.reason.is_empty() && upgrade.reason.starts_with(&read.reason));
        let reason = read.nodes[0].reason.clone();
        assert!(!reason.is_empty() && upgrade.nodes[0].reason.starts_with(&reason));
        upgrade.nodes[0].reason = reason;
        assert_eq!(read.nodes, upgrade.nodes);
        // One with fewer nodes takes the place of all of it.
        let empty = Upgrade::begin(1, Method::InPlace, Vec::new());
        assert_eq!(records.follow(&empty).len(), 2);
        assert_eq!(records.upgrade().nodes, []);
    }
}
