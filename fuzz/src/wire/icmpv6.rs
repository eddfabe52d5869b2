//! ICMP messages over IPv6, with neighbour discovery and its options.

use std::hint::black_box;
use std::net::Ipv6Addr;

use weft_wire::checksum::PseudoHeader;
use weft_wire::icmpv6::{Message, Repr};

const PSEUDO_HEADER: PseudoHeader =
    PseudoHeader::V6 { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::UNSPECIFIED };

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let Ok(message) = Message::new_checked(bytes) else { return };
    black_box((message.message_type().is_error(), message.code(), message.checksum()));
    black_box((message.header_length(), message.identifier(), message.sequence()));
    black_box((message.mtu(), message.target(), message.link_layer_address()));
    black_box((message.payload(), message.to_string()));
    black_box(message.verify_checksum(&PSEUDO_HEADER).is_ok());

    // Written without the options that Repr does not keep.
    let repr = Repr::parse(&message);
    let mut copy = vec![0; repr.buffer_len()];
    repr.emit(&mut copy).unwrap();
    let mut message = Message::new_checked(&mut copy[..]).unwrap();
    assert_eq!(Repr::parse(&message), repr);
    message.fill_checksum(&PSEUDO_HEADER);
    assert!(message.verify_checksum(&PSEUDO_HEADER).is_ok());
    black_box(message.payload_mut());
}
