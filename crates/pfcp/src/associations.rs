//! Control planes that the node is associated with (§5.4, §6.2.6).

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::codec::element::{CpFeatures, NodeId, Text};

/// The identity of a control plane.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum NodeKey {
    Address(IpAddr),
    /// A domain name in lower case.
    Name(Box<str>),
}

impl NodeKey {
    pub fn of(node: &NodeId<'_>) -> NodeKey {
        match node {
            NodeId::Address(address) => NodeKey::Address(*address),
            NodeId::Fqdn(name) => {
                let name: String = name.name().map(|letter| letter.to_ascii_lowercase()).collect();
                NodeKey::Name(name.into())
            }
        }
    }
}

impl std::fmt::Display for NodeKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NodeKey::Address(address) => address.fmt(f),
            NodeKey::Name(name) => Text(name.as_bytes()).fmt(f),
        }
    }
}

/// Whether an address is in one of the networks.
pub(crate) fn is_within(networks: &[(IpAddr, u8)], address: IpAddr) -> bool {
    let within = |(network, length): &(IpAddr, u8)| match (*network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            let shift = 32 - u32::from((*length).min(32));
            (network.to_bits() ^ address.to_bits()).checked_shr(shift).unwrap_or(0) == 0
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            let shift = 128 - u32::from((*length).min(128));
            (network.to_bits() ^ address.to_bits()).checked_shr(shift).unwrap_or(0) == 0
        }
        _ => false,
    };
    networks.iter().any(within)
}

/// Number of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AssociationId(pub u32);

/// An association.
#[derive(Debug)]
pub(crate) struct Association {
    pub node: NodeKey,
    /// Where its messages come from, and requests go.
    pub address: IpAddr,
    /// When it started, in seconds of NTP.
    pub recovery: u32,
    pub features: CpFeatures,
    /// Its sessions. A session knows its place here.
    pub sessions: Vec<u64>,
    /// When the next Heartbeat Request is due.
    pub heartbeat: u64,
    /// If it has failed: when its sessions are given up.
    pub lost_until: Option<u64>,
}

/// All associations.
#[derive(Debug, Default)]
pub(crate) struct Associations {
    slots: Vec<Option<(u32, Association)>>,
    next: u32,
}

impl Associations {
    pub fn len(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    pub fn add(&mut self, association: Association) -> AssociationId {
        self.next = self.next.wrapping_add(1);
        let slot = self.slots.iter().position(Option::is_none).unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some((self.next, association));
        AssociationId(self.next)
    }

    /// One that there was in the node's last life, under the number that it had.
    pub fn add_as(&mut self, id: AssociationId, association: Association) {
        self.slots.push(Some((id.0, association)));
        self.next = self.next.max(id.0);
    }

    pub fn remove(&mut self, id: AssociationId) -> Option<Association> {
        let slot =
            self.slots.iter_mut().find(|slot| slot.as_ref().is_some_and(|one| one.0 == id.0));
        slot.and_then(Option::take).map(|(_, association)| association)
    }

    pub fn get(&self, id: AssociationId) -> Option<&Association> {
        self.iter().find(|(known, _)| *known == id).map(|(_, association)| association)
    }

    pub fn get_mut(&mut self, id: AssociationId) -> Option<&mut Association> {
        let found = self.slots.iter_mut().flatten().find(|(known, _)| *known == id.0);
        found.map(|(_, association)| association)
    }

    pub fn iter(&self) -> impl Iterator<Item = (AssociationId, &Association)> {
        self.slots.iter().flatten().map(|(id, association)| (AssociationId(*id), association))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (AssociationId, &mut Association)> {
        self.slots.iter_mut().flatten().map(|(id, one)| (AssociationId(*id), one))
    }

    pub fn of_node(&self, node: &NodeKey) -> Option<AssociationId> {
        self.iter().find(|(_, one)| one.node == *node).map(|(id, _)| id)
    }

    /// The association that a request's Node ID names, if the request comes from there.
    pub fn of_sender(&self, node: &NodeId<'_>, from: IpAddr) -> Option<AssociationId> {
        let key = NodeKey::of(node);
        let found = self.iter().find(|(_, one)| one.address == from && one.node == key);
        found.map(|(id, _)| id)
    }
}
