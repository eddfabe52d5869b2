//! Packets that no parser let through, for every function: none may panic.

use crate::common::Example;
use crate::common::testing::{CONTEXTS, metadata, specs};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use weft_function::PacketMetadata;
use weft_functions::KINDS;

/// Metadata that have nothing to do with the bytes they come with.
fn any_metadata() -> impl Strategy<Value = PacketMetadata> {
    let ether_type = prop_oneof![Just(0x0800), Just(0x86dd), any::<u16>()];
    let protocol = prop_oneof![Just(6), Just(17), Just(58), any::<u8>()];
    let offset = || prop_oneof![0_u16..100, any::<u16>()];
    let outer = prop_oneof![Just(0), offset()];
    let places = (offset(), offset(), offset(), outer);
    (any::<[u32; 8]>(), 0..2 * CONTEXTS as u32, ether_type, protocol, places, any::<u8>()).prop_map(
        |(tags, slot, ether_type, protocol, places, flags)| PacketMetadata {
            tags,
            user: slot,
            bearer: slot,
            group: slot,
            ether_type,
            protocol,
            network_offset: places.0,
            transport_offset: places.1,
            network_length: places.2,
            outer_offset: places.3,
            flags,
            ..Default::default()
        },
    )
}

proptest! {
    #[test]
    fn any_bytes_with_any_metadata(
        packets in vec((vec(any::<u8>(), 0..200), any_metadata()), 1..4),
    ) {
        for kind in KINDS {
            let mut rig = Example::of(kind).rig();
            for (bytes, metadata) in &packets {
                rig.send_bytes(bytes, *metadata);
            }
        }
    }

    #[test]
    fn packets_that_were_damaged_after_the_parser(
        spec in specs(),
        slot in 0..2_u32,
        changes in vec((any::<Index>(), any::<u8>()), 0..6),
        end in any::<Index>(),
        cut in any::<bool>(),
    ) {
        let mut frame = spec.frame();
        let found = PacketMetadata { user: slot, bearer: slot, group: slot, ..metadata(&frame) };
        for (place, octet) in changes {
            *place.get_mut(&mut frame) = octet;
        }
        if cut {
            frame.truncate(end.index(frame.len()));
        }
        for kind in KINDS {
            Example::of(kind).rig().send_bytes(&frame, found);
        }
    }
}
