//! What RFC 2507 asks of both ends, section by section.

use serde_json::{Value, json};
use weft_functions::kind;
use weft_wire::pppoe::PppProtocol;

use super::link::{Link, is_full, protocol};
use super::packets::{Kind, Session, Step};
use crate::common::testing::Rig;

/// RFC 2507 §3.3.1 and §3.3.3: the picture of compression slow-start.
#[test]
fn slow_start_is_as_in_the_picture() {
    let picture = "|.|..|....|........|................|..............................";
    let mut link = Link::new();
    let mut session = Session::new(Kind::Udp4, 1);
    for change in 0..2 {
        let ttl = change == 1;
        link.wait(100_000_000);
        let mut sent = || link.send(&session.next(&Step { ttl, ..Step::default() }));
        let drawn = picture.chars().map(|_| if is_full(&sent()) { '|' } else { '.' });
        assert_eq!(drawn.collect::<String>(), picture);
    }
}

/// RFC 2507 §3.3.2: no more than F_MAX_PERIOD compressed headers, and none more than
/// F_MAX_TIME after the last full one. A refresh by time does not double the period.
#[test]
fn headers_are_refreshed_by_number_and_time() {
    let mut link = Link::with(json!({ "maxPeriod": 8 }), json!({}));
    let mut session = Session::new(Kind::Udp4, 1);
    let step = Step::default();
    let full: Vec<_> = (0..40).filter(|_| is_full(&link.send(&session.next(&step)))).collect();
    assert_eq!(full, [0, 2, 5, 10, 19, 28, 37]);

    let mut link = Link::new();
    let mut sent = |link: &mut Link, gap: u64| {
        link.wait(gap);
        is_full(&link.send(&session.next(&step)))
    };
    let gaps = [0, 1, 1, 1, 5_000_000_000 - 1, 1, 1, 5_000_000_001, 1, 1, 1, 1, 1];
    let full: Vec<_> = gaps.iter().map(|gap| sent(&mut link, *gap)).collect();
    // Behind the third full header (two compressed ones: period 4) time is up once.
    let wanted = "|.|..|.|....|";
    let drawn: String = full.iter().map(|full| if *full { '|' } else { '.' }).collect();
    assert_eq!(drawn, wanted);
}

/// RFC 2507 §3.3.2: where a refresh is due and has no room, nothing is compressed.
#[test]
fn a_refresh_that_does_not_fit_holds_compression_up() {
    let mut link = Link::with(json!({ "mtu": 100 }), json!({}));
    let mut session = Session::new(Kind::Udp4, 1);
    let mut kind = |size: usize| {
        let frame = session.next(&Step { advance: size, ..Step::default() });
        protocol(&link.send(&frame))
    };
    assert_eq!(kind(10), Some(PppProtocol::FULL_HEADER));
    assert_eq!(kind(72), Some(PppProtocol::COMPRESSED_NON_TCP));
    assert_eq!(kind(72), None, "a full header is due");
    assert_eq!(kind(10), Some(PppProtocol::FULL_HEADER));
}

/// RFC 2507 §3.3: nothing but TCP is compressed for MIN_WRAP after the start.
#[test]
fn a_compressor_waits_after_its_start() {
    let mut link = Link::between(json!({}), json!({}));
    let mut session = Session::new(Kind::Udp4, 1);
    for (gap, full) in [(0, false), (2_999_999_999, false), (1, true)] {
        link.wait(gap);
        let frame = session.next(&Step::default());
        let sent = link.send(&frame);
        assert_eq!(is_full(&sent), full);
        assert_eq!(link.receive(&sent, false), Some(frame));
        link.compressor.move_to(gap);
    }
    let segment = Session::new(Kind::Tcp4, 1).next(&Step { advance: 10, ..Step::default() });
    assert!(is_full(&Link::between(json!({}), json!({})).send(&segment)), "TCP has no generations");
}

/// RFC 2507 §3.3 and §8: the 64 generations of a context last for MIN_WRAP, whatever
/// flows use it, and another flow begins with the next one.
#[test]
fn generations_do_not_wrap_within_three_seconds() {
    let few = json!({ "nonTcpFlows": 1 });
    let mut link = Link::with(few.clone(), few);
    let mut seen = Vec::new();
    for packet in 0..40_000_u64 {
        link.wait(250_000);
        // The flow changes with each packet, and its header with every other one.
        let mut session = Session::new(Kind::Udp4, packet as u16 % 3);
        let frame = session.next(&Step { ttl: packet % 2 == 1, ..Step::default() });
        let sent = link.send(&frame);
        if is_full(&sent) {
            let now = link.compressor.rig.now;
            let generation = sent[22 + 2] & 0x3f;
            if let Some((before, _)) = seen.last() {
                if generation == *before {
                    continue; // a refresh
                }
                assert_eq!(generation, (before + 1) % 64, "it is not set back");
            }
            let same = seen.iter().rev().find(|(one, _)| *one == generation);
            assert!(same.is_none_or(|(_, then)| now - then >= 3_000_000_000));
            seen.push((generation, now));
        }
    }
    assert!(seen.len() > 64 * 3, "{} generations", seen.len());
}

/// RFC 2507 §14.
#[test]
fn parameters_have_their_bounds() {
    let at = |name: &'static str, config: Value| {
        Rig::new(kind(name).expect("it is there"), config).is_ok()
    };
    for (config, right) in [
        (json!({ "maxTime": 0 }), false),
        (json!({ "maxTime": 1 }), true),
        (json!({ "maxTime": 255 }), true),
        (json!({ "maxTime": 256 }), false),
        (json!({ "maxPeriod": 0 }), false),
        (json!({ "maxPeriod": 65535 }), true),
        (json!({ "maxHeader": 59 }), false),
        (json!({ "maxHeader": 60 }), true),
        (json!({ "maxHeader": 168 }), true),
        (json!({ "maxHeader": 169 }), false),
        (json!({ "tcpFlows": 0, "nonTcpFlows": 0 }), true),
        (json!({ "tcpFlows": 256, "nonTcpFlows": 65536 }), true),
        (json!({ "tcpFlows": 257 }), false),
        (json!({ "nonTcpFlows": 65537 }), false),
    ] {
        assert_eq!(at("ip-header-compressor", config.clone()), right, "{config}");
        if config.get("maxTime").or(config.get("maxPeriod")).is_none() {
            assert_eq!(at("ip-header-decompressor", config.clone()), right, "{config}");
        }
    }
}

/// RFC 2507 §5.2: headers of more than MAX_HEADER octets are not compressed.
#[test]
fn headers_beyond_the_bound_go_as_they_are() {
    let short = json!({ "maxHeader": 60 });
    let mut link = Link::with(short.clone(), short);
    for (kind, full) in [(Kind::Udp6, true), (Kind::Tunnel, false)] {
        let sent = link.send(&Session::new(kind, 1).next(&Step::default()));
        assert_eq!(is_full(&sent), full, "{kind:?}");
    }
}

/// RFC 2507 §7.13 b: a header that is all sent as it is and has nothing behind it
/// that is compressed gains nothing.
#[test]
fn a_fragment_alone_goes_as_it_is() {
    let mut link = Link::new();
    let mut session = Session::new(Kind::Udp4, 1);
    for flags in [0x20, 0x00] {
        let mut frame = session.next(&Step { advance: 40, ..Step::default() });
        frame[20..22].copy_from_slice(&[flags, 5]);
        weft_wire::ipv4::Packet::new_checked(&mut frame[14..]).expect("IPv4").fill_checksum();
        assert_eq!(link.send(&frame), frame);
    }
}

/// RFC 2507 §7.12.1: a segment whose flags are not those that are inferred is not
/// sent by differences, nor is the one behind it by those flags.
#[test]
fn flags_that_are_inferred_are_never_wrong() {
    let mut link = Link::new();
    let mut session = Session::new(Kind::Tcp4, 1);
    let mut flags = |flags: u8| {
        let mut frame = session.next(&Step { advance: 100, ..Step::default() });
        frame[14 + 20 + 13] = flags;
        let sum = weft_wire::checksum::PseudoHeader::V4 {
            source: [10, 0, 0, 1].into(),
            destination: [192, 0, 2, 1].into(),
        };
        weft_wire::tcp::Segment::new_checked(&mut frame[34..]).expect("TCP").fill_checksum(&sum);
        let sent = link.send(&frame);
        assert_eq!(link.receive(&sent, false), Some(frame), "flags {flags:#x}");
        protocol(&sent)
    };
    let delta = Some(PppProtocol::COMPRESSED_TCP);
    assert_eq!(flags(0x10), Some(PppProtocol::FULL_HEADER));
    assert_eq!(flags(0x10), delta);
    for other in [0x11, 0x00, 0x08, 0x01] {
        assert_ne!(flags(other), delta, "{other:#x}");
        assert_ne!(flags(other), delta, "{other:#x}, though the context has them");
        assert_eq!(flags(0x18), delta, "behind {other:#x}");
    }
    assert_eq!(flags(0x02), None);
    assert_eq!(flags(0x14), None);
}

/// RFC 2507 §3.1 and §3.2: what TCP sends again goes with all headers.
#[test]
fn retransmissions_go_with_full_headers() {
    let mut link = Link::new();
    let mut session = Session::new(Kind::Tcp4, 1);
    let step = Step { advance: 100, ..Step::default() };
    (0..40).for_each(|_| drop(link.send(&session.next(&step))));
    assert!(is_full(&link.send(&session.next(&Step { back: true, ..step }))));
}

/// RFC 2507 §10.2: one request is for all contexts that are lost, and requests are
/// not too many.
#[test]
fn contexts_are_asked_for_together() {
    let mut link = Link::new();
    let mut sessions: Vec<_> = (0..4).map(|port| Session::new(Kind::Tcp6, port)).collect();
    let step = Step { advance: 100, ..Step::default() };
    let mut requests = Vec::new();
    for round in 0..4 {
        for session in &mut sessions {
            link.wait(if round == 3 { 4_000_000 } else { 100_000 });
            let sent = link.send(&session.next(&step));
            // The second segment of each is lost.
            if round != 1 {
                let made = link.decompressor.take(&sent);
                requests.extend(made.emitted.iter().map(|frame| frame[22..].to_vec()));
            }
        }
    }
    // The first at once, all that were lost since then with the next, 10 ms later.
    assert_eq!(requests, [vec![3, 1, 0], vec![3, 4, 0, 1, 2, 3]]);
}

/// RFC 2507 §11.2: segments that are lost, overtaken or doubled show by their
/// numbers, whatever their checksums say.
#[test]
fn packet_numbers_show_every_loss() {
    let numbers = json!({ "packetNumbers": true });
    for kind in [Kind::Tcp4, Kind::Tcp6] {
        let mut link = Link::with(numbers.clone(), numbers.clone());
        let mut session = Session::new(kind, 1);
        let mut next = |link: &mut Link, step: Step| {
            let frame = session.next(&step);
            (link.send(&frame), frame)
        };
        let plain = || Step { advance: 100, ..Step::default() };
        let (sent, frame) = next(&mut link, plain());
        assert_eq!(
            (sent[22 + if kind == Kind::Tcp4 { 2 } else { 4 }], is_full(&sent)),
            (1, true),
            "LSB"
        );
        assert_eq!(link.receive(&sent, false), Some(frame));
        let (sent, frame) = next(&mut link, plain());
        assert_eq!(sent[26..28], [0, 2], "behind the checksum");
        assert_eq!(link.receive(&sent, false), Some(frame));
        assert_eq!(link.receive(&sent, false), None, "it comes twice");
        // An identification alone is lost: no checksum would show it.
        next(&mut link, Step { skip: 5, ..Step::default() });
        let (sent, _) = next(&mut link, plain());
        assert_eq!(protocol(&sent), Some(PppProtocol::COMPRESSED_TCP));
        assert_eq!(link.receive(&sent, false), None);
        let (sent, frame) = next(&mut link, plain());
        assert!(is_full(&sent), "it was asked for");
        assert_eq!(link.receive(&sent, false), Some(frame));
        let (sent, frame) = next(&mut link, plain());
        assert_eq!(link.receive(&sent, false), Some(frame));
    }
}

/// RFC 2507 §11.2: zero is skipped.
#[test]
fn packet_numbers_wrap_over_zero() {
    let numbers = json!({ "packetNumbers": true });
    let mut link = Link::with(numbers.clone(), numbers);
    let mut session = Session::new(Kind::Tcp6, 1);
    for number in 1..=66_000_u32 {
        let frame = session.next(&Step { advance: 1, ..Step::default() });
        let sent = link.send(&frame);
        if number > 1 {
            let found = u16::from_be_bytes([sent[26], sent[27]]);
            assert_eq!(u32::from(found), (number - 1) % 65_535 + 1);
        }
        assert_eq!(link.receive(&sent, false), Some(frame), "segment {number}");
    }
}
