//! The classifier without a table, as a baseline: a scan over masked entries of
//! many fields, as a flow table without a hash does it (Lange et al.,
//! *Performance Benchmarking of a Software-Based LTE SGW*, §III.B).

use std::net::IpAddr;

use weft_function::{Direction, FlowKey, Headers, Metadata, Packet, Tunnel};
use weft_wire::Protocol;
use weft_wire::gtpu::Teid;

use super::UserKey;
use super::key::flow_words;

/// What a packet is compared by: where it came in, its tunnel, the user's
/// address, and its flow as it is seen uplink.
type Fields = [u64; 8];

/// Bit of the first word: the packet is in a tunnel.
const TUNNELLED: u64 = 1 << 63;
/// Bits of the first word: the IP version.
const V4: u64 = 1 << 62;
const V6: u64 = 1 << 61;
/// Bit of the first word: the packet is of a PPPoE session.
const SESSION: u64 = 1 << 60;
/// Bit of the first word: the packet is ESP.
const ESP: u64 = 1 << 59;

/// An entry: fields that must be alike, where the mask has ones.
#[derive(Debug)]
struct Entry {
    key: UserKey,
    values: Fields,
    mask: Fields,
    slot: u32,
}

/// Entries in the order of their precedence.
#[derive(Debug, Default)]
pub struct Linear {
    entries: Vec<Entry>,
}

impl Linear {
    /// Lets packets with `key` belong to the user at `slot`.
    pub fn insert(&mut self, key: &UserKey, slot: u32) {
        let (values, mask) = entry(key);
        let rank = precedence(key);
        let at = self.entries.partition_point(|entry| precedence(&entry.key) <= rank);
        self.entries.insert(at, Entry { key: *key, values, mask, slot });
    }

    /// Forgets `key`.
    pub fn remove(&mut self, key: &UserKey) {
        if let Some(at) = self.entries.iter().position(|entry| entry.key == *key) {
            self.entries.remove(at);
        }
    }

    /// The slot of the first entry that `packet` matches, which came in at
    /// `port` of `network`. The parser has left the TEID in a packet in a tunnel.
    pub fn find(&self, packet: &Packet, network: u32, direction: Direction) -> Option<u32> {
        let fields = fields(packet, network, direction);
        let matches = |entry: &&Entry| {
            let all = fields.iter().zip(&entry.values).zip(&entry.mask);
            all.map(|((field, value), mask)| (field ^ value) & mask).all(|other| other == 0)
        };
        self.entries.iter().find(matches).map(|entry| entry.slot)
    }
}

/// Flows first, then security associations, addresses, sessions, VLANs and ports; tunnels meet no others.
fn precedence(key: &UserKey) -> u8 {
    match key {
        UserKey::Flow { .. } | UserKey::Teid { .. } => 0,
        UserKey::Spi { .. } => 1,
        UserKey::Ipv4 { .. } => 2,
        UserKey::Ipv6 { prefix_len: 128, .. } => 3,
        UserKey::Ipv6 { .. } => 4,
        UserKey::Route { first, prefix_len, .. } => {
            // The longer, the earlier.
            let all = if first.is_ipv4() { 32 } else { 128 };
            5 + (all - all.min(*prefix_len))
        }
        UserKey::Session { .. } => 253,
        UserKey::Vlan { .. } => 254,
        UserKey::Port { .. } => 255,
    }
}

/// Values and mask of a key.
fn entry(key: &UserKey) -> (Fields, Fields) {
    let (mut values, mut mask) = ([0; 8], [0; 8]);
    let mut wants = |word: usize, value: u64, bits: u64| {
        values[word] |= value;
        mask[word] |= bits;
    };
    let tunnelled = matches!(key, UserKey::Teid { .. });
    wants(0, if tunnelled { TUNNELLED } else { 0 }, TUNNELLED);
    let low = u64::from(u32::MAX);
    match *key {
        UserKey::Teid { network, first } => {
            wants(0, network.into(), low);
            wants(1, first.into(), low);
        }
        UserKey::Spi { network, first } => {
            wants(0, ESP | u64::from(network), ESP | low);
            wants(1, first.into(), low);
        }
        UserKey::Ipv4 { network, first } => {
            wants(0, V4 | u64::from(network), V4 | low);
            wants(3, first.to_bits().into(), u64::MAX);
        }
        UserKey::Ipv6 { network, first, prefix_len } => {
            wants(0, V6 | u64::from(network), V6 | low);
            wants(2, (first.to_bits() >> 64) as u64, u64::MAX);
            let rest = if prefix_len == 64 { 0 } else { u64::MAX };
            wants(3, first.to_bits() as u64, rest);
        }
        UserKey::Route { network, first, prefix_len } => {
            let (family, bits, mask) = prefix(first, prefix_len);
            wants(0, family | u64::from(network), family | low);
            wants(2, ((bits & mask) >> 64) as u64, (mask >> 64) as u64);
            wants(3, (bits & mask) as u64, mask as u64);
        }
        UserKey::Vlan { port, first } => {
            wants(1, u64::from(port as u16) << 48 | u64::from(first) << 32, u64::MAX << 32);
        }
        UserKey::Session { port, first } => {
            wants(0, SESSION, SESSION);
            wants(1, u64::from(port as u16) << 48 | u64::from(first), 0xffff << 48 | low);
        }
        UserKey::Port { port } => wants(1, u64::from(port as u16) << 48, u64::MAX << 48),
        UserKey::Flow { network, protocol, source, source_port, destination, destination_port } => {
            let protocol = Protocol(protocol);
            let flow = FlowKey { source, destination, protocol, source_port, destination_port };
            wants(0, network.into(), low);
            let [a, b, c, d, rest] = flow_words(&flow);
            let words = if source.is_ipv4() { [0, b & low] } else { [a, b] };
            for (word, value) in (2..).zip([words[0], words[1], c, d, rest]) {
                wants(word, value, u64::MAX);
            }
            let version = if source.is_ipv4() { V4 } else { V6 };
            wants(0, version, version);
        }
    }
    (values, mask)
}

/// The family of a prefix, its bits and their mask.
fn prefix(first: IpAddr, length: u8) -> (u64, u128, u128) {
    let (family, bits) = match first {
        IpAddr::V4(first) => (V4, u128::from(first.to_bits())),
        IpAddr::V6(first) => (V6, first.to_bits()),
    };
    let behind = if first.is_ipv4() { 32 } else { 128 } - u32::from(length);
    (family, bits, u128::MAX.checked_shl(behind).unwrap_or(0))
}

/// The fields of a packet.
fn fields(packet: &Packet, network: u32, direction: Direction) -> Fields {
    let metadata = packet.metadata();
    let mut fields = [0; 8];
    fields[0] = network.into();
    fields[1] = u64::from(metadata.port) << 48 | u64::from(metadata.vlan) << 32;
    if packet.is_tunnelled() {
        fields[0] |= TUNNELLED;
        fields[1] |= u64::from(metadata.step.get::<Teid>().0);
        return fields;
    }
    if let Some(session) = super::look_up::session(packet) {
        fields[0] |= SESSION;
        fields[1] |= u64::from(session);
    }
    if let Some(spi) = super::look_up::spi(packet) {
        fields[0] |= ESP;
        fields[1] |= u64::from(spi);
    }
    if let Some((source, destination)) = packet.addresses() {
        let uplink = direction == Direction::Uplink;
        match if uplink { source } else { destination } {
            IpAddr::V4(address) => {
                fields[0] |= V4;
                fields[3] = address.to_bits().into();
            }
            IpAddr::V6(address) => {
                fields[0] |= V6;
                fields[2] = (address.to_bits() >> 64) as u64;
                fields[3] = address.to_bits() as u64;
            }
        }
    }
    match packet.flow() {
        Some(flow) => {
            let flow = if direction == Direction::Uplink { flow } else { flow.reversed() };
            fields[4..7].copy_from_slice(&flow_words(&flow)[2..]);
        }
        // No flow is all ones in the field of its protocol.
        None => fields[6] = u64::MAX,
    }
    fields
}
