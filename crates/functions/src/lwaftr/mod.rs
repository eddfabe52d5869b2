//! `lwaftr`: the border function of lightweight 4over6 (RFC 7596): users share IPv4
//! addresses by sets of ports, and reach them through IPv4-in-IPv6 softwires, which
//! this function ends. Who has what stands in a table; no flow is remembered.
//!
//! What comes uplink is from softwires, what comes downlink from the IPv4 Internet.

mod bindings;
mod config;
mod decapsulate;
mod encapsulate;
mod reassembly;
mod shared;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weft_function::tag::DIRECTION;
use weft_function::{
    ConfigError, ContextError, Direction, Emit, Fields, Headers as _, Metadata, NoSettings, Packet,
    Reason, Setup, Tag, TagSlot, UserPlaneFunction, Verdict,
};
use weft_wire::{Dscp, EtherType, Protocol};

use self::bindings::Bindings;
pub use self::config::{Config, Icmp, PortSets, Softwire, Table};
use self::reassembly::Reassembly;
use self::shared::Shared;
use crate::common::first_fragments::FirstFragments;
use crate::common::icmp_error::{Errors, Problem};
use crate::common::shared_ports::{End, Header, Kind, Plain, is_sound, quoted, word};

/// The function of this domain.
pub(crate) const KINDS: &[weft_compose::Kind] = &[weft_compose::Kind::of::<Lwaftr>()];

const NO_SOFTWIRE: Reason =
    Reason::new("lwaftr_no_softwire", "no softwire has this IPv4 address and port");
const REFUSED: Reason =
    Reason::new("lwaftr_refused", "the softwire does not have this IPv4 address and port");
const NOT_TUNNELLED: Reason =
    Reason::new("lwaftr_not_tunnelled", "IPv4 from the softwires' side that is in none of them");
const NOT_SOFTWIRE: Reason =
    Reason::new("lwaftr_not_softwire", "for the softwires' address, but not IPv4 in IPv6");
const INNER: Reason = Reason::new("lwaftr_inner_malformed", "no sound IPv4 packet is inside");
const PROTOCOL: Reason =
    Reason::new("lwaftr_protocol", "of a protocol without ports, for an address that is shared");
const ICMP: Reason =
    Reason::new("lwaftr_icmp", "a message of ICMP that is no softwire's, or is not let in");
const FRAGMENT: Reason =
    Reason::new("lwaftr_fragment", "an IPv4 fragment whose first one was not seen before it");
const WAITS: Reason =
    Reason::new("lwaftr_fragment_joined", "an IPv6 fragment that goes on in the last one of all");
const BAD_FRAGMENT: Reason =
    Reason::new("lwaftr_fragment_bad", "an IPv6 fragment that does not fit the others");
const CONGESTION: Reason =
    Reason::new("lwaftr_congestion", "congestion met by a packet that cannot tell of it");
const HOPS_USED_UP: Reason = Reason::new("lwaftr_ttl_exceeded", "time to live is used up");
const TOO_BIG: Reason =
    Reason::new("lwaftr_too_big", "longer than the softwire takes, and not to be fragmented");
const TUNNEL_ERROR: Reason =
    Reason::new("lwaftr_tunnel_error", "an ICMPv6 error about a softwire that is not passed on");
const NO_ROOM: Reason = Reason::new("lwaftr_no_room", "no room for headers, or no buffer");

/// Ends softwires.
#[derive(Debug)]
pub struct Lwaftr {
    shared: Arc<Shared>,
    bindings: Arc<Bindings>,
    version: u64,
    address: u128,
    ipv4: Option<u32>,
    mtu: usize,
    dscp: Option<Dscp>,
    hairpinning: bool,
    icmp: Icmp,
    errors: Errors,
    /// The lwB4s of datagrams in IPv4 fragments: as sources, and as destinations.
    firsts: [FirstFragments<u128>; 2],
    reassembly: Reassembly,
    /// Identification of the packet in IPv6 fragments that was sent last.
    identification: u32,
    now: u64,
}

impl UserPlaneFunction for Lwaftr {
    const NAME: &'static str = "lwaftr";
    const SUMMARY: &'static str = "Ends the softwires of lightweight 4over6 (RFC 7596).";
    const READS: &'static [Tag] = &[DIRECTION];
    const DROPS: &'static [Reason] = &[
        NO_SOFTWIRE,
        REFUSED,
        NOT_TUNNELLED,
        NOT_SOFTWIRE,
        INNER,
        PROTOCOL,
        ICMP,
        FRAGMENT,
        WAITS,
        BAD_FRAGMENT,
        CONGESTION,
        HOPS_USED_UP,
        TOO_BIG,
        TUNNEL_ERROR,
        NO_ROOM,
    ];
    const STAGES: usize = 1;

    type Config = Config;
    type Settings = NoSettings;
    type Context = ();

    fn new(config: Config, setup: &Setup<'_>) -> Result<Lwaftr, ConfigError> {
        config::check(&config)?;
        let shared = match setup.trial {
            true => Shared::fixed(shared::bindings(&config)?),
            false => Shared::of(&config)?,
        };
        let (bindings, version) = shared.wait();
        let reassemblies = if setup.trial { 1 } else { config.reassemblies };
        Ok(Lwaftr {
            shared,
            bindings,
            version,
            address: config.address.to_bits(),
            ipv4: config.ipv4_address.map(|address| address.to_bits()),
            mtu: config.mtu.into(),
            dscp: config.dscp,
            hairpinning: config.hairpinning,
            icmp: config.icmp,
            errors: Errors::new(config.ipv4_address, Some(config.address)),
            firsts: [FirstFragments::new(), FirstFragments::new()],
            reassembly: Reassembly::new(reassemblies as usize),
            identification: 0,
            now: 0,
        })
    }

    #[inline(always)]
    fn look_ahead(&self, _: usize, packet: &Packet, _: u64) -> u64 {
        let metadata = packet.metadata();
        let (ether_type, end, offset) = match is_uplink(packet) {
            true => (EtherType::IPV6, End::Source, metadata.transport_offset),
            false => (EtherType::IPV4, End::Destination, metadata.network_offset),
        };
        let ip = packet.data().get(usize::from(offset)..);
        let plain = ip.and_then(Plain::read).filter(|_| metadata.ether_type == ether_type.0);
        plain.map_or(0, |plain| {
            let (address, port) = plain.end(end);
            self.bindings.ask(address, port)
        })
    }

    #[inline]
    fn process(&mut self, packet: &mut Packet, (): &mut (), emit: &mut Emit<'_>) -> Verdict {
        if self.now != emit.now() {
            self.now = emit.now();
            self.renew();
        }
        let done = match (EtherType(packet.metadata().ether_type), is_uplink(packet)) {
            (EtherType::IPV6, true) => self.leave_softwire(packet, emit),
            (EtherType::IPV4, false) => self.enter_softwire(packet, emit),
            // Errors of its own come this way.
            (EtherType::IPV4, true) if packet.ipv4_source() != self.ipv4 => Err(NOT_TUNNELLED),
            _ => Ok(()),
        };
        done.map_or_else(Verdict::Drop, |()| Verdict::Forward)
    }

    fn export(&self, (): &(), _: &mut Vec<u8>) {}

    fn import(&mut self, version: u16, bytes: &[u8]) -> Result<(), ContextError> {
        match version {
            Self::CONTEXT_VERSION => Fields::new(bytes).end(),
            _ => Err(ContextError::Version(version)),
        }
    }

    fn show(&self, (): &()) -> Vec<(&'static str, u64)> {
        vec![
            ("softwires", self.bindings.len() as u64),
            ("memory", self.bindings.memory_bytes() as u64),
            ("reloads", self.version),
            ("refused", self.shared.refused.load(Relaxed)),
        ]
    }
}

#[inline(always)]
fn is_uplink(packet: &Packet) -> bool {
    TagSlot::DIRECTION.get(packet.metadata()) == Direction::Uplink as u32
}

impl Lwaftr {
    /// Takes other bindings, if there are any by now.
    #[inline]
    fn renew(&mut self) {
        if self.shared.version.load(Relaxed) != self.version
            && let Some((bindings, version)) = self.shared.take()
        {
            (self.bindings, self.version) = (bindings, version);
        }
    }

    /// From the IPv4 Internet into a softwire.
    #[inline]
    fn enter_softwire(&mut self, packet: &mut Packet, emit: &mut Emit<'_>) -> Result<(), Reason> {
        if let Some(b4) = self.bindings.noted(emit.note()) {
            return self.encapsulate(packet, b4, true, emit);
        }
        let ip = ip_of(packet).ok_or(INNER)?;
        let header = Header::read(ip).ok_or(INNER)?;
        match self.owner(ip, &header, End::Destination) {
            Ok(b4) => self.encapsulate(packet, b4, true, emit),
            Err(reason) => {
                if reason == NO_SOFTWIRE && self.icmp.unreachable {
                    self.errors.tell(packet, Problem::HostUnreachable, emit);
                }
                Err(reason)
            }
        }
    }

    /// The lwB4 that has one end of a packet (RFC 7596 §6.2, §8.1).
    fn owner(&mut self, ip: &[u8], header: &Header, end: End) -> Result<u128, Reason> {
        let transport = ip.get(header.length..).filter(|_| header.is_first);
        let is_destination = end == End::Destination;
        let address = if is_destination { header.destination } else { header.source };
        let port = match Kind::of(header, transport) {
            Kind::Ports(source, destination) => {
                if is_destination {
                    destination
                } else {
                    source
                }
            }
            Kind::Query(_) | Kind::Error if is_destination && !self.icmp.inbound => {
                return Err(ICMP);
            }
            Kind::Query(identifier) => {
                // Into softwires, echoes only.
                let kind = transport.and_then(|message| message.first());
                if is_destination && !matches!(kind, Some(0 | 8)) {
                    return Err(ICMP);
                }
                identifier
            }
            Kind::Error => port_of_error(transport, address, end).ok_or(ICMP)?,
            Kind::Later => {
                let firsts = &self.firsts[usize::from(is_destination)];
                return firsts.find(header, self.now).ok_or(FRAGMENT);
            }
            Kind::Other if header.protocol == Protocol::ICMP.0 => return Err(ICMP),
            Kind::Other if self.bindings.is_whole(address) => 0,
            Kind::Other => return Err(PROTOCOL),
        };
        let b4 = self.bindings.find(address, port).ok_or(NO_SOFTWIRE)?;
        if header.is_fragment {
            self.firsts[usize::from(is_destination)].note(header, b4, self.now);
        }
        Ok(b4)
    }
}

/// The port of the packet that an ICMP error is about, at the end that gets the error
/// or sends it (RFC 7596 §8.1 3).
#[cold]
fn port_of_error(message: Option<&[u8]>, address: u32, end: End) -> Option<u16> {
    let message = message.filter(|message| is_sound(message))?;
    let other = if end == End::Source { End::Destination } else { End::Source };
    let (quoted_address, port, _) = quoted(message, other)?;
    (quoted_address == address).then_some(port)
}

/// The IP packet, without what the link has added.
#[inline]
fn ip_of(packet: &Packet) -> Option<&[u8]> {
    let start = usize::from(packet.metadata().network_offset);
    packet.data().get(start..start + usize::from(packet.metadata().network_length))
}

/// What the octets of an IPv4 packet say of its length.
#[inline]
fn total_length(ip: &[u8]) -> usize {
    word(ip, 2).unwrap_or_default().into()
}

#[cfg(test)]
mod tests;
