mod connections;
mod random;

use std::net::Ipv4Addr;

use serde_json::{Value, json};
use weft_compose::Outcome;
use weft_wire::checksum::{self, PseudoHeader};
use weft_wire::{Protocol, icmpv4, ipv4, tcp, udp};

use crate::kind;
use crate::testing::{NETWORK, Rig, Seen, Spec, metadata, pool};

const SECOND: u64 = 1_000_000_000;
const SERVER: &str = "198.51.100.7";

fn nat(config: Value) -> Rig {
    Rig::new(kind("nat").expect("it is there"), config).expect("a valid configuration")
}

fn rig() -> Rig {
    let mut rig = nat(json!({
        "addresses": ["192.0.2.0/31"], "blockSize": 64, "mappings": 1000, "portSeed": 1
    }));
    rig.now = SECOND;
    rig
}

/// From `source:port` inside to the server.
fn from(source: &str, port: u16) -> Spec {
    Spec { source_port: port, destination_port: 80, ..Spec::udp(b"hello").between(source, SERVER) }
}

/// From the other end to a public address.
fn to(destination: (Ipv4Addr, u16), other: &str, port: u16) -> Spec {
    let spec = Spec::udp(b"world").between(other, &destination.0.to_string());
    Spec { source_port: port, destination_port: destination.1, ..spec }
}

fn out(rig: &mut Rig, user: u32, spec: &Spec) -> Seen {
    rig.send_as(spec, |metadata| {
        (metadata.user, metadata.bearer, metadata.tags[0]) = (user, user, 0);
    })
}

/// From outside, where all are one user: the seventh.
fn back(rig: &mut Rig, spec: &Spec) -> Seen {
    rig.send_as(spec, |metadata| {
        (metadata.user, metadata.bearer, metadata.tags[0]) = (7, 7, 1);
    })
}

/// Source and destination of a packet with right checksums.
fn ends(bytes: &[u8]) -> [(Ipv4Addr, u16); 2] {
    let ip = ipv4::Packet::new_checked(&bytes[NETWORK..]).expect("IPv4");
    assert_eq!(ip.verify_checksum(), Ok(()));
    let pseudo_header = PseudoHeader::V4 { source: ip.source(), destination: ip.destination() };
    let (a, b) = if ip.protocol() == Protocol::TCP {
        let segment = tcp::Segment::new_checked(ip.payload()).expect("TCP");
        assert_eq!(segment.verify_checksum(&pseudo_header), Ok(()));
        (segment.source_port(), segment.destination_port())
    } else {
        let datagram = udp::Datagram::new_checked(ip.payload()).expect("UDP");
        assert_eq!(datagram.verify_checksum(&pseudo_header), Ok(()));
        (datagram.source_port(), datagram.destination_port())
    };
    [(ip.source(), a), (ip.destination(), b)]
}

fn server() -> (Ipv4Addr, u16) {
    (SERVER.parse().expect("an address"), 80)
}

/// RFC 4787 REQ-1, REQ-8, RFC 5382 REQ-1, REQ-3.
#[test]
fn mapping_and_filtering_do_not_depend_on_the_other_end() {
    let mut rig = rig();
    for protocol in [Protocol::UDP, Protocol::TCP] {
        let spec = Spec { protocol, ..from("10.0.0.1", 5000) };
        let [public, to_server] = ends(&out(&mut rig, 1, &spec).bytes);
        assert_eq!(to_server, server());
        assert!(public.0.octets().starts_with(&[192, 0, 2]) && public.1 >= 1024);
        let other = Spec { destination_port: 9, ..spec.between("10.0.0.1", "203.0.113.9") };
        assert_eq!(ends(&out(&mut rig, 1, &other).bytes)[0], public);
        for (host, port) in [(SERVER, 80), ("203.0.113.200", 4)] {
            let answer = Spec { protocol, ..to(public, host, port) };
            let seen = back(&mut rig, &answer);
            let inside: Ipv4Addr = [10, 0, 0, 1].into();
            assert_eq!(ends(&seen.bytes)[1], (inside, 5000));
            // From here on it is the user's packet.
            assert_eq!((seen.metadata.user, seen.metadata.bearer), (1, 1));
        }
        let unmapped = Spec { protocol, ..to((public.0, public.1 ^ 1), SERVER, 80) };
        assert_eq!(back(&mut rig, &unmapped).dropped, Some("nat_no_mapping"));
    }
}

/// RFC 6888 REQ-4: a user cannot take the ports of others.
#[test]
fn each_user_has_a_block_of_its_own() {
    let mut rig = rig();
    let mut blocks = Vec::new();
    for user in [1, 2, 3] {
        let source = format!("10.0.0.{user}");
        let mut ports = Vec::new();
        for port in 0..64 {
            let seen = out(&mut rig, user, &from(&source, 2000 + port));
            ports.push(ends(&seen.bytes)[0]);
        }
        ports.sort_unstable();
        ports.dedup();
        assert_eq!((ports.len(), ports[63].1 - ports[0].1), (64, 63));
        assert_eq!(out(&mut rig, user, &from(&source, 1)).dropped, Some("nat_no_port"));
        // The ports of another protocol are others.
        let spec = Spec { protocol: Protocol::TCP, ..from(&source, 1) };
        assert_eq!(out(&mut rig, user, &spec).dropped, None);
        assert_eq!(rig.shown(user, "mappings"), 65);
        assert_eq!(rig.shown(user, "refused"), 1);
        blocks.push(ports[0]);
    }
    blocks.dedup();
    assert_eq!(blocks.len(), 3);
    let spec = from("10.0.0.1", 2000);
    assert_eq!(out(&mut rig, 2, &spec).dropped, Some("nat_foreign_address"));
}

/// RFC 4787 REQ-5, REQ-6: packets from inside keep a mapping, those from outside do not.
#[test]
fn mappings_of_udp_end_when_nothing_goes_out() {
    let mut rig = rig();
    let [public, _] = ends(&out(&mut rig, 1, &from("10.0.0.1", 5000)).bytes);
    rig.now += 299 * SECOND;
    assert_eq!(back(&mut rig, &to(public, SERVER, 80)).dropped, None);
    out(&mut rig, 1, &from("10.0.0.1", 5000));
    rig.now += 299 * SECOND;
    assert_eq!(back(&mut rig, &to(public, SERVER, 80)).dropped, None);
    rig.now += 2 * SECOND;
    assert_eq!(back(&mut rig, &to(public, SERVER, 80)).dropped, Some("nat_no_mapping"));
}

/// RFC 6056: without a seed the order of ports is another one at each start.
#[test]
fn ports_cannot_be_foretold() {
    let ports = || {
        let mut rig = nat(json!({ "addresses": ["192.0.2.1"], "blockSize": 4096 }));
        let port = |port| ends(&out(&mut rig, 1, &from("10.0.0.1", port)).bytes)[0].1;
        (5000..5008).map(port).collect::<Vec<_>>()
    };
    assert_ne!(ports(), ports());
}

/// RFC 4787 REQ-9: the packet comes from the sender's public address.
#[test]
fn users_reach_each_other_by_their_public_addresses() {
    let mut rig = rig();
    let [first, _] = ends(&out(&mut rig, 1, &from("10.0.0.1", 5000)).bytes);
    let [second, _] = ends(&out(&mut rig, 2, &from("10.0.0.2", 6000)).bytes);
    let spec = from("10.0.0.1", 5000).between("10.0.0.1", &second.0.to_string());
    let seen = out(&mut rig, 1, &Spec { destination_port: second.1, ..spec });
    assert_eq!(ends(&seen.bytes), [first, ([10, 0, 0, 2].into(), 6000)]);
    assert_eq!(seen.metadata.user, 2);
}

/// An ICMP message.
fn icmp(source: &str, destination: &str, message: &[u8]) -> Spec {
    let mut message = message.to_vec();
    message[2..4].fill(0);
    let sum = checksum::of(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    Spec { protocol: Protocol::ICMP, ..Spec::udp(&message).between(source, destination) }
}

fn message(bytes: &[u8]) -> (Ipv4Addr, Ipv4Addr, Vec<u8>) {
    let ip = ipv4::Packet::new_checked(&bytes[NETWORK..]).expect("IPv4");
    assert_eq!(ip.verify_checksum(), Ok(()));
    let message = icmpv4::Message::new_checked(ip.payload()).expect("ICMP");
    assert_eq!(message.verify_checksum(), Ok(()));
    (ip.source(), ip.destination(), ip.payload().to_vec())
}

/// RFC 5508 REQ-1.
#[test]
fn echoes_are_told_apart_by_their_identifiers() {
    let mut rig = rig();
    let mut public = Vec::new();
    for user in [1, 2] {
        let source = format!("10.0.0.{user}");
        let seen = out(&mut rig, user, &icmp(&source, SERVER, &[8, 0, 0, 0, 0, 9, 0, 1, 7, 7]));
        let (address, _, echo) = message(&seen.bytes);
        let identifier = u16::from_be_bytes([echo[4], echo[5]]);
        assert_eq!(echo[6..], [0, 1, 7, 7]);
        public.push((address, identifier));
    }
    assert_ne!(public[0], public[1]);
    for (user, (address, identifier)) in [1, 2].into_iter().zip(public) {
        let [high, low] = identifier.to_be_bytes();
        let reply = icmp(SERVER, &address.to_string(), &[0, 0, 0, 0, high, low, 0, 1, 7, 7]);
        let seen = back(&mut rig, &reply);
        let (_, inside, echo) = message(&seen.bytes);
        assert_eq!(inside.octets(), [10, 0, 0, user]);
        assert_eq!(echo[4..6], [0, 9]);
    }
}

/// RFC 5508 REQ-3 to REQ-5, in both directions.
#[test]
fn errors_are_translated_with_what_they_are_about() {
    for protocol in [Protocol::UDP, Protocol::TCP] {
        let mut rig = rig();
        let spec = Spec { protocol, ..from("10.0.0.1", 5000) };
        let sent = out(&mut rig, 1, &spec).bytes;
        let [public, _] = ends(&sent);
        // A router on the way answers with as much as it has to (RFC 792), or more.
        for length in [28, sent.len() - NETWORK] {
            let about = [&[11, 0, 0, 0, 0, 0, 0, 0][..], &sent[NETWORK..NETWORK + length]].concat();
            let seen = back(&mut rig, &icmp("203.0.113.1", &public.0.to_string(), &about));
            assert_eq!(seen.dropped, None);
            let (_, inside, error) = message(&seen.bytes);
            assert_eq!(inside.octets(), [10, 0, 0, 1]);
            assert_eq!(error[8..], spec.frame()[NETWORK..NETWORK + length], "as it was sent");
            assert_eq!(seen.metadata.user, 1);
        }
        let came = Spec { protocol, ..to(public, SERVER, 80) };
        let inside = back(&mut rig, &came).bytes;
        let about = [&[3, 3, 0, 0, 0, 0, 0, 0][..], &inside[NETWORK..]].concat();
        let seen = out(&mut rig, 1, &icmp("10.0.0.1", SERVER, &about));
        let (source, _, error) = message(&seen.bytes);
        assert_eq!(source, public.0);
        assert_eq!(error[8..], came.frame()[NETWORK..], "as it was sent");
    }
    let mut rig = rig();
    let about = [&[3, 3, 0, 0, 0, 0, 0, 0][..], &from("192.0.2.0", 1).frame()[NETWORK..]].concat();
    let seen = back(&mut rig, &icmp(SERVER, "192.0.2.0", &about));
    assert_eq!(seen.dropped, Some("nat_no_mapping"));
}

/// RFC 5508 REQ-3; and no user speaks for another.
#[test]
fn errors_that_are_damaged_or_forged_are_dropped() {
    let mut rig = rig();
    let [public, _] = ends(&out(&mut rig, 1, &from("10.0.0.1", 5000)).bytes);
    let came = to(public, SERVER, 80);
    let inside = back(&mut rig, &came).bytes;
    let error = |about: &[u8]| [&[3, 3, 0, 0, 0, 0, 0, 0][..], about].concat();
    let sound = icmp("10.0.0.2", SERVER, &error(&inside[NETWORK..]));
    assert_eq!(out(&mut rig, 2, &sound).dropped, Some("nat_foreign_address"));
    let mut about = inside[NETWORK..].to_vec();
    about[8] ^= 1;
    let header = icmp("10.0.0.1", SERVER, &error(&about));
    assert_eq!(out(&mut rig, 1, &header).dropped, Some("nat_checksum"));
    let mut message = icmp("10.0.0.1", SERVER, &error(&inside[NETWORK..]));
    message.payload[4] ^= 1;
    assert_eq!(out(&mut rig, 1, &message).dropped, Some("nat_checksum"));
}

/// RFC 4787 REQ-14, for fragments in order.
#[test]
fn fragments_follow_their_first() {
    let mut rig = rig();
    let whole = Spec { payload: vec![5; 64], ..from("10.0.0.1", 5000) };
    let first = Spec { fragment: Some((0..32, true)), ..whole.clone() };
    let later = Spec { fragment: Some((32..72, false)), ..whole.clone() };
    assert_eq!(out(&mut rig, 1, &later).dropped, Some("nat_fragment"));
    let [sent, rest] = [&first, &later].map(|spec| out(&mut rig, 1, spec).bytes);
    let address = |bytes: &[u8], at: usize| bytes[NETWORK + at..NETWORK + at + 4].to_vec();
    assert_eq!(address(&sent, 12), address(&rest, 12));
    let joined = [&sent[NETWORK + 20..], &rest[NETWORK + 20..]].concat();
    let public = u16::from_be_bytes([joined[0], joined[1]]);
    let source: [u8; 4] = address(&sent, 12).try_into().expect("an address");
    let pseudo_header =
        PseudoHeader::V4 { source: source.into(), destination: SERVER.parse().expect("one") };
    let datagram = udp::Datagram::new_checked(&joined[..]).expect("UDP");
    assert_eq!(datagram.verify_checksum(&pseudo_header), Ok(()));
    let answer = Spec { payload: vec![6; 64], ..to((source.into(), public), SERVER, 80) };
    let later = Spec { fragment: Some((32..72, false)), ..answer.clone() };
    assert_eq!(back(&mut rig, &later).dropped, Some("nat_fragment"));
    back(&mut rig, &Spec { fragment: Some((0..32, true)), ..answer });
    let seen = back(&mut rig, &later);
    assert_eq!(address(&seen.bytes, 16), [10, 0, 0, 1]);
    rig.now += 31 * SECOND;
    assert_eq!(back(&mut rig, &later).dropped, Some("nat_fragment"));
}

#[test]
fn what_cannot_be_translated_is_named() {
    let mut rig = rig();
    let esp = Spec { protocol: Protocol::ESP, ..from("10.0.0.1", 1) };
    assert_eq!(out(&mut rig, 1, &esp).dropped, Some("nat_protocol"));
    let ipv6 = Spec::udp(b"").between("2001:db8::1", "2001:db8::2");
    assert_eq!(out(&mut rig, 1, &ipv6).bytes, ipv6.frame());
    let elsewhere = to(([203, 0, 113, 1].into(), 1), SERVER, 80);
    assert_eq!(back(&mut rig, &elsewhere).bytes, elsewhere.frame());
}

/// RFC 7422: the block follows from the inside address alone.
#[test]
fn blocks_are_known_beforehand_in_deterministic_mode() {
    let config = json!({
        "addresses": ["192.0.2.0/31"], "blockSize": 1024, "deterministic": "10.0.0.0/26"
    });
    let mut rig = nat(config);
    let public = |rig: &mut Rig, inside: u32| {
        let source = Ipv4Addr::from_bits(0x0a00_0000 + inside).to_string();
        let [public, _] = ends(&out(rig, inside % 4, &from(&source, 9)).bytes);
        (public.0.octets()[3], (public.1 - 1024) / 1024)
    };
    // 63 blocks to an address.
    assert_eq!(public(&mut rig, 3), (0, 3));
    assert_eq!(public(&mut rig, 62), (0, 62));
    assert_eq!(public(&mut rig, 61), (0, 61));
    let mut rig = nat(json!({
        "addresses": ["192.0.2.0/31"], "blockSize": 1024, "deterministic": "10.0.0.0/26"
    }));
    assert_eq!(public(&mut rig, 63), (1, 0));
    assert_eq!(out(&mut rig, 2, &from("10.1.0.1", 9)).dropped, Some("nat_not_inside"));
    // The user has a block already, which is not this address's.
    assert_eq!(out(&mut rig, 3, &from("10.0.0.5", 9)).dropped, Some("nat_not_inside"));
}

/// A user whose ports are all in use is refused without a search, for a moment.
#[test]
fn ports_that_have_ended_are_found_again() {
    let mut rig = nat(json!({ "addresses": ["192.0.2.1"], "blockSize": 16 }));
    for port in 0..16 {
        assert_eq!(out(&mut rig, 1, &from("10.0.0.1", 5000 + port)).dropped, None);
    }
    for _ in 0..2 {
        assert_eq!(out(&mut rig, 1, &from("10.0.0.1", 9)).dropped, Some("nat_no_port"));
    }
    rig.now += 301 * SECOND;
    assert_eq!(out(&mut rig, 1, &from("10.0.0.1", 9)).dropped, None);
    assert_eq!(rig.shown(1, "refused"), 2);
}

/// A block that came back rests before another user has it.
#[test]
fn blocks_rest_before_they_are_given_out_again() {
    let mut rig = nat(json!({ "addresses": ["192.0.2.1"], "blockSize": 32_256, "holdDown": 60 }));
    for user in [1, 2] {
        assert_eq!(out(&mut rig, user, &from(&format!("10.0.0.{user}"), 9)).dropped, None);
    }
    assert_eq!(out(&mut rig, 3, &from("10.0.0.3", 9)).dropped, Some("nat_no_block"));
    rig.instance.release(1);
    assert_eq!(out(&mut rig, 3, &from("10.0.0.3", 9)).dropped, Some("nat_no_block"));
    rig.now += 61 * SECOND;
    assert_eq!(out(&mut rig, 3, &from("10.0.0.3", 9)).dropped, None);
}

/// The other node has the same addresses: connections go on there.
#[test]
fn mappings_move_with_their_user() {
    let mut source = rig();
    let [public, _] = ends(&out(&mut source, 1, &from("10.0.0.1", 5000)).bytes);
    source.now += 200 * SECOND;
    let mut target = rig();
    target.now = 5000 * SECOND;
    target.instance.import(2, target.now, &source.export(1)).expect("a whole context");
    assert_eq!(back(&mut target, &to(public, SERVER, 80)).dropped, None);
    let seen = out(&mut target, 2, &from("10.0.0.1", 5000));
    assert_eq!(ends(&seen.bytes)[0], public);
    assert_eq!(back(&mut target, &to(public, SERVER, 80)).metadata.user, 2);
    // No other user gets the block.
    let [other, _] = ends(&out(&mut target, 3, &from("10.0.0.3", 5000)).bytes);
    assert!(other.0 != public.0 || other.1 / 64 != public.1 / 64);
    // What had 100 s left has them there.
    let mut late = rig();
    late.now = 9 * SECOND;
    late.instance.import(2, late.now, &source.export(1)).expect("a whole context");
    late.now += 101 * SECOND;
    assert_eq!(back(&mut late, &to(public, SERVER, 80)).dropped, Some("nat_no_mapping"));
}

#[test]
fn blocks_are_logged() {
    let path = std::env::temp_dir().join(format!("weft-nat-{}", std::process::id()));
    let name = path.to_str().expect("a path");
    let mut rig = nat(json!({ "addresses": ["192.0.2.1"], "blockSize": 64, "log": name }));
    out(&mut rig, 1, &from("10.0.0.1", 9));
    rig.instance.release(1);
    drop(rig);
    let read = || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        std::fs::read_to_string(&path).unwrap_or_default()
    };
    let lines = (0..200).map(|_| read()).find(|text| text.lines().count() == 3).expect("all lines");
    std::fs::remove_file(&path).expect("it is there");
    let line = "inside=10.0.0.1 outside=192.0.2.1 ports=1024-1087";
    let words: Vec<_> = lines.lines().map(|line| line.split_once(' ').expect("a time").1).collect();
    assert_eq!(words, ["began".into(), format!("allocated {line}"), format!("released {line}")]);
}

#[test]
fn mistakes_are_named() {
    let error =
        |config| Rig::new(kind("nat").expect("it is there"), config).err().expect("one").path;
    assert_eq!(error(json!({ "addresses": [] })), "addresses");
    assert_eq!(error(json!({ "addresses": ["2001:db8::/64"] })), "addresses.0");
    assert_eq!(error(json!({ "addresses": ["192.0.2.0/24", "192.0.2.9"] })), "addresses.1");
    assert_eq!(error(json!({ "addresses": ["192.0.2.1"], "blockSize": 8 })), "blockSize");
    let many = json!({ "addresses": ["192.0.2.1"], "deterministic": "10.0.0.0/16" });
    assert_eq!(error(many), "deterministic");
    assert_eq!(error(json!({ "addresses": ["192.0.2.1"], "timeouts": { "udp": 0 } })), "timeouts");
    assert_eq!(error(json!({ "addresses": ["192.0.2.1"], "log": "/nowhere/log" })), "log");
}

/// A node that has died: users go on with their blocks, and what was given out since the last
/// checkpoints is held down.
#[test]
fn a_node_that_goes_on_gives_no_recent_port_to_another() {
    let block = |(address, port): (Ipv4Addr, u16)| (address, (port - 1024) / 64);
    let mut first = rig();
    let before = ends(&out(&mut first, 1, &from("10.0.0.1", 1000)).bytes)[0];
    let checkpoint = first.export(1);
    // Behind the checkpoint.
    let lost = ends(&out(&mut first, 2, &from("10.0.0.2", 1000)).bytes)[0];
    let mut again = rig();
    let now = again.now;
    again.instance.import(1, now, &checkpoint).unwrap();
    again.instance.go_on(now);
    let third = ends(&out(&mut again, 3, &from("10.0.0.3", 1000)).bytes)[0];
    assert!(block(third) != block(lost) && block(third) != block(before));
    assert_eq!(ends(&out(&mut again, 1, &from("10.0.0.1", 1000)).bytes)[0], before);
    let inside = ends(&back(&mut again, &to(before, SERVER, 80)).bytes)[1];
    assert_eq!(inside, (Ipv4Addr::new(10, 0, 0, 1), 1000));
}
