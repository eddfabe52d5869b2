//! A packet in one line.

use weft_wire::{EtherType, Protocol, arp, ethernet, icmpv4, icmpv6, ipv4, ipv6, tcp, udp, vlan};

/// Describes a frame that is given in hexadecimal digits.
pub fn of_hex(digits: &str) -> String {
    let digit = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0) as u8;
    let bytes: Vec<u8> = digits
        .as_bytes()
        .chunks_exact(2)
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect();
    of(&bytes)
}

/// Describes a frame from its outermost header to the innermost that is known.
pub fn of(bytes: &[u8]) -> String {
    let mut layers = Vec::new();
    if let Err(error) = frame(bytes, &mut layers) {
        layers.push(format!("malformed: {error}"));
    }
    layers.join(" | ")
}

type Layers = Vec<String>;

fn frame(bytes: &[u8], layers: &mut Layers) -> Result<(), weft_wire::Error> {
    let frame = ethernet::Frame::new_checked(bytes)?;
    layers.push(frame.to_string());
    let stack = vlan::walk(frame.ether_type(), frame.payload())?;
    layers.extend(stack.vlan_ids.iter().flatten().map(|id| format!("vlan {id}")));
    let payload = &frame.payload()[stack.length..];
    match stack.ether_type {
        EtherType::IPV4 => ipv4(payload, layers),
        EtherType::IPV6 => ipv6(payload, layers),
        EtherType::ARP => {
            layers.push(arp::Packet::new_checked(payload)?.to_string());
            Ok(())
        }
        _ => Ok(()),
    }
}

fn ipv4(bytes: &[u8], layers: &mut Layers) -> Result<(), weft_wire::Error> {
    let packet = ipv4::Packet::new_checked(bytes)?;
    layers.push(packet.to_string());
    if packet.fragment_offset() > 0 {
        return Ok(());
    }
    transport(packet.protocol(), packet.payload(), layers)
}

fn ipv6(bytes: &[u8], layers: &mut Layers) -> Result<(), weft_wire::Error> {
    let packet = ipv6::Packet::new_checked(bytes)?;
    layers.push(packet.to_string());
    let upper = packet.upper_layer()?;
    if !upper.has_header() {
        return Ok(());
    }
    transport(upper.protocol, bytes.get(upper.offset..).unwrap_or_default(), layers)
}

fn transport(
    protocol: Protocol,
    bytes: &[u8],
    layers: &mut Layers,
) -> Result<(), weft_wire::Error> {
    layers.push(match protocol {
        Protocol::UDP => udp::Datagram::new_checked_fragment(bytes)?.to_string(),
        Protocol::TCP => tcp::Segment::new_checked(bytes)?.to_string(),
        Protocol::ICMP => icmpv4::Message::new_checked(bytes)?.to_string(),
        Protocol::ICMPV6 => icmpv6::Message::new_checked(bytes)?.to_string(),
        _ => return Ok(()),
    });
    Ok(())
}
