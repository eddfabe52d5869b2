//! The packets of a stream, made beforehand; all that is left to do is to change
//! some bytes.

use std::net::IpAddr;

use weft_dpdk::Pool;
use weft_wire::{Error, EtherType, Protocol, checksum, ethernet, ipv4, ipv6, udp};

use crate::stamp::Stamp;
use crate::template::endpoints::{Direction, Endpoints};
use crate::template::sizes::Lengths;
use crate::template::{Template, TemplateError};

/// The headers of a stream's packets of every length, with zeros where flows
/// differ, and what they add up to.
#[derive(Debug)]
pub(crate) struct Prototype {
    endpoints: Endpoints,
    bearers: u32,
    user_port: u16,
    places: Places,
    /// TEID of the first flow, and where TEIDs stand.
    teid: Option<(u32, usize)>,
    /// Headers of one length behind those of the other; all have as many bytes.
    headers: Vec<u8>,
    /// By length.
    sums: Vec<Sums>,
    pub lengths: Lengths,
}

/// Where in a frame stands what differs between flows.
#[derive(Clone, Copy, Debug)]
struct Places {
    ip: usize,
    ip_checksum: Option<usize>,
    user: usize,
    user_port: usize,
    udp_checksum: usize,
    stamp: usize,
}

/// Sums (RFC 1071) of what the checksums cover while flow and stamp are zero.
#[derive(Clone, Copy, Debug)]
struct Sums {
    ip: u16,
    udp: u16,
}

impl Template {
    /// The first packet of each of the first flows, of the first size, as a source sends them.
    ///
    /// # Errors
    /// What is wrong with the template.
    pub fn packets(&self, flows: u32) -> Result<Vec<Vec<u8>>, TemplateError> {
        let prototype = Prototype::new(self)?;
        let packet = |flow| {
            let mut frame = vec![0; prototype.lengths.all[0]];
            prototype.write(
                &mut frame,
                0,
                &Stamp { stream: self.stream, flow, sequence: 0, sent: 0 },
            );
            frame
        };
        Ok((0..flows).map(packet).collect())
    }
}

impl Prototype {
    /// The prototype of a template.
    ///
    /// # Errors
    /// What is wrong with the template.
    pub fn new(template: &Template) -> Result<Prototype, TemplateError> {
        let least = template.least_bytes();
        let wrong = TemplateError::FrameBytes { least };
        let lengths = Lengths::new(&template.sizes, least, Pool::PACKET_BYTES).ok_or(wrong)?;
        let ip = ethernet::HEADER_LENGTH + template.encapsulation.length();
        let places = Places::of(&template.endpoints, ip);
        let (mut headers, mut sums) = (Vec::new(), Vec::new());
        for &length in &lengths.all {
            let (frame, sum) = blank(template, &places, length).map_err(|_| wrong)?;
            headers.extend_from_slice(&frame[..places.stamp]);
            sums.push(sum);
        }
        Ok(Prototype {
            endpoints: template.endpoints,
            bearers: u32::from(template.bearers),
            user_port: template.user_port,
            places,
            teid: template.encapsulation.teid(),
            headers,
            sums,
            lengths,
        })
    }

    /// The stamp of a packet that was written.
    pub fn stamp_of(&self, frame: &[u8]) -> Option<Stamp> {
        Stamp::read(frame.get(self.places.stamp..)?)
    }

    /// Writes the packet with this stamp into `frame`, which has the length with
    /// this index.
    #[inline]
    pub fn write(&self, frame: &mut [u8], length: u16, stamp: &Stamp) {
        let places = &self.places;
        let (length, headers) = (usize::from(length), places.stamp);
        frame[..headers].copy_from_slice(&self.headers[length * headers..][..headers]);
        frame[headers + Stamp::LENGTH..].fill(0);
        let octets = stamp.octets();
        put(frame, headers, &octets);
        let (user, bearer) = match self.bearers {
            1 => (stamp.flow, 0),
            bearers => (stamp.flow / bearers, stamp.flow % bearers),
        };
        let address = match self.endpoints.user(user) {
            IpAddr::V4(user) => {
                put(frame, places.user, &user.octets());
                checksum::sum(&user.octets())
            }
            IpAddr::V6(user) => {
                put(frame, places.user, &user.octets());
                checksum::sum(&user.octets())
            }
        };
        if let Some((first, place)) = self.teid {
            put(frame, place, &first.wrapping_add(stamp.flow).to_be_bytes());
        }
        let port = self.user_port.wrapping_add(bearer as u16);
        put(frame, places.user_port, &port.to_be_bytes());
        let Sums { ip, udp } = self.sums[length];
        if let Some(place) = places.ip_checksum {
            put(frame, place, &(!checksum::add(ip, address)).to_be_bytes());
        }
        let flow = checksum::add(address, port);
        let sum = checksum::add(udp, checksum::add(flow, checksum::sum(&octets)));
        put(frame, places.udp_checksum, &checksum::udp(!sum).to_be_bytes());
    }
}

/// Writes `octets` at a place of a frame.
#[inline(always)]
fn put<const N: usize>(frame: &mut [u8], at: usize, octets: &[u8; N]) {
    frame[at..at + N].copy_from_slice(octets);
}

impl Places {
    /// Offsets of the fields behind an IP header at `ip` (RFC 791, RFC 8200, RFC 768).
    fn of(endpoints: &Endpoints, ip: usize) -> Places {
        let (ip_checksum, source, destination, udp) = match endpoints.peer {
            IpAddr::V4(_) => (Some(ip + 10), ip + 12, ip + 16, ip + ipv4::MIN_HEADER_LENGTH),
            IpAddr::V6(_) => (None, ip + 8, ip + 24, ip + ipv6::HEADER_LENGTH),
        };
        let (user, user_port) = match endpoints.direction {
            Direction::Uplink => (source, udp),
            Direction::Downlink => (destination, udp + 2),
        };
        let (udp_checksum, stamp) = (udp + 6, udp + udp::HEADER_LENGTH);
        Places { ip, ip_checksum, user, user_port, udp_checksum, stamp }
    }
}

/// A frame of `length` bytes with zeros where flows differ and where checksums
/// stand, and its sums.
fn blank(template: &Template, places: &Places, length: usize) -> Result<(Vec<u8>, Sums), Error> {
    let Template { source_mac, destination_mac, user_port, peer_port, .. } = *template;
    let (source_port, destination_port) = match template.endpoints.direction {
        Direction::Uplink => (user_port, peer_port),
        Direction::Downlink => (peer_port, user_port),
    };
    let udp_at = places.stamp - udp::HEADER_LENGTH;
    let payload_length = (length - udp_at) as u16;
    let mut bytes = vec![0; length];
    let (link, network) = bytes.split_at_mut(ethernet::HEADER_LENGTH);
    let (outer, network) = network.split_at_mut(places.ip - ethernet::HEADER_LENGTH);
    let (ether_type, user_bytes) = match template.endpoints.of(0) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let protocol = Protocol::UDP;
            ipv4::Repr { source, destination, protocol, payload_length, ..Default::default() }
                .emit(network)?;
            (EtherType::IPV4, 4)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let next_header = Protocol::UDP;
            ipv6::Repr { source, destination, next_header, payload_length, ..Default::default() }
                .emit(network)?;
            (EtherType::IPV6, 16)
        }
        _ => return Err(Error::BadVersion),
    };
    let (direction, inner_bytes) = (template.endpoints.direction, network.len());
    let ether_type = template.encapsulation.emit(outer, ether_type, direction, inner_bytes)?;
    ethernet::Repr { source: source_mac, destination: destination_mac, ether_type }.emit(link)?;
    let payload_length = (length - places.stamp) as u16;
    udp::Repr { source_port, destination_port, payload_length }.emit(&mut bytes[udp_at..])?;
    bytes[places.user..][..user_bytes].fill(0);
    bytes[places.user_port..][..2].fill(0);
    bytes[places.udp_checksum..][..2].fill(0);
    if let Some(place) = places.ip_checksum {
        bytes[place..][..2].fill(0);
    }
    let sums = sums(&bytes, places, udp_at);
    Ok((bytes, sums))
}

/// The sums of a blank frame: of the IP header, and of the datagram with its
/// pseudo-header, which is the two addresses, the protocol and the length.
fn sums(blank: &[u8], places: &Places, udp_at: usize) -> Sums {
    let ip = &blank[places.ip..udp_at];
    let datagram = &blank[udp_at..];
    let addresses = if places.ip_checksum.is_some() { &ip[12..] } else { &ip[8..] };
    let pseudo_header = [
        checksum::sum(addresses),
        u16::from(Protocol::UDP.0),
        datagram.len() as u16,
        checksum::sum(datagram),
    ];
    Sums { ip: checksum::sum(ip), udp: pseudo_header.into_iter().fold(0, checksum::add) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::encapsulation::Encapsulation;
    use crate::template::sizes::Sizes;

    fn template(first_user: &str, peer: &str, direction: Direction) -> Template {
        let (first_user, peer) = (first_user.parse().unwrap(), peer.parse().unwrap());
        Template::new(7, Endpoints { direction, first_user, peer })
    }

    /// The `user`th packet.
    fn packet(template: &Template, stamp: &Stamp) -> Vec<u8> {
        let prototype = Prototype::new(template).unwrap();
        let mut frame = vec![0xff; prototype.lengths.all[0]];
        prototype.write(&mut frame, 0, stamp);
        frame
    }

    #[test]
    fn an_ipv4_packet_is_what_its_headers_say() {
        let template = template("10.0.0.255", "192.0.2.1", Direction::Uplink);
        let stamp = Stamp { stream: 7, flow: 258, sequence: 9, sent: 0x1234_5678_9abc_def0 };
        let bytes = packet(&template, &stamp);
        assert_eq!(bytes.len(), 128);
        let frame = ethernet::Frame::new_checked(&bytes[..]).unwrap();
        assert_eq!(frame.destination(), template.destination_mac);
        let ip = ipv4::Packet::new_checked(frame.payload()).unwrap();
        assert_eq!(ip.total_length(), 114);
        assert_eq!(ip.verify_checksum(), Ok(()));
        assert_eq!((ip.source(), ip.destination()), ([10, 0, 2, 1].into(), [192, 0, 2, 1].into()));
        let datagram = udp::Datagram::new_checked(ip.payload()).unwrap();
        assert_ne!(datagram.checksum(), 0);
        assert_eq!(datagram.verify_checksum(&ip.pseudo_header()), Ok(()));
        assert_eq!((datagram.source_port(), datagram.destination_port()), (40_000, 50_000));
        assert_eq!(Stamp::read(datagram.payload()), Some(stamp));
    }

    #[test]
    fn an_ipv6_packet_is_what_its_headers_say() {
        let mut template = template("2001:db8::ffff", "2001:db8:1::1", Direction::Downlink);
        template.sizes = Sizes::Fixed(80);
        let stamp = Stamp { stream: 7, flow: 1, sequence: 0, sent: 1 };
        let bytes = packet(&template, &stamp);
        let ip = ipv6::Packet::new_checked(&bytes[14..]).unwrap();
        assert_eq!(ip.source(), "2001:db8:1::1".parse::<std::net::Ipv6Addr>().unwrap());
        assert_eq!(ip.destination(), "2001:db8::1:0".parse::<std::net::Ipv6Addr>().unwrap());
        let datagram = udp::Datagram::new_checked(ip.payload()).unwrap();
        assert_eq!(datagram.verify_checksum(&ip.pseudo_header()), Ok(()));
        assert_eq!((datagram.source_port(), datagram.destination_port()), (50_000, 40_000));
        assert_eq!(Stamp::read(datagram.payload()), Some(stamp));
    }

    #[test]
    fn every_length_and_bearer_is_right() {
        for (first_user, peer) in [("10.0.0.1", "192.0.2.1"), ("2001:db8::1", "2001:db8::2")] {
            let mut template = template(first_user, peer, Direction::Uplink);
            template.bearers = 3;
            template.sizes = Sizes::Sweep { from: 80, to: 140, step: 7 };
            let prototype = Prototype::new(&template).unwrap();
            for (index, &length) in (0..).zip(&prototype.lengths.all) {
                let stamp = Stamp { stream: 7, flow: 3 * 5 + 2, sequence: 1, sent: 77 };
                let mut frame = vec![0xff; length];
                prototype.write(&mut frame, index, &stamp);
                let arrived = crate::receiver::arrived::Arrived::read(&frame).unwrap();
                assert_eq!((arrived.stamp, arrived.source), (stamp, template.endpoints.user(5)));
                let port_at = prototype.places.user_port;
                assert_eq!(frame[port_at..][..2], 40_002_u16.to_be_bytes());
            }
        }
    }

    #[test]
    fn packets_are_read_in_whatever_they_are_carried() {
        use weft_wire::gtpu::{Message, Qfi, Teid};
        use weft_wire::nsh::ServicePathId;
        let outer = |v6: bool| -> (IpAddr, IpAddr) {
            let pair =
                if v6 { ["2001:db8:9::1", "2001:db8:9::2"] } else { ["192.0.2.8", "192.0.2.9"] };
            (pair[0].parse().unwrap(), pair[1].parse().unwrap())
        };
        let mut kinds = vec![];
        for ends in [outer(false), outer(true)] {
            for qfi in [None, Qfi::new(9)] {
                let (source, destination) = ends;
                kinds.push(Encapsulation::Gtpu {
                    source,
                    destination,
                    first_teid: Teid(1000),
                    qfi,
                });
            }
        }
        let path = ServicePathId::new(77).unwrap();
        for over in [None, Some(outer(false)), Some(outer(true))] {
            kinds.push(Encapsulation::Nsh { path, index: 255, over });
        }
        for encapsulation in kinds {
            for (first_user, peer) in [("10.0.0.1", "192.0.2.1"), ("2001:db8::1", "2001:db8::2")] {
                let mut template = template(first_user, peer, Direction::Downlink);
                template.encapsulation = encapsulation;
                template.sizes = Sizes::Fixed(200);
                let stamp = Stamp { stream: 7, flow: 5, sequence: 1, sent: 77 };
                let frame = packet(&template, &stamp);
                let arrived = crate::receiver::arrived::Arrived::read(&frame).unwrap();
                assert_eq!(
                    (arrived.stamp, arrived.destination),
                    (stamp, template.endpoints.user(5))
                );
                if let Some((_, place)) = encapsulation.teid() {
                    let message = Message::new_checked(&frame[place - 4..]).unwrap();
                    assert_eq!(message.teid(), Teid(1005));
                    let session = message.pdu_session().unwrap().map(|session| session.qfi());
                    assert!(
                        matches!(encapsulation, Encapsulation::Gtpu { qfi, .. } if qfi == session)
                    );
                }
            }
        }
    }

    #[test]
    fn templates_that_make_no_packets_are_refused() {
        let flows = |template: &Template, users| template.flows(users);
        let mixed = template("10.0.0.1", "2001:db8::1", Direction::Uplink);
        assert_eq!(flows(&mixed, 1), Err(TemplateError::Families));
        let mut v4 = template("255.255.255.0", "192.0.2.1", Direction::Uplink);
        assert_eq!(flows(&v4, 256), Ok(256));
        assert_eq!(flows(&v4, 257), Err(TemplateError::Addresses));
        for (bytes, fits) in [(59, false), (60, true), (2048, true), (2049, false)] {
            v4.sizes = Sizes::Fixed(bytes);
            assert_eq!(Prototype::new(&v4).is_ok(), fits, "{bytes}");
        }
        v4.user_port = 65_530;
        for (bearers, fits) in [(0, false), (1, true), (6, true), (7, false)] {
            v4.bearers = bearers;
            assert_eq!(flows(&v4, 2).is_ok(), fits, "{bearers}");
        }
        let mut v6 = template("2001:db8::", "2001:db8::1", Direction::Uplink);
        v6.sizes = Sizes::Fixed(79);
        let error = Prototype::new(&v6).unwrap_err();
        assert_eq!(error, TemplateError::FrameBytes { least: 80 });
        assert!(error.to_string().ends_with("80 to 2048 bytes"));
        v6.bearers = u16::MAX;
        v6.user_port = 0;
        assert!(matches!(flows(&v6, u32::MAX), Err(TemplateError::Bearers { .. })));
    }
}
