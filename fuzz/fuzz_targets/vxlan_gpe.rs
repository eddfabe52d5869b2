//! VXLAN-GPE headers.
#![no_main]

use std::hint::black_box;

use libfuzzer_sys::fuzz_target;
use weft_wire::vxlan_gpe::{Packet, Repr};

fuzz_target!(|bytes: &[u8]| {
    let Ok(packet) = Packet::new_checked(bytes) else { return };
    black_box((packet.to_string(), packet.payload()));
    let repr = Repr::parse(&packet);
    let mut copy = bytes.to_vec();
    repr.emit(&mut copy).unwrap();
    assert_eq!(Repr::parse(&Packet::new_checked(&copy[..]).unwrap()), repr);
});
