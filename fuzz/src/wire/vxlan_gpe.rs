//! VXLAN-GPE headers.

use std::hint::black_box;

use weft_wire::vxlan_gpe::{Packet, Repr};

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let Ok(packet) = Packet::new_checked(bytes) else { return };
    black_box((packet.to_string(), packet.payload()));
    let repr = Repr::parse(&packet);
    let mut copy = bytes.to_vec();
    repr.emit(&mut copy).unwrap();
    assert_eq!(Repr::parse(&Packet::new_checked(&copy[..]).unwrap()), repr);
}
