//! Packet detection rules, compiled: what a packet must be like, and what becomes of it.

use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use weft_function::{Headers, Metadata, Packet, TagSlot, Tunnel};
use weft_wire::Protocol;

use super::way::Way;
use crate::common::prefix::{Masked, Prefix};
use crate::session::rules::filter::{self, End, Flow, SdfFilter};
use crate::session::rules::{Few, Rare};

/// What a packet shows to the rules: read once, as far as rules ask.
#[derive(Debug)]
pub struct Facts {
    /// TEID of the tunnel around it; 0 outside of tunnels.
    pub teid: u32,
    /// The network instance that it came in.
    pub network: u32,
    /// An End Marker: only its tunnel is looked at.
    pub is_end_marker: bool,
    /// Domains that its other end is known by, a bit for each.
    pub domains: u64,
    addresses: Option<(IpAddr, IpAddr)>,
    qfi: Option<u8>,
}

impl Facts {
    /// Those of a packet.
    pub fn of(packet: &Packet) -> Facts {
        let message = packet.message();
        let qfi = message.as_ref().and_then(|message| message.pdu_session().ok().flatten());
        Facts {
            teid: message.as_ref().map_or(0, |message| message.teid().0),
            network: TagSlot::NETWORK.get(packet.metadata()),
            is_end_marker: packet.is_end_marker(),
            domains: 0,
            addresses: packet.addresses(),
            qfi: qfi.map(|session| session.qfi().value()),
        }
    }
}

/// Addresses of one IP version, or of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    ipv4: Option<Masked<u32>>,
    ipv6: Option<Masked<u128>>,
    /// All addresses, of both versions.
    any: bool,
}

impl Addresses {
    /// Those that a prefix contains; all without one.
    pub fn of(prefix: Option<Prefix>) -> Addresses {
        let (ipv4, ipv6) = (prefix.and_then(Prefix::v4), prefix.and_then(Prefix::v6));
        Addresses { ipv4, ipv6, any: prefix.is_none() }
    }

    /// These, or those of the other version.
    pub fn or(self, other: Addresses) -> Addresses {
        let (ipv4, ipv6) = (self.ipv4.or(other.ipv4), self.ipv6.or(other.ipv6));
        Addresses { ipv4, ipv6, any: self.any || other.any }
    }

    fn contains(&self, address: IpAddr) -> bool {
        self.any
            || match address {
                IpAddr::V4(address) => {
                    self.ipv4.is_some_and(|prefix| prefix.contains(address.to_bits()))
                }
                IpAddr::V6(address) => {
                    self.ipv6.is_some_and(|prefix| prefix.contains(address.to_bits()))
                }
            }
    }
}

/// What becomes of a packet that a rule has detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes on.
    Forward,
    /// It is dropped, as its forwarding action rule says.
    Drop,
    /// It is dropped, as the rule has no forwarding action rule.
    NoFar,
    /// It is dropped, as it has nowhere to go.
    NoDestination,
    /// It waits.
    Wait {
        /// Whether the control plane is told.
        notify: bool,
        /// Packets that may wait.
        most: u32,
    },
}

/// A packet detection rule.
#[derive(Debug)]
pub struct Detector {
    /// Whether packets are from the access side.
    pub uplink: bool,
    /// TEID of the tunnel that packets come in; 0 outside of tunnels.
    pub teid: u32,
    /// The network instance that they come in; none for any.
    pub network: Option<u32>,
    /// The user's addresses.
    pub ue: Addresses,
    /// Networks behind the user.
    pub routes: Box<[Addresses]>,
    /// When it holds, if it does not always: seconds since 1970.
    pub period: Option<(u64, u64)>,
    /// QoS flow identifiers, a bit for each; 0 for any packet.
    pub qfis: u64,
    /// Filters of which one must match, if there are any.
    pub filters: Rare<SdfFilter>,
    /// Of each filter the bit of its domain; none where no filter has one.
    pub domains: Box<[u64]>,
    /// What is noted in packets that match.
    pub way: Way,
    /// What becomes of them.
    pub fate: Fate,
    /// Places of what measures them.
    pub urrs: Few<u16>,
    /// Places of what limits them.
    pub qers: Few<u16>,
}

impl Detector {
    /// Whether the rule is one for a packet.
    pub fn matches(&self, packet: &Packet, facts: &Facts) -> bool {
        if self.teid != facts.teid || self.network.is_some_and(|network| network != facts.network) {
            return false;
        }
        if self.period.is_some_and(|(from, until)| !(from..until).contains(&unix_time())) {
            return false;
        }
        if facts.is_end_marker {
            return true;
        }
        let Some((source, destination)) = facts.addresses else { return false };
        let (user, remote) =
            if self.uplink { (source, destination) } else { (destination, source) };
        let has_flow = facts.qfi.is_some_and(|qfi| self.qfis >> qfi & 1 == 1);
        let is_users =
            || self.ue.contains(user) || self.routes.iter().any(|behind| behind.contains(user));
        if self.qfis != 0 && !has_flow || !is_users() {
            return false;
        }
        let is_of_domain = |at: usize| {
            self.domains.get(at).is_none_or(|bit| *bit == 0 || bit & facts.domains != 0)
        };
        self.filters.is_empty()
            || self.filters.iter().enumerate().any(|(at, filter)| {
                is_of_domain(at) && passes(filter, packet, (user, remote), self.uplink)
            })
    }
}

/// Seconds since 1970.
fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Whether a packet is one that a filter is for.
fn passes(
    filter: &SdfFilter,
    packet: &Packet,
    (user, remote): (IpAddr, IpAddr),
    uplink: bool,
) -> bool {
    let SdfFilter { flow, tos, spi, flow_label, .. } = filter;
    tos.is_none_or(|tos| has_tos(packet, tos))
        && spi.is_none_or(|spi| spi_of(packet) == Some(spi))
        && flow_label.is_none_or(|label| flow_label_of(packet) == Some(label))
        && flow.as_ref().is_none_or(|flow| in_flow(flow, packet, (user, remote), uplink))
}

fn in_flow(flow: &Flow, packet: &Packet, (user, remote): (IpAddr, IpAddr), uplink: bool) -> bool {
    if flow.protocol.is_some_and(|protocol| packet.protocol() != Some(Protocol(protocol))) {
        return false;
    }
    let is_at = |end: &End, address| Addresses::of(end.prefix).contains(address);
    if !is_at(&flow.user, user) || !is_at(&flow.remote, remote) {
        return false;
    }
    if flow.user.ports.is_empty() && flow.remote.ports.is_empty() {
        return true;
    }
    let Some((source, destination)) = packet.ports() else { return false };
    let (user, remote) = if uplink { (source, destination) } else { (destination, source) };
    let has = |end: &End, port: u16| {
        end.ports.is_empty()
            || end.ports.iter().any(|range| (range.first..=range.last).contains(&port))
    };
    has(&flow.user, user) && has(&flow.remote, remote)
}

fn has_tos(packet: &Packet, filter::Masked { value, mask }: filter::Masked) -> bool {
    let network = usize::from(packet.metadata().network_offset);
    let octet = match packet.data().get(network..) {
        Some([first, second, ..]) if first >> 4 == 6 => first << 4 | second >> 4,
        Some([_, second, ..]) => *second,
        _ => return false,
    };
    octet & mask == value & mask
}

/// The security parameter index of ESP (RFC 4303 §2) or AH (RFC 4302 §2).
fn spi_of(packet: &Packet) -> Option<u32> {
    let at = match packet.protocol()? {
        Protocol::ESP => 0,
        Protocol::AH => 4,
        // Encapsulated in UDP (RFC 3948 §2.2).
        Protocol::UDP
            if packet.ports().is_some_and(|(one, other)| is_esp(one) || is_esp(other)) =>
        {
            8
        }
        _ => return None,
    };
    let spi = packet.transport()?.get(at..)?.first_chunk().copied().map(u32::from_be_bytes);
    spi.filter(|spi| *spi != 0)
}

fn is_esp(port: u16) -> bool {
    port == 4500
}

fn flow_label_of(packet: &Packet) -> Option<u32> {
    let network = usize::from(packet.metadata().network_offset);
    let first = packet.data().get(network..)?.first_chunk().copied().map(u32::from_be_bytes)?;
    (first >> 28 == 6).then_some(first & 0xf_ffff)
}
