//! Whatever a wire does on purpose, the receiver finds exactly that.

use std::time::Duration;

use crate::common::*;
use proptest::prelude::*;
use weft_dpdk::tsc;
use weft_traffic::{Done, Harm, Load, Rate, Receiver, Selection, Source, Stream, Template, Wire};

const PACKETS: u64 = 3000;

/// What was sent, what the wire did and what the receiver found.
struct Outcome {
    source: Source,
    done: Done,
    receiver: Receiver,
}

/// Sends packets of `users` through a wire, in one thread, so that no queue is
/// ever full.
fn run(name: &str, harm: Harm, users: u32, seed: u64) -> Outcome {
    let (pool, near, middle) = ends(&format!("{name}-before"), 4096);
    let (_, after, far) = ends(&format!("{name}-behind"), 4096);
    let (mut near_tx, mut middle_rx) = (tx(&near), rx(&middle));
    let (mut after_tx, mut far_rx) = (tx(&after), rx(&far));
    let template = Template::new(STREAM, endpoints());
    let mut load = Load::constant(template, users, Rate::Unlimited);
    load.seed = seed;
    load.shares[0].selection = Selection::Random;
    let mut source = Source::of(&load).unwrap();
    let mut receiver = receiver(users);
    let mut wire = Wire::new(harm, seed);
    send(&mut source, &mut near_tx, &pool, PACKETS, || {
        wire.carry(&mut middle_rx, &mut after_tx, &pool);
        while receiver.receive(&mut far_rx) > 0 {}
    });
    while wire.carry(&mut middle_rx, &mut after_tx, &pool) > 0 {}
    while wire.finish(&mut after_tx) > 0 {}
    while receiver.receive(&mut far_rx) > 0 {}
    assert_eq!((middle.statistics().rx_missed, far.statistics().rx_missed), (0, 0));
    assert_eq!(pool.available(), pool.size());
    Outcome { source, done: wire.done().clone(), receiver }
}

fn check(Outcome { source, done, receiver }: &Outcome) {
    let (sent, stream) = (&source.streams()[0], &receiver.streams()[0]);
    assert_eq!((done.carried, done.refused), (sent.sent, 0));
    assert_eq!(stream.lost(sent.sent), done.lost + done.damaged);
    assert_eq!(receiver.damaged(), done.damaged);
    assert_eq!(stream.duplicated, done.duplicated);
    assert_eq!((stream.reordered, stream.extents_unknown), (done.reordered(), 0));
    for (extent, count) in done.extents.iter().enumerate() {
        assert_eq!(stream.extents.count_at(extent as u64), *count, "extent {extent}");
    }
    let sum = |field: fn(&weft_traffic::Flow) -> u64| stream.flows().iter().map(field).sum::<u64>();
    assert_eq!(stream.received, sum(|flow| flow.received));
    assert_eq!(stream.duplicated, sum(|flow| flow.duplicated));
    assert_eq!(stream.reordered, sum(|flow| flow.reordered));
    let lost = stream.flows().iter().zip(&sent.flows).map(|(flow, sent)| flow.lost(*sent));
    assert_eq!(lost.sum::<u64>(), done.lost + done.damaged);
    let longest = done.extents.iter().rposition(|count| *count > 0).unwrap_or(0);
    let largest = stream.flows().iter().map(|flow| flow.extent).max();
    assert_eq!(largest, Some(longest as u64));
    assert_eq!((stream.misaddressed, receiver.foreign()), (0, 0));
    let density = stream.density().unwrap();
    assert_eq!(density.counts.values().sum::<u64>() + density.beyond, stream.received);
    if done.lost + done.damaged == 0 {
        check_density(stream, &done.extents);
    }
}

/// Where nothing is lost, a packet that was held back while others of its flow passed is
/// as many places late, and each of the others one early. A loss among them moves their
/// places.
fn check_density(stream: &Stream, extents: &[u64]) {
    let density = stream.density().unwrap();
    let late: u64 = extents.iter().sum();
    let early: u64 = (0..).zip(extents).map(|(extent, count): (u64, _)| extent * count).sum();
    if extents.iter().rposition(|count| *count > 0).unwrap_or(0) > density.threshold {
        return;
    }
    let at = |displacement: i32| density.counts.get(&displacement).copied().unwrap_or(0);
    for (extent, count) in (1..).zip(extents.iter().skip(1)) {
        assert_eq!(at(extent), *count, "{extent} places late");
    }
    assert_eq!((at(-1), at(0)), (early, stream.received - late - early));
    assert_eq!(density.beyond, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn harm_is_found_exactly(
        loss in 0.0..0.3_f64,
        damage in 0.0..0.1_f64,
        duplication in 0.0..0.3_f64,
        reordering in 0.0..0.3_f64,
        extent in 0..40_u32,
        users in 1..50_u32,
        seed: u64,
    ) {
        let delay = Duration::ZERO;
        let harm = Harm { loss, damage, duplication, reordering, extent, delay };
        check(&run("random", harm, users, seed));
    }
}

#[test]
fn each_kind_of_harm_is_done_and_found() {
    let kinds = [
        Harm { loss: 0.05, ..Harm::default() },
        Harm { damage: 0.05, ..Harm::default() },
        Harm { duplication: 0.05, ..Harm::default() },
        Harm { reordering: 0.05, extent: 1000, ..Harm::default() },
        Harm { reordering: 0.05, extent: 20, ..Harm::default() },
    ];
    for harm in kinds {
        let outcome = run("kinds", harm, 3, 1);
        check(&outcome);
        let Done { lost, damaged, duplicated, .. } = outcome.done;
        let all = lost + damaged + duplicated + outcome.done.reordered();
        // A flow with a packet held back has no other held back.
        let least = if harm.extent > 0 { 3 } else { 100 };
        assert!((least..200).contains(&all), "{harm:?}: {all}");
    }
}

#[test]
fn no_packet_is_faster_than_the_wire() {
    let delay = Duration::from_micros(300);
    let outcome = run("slow", Harm { delay, ..Harm::default() }, 5, 1);
    check(&outcome);
    let delays = &outcome.receiver.streams()[0].delays;
    assert!(delays.min() >= 299_000, "{} ns", delays.min());
}

#[test]
fn a_known_delay_is_found_to_the_digits_of_the_histogram() {
    let (pool, near, far) = ends("known", 1024);
    let (mut tx, mut rx) = (tx(&near), rx(&far));
    let template = Template::new(STREAM, endpoints());
    let mut source = Source::of(&Load::constant(template, 1, Rate::Unlimited)).unwrap();
    let mut frames = Vec::new();
    source.send(&mut tx, &pool);
    receiver(1).receive_and(&mut rx, |_, frame| frames.push(frame.to_vec()));
    for microseconds in [0, 1, 17, 250, 4_000, 1_000_000] {
        let mut receiver = receiver(1);
        let known = Duration::from_micros(microseconds);
        for frame in &frames {
            // Where the stamp has the time: behind Ethernet, IPv4, UDP and ten octets.
            let sent = u64::from_be_bytes(frame[52..60].try_into().unwrap());
            let cycles = known.as_secs_f64() * tsc::hz() as f64;
            receiver.take(frame, sent + cycles.round() as u64);
        }
        let delays = &receiver.streams()[0].delays;
        assert_eq!(delays.len(), frames.len() as u64);
        let (least, most, known) = (delays.min(), delays.max(), known.as_nanos() as u64);
        let tolerance = known / 1000 + 1;
        assert!(known.abs_diff(least) <= tolerance && known.abs_diff(most) <= tolerance);
    }
}
