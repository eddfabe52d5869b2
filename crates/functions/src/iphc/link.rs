//! How a packet takes on other headers, behind its link header.

use weft_function::{Headers, IpView, Packet};
use weft_wire::iphc::MAX_HEADER;
use weft_wire::pppoe::{self, PppProtocol};
use weft_wire::{EtherType, Protocol, ethernet, tcp, udp, vlan};

/// Octets of link headers that are known: Ethernet with two VLAN tags.
const MAX_LINK: usize = ethernet::HEADER_LENGTH + vlan::MAX_TAGS * vlan::TAG_LENGTH;

/// Where the network header begins and the packet ends, padding left out; none
/// where that cannot be.
#[inline]
pub fn network(packet: &Packet) -> Option<(usize, usize)> {
    let annotations = packet.annotations();
    let start = usize::from(annotations.network_offset);
    let end = start + usize::from(annotations.network_length);
    let known = (ethernet::HEADER_LENGTH..=MAX_LINK).contains(&start);
    (known && end <= packet.len()).then_some((start, end))
}

/// Puts `new` in the place of `old` octets behind the link header, which ends
/// at `start`. False when the buffer has no room; the packet stays whole then.
#[inline]
#[must_use]
pub fn replace(packet: &mut Packet, start: usize, old: usize, new: &[u8]) -> bool {
    let mut link = [0; MAX_LINK];
    let Some(front) = packet.data().get(..start) else { return false };
    let Some(saved) = link.get_mut(..start) else { return false };
    saved.copy_from_slice(front);
    let longer = new.len().saturating_sub(old);
    if longer > 0 {
        if packet.prepend(longer).is_none() && !make_room(packet, longer) {
            return false;
        }
    } else if !packet.trim_front(old - new.len()) {
        return false;
    }
    let Some((front, rest)) = packet.data_mut().split_at_mut_checked(start) else { return false };
    let Some(place) = rest.get_mut(..new.len()) else { return false };
    front.copy_from_slice(saved);
    place.copy_from_slice(new);
    true
}

/// Moves all of a packet back, where there is no more room in front.
#[cold]
fn make_room(packet: &mut Packet, count: usize) -> bool {
    let length = packet.len();
    if packet.append(count).is_none() {
        return false;
    }
    packet.data_mut().copy_within(..length, count);
    true
}

/// Notes that the packet is a PPPoE frame of so many octets.
#[inline]
pub fn note_session(packet: &mut Packet, start: usize, length: usize) {
    let (bytes, annotations) = packet.parts_mut();
    annotations.ether_type = EtherType::PPPOE_SESSION.0;
    annotations.network_length = length as u16;
    annotations.transport_offset = 0;
    annotations.protocol = 0;
    put_ether_type(bytes, start, EtherType::PPPOE_SESSION);
}

/// The Ethernet type stands right in front of the network header.
fn put_ether_type(bytes: &mut [u8], start: usize, ether_type: EtherType) {
    if let Some(place) = start.checked_sub(2).and_then(|at| bytes.get_mut(at..start)) {
        place.copy_from_slice(&ether_type.0.to_be_bytes());
    }
}

/// Notes what the parser of a node would note of the IP packet of `length`
/// octets at `start`. False for what it would not let in.
#[must_use]
pub fn note_ip(packet: &mut Packet, start: usize, length: usize) -> bool {
    let ether_type = match packet.data().get(start).map(|first| first >> 4) {
        Some(4) => EtherType::IPV4,
        Some(6) => EtherType::IPV6,
        _ => return false,
    };
    let (bytes, annotations) = packet.parts_mut();
    annotations.ether_type = ether_type.0;
    annotations.network_length = length as u16;
    annotations.transport_offset = 0;
    put_ether_type(bytes, start, ether_type);
    let (protocol, offset) = match packet.ip() {
        Some(IpView::V4(ip)) => (ip.protocol(), ip.header_length()),
        Some(IpView::V6(ip)) => match ip.upper_layer() {
            Ok(upper) => (upper.protocol, upper.offset),
            Err(_) => return false,
        },
        None => return false,
    };
    let transport = packet.data().get(start + offset..start + length).unwrap_or_default();
    let whole = match protocol {
        Protocol::UDP => udp::Datagram::new_checked(transport).is_ok(),
        Protocol::TCP => tcp::Segment::new_checked(transport).is_ok(),
        _ => true,
    };
    let annotations = packet.annotations_mut();
    annotations.protocol = protocol.0;
    annotations.transport_offset = (start + offset) as u16;
    whole
}

/// A PPPoE header and a compressed one behind it.
#[derive(Clone, Debug)]
pub struct Front {
    bytes: [u8; pppoe::HEADER_LENGTH + MAX_HEADER],
    length: usize,
}

impl Front {
    /// In front of `payload` octets; none when that is more than a frame holds.
    #[inline]
    pub fn new(
        session: u16,
        protocol: PppProtocol,
        header: &[u8],
        payload: usize,
    ) -> Option<Front> {
        let mut front = Front { bytes: [0; pppoe::HEADER_LENGTH + MAX_HEADER], length: 0 };
        let payload_length = u16::try_from(header.len() + payload).ok()?;
        pppoe::Repr { session, protocol, payload_length }.emit(&mut front.bytes).ok()?;
        front.length = pppoe::HEADER_LENGTH + header.len();
        front.bytes.get_mut(pppoe::HEADER_LENGTH..front.length)?.copy_from_slice(header);
        Some(front)
    }

    /// Its octets.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}
