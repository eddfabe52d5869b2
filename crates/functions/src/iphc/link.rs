//! How a packet takes on other headers, behind its link header.

use weft_function::{Headers, IpView, Metadata, Packet, PacketMetadata};
use weft_wire::pppoe::{self, PppProtocol};
use weft_wire::{EtherType, Protocol, ethernet, options, tcp, udp, vlan};

/// Octets of link headers that are known: Ethernet with two VLAN tags.
const MAX_LINK: usize = ethernet::HEADER_LENGTH + vlan::MAX_TAGS * vlan::TAG_LENGTH;

/// Where the network header begins and the packet ends, padding left out; none
/// where that cannot be.
#[inline]
pub fn network(packet: &Packet) -> Option<(usize, usize)> {
    let metadata = packet.metadata();
    let start = usize::from(metadata.network_offset);
    let end = start + usize::from(metadata.network_length);
    let known = (ethernet::HEADER_LENGTH..=MAX_LINK).contains(&start);
    (known && end <= packet.len()).then_some((start, end))
}

/// Makes room for `new` octets in the place of `old` ones behind the link header,
/// which ends at `start`; they are to be written. None when the buffer has no
/// room; the packet stays whole then.
#[inline]
#[must_use]
pub fn replace(packet: &mut Packet, start: usize, old: usize, new: usize) -> Option<&mut [u8]> {
    if new > old {
        let longer = new - old;
        if packet.prepend(longer).is_none() && !make_room(packet, longer) {
            return None;
        }
        move_link(packet.data_mut(), start, longer, 0)?;
    } else {
        move_link(packet.data_mut(), start, 0, old - new)?;
        packet.trim_front(old - new);
    }
    packet.data_mut().get_mut(start..start + new)
}

/// Moves the link header of `length` octets; none where it would not fit.
#[inline]
fn move_link(bytes: &mut [u8], length: usize, from: usize, to: usize) -> Option<()> {
    if length == ethernet::HEADER_LENGTH {
        let link = *bytes.get(from..)?.first_chunk::<{ ethernet::HEADER_LENGTH }>()?;
        *bytes.get_mut(to..)?.first_chunk_mut()? = link;
        return Some(());
    }
    if bytes.len() < from.max(to) + length {
        return None;
    }
    bytes.copy_within(from..from + length, to);
    Some(())
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
    let (bytes, metadata) = packet.parts_mut();
    metadata.ether_type = EtherType::PPPOE_SESSION.0;
    metadata.flags &= !PacketMetadata::FRAGMENT;
    metadata.network_length = length as u16;
    metadata.transport_offset = 0;
    metadata.protocol = 0;
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
    let (bytes, metadata) = packet.parts_mut();
    metadata.ether_type = ether_type.0;
    metadata.network_length = length as u16;
    metadata.transport_offset = 0;
    put_ether_type(bytes, start, ether_type);
    let (protocol, offset, fragment) = match packet.ip() {
        Some(IpView::V4(ip)) => {
            if ip.verify_checksum().is_err() || !options::walk(ip.options()).all(|one| one.is_ok())
            {
                return false;
            }
            (ip.protocol(), ip.header_length(), ip.fragment())
        }
        Some(IpView::V6(ip)) => match ip.upper_layer() {
            Ok(upper) => (upper.protocol, upper.offset, upper.fragment),
            Err(_) => return false,
        },
        None => return false,
    };
    let fragment = fragment.filter(|fragment| !fragment.is_whole());
    let transport = packet.data().get(start + offset..start + length).unwrap_or_default();
    let whole = match protocol {
        Protocol::UDP if fragment.is_some() => {
            udp::Datagram::new_checked_fragment(transport).is_ok()
        }
        Protocol::UDP => udp::Datagram::new_checked(transport).is_ok(),
        Protocol::TCP => tcp::Segment::new_checked(transport).is_ok(),
        _ => true,
    };
    let metadata = packet.metadata_mut();
    metadata.protocol = protocol.0;
    if fragment.is_some() {
        metadata.flags |= PacketMetadata::FRAGMENT;
    }
    if whole && fragment.is_none_or(|fragment| fragment.is_first()) {
        metadata.transport_offset = (start + offset) as u16;
    }
    whole || fragment.is_some()
}

/// Writes a PPPoE header and a compressed one behind it into the octets that
/// [`replace`] made room for. False, and nothing of use is written, when a frame
/// holds less than that and `payload` octets.
#[inline]
#[must_use]
pub fn write_front(
    place: &mut [u8],
    session: u16,
    protocol: PppProtocol,
    header: &[u8],
    payload: usize,
) -> bool {
    let Ok(payload_length) = u16::try_from(header.len() + payload) else { return false };
    let front = pppoe::Repr { session, protocol, payload_length }.emit(place);
    match place.get_mut(pppoe::HEADER_LENGTH..pppoe::HEADER_LENGTH + header.len()) {
        Some(place) if front.is_ok() => {
            place.copy_from_slice(header);
            true
        }
        _ => false,
    }
}
