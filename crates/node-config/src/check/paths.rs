//! Service paths: entries to the rules beside the ports.

use std::net::IpAddr;

use weft_dataplane::service_path::header_cache;
use weft_function::{Direction, TagTable};
use weft_wire::MacAddress;

use super::within;
use crate::blueprint::{Hop, HopTo, PathPlan, Peer, PeerAddress, PortPlan};
use crate::locate::Source;
use crate::yaml::{self, NodeFile};

/// Ports that a service path can lead to, so that a set of them is one number.
const PORTS: usize = 64;

/// Adds the paths to the ports, and their networks to those of the ports.
pub(super) fn paths(
    file: &NodeFile,
    ports: &mut Vec<PortPlan>,
    networks: &mut Vec<String>,
    source: &mut Source<'_>,
) {
    let devices = ports.len();
    for (name, path) in &file.paths.0 {
        let at = format!("paths.{name}");
        within(source, &format!("{at}.path"), path.path.into(), 0, (1 << 24) - 1);
        within(source, &format!("{at}.index"), path.index.into(), 1, 255);
        let next = path.next_index.unwrap_or(path.index.saturating_sub(1));
        if next >= path.index {
            let message = format!("{next} is not below the index {}", path.index);
            source.wrong(&format!("{at}.nextIndex"), message).hint("functions count down");
        }
        super::names::written(&path.network, &format!("{at}.network"), source);
        let devices = &ports[..devices];
        let Some(hop) = hop(&path.port, &path.to, &at, devices, source) else { continue };
        let from = (path.from.as_deref(), path.from_port.as_deref());
        let Some(peer) = peer(from, &hop, &at, devices, source) else { continue };
        let network = networks.iter().position(|known| *known == path.network);
        let network = network.unwrap_or_else(|| {
            networks.push(path.network.clone());
            networks.len() - 1
        });
        let same = |other: &&PortPlan| {
            let plan = other.path.as_ref();
            plan.is_some_and(|plan| (plan.id, plan.index) == (path.path, path.index))
        };
        if let Some(other) = ports.iter().find(same) {
            let message = format!(
                "path {} has the index {} at `{}` already",
                path.path, path.index, other.name
            );
            source.wrong(&format!("{at}.index"), message);
        }
        let direction = match path.direction {
            yaml::Direction::Uplink => Direction::Uplink,
            yaml::Direction::Downlink => Direction::Downlink,
        };
        let mtu = ports[usize::from(hop.port)].mtu;
        let plan = PathPlan { id: path.path, index: path.index, next, peer, hop };
        ports.push(PortPlan::of_path(name, direction, network as u32, mtu, plan));
    }
}

/// Where packets go that take the port `name`.
pub(super) fn hop(
    name: &str,
    to: &str,
    at: &str,
    ports: &[PortPlan],
    source: &mut Source<'_>,
) -> Option<Hop> {
    let Some(port) = ports.iter().position(|port| port.name == name) else {
        let mistake = source.wrong(&format!("{at}.port"), format!("there is no port `{name}`"));
        mistake.suggest(name, ports.iter().map(|port| port.name.as_str()));
        return None;
    };
    if port >= PORTS {
        source
            .wrong(&format!("{at}.port"), format!("only the first {PORTS} ports lead along paths"));
        return None;
    }
    let path = format!("{at}.to");
    let to = match (to.parse::<MacAddress>(), to.parse::<IpAddr>()) {
        (Ok(mac), _) if mac.0[0] & 1 == 0 && mac != MacAddress::default() => HopTo::Station(mac.0),
        (_, Ok(to)) if !to.is_multicast() && !to.is_unspecified() => {
            let own = ports[port].addresses.iter().map(|(own, _)| *own);
            if own.clone().any(|own| own == to) {
                source.wrong(&path, format!("{to} is the port `{name}` itself"));
                return None;
            }
            let mut own = own.filter(|own| own.is_ipv4() == to.is_ipv4());
            let Some(from) = own.next() else {
                let family = if to.is_ipv4() { "IPv4" } else { "IPv6" };
                let message = format!("the port `{name}` has no {family} address to send from");
                source.wrong(&path, message).hint(format!("give it one under `ports.{name}`"));
                return None;
            };
            HopTo::Address { from, to }
        }
        _ => {
            let mistake = source.wrong(&path, format!("{to:?} is no address of one station"));
            mistake.hint("a MAC address for NSH over Ethernet, an IP address for VXLAN-GPE");
            return None;
        }
    };
    Some(Hop { port: port as u16, to })
}

/// Who packets come from: by default where they go.
pub(super) fn peer(
    (from, port): (Option<&str>, Option<&str>),
    hop: &Hop,
    at: &str,
    ports: &[PortPlan],
    source: &mut Source<'_>,
) -> Option<Peer> {
    let port = match port {
        None => hop.port,
        Some(name) => {
            let Some(port) = ports.iter().position(|port| port.name == name) else {
                let path = format!("{at}.fromPort");
                let mistake = source.wrong(&path, format!("there is no port `{name}`"));
                mistake.suggest(name, ports.iter().map(|port| port.name.as_str()));
                return None;
            };
            port as u16
        }
    };
    let Some(text) = from else {
        let from = match hop.to {
            HopTo::Station(mac) => PeerAddress::Station(mac),
            HopTo::Address { to, .. } => PeerAddress::Address(to),
        };
        return Some(Peer { port, from });
    };
    match (text.parse::<MacAddress>(), text.parse::<IpAddr>()) {
        (Ok(mac), _) if mac.0[0] & 1 == 0 && mac != MacAddress::default() => {
            Some(Peer { port, from: PeerAddress::Station(mac.0) })
        }
        (_, Ok(from)) if !from.is_multicast() && !from.is_unspecified() => {
            Some(Peer { port, from: PeerAddress::Address(from) })
        }
        _ => {
            let path = format!("{at}.from");
            let mistake = source.wrong(&path, format!("{text:?} is no address of one station"));
            mistake.hint("a MAC address for NSH over Ethernet, an IP address for VXLAN-GPE");
            None
        }
    }
}

/// One slot of the tags belongs to the header that a packet came in.
pub(super) fn tags(file: &NodeFile, tags: &TagTable, source: &mut Source<'_>) {
    if !file.paths.0.is_empty() && tags.iter().count() > header_cache::SLOT {
        let message = format!("at a node with paths a packet carries {} tags", header_cache::SLOT);
        source.wrong_key("paths", message).hint("leave out a tag or a function that has one");
    }
}
