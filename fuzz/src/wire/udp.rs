//! UDP datagrams, whole and as a first fragment.

use std::hint::black_box;
use std::net::{Ipv4Addr, Ipv6Addr};

use weft_wire::checksum::PseudoHeader;
use weft_wire::udp::{Datagram, Repr};

const V4: PseudoHeader =
    PseudoHeader::V4 { source: Ipv4Addr::LOCALHOST, destination: Ipv4Addr::BROADCAST };
const V6: PseudoHeader =
    PseudoHeader::V6 { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::UNSPECIFIED };

fn read(datagram: &Datagram<&[u8]>) {
    black_box((datagram.source_port(), datagram.destination_port(), datagram.length()));
    black_box((datagram.checksum(), datagram.payload(), datagram.to_string()));
    black_box((datagram.verify_checksum(&V4).is_ok(), datagram.verify_checksum(&V6).is_ok()));
}

/// Runs one input.
pub fn run(bytes: &[u8]) {
    if let Ok(datagram) = Datagram::new_checked_fragment(bytes) {
        read(&datagram);
    }
    let Ok(datagram) = Datagram::new_checked(bytes) else { return };
    read(&datagram);
    let repr = Repr::parse(&datagram);
    let mut copy = bytes.to_vec();
    repr.emit(&mut copy).unwrap();
    let mut datagram = Datagram::new_checked(&mut copy[..]).unwrap();
    assert_eq!(Repr::parse(&datagram), repr);
    for pseudo_header in [V4, V6] {
        datagram.fill_checksum(&pseudo_header);
        assert!(datagram.verify_checksum(&pseudo_header).is_ok());
    }
    black_box(datagram.payload_mut());
}
