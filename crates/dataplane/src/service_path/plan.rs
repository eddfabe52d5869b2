//! Service paths and next hops, as a configuration describes them.

use std::net::IpAddr;
use std::time::Duration;

use crate::offload::Policy;

/// A service path through the node (RFC 8300).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPlan {
    /// Service path identifier.
    pub id: u32,
    /// Service index of packets that come.
    pub index: u8,
    /// Service index of packets that go on.
    pub next: u8,
    /// Where they go.
    pub hop: Hop,
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
    /// Whether metadata is of MD type 1.
    pub fixed: bool,
    /// What becomes of packets while the path is not there.
    pub policy: Policy,
    /// A packet that is not back after so long is lost.
    pub timeout: Duration,
    /// How often the path is tried.
    pub probe: Duration,
}
