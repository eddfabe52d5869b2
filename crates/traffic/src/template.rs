//! What the packets of a stream look like.

use std::net::IpAddr;

use weft_dpdk::Pool;
use weft_wire::checksum::{Change, PseudoHeader};
use weft_wire::{Error, EtherType, MacAddress, Protocol, ethernet, ipv4, ipv6, udp};

use crate::endpoints::{Direction, Endpoints};
use crate::stamp::Stamp;

/// The packets of a stream: Ethernet, IPv4 or IPv6, UDP, a [`Stamp`] and zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Number of the stream, by which the receiver knows it.
    pub stream: u16,
    /// Whose packets they are.
    pub endpoints: Endpoints,
    /// MAC address they come from.
    pub source_mac: MacAddress,
    /// MAC address they go to.
    pub destination_mac: MacAddress,
    /// UDP port at the users' side.
    pub user_port: u16,
    /// UDP port at the network's side.
    pub peer_port: u16,
    /// Bytes of a frame, from the Ethernet header to the end of the IP packet.
    pub frame_bytes: usize,
}

/// A template that no packets can be made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The two addresses are of different families.
    #[error("the addresses of users and peer are not of one family")]
    Families,
    /// The frame is too short for its headers and a stamp, or longer than a
    /// packet buffer.
    #[error("a frame of this stream has {least} to {most} bytes", most = Pool::PACKET_BYTES)]
    FrameBytes {
        /// The shortest there is.
        least: usize,
    },
    /// The last user would have an address beyond the last there is.
    #[error("the users' addresses go on beyond the last address there is")]
    Addresses,
    /// There are no users, or all have weight 0.
    #[error("no user sends anything")]
    Silent,
}

impl Template {
    /// Frames of 128 bytes between locally administered MAC addresses.
    pub fn new(stream: u16, endpoints: Endpoints) -> Template {
        Template {
            stream,
            endpoints,
            source_mac: MacAddress([2, 0, 0, 0, 0, 1]),
            destination_mac: MacAddress([2, 0, 0, 0, 0, 2]),
            user_port: 40_000,
            peer_port: 50_000,
            frame_bytes: 128,
        }
    }

    /// Bytes of the IP packet in each frame: what meters count.
    pub fn ip_bytes(&self) -> usize {
        self.frame_bytes.saturating_sub(ethernet::HEADER_LENGTH)
    }
}

/// The first user's packet with an empty stamp; all others are copies of it with
/// some bytes changed.
#[derive(Debug)]
pub(crate) struct Prototype {
    bytes: Vec<u8>,
    stamp_offset: usize,
    endpoints: Endpoints,
}

impl Prototype {
    /// The prototype for `users` users.
    ///
    /// # Errors
    /// What is wrong with the template.
    pub fn new(template: &Template, users: usize) -> Result<Prototype, TemplateError> {
        let endpoints = template.endpoints;
        let last = users.saturating_sub(1) as u128;
        let (ip_header, room) = match (endpoints.first_user, endpoints.peer) {
            (IpAddr::V4(first), IpAddr::V4(_)) => {
                (ipv4::MIN_HEADER_LENGTH, u128::from(u32::MAX - first.to_bits()))
            }
            (IpAddr::V6(first), IpAddr::V6(_)) => {
                (ipv6::HEADER_LENGTH, u128::MAX - first.to_bits())
            }
            _ => return Err(TemplateError::Families),
        };
        if last > room.min(u32::MAX.into()) {
            return Err(TemplateError::Addresses);
        }
        let headers = ethernet::HEADER_LENGTH + ip_header + udp::HEADER_LENGTH;
        let least = headers + Stamp::LENGTH;
        if !(least..=Pool::PACKET_BYTES).contains(&template.frame_bytes) {
            return Err(TemplateError::FrameBytes { least });
        }
        let bytes = frame(template, template.frame_bytes - headers);
        let bytes = bytes.map_err(|_| TemplateError::FrameBytes { least })?;
        Ok(Prototype { bytes, stamp_offset: headers, endpoints })
    }

    /// Bytes of the packet.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The stamp of a packet that was written.
    pub fn stamp_of(&self, frame: &[u8]) -> Option<Stamp> {
        Stamp::read(frame.get(self.stamp_offset..)?)
    }

    /// Writes the packet with this stamp into `frame`, which is as long as the
    /// prototype.
    #[inline]
    pub fn write(&self, frame: &mut [u8], stamp: &Stamp) {
        frame.copy_from_slice(&self.bytes);
        let network = &mut frame[ethernet::HEADER_LENGTH..];
        match (self.endpoints.first_user, self.endpoints.user(stamp.user)) {
            (IpAddr::V4(first), IpAddr::V4(user)) => {
                let Ok(mut ip) = ipv4::Packet::new_checked(network) else { return };
                match self.endpoints.direction {
                    Direction::Uplink => ip.set_source(user),
                    Direction::Downlink => ip.set_destination(user),
                }
                let change = Change::NONE.bytes(&first.octets(), &user.octets());
                ip.update_checksum(change);
                write_stamp(ip.payload_mut(), stamp, change);
            }
            (IpAddr::V6(first), IpAddr::V6(user)) => {
                let Ok(mut ip) = ipv6::Packet::new_checked(network) else { return };
                match self.endpoints.direction {
                    Direction::Uplink => ip.set_source(user),
                    Direction::Downlink => ip.set_destination(user),
                }
                let change = Change::NONE.bytes(&first.octets(), &user.octets());
                write_stamp(ip.payload_mut(), stamp, change);
            }
            // An address keeps its family.
            _ => {}
        }
    }
}

/// Writes the stamp into a datagram whose addresses were changed.
#[inline]
fn write_stamp(datagram: &mut [u8], stamp: &Stamp, addresses: Change) {
    let Ok(mut datagram) = udp::Datagram::new_checked(datagram) else { return };
    let octets = stamp.octets();
    datagram.payload_mut()[..Stamp::LENGTH].copy_from_slice(&octets);
    datagram.update_checksum(addresses.bytes(&[0; Stamp::LENGTH], &octets));
}

/// The first user's frame with so many bytes of UDP payload, all zero.
fn frame(template: &Template, payload: usize) -> Result<Vec<u8>, Error> {
    let Template { endpoints, source_mac, destination_mac, user_port, peer_port, .. } = *template;
    let (source_port, destination_port) = match endpoints.direction {
        Direction::Uplink => (user_port, peer_port),
        Direction::Downlink => (peer_port, user_port),
    };
    let udp = udp::Repr { source_port, destination_port, payload_length: payload as u16 };
    let mut bytes = vec![0; template.frame_bytes];
    let (link, network) = bytes.split_at_mut(ethernet::HEADER_LENGTH);
    let ether_type = match endpoints.of(0) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let payload_length = (udp::HEADER_LENGTH + payload) as u16;
            let protocol = Protocol::UDP;
            ipv4::Repr { source, destination, protocol, payload_length, ..Default::default() }
                .emit(network)?;
            let mut ip = ipv4::Packet::new_checked(network)?;
            let pseudo_header = ip.pseudo_header();
            write_datagram(ip.payload_mut(), &udp, &pseudo_header)?;
            EtherType::IPV4
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let payload_length = (udp::HEADER_LENGTH + payload) as u16;
            let next_header = Protocol::UDP;
            ipv6::Repr { source, destination, next_header, payload_length, ..Default::default() }
                .emit(network)?;
            let mut ip = ipv6::Packet::new_checked(network)?;
            let pseudo_header = ip.pseudo_header();
            write_datagram(ip.payload_mut(), &udp, &pseudo_header)?;
            EtherType::IPV6
        }
        _ => return Err(Error::BadVersion),
    };
    ethernet::Repr { source: source_mac, destination: destination_mac, ether_type }.emit(link)?;
    Ok(bytes)
}

/// Writes header and checksum of a datagram whose payload is there.
fn write_datagram(bytes: &mut [u8], udp: &udp::Repr, ip: &PseudoHeader) -> Result<(), Error> {
    udp.emit(bytes)?;
    udp::Datagram::new_checked(bytes)?.fill_checksum(ip);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(first_user: &str, peer: &str, direction: Direction) -> Template {
        let (first_user, peer) = (first_user.parse().unwrap(), peer.parse().unwrap());
        Template::new(7, Endpoints { direction, first_user, peer })
    }

    /// The `user`th packet.
    fn packet(template: &Template, users: usize, stamp: &Stamp) -> Vec<u8> {
        let prototype = Prototype::new(template, users).unwrap();
        let mut frame = vec![0xff; prototype.len()];
        prototype.write(&mut frame, stamp);
        frame
    }

    #[test]
    fn an_ipv4_packet_is_what_its_headers_say() {
        let template = template("10.0.0.255", "192.0.2.1", Direction::Uplink);
        let stamp = Stamp { stream: 7, user: 258, sequence: 9, sent: 0x1234_5678_9abc_def0 };
        let bytes = packet(&template, 1000, &stamp);
        assert_eq!(bytes.len(), 128);
        let frame = ethernet::Frame::new_checked(&bytes[..]).unwrap();
        assert_eq!(frame.destination(), template.destination_mac);
        let ip = ipv4::Packet::new_checked(frame.payload()).unwrap();
        assert_eq!(usize::from(ip.total_length()), template.ip_bytes());
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
        template.frame_bytes = 80;
        let stamp = Stamp { stream: 7, user: 1, sequence: 0, sent: 1 };
        let bytes = packet(&template, 2, &stamp);
        let ip = ipv6::Packet::new_checked(&bytes[14..]).unwrap();
        assert_eq!(ip.source(), "2001:db8:1::1".parse::<std::net::Ipv6Addr>().unwrap());
        assert_eq!(ip.destination(), "2001:db8::1:0".parse::<std::net::Ipv6Addr>().unwrap());
        let datagram = udp::Datagram::new_checked(ip.payload()).unwrap();
        assert_eq!(datagram.verify_checksum(&ip.pseudo_header()), Ok(()));
        assert_eq!((datagram.source_port(), datagram.destination_port()), (50_000, 40_000));
        assert_eq!(Stamp::read(datagram.payload()), Some(stamp));
    }

    #[test]
    fn templates_that_make_no_packets_are_refused() {
        let error = |template: &Template, users| Prototype::new(template, users).unwrap_err();
        let mixed = template("10.0.0.1", "2001:db8::1", Direction::Uplink);
        assert_eq!(error(&mixed, 1), TemplateError::Families);
        let mut v4 = template("255.255.255.0", "192.0.2.1", Direction::Uplink);
        assert!(Prototype::new(&v4, 256).is_ok());
        assert_eq!(error(&v4, 257), TemplateError::Addresses);
        for (bytes, fits) in [(59, false), (60, true), (2048, true), (2049, false)] {
            v4.frame_bytes = bytes;
            assert_eq!(Prototype::new(&v4, 1).is_ok(), fits, "{bytes}");
        }
        let mut v6 = template("2001:db8::", "2001:db8::1", Direction::Uplink);
        v6.frame_bytes = 79;
        assert_eq!(error(&v6, 1), TemplateError::FrameBytes { least: 80 });
        assert!(error(&v6, 1).to_string().ends_with("80 to 2048 bytes"));
    }
}
