//! Where in a captured packet a stamp has room.

use std::net::IpAddr;

use weft_wire::checksum::{self, PseudoHeader};
use weft_wire::{EtherType, Protocol, ethernet, ipv4, ipv6, tcp, udp};

use crate::receiver::arrived::Arrived;
use crate::stamp::Stamp;
use crate::template::encapsulation;

/// Where the checksum stands in a UDP and in a TCP header (RFC 768, RFC 9293 §3.1).
const UDP_CHECKSUM: usize = 6;
const TCP_CHECKSUM: usize = 16;

/// What the packets of a flow have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    ports: (u16, u16),
}

impl Key {
    pub(super) fn addresses(&self) -> (IpAddr, IpAddr) {
        (self.source, self.destination)
    }
}

/// Where the stamp and the checksum that covers it stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StampField {
    stamp: u16,
    checksum: u16,
    /// Sum (RFC 1071) of all that the checksum covers, with zeros in both places.
    sum: u16,
    is_udp: bool,
}

impl StampField {
    /// Writes the stamp and the checksum.
    #[inline]
    pub(super) fn write(&self, frame: &mut [u8], stamp: &Stamp) {
        let octets = stamp.octets();
        frame[usize::from(self.stamp)..][..Stamp::LENGTH].copy_from_slice(&octets);
        let sum = !checksum::add(self.sum, checksum::sum(&octets));
        let sum = if self.is_udp { checksum::udp(sum) } else { sum };
        frame[usize::from(self.checksum)..][..2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// A transport header within a frame.
struct Transport {
    protocol: Protocol,
    pseudo_header: PseudoHeader,
    /// From its first octet to the last that the IP header counts.
    start: usize,
    end: usize,
    source: IpAddr,
    destination: IpAddr,
}

/// Finds room for a stamp in a frame, and writes an empty one there; none where there
/// is no room, or the receiver would not read it again.
pub(super) fn prepare(frame: &mut [u8]) -> Option<(Key, StampField)> {
    let ethernet = ethernet::Frame::new_checked(&*frame).ok()?;
    let payload = ethernet.payload();
    let (ether_type, packet) = match encapsulation::frame_carries(ethernet.ether_type(), payload) {
        Some(carried) => carried,
        None => (ethernet.ether_type(), payload),
    };
    let outer = transport(frame, ether_type, frame.len() - packet.len())?;
    let inner = match tunnel(frame, &outer) {
        // A stamp in the place of a tunnel's header would be another packet.
        Some(carried) => Some(carried?),
        None => None,
    };
    let (key, place) = room(frame, inner.as_ref().unwrap_or(&outer))?;
    let mut prepared = frame.to_vec();
    place.write(&mut prepared, &Stamp::default());
    if inner.is_some() {
        repair(&mut prepared, &outer);
    }
    // What the receiver makes of it is what counts.
    let is_read = Arrived::read(&prepared).is_ok_and(|arrived| {
        arrived.stamp == Stamp::default()
            && (arrived.source, arrived.destination) == key.addresses()
    });
    if !is_read {
        return None;
    }
    frame.copy_from_slice(&prepared);
    Some((key, place))
}

/// The transport header of the IP packet at `start`, unless it is a fragment.
fn transport(frame: &[u8], ether_type: EtherType, start: usize) -> Option<Transport> {
    let bytes = &frame[start..];
    match ether_type {
        EtherType::IPV4 => {
            let ip = ipv4::Packet::new_checked(bytes).ok()?;
            let start_of_payload = start + ip.header_length();
            ip.fragment().is_none().then(|| Transport {
                protocol: ip.protocol(),
                pseudo_header: ip.pseudo_header(),
                start: start_of_payload,
                end: start_of_payload + ip.payload().len(),
                source: ip.source().into(),
                destination: ip.destination().into(),
            })
        }
        EtherType::IPV6 => {
            let ip = ipv6::Packet::new_checked(bytes).ok()?;
            let start = start + ipv6::HEADER_LENGTH;
            Some(Transport {
                protocol: ip.next_header(),
                pseudo_header: ip.pseudo_header(),
                start,
                end: start + ip.payload().len(),
                source: ip.source().into(),
                destination: ip.destination().into(),
            })
        }
        _ => None,
    }
}

/// The transport header of the packet in a tunnel, if that has one; none where there
/// is no tunnel that the receiver ends.
fn tunnel(frame: &[u8], outer: &Transport) -> Option<Option<Transport>> {
    let datagram = &frame[outer.start..outer.end];
    let port = u16::from_be_bytes(*datagram.get(2..)?.first_chunk()?);
    if outer.protocol != Protocol::UDP || !encapsulation::is_tunnel(port) {
        return None;
    }
    let payload = datagram.get(udp::HEADER_LENGTH..).unwrap_or_default();
    let inner = encapsulation::datagram_carries(port, payload);
    Some(inner.and_then(|(kind, inner)| transport(frame, kind, outer.end - inner.len())))
}

/// Where the payload behind a transport header has room.
fn room(frame: &[u8], transport: &Transport) -> Option<(Key, StampField)> {
    let Transport { protocol, pseudo_header, start, source, destination, .. } = *transport;
    let bytes = &frame[start..transport.end];
    let (header, checksum, length) = match protocol {
        Protocol::UDP => {
            let datagram = udp::Datagram::new_checked(bytes).ok()?;
            (udp::HEADER_LENGTH, UDP_CHECKSUM, usize::from(datagram.length()))
        }
        Protocol::TCP => {
            let segment = tcp::Segment::new_checked(bytes).ok()?;
            (segment.header_length(), TCP_CHECKSUM, bytes.len())
        }
        _ => return None,
    };
    if length < header + Stamp::LENGTH {
        return None;
    }
    let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let ports = (port(0), port(2));
    let mut blank = bytes[..length].to_vec();
    blank[checksum..][..2].fill(0);
    blank[header..][..Stamp::LENGTH].fill(0);
    let sum = checksum::add(pseudo_header.sum(protocol, length), checksum::sum(&blank));
    let place = StampField {
        stamp: (start + header) as u16,
        checksum: (start + checksum) as u16,
        sum,
        is_udp: protocol == Protocol::UDP,
    };
    Some((Key { source, destination, protocol: protocol.0, ports }, place))
}

/// Makes the checksum of a tunnel's datagram anew, unless it has none. It then holds
/// for every stamp: what stamp and inner checksum add to it is always the same.
fn repair(frame: &mut [u8], outer: &Transport) {
    if let Ok(mut datagram) = udp::Datagram::new_checked(&mut frame[outer.start..outer.end])
        && datagram.checksum() != 0
    {
        datagram.fill_checksum(&outer.pseudo_header);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::ops::Range;

    use super::*;

    /// Where the outer UDP datagram of a frame lies, and what its checksum covers beside.
    pub fn outer(frame: &[u8]) -> Option<(Range<usize>, PseudoHeader)> {
        let ethernet = ethernet::Frame::new_checked(frame).ok()?;
        let outer = transport(frame, ethernet.ether_type(), ethernet::HEADER_LENGTH)?;
        Some((outer.start..outer.end, outer.pseudo_header))
    }
}
