use std::hint::black_box;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::testing::{hex, hostile};

/// As Scapy writes it: MD type 2, a context header of five octets with its
/// padding, and IPv4.
fn variable() -> Vec<u8> {
    hex("0fc5 02 01 123456 ff 0100 03 05 6162636465 000000 45")
}

/// MD type 1, Ethernet.
fn fixed() -> Vec<u8> {
    hex("2006 01 03 00002a fa 000102030405060708090a0b0c0d0e0f")
}

#[test]
fn reads_variable_metadata() {
    let packet = Packet::new_checked(variable()).unwrap();
    let repr = Repr {
        oam: false,
        time_to_live: 63,
        next_protocol: NextProtocol::IPV4,
        path: ServicePathId(0x12_3456),
        index: 255,
        metadata: Metadata::Variable { length: 12 },
    };
    assert_eq!(Repr::parse(&packet), repr);
    let contexts: Vec<_> = packet.contexts().collect();
    assert_eq!(contexts, [Ok(Context { class: 0x100, kind: 3, content: b"abcde" })]);
    assert_eq!((packet.payload(), packet.fixed_context()), (&[0x45][..], None));
    assert_eq!(packet.to_string(), "nsh path 1193046 index 255 ttl 63 ipv4");
}

#[test]
fn reads_fixed_metadata() {
    let packet = Packet::new_checked(fixed()).unwrap();
    let octets = std::array::from_fn(|nth| nth as u8);
    assert_eq!(Repr::parse(&packet).metadata, Metadata::Fixed(octets));
    assert_eq!(packet.contexts().count(), 0);
    assert_eq!(packet.to_string(), "nsh path 42 index 250 ttl 0 oam ethernet");
}

#[test]
fn a_forwarder_counts_down() {
    let mut bytes = fixed();
    let mut packet = Packet::new_checked(&mut bytes[..]).unwrap();
    // RFC 8300 §2.2: 0 is what those send who do not know the field.
    assert!(packet.decrement_time_to_live());
    assert_eq!((packet.time_to_live(), packet.is_oam()), (63, true));
    packet.set_time_to_live(1);
    assert!(!packet.decrement_time_to_live());
    packet.set_index(249);
    assert_eq!((packet.index(), packet.path()), (249, ServicePathId(42)));
}

#[test]
fn defects_are_named() {
    let cases = [
        ("0fc5 02 01 123456", Error::Truncated),
        ("4fc2 02 01 123456 ff", Error::BadNsh),
        ("0fc1 02 01 123456 ff", Error::BadNsh),
        ("0fc3 02 01 123456 ff", Error::BadNsh),
        ("0fc2 03 01 123456 ff", Error::BadNsh),
        ("0fc2 01 01 123456 ff", Error::BadNsh),
        ("0fc3 02 01 123456 ff 0100 03 01", Error::BadContextHeader),
    ];
    for (bytes, error) in cases {
        assert_eq!(Packet::new_checked(hex(bytes)).unwrap_err(), error, "{bytes}");
    }
    assert_eq!(ServicePathId::new(1 << 24), None);
    let context = Context { class: 0, kind: 0, content: &[0; 128] };
    assert_eq!(context.emit(&mut [0; 200]), Err(Error::PayloadTooLong));
    let mut repr = Repr::parse(&Packet::new_checked(fixed()).unwrap());
    assert_eq!(repr.emit(&mut [0; 23]), Err(Error::BufferTooShort));
    for length in [5, 248] {
        repr.metadata = Metadata::Variable { length };
        assert_eq!(repr.emit(&mut [0; 300]), Err(Error::PayloadTooLong));
    }
}

fn metadata() -> impl Strategy<Value = Metadata> {
    prop_oneof![
        any::<[u8; FIXED_CONTEXT_LENGTH]>().prop_map(Metadata::Fixed),
        // One context header with a multiple of 4 octets of content.
        (0..=31_u8).prop_map(|words| Metadata::Variable { length: 4 + words * 4 }),
        Just(Metadata::Variable { length: 0 }),
    ]
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop_oneof![hostile(variable()), hostile(fixed())]) {
        let mut copy = bytes.clone();
        if let Ok(mut packet) = Packet::new_checked(&mut copy[..]) {
            prop_assert!(packet.contexts().all(|context| context.is_ok()));
            black_box((packet.to_string(), packet.payload_mut().len()));
            let repr = Repr::parse(&packet);
            let mut header = bytes.clone();
            repr.emit(&mut header).unwrap();
            prop_assert_eq!(Repr::parse(&Packet::new_checked(header).unwrap()), repr);
            black_box(packet.decrement_time_to_live());
        }
    }

    #[test]
    fn parse_of_emit(
        oam: bool,
        time_to_live in 0..64_u8,
        next: u8,
        path in 0..1_u32 << 24,
        index: u8,
        metadata in metadata(),
        content in vec(any::<u8>(), 0..128),
    ) {
        let (next_protocol, path) = (NextProtocol(next), ServicePathId::new(path).unwrap());
        let repr = Repr { oam, time_to_live, next_protocol, path, index, metadata };
        let mut bytes = vec![0; repr.header_length()];
        repr.emit(&mut bytes).unwrap();
        let room = bytes.len() - repr.buffer_len();
        if room > 0 {
            let content = &content[..content.len().min(room - 4)];
            // Padding fills what the content leaves.
            let context = Context { class: 7, kind: 9, content };
            bytes.truncate(repr.buffer_len() + context.buffer_len());
            bytes.resize(repr.header_length().max(bytes.len()), 0);
            context.emit(&mut bytes[repr.buffer_len()..]).unwrap();
            let read = Packet::new_checked(&bytes[..]).unwrap();
            prop_assert_eq!(read.contexts().next(), Some(Ok(context)));
        }
        prop_assert_eq!(Repr::parse(&Packet::new_checked(&bytes[..]).unwrap()), repr);
    }
}
