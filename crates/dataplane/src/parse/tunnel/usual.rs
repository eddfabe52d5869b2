//! The shape that nearly all packets in tunnels have, read in one go: Ethernet,
//! IPv4 without options, UDP, GTP-U with nothing or a PDU session container
//! behind its header, and IPv4 without options inside.
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

/// Octets of a frame with all the headers and no PDU session container.
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

/// What is read of the user's packet.
struct Inside {
    offset: usize,
    length: u16,
    protocol: u8,
    teid: Teid,
}

impl OwnAddresses {
    /// Reads the packets of the usual shape, and says which they are: of users,
    /// in tunnels that end here, and to be carried.
    #[inline]
    pub(crate) fn read_usual(&self, burst: &mut Burst, port: u16) -> Positions {
        let mut usual = Positions::NONE;
        for (position, packet) in burst.packets.iter_mut().enumerate() {
            let linear = packet.is_linear();
            let (bytes, metadata) = packet.parts_mut();
            let Some(inside) = self.read(bytes).filter(|_| linear) else { continue };
            let transport = inside.offset + ipv4::MIN_HEADER_LENGTH;
            *metadata = PacketMetadata {
                tags: Default::default(),
                user: PacketMetadata::NONE,
                bearer: PacketMetadata::NONE,
                group: PacketMetadata::NONE,
                step: StepValue::new(inside.teid),
                network_offset: inside.offset as u16,
                transport_offset: transport as u16,
                ether_type: EtherType::IPV4.0,
                vlan: PacketMetadata::NO_VLAN,
                port,
                protocol: inside.protocol,
                flags: PacketMetadata::TUNNELLED,
                network_length: inside.length,
                outer_offset: OUTER as u16,
            };
            usual.insert(position);
        }
        usual
    }

    #[inline(always)]
    fn read(&self, bytes: &[u8]) -> Option<Inside> {
        let head = bytes.first_chunk::<HEAD>()?;
        let link = u32::from_be_bytes([head[12], head[13], head[14], head[15]]);
        let port = u16::from_be_bytes([head[DATAGRAM + 2], head[DATAGRAM + 3]]);
        if link & 0xffff_ff00 != IPV4_AT_LINK || port != gtpu::PORT {
            return None;
        }
        let outer = head[OUTER..].first_chunk()?;
        let outer_length = whole(outer, bytes.len() - OUTER)?;
        let datagram = usize::from(u16::from_be_bytes([head[DATAGRAM + 4], head[DATAGRAM + 5]]));
        let message = MESSAGE - DATAGRAM
            + gtpu::MIN_HEADER_LENGTH
            + usize::from(u16::from_be_bytes([head[MESSAGE + 2], head[MESSAGE + 3]]));
        if outer[9] != Protocol::UDP.0
            || datagram > outer_length - ipv4::MIN_HEADER_LENGTH
            || message > datagram
            || head[MESSAGE + 1] != MessageType::G_PDU.0
            || !self.ipv4.contains(&destination(outer))
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
        let sound = match Protocol(inside[9]) {
            Protocol::UDP => udp::Datagram::new_checked(transport).is_ok(),
            Protocol::TCP => tcp::Segment::new_checked(transport).is_ok(),
            _ => true,
        };
        let teid = [head[MESSAGE + 4], head[MESSAGE + 5], head[MESSAGE + 6], head[MESSAGE + 7]];
        sound.then_some(Inside {
            offset,
            length: length as u16,
            protocol: inside[9],
            teid: Teid(u32::from_be_bytes(teid)),
        })
    }

    /// Whether the addresses inside are without doubt of hosts beyond a link. A
    /// no is no answer yet.
    #[inline(always)]
    fn may_leave(&self, inside: &[u8; ipv4::MIN_HEADER_LENGTH]) -> bool {
        let to = destination(inside);
        is_usual(inside[12])
            && is_usual(inside[16])
            && !self.ipv4.contains(&to)
            && !self.broadcasts.contains(&to)
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
    PduSession::parse(&[first, second]).ok().map(|_| BEHIND_SESSION)
}

#[cfg(test)]
mod tests;
