//! PPPoE session frames.

use std::hint::black_box;

use weft_wire::pppoe::{Frame, Repr};

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let Ok(frame) = Frame::new_checked(bytes) else { return };
    black_box((frame.session(), frame.protocol().to_string(), frame.to_string()));
    let repr = Repr::parse(&frame);
    assert_eq!(frame.total_length(), repr.buffer_len() + frame.payload().len());
    assert!(frame.total_length() <= bytes.len());
    let mut copy = bytes.to_vec();
    repr.emit(&mut copy).unwrap();
    assert_eq!(copy, bytes);
}
