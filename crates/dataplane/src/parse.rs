//! The parser: looks at the outer headers of each packet once, and leaves what
//! it found in the metadata. [`crate::parse::tunnel`] goes on with what is inside a
//! tunnel that ends here; `usual` reads most packets in one go.

pub mod local;
pub mod tunnel;
pub(crate) mod usual;

use weft_compose::{Burst, Positions};
use weft_dpdk::Packet;
use weft_function::{Metadata, PacketMetadata, StepValue};
use weft_wire::vlan::VlanId;
use weft_wire::{
    EtherType, Fragment, Protocol, ethernet, ipv4, ipv6, options, pppoe, tcp, udp, vlan,
};

use crate::counters::DropReason;

/// The identifier that no tag may carry (IEEE 802.1Q §9.6).
const RESERVED_VLAN: Option<VlanId> = VlanId::new(0xfff);

/// What the parser found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// An IP packet.
    Ip,
    /// ARP: at a routed port for the node, not for a user.
    Arp,
    /// A frame of a PPPoE session, such as compressed headers travel in: for a
    /// user who is told by session, VLAN or port, and not to be routed.
    Session,
    /// A frame with a service header (RFC 8300): for a service path.
    Service,
    /// Not to be carried.
    Malformed(DropReason),
}

/// How the packets of a burst divide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sorted {
    /// IP packets.
    pub ip: Positions,
    /// ARP.
    pub arp: Positions,
    /// Frames of PPPoE sessions.
    pub session: Positions,
    /// Frames with service headers.
    pub service: Positions,
    /// Not to be carried; see [`reason_of`].
    pub malformed: Positions,
}

/// Parses packets of a burst that came in at `port`.
#[inline]
pub fn parse_burst(burst: &mut Burst, selected: Positions, port: u16) -> Sorted {
    let mut sorted = Sorted::default();
    for position in selected {
        let packet = &mut burst.packets[position];
        match parse(packet, port) {
            Parsed::Ip => sorted.ip.insert(position),
            Parsed::Arp => sorted.arp.insert(position),
            Parsed::Session => sorted.session.insert(position),
            Parsed::Service => sorted.service.insert(position),
            Parsed::Malformed(reason) => {
                sorted.malformed.insert(position);
                packet.metadata_mut().step = StepValue::new(reason);
            }
        }
    }
    sorted
}

/// What is wrong with a malformed packet of a burst that was parsed.
pub fn reason_of(packet: &Packet) -> DropReason {
    packet.metadata().step.get()
}

/// Whether a packet that another program has handled is where its metadata say,
/// and whole. What they say of lengths and protocol is replaced by what is so.
pub fn is_sound(packet: &mut Packet) -> bool {
    let (bytes, metadata) = packet.parts_mut();
    let bytes = &*bytes;
    let (network, outer) =
        (usize::from(metadata.network_offset), usize::from(metadata.outer_offset));
    if network < ethernet::HEADER_LENGTH || network > bytes.len() {
        return false;
    }
    if outer != 0 {
        // The tunnel around it: of the family that its version says.
        let mut around = *metadata;
        let Some(first) = bytes.get(outer) else { return false };
        let is_ahead = outer >= ethernet::HEADER_LENGTH && outer <= network;
        let family = if first >> 4 == 6 { EtherType::IPV6 } else { EtherType::IPV4 };
        around.ether_type = family.0;
        around.network_offset = outer as u16;
        if !is_ahead || parse_network(&bytes[outer..], &mut around) != Parsed::Ip {
            return false;
        }
        if outer == network {
            return true;
        }
    }
    metadata.transport_offset = 0;
    metadata.flags &= !PacketMetadata::FRAGMENT;
    !matches!(parse_network(&bytes[network..], metadata), Parsed::Malformed(_) | Parsed::Service)
}

/// Parses one packet. All metadata are written, whatever it is.
#[inline]
pub fn parse(packet: &mut Packet, port: u16) -> Parsed {
    let linear = packet.is_linear();
    let (bytes, metadata) = packet.parts_mut();
    *metadata = PacketMetadata {
        user: PacketMetadata::NONE,
        bearer: PacketMetadata::NONE,
        group: PacketMetadata::NONE,
        vlan: PacketMetadata::NO_VLAN,
        port,
        ..PacketMetadata::default()
    };
    if !linear {
        return Parsed::Malformed(DropReason::Segmented);
    }
    let Ok(frame) = ethernet::Frame::new_checked(&*bytes) else {
        return Parsed::Malformed(DropReason::EthernetMalformed);
    };
    let Ok(stack) = vlan::walk(frame.ether_type(), frame.payload()) else {
        return Parsed::Malformed(DropReason::VlanMalformed);
    };
    if let Some(outer) = stack.outer() {
        if stack.vlan_ids.contains(&RESERVED_VLAN) {
            return Parsed::Malformed(DropReason::VlanMalformed);
        }
        // A priority tag (identifier 0, IEEE 802.1Q §9.6) names no VLAN.
        if outer != VlanId::PRIORITY_ONLY {
            metadata.vlan = outer.value();
        }
    }
    let (offset, ether_type) = (ethernet::HEADER_LENGTH + stack.length, stack.ether_type);
    metadata.ether_type = ether_type.0;
    metadata.network_offset = offset as u16;
    parse_network(&bytes[offset..], metadata)
}

/// Parses the IP packet that begins with `network`, where `metadata` say that
/// it is of `ether_type` and where it begins.
#[inline]
pub fn parse_network(network: &[u8], metadata: &mut PacketMetadata) -> Parsed {
    match EtherType(metadata.ether_type) {
        EtherType::IPV4 => parse_ipv4(network, metadata),
        EtherType::IPV6 => parse_ipv6(network, metadata),
        EtherType::ARP => Parsed::Arp,
        EtherType::PPPOE_SESSION => parse_session(network, metadata),
        EtherType::NSH => Parsed::Service,
        _ => Parsed::Malformed(DropReason::EtherTypeUnknown),
    }
}

#[inline]
fn parse_ipv4(network: &[u8], metadata: &mut PacketMetadata) -> Parsed {
    let Ok(packet) = ipv4::Packet::new_checked(network) else {
        return Parsed::Malformed(DropReason::Ipv4Malformed);
    };
    if packet.verify_checksum().is_err() {
        return Parsed::Malformed(DropReason::Ipv4Checksum);
    }
    if packet.header_length() > ipv4::MIN_HEADER_LENGTH && !has_sound_options(&packet) {
        return Parsed::Malformed(DropReason::Ipv4Malformed);
    }
    metadata.network_length = packet.total_length();
    metadata.protocol = packet.protocol().0;
    finish(metadata, packet.header_length(), packet.fragment(), packet.payload())
}

/// Apart from the way of most packets: few have options.
#[cold]
fn has_sound_options(packet: &ipv4::Packet<&[u8]>) -> bool {
    options::walk(packet.options()).all(|option| option.is_ok())
}

fn parse_ipv6(network: &[u8], metadata: &mut PacketMetadata) -> Parsed {
    let Ok(packet) = ipv6::Packet::new_checked(network) else {
        return Parsed::Malformed(DropReason::Ipv6Malformed);
    };
    let Ok(upper) = packet.upper_layer() else {
        return Parsed::Malformed(DropReason::Ipv6Malformed);
    };
    metadata.network_length = packet.total_length() as u16;
    metadata.protocol = upper.protocol.0;
    let transport = &packet.as_bytes()[upper.offset..];
    finish(metadata, upper.offset, upper.fragment, transport)
}

#[cold]
fn parse_session(network: &[u8], metadata: &mut PacketMetadata) -> Parsed {
    let length = pppoe::Frame::new_checked(network).map(|frame| frame.total_length());
    match length.map(u16::try_from) {
        Ok(Ok(length)) => {
            metadata.network_length = length;
            Parsed::Session
        }
        _ => Parsed::Malformed(DropReason::PppoeMalformed),
    }
}

/// Notes the transport header that begins `offset` bytes behind the IP header.
/// A first fragment too short for it goes on without (RFC 1858 §3 lets a
/// filter drop it); a whole packet does not. An atomic fragment (RFC 6946) is a
/// whole packet.
#[inline]
fn finish(
    metadata: &mut PacketMetadata,
    offset: usize,
    fragment: Option<Fragment>,
    transport: &[u8],
) -> Parsed {
    let fragment = fragment.filter(|fragment| !fragment.is_whole());
    if let Some(fragment) = fragment {
        metadata.flags |= PacketMetadata::FRAGMENT;
        if !fragment.is_first() {
            return Parsed::Ip;
        }
    }
    let whole = match Protocol(metadata.protocol) {
        Protocol::UDP if fragment.is_some() => {
            udp::Datagram::new_checked_fragment(transport).is_ok()
        }
        Protocol::UDP => udp::Datagram::new_checked(transport).is_ok(),
        Protocol::TCP => tcp::Segment::new_checked(transport).is_ok(),
        _ => true,
    };
    if whole {
        metadata.transport_offset = metadata.network_offset + offset as u16;
        return Parsed::Ip;
    }
    match fragment {
        Some(_) => Parsed::Ip,
        None => Parsed::Malformed(DropReason::TransportMalformed),
    }
}
