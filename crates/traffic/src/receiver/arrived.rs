//! Reads a packet that arrived.

use std::net::IpAddr;

use weft_wire::checksum::PseudoHeader;
use weft_wire::{EtherType, Protocol, ethernet, ipv4, ipv6, tcp, udp};

use crate::stamp::Stamp;
use crate::template::encapsulation;

/// A packet with a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub stamp: Stamp,
    pub source: IpAddr,
    pub destination: IpAddr,
}

/// Why a packet has no stamp that could be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// A checksum is wrong or missing.
    Damaged,
    /// It is neither UDP nor TCP, or too short for a stamp.
    Foreign,
}

impl Arrived {
    /// Reads a frame and verifies its checksums.
    #[inline]
    pub fn read(frame: &[u8]) -> Result<Arrived, Unreadable> {
        let foreign = |_| Unreadable::Foreign;
        let frame = ethernet::Frame::new_checked(frame).map_err(foreign)?;
        match encapsulation::frame_carries(frame.ether_type(), frame.payload()) {
            Some((ether_type, packet)) => Arrived::read_ip(ether_type, packet, true),
            None => Arrived::read_ip(frame.ether_type(), frame.payload(), false),
        }
    }

    /// Reads an IP packet; one that `is_carried` carries no other.
    #[inline]
    fn read_ip(
        ether_type: EtherType,
        packet: &[u8],
        is_carried: bool,
    ) -> Result<Arrived, Unreadable> {
        let foreign = |_| Unreadable::Foreign;
        let (source, destination, stamp): (IpAddr, IpAddr, _) = match ether_type {
            EtherType::IPV4 => {
                let ip = ipv4::Packet::new_checked(packet).map_err(foreign)?;
                ip.verify_checksum().map_err(|_| Unreadable::Damaged)?;
                if let Some((ether_type, packet)) = carried(ip.protocol(), ip.payload(), is_carried)
                {
                    return Arrived::read_ip(ether_type, packet, true);
                }
                let stamp = stamp(ip.protocol(), ip.payload(), &ip.pseudo_header())?;
                (ip.source().into(), ip.destination().into(), stamp)
            }
            EtherType::IPV6 => {
                let ip = ipv6::Packet::new_checked(packet).map_err(foreign)?;
                if let Some((ether_type, packet)) =
                    carried(ip.next_header(), ip.payload(), is_carried)
                {
                    return Arrived::read_ip(ether_type, packet, true);
                }
                let stamp = stamp(ip.next_header(), ip.payload(), &ip.pseudo_header())?;
                (ip.source().into(), ip.destination().into(), stamp)
            }
            _ => return Err(Unreadable::Foreign),
        };
        Ok(Arrived { stamp, source, destination })
    }
}

/// The IP packet in a tunnel's datagram.
#[inline]
fn carried(protocol: Protocol, payload: &[u8], is_carried: bool) -> Option<(EtherType, &[u8])> {
    let port = u16::from_be_bytes(*payload.get(2..)?.first_chunk()?);
    if is_carried || protocol != Protocol::UDP {
        return None;
    }
    encapsulation::datagram_carries(port, payload.get(udp::HEADER_LENGTH..)?)
}

/// The stamp that an IP payload carries.
#[inline]
fn stamp(protocol: Protocol, payload: &[u8], header: &PseudoHeader) -> Result<Stamp, Unreadable> {
    if protocol == Protocol::TCP {
        return segment_stamp(payload, header);
    }
    if protocol != Protocol::UDP {
        return Err(Unreadable::Foreign);
    }
    let datagram = udp::Datagram::new_checked(payload).map_err(|_| Unreadable::Foreign)?;
    if datagram.checksum() == 0 || datagram.verify_checksum(header).is_err() {
        return Err(Unreadable::Damaged);
    }
    Stamp::read(datagram.payload()).ok_or(Unreadable::Foreign)
}

/// The stamp of a captured TCP packet.
fn segment_stamp(payload: &[u8], header: &PseudoHeader) -> Result<Stamp, Unreadable> {
    let segment = tcp::Segment::new_checked(payload).map_err(|_| Unreadable::Foreign)?;
    segment.verify_checksum(header).map_err(|_| Unreadable::Damaged)?;
    Stamp::read(segment.payload()).ok_or(Unreadable::Foreign)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Template;
    use crate::template::endpoints::{Direction, Endpoints};
    use crate::template::prototype::Prototype;

    const STAMP: Stamp = Stamp { stream: 1, flow: 0, sequence: 2, sent: 3 };

    fn frame(first_user: &str, peer: &str) -> Vec<u8> {
        let (first_user, peer) = (first_user.parse().unwrap(), peer.parse().unwrap());
        let endpoints = Endpoints { direction: Direction::Uplink, first_user, peer };
        let prototype = Prototype::new(&Template::new(1, endpoints)).unwrap();
        let mut frame = vec![0; prototype.lengths.all[0]];
        prototype.write(&mut frame, 0, &STAMP);
        frame
    }

    fn frames() -> [Vec<u8>; 2] {
        [frame("10.0.0.1", "192.0.2.1"), frame("2001:db8::1", "2001:db8::2")]
    }

    #[test]
    fn what_a_source_writes_is_read() {
        let [v4, v6] = frames().map(|frame| Arrived::read(&frame).unwrap());
        assert_eq!((v4.stamp, v6.stamp), (STAMP, STAMP));
        assert_eq!(v4.source, "10.0.0.1".parse::<IpAddr>().unwrap());
        assert_eq!(v6.destination, "2001:db8::2".parse::<IpAddr>().unwrap());
    }

    #[test]
    fn every_octet_that_a_checksum_covers_is_checked() {
        for frame in frames() {
            // Version and lengths make another packet of it, not a damaged one.
            let protected = if frame[12] == 0x08 { 22..frame.len() } else { 22..54 };
            for at in protected {
                let mut broken = frame.clone();
                broken[at] ^= 0x10;
                assert!(Arrived::read(&broken).is_err(), "octet {at}");
            }
            let last = frame.len() - 1;
            let mut broken = frame;
            broken[last] ^= 1;
            assert_eq!(Arrived::read(&broken), Err(Unreadable::Damaged));
        }
    }

    #[test]
    fn a_missing_checksum_is_damage() {
        let [mut v4, mut v6] = frames();
        v4[40..42].fill(0);
        v6[60..62].fill(0);
        assert_eq!(Arrived::read(&v4), Err(Unreadable::Damaged));
        assert_eq!(Arrived::read(&v6), Err(Unreadable::Damaged));
    }

    #[test]
    fn other_packets_are_foreign() {
        let [v4, v6] = frames();
        let mut arp = v4.clone();
        arp[13] = 6;
        let mut tcp = v6;
        tcp[20] = 6;
        for other in [&arp, &tcp, &v4[..40], &[][..]] {
            assert_eq!(Arrived::read(other), Err(Unreadable::Foreign));
        }
    }
}
