//! Tunnels that end at the node: what is inside them (TS 29.281).
//!
//! The outer headers stay in front of the packet; functions that change or take
//! off the tunnel find them there.

use weft_compose::Burst;
use weft_dpdk::Packet;
use weft_function::{Headers, Metadata, PacketMetadata, StepValue};
use weft_wire::gtpu::{self, Comprehension, Message, MessageType};
use weft_wire::nsh::NextProtocol;
use weft_wire::{EtherType, Protocol, udp, vxlan_gpe};

use crate::counters::DropReason;
use crate::parse::local::{Divided, OwnAddresses, is_discovery};
use crate::parse::{Parsed, parse_network};

/// What a packet to one of the node's addresses is.
enum Opened {
    /// Of a user, in a tunnel.
    User,
    /// An End Marker, which has a user but no packet inside.
    EndMarker,
    /// A service header.
    Service,
    /// For the node itself.
    Local,
    /// Not to be carried.
    Refused(DropReason),
}

impl OwnAddresses {
    /// Takes the packets of users out of those for the node.
    pub(crate) fn open_tunnels(&self, burst: &mut Burst, divided: &mut Divided) {
        for position in divided.local {
            let packet = &mut burst.packets[position];
            match self.open(packet) {
                Opened::Local => continue,
                Opened::User | Opened::EndMarker => divided.tunnelled.insert(position),
                Opened::Service => divided.service.insert(position),
                Opened::Refused(reason) => {
                    divided.refused.insert(position);
                    packet.metadata_mut().step = StepValue::new(reason);
                }
            }
            divided.local.remove(position);
        }
    }

    /// Opens the tunnel around a packet, if there is one, and notes where what is inside
    /// must not leave it: a relay does not ask.
    #[inline]
    fn open(&self, packet: &mut Packet) -> Opened {
        let opened = open(packet, self.service);
        if !matches!(opened, Opened::User) {
            return opened;
        }
        match packet.addresses() {
            Some((_, to)) if self.addresses.contains(&to) => {
                packet.metadata_mut().flags |= PacketMetadata::OWN_INSIDE;
            }
            Some((from, to)) if self.is_martian(from, to) => note_martian(packet),
            _ => {}
        }
        Opened::User
    }
}

/// A packet that no router forwards, in a tunnel: goes on to a relay, neighbour discovery of
/// the user's link also to a function that answers it.
#[cold]
fn note_martian(packet: &mut Packet) {
    let is_of_link = is_discovery(packet) && packet.hop_limit() == Some(255);
    packet.metadata_mut().flags |=
        if is_of_link { PacketMetadata::LINK_SCOPE } else { PacketMetadata::MARTIAN_INSIDE };
}

/// Why a packet must not be taken out of its tunnel, if that is so.
pub(crate) fn refuses_to_leave(packet: &Packet) -> Option<DropReason> {
    match packet.metadata().flags {
        flags if flags & PacketMetadata::OWN_INSIDE != 0 => Some(DropReason::TunnelledToUs),
        flags if flags & PacketMetadata::MARTIAN_INSIDE != 0 => Some(DropReason::Martian),
        _ => None,
    }
}

/// Reads the GTP-U message to port 2152, and the packet inside. The TEID is left
/// for the classifier. The UDP checksum is not looked
/// at, as the packet's user has checksums of their own.
#[inline]
fn open(packet: &mut Packet, service: bool) -> Opened {
    if packet.protocol() != Some(Protocol::UDP) {
        return Opened::Local;
    }
    let (bytes, metadata) = packet.parts_mut();
    if metadata.flags & PacketMetadata::FRAGMENT != 0 {
        return Opened::Refused(DropReason::OuterFragment);
    }
    let start = usize::from(metadata.transport_offset);
    let end = usize::from(metadata.network_offset + metadata.network_length);
    let Some(Ok(datagram)) =
        bytes.get(start..end).filter(|_| start != 0).map(udp::Datagram::new_checked_fragment)
    else {
        return Opened::Local;
    };
    if datagram.destination_port() != gtpu::PORT {
        return match datagram.destination_port() == vxlan_gpe::PORT && service {
            true => open_service(packet, start, end),
            false => Opened::Local,
        };
    }
    let Ok(message) = Message::new_checked(datagram.payload()) else {
        return Opened::Refused(DropReason::GtpuMalformed);
    };
    match check_extensions(&message) {
        Ok(flags) => metadata.flags |= flags,
        Err(reason) => return Opened::Refused(reason),
    }
    let message_type = message.message_type();
    if message_type != MessageType::G_PDU && message_type != MessageType::END_MARKER {
        return Opened::Local;
    }
    metadata.outer_offset = metadata.network_offset;
    metadata.flags |= PacketMetadata::TUNNELLED;
    metadata.step = StepValue::new(message.teid());
    if message_type == MessageType::END_MARKER {
        return Opened::EndMarker;
    }
    let offset = start + udp::HEADER_LENGTH + message.header_length();
    parse_inside(message.payload(), offset, metadata)
}

/// Reads the VXLAN-GPE header to port 4790, behind the UDP header at `start`, and notes
/// where the service header begins. The UDP checksum is not looked at (RFC 6935).
#[cold]
fn open_service(packet: &mut Packet, start: usize, end: usize) -> Opened {
    let offset = start + udp::HEADER_LENGTH;
    let header = packet.data().get(offset..end).map(vxlan_gpe::Packet::new_checked);
    if !matches!(header, Some(Ok(header)) if header.next_protocol() == NextProtocol::NSH) {
        return Opened::Refused(DropReason::VxlanMalformed);
    }
    packet.truncate(end);
    let metadata = packet.metadata_mut();
    // Says who has sent the header.
    metadata.outer_offset = metadata.network_offset;
    metadata.network_offset = (offset + vxlan_gpe::HEADER_LENGTH) as u16;
    metadata.ether_type = EtherType::NSH.0;
    Opened::Service
}

/// Parses the user's packet at `offset` of the frame.
#[inline]
fn parse_inside(inside: &[u8], offset: usize, metadata: &mut PacketMetadata) -> Opened {
    let ether_type = match inside.first().map(|first| first >> 4) {
        Some(4) => EtherType::IPV4,
        Some(6) => EtherType::IPV6,
        _ => return Opened::Refused(DropReason::GtpuPayloadUnknown),
    };
    metadata.ether_type = ether_type.0;
    metadata.network_offset = offset as u16;
    metadata.transport_offset = 0;
    match parse_network(inside, metadata) {
        Parsed::Malformed(reason) => Opened::Refused(reason),
        Parsed::Ip | Parsed::Arp | Parsed::Session | Parsed::Service => Opened::User,
    }
}

/// What the extension headers of a message say in the flags of the metadata, or what
/// is wrong with them. Those that only an endpoint must know are for the function
/// that takes the tunnel off.
#[inline]
fn check_extensions(message: &Message<&[u8]>) -> Result<u8, DropReason> {
    let mut flags = 0;
    for extension in message.extensions().filter(|extension| !extension.kind.is_known()) {
        match extension.kind.comprehension() {
            Comprehension::ByAll => return Err(DropReason::GtpuExtensionUnknown),
            Comprehension::Discarded => flags = PacketMetadata::DISCARDED_EXTENSIONS,
            Comprehension::Forwarded | Comprehension::ByEndpoint => {}
        }
    }
    message.pdu_session().map(|_| flags).map_err(|_| DropReason::GtpuMalformed)
}
