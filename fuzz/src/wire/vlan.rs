//! VLAN tags; the first octet chooses the kind of the outermost.

use std::hint::black_box;

use weft_wire::EtherType;
use weft_wire::vlan::{Repr, Tag, walk};

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let [kind, bytes @ ..] = bytes else { return };
    let service = kind & 1 != 0;
    let first = if service { EtherType::SERVICE_VLAN } else { EtherType::VLAN };
    if let Ok(stack) = walk(first, bytes) {
        assert!(stack.length <= bytes.len());
        black_box(stack.outer());
    }
    let Ok(tag) = Tag::new_checked(bytes) else { return };
    black_box((tag.priority(), tag.drop_eligible(), tag.vlan_id(), tag.ether_type()));
    black_box((tag.payload(), tag.to_string()));
    let mut copy = bytes.to_vec();
    Repr::parse(&tag).emit(&mut copy).unwrap();
    assert_eq!(copy, bytes);
}
