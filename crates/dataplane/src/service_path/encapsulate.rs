//! What a service header travels in from node to node: an Ethernet frame (RFC 8300
//! §9.1.1), or VXLAN-GPE over UDP (draft-ietf-nvo3-vxlan-gpe).

use std::net::IpAddr;

use weft_dpdk::Packet;
use weft_function::{Metadata, PacketMetadata};
use weft_wire::nsh::NextProtocol;
use weft_wire::{EtherType, MacAddress, Protocol, ethernet, ipv4, ipv6, udp, vxlan_gpe};

use super::{Hop, HopTo};

/// The longest: IPv6.
const LONGEST: usize =
    ethernet::HEADER_LENGTH + ipv6::HEADER_LENGTH + udp::HEADER_LENGTH + vxlan_gpe::HEADER_LENGTH;

/// First of the dynamic ports (RFC 6335 §6): a tunnel has one source port, so its
/// packets stay in order wherever paths are chosen by flow.
const SOURCE_PORTS: u16 = 49_152;

/// What stands in front of the service headers to one next hop.
#[derive(Clone, Debug)]
pub struct Encapsulation {
    bytes: [u8; LONGEST],
    length: usize,
    /// Of what follows the Ethernet header.
    ether_type: EtherType,
    /// The port that leads there.
    pub port: u16,
}

impl Encapsulation {
    /// That of packets on a service path to a next hop, from a port with this MAC
    /// address.
    pub fn new(hop: &Hop, mac: MacAddress, path: u32) -> Encapsulation {
        let mut bytes = [0; LONGEST];
        let (ether_type, destination) = match hop.to {
            HopTo::Station(to) => (EtherType::NSH, MacAddress(to)),
            HopTo::Address { to: IpAddr::V4(_), .. } => (EtherType::IPV4, MacAddress::default()),
            HopTo::Address { .. } => (EtherType::IPV6, MacAddress::default()),
        };
        let link = ethernet::Repr { destination, source: mac, ether_type };
        let mut emitted = link.emit(&mut bytes);
        let network = &mut bytes[ethernet::HEADER_LENGTH..];
        let length = match hop.to {
            HopTo::Station(_) => 0,
            HopTo::Address { from: IpAddr::V4(source), to: IpAddr::V4(destination) } => {
                let repr = ipv4::Repr {
                    source,
                    destination,
                    protocol: Protocol::UDP,
                    // A piece of a tunnel's packet could not be put together again.
                    dont_fragment: true,
                    ..ipv4::Repr::default()
                };
                emitted = emitted.and_then(|()| repr.emit(network));
                ipv4::MIN_HEADER_LENGTH
            }
            HopTo::Address { from: IpAddr::V6(source), to: IpAddr::V6(destination) } => {
                let next_header = Protocol::UDP;
                let repr = ipv6::Repr { source, destination, next_header, ..ipv6::Repr::default() };
                emitted = emitted.and_then(|()| repr.emit(network));
                ipv6::HEADER_LENGTH
            }
            // Addresses of two families are refused with the configuration.
            HopTo::Address { .. } => 0,
        };
        let mut whole = ethernet::HEADER_LENGTH + length;
        if length > 0 {
            // No checksum (RFC 6935, RFC 7348 §5): the packets have their own.
            let source_port = SOURCE_PORTS + (path % 16_384) as u16;
            let repr =
                udp::Repr { source_port, destination_port: vxlan_gpe::PORT, payload_length: 0 };
            emitted = emitted.and_then(|()| repr.emit(&mut network[length..]));
            let next_protocol = NextProtocol::NSH;
            let repr = vxlan_gpe::Repr { oam: false, network: None, next_protocol };
            let rest = &mut network[length + udp::HEADER_LENGTH..];
            emitted = emitted.and_then(|()| repr.emit(rest));
            whole += udp::HEADER_LENGTH + vxlan_gpe::HEADER_LENGTH;
        }
        // The buffer is as long as the longest.
        debug_assert!(emitted.is_ok());
        Encapsulation { bytes, length: whole, ether_type, port: hop.port }
    }

    /// Octets of it.
    #[inline]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Whether frames leave as they are, without a route.
    #[inline]
    pub fn is_ethernet(&self) -> bool {
        self.ether_type == EtherType::NSH
    }

    /// Writes it to the front of a frame whose service header begins right behind, and
    /// notes where the headers are.
    #[inline]
    pub fn write(&self, frame: &mut [u8], metadata: &mut PacketMetadata) {
        let Some(front) = frame.get_mut(..self.length) else { return };
        front.copy_from_slice(&self.bytes[..self.length]);
        let network = &mut frame[ethernet::HEADER_LENGTH..];
        let length = network.len() as u16;
        metadata.ether_type = self.ether_type.0;
        metadata.network_offset = ethernet::HEADER_LENGTH as u16;
        metadata.network_length = length;
        metadata.outer_offset = 0;
        metadata.flags = 0;
        let header = match self.ether_type {
            EtherType::IPV4 => {
                if let Some(header) = network.first_chunk_mut::<{ ipv4::MIN_HEADER_LENGTH }>() {
                    header[2..4].copy_from_slice(&length.to_be_bytes());
                    header[10..12].fill(0);
                    let sum = weft_wire::checksum::of(&header[..]);
                    header[10..12].copy_from_slice(&sum.to_be_bytes());
                }
                ipv4::MIN_HEADER_LENGTH
            }
            EtherType::IPV6 => {
                let payload = length.saturating_sub(ipv6::HEADER_LENGTH as u16);
                network[4..6].copy_from_slice(&payload.to_be_bytes());
                ipv6::HEADER_LENGTH
            }
            _ => return,
        };
        metadata.protocol = Protocol::UDP.0;
        metadata.transport_offset = (ethernet::HEADER_LENGTH + header) as u16;
        let datagram = length.saturating_sub(header as u16);
        network[header + 4..header + 6].copy_from_slice(&datagram.to_be_bytes());
    }
}

/// Puts `count` octets in front of a packet, into another buffer if this one has too
/// little room; false when there is none.
#[inline]
pub fn prepend(packet: &mut Packet, count: usize, pool: &weft_dpdk::Pool) -> bool {
    packet.prepend(count).is_some() || move_back(packet, count, pool).is_some()
}

#[cold]
fn move_back(packet: &mut Packet, count: usize, pool: &weft_dpdk::Pool) -> Option<()> {
    let mut copy = pool.allocate()?;
    *copy.metadata_mut() = *packet.metadata();
    copy.append(count)?;
    copy.append(packet.len())?.copy_from_slice(packet.data());
    *packet = copy;
    Some(())
}
