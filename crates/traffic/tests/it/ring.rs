//! Source and receiver over a pair of memory rings.

use crate::common::*;
use weft_traffic::{
    Arrivals, Captured, CapturedShare, Endpoints, Expected, Load, Rate, Receiver, Selection, Share,
    Sizes, Source, Template,
};
use weft_wire::ipv4;

/// Packets per second; what is due is given up while a test is held up.
const RATE: u64 = 200_000;

#[test]
fn what_is_sent_arrives_once_and_in_order() {
    let (pool, near, far) = ends("whole", 1024);
    let (mut tx, mut rx) = (tx(&near), rx(&far));
    let weights = [1, 1, 4, 0, 2];
    let mut source = Source::new(&Template::new(STREAM, endpoints()), &weights, RATE).unwrap();
    let mut receiver = receiver(5);
    send(&mut source, &mut tx, &pool, 20_000, || {
        receiver.receive(&mut rx);
    });
    while receiver.receive(&mut rx) > 0 {}

    let stream = &receiver.streams()[0];
    let sent = source.tally().sent;
    assert_eq!(stream.received, sent);
    assert_eq!((stream.duplicated, stream.reordered, stream.misaddressed), (0, 0, 0));
    assert_eq!((receiver.damaged(), receiver.foreign()), (0, 0));
    assert_eq!((stream.bytes, stream.delays.len()), (sent * 128, sent));
    let received: Vec<u64> = stream.flows().iter().map(|flow| flow.received).collect();
    assert_eq!(received, source.streams()[0].flows);
    for (flow, weight) in stream.flows().iter().zip(weights) {
        assert!(flow.received.abs_diff(sent * u64::from(weight) / 8) <= 4, "{flow:?}");
    }
    assert_eq!(pool.available(), pool.size());
}

#[test]
fn what_a_full_queue_loses_was_sent() {
    let (pool, near, far) = ends("narrow", 63);
    let mut tx = tx(&near);
    let mut source = Source::new(&Template::new(STREAM, endpoints()), &[1; 3], RATE).unwrap();
    send(&mut source, &mut tx, &pool, 1000, || {});
    let mut receiver = receiver(3);
    let mut rx = rx(&far);
    while receiver.receive(&mut rx) > 0 {}
    assert_eq!(receiver.streams()[0].received, 63);
    assert_eq!(far.statistics().rx_missed, source.tally().sent - 63);
}

#[test]
fn what_a_pool_cannot_give_is_not_sent() {
    let (pool, near, _far) = ends("empty", 1024);
    let mut tx = tx(&near);
    let mut held = Vec::new();
    while let Some(packet) = pool.allocate() {
        held.push(packet);
    }
    let mut source = Source::new(&Template::new(STREAM, endpoints()), &[1], RATE).unwrap();
    while source.tally().unsent() < 100 {
        assert_eq!(source.send(&mut tx, &pool), 0);
    }
    source.finish();
    assert_eq!((source.tally().sent, &source.streams()[0].flows[..]), (0, &[0][..]));
    let before = source.tally();
    assert!(before.no_buffer > 0 && before.refused == 0, "{before:?}");
    assert_eq!(source.send(&mut tx, &pool), 0, "it has ended");
    source.finish();
    assert_eq!(source.tally(), before);
}

#[test]
fn packets_of_no_expected_stream_are_foreign() {
    let (pool, near, far) = ends("foreign", 1024);
    let (mut tx, mut rx) = (tx(&near), rx(&far));
    let others = [Template::new(STREAM + 1, endpoints()), Template::new(STREAM, endpoints())];
    for (template, weights) in others.iter().zip([&[1][..], &[0, 0, 1][..]]) {
        let mut source = Source::new(template, weights, RATE).unwrap();
        send(&mut source, &mut tx, &pool, 100, || {});
    }
    let elsewhere = Endpoints { first_user: address("10.0.0.2"), ..endpoints() };
    let mut source = Source::new(&Template::new(STREAM, elsewhere), &[1, 1], RATE).unwrap();
    send(&mut source, &mut tx, &pool, 100, || {});
    let mut receiver = receiver(2);
    while receiver.receive(&mut rx) > 0 {}
    let stream = &receiver.streams()[0];
    assert_eq!((stream.received, stream.misaddressed), (source.tally().sent, stream.received));
    assert!(receiver.foreign() >= 200);
}

#[test]
fn streams_share_a_source_in_their_ratio() {
    let (pool, near, far) = ends("shares", 1024);
    let (mut tx, mut rx) = (tx(&near), rx(&far));
    let template = |stream| Template { bearers: 2, ..Template::new(stream, endpoints()) };
    let share = |stream, weight| Share {
        template: template(stream),
        users: 10,
        selection: Selection::Zipf(1.0),
        weight,
    };
    let load = Load { shares: vec![share(1, 1), share(2, 3)], ..load(Rate::Unlimited) };
    let mut source = Source::of(&load).unwrap();
    let mut receiver = Receiver::new([1, 2].map(|stream| Expected::of(&template(stream), 10)));
    send(&mut source, &mut tx, &pool, 8000, || {
        receiver.receive(&mut rx);
    });
    for (sent, arrived) in source.streams().iter().zip(receiver.streams()) {
        let flows: Vec<u64> = arrived.flows().iter().map(|flow| flow.received).collect();
        assert_eq!((flows.len(), &flows), (20, &sent.flows));
        assert_eq!((arrived.misaddressed, arrived.lost(sent.sent)), (0, 0));
    }
    let [first, second] = [0, 1].map(|nth| receiver.streams()[nth].received);
    assert_eq!((first * 3, first + second), (second, source.tally().sent));
}

/// Packets of ten users as a capture would have them, every third without room for a
/// stamp.
fn capture(name: &str) -> Vec<Vec<u8>> {
    let (pool, near, far) = ends(name, 1024);
    let (mut tx, mut rx) = (tx(&near), rx(&far));
    let mut made = load(Rate::Unlimited);
    made.shares[0].users = 10;
    made.shares[0].template.sizes = Sizes::Imix;
    let mut source = Source::of(&made).unwrap();
    let (mut frames, mut receiver) = (Vec::new(), receiver(10));
    send(&mut source, &mut tx, &pool, 30, || {
        receiver.receive_and(&mut rx, |_, frame| frames.push(frame.to_vec()));
    });
    frames.truncate(30);
    // Another protocol than UDP: experimental (RFC 3692).
    for frame in frames.iter_mut().step_by(3) {
        frame[23] = 253;
        ipv4::Packet::new_checked(&mut frame[14..]).unwrap().fill_checksum();
    }
    frames
}

#[test]
fn captured_packets_come_whole_and_in_their_order() {
    let frames = capture("captured-a");
    let packets = Captured::new(frames.clone(), true).unwrap();
    assert_eq!((packets.packets(), packets.flows().len()), ((30, 10), 10));
    let (pool, near, far) = ends("captured-b", 1024);
    let (mut tx, mut rx) = (tx(&near), rx(&far));
    let mut both = load(Rate::Unlimited);
    let captured = CapturedShare { stream: 8, packets: packets.clone(), weight: 2 };
    both.captured = vec![captured];
    let mut source = Source::of(&both).unwrap();
    let made = Expected::of(&both.shares[0].template, 100);
    let mut receiver = Receiver::new([made, packets.expected(8)]);
    receiver.expect(1, packets.flows());
    let mut seen = Vec::new();
    // Thirty bursts of 32.
    send(&mut source, &mut tx, &pool, 960, || {
        receiver.receive_and(&mut rx, |_, frame| seen.push(frame.to_vec()));
    });

    let ([made, captured], sent) = ([0, 1].map(|nth| &receiver.streams()[nth]), source.streams());
    assert_eq!((sent[0].sent * 2, sent[1].stream), (sent[1].sent, 8));
    assert_eq!((made.received, made.duplicated, made.misaddressed), (sent[0].sent, 0, 0));
    // What has no stamp is foreign, and not lost.
    assert_eq!((sent[1].unstamped, receiver.damaged()), (receiver.foreign(), 0));
    assert!(sent[1].unstamped > 200);
    assert_eq!(captured.received, sent[1].sent - sent[1].unstamped);
    assert_eq!((captured.duplicated, captured.reordered, captured.misaddressed), (0, 0, 0));
    let received: Vec<u64> = captured.flows().iter().map(|flow| flow.received).collect();
    assert_eq!(received, sent[1].flows);
    // Of what is not the other stream's: the capture, again and again, but for the 18
    // bytes of the stamp and the checksum before it.
    let own = seen.iter().filter(|frame| frame[42..44] != STREAM.to_be_bytes() || frame[23] == 253);
    let same = |one: &[u8], other: &[u8]| {
        let is_stamped = one[23] == 17;
        let is_changed = |at| is_stamped && (40..60).contains(&at);
        one.len() == other.len() && (0..one.len()).all(|at| is_changed(at) || one[at] == other[at])
    };
    let own: Vec<_> = own.collect();
    assert_eq!(own.len() as u64, sent[1].sent);
    assert!(own.iter().zip(frames.iter().cycle()).all(|(one, other)| same(one, other)));
}

#[test]
fn a_seed_gives_the_same_packets() {
    let run = |name, seed| {
        let (pool, near, far) = ends(name, 1024);
        let (mut tx, mut rx) = (tx(&near), rx(&far));
        let mut load = Load { seed, ..load(Rate::Unlimited) };
        load.shares[0].selection = Selection::Random;
        load.shares[0].template.sizes = Sizes::Imix;
        let mut source = Source::of(&load).unwrap();
        let mut seen = Vec::new();
        let mut receiver = receiver(100);
        send(&mut source, &mut tx, &pool, 1000, || {
            receiver.receive_and(&mut rx, |_, frame| seen.push((frame.len(), frame[33])));
        });
        seen
    };
    assert_eq!(run("seed-a", 5), run("seed-b", 5));
    assert_ne!(run("seed-c", 5), run("seed-d", 6));
}

#[test]
fn arrivals_of_a_flow_are_kept_as_they_came() {
    let (pool, near, far) = ends("line", 1024);
    let (mut tx, mut rx) = (tx(&near), rx(&far));
    let mut source = Source::of(&load(Rate::Unlimited)).unwrap();
    let mut receiver = receiver(100);
    receiver.watch(0, 7, 5);
    send(&mut source, &mut tx, &pool, 1000, || {
        receiver.receive(&mut rx);
    });
    let timeline = &receiver.streams()[0].timelines[0];
    let sequences: Vec<u32> = timeline.seen.iter().map(|seen| seen.sequence).collect();
    assert_eq!(sequences, [0, 1, 2, 3, 4]);
    assert_eq!(timeline.unseen, source.streams()[0].flows[7] - 5);
    assert!(timeline.seen.iter().all(|seen| seen.arrived >= seen.sent));
    assert!(timeline.seen.is_sorted_by_key(|seen| seen.arrived));
}

#[test]
fn nothing_is_allocated_while_it_runs() {
    let (pool, near, far) = ends("frugal", 1024);
    let (mut tx, mut rx) = (tx(&near), rx(&far));
    let selections = [
        Selection::RoundRobin,
        Selection::Random,
        Selection::Zipf(1.0),
        Selection::Weighted(vec![1; 100]),
    ];
    let packets = Captured::new(capture("frugal-capture"), true).unwrap();
    let captured = vec![CapturedShare { stream: 8, packets, weight: 1 }];
    for selection in selections {
        for arrivals in [Arrivals::Constant, Arrivals::Poisson, Arrivals::Burst(8)] {
            let rate = Rate::Link { bits: 1 << 33, share: 0.1 };
            let mut load = Load { arrivals, captured: captured.clone(), ..load(rate) };
            load.shares[0].selection = selection.clone();
            load.shares[0].template.sizes = Sizes::Imix;
            let mut source = Source::of(&load).unwrap();
            let mut receiver = receiver(100);
            receiver.watch(0, 1, 10);
            let run = || {
                send(&mut source, &mut tx, &pool, 500, || {
                    receiver.receive(&mut rx);
                });
            };
            assert_eq!(allocation_counter::measure(run).count_total, 0);
            assert!(receiver.streams()[0].received > 0);
        }
    }
}

/// One stream of 100 users.
fn load(rate: Rate) -> Load {
    Load::constant(Template::new(STREAM, endpoints()), 100, rate)
}
