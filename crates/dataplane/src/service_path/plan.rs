//! Service paths and next hops, as a configuration describes them.

use std::net::IpAddr;
use std::time::Duration;

use weft_dpdk::Packet;
use weft_function::{Metadata, PacketMetadata};

use crate::offload::Policy;

/// Where the source address of an Ethernet frame stands.
const SOURCE: std::ops::Range<usize> = 6..12;

/// A service path through the node (RFC 8300).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPlan {
    /// Service path identifier.
    pub id: u32,
    /// Service index of packets that come.
    pub index: u8,
    /// Service index of packets that go on.
    pub next: u8,
    /// Who they come from.
    pub peer: Peer,
    /// Where they go.
    pub hop: Hop,
}

/// Who frames of a path come from. Frames that come in elsewhere, or from another sender,
/// are not believed: what stands in a service header says nothing of who wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Number of the port at which they come in.
    pub port: u16,
    /// Their source address.
    pub from: PeerAddress,
}

/// A source address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAddress {
    /// Of an Ethernet frame, which has no VLAN tag.
    Station([u8; 6]),
    /// Of the IP packet around VXLAN-GPE.
    Address(IpAddr),
}

impl Peer {
    /// Whether a frame has come from there, as its metadata say where its headers are.
    #[inline]
    pub fn has_sent(&self, frame: &Packet) -> bool {
        let metadata = frame.metadata();
        let outer = usize::from(metadata.outer_offset);
        let from = match (self.from, frame.data().get(outer).map(|first| first >> 4)) {
            (PeerAddress::Station(mac), _) => {
                let source = frame.data().get(SOURCE);
                outer == 0 && metadata.vlan == PacketMetadata::NO_VLAN && source == Some(&mac)
            }
            _ if outer == 0 => false,
            (PeerAddress::Address(IpAddr::V4(address)), Some(4)) => {
                frame.data().get(outer + 12..outer + 16) == Some(&address.octets())
            }
            (PeerAddress::Address(IpAddr::V6(address)), Some(6)) => {
                frame.data().get(outer + 8..outer + 24) == Some(&address.octets())
            }
            (PeerAddress::Address(_), _) => false,
        };
        from && metadata.port == self.port
    }
}

/// The next hop of a service path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Number of the port that leads there.
    pub port: u16,
    /// Who it is.
    pub to: HopTo,
}

/// Who a next hop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopTo {
    /// A station of the link: NSH in Ethernet frames.
    Station([u8; 6]),
    /// An IP address: NSH in VXLAN-GPE.
    Address {
        /// The node's own.
        from: IpAddr,
        /// Of the same family.
        to: IpAddr,
    },
}

/// How packets get to a function at another node, and back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemotePlan {
    /// Service path identifiers, uplink and downlink.
    pub paths: [u32; 2],
    /// Service index with which packets go.
    pub index: u8,
    /// Service index with which they come back.
    pub back: u8,
    /// The first hop.
    pub hop: Hop,
    /// Who they come back from.
    pub peer: Peer,
    /// Whether metadata is of MD type 1.
    pub fixed: bool,
    /// What becomes of packets while the path is not there.
    pub policy: Policy,
    /// A packet that is not back after so long is lost.
    pub timeout: Duration,
    /// How often the path is tried.
    pub probe: Duration,
}
