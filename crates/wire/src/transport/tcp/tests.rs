use std::hint::black_box;
use std::net::Ipv4Addr;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::options;
use crate::testing::{hex, hostile};

const PSEUDO_HEADER: PseudoHeader = PseudoHeader::V4 {
    source: Ipv4Addr::new(192, 0, 2, 1),
    destination: Ipv4Addr::new(198, 51, 100, 2),
};

fn syn() -> Vec<u8> {
    hex("9c40 01bb 01020304 00000000 a002 faf0 bed5 0000 \
         020405b4 0402080a 00000001 00000000 01030307")
}

fn data() -> Vec<u8> {
    hex("9c40 01bb 00000001 deadbeef 5018 2000 a395 0000 616263")
}

#[test]
fn reads_a_syn() {
    let segment = Segment::new_checked(syn()).unwrap();
    let repr = Repr {
        source_port: 40000,
        destination_port: 443,
        sequence: 0x0102_0304,
        acknowledgment: 0,
        flags: Flags::SYN,
        window: 64240,
        urgent_pointer: 0,
        options: Options::new(&syn()[20..]).unwrap(),
    };
    assert_eq!(Repr::parse(&segment), repr);
    assert_eq!(segment.header_length(), 40);
    assert!(segment.payload().is_empty());
    assert_eq!(segment.verify_checksum(&PSEUDO_HEADER), Ok(()));
    let size = options::Item { kind: 2, data: &1460_u16.to_be_bytes() };
    assert_eq!(options::walk(segment.options()).next(), Some(Ok(size)));
    let text = "tcp 40000 > 443 syn sequence 16909060 acknowledgment 0 window 64240";
    assert_eq!(segment.to_string(), text);
}

#[test]
fn reads_data() {
    let segment = Segment::new_checked(data()).unwrap();
    assert_eq!(segment.flags(), Flags::PSH | Flags::ACK);
    assert_eq!(segment.acknowledgment(), 0xdead_beef);
    assert_eq!(segment.payload(), b"abc");
    assert!(segment.options().is_empty());
    assert_eq!(segment.verify_checksum(&PSEUDO_HEADER), Ok(()));
}

#[test]
fn writes_what_it_read() {
    for original in [syn(), data()] {
        let repr = Repr::parse(&Segment::new_checked(&original[..]).unwrap());
        let mut copy = original.clone();
        copy[..20].fill(0xff);
        repr.emit(&mut copy).unwrap();
        let mut segment = Segment::new_checked(&mut copy[..]).unwrap();
        assert_eq!(segment.checksum(), 0);
        segment.fill_checksum(&PSEUDO_HEADER);
        assert_eq!(copy, original);
        let short = &mut copy[..repr.buffer_len() - 1];
        assert_eq!(repr.emit(short), Err(Error::BufferTooShort));
    }
}

#[test]
fn data_offsets_that_lie() {
    let mut bytes = data();
    assert_eq!(Segment::new_checked(&bytes[..19]).unwrap_err(), Error::Truncated);
    for words in [0, 4, 6, 15] {
        bytes[12] = words << 4;
        assert_eq!(Segment::new_checked(&bytes).unwrap_err(), Error::BadHeaderLength);
    }
}

#[test]
fn setters_change_their_field_only() {
    let mut segment = Segment::new_checked(syn()).unwrap();
    segment.set_source_port(1);
    segment.set_destination_port(2);
    segment.set_sequence(3);
    segment.set_acknowledgment(4);
    segment.set_flags(Flags::ACK | Flags::CWR);
    segment.set_window(5);
    segment.set_checksum(6);
    segment.set_urgent_pointer(7);
    segment.options_mut()[3] = 8;
    let bytes = hex("0001 0002 00000003 00000004 a090 0005 0006 0007 02040508");
    assert_eq!(segment.into_inner()[..24], bytes);
}

#[test]
fn a_wrong_checksum_is_noticed() {
    let mut segment = Segment::new_checked(data()).unwrap();
    segment.payload_mut()[0] = b'x';
    assert_eq!(segment.verify_checksum(&PSEUDO_HEADER), Err(Error::BadChecksum));
    segment.update_checksum(Change::NONE.field16(0x6162, 0x7862));
    assert_eq!(segment.verify_checksum(&PSEUDO_HEADER), Ok(()));
}

#[test]
fn flags_have_names() {
    assert_eq!((Flags::SYN | Flags::ACK).to_string(), "syn+ack");
    assert_eq!(Flags::default().to_string(), "none");
    assert_eq!(Flags(0xff).to_string(), "fin+syn+rst+psh+ack+urg+ece+cwr");
    assert!(Flags(0x12).contains(Flags::SYN) && !Flags::SYN.contains(Flags(0x12)));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in hostile(syn())) {
        if let Ok(segment) = Segment::new_checked(&bytes[..]) {
            black_box(segment.verify_checksum(&PSEUDO_HEADER)).ok();
            black_box(segment.to_string());
            options::walk(segment.options()).for_each(|option| { black_box(option).ok(); });
            prop_assert_eq!(segment.header_length() + segment.payload().len(), bytes.len());
            let (repr, mut copy) = (Repr::parse(&segment), bytes.clone());
            repr.emit(&mut copy).unwrap();
            let mut segment = Segment::new_checked(&mut copy[..]).unwrap();
            prop_assert_eq!(Repr::parse(&segment), repr);
            black_box((segment.options_mut().len(), segment.payload_mut().len()));
        }
    }

    #[test]
    fn parse_of_emit(
        ports: (u16, u16),
        numbers: (u32, u32),
        flags: u8,
        window: u16,
        urgent_pointer: u16,
        options in vec(any::<u8>(), 0..=40),
    ) {
        let repr = Repr {
            source_port: ports.0,
            destination_port: ports.1,
            sequence: numbers.0,
            acknowledgment: numbers.1,
            flags: Flags(flags),
            window,
            urgent_pointer,
            options: Options::new(&options).unwrap(),
        };
        let mut bytes = vec![0xff; repr.buffer_len()];
        repr.emit(&mut bytes).unwrap();
        prop_assert_eq!(Repr::parse(&Segment::new_checked(&bytes[..]).unwrap()), repr);
    }
}
