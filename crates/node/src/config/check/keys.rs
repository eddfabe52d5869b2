//! What users are known by, and that no two users are known by the same.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::super::blueprint::{PortPlan, UserKey};
use super::super::locate::Source;
use super::super::values::{Ip, Ipv4, Ipv6, NameOrNumber};
use super::super::yaml::{DEFAULT_NETWORK, Flow, Match, Users};
use super::users::Scene;

/// VLAN identifiers that name a VLAN (IEEE 802.1Q-2022 table 9-2).
const VLANS: std::ops::RangeInclusive<u16> = 1..=4094;

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
    let Match { ipv4, ipv6, vlan, port, flow, .. } = &users.r#match;
    let mut reader = Reader { users, path, scene, source, keys: Vec::new() };
    let network = reader.network();
    if let Some(Ipv4(first)) = ipv4 {
        reader.ipv4(network, *first);
    }
    if let Some(Ipv6(first, length)) = ipv6 {
        reader.ipv6(network, *first, *length);
    }
    if let Some(vlan) = vlan {
        reader.vlan(&vlan.port, vlan.id);
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
    let nothing =
        ipv4.is_none() && ipv6.is_none() && vlan.is_none() && port.is_none() && flow.is_none();
    if nothing {
        let mistake = reader.source.wrong(&format!("{path}.match"), "nothing can match this user");
        mistake.hint("give one of ipv4, ipv6, vlan, port, flow");
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
        let name = network.as_deref().unwrap_or(DEFAULT_NETWORK);
        let number = self.scene.networks.iter().position(|known| known == name);
        if number.is_none() {
            let path = self.path("network");
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
        if port.is_none() {
            let path = self.path(key);
            let mistake = self.source.wrong(&path, format!("there is no port `{name}`"));
            mistake.suggest(name, self.scene.ports.iter().map(|port| port.name.as_str()));
        }
        port
    }

    fn ipv4(&mut self, network: Option<u32>, first: Ipv4Addr) {
        let path = self.path("ipv4");
        if first.is_multicast() || first.is_broadcast() || first.is_unspecified() {
            self.source.wrong(&path, format!("{first} is not the address of one user"));
        }
        // Class D begins behind the last address that a host can have.
        let room = Ipv4Addr::new(224, 0, 0, 0).to_bits().saturating_sub(first.to_bits());
        if !first.is_multicast() && self.users.count > room && room > 0 {
            self.overflow(&path, &format!("{room} addresses from {first} on"));
        }
        if let Some(network) = network {
            self.push(UserKey::Ipv4 { network, first }, "ipv4");
        }
    }

    fn ipv6(&mut self, network: Option<u32>, first: Ipv6Addr, prefix_len: u8) {
        let path = self.path("ipv6");
        let bits = first.to_bits();
        if first.is_multicast() || first.is_unspecified() {
            self.source.wrong(&path, format!("{first} is not the address of one user"));
        }
        if prefix_len == 64 && bits as u64 != 0 {
            let message = format!("{first}/64 has bits set behind its prefix length");
            let prefix = Ipv6Addr::from_bits(bits >> 64 << 64);
            self.source.wrong(&path, message).hint(format!("write {prefix}/64"));
        }
        let step = if prefix_len == 64 { 1 << 64 } else { 1 };
        let last = u128::from(self.users.count.max(1) - 1) * step;
        let last = bits.checked_add(last).map(Ipv6Addr::from_bits);
        if !first.is_multicast() && last.is_none_or(|last| last.is_multicast()) {
            self.overflow(&path, &format!("as many from {first} on"));
        }
        if let Some(network) = network {
            self.push(UserKey::Ipv6 { network, first, prefix_len }, "ipv6");
        }
    }

    fn vlan(&mut self, port: &str, first: u16) {
        let path = self.path("vlan.id");
        let room = u32::from(VLANS.end() + 1).saturating_sub(first.into());
        if !VLANS.contains(&first) {
            let message = format!("{first} is not within {}..{}", VLANS.start(), VLANS.end());
            self.source.wrong(&path, message);
        } else if self.users.count > room {
            self.overflow(&path, &format!("{room} VLANs from {first} on"));
        }
        if let Some(port) = self.port(port, "vlan.port") {
            self.push(UserKey::Vlan { port, first }, "vlan");
        }
    }

    fn overflow(&mut self, path: &str, there: &str) {
        let message = format!("there are not {} {there}", self.users.count);
        let message = match there.starts_with("as many") {
            true => format!("{} users do not find {there}", self.users.count),
            false => message,
        };
        self.source.wrong(path, message);
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

impl Match {
    /// Whether something in it is an address.
    fn is_addressed(&self) -> bool {
        self.ipv4.is_some() || self.ipv6.is_some() || self.flow.is_some()
    }
}

/// Where keys that can collide lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Space {
    Ipv4(u32),
    Ipv6(u32),
    Vlan(usize),
    Port(usize),
    Flow(u32, u8, IpAddr, u16, IpAddr, u16),
}

/// The keys of users in a row, as numbers of their space.
struct Range<'u> {
    first: u128,
    last: u128,
    user: &'u str,
    path: &'u str,
    /// Where it stands among all keys of the file.
    order: usize,
}

/// Finds keys that two users have.
#[derive(Default)]
pub(super) struct Collisions<'u> {
    spaces: BTreeMap<Space, Vec<Range<'u>>>,
    count: usize,
}

impl<'u> Collisions<'u> {
    pub fn add(&mut self, users: &'u Users, located: &'u Located) {
        let count = u128::from(users.count.max(1));
        let numbers = |first: u128, step: u128| (first, first.saturating_add(count * step - 1));
        let (space, (first, last)) = match located.key {
            UserKey::Ipv4 { network, first } => {
                (Space::Ipv4(network), numbers(first.to_bits().into(), 1))
            }
            UserKey::Ipv6 { network, first, prefix_len } => {
                let step = if prefix_len == 64 { 1 << 64 } else { 1 };
                (Space::Ipv6(network), numbers(first.to_bits(), step))
            }
            UserKey::Vlan { port, first } => (Space::Vlan(port), numbers(first.into(), 1)),
            UserKey::Port { port } => (Space::Port(port), (0, 0)),
            UserKey::Flow {
                network,
                protocol,
                source,
                source_port,
                destination,
                destination_port,
            } => {
                let flow = (source, source_port, destination, destination_port);
                (Space::Flow(network, protocol, flow.0, flow.1, flow.2, flow.3), (0, 0))
            }
        };
        let range =
            Range { first, last, user: &users.name, path: &located.path, order: self.count };
        self.spaces.entry(space).or_default().push(range);
        self.count += 1;
    }

    /// Notes each range that meets another, at the one that stands later.
    pub fn report(mut self, ports: &[PortPlan], source: &mut Source<'_>) {
        for (space, ranges) in &mut self.spaces {
            ranges.sort_by_key(|range| (range.first, range.order));
            // Of the ranges so far, the one that reaches furthest.
            let mut furthest: Option<&Range<'_>> = None;
            for range in ranges.iter() {
                if let Some(before) = furthest.filter(|before| range.first <= before.last) {
                    let later = if range.order > before.order { range } else { before };
                    let earlier = if range.order > before.order { before } else { range };
                    let what = space.display(range.first);
                    let message = format!("{what} belongs to user `{}` already", earlier.user);
                    source.wrong(later.path, message);
                }
                furthest = furthest.filter(|before| before.last >= range.last).or(Some(range));
            }
        }
        self.own_addresses(ports, source);
    }

    /// Notes users that have the address of a port of their network.
    fn own_addresses(&self, ports: &[PortPlan], source: &mut Source<'_>) {
        for port in ports {
            for (address, _) in &port.addresses {
                let (space, number) = match address {
                    IpAddr::V4(v4) => (Space::Ipv4(port.network), v4.to_bits().into()),
                    IpAddr::V6(v6) => (Space::Ipv6(port.network), v6.to_bits()),
                };
                let ranges = self.spaces.get(&space).into_iter().flatten();
                for range in ranges.filter(|range| (range.first..=range.last).contains(&number)) {
                    let message = format!("{address} belongs to port `{}`", port.name);
                    source.wrong(range.path, message);
                }
            }
        }
    }
}

impl Space {
    /// A key of the space, for people.
    fn display(self, number: u128) -> String {
        match self {
            Space::Ipv4(_) => Ipv4Addr::from_bits(number as u32).to_string(),
            Space::Ipv6(_) => Ipv6Addr::from_bits(number).to_string(),
            Space::Vlan(_) => format!("VLAN {number}"),
            Space::Port(_) => "the port".to_owned(),
            Space::Flow(..) => "the flow".to_owned(),
        }
    }
}
