//! Ports, and the service paths through a node.

use std::net::IpAddr;

use weft_dataplane::service_path::PathPlan;
use weft_dpdk::Checksums;
use weft_function::Direction;

/// One port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortPlan {
    /// Name, as rules write it.
    pub name: String,
    /// DPDK device string, or `ring:NAME`.
    pub device: String,
    /// Direction of the packets that come in here.
    pub direction: Direction,
    /// Number of its network instance: a position in
    /// [`Blueprint::networks`](super::Blueprint::networks).
    pub network: u32,
    /// MAC address to use; `None` for the device's own.
    pub mac: Option<[u8; 6]>,
    /// Longest IP packet, in bytes.
    pub mtu: u16,
    /// Own addresses, with the prefix lengths of their subnets.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Next hops beyond the subnets, at most one of each family.
    pub gateways: Vec<IpAddr>,
    /// MAC address that everything sent here goes to.
    pub next_hop_mac: Option<[u8; 6]>,
    /// Neighbours that are not asked for with ARP or ND.
    pub neighbours: Vec<(IpAddr, [u8; 6])>,
    /// Prefixes for which ARP and ND are answered here (RFC 1027, RFC 4389).
    pub proxy: Vec<(IpAddr, u8)>,
    /// Receive queues.
    pub queues: u16,
    /// Packets that each queue holds.
    pub descriptors: u16,
    /// Whether its device is given flow rules, where it takes some.
    pub flow_rules: bool,
    /// Who computes checksums.
    pub checksums: Checksums,
    /// The worker that polls queue 0; queue `i` is polled by the `i`th after
    /// it, modulo their number.
    pub worker: usize,
    /// Set for what is no device but a service path.
    pub path: Option<PathPlan>,
}

impl PortPlan {
    /// What stands for a service path.
    pub(crate) fn of_path(
        name: &str,
        direction: Direction,
        network: u32,
        mtu: u16,
        path: PathPlan,
    ) -> PortPlan {
        PortPlan {
            name: name.to_owned(),
            device: String::new(),
            direction,
            network,
            mac: None,
            mtu,
            addresses: Vec::new(),
            gateways: Vec::new(),
            next_hop_mac: None,
            neighbours: Vec::new(),
            proxy: Vec::new(),
            queues: 0,
            descriptors: 0,
            flow_rules: false,
            checksums: Checksums::Software,
            worker: 0,
            path: Some(path),
        }
    }

    /// Whether packets that leave here are routed: they get a new Ethernet
    /// header, and their TTL is decremented. A port that is not routed is
    /// transparent.
    pub fn is_routed(&self) -> bool {
        !self.addresses.is_empty() || self.next_hop_mac.is_some()
    }
}
