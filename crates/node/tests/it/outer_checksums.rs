//! The UDP checksum of tunnels that begin at a node, whose ports take the hop limit
//! inside down: a peer's kernel drops what does not add up.

use crate::common::Rig;
use proptest::prelude::*;
use weft_wire::checksum::PseudoHeader;
use weft_wire::gtpu::{Message, PORT};
use weft_wire::{EtherType, MacAddress, Protocol, ethernet, ipv4, ipv6, udp};

/// A UPF whose base station is reached over IPv4 (users with even numbers) and IPv6.
const UPF: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: upf}
memory: {packets: 4095}
ports:
  access:
    device: 'ring:access'
    direction: uplink
    mac: 02:00:00:00:00:01
    addresses: [10.0.0.254/24, '2001:db8:a::fe/64']
    neighbours: {10.0.0.1: 02:00:00:00:01:01, '2001:db8:a::1': 02:00:00:00:01:01}
  core:
    device: 'ring:core'
    direction: downlink
    mac: 02:00:00:00:00:02
    addresses: [198.51.100.254/24]
functions:
  to-radio: {function: gtpu-encapsulate, config: {zeroChecksum: {zero}}}
users:
  - name: over4
    match: {ipv4: 10.45.0.4, ipv6: '2001:db8:4::/64'}
    functions: {to-radio: {tunnel: {teid: 4, peer: 10.0.0.1, local: 10.0.0.254}}}
  - name: over6
    match: {ipv4: 10.45.0.6, ipv6: '2001:db8:6::/64'}
    functions:
      to-radio: {tunnel: {teid: 6, peer: '2001:db8:a::1', local: '2001:db8:a::fe'}, qfi: 5}
rules: |
  from access -> drop
  from core -> to-radio
  from to-radio -> access
";

/// A packet from a host to a user, of this IP version.
fn to_user(version: u8, user: u8, hops: u8, payload: &[u8]) -> Vec<u8> {
    let length = 8 + payload.len() as u16;
    let (ether_type, header) = if version == 4 {
        let ip = ipv4::Repr {
            source: [198, 51, 100, 1].into(),
            destination: [10, 45, 0, user].into(),
            protocol: Protocol::UDP,
            payload_length: length,
            time_to_live: hops,
            ..Default::default()
        };
        let mut header = vec![0; 20];
        ip.emit(&mut header).unwrap();
        (EtherType::IPV4, header)
    } else {
        let ip = ipv6::Repr {
            source: "2001:db8:ffff::1".parse().unwrap(),
            destination: format!("2001:db8:{user}::1").parse().unwrap(),
            next_header: Protocol::UDP,
            payload_length: length,
            hop_limit: hops,
            ..Default::default()
        };
        let mut header = vec![0; 40];
        ip.emit(&mut header).unwrap();
        (EtherType::IPV6, header)
    };
    let link = ethernet::Repr {
        destination: MacAddress([2, 0, 0, 0, 0, 2]),
        source: MacAddress([2, 0, 0, 0, 0, 0xaa]),
        ether_type,
    };
    let mut frame = vec![0; 14];
    link.emit(&mut frame).unwrap();
    frame.extend(header);
    let start = frame.len();
    frame.resize(start + 8, 0);
    let repr =
        udp::Repr { source_port: 1, destination_port: 2, payload_length: payload.len() as u16 };
    repr.emit(&mut frame[start..]).unwrap();
    frame.extend(payload);
    frame
}

/// The outer checksum of a frame that left, and the packet inside; the checksum was
/// tested as the kernel of a peer does.
fn received(frame: &[u8], version: u8) -> (u16, Vec<u8>) {
    let (pseudo_header, datagram): (PseudoHeader, &[u8]) = if version == 4 {
        let ip = ipv4::Packet::new_checked(&frame[14..]).unwrap();
        ip.verify_checksum().unwrap();
        (ip.pseudo_header(), &frame[34..])
    } else {
        let ip = ipv6::Packet::new_checked(&frame[14..]).unwrap();
        (ip.pseudo_header(), &frame[54..])
    };
    let datagram = udp::Datagram::new_checked(datagram).unwrap();
    assert_eq!(datagram.destination_port(), PORT);
    // One of 0 over IPv6 is for those who have agreed on it.
    if version == 4 || datagram.checksum() != 0 {
        datagram.verify_checksum(&pseudo_header).unwrap();
    }
    let message = Message::new_checked(datagram.payload()).unwrap();
    (datagram.checksum(), message.payload().to_vec())
}

fn hops_of(inside: &[u8]) -> u8 {
    if inside[0] >> 4 == 4 { inside[8] } else { inside[7] }
}

#[test]
fn outer_checksums_follow_the_hop_limit_inside() {
    for zero in [false, true] {
        let mut rig = Rig::new(&UPF.replace("{zero}", &zero.to_string()));
        for (outer, inner) in [(4, 4), (4, 6), (6, 4), (6, 6)] {
            for hops in [2, 64, 255] {
                rig.send(1, &[to_user(inner, outer, hops, b"odd octets!")]);
                let frames = rig.receive(0);
                assert_eq!(frames.len(), 1, "outer {outer}, inner {inner}");
                let (checksum, inside) = received(&frames[0], outer);
                assert_eq!(hops_of(&inside), hops - 1);
                assert_eq!(checksum != 0, outer == 6 && !zero, "outer {outer}, inner {inner}");
            }
        }
    }
}

/// Functions that rewrite what is in a tunnel already.
#[test]
fn outer_checksums_follow_what_functions_rewrite_inside() {
    let rewrite = "{function: rewrite-address, config: {reverse: true, destination: \
                   [{from: 203.0.113.77/32, to: 198.51.100.1/32}, \
                   {from: '2001:db8:ffff::77/128', to: '2001:db8:ffff::1/128'}]}}";
    for composition in ["call", "fused"] {
        let node = UPF
            .replace("{zero}", "false")
            .replace(
                "functions:\n  to-radio",
                &format!("functions:\n  behind: {rewrite}\n  to-radio"),
            )
            .replace("from to-radio -> access", "from to-radio -> behind\n  from behind -> access")
            .replace("kind: Node", &format!("kind: Node\ncomposition: {composition}"));
        let node = match composition {
            // One that is written for IPv4 alone can be fused.
            "fused" => {
                node.replace(", {from: '2001:db8:ffff::77/128', to: '2001:db8:ffff::1/128'}", "")
            }
            _ => node,
        };
        let mut rig = Rig::new(&node);
        for (outer, inner) in [(4, 4), (4, 6), (6, 4), (6, 6)] {
            for checked in [false, true] {
                let mut frame = to_user(inner, outer, 64, b"rewritten");
                let network = 14;
                let (pseudo_header, start) = if inner == 4 {
                    (ipv4::Packet::new_checked(&frame[network..]).unwrap().pseudo_header(), 34)
                } else {
                    (ipv6::Packet::new_checked(&frame[network..]).unwrap().pseudo_header(), 54)
                };
                if checked {
                    let mut datagram = udp::Datagram::new_checked(&mut frame[start..]).unwrap();
                    datagram.fill_checksum(&pseudo_header);
                }
                rig.send(1, &[frame]);
                let frames = rig.receive(0);
                assert_eq!(frames.len(), 1, "outer {outer}, inner {inner}, {composition}");
                let (_, inside) = received(&frames[0], outer);
                let source = if inner == 4 { &inside[12..16] } else { &inside[8..24] };
                let is_rewritten = inner == 4 || composition == "call";
                assert_eq!(source.ends_with(&[77]) || source.ends_with(&[0, 0x77]), is_rewritten);
            }
        }
    }
}

/// The same behind a translator, whose packets the rules have led into the tunnel first.
#[test]
fn outer_checksums_follow_a_translator_inside() {
    let node = "
apiVersion: weft/v1
kind: Node
metadata: {name: odd}
memory: {packets: 4095}
ports:
  access: {device: 'ring:access', direction: uplink, mac: 02:00:00:00:00:01}
  core:
    device: 'ring:core'
    direction: downlink
    mac: 02:00:00:00:00:02
    addresses: [10.0.0.254/24, '2001:db8:a::fe/64']
    neighbours: {10.0.0.1: 02:00:00:00:01:01, '2001:db8:a::1': 02:00:00:00:01:01}
functions:
  into: {function: gtpu-encapsulate}
  translate: {function: nat, config: {addresses: [203.0.113.9]}}
users:
  - name: over6
    match: {ipv4: 198.51.100.1}
    functions:
      into: {tunnel: {teid: 6, peer: '2001:db8:a::1', local: '2001:db8:a::fe'}}
rules: |
  from access -> into
  from into -> translate
  from translate -> core
  from core -> drop
";
    let mut rig = Rig::new(node);
    rig.send(0, &[to_user(4, 6, 64, b"translated")]);
    let frames = rig.receive(1);
    assert_eq!(frames.len(), 1, "drops {:?}", rig.node.agent().snapshot().drops);
    let (checksum, inside) = received(&frames[0], 6);
    assert!(checksum != 0);
    assert_eq!(inside[12..16], [203, 0, 113, 9]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn any_payload_and_hop_limit_adds_up(
        packets in proptest::collection::vec(
            (2_u8.., proptest::collection::vec(any::<u8>(), 0..300)), 1..64),
    ) {
        let mut rig = Rig::new(&UPF.replace("{zero}", "false"));
        for (hops, payload) in packets {
            rig.send(1, &[to_user(6, 6, hops, &payload)]);
            let frames = rig.receive(0);
            prop_assert_eq!(frames.len(), 1);
            let (checksum, inside) = received(&frames[0], 6);
            prop_assert!(checksum != 0 && hops_of(&inside) == hops - 1);
        }
    }
}
