//! Ethernet frames.

use std::hint::black_box;

use weft_wire::ethernet::{Frame, Repr};

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let Ok(frame) = Frame::new_checked(bytes) else { return };
    black_box((frame.destination(), frame.source(), frame.ether_type(), frame.payload()));
    black_box(frame.to_string());
    let repr = Repr::parse(&frame);
    let mut copy = bytes.to_vec();
    repr.emit(&mut copy).unwrap();
    assert_eq!(copy, bytes);
}
