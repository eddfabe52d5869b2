//! Ports and the network instances that they belong to.

use std::collections::HashMap;
use std::net::IpAddr;

use weft_dpdk::{Checksums, PortOptions};
use weft_function::Direction;

use super::{names, within};
use crate::blueprint::PortPlan;
use crate::locate::Source;
use crate::values::{Ip, Mac, Subnet};
use crate::yaml::{self, NodeFile, Port};

/// Least MTU of a link that carries IPv6 (RFC 8200 §5).
const IPV6_MTU: u16 = 1280;
/// Least MTU of a link that carries IPv4 (RFC 791 §3.2).
const IPV4_MTU: u16 = 68;

/// The ports and the names of their networks.
pub(super) fn ports(file: &NodeFile, source: &mut Source<'_>) -> (Vec<PortPlan>, Vec<String>) {
    let mut networks: Vec<String> = Vec::new();
    let mut ports = Vec::with_capacity(file.ports.0.len());
    if file.ports.0.is_empty() {
        source.wrong("ports", "a node has at least one port");
    }
    for (name, port) in &file.ports.0 {
        let mut check = Check { path: format!("ports.{name}"), port, source };
        check.link(file.workers.count);
        check.addresses();
        check.next_hops();
        let network = networks.iter().position(|known| *known == port.network);
        let network = network.unwrap_or_else(|| {
            networks.push(port.network.clone());
            networks.len() - 1
        });
        let neighbours = check.neighbours();
        ports.push(plan(name, port, network as u32, neighbours));
    }
    devices(file, source);
    shared_addresses(&ports, source);
    (ports, networks)
}

fn plan(name: &str, port: &Port, network: u32, neighbours: Vec<(IpAddr, [u8; 6])>) -> PortPlan {
    let pairs =
        |subnets: &[Subnet]| subnets.iter().map(|Subnet(a, length)| (*a, *length)).collect();
    PortPlan {
        name: name.to_owned(),
        device: port.device.clone(),
        direction: match port.direction {
            yaml::Direction::Uplink => Direction::Uplink,
            yaml::Direction::Downlink => Direction::Downlink,
        },
        network,
        mac: port.mac.map(|Mac(bytes)| bytes),
        mtu: port.mtu,
        addresses: pairs(&port.addresses),
        gateways: port.gateways.iter().map(|Ip(address)| *address).collect(),
        next_hop_mac: port.next_hop_mac.map(|Mac(bytes)| bytes),
        neighbours,
        proxy: pairs(&port.proxy),
        queues: port.queues,
        descriptors: port.descriptors,
        flow_rules: port.flow_rules,
        checksums: match port.checksums {
            yaml::Checksums::Auto => Checksums::Auto,
            yaml::Checksums::Device => Checksums::Device,
            yaml::Checksums::Software => Checksums::Software,
        },
        worker: port.worker as usize,
        path: None,
    }
}

struct Check<'c, 's, 't> {
    path: String,
    port: &'c Port,
    source: &'s mut Source<'t>,
}

impl Check<'_, '_, '_> {
    fn path(&self, key: &str) -> String {
        format!("{}.{key}", self.path)
    }

    fn link(&mut self, workers: u32) {
        let port = self.port;
        let name = port.device.strip_prefix("ring:").unwrap_or(&port.device);
        if name.is_empty() || name.chars().any(|c| c.is_whitespace() || c.is_control()) {
            let message = format!("{:?} is not a device string", port.device);
            let mistake = self.source.wrong(&self.path("device"), message);
            mistake.hint("such as ring:NAME, net_tap0,iface=weft0 or a PCI address");
        }
        names::written(&port.network, &self.path("network"), self.source);
        let least =
            if port.addresses.iter().any(|one| one.0.is_ipv6()) { IPV6_MTU } else { IPV4_MTU };
        let most = PortOptions::MAX_MTU;
        within(self.source, &self.path("mtu"), port.mtu.into(), least.into(), most.into());
        within(self.source, &self.path("queues"), port.queues.into(), 1, 64);
        within(self.source, &self.path("descriptors"), port.descriptors.into(), 32, 32_768);
        if port.worker >= workers.max(1) {
            let message = format!("there is no worker {}: they are numbered from 0", port.worker);
            let mistake = self.source.wrong(&self.path("worker"), message);
            mistake.hint(format!("workers.count is {workers}"));
        }
        for (key, mac) in [("mac", port.mac), ("nextHopMac", port.next_hop_mac)] {
            self.unicast(mac, &self.path(key));
        }
    }

    /// A station's address has the group bit clear (IEEE 802-2014 §8.2.2).
    fn unicast(&mut self, mac: Option<Mac>, path: &str) {
        if mac.is_some_and(|Mac(bytes)| bytes[0] & 1 == 1 || bytes == [0; 6]) {
            self.source.wrong(path, "this is not the MAC address of one station");
        }
    }

    fn addresses(&mut self) {
        for (index, subnet) in self.port.addresses.iter().enumerate() {
            let path = self.path(&format!("addresses.{index}"));
            let Subnet(address, length) = *subnet;
            let hosts = if address.is_ipv4() { 31 } else { 127 };
            if address.is_multicast() || address.is_unspecified() || address.is_loopback() {
                self.source.wrong(&path, format!("{address} cannot be the address of a port"));
            } else if length < hosts && subnet.first() == address {
                let message = format!("{address}/{length} is a subnet, not an address in it");
                self.source.wrong(&path, message);
            }
        }
        for (index, prefix) in self.port.proxy.iter().enumerate() {
            let Subnet(address, length) = *prefix;
            if prefix.first() != address {
                let path = self.path(&format!("proxy.{index}"));
                let message = format!("{address}/{length} has bits set behind its prefix length");
                let mistake = self.source.wrong(&path, message);
                mistake.hint(format!("write {}/{length}", prefix.first()));
            }
        }
        if !self.port.addresses.is_empty() {
            return;
        }
        for (key, given) in [
            ("gateways", !self.port.gateways.is_empty()),
            ("neighbours", !self.port.neighbours.0.is_empty()),
            ("proxy", !self.port.proxy.is_empty()),
        ] {
            if given {
                let message = format!("a port without `addresses` has no `{key}`");
                self.source.wrong_key(&self.path(key), message);
            }
        }
    }

    fn next_hops(&mut self) {
        if self.port.addresses.is_empty() {
            return;
        }
        for (index, Ip(gateway)) in self.port.gateways.iter().enumerate() {
            let path = self.path(&format!("gateways.{index}"));
            self.on_link(*gateway, "gateway", &path);
            let same = |Ip(other): &Ip| other.is_ipv4() == gateway.is_ipv4();
            if self.port.gateways[..index].iter().any(same) {
                let family = if gateway.is_ipv4() { "IPv4" } else { "IPv6" };
                self.source.wrong(&path, format!("a second {family} gateway: a port has one"));
            }
        }
    }

    /// The neighbours, as far as they are addresses.
    fn neighbours(&mut self) -> Vec<(IpAddr, [u8; 6])> {
        let mut neighbours = Vec::new();
        for (text, mac) in &self.port.neighbours.0 {
            let path = self.path(&format!("neighbours.{text}"));
            self.unicast(Some(*mac), &path);
            let Some(Ip(address)) = Ip::parse(text) else {
                self.source.wrong_key(&path, format!("`{text}` is not an IP address"));
                continue;
            };
            if !self.port.addresses.is_empty() {
                self.on_link(address, "neighbour", &path);
            }
            neighbours.push((address, mac.0));
        }
        neighbours
    }

    /// Link-local addresses are neighbours on every link (RFC 4291 §2.5.6).
    fn on_link(&mut self, address: IpAddr, what: &str, path: &str) {
        let link_local = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
        let own = &self.port.addresses;
        let at_key = what == "neighbour";
        let message = if own.iter().any(|subnet| subnet.0 == address) {
            format!("the {what} {address} is the port itself")
        } else if !link_local && !own.iter().any(|subnet| subnet.contains(address)) {
            format!("the {what} {address} lies in none of the port's subnets")
        } else {
            return;
        };
        match at_key {
            true => self.source.wrong_key(path, message),
            false => self.source.wrong(path, message),
        };
    }
}

/// A device is one port. The two ends of a memory ring have one name.
fn devices(file: &NodeFile, source: &mut Source<'_>) {
    let mut seen: HashMap<&str, Vec<&str>> = HashMap::new();
    for (name, port) in &file.ports.0 {
        let device = port.device.split(',').next().unwrap_or_default();
        let ends = if device.starts_with("ring:") { 2 } else { 1 };
        let ports = seen.entry(device).or_default();
        if ports.len() >= ends {
            let path = format!("ports.{name}.device");
            let message = match ends {
                1 => format!("{device} is the device of port `{}` already", ports[0]),
                _ => format!("{device} has two ends: `{}` and `{}`", ports[0], ports[1]),
            };
            source.wrong(&path, message);
        }
        ports.push(name);
    }
}

/// Within a network, an address is at one port.
fn shared_addresses(ports: &[PortPlan], source: &mut Source<'_>) {
    let mut seen: HashMap<(u32, IpAddr), &str> = HashMap::new();
    for port in ports {
        for (index, (address, _)) in port.addresses.iter().enumerate() {
            if let Some(other) = seen.insert((port.network, *address), &port.name) {
                let path = format!("ports.{}.addresses.{index}", port.name);
                let message = match other == port.name {
                    true => format!("{address} is given twice"),
                    false => format!("{address} is an address of port `{other}` already"),
                };
                source.wrong(&path, message);
            }
        }
    }
}
