use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;

use proptest::prelude::*;
use proptest::sample::select;
use weft_dpdk::{Eal, EalOptions, Pool};
use weft_function::tunnel::surface;
use weft_function::{Tunnel, TunnelEnd};
use weft_wire::gtpu::{MessageType, Repr, Teid};
use weft_wire::{Dscp, Protocol, ipv6, udp};

use super::*;
use crate::parse::{Parsed, parse};

const MTU: usize = 200;
const TO: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);
const FROM: MacAddress = MacAddress([6, 1, 2, 3, 4, 5]);

fn pool() -> Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    let make = || {
        let options =
            EalOptions { memory_megabytes: 64, huge_pages: false, ..EalOptions::default() };
        let eal = Eal::start(&options).expect("the environment starts");
        Pool::new(eal, "headers", 255).expect("there is memory for a pool")
    };
    POOL.get_or_init(make).clone()
}

#[derive(Clone, Debug)]
struct Case {
    is_ipv6: bool,
    hops: u8,
    payload: usize,
    padding: usize,
    has_vlan: bool,
    /// The peer of the tunnel around it.
    tunnel: Option<IpAddr>,
    from_tunnel: bool,
}

impl Case {
    fn is_ordinary(&self) -> bool {
        let inside = if self.is_ipv6 { 40 } else { 20 } + udp::HEADER_LENGTH + self.payload;
        let around = if self.tunnel.is_some() { 36 } else { 0 };
        let goes_on = self.hops > 1 || self.tunnel.is_some() && self.from_tunnel;
        goes_on && inside + around <= MTU && !matches!(self.tunnel, Some(IpAddr::V6(_)))
    }

    fn bytes(&self) -> Vec<u8> {
        let payload_length = self.payload as u16;
        let mut datagram = vec![7; udp::HEADER_LENGTH + self.payload];
        let header = udp::Repr { source_port: 4000, destination_port: 9, payload_length };
        header.emit(&mut datagram).expect("room");
        let length = datagram.len() as u16;
        let mut ip = vec![0; if self.is_ipv6 { 40 } else { 20 }];
        if self.is_ipv6 {
            let repr = ipv6::Repr {
                source: Ipv6Addr::from_bits(1 << 120 | 1),
                destination: Ipv6Addr::from_bits(1 << 120 | 2),
                next_header: Protocol::UDP,
                payload_length: length,
                hop_limit: self.hops,
                ..Default::default()
            };
            repr.emit(&mut ip).expect("room");
        } else {
            let repr = ipv4::Repr {
                source: Ipv4Addr::new(10, 45, 0, 1),
                destination: Ipv4Addr::new(198, 51, 100, 1),
                protocol: Protocol::UDP,
                payload_length: length,
                time_to_live: self.hops,
                ..Default::default()
            };
            repr.emit(&mut ip).expect("room");
        }
        let ether_type: u16 = if self.is_ipv6 { 0x86dd } else { 0x0800 };
        let vlan: &[u8] = if self.has_vlan { &[0x81, 0, 0, 5] } else { &[] };
        [&[2; 12], vlan, &ether_type.to_be_bytes(), &ip, &datagram, &vec![0; self.padding]].concat()
    }

    fn packet(&self) -> Packet {
        let mut packet = pool().packet(&self.bytes()).expect("a buffer is free");
        assert_eq!(parse(&mut packet, 0), Parsed::Ip);
        if let Some(peer) = self.tunnel {
            let local = if peer.is_ipv4() {
                IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))
            } else {
                Ipv6Addr::LOCALHOST.into()
            };
            put_into(&mut packet, &TunnelEnd::new(Teid(0x1234_5678), local, peer));
        }
        if self.from_tunnel {
            packet.metadata_mut().flags |= PacketMetadata::TUNNELLED;
        }
        packet
    }
}

fn put_into(packet: &mut Packet, end: &TunnelEnd) {
    let network = usize::from(packet.metadata().network_offset);
    packet.truncate(network + packet.ip_length());
    let message = Repr {
        message_type: MessageType::G_PDU,
        teid: end.teid,
        payload_length: packet.len() - network,
        ..Default::default()
    };
    let headers = end.headers_length();
    let front = packet.wrap(network, headers + message.buffer_len(), end.ether_type());
    let front = front.expect("there is headroom");
    message.emit(&mut front[headers..]).expect("room");
    assert!(end.emit(front, Dscp::default(), 1, false));
}

/// What is sent where each packet is looked at by itself.
fn singly(mut packet: Packet) -> Option<Vec<u8>> {
    let from_tunnel = packet.metadata().flags & PacketMetadata::TUNNELLED != 0;
    if !packet.is_tunnelled() {
        decrement_ttl(&mut packet).filter(|is_left| *is_left)?;
    } else if !from_tunnel && decrement_ttl_inside(&mut packet) == Some(false) {
        return None;
    }
    surface(&mut packet);
    write_ethernet(&mut packet, &Link::new(TO, FROM));
    (packet.ip_length() <= MTU).then(|| packet.data().to_vec())
}

fn cases() -> impl Strategy<Value = Case> {
    let peers = [Ipv4Addr::new(192, 0, 2, 9).into(), Ipv6Addr::from_bits(9).into()];
    let tunnel = select(vec![None, Some(peers[0]), Some(peers[0]), Some(peers[1])]);
    let hops = prop_oneof![1 => 0..3_u8, 3 => any::<u8>()];
    let payload = prop_oneof![3 => 0..110_usize, 1 => 110..300_usize];
    let booleans = any::<(bool, bool, bool)>();
    (tunnel, hops, payload, 0..20_usize, booleans).prop_map(
        |(tunnel, hops, payload, padding, (is_ipv6, has_vlan, from_tunnel))| Case {
            is_ipv6,
            hops,
            payload,
            padding,
            has_vlan,
            tunnel,
            from_tunnel,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn an_ordinary_packet_is_sent_as_it_is_singly(case in cases()) {
        let mut packet = case.packet();
        prop_assert_eq!(is_ordinary(&packet, MTU), case.is_ordinary());
        if case.is_ordinary() {
            let destination = tunnel_destination(&packet);
            route(&mut packet, &Link::new(TO, FROM));
            prop_assert_eq!(&packet.data()[..12], &[TO.0, FROM.0].concat()[..]);
            prop_assert_eq!(Some(packet.data().to_vec()), singly(case.packet()));
            if case.tunnel.is_some() {
                prop_assert_eq!(destination, Some(u32::from_be_bytes([192, 0, 2, 9])));
            }
        }
    }
}
