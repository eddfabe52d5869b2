use std::hint::black_box;
use std::net::IpAddr;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::testing::{hex, hostile};

/// As Scapy writes it: a packet to the user, with a PDU session container.
fn downlink() -> Vec<u8> {
    hex("34ff000e 12345678 00000085 0200c9a000000000 4500")
}

fn message(text: &str) -> Message<Vec<u8>> {
    Message::new_checked(hex(text)).unwrap()
}

fn defect(text: &str) -> Error {
    Message::new_checked(hex(text)).unwrap_err()
}

#[test]
fn reads_a_plain_header() {
    let message = message("30ff0002 12345678 4500 ffff");
    assert_eq!((message.message_type(), message.teid()), (MessageType::G_PDU, Teid(0x1234_5678)));
    assert_eq!((message.sequence(), message.n_pdu()), (None, None));
    assert_eq!((message.payload(), message.header_length()), (&[0x45, 0][..], 8));
    assert_eq!(message.to_string(), "gtp-u g-pdu teid 0x12345678 payload 2");
}

#[test]
fn reads_a_container_downlink() {
    let message = Message::new_checked(downlink()).unwrap();
    let session = PduSession::Downlink {
        qfi: Qfi::new(9).unwrap(),
        reflective: true,
        paging_policy: Some(5),
    };
    assert_eq!(message.pdu_session(), Ok(Some(session)));
    assert_eq!((message.header_length(), message.payload()), (20, &[0x45, 0][..]));
    let text = "gtp-u g-pdu teid 0x12345678 downlink qfi 9 reflective paging policy 5 payload 2";
    assert_eq!(message.to_string(), text);
}

#[test]
fn reads_a_container_uplink() {
    let message = message("34ff000a 00000001 00000085 01100500 4500");
    let session = PduSession::Uplink { qfi: Qfi::new(5).unwrap() };
    assert_eq!(message.pdu_session(), Ok(Some(session)));
    assert_eq!(session.to_string(), "uplink qfi 5");
}

#[test]
fn reads_all_known_extension_headers() {
    use ExtensionRepr as E;
    let repr = Repr::parse(&message(
        "37ff0020 00000001 0102 03 c0 01 beef 82 02 0302010000 00 20 01 0700 40 01 0868 84 02 112233445566 00",
    ));
    let known =
        [E::PdcpNumber(0xbeef), E::LongPdcpNumber(0x3_0201), E::ServiceClass(7), E::UdpPort(2152)];
    assert!(repr.extensions.iter().eq(&known));
    assert_eq!((repr.sequence, repr.n_pdu), (Some(0x0102), Some(3)));
}

/// Fault 1: a message cut off anywhere is named, not read.
#[test]
fn fault_01_truncation_at_every_octet() {
    let whole = downlink();
    for end in 0..whole.len() {
        let error = Message::new_checked(&whole[..end]).unwrap_err();
        let expected = if end < MIN_HEADER_LENGTH { Error::Truncated } else { Error::BadGtpLength };
        assert_eq!(error, expected, "{end}");
    }
}

/// Fault 2: the length field above and below the datagram.
#[test]
fn fault_02_length_against_datagram() {
    assert_eq!(defect("30ff0003 00000001 4500"), Error::BadGtpLength);
    assert_eq!(message("30ff0001 00000001 4500").payload(), [0x45]);
    // Below the optional fields that the flags announce.
    assert_eq!(defect("32ff0003 00000001 00000000"), Error::BadGtpLength);
}

/// Fault 3: version 2, GTP', and the spare bit, which no receiver looks at.
#[test]
fn fault_03_version_and_protocol_type() {
    assert_eq!(defect("50ff0000 00000001"), Error::UnsupportedGtp);
    assert_eq!(defect("20ff0000 00000001"), Error::UnsupportedGtp);
    assert_eq!(message("38ff0000 00000001").teid(), Teid(1));
}

/// Faults 4 to 6: extension headers without length, past the end, by the
/// thousand.
#[test]
fn fault_04_05_06_extension_chains() {
    assert_eq!(defect("34ff0008 00000001 00000085 00000000"), Error::BadGtpExtension);
    assert_eq!(defect("34ff0008 00000001 00000085 02000000"), Error::BadGtpExtension);
    assert_eq!(defect("34ff0004 00000001 00000085"), Error::BadGtpExtension);
    let chain = |count: usize| {
        let mut bytes = hex("34ff0000 00000001 00000020");
        bytes.extend(hex("01070020").repeat(count - 1));
        bytes.extend(hex("01070000"));
        let length = (bytes.len() - MIN_HEADER_LENGTH) as u16;
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        Message::new_checked(bytes).map(|message| message.extensions().count())
    };
    assert_eq!(chain(MAX_EXTENSION_HEADERS), Ok(MAX_EXTENSION_HEADERS));
    assert_eq!(chain(MAX_EXTENSION_HEADERS + 1), Err(Error::TooManyGtpExtensions));
    assert_eq!(chain(1000), Err(Error::TooManyGtpExtensions));
}

/// Fault 7: the two highest bits of a type say who must know it.
#[test]
fn fault_07_comprehension_classes() {
    let of = |kind| ExtensionType(kind).comprehension();
    assert_eq!(of(0x3f), Comprehension::Forwarded);
    assert_eq!(of(0x40), Comprehension::Discarded);
    assert_eq!(of(0x85), Comprehension::ByEndpoint);
    assert_eq!(of(0xc0), Comprehension::ByAll);
    let message = message("34ff0008 00000001 000000ee 01aabb00");
    let unknown = Extension { kind: ExtensionType(0xee), content: &[0xaa, 0xbb] };
    assert!(message.extensions().eq([unknown]));
    assert_eq!(Repr::parse(&message).extensions, Extensions::NONE);
}

/// Fault 8: without the flag a next type means nothing, and one flag brings all
/// four optional octets.
#[test]
fn fault_08_flags_and_optional_octets() {
    let message = message("32ff0006 00000001 00070085 4500");
    assert_eq!((message.sequence(), message.n_pdu()), (Some(7), None));
    assert_eq!(message.extensions().count(), 0);
    assert_eq!(message.payload(), [0x45, 0]);
}

/// Fault 9: containers that announce more than they hold, or another PDU type.
#[test]
fn fault_09_malformed_containers() {
    for content in ["", "00", "2009", "0089", "0809", "0409", "0209", "1805", "1405", "1185"] {
        let session = PduSession::parse(&hex(content));
        assert_eq!(session, Err(Error::BadGtpExtensionContent), "{content}");
    }
    assert_eq!(Qfi::new(64), None);
}

/// Fault 10: a packet of no length.
#[test]
fn fault_10_empty_packet() {
    assert_eq!(message("30ff0000 00000001").payload(), []);
}

fn check(signal: Signal, expected: &str, text: &str) {
    let mut bytes = vec![0xff; signal.buffer_len()];
    signal.emit(&mut bytes).unwrap();
    assert_eq!(bytes, hex(expected));
    assert_eq!(Signal::parse(&Message::new_checked(&bytes[..]).unwrap()), Ok(signal));
    assert_eq!(signal.to_string(), text);
    bytes.pop();
    assert_eq!(signal.emit(&mut bytes), Err(Error::BufferTooShort));
}

#[test]
fn signals() {
    let bytes = "32010004 00000000 00070000";
    check(Signal::EchoRequest { sequence: 7 }, bytes, "gtp-u echo request sequence 7");
    let response = Signal::EchoResponse { sequence: 7, recovery: 0 };
    let text = "gtp-u echo response sequence 7 recovery 0";
    check(response, "32020006 00000000 00070000 0e00", text);
    let teid = Teid(0x1122_3344);
    let peer = IpAddr::from([192, 0, 2, 2]);
    let error = Signal::ErrorIndication { teid, peer, udp_port: Some(0xc001) };
    let bytes = "361a0014 00000000 00000040 01c00100 10 11223344 85 0004 c0000202";
    check(error, bytes, "gtp-u error indication teid 0x11223344 at 192.0.2.2");
    let types = ExtensionTypes::new(&[ExtensionType::PDU_SESSION, ExtensionType::UDP_PORT]);
    let bytes = "321f0008 00000000 00000000 8d02 8540";
    let text = "gtp-u supported extension headers 0x85 0x40";
    check(Signal::SupportedExtensionHeaders { types }, bytes, text);
    let marker = Signal::EndMarker { teid: Teid(0x99) };
    check(marker, "30fe0000 00000099", "gtp-u end marker teid 0x00000099");
}

#[test]
fn elements_are_walked() {
    let octets = hex("0e05 ff 0003 000a01 10 00000007");
    let private = Element::Other { kind: 255, content: &[0, 10, 1] };
    let all = [Ok(Element::Recovery(5)), Ok(private), Ok(Element::TeidDataI(Teid(7)))];
    assert!(elements(&octets).eq(all));
    for bad in ["0e", "10000000", "63", "ff0003000a", "8d03 0102", "85 0003 010203"] {
        let walked: Vec<_> = elements(&hex(bad)).map(|one| one.is_ok()).collect();
        assert_eq!(walked, [false], "{bad}");
    }
}

/// Fault 11, and elements that a message must have.
#[test]
fn fault_11_unknown_and_incomplete_signals() {
    let read = |text| Signal::parse(&message(text)).unwrap_err();
    assert_eq!(read("30630000 00000000"), Error::UnknownGtpMessage);
    assert_eq!(read("30ff0000 00000001"), Error::UnknownGtpMessage);
    assert_eq!(read("32020004 00000000 00010000"), Error::BadInformationElement);
    assert_eq!(read("321a0009 00000000 00000000 1000000001"), Error::BadInformationElement);
    assert_eq!(read("321f0005 00000000 00000000 8d"), Error::BadInformationElement);
}

#[test]
fn setters_change_their_field_only() {
    let mut bytes = downlink();
    let mut message = Message::new_checked(&mut bytes[..]).unwrap();
    message.set_teid(Teid(0xaabb_ccdd));
    message.payload_mut()[0] = 0x60;
    message.set_length(13);
    assert_eq!(bytes, hex("34ff000d aabbccdd 00000085 0200c9a000000000 6000"));
}

fn session() -> impl Strategy<Value = PduSession> {
    let qfi = (0..64_u8).prop_map(Qfi::new).prop_map(Option::unwrap);
    let policy = proptest::option::of(0..8_u8);
    prop_oneof![
        (qfi.clone(), any::<bool>(), policy).prop_map(|(qfi, reflective, paging_policy)| {
            PduSession::Downlink { qfi, reflective, paging_policy }
        }),
        qfi.prop_map(|qfi| PduSession::Uplink { qfi }),
    ]
}

fn extension() -> impl Strategy<Value = ExtensionRepr> {
    prop_oneof![
        any::<u16>().prop_map(ExtensionRepr::UdpPort),
        any::<u16>().prop_map(ExtensionRepr::PdcpNumber),
        (0..1_u32 << 18).prop_map(ExtensionRepr::LongPdcpNumber),
        any::<u8>().prop_map(ExtensionRepr::ServiceClass),
        session().prop_map(ExtensionRepr::PduSession),
    ]
}

fn signal() -> impl Strategy<Value = Signal> {
    let types = vec(any::<u8>().prop_map(ExtensionType), 0..=8);
    let error = (any::<u32>(), any::<IpAddr>(), any::<Option<u16>>());
    prop_oneof![
        any::<u16>().prop_map(|sequence| Signal::EchoRequest { sequence }),
        any::<(u16, u8)>()
            .prop_map(|(sequence, recovery)| Signal::EchoResponse { sequence, recovery }),
        error.prop_map(|(teid, peer, udp_port)| {
            Signal::ErrorIndication { teid: Teid(teid), peer, udp_port }
        }),
        types.prop_map(|types| Signal::SupportedExtensionHeaders {
            types: ExtensionTypes::new(&types)
        }),
        any::<u32>().prop_map(|teid| Signal::EndMarker { teid: Teid(teid) }),
    ]
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in hostile(downlink())) {
        if let Ok(message) = Message::new_checked(&bytes[..]) {
            prop_assert!(message.extensions().count() <= MAX_EXTENSION_HEADERS);
            let total = message.header_length() + message.payload().len();
            prop_assert_eq!(total, MIN_HEADER_LENGTH + usize::from(message.length()));
            black_box((message.to_string(), message.pdu_session().is_ok()));
            black_box((Signal::parse(&message).is_ok(), elements(message.payload()).count()));
        }
    }

    #[test]
    fn parse_of_emit(
        kind: u8,
        teid: u32,
        sequence: Option<u16>,
        n_pdu: Option<u8>,
        list in vec(extension(), 0..=MAX_EXTENSION_HEADERS),
        payload_length in 0..100_usize,
    ) {
        let mut extensions = Extensions::NONE;
        prop_assert!(list.iter().all(|extension| extensions.push(*extension)));
        let (message_type, teid) = (MessageType(kind), Teid(teid));
        let repr = Repr { message_type, teid, sequence, n_pdu, extensions, payload_length };
        let mut bytes = vec![0xff; repr.buffer_len() + payload_length];
        repr.emit(&mut bytes).unwrap();
        prop_assert_eq!(Repr::parse(&Message::new_checked(&bytes[..]).unwrap()), repr);
    }

    #[test]
    fn parse_of_emit_of_signals(signal in signal()) {
        let mut bytes = vec![0xff; signal.buffer_len()];
        signal.emit(&mut bytes).unwrap();
        prop_assert_eq!(Signal::parse(&Message::new_checked(&bytes[..]).unwrap()), Ok(signal));
    }
}

/// Whatever is taken out, the rest stays as it was.
#[test]
fn extension_headers_are_taken_out() {
    let of = |kinds: &[u8], sequence: bool| {
        let mut bytes = vec![0x34, 255, 0, 0, 0, 0, 0, 9, 0, 7, 0, 0];
        bytes[0] |= if sequence { 2 } else { 0 };
        for (nth, kind) in kinds.iter().enumerate() {
            let before = bytes.len() - 1;
            bytes[before] = *kind;
            bytes.extend([1, *kind, nth as u8, 0]);
        }
        bytes.extend(b"packet");
        let length = (bytes.len() - 8) as u16;
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        bytes
    };
    let cases: [(&[u8], &[u8]); 5] = [
        (&[0x41], &[]),
        (&[0x85, 0x41], &[0x85]),
        (&[0x41, 0x85], &[0x85]),
        (&[0x41, 0x85, 0x42, 0xc0, 0x41], &[0x85, 0xc0]),
        (&[0x85, 0xc0], &[0x85, 0xc0]),
    ];
    for (before, after) in cases {
        for sequence in [false, true] {
            let mut bytes = of(before, sequence);
            let unwanted = |kind: ExtensionType| kind.comprehension() == Comprehension::Discarded;
            let start = discard_extensions(&mut bytes, unwanted).unwrap();
            let message = Message::new_checked(&bytes[start..]).unwrap();
            let kinds: Vec<_> = message.extensions().map(|one| one.kind.0).collect();
            assert_eq!(kinds, after);
            assert!(message.extensions().all(|one| one.content[0] == one.kind.0));
            assert_eq!((message.payload(), message.teid()), (&b"packet"[..], Teid(9)));
            assert_eq!(message.sequence(), sequence.then_some(7));
            assert_eq!(usize::from(message.length()) + 8, bytes.len() - start);
            let optional = sequence || !after.is_empty();
            assert_eq!(message.header_length() - 4 * after.len(), if optional { 12 } else { 8 });
        }
    }
}
