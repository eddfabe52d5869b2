//! Network service headers and their context headers.

use std::hint::black_box;

use weft_wire::nsh::{Packet, Repr};

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let Ok(packet) = Packet::new_checked(bytes) else { return };
    black_box((packet.to_string(), packet.fixed_context(), packet.payload()));
    for context in packet.contexts() {
        let context = context.unwrap();
        let mut copy = vec![0; context.buffer_len()];
        context.emit(&mut copy).unwrap();
    }
    let repr = Repr::parse(&packet);
    let mut copy = bytes.to_vec();
    repr.emit(&mut copy).unwrap();
    let mut packet = Packet::new_checked(&mut copy[..]).unwrap();
    assert_eq!(Repr::parse(&packet), repr);
    black_box(packet.decrement_time_to_live());
    black_box(packet.payload_mut());
}
