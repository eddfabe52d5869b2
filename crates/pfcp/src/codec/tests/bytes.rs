//! Messages as other programs send them.

use super::{emitted, parsed};
use crate::codec::element::*;
use crate::codec::message::*;
use crate::codec::{Header, Message};

/// Bytes from hexadecimal digits.
pub(super) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

#[test]
fn a_heartbeat() {
    let octets = hex("20 01 000c 000007 00  0060 0004 e5a1b2c3");
    let heartbeat = Heartbeat { recovery: Time(0xe5a1_b2c3), ..Default::default() };
    let (header, message) = parsed(&octets).unwrap();
    assert_eq!(header, Header { seid: None, sequence: 7, priority: None });
    assert_eq!(message, Message::HeartbeatRequest(heartbeat));
    assert_eq!(emitted(&message, &header), octets);
}

/// An element around octets or other elements.
fn element(number: u16, value: &[u8]) -> Vec<u8> {
    let mut octets = number.to_be_bytes().to_vec();
    octets.extend((value.len() as u16).to_be_bytes());
    octets.extend(value);
    octets
}

/// As Open5GS sends it: an F-TEID to be chosen, network instances as labels, a QER with QFI.
#[test]
fn an_establishment() {
    let pdi = [
        hex("0014 0001 00  0015 0001 05"),
        element(22, b"\x08internet"),
        element(93, &hex("06 0a2d0002")),
    ]
    .concat();
    let pdr = [
        hex("0038 0002 0001  001d 0004 000000ff"),
        element(2, &pdi),
        hex("005f 0001 00  006c 0004 00000001  006d 0004 00000001"),
    ]
    .concat();
    let far = hex("006c 0004 00000001  002c 0001 02  0004 0005 002a 0001 01  0058 0001 00");
    let qer =
        hex("006d 0004 00000001  0019 0001 00  001a 000a 00000003e8 00000007d0  007c 0001 01");
    let body = [
        hex("003c 0005 00 7f000004  0039 000d 02 0000000000000001 7f000004"),
        element(1, &pdr),
        element(3, &far),
        element(7, &qer),
        hex("0071 0001 01"),
    ]
    .concat();
    let mut octets = hex("21 32 0000 0000000000000000 000001 00");
    octets.extend(&body);
    octets[3] = (12 + body.len()) as u8;
    let (header, message) = parsed(&octets).unwrap();
    assert_eq!(header.seid, Some(0));
    let Message::SessionEstablishmentRequest(request) = &message else { panic!("{message:?}") };
    assert_eq!(request.fseid.seid, 1);
    assert_eq!(request.pdrs.len(), 1);
    let pdr = &request.pdrs[0];
    assert_eq!((pdr.id, pdr.precedence, pdr.far), (PdrId(1), 255, Some(FarId(1))));
    assert_eq!(pdr.pdi.fteid, Some(FTeid::Choose { ipv4: true, ipv6: false, id: None }));
    assert_eq!(pdr.outer_header_removal.unwrap().description, OuterHeaderRemoval::GTPU_IPV4);
    assert_eq!(request.qers[0].mbr, Some(Rate { uplink: 1000, downlink: 2000 }));
    assert_eq!(request.qers[0].qfi, Some(Bits(1)));
    assert_eq!(request.fars[0].bar, Some(BarId(0)));
    assert_eq!(request.pdn_type, Some(PdnType::IPV4));
    assert_eq!(emitted(&message, &header), octets);
}

#[test]
fn names_are_read_as_labels_and_as_text() {
    let labels = Text(b"\x08internet\x05mnc01\x04gprs");
    assert_eq!(labels.to_string(), "internet.mnc01.gprs");
    assert!(labels.is("Internet.MNC01.gprs"));
    let text = Text(b"internet.mnc01.gprs");
    assert_eq!(text.to_string(), "internet.mnc01.gprs");
    assert!(text.is("internet.mnc01.gprs") && !text.is("internet"));
    assert_eq!(Text::labels_of("internet.mnc01.gprs"), labels.0);
    // Octets that no text has are shown, and harm nothing.
    assert_eq!(Text(b"a\xff\n\"").to_string(), "aÿ\\n\\\"");
    assert_eq!(Text(b"").to_string(), "");
}

#[test]
fn shorter_elements_of_earlier_releases_are_read() {
    use crate::codec::{Value, ie};
    // Reporting Triggers of 2 octets, Apply Action of 1 and 2.
    let triggers = ReportingTriggers::parse(ie::REPORTING_TRIGGERS, &[0x02, 0x01]).unwrap();
    assert_eq!(triggers, ReportingTriggers::VOLTH | ReportingTriggers::VOLQU);
    let long = ApplyAction::parse(ie::APPLY_ACTION, &[0x0c, 0x00]).unwrap();
    assert_eq!(long, ApplyAction::parse(ie::APPLY_ACTION, &[0x0c]).unwrap());
    // Octets of later releases are passed over.
    let later = ReportingTriggers::parse(ie::REPORTING_TRIGGERS, &[1, 0, 0, 0, 9, 9]).unwrap();
    assert_eq!(later, ReportingTriggers::PERIO);
    assert_eq!(OuterHeaderRemoval::parse(ie::OUTER_HEADER_REMOVAL, &[0]).unwrap().extensions, None);
}

#[test]
fn times_pass_2036() {
    assert_eq!(Time::from_unix(0).0, 2_208_988_800);
    for seconds in [0, 1_700_000_000, 2_085_978_495, 2_085_978_496, 4_000_000_000] {
        assert_eq!(Time::from_unix(seconds).unix(), seconds);
    }
    // Before 1970, which the fuzzer found.
    assert_eq!(Time(0x8000_0000).unix(), 0);
    assert_eq!(Time(2_208_988_799).unix(), 0);
}

#[test]
fn durations_are_rounded_up() {
    for seconds in [1, 2, 61, 62, 63, 1860, 1861, 100_000, 1_116_000] {
        let shown = GracePeriod::at_least(seconds).seconds().unwrap();
        assert!(shown >= seconds, "{shown} for {seconds}");
    }
    assert_eq!(GracePeriod::at_least(u64::MAX).seconds(), None);
}
