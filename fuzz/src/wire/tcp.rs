//! TCP segments and their options.

use std::hint::black_box;
use std::net::Ipv4Addr;

use weft_wire::checksum::PseudoHeader;
use weft_wire::options;
use weft_wire::tcp::{Repr, Segment};

const PSEUDO_HEADER: PseudoHeader =
    PseudoHeader::V4 { source: Ipv4Addr::LOCALHOST, destination: Ipv4Addr::BROADCAST };

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let Ok(segment) = Segment::new_checked(bytes) else { return };
    black_box((segment.source_port(), segment.destination_port(), segment.sequence()));
    black_box((segment.acknowledgment(), segment.header_length(), segment.flags()));
    black_box((segment.window(), segment.checksum(), segment.urgent_pointer()));
    black_box((segment.payload(), segment.to_string()));
    black_box(segment.verify_checksum(&PSEUDO_HEADER).is_ok());
    black_box(options::walk(segment.options()).filter(Result::is_ok).count());

    let repr = Repr::parse(&segment);
    let mut copy = bytes.to_vec();
    repr.emit(&mut copy).unwrap();
    let mut segment = Segment::new_checked(&mut copy[..]).unwrap();
    assert_eq!(Repr::parse(&segment), repr);
    segment.fill_checksum(&PSEUDO_HEADER);
    assert!(segment.verify_checksum(&PSEUDO_HEADER).is_ok());
    black_box(segment.options_mut().len());
    black_box(segment.payload_mut());
}
