//! The tunnels between anchor and stations, and from a source to its target
//! (TS 29.281).
//!
//! Both ends of a tunnel know its TEID without asking: bits 31 and 30 say what the tunnel is
//! for (1 anchor and station, 2 uplink and 3 downlink from station to station). The others
//! are the user's number and the epoch's tag, enciphered under what only the nodes know, so
//! that others cannot guess them. Workers are told the TEIDs, and know no key.
//!
//! A user's tags follow each other, so a TEID is its own for 1,024 moves of that user. The
//! path of a move is empty before the move is over, unless a node dies; packets of one
//! that died are gone long before a user has moved so often. An End Marker carries the
//! whole epoch.
//!
//! An End Marker (§7.3.2) follows the packets of the tunnel that it ends, with the same
//! TEID and UDP port. What it says stands in a private extension (§8.6) of the
//! enterprise number that is for examples (RFC 5612): version 1, bits (0 downlink,
//! 1 resumed), and the epoch in network byte order.

use std::net::IpAddr;

use arrayvec::ArrayVec;
use weft_dpdk::Packet;
use weft_function::{Headers, Metadata, Tunnel, TunnelEnd};
use weft_mobility_protocol::{Direction, EndMarker, Epoch};
use weft_wire::Dscp;
use weft_wire::gtpu::{Element, Message, MessageType, Repr, Teid, elements};

use crate::counters::DropReason;

/// Users have lower numbers.
pub const USERS: u64 = 1 << USER_BITS;
/// TEIDs of these tunnels begin here.
pub const FIRST_TEID: u32 = 1 << 30;

const USER_BITS: u32 = 20;
/// Bits below the purpose: a user's number, and the tag of an epoch.
pub const SECRET_BITS: u32 = USER_BITS + Epoch::TAG_BITS;

/// What a tunnel is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Between anchor and station, in either direction.
    Fresh,
    /// From station to station, of this direction.
    Forwarded(Direction),
}

/// A tunnel of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovingTunnel {
    /// What it is for.
    pub purpose: Purpose,
    /// The move that it is of.
    pub epoch: Epoch,
    /// Its TEID.
    pub teid: u32,
}

/// The tunnels that packets of a user may come in or go to.
pub type Tunnels = ArrayVec<MovingTunnel, 3>;

/// What stands in the lower [`SECRET_BITS`] of a TEID, before it is enciphered.
pub fn secret(user: u32, epoch: Epoch) -> u32 {
    (user & (USERS as u32 - 1)) << Epoch::TAG_BITS | epoch.tag()
}

/// The TEID of a tunnel with these lower bits.
pub fn teid(purpose: Purpose, secret: u32) -> u32 {
    let purpose = match purpose {
        Purpose::Fresh => 1,
        Purpose::Forwarded(Direction::Uplink) => 2,
        Purpose::Forwarded(Direction::Downlink) => 3,
    };
    purpose << SECRET_BITS | secret & ((1 << SECRET_BITS) - 1)
}

/// What a TEID is of, if it is of such a tunnel.
pub fn purpose(teid: u32) -> Option<Purpose> {
    match teid >> SECRET_BITS {
        0 => None,
        1 => Some(Purpose::Fresh),
        2 => Some(Purpose::Forwarded(Direction::Uplink)),
        _ => Some(Purpose::Forwarded(Direction::Downlink)),
    }
}

/// The TEID of the tunnel around a packet.
pub fn teid_of(packet: &Packet) -> Option<u32> {
    packet.is_tunnelled().then(|| packet.message().map(|message| message.teid().0))?
}

/// Whether a packet is in a tunnel of a user that moves.
pub fn is_moving_tunnel(packet: &Packet) -> bool {
    teid_of(packet).and_then(purpose).is_some()
}

/// Puts a user's packet into a tunnel to another station, in place of one that it is
/// in.
///
/// # Errors
/// Why it cannot be: it is not IP, or there is no room in front of it.
pub fn wrap(
    packet: &mut Packet,
    (local, peer): (IpAddr, IpAddr),
    teid: u32,
    number: u16,
) -> Result<(), DropReason> {
    packet.unwrap_tunnel();
    let dscp = packet.dscp().ok_or(DropReason::GtpuPayloadUnknown)?;
    let network = usize::from(packet.metadata().network_offset);
    // Padding of the link does not travel in the tunnel.
    packet.truncate(network + packet.ip_length());
    let message = Repr {
        message_type: MessageType::G_PDU,
        teid: Teid(teid),
        payload_length: packet.len().saturating_sub(network),
        ..Default::default()
    };
    let end = TunnelEnd::new(Teid(teid), local, peer);
    let headers = end.headers_length();
    let outer = packet.wrap(network, headers + message.buffer_len(), end.ether_type());
    let outer = outer.ok_or(DropReason::PoolExhausted)?;
    let written =
        message.emit(&mut outer[headers..]).is_ok() && end.emit(outer, dscp, number, false);
    if written { Ok(()) } else { Err(DropReason::PacketTooBig) }
}

const PRIVATE_EXTENSION: u8 = 255;
const ENTERPRISE: u16 = 32473;
const MARKER_VERSION: u8 = 1;
const MARKER_LENGTH: usize = 2 + 1 + 1 + 8;

/// An End Marker behind the packets of a tunnel, as an IP packet. It is sent with best
/// effort, so that it overtakes nothing on its way.
pub fn end_marker(ends: (IpAddr, IpAddr), teid: u32, marker: EndMarker) -> Option<Vec<u8>> {
    let mut element = [0; 3 + MARKER_LENGTH];
    element[0] = PRIVATE_EXTENSION;
    element[1..3].copy_from_slice(&(MARKER_LENGTH as u16).to_be_bytes());
    element[3..5].copy_from_slice(&ENTERPRISE.to_be_bytes());
    element[5] = MARKER_VERSION;
    let downlink = u8::from(marker.direction == Direction::Downlink);
    element[6] = downlink | u8::from(marker.resumed) << 1;
    element[7..].copy_from_slice(&marker.epoch.0.to_be_bytes());
    let message = Repr {
        message_type: MessageType::END_MARKER,
        teid: Teid(teid),
        payload_length: element.len(),
        ..Default::default()
    };
    let end = TunnelEnd::new(message.teid, ends.0, ends.1);
    let headers = end.headers_length();
    let mut bytes = vec![0; headers + message.buffer_len() + element.len()];
    message.emit(&mut bytes[headers..]).ok()?;
    let payload = bytes.len() - element.len();
    bytes[payload..].copy_from_slice(&element);
    end.emit(&mut bytes, Dscp::default(), 0, false).then_some(bytes)
}

/// What an End Marker says; none for one that says nothing of a move.
pub fn read_marker(packet: &Packet) -> Option<EndMarker> {
    read_message(&packet.message()?)
}

fn read_message(message: &Message<&[u8]>) -> Option<EndMarker> {
    let content = elements(message.payload()).find_map(|element| match element {
        Ok(Element::Other { kind: PRIVATE_EXTENSION, content }) => Some(content),
        _ => None,
    })?;
    let &[a, b, MARKER_VERSION, bits @ 0..=3, ref epoch @ ..] = content else { return None };
    let epoch = Epoch(u64::from_be_bytes(epoch.try_into().ok()?));
    let direction = if bits & 1 == 0 { Direction::Uplink } else { Direction::Downlink };
    let of_us = u16::from_be_bytes([a, b]) == ENTERPRISE;
    of_us.then_some(EndMarker { epoch, direction, resumed: bits & 2 != 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_teid_says_what_the_tunnel_is_for() {
        let purposes = [
            Purpose::Fresh,
            Purpose::Forwarded(Direction::Uplink),
            Purpose::Forwarded(Direction::Downlink),
        ];
        let mut all = Vec::new();
        for purpose in purposes {
            for user in [1, 2, USERS as u32 - 1] {
                for epoch in [1, 1023, 1024, 70_000] {
                    let teid = teid(purpose, secret(user, Epoch(epoch)));
                    assert_eq!(super::purpose(teid), Some(purpose));
                    assert!(teid >= FIRST_TEID);
                    all.push(teid);
                }
            }
        }
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert_eq!(purpose(FIRST_TEID - 1), None);
    }

    #[test]
    fn an_end_marker_says_which_path_of_which_move_ends() {
        let ends: [(IpAddr, IpAddr); 2] = [
            ([10, 0, 0, 1].into(), [10, 0, 0, 2].into()),
            ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap()),
        ];
        for (ends, headers) in ends.into_iter().zip([28, 48]) {
            for direction in Direction::ALL {
                for resumed in [false, true] {
                    let marker = EndMarker { epoch: Epoch(1 << 40 | 5), direction, resumed };
                    let bytes = end_marker(ends, 0x4000_0405, marker).unwrap();
                    let message = Message::new_checked(&bytes[headers..]).unwrap();
                    assert_eq!(message.message_type(), MessageType::END_MARKER);
                    assert_eq!(message.teid(), Teid(0x4000_0405));
                    assert_eq!(read_message(&message), Some(marker));
                    for at in headers..bytes.len() {
                        let mut bent = bytes.clone();
                        bent[at] ^= 0x81;
                        // Whatever it says then, it is read without a panic.
                        if let Ok(message) = Message::new_checked(&bent[headers..]) {
                            let _ = read_message(&message);
                        }
                    }
                }
            }
        }
    }
}
