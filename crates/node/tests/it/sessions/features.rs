//! What few sessions use: framed routes, times of rules, shared and guaranteed rates, marks, and
//! HTTP that is sent elsewhere.

use super::*;
use weft_wire::gtpu::ExtensionType;
use weft_wire::tcp::{self, Flags, Segment};
use weft_wire::{Protocol, checksum::PseudoHeader, ipv4};

use crate::common::gtpu::tunnelled;

/// Rules that do not go by the usual session's way.
fn with(n: u8, change: impl FnOnce(&mut Value)) -> Value {
    let mut rules = usual(n);
    change(&mut rules);
    rules
}

#[test]
fn packets_of_a_network_behind_the_user_are_the_users() {
    let mut upf = Upf::new();
    let routes = |list: Value| {
        move |rules: &mut Value| {
            rules["pdrs"][0]["routes"] = list.clone();
            rules["pdrs"][1]["routes"] = list;
        }
    };
    upf.establish(1, with(1, routes(json!(["192.168.7.0/24", "2001:db8:7::/48"]))));
    upf.establish(2, with(2, routes(json!(["192.168.7.128/25"]))));
    let to = |address: [u8; 4]| udp_to(MacAddress([2, 0, 0, 0, 0, 2]), HOST, address, 64, b"down");
    let teids = |upf: &mut Upf, address| {
        upf.rig.send(1, &[to(address)]);
        radio(&mut upf.rig).into_iter().map(|(teid, ..)| teid).collect::<Vec<_>>()
    };
    // The longest prefix counts, and an address of a user before all routes.
    assert_eq!(teids(&mut upf, [192, 168, 7, 9]), [0x2001]);
    assert_eq!(teids(&mut upf, [192, 168, 7, 200]), [0x2002]);
    assert_eq!(teids(&mut upf, [10, 45, 0, 1]), [0x2001]);
    assert!(teids(&mut upf, [192, 168, 8, 9]).is_empty());
    assert_eq!(upf.rig.drops("unknown_user"), 1);
    // Uplink, no other address may be used.
    for (address, passes) in [([192, 168, 7, 9], 1), ([192, 168, 8, 9], 0), ([10, 45, 0, 1], 1)] {
        upf.rig.send(0, &[uplink(0x1001, address, b"up")]);
        assert_eq!(upf.rig.receive(1).len(), passes, "{address:?}");
    }
    assert_eq!(upf.rig.drops("no_pdr"), 1);
    // A network has one user.
    let other = establish(3, with(3, routes(json!(["192.168.7.0/24"]))));
    let (changed, _) = upf.change(std::slice::from_ref(&other));
    assert!(
        matches!(&changed.results[0], Err(error) if error.to_string().contains("192.168.7.0/24"))
    );
    // What goes is free again.
    upf.modify(1, usual(1));
    assert!(teids(&mut upf, [192, 168, 7, 9]).is_empty());
    let (changed, _) = upf.change(&[other]);
    assert_eq!(changed.results, [Ok(())]);
    assert_eq!(teids(&mut upf, [192, 168, 7, 9]), [0x2003]);
    upf.remove(2);
    assert_eq!(teids(&mut upf, [192, 168, 7, 200]), [0x2003]);
}

#[test]
fn a_rule_holds_in_its_time_only() {
    let mut upf = Upf::new();
    let far = 1_u64 << 40;
    for (period, passes) in [
        (json!({"from": far}), 0),
        (json!({"until": 1_000_000}), 0),
        (json!({"from": 1_000_000}), 1),
        (json!({"from": 1_000_000, "until": far}), 1),
    ] {
        let rules = with(1, |rules| rules["pdrs"][1]["period"] = period.clone());
        upf.establish(1, rules);
        upf.rig.send(1, &[downlink(1, b"down")]);
        assert_eq!(radio(&mut upf.rig).len(), passes, "{period}");
        upf.remove(1);
    }
}

#[test]
fn sessions_share_the_rate_of_a_correlation_id() {
    let mut upf = Upf::new();
    // 800 kbit/s are 100 octets in a millisecond.
    let rules = |n: u8, correlation: u64| {
        with(n, |rules| {
            rules["qers"][0] =
                json!({"id": 1, "correlation": correlation, "maximum": {"downlink": 800}});
        })
    };
    upf.establish(1, rules(1, 0xfeed_0001));
    upf.establish(2, rules(2, 0xfeed_0001));
    upf.establish(3, rules(3, 0xfeed_0002));
    let mut passed = [0; 3];
    for _ in 0..1_000 {
        let frames: Vec<_> = (1..=3).map(|n| downlink(n, &[7; 72])).collect();
        upf.rig.send(1, &frames);
        for (teid, ..) in radio(&mut upf.rig) {
            passed[(teid - 0x2001) as usize] += 1;
        }
        upf.rig.advance(1_000_000);
    }
    // A second of the rate, and the burst of 100 ms.
    let shared = passed[0] + passed[1];
    assert!((990..=1_110).contains(&shared), "{passed:?}");
    assert!((990..=1_000).contains(&passed[2]), "{passed:?}");
}

#[test]
fn what_is_guaranteed_passes_an_aggregate_that_is_used_up() {
    let mut upf = Upf::new();
    let rules = with(1, |rules| {
        rules["pdrs"][1]["qers"] = json!([1, 2]);
        rules["qers"] = json!([
            // 400 kbit/s: 50 octets in a millisecond.
            {"id": 1, "guaranteed": {"downlink": 400}, "maximum": {"downlink": 400}},
            {"id": 2, "maximum": {"downlink": 40}},
        ]);
    });
    upf.establish(1, rules);
    let mut passed = 0;
    for _ in 0..2_000 {
        upf.rig.send(1, &[downlink(1, &[7; 72])]);
        passed += upf.rig.receive(0).len();
        upf.rig.advance(1_000_000);
    }
    // Two seconds of the guaranteed rate, and a burst; by the aggregate 200 would pass.
    assert!((990..=1_200).contains(&passed), "{passed}");
}

#[test]
fn downlink_packets_are_marked() {
    let mut upf = Upf::new();
    let rules = with(1, |rules| {
        rules["qers"][0] = json!({"id": 1, "qfi": 9, "marking": 46, "serviceClass": 5});
    });
    upf.establish(1, rules);
    upf.rig.send(1, &[downlink(1, b"down")]);
    let frames = upf.rig.receive(0);
    let message = Message::new_checked(&frames[0][42..]).unwrap();
    let extensions: Vec<_> =
        message.extensions().map(|one| (one.kind, one.content.to_vec())).collect();
    assert_eq!(extensions[0].0, ExtensionType::PDU_SESSION);
    assert_eq!(extensions[1], (ExtensionType::SERVICE_CLASS, vec![5, 0]));
    let inside = ipv4::Packet::new_checked(message.payload()).unwrap();
    assert_eq!(inside.dscp().value(), 46);
    inside.verify_checksum().unwrap();
    // Uplink packets are not.
    upf.rig.send(0, &[uplink(0x1001, [10, 45, 0, 1], b"up")]);
    let frames = upf.rig.receive(1);
    assert_eq!(ipv4::Packet::new_checked(&frames[0][14..]).unwrap().dscp().value(), 0);
}

/// A TCP segment of user 1 in its tunnel.
fn segment(flags: Flags, sequence: u32, acknowledgment: u32, payload: &[u8]) -> Vec<u8> {
    let (source, destination) = ([10, 45, 0, 1].into(), HOST.into());
    let length = tcp::MIN_HEADER_LENGTH + payload.len();
    let ip = ipv4::Repr {
        source,
        destination,
        protocol: Protocol::TCP,
        payload_length: length as u16,
        ..Default::default()
    };
    let mut bytes = vec![0; 20 + length];
    ip.emit(&mut bytes).unwrap();
    let head = tcp::Repr {
        source_port: 40_000,
        destination_port: 80,
        sequence,
        acknowledgment,
        flags,
        window: 1000,
        ..Default::default()
    };
    head.emit(&mut bytes[20..]).unwrap();
    bytes[40..].copy_from_slice(payload);
    let mut whole = Segment::new_checked(&mut bytes[20..]).unwrap();
    whole.fill_checksum(&PseudoHeader::V4 { source, destination });
    tunnelled(0x1001, &bytes)
}

/// The segments that left to user 1: flags, sequence and acknowledgment number, text.
fn answers(upf: &mut Upf) -> Vec<(Flags, u32, u32, String)> {
    let read = |frame: &Vec<u8>| {
        let message = Message::new_checked(&frame[42..]).unwrap();
        assert_eq!(message.teid().0, 0x2001);
        let ip = ipv4::Packet::new_checked(message.payload()).unwrap();
        ip.verify_checksum().unwrap();
        assert_eq!((ip.source(), ip.destination()), (HOST.into(), [10, 45, 0, 1].into()));
        let segment = Segment::new_checked(ip.payload()).unwrap();
        segment.verify_checksum(&ip.pseudo_header()).unwrap();
        assert_eq!((segment.source_port(), segment.destination_port()), (80, 40_000));
        let text = String::from_utf8_lossy(segment.payload()).into_owned();
        (segment.flags(), segment.sequence(), segment.acknowledgment(), text)
    };
    upf.rig.receive(0).iter().map(read).collect()
}

fn redirecting() -> Upf {
    let mut upf = Upf::new();
    upf.establish(
        1,
        with(1, |rules| {
            rules["fars"][0]["forward"]["redirect"] = json!("http://portal.example/a?b=c");
        }),
    );
    upf
}

#[test]
fn http_is_sent_elsewhere() {
    let mut upf = redirecting();
    let (syn, ack, fin, rst) = (Flags::SYN, Flags::ACK, Flags::FIN, Flags::RST);
    upf.rig.send(0, &[segment(syn, 1000, 0, b"")]);
    let found = answers(&mut upf);
    let [(flags, first, acknowledged, _)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((*flags, *acknowledged), (syn | ack, 1001));
    let next = first.wrapping_add(1);
    upf.rig.send(0, &[segment(ack, 1001, next, b"")]);
    assert!(answers(&mut upf).is_empty());
    let request = b"GET /news HTTP/1.1\r\nHost: news.example\r\n";
    // The request in two segments, the first of them twice.
    for _ in 0..2 {
        upf.rig.send(0, &[segment(ack, 1001, next, request)]);
        let found = answers(&mut upf);
        let [(flags, sequence, acknowledged, text)] = &found[..] else { panic!("{found:?}") };
        assert_eq!((*flags, *sequence), (fin | Flags::PSH | ack, next));
        assert_eq!(*acknowledged, 1001 + request.len() as u32);
        assert!(text.starts_with("HTTP/1.1 302 Found\r\n"), "{text}");
        assert!(text.contains("\r\nLocation: http://portal.example/a?b=c\r\n"), "{text}");
        assert!(text.ends_with("\r\n\r\n"), "{text}");
    }
    let second = 1001 + request.len() as u32;
    upf.rig.send(0, &[segment(ack, second, next, b"Accept: */*\r\n\r\n")]);
    assert_eq!(answers(&mut upf), [(ack, next, second + 15, String::new())]);
    // The user's end of the connection, and one that gives up.
    upf.rig.send(0, &[segment(fin | ack, second + 15, next + 200, b"")]);
    assert_eq!(answers(&mut upf), [(ack, next + 200, second + 16, String::new())]);
    upf.rig.send(0, &[segment(rst, second + 16, 0, b"")]);
    assert!(answers(&mut upf).is_empty());
    assert_eq!(upf.rig.drops("redirected"), 7);
    assert!(upf.rig.receive(1).is_empty(), "nothing goes further");
}

#[test]
fn what_is_no_http_is_not_answered_with_a_url() {
    let mut upf = redirecting();
    // UDP.
    upf.rig.send(0, &[uplink(0x1001, [10, 45, 0, 1], b"up")]);
    assert_eq!(upf.rig.drops("not_http"), 1);
    // TLS, and data of a connection that nothing is known of.
    for payload in [&b"\x16\x03\x01\x02\x00"[..], b"SSH-2.0-", b"G"] {
        upf.rig.send(0, &[segment(Flags::ACK, 77, 99, payload)]);
        let found = answers(&mut upf);
        assert_eq!(found.len(), 1);
        assert!(found[0].0.contains(Flags::RST) && found[0].3.is_empty(), "{found:?}");
    }
    // A wrong checksum, a SYN of a server, a segment without an acknowledgment.
    let mut wrong = segment(Flags::SYN, 1000, 0, b"");
    let last = wrong.len() - 1;
    wrong[last] ^= 1;
    let server = segment(Flags::SYN | Flags::ACK, 1000, 0, b"");
    upf.rig.send(0, &[wrong, server, segment(Flags::FIN, 1000, 0, b"GET / HTTP/1.0\r\n\r\n")]);
    assert!(answers(&mut upf).is_empty());
    assert_eq!(upf.rig.drops("not_http"), 2);
    assert!(upf.rig.receive(1).is_empty());
}
