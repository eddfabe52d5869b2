//! The packets that functions are shown: one of each flow, in an order that jumps about.

use std::net::{Ipv4Addr, Ipv6Addr};

use weft_wire::{EtherType, MacAddress, Protocol, esp as header, ethernet, ipv4, ipv6, udp};

use super::esp;
use weft_function::PacketMetadata;
use weft_rig::traffic::datagram::headers;
use weft_rig::trials::alone::{Flow, HEADERS, Packets};

/// Where softwires end.
pub const ADDRESS: &str = "2001:db8:ffff::1";
/// Flows of one user behind a translator.
pub const FLOWS_OF_A_USER: u32 = 64;
/// Octets of a frame's checksum.
const CHECKSUM: usize = 4;
const LINK: usize = ethernet::HEADER_LENGTH;
const PLAIN: usize = LINK + ipv4::MIN_HEADER_LENGTH + udp::HEADER_LENGTH;
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);

/// Which packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// One flow of each user.
    Users,
    /// To an address of each prefix.
    Routed,
    /// From behind a translator.
    Inside,
    /// Answers to it.
    Outside,
    /// To each softwire.
    IntoSoftwires,
    /// From each softwire.
    OutOfSoftwires,
    /// To the other end of each security association.
    IntoTunnels,
    /// From there.
    OutOfTunnels,
}

/// What is around a packet, between its link header and its own.
struct Around {
    ether_type: EtherType,
    /// What the outermost IP header says that it carries.
    protocol: Protocol,
    /// Octets of that header.
    network: usize,
    /// Octets in front of the packet and behind it.
    front: usize,
    back: usize,
}

impl Traffic {
    /// Users that have so many entries.
    pub fn users(self, entries: u32) -> u32 {
        match self {
            Traffic::Users | Traffic::IntoTunnels | Traffic::OutOfTunnels => entries,
            Traffic::Inside | Traffic::Outside => entries.div_ceil(FLOWS_OF_A_USER) + 1,
            _ => 1,
        }
    }

    fn is_uplink(self) -> bool {
        !matches!(self, Traffic::Outside | Traffic::IntoSoftwires | Traffic::OutOfTunnels)
    }

    /// What is around packets of so many octets.
    fn around(self, length: usize) -> Around {
        let around = |ether_type, protocol, network, front, back| Around {
            ether_type,
            protocol,
            network,
            front,
            back,
        };
        let (v4, v6) = (ipv4::MIN_HEADER_LENGTH, ipv6::HEADER_LENGTH);
        match self {
            Traffic::OutOfSoftwires => around(EtherType::IPV6, Protocol::IPV4, v6, v6, 0),
            Traffic::OutOfTunnels => {
                let front = v4 + esp::FRONT;
                let back = v4 + esp::payload(length) - front - length;
                around(EtherType::IPV4, Protocol::ESP, v4, front, back)
            }
            _ => around(EtherType::IPV4, Protocol::UDP, v4, 0, 0),
        }
    }
}

/// Address of a prefix of 24 bits; each is another.
pub fn prefix(number: u32) -> u32 {
    // Odd, so that all of 24 bits come up before one comes again; the first octets that
    // are no unicast are as good as any here.
    (number.wrapping_mul(0x9e_3779) & 0xff_ffff) << 8
}

/// Address, port set and lwB4 of a softwire.
pub fn softwire(number: u32) -> (Ipv4Addr, u16, Ipv6Addr) {
    let b4 = Ipv6Addr::from_bits(0x2001_0db8_u128 << 96 | u128::from(number) << 64 | 1);
    (Ipv4Addr::from_bits(0x0b00_0000 + number / 64), (number % 64) as u16, b4)
}

/// Octets of the IP packet in a frame of so many.
pub fn network_length(bytes: usize) -> usize {
    bytes.saturating_sub(CHECKSUM).max(PLAIN) - LINK
}

/// One packet of each entry.
///
/// # Errors
/// When a frame is too short for its headers.
pub fn packets(traffic: Traffic, entries: u32, bytes: usize) -> Result<Packets, weft_wire::Error> {
    let length = network_length(bytes);
    let Around { ether_type, protocol, network, front, back } = traffic.around(length);
    // 617 has no factor in common with any number of entries used here.
    let order = (0..u64::from(entries)).map(|n| (n * 617 % u64::from(entries)) as u32);
    let mut flows: Vec<Flow> =
        order.map(|number| flow(traffic, number, length)).collect::<Result<_, _>>()?;
    let mut metadata = PacketMetadata {
        network_offset: LINK as u16,
        network_length: (front + length + back) as u16,
        transport_offset: (LINK + network) as u16,
        ether_type: ether_type.0,
        protocol: protocol.0,
        group: PacketMetadata::NONE,
        vlan: PacketMetadata::NO_VLAN,
        ..PacketMetadata::default()
    };
    if traffic == Traffic::Outside {
        // Whatever comes from outside is one user's, behind those inside.
        flows.iter_mut().for_each(|flow| flow.user = traffic.users(entries) - 1);
    }
    // The first slot is that of the direction.
    metadata.tags[0] = u32::from(!traffic.is_uplink());
    let (headers, length) = (PLAIN + front, LINK + front + length + back);
    Ok(Packets { flows, headers, length, metadata, finish: None })
}

fn flow(traffic: Traffic, number: u32, length: usize) -> Result<Flow, weft_wire::Error> {
    let from = |source: u32, port: u16| [(source.into(), port), (SERVER, 2000)];
    let ends: [(Ipv4Addr, u16); 2] = match traffic {
        Traffic::Users | Traffic::IntoTunnels => from(0x0a00_0000 + number, 1000),
        Traffic::OutOfTunnels => [(SERVER, 2000), ((0x0a00_0000 + number).into(), 1000)],
        Traffic::Routed => [(SERVER, 1000), ((prefix(number) | 7).into(), 2000)],
        Traffic::Inside | Traffic::Outside => {
            let (user, nth) = (number / FLOWS_OF_A_USER, number % FLOWS_OF_A_USER);
            from(0x0a00_0000 + user, 2000 + nth as u16)
        }
        Traffic::IntoSoftwires => {
            let (ipv4, psid, _) = softwire(number);
            [(SERVER, 2000), (ipv4, psid << 10 | 5)]
        }
        Traffic::OutOfSoftwires => {
            let (ipv4, psid, _) = softwire(number);
            [(ipv4, psid << 10 | 5), (SERVER, 2000)]
        }
    };
    let user = match traffic {
        Traffic::Users | Traffic::IntoTunnels | Traffic::OutOfTunnels => number,
        Traffic::Inside => number / FLOWS_OF_A_USER,
        _ => 0,
    };
    let mut headers = [0; HEADERS];
    let Around { ether_type, front, .. } = traffic.around(length);
    let link = ethernet::Repr {
        destination: MacAddress([2, 0, 0, 0, 0, 1]),
        source: MacAddress([2, 0, 0, 0, 0, 2]),
        ether_type,
    };
    link.emit(&mut headers)?;
    let (outer, inner) = headers[LINK..].split_at_mut(front);
    match traffic {
        Traffic::OutOfSoftwires => softwire_header(outer, number, length)?,
        Traffic::OutOfTunnels => tunnel_headers(outer, number, length)?,
        _ => {}
    }
    plain(inner, ends, length)?;
    Ok(Flow { headers, user })
}

/// IPv6, from a softwire's end.
fn softwire_header(outer: &mut [u8], number: u32, length: usize) -> Result<(), weft_wire::Error> {
    let (.., b4) = softwire(number);
    let tunnel = ipv6::Repr {
        source: b4,
        destination: ADDRESS.parse().unwrap_or(Ipv6Addr::LOCALHOST),
        next_header: Protocol::IPV4,
        payload_length: length as u16,
        ..ipv6::Repr::default()
    };
    tunnel.emit(outer)
}

/// IPv4 and ESP, whose sequence number is still to come.
fn tunnel_headers(outer: &mut [u8], number: u32, length: usize) -> Result<(), weft_wire::Error> {
    let tunnel = ipv4::Repr {
        source: Ipv4Addr::new(192, 0, 2, 1),
        destination: Ipv4Addr::new(192, 0, 2, 2),
        protocol: Protocol::ESP,
        payload_length: esp::payload(length) as u16,
        ..ipv4::Repr::default()
    };
    tunnel.emit(outer)?;
    let header = header::Repr { spi: esp::spi(number), sequence_number: 0 };
    header.emit(&mut outer[ipv4::MIN_HEADER_LENGTH..])
}

/// IPv4 and UDP, without a checksum of the datagram's.
fn plain(
    bytes: &mut [u8],
    [(source, source_port), (destination, destination_port)]: [(Ipv4Addr, u16); 2],
    length: usize,
) -> Result<(), weft_wire::Error> {
    headers(bytes, [source, destination], [source_port, destination_port], length)?;
    // Any sum but none, so that there is one to repair.
    bytes[ipv4::MIN_HEADER_LENGTH + 6] = 1;
    Ok(())
}

/// The headers of an answer to a packet. The IP checksum is the same.
pub fn answer(frame: &[u8]) -> [u8; HEADERS] {
    let mut headers = [0; HEADERS];
    let reach = frame.len().min(PLAIN);
    headers[..reach].copy_from_slice(&frame[..reach]);
    let (sources, destinations) = headers[LINK + 12..LINK + 20].split_at_mut(4);
    sources.swap_with_slice(destinations);
    let ports = LINK + ipv4::MIN_HEADER_LENGTH;
    let (source, destination) = headers[ports..ports + 4].split_at_mut(2);
    source.swap_with_slice(destination);
    headers
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_flow_is_another() {
        const COUNT: u32 = 1000;
        for traffic in [
            Traffic::Users,
            Traffic::Routed,
            Traffic::Inside,
            Traffic::IntoSoftwires,
            Traffic::OutOfSoftwires,
            Traffic::IntoTunnels,
            Traffic::OutOfTunnels,
        ] {
            let packets = packets(traffic, COUNT, 64).expect("frames");
            let flows: HashSet<_> = packets.flows.iter().map(|flow| flow.headers).collect();
            assert_eq!(flows.len(), COUNT as usize, "{traffic:?}");
        }
    }

    #[test]
    fn prefixes_are_all_different() {
        let prefixes: HashSet<_> = (0..1_000_000).map(prefix).collect();
        assert_eq!(prefixes.len(), 1_000_000);
    }

    #[test]
    fn an_answer_goes_back() {
        let flow = packets(Traffic::Inside, 10, 64).expect("frames").flows[3];
        let back = answer(&flow.headers);
        let ip = ipv4::Packet::new_checked(&back[LINK..]);
        // The length is that of the whole packet, which is not here.
        assert!(ip.is_err() || ip.is_ok_and(|ip| ip.source() == SERVER));
        assert_eq!(answer(&back), flow.headers);
    }
}
