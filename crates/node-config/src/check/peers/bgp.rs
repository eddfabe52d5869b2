//! What is announced by BGP.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::super::ranges::Ranges;
use super::super::{one_of_each, within};
use crate::blueprint::{BgpPeerPlan, BgpPlan, PfcpPlan, PortPlan};
use crate::locate::Source;
use crate::yaml::{BgpFile, BgpPeer};

/// Routers.
const PEERS: usize = 8;
/// Networks that are announced.
const NETWORKS: usize = 256;

/// `None` if a mistake is in the way of knowing more.
pub fn plan(
    file: &BgpFile,
    ports: &[PortPlan],
    pfcp: Option<&PfcpPlan>,
    source: &mut Source<'_>,
) -> Option<BgpPlan> {
    let ranges = Ranges::of::<BgpFile>();
    for (key, value) in
        [("as", file.autonomous_system), ("hold", file.hold), ("restartTime", file.restart_time)]
    {
        ranges.check(source, "bgp", key, value.into());
    }
    if file.router_id.0.is_unspecified() {
        source
            .wrong("bgp.routerId", "this is no identifier")
            .hint("an address of the node will do");
    }
    let peers = peers(&file.peers, source);
    let next_hops = one_of_each("bgp.nextHops", &file.next_hops, source);
    for (at, hop) in next_hops.iter().enumerate() {
        if !ports.iter().any(|port| port.addresses.iter().any(|own| own.0 == *hop)) {
            source.wrong(&format!("bgp.nextHops.{at}"), format!("no port has the address {hop}"));
        }
    }
    let mut networks = Vec::new();
    for (at, network) in file.networks.iter().enumerate() {
        let path = format!("bgp.networks.{at}");
        let network = (network.0, network.1);
        if begin_of(network) != network.0 {
            let message = format!("{}/{} is an address within a network", network.0, network.1);
            let mistake = source.wrong(&path, message);
            mistake.hint(format!("the network is {}/{}", begin_of(network), network.1));
        } else if networks.contains(&network) {
            source.wrong(&path, "this network stands here twice");
        } else {
            networks.push(network);
        }
    }
    let pools = pfcp.filter(|_| file.pools).into_iter().flat_map(|pfcp| &pfcp.interfaces);
    for (network, bits) in pools.flat_map(|interface| &interface.pools) {
        let pool = (begin_of((*network, *bits)), *bits);
        if !networks.contains(&pool) {
            networks.push(pool);
        }
    }
    let has_hop = |network: &IpAddr| next_hops.iter().any(|hop| hop.is_ipv4() == network.is_ipv4());
    if networks.is_empty() {
        let mistake = source.wrong_key("bgp", "nothing is announced");
        mistake.hint("name `networks`, or pools in `pfcp.interfaces`");
    } else if networks.len() > NETWORKS {
        source.wrong_key("bgp", format!("there are more than {NETWORKS} networks"));
    } else if let Some((network, bits)) = networks.iter().find(|(network, _)| !has_hop(network)) {
        let message = format!("there is no next hop for {network}/{bits}");
        source.wrong("bgp.nextHops", message).hint("give an address of this family");
    }
    Some(BgpPlan {
        autonomous_system: file.autonomous_system,
        identifier: file.router_id.0,
        peers: peers?,
        next_hops,
        networks,
        hold: Duration::from_secs(file.hold.into()),
        restart: (file.restart_time > 0).then(|| Duration::from_secs(file.restart_time.into())),
    })
}

fn peers(file: &[BgpPeer], source: &mut Source<'_>) -> Option<Vec<BgpPeerPlan>> {
    if file.is_empty() || file.len() > PEERS {
        source.wrong("bgp.peers", format!("there are one to {PEERS} routers"));
        return None;
    }
    let ranges = Ranges::of::<BgpPeer>();
    let mut plans: Vec<BgpPeerPlan> = Vec::new();
    for (at, peer) in file.iter().enumerate() {
        let path = format!("bgp.peers.{at}");
        ranges.check(source, &path, "as", peer.autonomous_system.into());
        within(source, &format!("{path}.port"), peer.port.into(), 1, 65_535);
        let address = SocketAddr::new(peer.address.0, peer.port);
        if peer.address.0.is_unspecified() || peer.address.0.is_multicast() {
            source.wrong(&format!("{path}.address"), "this is no address of one machine");
        }
        if plans.iter().any(|plan| plan.address == address) {
            source.wrong(&path, "this router stands here twice");
        }
        plans.push(BgpPeerPlan { address, autonomous_system: peer.autonomous_system });
    }
    Some(plans)
}

/// The first address of a network.
fn begin_of((address, bits): (IpAddr, u8)) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}
