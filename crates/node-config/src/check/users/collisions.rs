//! No two users are known by the same, nor is a user known by the address of a
//! port.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::keys::Located;
use crate::blueprint::{PortPlan, UserKey};
use crate::locate::Source;
use crate::yaml::Users;

/// Where keys that can collide lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Space {
    Ipv4(u32),
    Ipv6(u32),
    Teid(u32),
    Spi(u32),
    Vlan(usize),
    Session(usize),
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
            // Sessions have them, and no configuration.
            UserKey::Route { .. } => return,
            UserKey::Teid { network, first } => (Space::Teid(network), numbers(first.into(), 1)),
            UserKey::Spi { network, first } => (Space::Spi(network), numbers(first.into(), 1)),
            UserKey::Vlan { port, first } => (Space::Vlan(port), numbers(first.into(), 1)),
            UserKey::Session { port, first } => (Space::Session(port), numbers(first.into(), 1)),
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
            Space::Teid(_) => format!("TEID {number}"),
            Space::Spi(_) => format!("SPI {number}"),
            Space::Vlan(_) => format!("VLAN {number}"),
            Space::Session(_) => format!("session {number}"),
            Space::Port(_) => "the port".to_owned(),
            Space::Flow(..) => "the flow".to_owned(),
        }
    }
}
