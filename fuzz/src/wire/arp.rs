//! ARP packets.

use std::hint::black_box;

use weft_wire::MacAddress;
use weft_wire::arp::{Packet, Repr};

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let Ok(packet) = Packet::new_checked(bytes) else { return };
    black_box((packet.operation(), packet.sender_mac(), packet.sender_ip()));
    black_box((packet.target_mac(), packet.target_ip(), packet.to_string()));
    let repr = Repr::parse(&packet);
    black_box(repr.reply(MacAddress::BROADCAST).to_string());
    let mut copy = bytes.to_vec();
    repr.emit(&mut copy).unwrap();
    assert_eq!(copy, bytes);
}
