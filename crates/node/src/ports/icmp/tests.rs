use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::prelude::*;
use weft_wire::ip::Protocol;
use weft_wire::options::Options;
use weft_wire::{Error, EtherType, MacAddress, ethernet, icmpv4, icmpv6, ipv4, ipv6};

use super::*;

const HOST_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const FAR_V4: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
const OWN_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 254);
const HOST_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1);
const FAR_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 9);
const OWN_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0xfe);
const HOST_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const OWN_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 0xfe]);

fn v4() -> ipv4::Repr {
    let protocol = Protocol::UDP;
    ipv4::Repr { source: HOST_V4, destination: FAR_V4, protocol, ..Default::default() }
}

fn v6() -> ipv6::Repr {
    let next_header = Protocol::UDP;
    ipv6::Repr { source: HOST_V6, destination: FAR_V6, next_header, ..Default::default() }
}

fn v4_packet(header: ipv4::Repr, payload: &[u8]) -> Vec<u8> {
    let header = ipv4::Repr { payload_length: payload.len() as u16, ..header };
    let mut bytes = vec![0; header.buffer_len()];
    header.emit(&mut bytes).unwrap();
    [bytes, payload.to_vec()].concat()
}

fn v6_packet(header: ipv6::Repr, payload: &[u8]) -> Vec<u8> {
    let header = ipv6::Repr { payload_length: payload.len() as u16, ..header };
    let mut bytes = vec![0; header.buffer_len()];
    header.emit(&mut bytes).unwrap();
    [bytes, payload.to_vec()].concat()
}

fn report_to_vec(packet: &[u8], problem: Problem, source: IpAddr) -> Result<Vec<u8>, Silence> {
    let mut out = vec![0xaa; 7];
    report(packet, problem, source, 1500, &mut out).map(|()| out)
}

/// What is reported about an IPv4 packet that ran out of time.
fn about_v4(packet: &[u8]) -> Result<Vec<u8>, Silence> {
    report_to_vec(packet, Problem::TimeExceeded, OWN_V4.into())
}

fn about_v6(packet: &[u8]) -> Result<Vec<u8>, Silence> {
    report_to_vec(packet, Problem::TimeExceeded, OWN_V6.into())
}

#[test]
fn fragmentation_needed_byte_by_byte() {
    #[rustfmt::skip]
    let packet = [
        0x45, 0x00, 0x00, 0x1d, 0x00, 0x01, 0x40, 0x00, 0x40, 0x11, 0x4e, 0x91,
        192, 0, 2, 1, 198, 51, 100, 9,
        0x00, 0x35, 0x00, 0x35, 0x00, 0x09, 0x00, 0x00, 0xff,
        // Padding of the frame is not quoted.
        0x00, 0x00,
    ];
    #[rustfmt::skip]
    let headers = [
        0x45, 0xc0, 0x00, 0x39, 0x00, 0x00, 0x40, 0x00, 0x40, 0x01, 0xb5, 0x04,
        192, 0, 2, 254, 192, 0, 2, 1,
        0x03, 0x04, 0xf8, 0x0f, 0x00, 0x00, 0x05, 0x78,
    ];
    let error = report_to_vec(&packet, Problem::TooBig { mtu: 1400 }, OWN_V4.into()).unwrap();
    assert_eq!(error[..28], headers);
    assert_eq!(error[28..], packet[..29]);
}

#[test]
fn each_problem_has_its_message() {
    let (v4, v6) = (v4_packet(v4(), &[0; 8]), v6_packet(v6(), &[0; 8]));
    let codes = |problem| {
        let four = report_to_vec(&v4, problem, OWN_V4.into()).unwrap();
        let six = report_to_vec(&v6, problem, OWN_V6.into()).unwrap();
        ((four[20], four[21]), (six[40], six[41]))
    };
    assert_eq!(codes(Problem::TimeExceeded), ((11, 0), (3, 0)));
    assert_eq!(codes(Problem::TooBig { mtu: 1280 }), ((3, 4), (2, 0)));
    assert_eq!(codes(Problem::NoRoute), ((3, 0), (1, 0)));
    assert_eq!(codes(Problem::HostUnreachable), ((3, 1), (1, 3)));
}

#[test]
fn packet_too_big_says_the_mtu() {
    let packet = v6_packet(v6(), &[7; 1400]);
    let error = report_to_vec(&packet, Problem::TooBig { mtu: 1300 }, OWN_V6.into()).unwrap();
    let view = ipv6::Packet::new_checked(&error[..]).unwrap();
    assert_eq!((view.source(), view.destination()), (OWN_V6, HOST_V6));
    assert_eq!(view.hop_limit(), HOPS);
    let message = icmpv6::Message::new_checked(view.payload()).unwrap();
    assert_eq!(message.verify_checksum(&view.pseudo_header()), Ok(()));
    assert_eq!(icmpv6::Repr::parse(&message), icmpv6::Repr::PacketTooBig { mtu: 1300 });
    assert_eq!(error.len(), 1280);
    assert_eq!(message.payload(), &packet[..1232]);
}

#[test]
fn silence_about_errors_but_not_about_queries() {
    let icmp = |first: u8| {
        let header = ipv4::Repr { protocol: Protocol::ICMP, ..v4() };
        about_v4(&v4_packet(header, &[first, 0, 0, 0, 0, 0, 0, 0])).err()
    };
    for error in [3, 4, 5, 11, 12] {
        assert_eq!(icmp(error), Some(Silence::AboutError));
    }
    assert_eq!([icmp(0), icmp(8)], [None; 2]);

    let icmp = |first: u8| {
        let header = ipv6::Repr { next_header: Protocol::ICMPV6, ..v6() };
        about_v6(&v6_packet(header, &[first, 0, 0, 0, 0, 0, 0, 0])).err()
    };
    for error in [1, 2, 3, 4, 127, 137] {
        assert_eq!(icmp(error), Some(Silence::AboutError));
    }
    assert_eq!([icmp(128), icmp(129)], [None; 2]);
}

#[test]
fn silence_about_an_error_behind_extension_headers() {
    let header = ipv6::Repr { next_header: Protocol::DESTINATION_OPTIONS, ..v6() };
    let options = [58, 0, 1, 4, 0, 0, 0, 0];
    let with = |message: &[u8]| about_v6(&v6_packet(header, &[&options, message].concat())).err();
    assert_eq!(with(&[1, 0, 0, 0, 0, 0, 0, 0]), Some(Silence::AboutError));
    assert_eq!(with(&[128, 0, 0, 0, 0, 0, 0, 0]), None);
    assert_eq!(with(&[]), Some(Silence::Malformed(Error::Truncated)));
}

#[test]
fn an_error_fits_the_link_it_leaves_on() {
    let packet = v4_packet(v4(), &[7; 100]);
    let mut out = Vec::new();
    assert_eq!(report(&packet, Problem::TimeExceeded, OWN_V4.into(), 68, &mut out), Ok(()));
    assert_eq!((out.len(), &out[28..]), (68, &packet[..40]));
}

#[test]
fn silence_about_later_fragments() {
    let at = |fragment_offset| {
        let header = ipv4::Repr { fragment_offset, more_fragments: true, ..v4() };
        about_v4(&v4_packet(header, &[0; 16])).err()
    };
    assert_eq!((at(0), at(16)), (None, Some(Silence::Fragment)));

    let at = |offset: u8| {
        let header = ipv6::Repr { next_header: Protocol::FRAGMENT, ..v6() };
        about_v6(&v6_packet(header, &[17, 0, 0, offset | 1, 0, 0, 0, 9, 1, 2, 3, 4])).err()
    };
    assert_eq!((at(0), at(16)), (None, Some(Silence::Fragment)));
}

#[test]
fn silence_to_what_is_not_a_host() {
    let from = |source: [u8; 4]| {
        about_v4(&v4_packet(ipv4::Repr { source: source.into(), ..v4() }, &[])).err()
    };
    for source in [[0, 0, 0, 0], [0, 1, 2, 3], [127, 0, 0, 1], [224, 0, 0, 5], [255; 4]] {
        assert_eq!(from(source), Some(Silence::SourceNotHost), "{source:?}");
    }
    assert_eq!(from([10, 0, 0, 1]), None);

    let from = |source: &str| {
        about_v6(&v6_packet(ipv6::Repr { source: source.parse().unwrap(), ..v6() }, &[0])).err()
    };
    for source in ["::", "::1", "ff02::1"] {
        assert_eq!(from(source), Some(Silence::SourceNotHost), "{source}");
    }
    assert_eq!(from("fe80::1"), None);
}

#[test]
fn silence_about_packets_for_groups() {
    for destination in [[224, 0, 0, 251], [255; 4]] {
        let header = ipv4::Repr { destination: destination.into(), ..v4() };
        assert_eq!(about_v4(&v4_packet(header, &[])), Err(Silence::ForGroup));
    }
    let header = ipv6::Repr { destination: "ff0e::1".parse().unwrap(), ..v6() };
    let packet = v6_packet(header, &[0; 8]);
    assert_eq!(about_v6(&packet), Err(Silence::ForGroup));
    // But path MTU discovery works for groups.
    assert!(report_to_vec(&packet, Problem::TooBig { mtu: 1280 }, OWN_V6.into()).is_ok());
}

#[test]
fn families_are_not_mixed() {
    let bad_version = Err(Silence::Malformed(Error::BadVersion));
    assert_eq!(about_v6(&v4_packet(v4(), &[0; 40])), bad_version);
    assert_eq!(about_v4(&v6_packet(v6(), &[0])), bad_version);
}

fn is_own(address: IpAddr) -> bool {
    [IpAddr::from(OWN_V4), OWN_V6.into()].contains(&address)
}

fn frame(ether_type: EtherType, destination: MacAddress, packet: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 14];
    ethernet::Repr { source: HOST_MAC, destination, ether_type }.emit(&mut bytes).unwrap();
    [&bytes[..], packet].concat()
}

/// An ICMP message with a header that `Repr` knows and some data.
fn v4_message(repr: icmpv4::Repr, data: &[u8]) -> Vec<u8> {
    let mut bytes = [&[0; 8][..], data].concat();
    repr.emit(&mut bytes).unwrap();
    icmpv4::Message::new_checked(&mut bytes[..]).unwrap().fill_checksum();
    bytes
}

fn v4_ping(header: ipv4::Repr, data: &[u8]) -> Vec<u8> {
    let header = ipv4::Repr { destination: OWN_V4, protocol: Protocol::ICMP, ..header };
    let request = icmpv4::Repr::EchoRequest { identifier: 0, sequence: 0 };
    frame(EtherType::IPV4, OWN_MAC, &v4_packet(header, &v4_message(request, data)))
}

fn v6_ping(data: &[u8]) -> Vec<u8> {
    let header = ipv6::Repr { destination: OWN_V6, next_header: Protocol::ICMPV6, ..v6() };
    let mut message = [&[0; 8][..], data].concat();
    icmpv6::Repr::EchoRequest { identifier: 3, sequence: 4 }.emit(&mut message).unwrap();
    let mut packet = v6_packet(header, &message);
    let pseudo_header = ipv6::Packet::new_checked(&packet[..]).unwrap().pseudo_header();
    icmpv6::Message::new_checked(&mut packet[40..]).unwrap().fill_checksum(&pseudo_header);
    frame(EtherType::IPV6, OWN_MAC, &packet)
}

#[test]
fn echo_reply_over_ipv4() {
    // With no data the reply is all zeros but for its checksum.
    for data in [&[][..], b"abcde"] {
        let mut bytes = v4_ping(ipv4::Repr { time_to_live: 1, ..v4() }, data);
        assert_eq!(answer_echo(&mut bytes, 14, is_own), Ok(()));
        assert_eq!(bytes[..12], [HOST_MAC.0, OWN_MAC.0].concat());
        let packet = ipv4::Packet::new_checked(&bytes[14..]).unwrap();
        assert_eq!(packet.verify_checksum(), Ok(()));
        assert_eq!((packet.source(), packet.destination()), (OWN_V4, HOST_V4));
        assert_eq!(packet.time_to_live(), HOPS);
        let message = icmpv4::Message::new_checked(packet.payload()).unwrap();
        assert_eq!(message.verify_checksum(), Ok(()));
        let reply = icmpv4::Repr::EchoReply { identifier: 0, sequence: 0 };
        assert_eq!(icmpv4::Repr::parse(&message), reply);
        assert_eq!(message.payload(), data);
    }
}

#[test]
fn echo_reply_over_ipv6() {
    let mut bytes = v6_ping(b"abc");
    bytes[21] = 1;
    assert_eq!(answer_echo(&mut bytes, 14, is_own), Ok(()));
    let packet = ipv6::Packet::new_checked(&bytes[14..]).unwrap();
    assert_eq!(packet.hop_limit(), HOPS);
    assert_eq!((packet.source(), packet.destination()), (OWN_V6, HOST_V6));
    let message = icmpv6::Message::new_checked(packet.payload()).unwrap();
    assert_eq!(message.verify_checksum(&packet.pseudo_header()), Ok(()));
    let reply = icmpv6::Repr::EchoReply { identifier: 3, sequence: 4 };
    assert_eq!(icmpv6::Repr::parse(&message), reply);
    assert_eq!(message.payload(), b"abc");
}

#[test]
fn vlan_tags_stay_before_a_reply() {
    let untagged = v4_ping(v4(), b"x");
    let tag = [0x81, 0x00, 0x20, 0x07];
    let mut bytes = [&untagged[..12], &tag, &untagged[12..]].concat();
    assert_eq!(answer_echo(&mut bytes, 18, is_own), Ok(()));
    assert_eq!(bytes[12..16], tag);
}

#[test]
fn requests_without_an_answer_stay_as_they_are() {
    let mut corrupt = v4_ping(v4(), b"data");
    *corrupt.last_mut().unwrap() ^= 1;
    let mut broadcast = v4_ping(v4(), &[]);
    broadcast[..6].fill(0xff);
    let reply = v4_message(icmpv4::Repr::EchoReply { identifier: 1, sequence: 1 }, &[]);
    let own = |header| ipv4::Repr { destination: OWN_V4, ..header };
    let icmp = ipv4::Repr { protocol: Protocol::ICMP, ..own(v4()) };
    let v4_frame =
        |header, payload: &[u8]| frame(EtherType::IPV4, OWN_MAC, &v4_packet(header, payload));
    let options = Options::new(&[7, 4, 4, 0]).unwrap();
    let cases = [
        (corrupt, Silence::Malformed(Error::BadChecksum)),
        (broadcast, Silence::ForGroup),
        (v4_frame(icmp, &reply), Silence::NotEchoRequest),
        (v4_frame(own(v4()), &[0; 8]), Silence::NotEchoRequest),
        (v4_frame(v4(), &reply), Silence::NotOwn),
        (v4_ping(ipv4::Repr { more_fragments: true, ..v4() }, &[]), Silence::Fragment),
        (v4_ping(ipv4::Repr { options, ..v4() }, &[]), Silence::Options),
        (v4_ping(ipv4::Repr { source: [255; 4].into(), ..v4() }, &[]), Silence::SourceNotHost),
    ];
    for (bytes, silence) in cases {
        let mut answered = bytes.clone();
        assert_eq!(answer_echo(&mut answered, 14, is_own), Err(silence));
        assert_eq!(answered, bytes);
    }
}

#[test]
fn requests_over_ipv6_without_an_answer_stay_as_they_are() {
    let good = v6_ping(b"data");
    let mut corrupt = good.clone();
    corrupt[65] ^= 1;
    // An extension header of 8 octets before the request.
    let behind = |next_header, extension: [u8; 8]| {
        let mut bytes = [&good[..54], &extension, &good[54..]].concat();
        (bytes[19], bytes[20]) = (bytes[19] + 8, next_header);
        bytes
    };
    let cases = [
        (corrupt, Silence::Malformed(Error::BadChecksum)),
        (behind(44, [58, 0, 0, 1, 0, 0, 0, 9]), Silence::Fragment),
        (behind(60, [58, 0, 1, 4, 0, 0, 0, 0]), Silence::Options),
    ];
    for (bytes, silence) in cases {
        let mut answered = bytes.clone();
        assert_eq!(answer_echo(&mut answered, 14, is_own), Err(silence));
        assert_eq!(answered, bytes);
    }
}

/// Bytes that get past the first checks more often than chance lets them.
fn packet_bytes() -> impl Strategy<Value = Vec<u8>> {
    (vec(any::<u8>(), 0..300), 0..4).prop_map(|(mut bytes, shape)| {
        let length = bytes.len() as u16;
        if shape == 1 && length > 20 {
            bytes[0] = 0x45;
            bytes[2..4].copy_from_slice(&length.to_be_bytes());
            bytes[6] &= 0xe0;
            bytes[7] &= 1;
            bytes[9] = Protocol::ICMP.0;
        }
        if shape == 2 && length > 40 {
            bytes[0] = 0x60;
            bytes[4..6].copy_from_slice(&(length - 40).to_be_bytes());
            bytes[6] = [0, 43, 44, 58, 60][usize::from(bytes[6]) % 5];
        }
        bytes
    })
}

proptest! {
    #[test]
    fn what_is_reported_is_well_formed_and_quotes_the_packet(
        packet in packet_bytes(),
        mtu: u16,
    ) {
        for problem in [Problem::TimeExceeded, Problem::TooBig { mtu }] {
            if let Ok(error) = report_to_vec(&packet, problem, OWN_V4.into()) {
                let view = ipv4::Packet::new_checked(&error[..]).unwrap();
                let message = icmpv4::Message::new_checked(view.payload()).unwrap();
                prop_assert_eq!(view.verify_checksum(), Ok(()));
                prop_assert_eq!(message.verify_checksum(), Ok(()));
                prop_assert!(error.len() <= 576 && packet.starts_with(message.payload()));
                // No error is reported about an error.
                prop_assert_eq!(about_v4(&error), Err(Silence::AboutError));
            }
            if let Ok(error) = report_to_vec(&packet, problem, OWN_V6.into()) {
                let view = ipv6::Packet::new_checked(&error[..]).unwrap();
                let message = icmpv6::Message::new_checked(view.payload()).unwrap();
                prop_assert_eq!(message.verify_checksum(&view.pseudo_header()), Ok(()));
                prop_assert!(error.len() <= 1280 && packet.starts_with(message.payload()));
                prop_assert_eq!(about_v6(&error), Err(Silence::AboutError));
            }
        }
    }

    #[test]
    fn an_answer_keeps_the_data_and_silence_keeps_the_frame(
        packet in packet_bytes(),
        offset in 0usize..30,
    ) {
        let before = frame(EtherType::IPV4, OWN_MAC, &packet);
        let mut after = before.clone();
        match answer_echo(&mut after, offset, |_| true) {
            Ok(()) => prop_assert_eq!(after.len(), before.len()),
            Err(_) => prop_assert_eq!(after, before),
        }
    }

    #[test]
    fn every_echo_is_answered_with_its_data(data in vec(any::<u8>(), 0..1472)) {
        for mut bytes in [v4_ping(v4(), &data), v6_ping(&data)] {
            prop_assert_eq!(answer_echo(&mut bytes, 14, is_own), Ok(()));
            prop_assert!(bytes.ends_with(&data));
        }
    }
}
