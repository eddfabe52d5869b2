//! ICMP messages over IPv4.

use std::hint::black_box;

use weft_wire::icmpv4::{Message, Repr};

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let Ok(message) = Message::new_checked(bytes) else { return };
    black_box((message.message_type().is_error(), message.code(), message.checksum()));
    black_box((message.identifier(), message.sequence(), message.mtu()));
    black_box((message.payload(), message.verify_checksum().is_ok(), message.to_string()));

    let repr = Repr::parse(&message);
    let mut copy = bytes.to_vec();
    repr.emit(&mut copy).unwrap();
    let mut message = Message::new_checked(&mut copy[..]).unwrap();
    assert_eq!(Repr::parse(&message), repr);
    message.fill_checksum();
    assert!(message.verify_checksum().is_ok());
    black_box(message.payload_mut());
}
