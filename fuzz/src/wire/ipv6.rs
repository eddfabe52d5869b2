//! IPv6 packets and their extension headers.

use std::hint::black_box;

use weft_wire::ipv6::{Packet, Repr};

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let Ok(packet) = Packet::new_checked(bytes) else { return };
    black_box((packet.dscp(), packet.ecn(), packet.flow_label(), packet.payload_length()));
    black_box((packet.next_header(), packet.hop_limit(), packet.source(), packet.destination()));
    black_box((packet.total_length(), packet.payload(), packet.pseudo_header()));
    black_box(packet.to_string());
    if let Ok(upper) = packet.upper_layer() {
        assert!(upper.offset <= packet.as_bytes().len());
        black_box(upper.has_header());
    }

    let mut copy = bytes.to_vec();
    Repr::parse(&packet).emit(&mut copy).unwrap();
    assert_eq!(copy, bytes);
    let mut packet = Packet::new_checked(&mut copy[..]).unwrap();
    packet.decrement_hop_limit();
    black_box(packet.payload_mut());
}
