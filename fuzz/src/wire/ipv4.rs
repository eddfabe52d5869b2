//! IPv4 packets and their options.

use std::hint::black_box;

use weft_wire::ipv4::{Packet, Repr};
use weft_wire::options;

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let Ok(packet) = Packet::new_checked(bytes) else { return };
    black_box((packet.header_length(), packet.dscp(), packet.ecn(), packet.total_length()));
    black_box((packet.identification(), packet.dont_fragment(), packet.more_fragments()));
    black_box((packet.fragment_offset(), packet.fragment(), packet.time_to_live()));
    black_box((packet.protocol(), packet.checksum(), packet.source(), packet.destination()));
    black_box((packet.payload(), packet.as_bytes(), packet.pseudo_header()));
    black_box((packet.verify_checksum().is_ok(), packet.to_string()));
    black_box(options::walk(packet.options()).filter(Result::is_ok).count());

    let repr = Repr::parse(&packet);
    let mut copy = bytes.to_vec();
    repr.emit(&mut copy).unwrap();
    let mut packet = Packet::new_checked(&mut copy[..]).unwrap();
    assert_eq!(Repr::parse(&packet), repr);
    assert!(packet.verify_checksum().is_ok());
    packet.decrement_time_to_live();
    assert!(packet.verify_checksum().is_ok());
    black_box(packet.payload_mut());
}
