//! Keys of users, as the tables of the classifier hold them.

use std::net::{IpAddr, Ipv6Addr};

use weft_function::FlowKey;
use weft_wire::Protocol;

use super::UserKey;

/// A key as the tables hold it.
pub(super) enum Encoded {
    Narrow(u64),
    Ipv6([u64; 3]),
    Flow([u64; 5]),
}

/// The key as its table holds it.
pub(super) fn encode(key: &UserKey) -> Encoded {
    match *key {
        UserKey::Ipv4 { network, first } => Encoded::Narrow(ipv4_key(network, first.to_bits())),
        UserKey::Ipv6 { network, first, prefix_len } => {
            Encoded::Ipv6(ipv6_key(network, first, prefix_len))
        }
        UserKey::Route { network, first, prefix_len } => {
            let length = route_length(first, prefix_len);
            Encoded::Ipv6(route_key(network, mapped(first), length))
        }
        UserKey::Teid { network, first } => Encoded::Narrow(teid_key(network, first)),
        UserKey::Spi { network, first } => Encoded::Narrow(spi_key(network, first)),
        UserKey::Vlan { port, first } => Encoded::Narrow(vlan_key(port as u16, first)),
        UserKey::Session { port, first } => Encoded::Narrow(session_key(port as u16, first)),
        UserKey::Port { port } => Encoded::Narrow(port_key(port as u16)),
        UserKey::Flow { network, protocol, source, source_port, destination, destination_port } => {
            let protocol = Protocol(protocol);
            let flow = FlowKey { source, destination, protocol, source_port, destination_port };
            Encoded::Flow(flow_key(network, &flow))
        }
    }
}

/// Which kinds of keys some user has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kinds {
    pub(super) flow: usize,
    pub(super) spi: usize,
    pub(super) ipv6_address: usize,
    pub(super) ipv6_prefix: usize,
    pub(super) vlan: usize,
    pub(super) session: usize,
    pub(super) port: usize,
}

impl Kinds {
    /// How many users have a key of this kind; not counted for IPv4 addresses
    /// and TEIDs, which are looked for in every packet that has them, nor for routes, which
    /// [`Routes`] counts.
    pub(super) fn of(&mut self, key: &UserKey) -> Option<&mut usize> {
        match key {
            UserKey::Ipv4 { .. } | UserKey::Teid { .. } | UserKey::Route { .. } => None,
            UserKey::Spi { .. } => Some(&mut self.spi),
            UserKey::Ipv6 { prefix_len: 64, .. } => Some(&mut self.ipv6_prefix),
            UserKey::Ipv6 { .. } => Some(&mut self.ipv6_address),
            UserKey::Vlan { .. } => Some(&mut self.vlan),
            UserKey::Session { .. } => Some(&mut self.session),
            UserKey::Port { .. } => Some(&mut self.port),
            UserKey::Flow { .. } => Some(&mut self.flow),
        }
    }
}

/// The lengths of prefixes that routes have, the longest first, and how many have each. Those of
/// IPv4 are counted as the mapped ones of IPv6 (RFC 4291 §2.5.5.2).
#[derive(Clone, Debug, Default)]
pub(super) struct Routes(Vec<(u8, u32)>);

impl Routes {
    /// Notes a key that has come.
    pub(super) fn add(&mut self, key: &UserKey) {
        let Some(length) = Self::length(key) else { return };
        match self.0.binary_search_by(|(one, _)| length.cmp(one)) {
            Ok(at) => self.0[at].1 += 1,
            Err(at) => self.0.insert(at, (length, 1)),
        }
    }

    /// Notes a key that has gone.
    pub(super) fn remove(&mut self, key: &UserKey) {
        let Some(length) = Self::length(key) else { return };
        if let Ok(at) = self.0.binary_search_by(|(one, _)| length.cmp(one)) {
            self.0[at].1 -= 1;
            if self.0[at].1 == 0 {
                self.0.remove(at);
            }
        }
    }

    /// The lengths, the longest first.
    pub(super) fn lengths(&self) -> impl Iterator<Item = u8> + '_ {
        self.0.iter().map(|(length, _)| *length)
    }

    fn length(key: &UserKey) -> Option<u8> {
        match *key {
            UserKey::Route { first, prefix_len, .. } => Some(route_length(first, prefix_len)),
            _ => None,
        }
    }
}

/// Length of a prefix of mapped addresses.
fn route_length(first: IpAddr, prefix_len: u8) -> u8 {
    match first {
        IpAddr::V4(_) => 96 + prefix_len.min(32),
        IpAddr::V6(_) => prefix_len.min(128),
    }
}

/// An address as one of IPv6.
pub(super) fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// Of the first `length` bits of a mapped address.
pub(super) fn route_key(network: u32, address: Ipv6Addr, length: u8) -> [u64; 3] {
    let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
    let bits = address.to_bits() & mask;
    let kind = ROUTE | u64::from(network) << 8 | u64::from(length);
    [(bits >> 64) as u64, bits as u64, kind]
}

/// In the last word of a key: it is a route, and no address of a user.
const ROUTE: u64 = 1 << 63;

/// The highest bits of a narrow key say what it is.
const VLAN: u64 = 1 << 62;
const PORT: u64 = 2 << 62;
const TEID: u64 = 3 << 62;
/// Beside VLANs, which take 28 bits.
const SESSION: u64 = VLAN | 1 << 61;
/// Beside ports, which take 16 bits.
const SPI: u64 = PORT | 1 << 61;

#[inline(always)]
pub(super) fn ipv4_key(network: u32, address: u32) -> u64 {
    u64::from(network) << 32 | u64::from(address)
}

#[inline(always)]
pub(super) fn teid_key(network: u32, teid: u32) -> u64 {
    TEID | u64::from(network) << 32 | u64::from(teid)
}

pub(super) fn spi_key(network: u32, spi: u32) -> u64 {
    SPI | u64::from(network) << 32 | u64::from(spi)
}

pub(super) fn vlan_key(port: u16, vlan: u16) -> u64 {
    VLAN | u64::from(port) << 16 | u64::from(vlan)
}

pub(super) fn session_key(port: u16, session: u16) -> u64 {
    SESSION | u64::from(port) << 16 | u64::from(session)
}

pub(super) fn port_key(port: u16) -> u64 {
    PORT | u64::from(port)
}

/// Of an address, or of its /64 prefix.
pub(super) fn ipv6_key(network: u32, address: Ipv6Addr, prefix_len: u8) -> [u64; 3] {
    let bits = address.to_bits();
    let (high, low) = ((bits >> 64) as u64, bits as u64);
    let low = if prefix_len == 64 { 0 } else { low };
    [high, low, u64::from(network) << 8 | u64::from(prefix_len)]
}

pub(super) fn flow_key(network: u32, flow: &FlowKey) -> [u64; 5] {
    let [a, b, c, d, rest] = flow_words(flow);
    [a, b, c, d, u64::from(network & 0xffff) << 40 | rest]
}

/// Addresses, then protocol and ports.
pub(super) fn flow_words(flow: &FlowKey) -> [u64; 5] {
    let words = |address: IpAddr| {
        let bits = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        };
        [(bits >> 64) as u64, bits as u64]
    };
    let ([a, b], [c, d]) = (words(flow.source), words(flow.destination));
    let ports = u64::from(flow.source_port) << 16 | u64::from(flow.destination_port);
    [a, b, c, d, u64::from(flow.protocol.0) << 32 | ports]
}
