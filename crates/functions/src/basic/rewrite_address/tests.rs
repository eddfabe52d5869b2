use std::net::IpAddr;

use proptest::prelude::*;
use serde_json::{Value, json};
use weft_function::{Direction, TagSlot};
use weft_wire::Protocol;

use crate::kind;
use crate::testing::{NETWORK, Rig, Seen, Spec, metadata, specs};

fn rewrite(config: Value) -> Rig {
    Rig::new(kind("rewrite-address").unwrap(), config).unwrap()
}

fn uplink(rig: &mut Rig, spec: &Spec) -> Vec<u8> {
    send(rig, spec, Direction::Uplink).bytes
}

fn downlink(rig: &mut Rig, spec: &Spec) -> Vec<u8> {
    send(rig, spec, Direction::Downlink).bytes
}

fn send(rig: &mut Rig, spec: &Spec, direction: Direction) -> Seen {
    rig.send_as(spec, |metadata| TagSlot::DIRECTION.set(metadata, direction as u32))
}

fn packet(source: &str, destination: &str) -> Spec {
    Spec::udp(b"payload").between(source, destination)
}

#[test]
fn prefixes_are_translated_and_translated_back() {
    let mut rig = rewrite(json!({
        "source": [
            { "from": "10.0.0.0/16", "to": "100.64.0.0/16" },
            { "from": "fd00:1::/32", "to": "2001:db8::/32" }
        ],
        "destination": [{ "from": "192.0.2.0/24", "to": "198.51.100.0/24" }]
    }));
    let pairs = [
        (packet("10.0.1.2", "192.0.2.7"), packet("100.64.1.2", "198.51.100.7")),
        (packet("10.0.1.2", "8.8.8.8"), packet("100.64.1.2", "8.8.8.8")),
        (packet("10.1.1.2", "192.0.2.7"), packet("10.1.1.2", "198.51.100.7")),
        (packet("fd00:1::5", "2001:db8:1::1"), packet("2001:db8::5", "2001:db8:1::1")),
        (packet("fe80::1", "fe80::2"), packet("fe80::1", "fe80::2")),
    ];
    for (inside, outside) in pairs {
        assert_eq!(uplink(&mut rig, &inside), outside.frame());
        let answer = |spec: &Spec| Spec {
            source: spec.destination,
            destination: spec.source,
            ..spec.clone()
        };
        assert_eq!(downlink(&mut rig, &answer(&outside)), answer(&inside).frame());
    }
}

#[test]
fn the_first_translation_that_fits_applies() {
    let mut rig = rewrite(json!({ "source": [
        { "from": "10.0.0.0/24", "to": "203.0.113.0/24" },
        { "from": "10.0.0.0/8", "to": "11.0.0.0/8" }
    ] }));
    let [inside, outside] = ["10.0.0.9", "203.0.113.9"].map(|source| packet(source, "8.8.8.8"));
    assert_eq!(uplink(&mut rig, &inside), outside.frame());
    let [inside, outside] = ["10.0.1.9", "11.0.1.9"].map(|source| packet(source, "8.8.8.8"));
    assert_eq!(uplink(&mut rig, &inside), outside.frame());
}

#[test]
fn without_reverse_downlink_packets_pass() {
    let translations = json!([{ "from": "10.0.0.0/16", "to": "100.64.0.0/16" }]);
    let mut rig = rewrite(json!({ "source": translations, "reverse": false }));
    let answer = packet("8.8.8.8", "100.64.0.1");
    assert_eq!(downlink(&mut rig, &answer), answer.frame());
    let (inside, outside) = (packet("10.0.0.1", "8.8.8.8"), packet("100.64.0.1", "8.8.8.8"));
    assert_eq!(uplink(&mut rig, &inside), outside.frame());
}

#[test]
fn settings_go_before_translations_of_their_family() {
    let mut rig = rewrite(json!({ "source": [
        { "from": "10.0.0.0/16", "to": "100.64.0.0/16" },
        { "from": "fd00::/16", "to": "fd01::/16" }
    ] }));
    let settings = json!({
        "source": "203.0.113.5", "originalSource": "10.0.0.5", "destination": "192.0.2.80"
    });
    rig.configure(0, settings, 2, 3).unwrap();
    let (inside, outside) = (packet("10.0.0.7", "8.8.8.8"), packet("203.0.113.7", "192.0.2.82"));
    assert_eq!(uplink(&mut rig, &inside), outside.frame());
    // Where an answer is given back to is known, where it comes from is not.
    let answer = packet("192.0.2.82", "203.0.113.7");
    assert_eq!(downlink(&mut rig, &answer), packet("192.0.2.82", "10.0.0.7").frame());
    // An answer to another address is none of the setting's.
    let answer = packet("192.0.2.82", "100.64.0.7");
    assert_eq!(downlink(&mut rig, &answer), answer.frame());
    let (inside, outside) = (packet("fd00::1", "fd02::1"), packet("fd01::1", "fd02::1"));
    assert_eq!(uplink(&mut rig, &inside), outside.frame());
}

#[test]
fn original_addresses_are_given_back() {
    let mut rig = rewrite(Value::Null);
    let settings = json!({
        "source": "2001:db8::1", "originalSource": "fd00::1",
        "destination": "2001:db8::2", "originalDestination": "fd00::2"
    });
    rig.configure(0, settings, 0, 1).unwrap();
    let (inside, outside) = (packet("fd00::1", "fd00::2"), packet("2001:db8::1", "2001:db8::2"));
    assert_eq!(uplink(&mut rig, &inside), outside.frame());
    let answer = packet("2001:db8::2", "2001:db8::1");
    assert_eq!(downlink(&mut rig, &answer), packet("fd00::2", "fd00::1").frame());
    let other = packet("192.0.2.1", "192.0.2.2");
    assert_eq!(uplink(&mut rig, &other), other.frame());
}

#[test]
fn settings_that_change_replace_what_was_set() {
    let mut rig = rewrite(Value::Null);
    rig.configure(0, json!({ "destination": "192.0.2.80" }), 0, 1).unwrap();
    rig.configure(0, json!({ "source": "203.0.113.5" }), 0, 1).unwrap();
    let (inside, outside) = (packet("10.0.0.7", "8.8.8.8"), packet("203.0.113.5", "8.8.8.8"));
    assert_eq!(uplink(&mut rig, &inside), outside.frame());
}

/// RFC 8200 §4.4: behind a routing header with stops left, no checksum covers
/// the destination of the IPv6 header.
#[test]
fn the_next_stop_of_a_source_route_is_not_translated() {
    let routed = |spec: &Spec, segments_left: u8| {
        let mut frame = spec.frame();
        let ip = &mut frame[NETWORK..];
        let length = u16::from_be_bytes([ip[4], ip[5]]) + 32;
        ip[4..6].copy_from_slice(&length.to_be_bytes());
        let next = std::mem::replace(&mut ip[6], Protocol::DESTINATION_OPTIONS.0);
        let mut extensions = vec![Protocol::ROUTING.0, 0, 1, 4, 0, 0, 0, 0];
        extensions.extend([next, 2, 2, segments_left, 0, 0, 0, 0]);
        extensions.extend([0; 16]);
        frame.splice(NETWORK + 40..NETWORK + 40, extensions);
        frame
    };
    let mut rig = rewrite(json!({
        "source": [{ "from": "fd00:1::/32", "to": "2001:db8::/32" }],
        "destination": [{ "from": "fd00:2::/32", "to": "fd00:3::/32" }]
    }));
    let inside = packet("fd00:1::1", "fd00:2::1");
    for (segments_left, destination) in [(0, "fd00:3::1"), (1, "fd00:2::1")] {
        let frame = routed(&inside, segments_left);
        let seen = rig.send_bytes(&frame, metadata(&frame));
        let outside = packet("2001:db8::1", destination);
        assert_eq!(seen.bytes, routed(&outside, segments_left));
    }
}

#[test]
fn mistakes_are_named() {
    let error = |config| Rig::new(kind("rewrite-address").unwrap(), config).err().unwrap();
    let translation = |from: &str, to: &str| json!({ "from": from, "to": to });
    let lengths = error(json!({ "source": [translation("10.0.0.0/16", "11.0.0.0/8")] }));
    assert_eq!(lengths.path, "source.0.to");
    let families = error(json!({ "destination": [translation("0.0.0.0/0", "::/0")] }));
    assert_eq!(families.path, "destination.0.to");
    let twice = error(json!({ "source": [
        translation("10.0.0.0/16", "100.64.0.0/16"), translation("10.1.0.0/16", "100.64.0.0/16")
    ] }));
    assert_eq!(twice.path, "source.1.to");
    let host_bits = error(json!({ "source": [translation("10.0.0.1/16", "100.64.0.0/16")] }));
    assert_eq!(host_bits.path, "source.0.from");
    let many: Vec<_> = (0..257)
        .map(|net| translation(&format!("10.{}.{}.0/24", net / 256, net % 256), "11.0.0.0/24"))
        .collect();
    assert_eq!(error(json!({ "source": many })).path, "source");

    let path =
        |settings, count| rewrite(Value::Null).configure(0, settings, 0, count).unwrap_err().path;
    assert_eq!(path(json!({ "source": "255.255.255.254" }), 3), "source");
    assert_eq!(path(json!({ "originalSource": "10.0.0.1" }), 1), "originalSource");
    let families = json!({ "destination": "::1", "originalDestination": "10.0.0.1" });
    assert_eq!(path(families, 1), "originalDestination");
    assert_eq!(path(json!({ "source": "10.0.0.256" }), 1), "source");
}

/// The prefix of an address, and the address with these bits in front.
fn translated(address: IpAddr, bits: u128, length: u8) -> (String, String, IpAddr) {
    let (all, from) = match address {
        IpAddr::V4(address) => (32, u128::from(address.to_bits())),
        IpAddr::V6(address) => (128, address.to_bits()),
    };
    let length = length % (all + 1);
    let host = u128::MAX.checked_shr(128 - u32::from(all - length)).unwrap_or(0);
    let text = |bits: u128| match address {
        IpAddr::V4(_) => IpAddr::from((bits as u32).to_be_bytes()),
        IpAddr::V6(_) => IpAddr::from(bits.to_be_bytes()),
    };
    let prefix = |bits: u128| format!("{}/{length}", text(bits & !host));
    (prefix(from), prefix(bits), text(bits & !host | from & host))
}

/// The part of a TCP header that the checksum is in, in a fragment of its own:
/// such a checksum cannot be repaired.
fn hides_checksum(spec: &Spec) -> bool {
    let start = spec.fragment.as_ref().map_or(0, |(part, _)| part.start);
    spec.protocol == Protocol::TCP && (1..=16).contains(&start)
}

proptest! {
    #[test]
    fn a_packet_is_as_if_built_with_the_other_addresses(
        inside in specs(),
        bits in any::<[u128; 2]>(),
        lengths in any::<[u8; 2]>(),
    ) {
        prop_assume!(!hides_checksum(&inside));
        let (from, to, source) = translated(inside.source, bits[0], lengths[0]);
        let sources = json!([{ "from": from, "to": to }]);
        let (from, to, destination) = translated(inside.destination, bits[1], lengths[1]);
        let destinations = json!([{ "from": from, "to": to }]);
        let mut rig = rewrite(json!({ "source": sources, "destination": destinations }));
        let outside = Spec { source, destination, ..inside.clone() };
        prop_assert_eq!(uplink(&mut rig, &inside), outside.frame());

        let answer = |spec: &Spec| {
            Spec { source: spec.destination, destination: spec.source, ..spec.clone() }
        };
        prop_assert_eq!(downlink(&mut rig, &answer(&outside)), answer(&inside).frame());
    }
}
