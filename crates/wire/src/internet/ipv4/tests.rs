use std::hint::black_box;

use proptest::prelude::*;

use super::*;
use crate::options;
use crate::testing::{hex, hostile};

fn packet() -> Vec<u8> {
    hex("45b9 0020 1234 4000 40 11 3ba9 c0000201 c6336402 13880868000c19d5 77656674")
}

fn fragment() -> Vec<u8> {
    hex("4600 0020 0007 20b9 03 11 ee06 0a000001 0a000002 94040000 6162636465666768")
}

#[test]
fn reads_a_packet() {
    let packet = Packet::new_checked(packet()).unwrap();
    let repr = Repr {
        source: Ipv4Addr::new(192, 0, 2, 1),
        destination: Ipv4Addr::new(198, 51, 100, 2),
        protocol: Protocol::UDP,
        payload_length: 12,
        dscp: Dscp::EF,
        ecn: Ecn::Ect1,
        identification: 0x1234,
        dont_fragment: true,
        ..Repr::default()
    };
    assert_eq!(Repr::parse(&packet), repr);
    assert_eq!(packet.verify_checksum(), Ok(()));
    assert_eq!(packet.fragment(), None);
    assert!(packet.options().is_empty());
    let text = "ipv4 192.0.2.1 > 198.51.100.2 udp ttl 64 dscp ef payload 12";
    assert_eq!(packet.to_string(), text);
}

#[test]
fn reads_a_fragment_with_options() {
    let packet = Packet::new_checked(fragment()).unwrap();
    let fragment = Fragment { identification: 7, offset: 1480, more: true };
    assert_eq!(packet.fragment(), Some(fragment));
    assert!(!fragment.is_first() && !fragment.is_whole());
    assert_eq!(packet.payload(), b"abcdefgh");
    assert_eq!(packet.verify_checksum(), Ok(()));
    let alert = options::Item { kind: 0x94, data: &[0, 0] };
    assert_eq!(options::walk(packet.options()).next(), Some(Ok(alert)));
    assert!(packet.to_string().ends_with("payload 8 fragment 7 at 1480 more follow"));
}

#[test]
fn padding_is_not_payload() {
    let mut bytes = packet();
    bytes.extend([0xee; 14]);
    let mut view = Packet::new_checked(&mut bytes[..]).unwrap();
    assert_eq!(view.payload().len(), 12);
    assert_eq!(view.payload_mut().len(), 12);
    assert_eq!(view.as_bytes(), packet());
}

/// Fault 13: a header length below 5, and a total length that is wrong.
#[test]
fn fault_13_lengths_that_lie() {
    let defect = |at: usize, octet: u8| {
        let mut bytes = packet();
        bytes[at] = octet;
        Packet::new_checked(bytes).unwrap_err()
    };
    assert_eq!(defect(0, 0x65), Error::BadVersion);
    assert_eq!(defect(0, 0x44), Error::BadHeaderLength);
    assert_eq!(defect(0, 0x49), Error::Truncated);
    assert_eq!(defect(0, 0x40), Error::BadHeaderLength);
    assert_eq!(defect(3, 19), Error::BadTotalLength);
    assert_eq!(defect(3, 33), Error::BadTotalLength);
    assert_eq!(defect(3, 0), Error::BadTotalLength);
    assert_eq!(Packet::new_checked(&packet()[..19]).unwrap_err(), Error::Truncated);
    assert_eq!(Packet::new_checked(&packet()[..31]).unwrap_err(), Error::BadTotalLength);
}

#[test]
fn setters_change_their_field_only() {
    let mut packet = Packet::new_checked(packet()).unwrap();
    packet.set_dscp(Dscp::CS0);
    packet.set_ecn(Ecn::Ce);
    packet.set_total_length(31);
    packet.set_identification(0xabcd);
    packet.set_dont_fragment(false);
    packet.set_more_fragments(true);
    packet.set_fragment_offset(1487);
    packet.set_time_to_live(1);
    packet.set_protocol(Protocol::TCP);
    packet.set_checksum(0xffee);
    packet.set_source(Ipv4Addr::new(1, 2, 3, 4));
    packet.set_destination(Ipv4Addr::new(5, 6, 7, 8));
    assert_eq!(packet.payload().len(), 11);
    let header = hex("4503 001f abcd 20b9 01 06 ffee 01020304 05060708");
    assert_eq!(packet.into_inner()[..20], header);
}

#[test]
fn a_wrong_checksum_is_noticed() {
    let mut bytes = packet();
    bytes[8] = 63;
    let mut packet = Packet::new_checked(&mut bytes[..]).unwrap();
    assert_eq!(packet.verify_checksum(), Err(Error::BadChecksum));
    packet.fill_checksum();
    assert_eq!(packet.checksum(), 0x3ca9);
    assert_eq!(packet.verify_checksum(), Ok(()));
}

#[test]
fn a_packet_dies_at_its_last_router() {
    for time_to_live in [0, 1] {
        let mut bytes = packet();
        bytes[8] = time_to_live;
        let before = bytes.clone();
        assert!(!Packet::new_checked(&mut bytes[..]).unwrap().decrement_time_to_live());
        assert_eq!(bytes, before);
    }
}

#[test]
fn each_checksum_is_repaired_as_the_time_to_live_falls() {
    for checksum in 0..=u16::MAX {
        for word in [0x0200, 0x4011, 0xff06, 0xffff] {
            let mut header = [0; MIN_HEADER_LENGTH];
            header[8..10].copy_from_slice(&u16::to_be_bytes(word));
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
            assert!(decrement_time_to_live(&mut header));
            let repaired = checksum::update16(checksum, word, word - 0x0100);
            assert_eq!(header[8..10], (word - 0x0100).to_be_bytes());
            assert_eq!(header[10..12], repaired.to_be_bytes(), "{word:#x} {checksum:#x}");
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in hostile(fragment())) {
        if let Ok(packet) = Packet::new_checked(&bytes[..]) {
            black_box(packet.verify_checksum()).ok();
            black_box((packet.to_string(), packet.fragment()));
            prop_assert!(packet.as_bytes().ends_with(packet.payload()));
            let whole = packet.header_length() + packet.payload().len();
            prop_assert_eq!(whole, usize::from(packet.total_length()));
            options::walk(packet.options()).for_each(|option| { black_box(option).ok(); });
            let repr = Repr::parse(&packet);
            let mut copy = bytes.clone();
            repr.emit(&mut copy).unwrap();
            prop_assert_eq!(Repr::parse(&Packet::new_checked(&copy[..]).unwrap()), repr);
        }
    }

    #[test]
    fn no_setter_makes_an_accessor_panic(mut bytes in hostile(fragment()), length: u16) {
        if let Ok(mut packet) = Packet::new_checked(&mut bytes[..]) {
            packet.set_total_length(length);
            packet.fill_checksum();
            black_box((packet.payload_mut().len(), packet.as_bytes().len()));
            black_box(packet.to_string());
        }
    }
}
