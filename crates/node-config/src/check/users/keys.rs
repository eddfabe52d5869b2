//! What users are known by.

use std::fmt::Display;
use std::net::{Ipv4Addr, Ipv6Addr};

use weft_wire::esp::Spi;

use super::Scene;
use crate::blueprint::UserKey;
use crate::locate::Source;
use crate::values::{Ip, Ipv4, Ipv6, NameOrNumber};
use crate::yaml::{DEFAULT_NETWORK, Flow, Match, Users};

/// VLAN identifiers that name a VLAN (IEEE 802.1Q-2022 table 9-2).
const VLANS: std::ops::RangeInclusive<u16> = 1..=4094;

/// Behind it, classes D and E begin.
const LAST_IPV4: Ipv4Addr = Ipv4Addr::new(223, 255, 255, 255);

/// IP protocols by their names in rules, and whether they have ports.
const PROTOCOLS: [(&str, u8, bool); 7] = [
    ("tcp", 6, true),
    ("udp", 17, true),
    ("sctp", 132, true),
    ("icmp", 1, false),
    ("icmpv6", 58, false),
    ("esp", 50, false),
    ("gre", 47, false),
];

/// A key as it stands in the file.
pub(super) struct Located {
    pub key: UserKey,
    pub path: String,
}

/// The keys of the users at `path`, and the number of their network.
pub(super) fn keys(
    users: &Users,
    path: &str,
    scene: &Scene<'_>,
    source: &mut Source<'_>,
) -> (Vec<Located>, u32) {
    let Match { ipv4, ipv6, teid, spi, vlan, session, port, flow, .. } = &users.r#match;
    let mut reader = Reader { users, path, scene, source, keys: Vec::new() };
    let at_port = vlan.is_some() || session.is_some() || port.is_some();
    if !users.r#match.is_addressed() && teid.is_none() && spi.is_none() && !at_port {
        if users.count == 0 {
            let network = reader.network();
            return (reader.keys, network.unwrap_or_default());
        }
        let mistake = reader.source.wrong(&format!("{path}.match"), "nothing can match this user");
        mistake.hint("give one of ipv4, ipv6, teid, spi, vlan, session, port, flow");
        return (reader.keys, 0);
    }
    let network = reader.network();
    if let Some(Ipv4(first)) = ipv4 {
        reader.ipv4(network, *first);
    }
    if let Some(Ipv6(first, length)) = ipv6 {
        reader.ipv6(network, *first, *length);
    }
    if let Some(first) = teid {
        reader.teid(network, *first);
    }
    if let Some(first) = spi {
        reader.spi(network, *first);
    }
    if let Some(vlan) = vlan {
        reader.vlan(&vlan.port, vlan.id);
    }
    if let Some(session) = session {
        reader.session(&session.port, session.id);
    }
    if let Some(port) = port {
        reader.single("port");
        if let Some(port) = reader.port(port, "port") {
            reader.push(UserKey::Port { port }, "port");
        }
    }
    if let Some(flow) = flow {
        reader.single("flow");
        reader.flow(network, flow);
    }
    (reader.keys, network.unwrap_or_default())
}

struct Reader<'r, 's, 't> {
    users: &'r Users,
    path: &'r str,
    scene: &'r Scene<'r>,
    source: &'s mut Source<'t>,
    keys: Vec<Located>,
}

impl Reader<'_, '_, '_> {
    fn path(&self, key: &str) -> String {
        format!("{}.match.{key}", self.path)
    }

    fn push(&mut self, key: UserKey, at: &str) {
        self.keys.push(Located { key, path: self.path(at) });
    }

    /// The network of the users: the one that is named, or that of the port,
    /// or the default. `None` if there is none of the name.
    fn network(&mut self) -> Option<u32> {
        let Match { network, vlan, port, .. } = &self.users.r#match;
        let addressed = self.users.r#match.is_addressed();
        let port = vlan.as_ref().map(|vlan| &vlan.port).or(port.as_ref());
        if let (None, false, Some(port)) = (network, addressed, port) {
            return self.scene.ports.iter().find(|one| one.name == *port).map(|port| port.network);
        }
        self.named_network(network.as_deref().unwrap_or(DEFAULT_NETWORK), "network")
    }

    /// The number of a network; `None` if there is none of the name.
    fn named_network(&mut self, name: &str, key: &str) -> Option<u32> {
        let number = self.scene.networks.iter().position(|known| known == name);
        if number.is_none() {
            let path = self.path(key);
            let mistake = self.source.wrong(&path, format!("no port is in the network `{name}`"));
            mistake.suggest(name, self.scene.networks.iter().map(String::as_str));
        }
        number.map(|number| number as u32)
    }

    /// Notes several users that are matched by what only one can have.
    fn single(&mut self, key: &str) {
        let count = self.users.count;
        if count > 1 {
            let message = format!("{count} users cannot share one `{key}`");
            self.source.wrong_key(&self.path(key), message).hint("give one user");
        }
    }

    fn port(&mut self, name: &str, key: &str) -> Option<usize> {
        let port = self.scene.ports.iter().position(|port| port.name == name);
        let Some(index) = port else {
            let path = self.path(key);
            let mistake = self.source.wrong(&path, format!("there is no port `{name}`"));
            mistake.suggest(name, self.scene.ports.iter().map(|port| port.name.as_str()));
            return None;
        };
        let network = &self.scene.networks[self.scene.ports[index].network as usize];
        if self.users.r#match.network.as_ref().is_some_and(|named| named != network) {
            let message = format!("the port `{name}` is in the network `{network}`");
            self.source.wrong(&self.path(key), message);
        }
        port
    }

    fn ipv4(&mut self, network: Option<u32>, first: Ipv4Addr) {
        let path = self.path("ipv4");
        let count = self.users.count.max(1);
        let last = first.to_bits().checked_add(count - 1).map(Ipv4Addr::from_bits);
        if !is_unicast_v4(first) {
            self.source.wrong(&path, format!("{first} is not the address of one user"));
        } else if !last.is_some_and(is_unicast_v4) {
            self.overflow(&path, first, LAST_IPV4);
        }
        if let Some(network) = network {
            self.push(UserKey::Ipv4 { network, first }, "ipv4");
        }
    }

    fn ipv6(&mut self, network: Option<u32>, first: Ipv6Addr, prefix_len: u8) {
        let path = self.path("ipv6");
        let bits = first.to_bits();
        let step = if prefix_len == 64 { 1 << 64 } else { 1 };
        let last = bits.checked_add(u128::from(self.users.count.max(1) - 1) * step);
        if prefix_len == 64 && bits as u64 != 0 {
            let message = format!("{first}/64 has bits set behind its prefix length");
            let prefix = Ipv6Addr::from_bits(bits >> 64 << 64);
            self.source.wrong(&path, message).hint(format!("write {prefix}/64"));
        } else if first.is_multicast() || first.is_unspecified() {
            self.source.wrong(&path, format!("{first} is not the address of one user"));
        } else if last.is_none_or(|last| Ipv6Addr::from_bits(last).is_multicast()) {
            self.overflow(&path, first, "feff::/16");
        }
        if let Some(network) = network {
            self.push(UserKey::Ipv6 { network, first, prefix_len }, "ipv6");
        }
    }

    fn teid(&mut self, network: Option<u32>, first: u32) {
        let path = self.path("teid");
        if first == 0 {
            let mistake = self.source.wrong(&path, "0 is not the TEID of a tunnel");
            mistake.hint("TS 29.281 §5.1; they begin with 1");
        } else if first.checked_add(self.users.count.max(1) - 1).is_none() {
            self.overflow(&path, first, u32::MAX);
        }
        let network = match &self.users.r#match.teid_network {
            Some(name) => self.named_network(name, "teidNetwork"),
            None => network,
        };
        if let Some(network) = network {
            self.push(UserKey::Teid { network, first }, "teid");
        }
    }

    fn spi(&mut self, network: Option<u32>, first: u32) {
        let path = self.path("spi");
        if Spi(first) < Spi::FIRST {
            let mistake = self.source.wrong(&path, format!("{first} is a reserved SPI"));
            mistake.hint("RFC 4303 §2.1; they begin with 256");
        } else if first.checked_add(self.users.count.max(1) - 1).is_none() {
            self.overflow(&path, first, u32::MAX);
        }
        let network = match &self.users.r#match.spi_network {
            Some(name) => self.named_network(name, "spiNetwork"),
            None => network,
        };
        if let Some(network) = network {
            self.push(UserKey::Spi { network, first }, "spi");
        }
    }

    fn vlan(&mut self, port: &str, first: u16) {
        let path = self.path("vlan.id");
        let (low, high) = (VLANS.start(), VLANS.end());
        if !VLANS.contains(&first) {
            self.source.wrong(&path, format!("{first} is not within {low}..{high}"));
        } else if self.users.count > u32::from(high - first + 1) {
            self.overflow(&path, first, high);
        }
        if let Some(port) = self.port(port, "vlan.port") {
            self.push(UserKey::Vlan { port, first }, "vlan");
        }
    }

    fn session(&mut self, port: &str, first: u16) {
        let path = self.path("session.id");
        if self.users.count > u32::from(u16::MAX - first) + 1 {
            self.overflow(&path, first, u16::MAX);
        }
        if let Some(port) = self.port(port, "session.port") {
            self.push(UserKey::Session { port, first }, "session");
        }
    }

    fn overflow(&mut self, path: &str, first: impl Display, last: impl Display) {
        let count = self.users.count;
        self.source.wrong(path, format!("{count} users from {first} on reach beyond {last}"));
    }

    fn flow(&mut self, network: Option<u32>, flow: &Flow) {
        let (Ip(source), Ip(destination)) = (flow.source, flow.destination);
        if source.is_ipv4() != destination.is_ipv4() {
            let path = self.path("flow.destination");
            self.source.wrong(&path, "source and destination are of one family");
        }
        let protocol = self.protocol(&flow.protocol);
        let source_port = self.transport_port(protocol, flow.source_port, "flow.sourcePort");
        let destination_port =
            self.transport_port(protocol, flow.destination_port, "flow.destinationPort");
        if let (Some(network), Some((protocol, _))) = (network, protocol) {
            let key = UserKey::Flow {
                network,
                protocol,
                source,
                source_port,
                destination,
                destination_port,
            };
            self.push(key, "flow");
        }
    }

    /// The number of a protocol, and whether it has ports.
    fn protocol(&mut self, protocol: &NameOrNumber) -> Option<(u8, bool)> {
        let found = match protocol {
            NameOrNumber::Name(name) => PROTOCOLS.iter().find(|(known, ..)| known == name).copied(),
            NameOrNumber::Number(number) => u8::try_from(*number).ok().map(|number| {
                let known = PROTOCOLS.into_iter().find(|(_, known, _)| *known == number);
                known.unwrap_or(("", number, false))
            }),
        };
        if found.is_none() {
            let path = self.path("flow.protocol");
            match protocol {
                NameOrNumber::Name(name) => {
                    let mistake =
                        self.source.wrong(&path, format!("`{name}` is not an IP protocol"));
                    mistake.suggest(name, PROTOCOLS.iter().map(|(known, ..)| *known));
                }
                NameOrNumber::Number(number) => {
                    self.source.wrong(&path, format!("{number} is not within 0..255"));
                }
            }
        }
        found.map(|(_, number, ports)| (number, ports))
    }

    fn transport_port(
        &mut self,
        protocol: Option<(u8, bool)>,
        port: Option<u16>,
        key: &str,
    ) -> u16 {
        let word = key.trim_start_matches("flow.");
        let message = match (protocol, port) {
            (Some((_, true)), None) => {
                format!("the key `{word}` is missing: the protocol has ports")
            }
            (Some((_, false)), Some(_)) => format!("the protocol has no ports, so no `{word}`"),
            _ => return port.unwrap_or_default(),
        };
        self.source.wrong_key(&self.path(key), message);
        port.unwrap_or_default()
    }
}

fn is_unicast_v4(address: Ipv4Addr) -> bool {
    !address.is_unspecified() && address <= LAST_IPV4
}

impl Match {
    /// Whether something in it is an address.
    fn is_addressed(&self) -> bool {
        self.ipv4.is_some() || self.ipv6.is_some() || self.flow.is_some()
    }
}
