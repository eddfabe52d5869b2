//! The two shapes that nearly all packets have, read in one go. In a tunnel that ends
//! here: Ethernet, IPv4 without options, UDP, GTP-U with nothing or a PDU session
//! container behind its header, and IPv4 without options inside. Outside tunnels:
//! Ethernet and IPv4 without options, to be carried on.
//!
//! What is otherwise, or wrong in the least, is left to the readers of single
//! headers, which alone say what is wrong with a packet. Of a packet that is
//! read here they would say the same: a property test holds them equal.

use std::net::Ipv4Addr;

use weft_compose::{Burst, Positions};
use weft_function::{Metadata, PacketMetadata, StepValue};
use weft_wire::checksum::sum20;
use weft_wire::gtpu::{self, MessageType, PduSession, Teid};
use weft_wire::{EtherType, Protocol, ethernet, ipv4, tcp, udp};

use crate::parse::local::{OwnAddresses, is_usual};

/// Where each header of the shape begins in the frame.
const OUTER: usize = ethernet::HEADER_LENGTH;
const DATAGRAM: usize = OUTER + ipv4::MIN_HEADER_LENGTH;
const MESSAGE: usize = DATAGRAM + udp::HEADER_LENGTH;
const BEHIND_HEADER: usize = MESSAGE + gtpu::MIN_HEADER_LENGTH;
/// The same where a PDU session container of four octets follows the header
/// with its optional fields (TS 38.415 §5.5.2).
const BEHIND_SESSION: usize = MESSAGE + gtpu::OPTIONAL_HEADER_LENGTH + 4;

/// Octets of a frame with no header behind the first of IPv4.
const PLAIN_HEAD: usize = DATAGRAM;
/// Octets of a frame with all the headers of a tunnel and no PDU session container.
const HEAD: usize = BEHIND_HEADER + ipv4::MIN_HEADER_LENGTH;

/// Octets 12 to 15 of the frame, but for the type of service.
const IPV4_AT_LINK: u32 = 0x0800_4500;
/// Version 1 of GTP, and nothing but the header; with an extension header.
const PLAIN: u8 = 0x30;
const EXTENDED: u8 = 0x34;
/// What follows the optional fields: one PDU session container, then no other.
const SESSION: u8 = 0x85;
/// More fragments, fragment offset, and the bit that is reserved.
const FRAGMENTED: u16 = 0xbfff;

/// The packets of a burst that were read in one go.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usual {
    /// In tunnels that end here.
    pub tunnelled: Positions,
    /// Outside tunnels.
    pub plain: Positions,
}

impl Usual {
    /// Those of both shapes.
    #[inline]
    pub fn all(&self) -> Positions {
        self.tunnelled.or(self.plain)
    }
}

/// What a packet's user is looked for by.
pub(crate) enum Known {
    /// The TEID of its tunnel.
    Teid(Teid),
    /// Its addresses: from and to.
    Ipv4([u8; 4], [u8; 4]),
}

/// What is read of a user's packet in a tunnel.
struct Inside {
    offset: usize,
    length: usize,
    protocol: u8,
    teid: Teid,
}

impl OwnAddresses {
    /// Reads the packets of the usual shapes, and says which they are: all are of users,
    /// and to be carried. Tells of each at once what is `known` of its user.
    #[inline]
    pub(crate) fn read_usual(&self, burst: &mut Burst, port: u16, known: impl Fn(Known)) -> Usual {
        let mut usual = Usual::default();
        for (position, packet) in burst.packets.iter_mut().enumerate() {
            let linear = packet.is_linear();
            let (bytes, metadata) = packet.parts_mut();
            let Some(head) = bytes.first_chunk::<PLAIN_HEAD>().filter(|_| linear) else { continue };
            let link = u32::from_be_bytes([head[12], head[13], head[14], head[15]]);
            if link & 0xffff_ff00 != IPV4_AT_LINK {
                continue;
            }
            let Some(outer) = head[OUTER..].first_chunk() else { continue };
            if self.is_own(destination(outer)) {
                let Some(inside) = self.read_tunnelled(bytes, outer) else { continue };
                *metadata = PacketMetadata {
                    step: StepValue::new(inside.teid),
                    flags: PacketMetadata::TUNNELLED,
                    outer_offset: OUTER as u16,
                    ..of_ipv4(port, inside.offset, inside.length, inside.protocol)
                };
                known(Known::Teid(inside.teid));
                usual.tunnelled.insert(position);
            } else if let Some(length) = self.read_plain(bytes, head, outer) {
                let [.., a, b, c, d, e, f, g, h] = *outer;
                known(Known::Ipv4([a, b, c, d], [e, f, g, h]));
                *metadata = of_ipv4(port, OUTER, length, outer[9]);
                usual.plain.insert(position);
            }
        }
        usual
    }

    /// The length of the IP packet that a router carries on without doubt.
    #[inline(always)]
    fn read_plain(
        &self,
        bytes: &[u8],
        head: &[u8; PLAIN_HEAD],
        header: &[u8; ipv4::MIN_HEADER_LENGTH],
    ) -> Option<usize> {
        let length = whole(header, bytes.len() - OUTER)?;
        let is_carried = header[0] == 0x45
            && head[..6] == self.mac.0
            && header[8] > 1
            && length <= usize::from(self.least_mtu)
            && is_usual(header[12])
            && is_usual(header[16])
            && !self.is_broadcast(destination(header))
            && is_transport_sound(header[9], bytes.get(DATAGRAM..OUTER + length)?);
        is_carried.then_some(length)
    }

    #[inline(always)]
    fn read_tunnelled(
        &self,
        bytes: &[u8],
        outer: &[u8; ipv4::MIN_HEADER_LENGTH],
    ) -> Option<Inside> {
        let head = bytes.first_chunk::<HEAD>()?;
        let port = u16::from_be_bytes([head[DATAGRAM + 2], head[DATAGRAM + 3]]);
        if port != gtpu::PORT {
            return None;
        }
        let outer_length = whole(outer, bytes.len() - OUTER)?;
        let datagram = usize::from(u16::from_be_bytes([head[DATAGRAM + 4], head[DATAGRAM + 5]]));
        let message = MESSAGE - DATAGRAM
            + gtpu::MIN_HEADER_LENGTH
            + usize::from(u16::from_be_bytes([head[MESSAGE + 2], head[MESSAGE + 3]]));
        if outer[9] != Protocol::UDP.0
            || datagram > outer_length - ipv4::MIN_HEADER_LENGTH
            || message > datagram
            || head[MESSAGE + 1] != MessageType::G_PDU.0
        {
            return None;
        }
        let offset = match head[MESSAGE] {
            PLAIN => BEHIND_HEADER,
            EXTENDED => behind_session(bytes)?,
            _ => return None,
        };
        // What the message has room for behind its headers.
        let room = (DATAGRAM + message).checked_sub(offset)?;
        let inside = bytes.get(offset..)?.first_chunk()?;
        let length = whole(inside, room)?;
        if inside[0] != 0x45 || !self.may_leave(inside) {
            return None;
        }
        let transport = bytes.get(offset + ipv4::MIN_HEADER_LENGTH..offset + length)?;
        let teid = [head[MESSAGE + 4], head[MESSAGE + 5], head[MESSAGE + 6], head[MESSAGE + 7]];
        let teid = Teid(u32::from_be_bytes(teid));
        let protocol = inside[9];
        is_transport_sound(protocol, transport).then_some(Inside { offset, length, protocol, teid })
    }

    /// Whether the addresses inside are without doubt of hosts beyond a link. A
    /// no is no answer yet.
    #[inline(always)]
    fn may_leave(&self, inside: &[u8; ipv4::MIN_HEADER_LENGTH]) -> bool {
        let to = destination(inside);
        is_usual(inside[12]) && is_usual(inside[16]) && !self.is_own(to) && !self.is_broadcast(to)
    }

    #[inline(always)]
    fn is_own(&self, address: Ipv4Addr) -> bool {
        self.known.may_have(address) && self.ipv4.contains(&address)
    }

    #[inline(always)]
    fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        self.known.may_have(address) && self.broadcasts.contains(&address)
    }
}

/// The metadata of an IPv4 packet without options that begins at `offset`.
#[inline(always)]
fn of_ipv4(port: u16, offset: usize, length: usize, protocol: u8) -> PacketMetadata {
    PacketMetadata {
        tags: Default::default(),
        user: PacketMetadata::NONE,
        bearer: PacketMetadata::NONE,
        group: PacketMetadata::NONE,
        step: StepValue::default(),
        network_offset: offset as u16,
        transport_offset: (offset + ipv4::MIN_HEADER_LENGTH) as u16,
        ether_type: EtherType::IPV4.0,
        vlan: PacketMetadata::NO_VLAN,
        port,
        protocol,
        flags: 0,
        network_length: length as u16,
        outer_offset: 0,
    }
}

#[inline(always)]
fn is_transport_sound(protocol: u8, transport: &[u8]) -> bool {
    match Protocol(protocol) {
        Protocol::UDP => udp::Datagram::new_checked(transport).is_ok(),
        Protocol::TCP => tcp::Segment::new_checked(transport).is_ok(),
        _ => true,
    }
}

/// The length of an IPv4 packet without options that is not a fragment and has
/// a sound header, of `room` octets at most.
#[inline(always)]
fn whole(header: &[u8; ipv4::MIN_HEADER_LENGTH], room: usize) -> Option<usize> {
    let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let fragment = u16::from_be_bytes([header[6], header[7]]) & FRAGMENTED;
    let sound = fragment == 0
        && (ipv4::MIN_HEADER_LENGTH..=room).contains(&length)
        && sum20(header) == 0xffff;
    sound.then_some(length)
}

#[inline(always)]
fn destination(header: &[u8; ipv4::MIN_HEADER_LENGTH]) -> Ipv4Addr {
    Ipv4Addr::new(header[16], header[17], header[18], header[19])
}

/// Where the user's packet begins behind a PDU session container that is sound.
#[inline(always)]
fn behind_session(bytes: &[u8]) -> Option<usize> {
    let optional = bytes.get(BEHIND_HEADER..)?.first_chunk::<8>()?;
    let [_, _, _, SESSION, 1, first, second, 0] = *optional else { return None };
    // Uplink, with a QoS flow identifier and nothing else, as most have it.
    if first == 0x10 && second < 0x40 {
        return Some(BEHIND_SESSION);
    }
    PduSession::parse(&[first, second]).ok().map(|_| BEHIND_SESSION)
}

#[cfg(test)]
mod tests;
