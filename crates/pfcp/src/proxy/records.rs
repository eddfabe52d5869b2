//! What outlives the proxy: its Recovery Time Stamp, the control planes and their applications,
//! and what nodes were when they were heard last. No session is among it.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::Proxy;
use super::associations::ControlPlane;
use super::nodes::NodeRecord;
use crate::associations::NodeKey;
use crate::codec::element::Time;

/// A record under its key; none if it is to be removed.
pub type Kept = (Vec<u8>, Option<Vec<u8>>);

/// Key of the Recovery Time Stamp.
const RECOVERY: &[u8] = b"r";
/// First octets of the other keys.
const PEER: u8 = b'c';
const NODE: u8 = b'n';
const APPLICATION: u8 = b'p';

/// A control plane as it is kept.
#[derive(Serialize, Deserialize)]
struct PeerNote {
    node: NodeKey,
    address: IpAddr,
    setup: Vec<u8>,
}

fn key(kind: u8, rest: &[u8]) -> Vec<u8> {
    [&[kind], rest].concat()
}

fn key_of_peer(peer: &NodeKey) -> Vec<u8> {
    key(PEER, peer.to_string().as_bytes())
}

impl Proxy {
    /// What is to be kept next, in order.
    pub fn take_kept(&mut self) -> Vec<Kept> {
        std::mem::take(&mut self.kept)
    }

    pub(super) fn keep_peer(&mut self, peer: &NodeKey) {
        let octets = self.peers.get(peer).map(|one| {
            let note =
                PeerNote { node: peer.clone(), address: one.address, setup: one.setup.clone() };
            // Numbers, names and octets can be written.
            serde_json::to_vec(&note).unwrap_or_default()
        });
        self.kept.push((key_of_peer(peer), octets));
    }

    pub(super) fn keep_node(&mut self, number: u16) {
        let record = match self.nodes.get(&number) {
            Some(node) => node.record,
            None => self.remembered.get(&number).copied(),
        };
        let octets = record.map(|record| serde_json::to_vec(&record).unwrap_or_default());
        self.kept.push((key(NODE, &number.to_be_bytes()), octets));
    }

    pub(super) fn keep_application(&mut self, name: &[u8]) {
        self.kept.push((key(APPLICATION, name), self.applications.get(name).cloned()));
    }

    /// Goes on with what was kept.
    pub(super) fn restore(&mut self, kept: Vec<(Vec<u8>, Vec<u8>)>) {
        let mut has_recovery = false;
        for (key, octets) in kept {
            let read = match key.split_first() {
                _ if key == RECOVERY => octets.first_chunk().map(|octets| {
                    self.recovery = Time(u32::from_be_bytes(*octets));
                    has_recovery = true;
                }),
                Some((&PEER, _)) => self.restore_peer(&octets),
                Some((&NODE, rest)) => rest.try_into().ok().and_then(|number| {
                    let record = serde_json::from_slice::<NodeRecord>(&octets).ok()?;
                    self.restore_node(u16::from_be_bytes(number), record);
                    Some(())
                }),
                Some((&APPLICATION, name)) => {
                    self.applications.insert(name.to_vec(), octets);
                    Some(())
                }
                _ => None,
            };
            if read.is_none() {
                tracing::error!("N4: a record cannot be read");
            }
        }
        if !has_recovery {
            self.kept.push((RECOVERY.to_vec(), Some(self.recovery.0.to_be_bytes().to_vec())));
        }
    }

    fn restore_peer(&mut self, octets: &[u8]) -> Option<()> {
        let note: PeerNote = serde_json::from_slice(octets).ok()?;
        let peer = ControlPlane::read(note.address, note.setup)?;
        self.peers.insert(note.node, peer);
        Some(())
    }
}
