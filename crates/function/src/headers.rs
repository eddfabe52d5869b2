//! The headers of a packet, for functions and rules.
//!
//! The parser has checked them and left their places in the metadata, so a
//! field costs a load or two. A packet without the header in question (ARP, a
//! fragment other than the first) gives none.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::metadata::Metadata;
use weft_dpdk::Packet;
use weft_wire::{Dscp, EtherType, Protocol, ipv4, ipv6};

/// Addresses, protocol and ports of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same family.
    pub destination: IpAddr,
    /// Protocol of the transport header.
    pub protocol: Protocol,
    /// Source port; 0 for a protocol without ports.
    pub source_port: u16,
    /// Destination port; 0 for a protocol without ports.
    pub destination_port: u16,
}

impl FlowKey {
    /// The same flow, as its other end sees it.
    #[inline]
    pub fn reversed(self) -> FlowKey {
        FlowKey {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            ..self
        }
    }
}

/// The IP header of a packet.
#[derive(Debug)]
pub enum IpView<'a> {
    /// IPv4, with payload.
    V4(ipv4::Packet<&'a [u8]>),
    /// IPv6, with extension headers and payload.
    V6(ipv6::Packet<&'a [u8]>),
}

/// The IP header of a packet, to change it.
#[derive(Debug)]
pub enum IpMut<'a> {
    /// IPv4, with payload.
    V4(ipv4::Packet<&'a mut [u8]>),
    /// IPv6, with extension headers and payload.
    V6(ipv6::Packet<&'a mut [u8]>),
}

/// Access to the headers of a packet that was parsed.
pub trait Headers {
    /// The IP header.
    fn ip(&self) -> Option<IpView<'_>>;
    /// The IP header, to change it.
    fn ip_mut(&mut self) -> Option<IpMut<'_>>;
    /// Source and destination address.
    fn addresses(&self) -> Option<(IpAddr, IpAddr)>;
    /// IPv4 source address, as a number.
    fn ipv4_source(&self) -> Option<u32>;
    /// IPv4 destination address, as a number.
    fn ipv4_destination(&self) -> Option<u32>;
    /// IPv6 destination address, as a number.
    fn ipv6_destination(&self) -> Option<u128>;
    /// Protocol of the transport header, also where the header itself is in
    /// another fragment.
    fn protocol(&self) -> Option<Protocol>;
    /// Source and destination port of TCP, UDP or SCTP.
    fn ports(&self) -> Option<(u16, u16)>;
    /// Addresses, protocol and ports; none for a fragment other than the first
    /// of a protocol with ports.
    fn flow(&self) -> Option<FlowKey>;
    /// Differentiated services code point.
    fn dscp(&self) -> Option<Dscp>;
    /// Time to live (IPv4) or hop limit (IPv6).
    fn hop_limit(&self) -> Option<u8>;
    /// From the transport header to the end of the IP packet.
    fn transport(&self) -> Option<&[u8]>;
    /// From the transport header to the end of the IP packet, to change it.
    fn transport_mut(&mut self) -> Option<&mut [u8]>;
    /// Bytes of the IP packet, headers included: what meters count (RFC 2697
    /// §1); those of the frame where there is no IP packet.
    fn ip_length(&self) -> usize;
}

/// Protocols that begin with source and destination port.
#[inline]
fn has_ports(protocol: u8) -> bool {
    [Protocol::TCP, Protocol::UDP, Protocol::SCTP].contains(&Protocol(protocol))
}

/// `N` bytes of the packet at `offset` behind the start of the IP header.
#[inline(always)]
fn network_bytes<const N: usize>(packet: &Packet, offset: usize) -> Option<[u8; N]> {
    let at = usize::from(packet.metadata().network_offset) + offset;
    packet.data().get(at..)?.first_chunk().copied()
}

#[inline(always)]
fn is_ipv4(packet: &Packet) -> bool {
    packet.metadata().ether_type == EtherType::IPV4.0
}

#[inline(always)]
fn is_ipv6(packet: &Packet) -> bool {
    packet.metadata().ether_type == EtherType::IPV6.0
}

/// Where the transport header begins and the IP packet ends.
#[inline]
fn transport_range(packet: &Packet) -> Option<std::ops::Range<usize>> {
    let metadata = packet.metadata();
    let start = usize::from(metadata.transport_offset);
    let end = usize::from(metadata.network_offset) + usize::from(metadata.network_length);
    (start != 0 && start <= end && end <= packet.len()).then_some(start..end)
}

impl Headers for Packet {
    #[inline]
    fn ip(&self) -> Option<IpView<'_>> {
        let bytes = self.data().get(usize::from(self.metadata().network_offset)..)?;
        match EtherType(self.metadata().ether_type) {
            EtherType::IPV4 => ipv4::Packet::new_checked(bytes).ok().map(IpView::V4),
            EtherType::IPV6 => ipv6::Packet::new_checked(bytes).ok().map(IpView::V6),
            _ => None,
        }
    }

    #[inline]
    fn ip_mut(&mut self) -> Option<IpMut<'_>> {
        let (bytes, metadata) = self.parts_mut();
        let bytes = bytes.get_mut(usize::from(metadata.network_offset)..)?;
        match EtherType(metadata.ether_type) {
            EtherType::IPV4 => ipv4::Packet::new_checked(bytes).ok().map(IpMut::V4),
            EtherType::IPV6 => ipv6::Packet::new_checked(bytes).ok().map(IpMut::V6),
            _ => None,
        }
    }

    #[inline]
    fn addresses(&self) -> Option<(IpAddr, IpAddr)> {
        if is_ipv4(self) {
            let [s0, s1, s2, s3, d0, d1, d2, d3] = network_bytes(self, 12)?;
            let (source, destination) =
                (Ipv4Addr::new(s0, s1, s2, s3), Ipv4Addr::new(d0, d1, d2, d3));
            return Some((source.into(), destination.into()));
        }
        if is_ipv6(self) {
            let source: [u8; 16] = network_bytes(self, 8)?;
            let destination: [u8; 16] = network_bytes(self, 24)?;
            return Some((Ipv6Addr::from(source).into(), Ipv6Addr::from(destination).into()));
        }
        None
    }

    #[inline(always)]
    fn ipv4_source(&self) -> Option<u32> {
        if is_ipv4(self) { network_bytes(self, 12).map(u32::from_be_bytes) } else { None }
    }

    #[inline(always)]
    fn ipv4_destination(&self) -> Option<u32> {
        if is_ipv4(self) { network_bytes(self, 16).map(u32::from_be_bytes) } else { None }
    }

    #[inline(always)]
    fn ipv6_destination(&self) -> Option<u128> {
        if is_ipv6(self) { network_bytes(self, 24).map(u128::from_be_bytes) } else { None }
    }

    #[inline]
    fn protocol(&self) -> Option<Protocol> {
        (is_ipv4(self) || is_ipv6(self)).then(|| Protocol(self.metadata().protocol))
    }

    #[inline]
    fn ports(&self) -> Option<(u16, u16)> {
        if !has_ports(self.metadata().protocol) {
            return None;
        }
        let &[s0, s1, d0, d1] = self.transport()?.first_chunk()?;
        Some((u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1])))
    }

    #[inline]
    fn flow(&self) -> Option<FlowKey> {
        let (source, destination) = self.addresses()?;
        let protocol = self.protocol()?;
        let (source_port, destination_port) = match has_ports(protocol.0) {
            true => self.ports()?,
            false => (0, 0),
        };
        Some(FlowKey { source, destination, protocol, source_port, destination_port })
    }

    #[inline]
    fn dscp(&self) -> Option<Dscp> {
        let [first, second] = network_bytes(self, 0)?;
        if is_ipv4(self) {
            return Some(Dscp::of_traffic_class(second));
        }
        is_ipv6(self).then(|| Dscp::of_traffic_class(first << 4 | second >> 4))
    }

    #[inline]
    fn hop_limit(&self) -> Option<u8> {
        if is_ipv4(self) {
            return network_bytes(self, 8).map(|[hops]| hops);
        }
        if is_ipv6(self) { network_bytes(self, 7).map(|[hops]| hops) } else { None }
    }

    #[inline]
    fn transport(&self) -> Option<&[u8]> {
        self.data().get(transport_range(self)?)
    }

    #[inline]
    fn transport_mut(&mut self) -> Option<&mut [u8]> {
        let range = transport_range(self)?;
        self.data_mut().get_mut(range)
    }

    #[inline]
    fn ip_length(&self) -> usize {
        match self.metadata().network_length {
            0 => self.len(),
            length => usize::from(length),
        }
    }
}
