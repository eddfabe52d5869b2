//! Announcement of networks by BGP.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// What is announced, and to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BgpPlan {
    /// Our AS number.
    pub autonomous_system: u32,
    /// BGP identifier.
    pub identifier: Ipv4Addr,
    /// Routers.
    pub peers: Vec<BgpPeerPlan>,
    /// Where packets for the networks are to be sent, one address of a family at most.
    pub next_hops: Vec<IpAddr>,
    /// What is announced.
    pub networks: Vec<(IpAddr, u8)>,
    /// Silence after which a session ends.
    pub hold: Duration,
    /// For how long routes are to stay when the connection is lost; none to let them go.
    pub restart: Option<Duration>,
}

/// A router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BgpPeerPlan {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its AS number.
    pub autonomous_system: u32,
}
