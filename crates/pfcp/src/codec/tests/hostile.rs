//! FAULTS rows 27 to 34: bad information elements.

use super::bytes::hex;
use super::{emitted, parsed, strategy};
use crate::codec::element::*;
use crate::codec::{Cause, Defect, Elements, Error, Frame, Header, Message, Value, ie};
use proptest::prelude::*;

fn error_of(body: &str, message: u8) -> Error {
    let body = hex(body);
    Message::parse(&Frame { header: Header::default(), message, body: &body }).unwrap_err()
}

/// An establishment's Node ID and F-SEID.
const ESTABLISHMENT: &str = "003c 0005 00 0a000001  0039 000d 02 0000000000000001 0a000001";

#[test]
fn fault_27_length_0() {
    // Each element that has fields, with none of its octets.
    for element in [
        ie::CAUSE,
        ie::SOURCE_INTERFACE,
        ie::F_TEID,
        ie::SDF_FILTER,
        ie::GATE_STATUS,
        ie::MBR,
        ie::PRECEDENCE,
        ie::APPLY_ACTION,
        ie::PDR_ID,
        ie::F_SEID,
        ie::NODE_ID,
        ie::UE_IP_ADDRESS,
    ] {
        let wrong = |result: Result<(), Error>| {
            assert_eq!(result.unwrap_err(), Error::new(Defect::Length, element));
        };
        wrong(Cause::parse(element, &[]).map(drop));
        wrong(Interface::parse(element, &[]).map(drop));
        wrong(FTeid::parse(element, &[]).map(drop));
        wrong(SdfFilter::parse(element, &[]).map(drop));
        wrong(GateStatus::parse(element, &[]).map(drop));
        wrong(Rate::parse(element, &[]).map(drop));
        wrong(u32::parse(element, &[]).map(drop));
        wrong(ApplyAction::parse(element, &[]).map(drop));
        wrong(PdrId::parse(element, &[]).map(drop));
        wrong(FSeid::parse(element, &[]).map(drop));
        wrong(NodeId::parse(element, &[]).map(drop));
        wrong(UeIpAddress::parse(element, &[]).map(drop));
    }
    let error = error_of("0060 0000", 1);
    assert_eq!(error, Error::new(Defect::Length, ie::RECOVERY_TIME_STAMP));
    assert_eq!(error.cause(), Cause::INVALID_LENGTH);
    // An unknown element, and a vendor's, of length 0: passed over.
    let body = hex("7000 0000  8001 0000  0060 0004 00000001");
    Message::parse(&Frame { header: Header::default(), message: 1, body: &body }).unwrap();
    // A group without anything in it lacks what it must have.
    let error = error_of(&format!("{ESTABLISHMENT} 0001 0000"), 50);
    assert_eq!(error, Error::new(Defect::Missing, ie::PDR_ID));
    // In an update it takes back what was set.
    assert_eq!(Change::<Text<'_>>::parse(ie::FORWARDING_POLICY, &[]), Ok(Change::Clear));
}

#[test]
fn fault_28_beyond_the_message_or_group() {
    let error = error_of("0060 0005 00000001", 1);
    assert_eq!(error, Error::new(Defect::Length, ie::RECOVERY_TIME_STAMP));
    assert_eq!(error_of("0060 00", 1), Error::message(Defect::Length));
    // The PDI goes on beyond its Create PDR.
    let error = error_of(
        &format!("{ESTABLISHMENT} 0001 0013 0038 0002 0001 001d 0004 00000001 0002 0006 00"),
        50,
    );
    assert_eq!(error.defect, Defect::Length);
    // The message goes on beyond its datagram.
    let octets = hex("20 01 00ff 000007 00  0060 0004 00000001");
    assert_eq!(parsed(&octets).unwrap_err(), Error::message(Defect::Truncated));
    // A length below the header's.
    let octets = hex("21 32 0008 0000000000000001 000007 00");
    assert_eq!(parsed(&octets).unwrap_err(), Error::message(Defect::Truncated));
}

#[test]
fn fault_29_missing_mandatory_elements() {
    for (body, message, element) in [
        ("", 1, ie::RECOVERY_TIME_STAMP),
        ("0060 0004 00000001", 5, ie::NODE_ID),
        ("003c 0005 00 0a000001", 5, ie::RECOVERY_TIME_STAMP),
        ("003c 0005 00 0a000001", 6, ie::CAUSE),
        ("", 9, ie::NODE_ID),
        ("", 50, ie::NODE_ID),
        ("003c 0005 00 0a000001", 50, ie::F_SEID),
        ("", 53, ie::CAUSE),
        ("", 57, ie::CAUSE),
        ("", 56, ie::REPORT_TYPE),
    ] {
        let error = error_of(body, message);
        assert_eq!(error, Error::new(Defect::Missing, element));
        assert_eq!(error.cause(), Cause::MANDATORY_IE_MISSING);
        assert_eq!(error.offending(), Some(element));
    }
}

#[test]
fn fault_30_flags_without_addresses() {
    let short = |element| Error::new(Defect::Length, element);
    assert_eq!(FTeid::parse(ie::F_TEID, &[1, 0, 0, 0, 1]), Err(short(ie::F_TEID)));
    assert_eq!(FTeid::parse(ie::F_TEID, &[3, 0, 0, 0, 1, 10, 0, 0, 1]), Err(short(ie::F_TEID)));
    assert_eq!(FTeid::parse(ie::F_TEID, &[0x0d]), Err(short(ie::F_TEID)));
    assert_eq!(FSeid::parse(ie::F_SEID, &[2, 0, 0, 0, 0, 0, 0, 0, 1]), Err(short(ie::F_SEID)));
    assert_eq!(UeIpAddress::parse(ie::UE_IP_ADDRESS, &[2, 10, 0]), Err(short(ie::UE_IP_ADDRESS)));
    assert_eq!(UeIpAddress::parse(ie::UE_IP_ADDRESS, &[0x40]), Err(short(ie::UE_IP_ADDRESS)));
    let header = ie::OUTER_HEADER_CREATION;
    for octets in [&[][..], &[1], &[1, 0], &[1, 0, 0, 0, 0, 9], &[1, 0, 0, 0, 0, 9, 10, 0, 0]] {
        assert_eq!(OuterHeaderCreation::parse(header, octets), Err(short(header)));
    }
    // No flag at all says nothing.
    let wrong = |element| Error::new(Defect::Content, element);
    assert_eq!(FTeid::parse(ie::F_TEID, &[0, 0, 0, 0, 1]), Err(wrong(ie::F_TEID)));
    assert_eq!(FSeid::parse(ie::F_SEID, &[0, 0, 0, 0, 0, 0, 0, 0, 1]), Err(wrong(ie::F_SEID)));
    assert_eq!(OuterHeaderCreation::parse(header, &[0, 0]), Err(wrong(header)));
    assert_eq!(NodeId::parse(ie::NODE_ID, &[9, 1]), Err(wrong(ie::NODE_ID)));
}

#[test]
fn fault_31_missing_source_interface() {
    let pdr = "0001 0012 0038 0002 0001 001d 0004 00000001 0002 0000";
    let error = error_of(&format!("{ESTABLISHMENT} {pdr}"), 50);
    assert_eq!(error, Error::new(Defect::Missing, ie::SOURCE_INTERFACE));
}

#[test]
fn fault_32_short_sdf_filters() {
    let element = ie::SDF_FILTER;
    for octets in [&[1, 0][..], &[1, 0, 0, 9, b'p'], &[2, 0, 1], &[4, 0, 0], &[8, 0, 0], &[16, 0]] {
        assert_eq!(SdfFilter::parse(element, octets).unwrap_err().defect, Defect::Length);
    }
    assert_eq!(SdfFilter::parse(element, &[0, 0]).unwrap_err().defect, Defect::Content);
}

#[test]
fn fault_33_lengths_of_rates_and_thresholds() {
    assert_eq!(Rate::parse(ie::MBR, &[0; 9]).unwrap_err().defect, Defect::Length);
    assert!(Rate::parse(ie::MBR, &[0; 10]).is_ok());
    let threshold = ie::VOLUME_THRESHOLD;
    assert_eq!(Volume::parse(threshold, &[1, 0, 0]).unwrap_err().defect, Defect::Length);
    assert_eq!(Volume::parse(threshold, &[7; 24]).unwrap_err().defect, Defect::Length);
    assert_eq!(Volume::parse(threshold, &[0; 25]).unwrap_err().defect, Defect::Content);
    assert_eq!(Seconds::parse(ie::TIME_THRESHOLD, &[0; 3]).unwrap_err().defect, Defect::Length);
}

#[test]
fn fault_34_pdn_type_0() {
    assert_eq!(PdnType::parse(ie::PDN_TYPE, &[0]).unwrap_err().defect, Defect::Content);
    assert_eq!(PdnType::parse(ie::PDN_TYPE, &[6]).unwrap_err().defect, Defect::Content);
    assert_eq!(UrrId::parse(ie::URR_ID, &[0, 0, 0xff, 0xff]), Ok(UrrId(65535)));
    assert_eq!(UrrId::parse(ie::URR_ID, &[0xff, 0xff]).unwrap_err().defect, Defect::Length);
}

#[test]
fn elements_that_are_not_read_are_named() {
    let pdr = "0001 0016 0038 0002 0001 001d 0004 00000001 0002 0005 0014 0001 00";
    let body = hex(&format!("{ESTABLISHMENT} {pdr} 00a5 0001 00"));
    let frame = Frame { header: Header::default(), message: 50, body: &body };
    let error = Message::parse(&frame);
    // The Create PDR above is one octet short of its announced length.
    assert!(error.is_err());
    let pdr = "0001 0017 0038 0002 0001 001d 0004 00000001 0002 0005 0014 0001 00";
    let body = hex(&format!("{ESTABLISHMENT} {pdr} 00a5 0001 00"));
    let frame = Frame { header: Header::default(), message: 50, body: &body };
    assert_eq!(Message::parse(&frame).unwrap().refused(), Some(ie::CREATE_MAR));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// A message that is cut anywhere is refused; so is each group that is cut inside.
    #[test]
    fn fault_28_truncation_at_each_octet(message in strategy::message()) {
        let header = Header { seid: Some(7), sequence: 9, priority: None };
        let octets = emitted(&message, &header);
        for length in 0..octets.len() {
            prop_assert!(parsed(&octets[..length]).is_err());
            // With a length field that agrees it may be a whole message, but never a panic.
            let mut cut = octets[..length].to_vec();
            if length >= 16 {
                cut[2..4].copy_from_slice(&(length as u16 - 4).to_be_bytes());
                let _ = parsed(&cut);
            }
        }
    }
}

#[test]
fn elements_end_behind_an_error() {
    let octets = hex("0060 0009 00");
    let mut elements = Elements::new(&octets);
    assert!(elements.next().unwrap().is_err());
    assert!(elements.next().is_none());
}
