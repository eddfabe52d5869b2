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
    /// and TEIDs, which are looked for in every packet that has them.
    pub(super) fn of(&mut self, key: &UserKey) -> Option<&mut usize> {
        match key {
            UserKey::Ipv4 { .. } | UserKey::Teid { .. } => None,
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
