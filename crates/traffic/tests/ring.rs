//! Source and receiver over a pair of memory rings, with a wire between them
//! that does known harm.

use std::net::IpAddr;

use weft_dpdk::{Batch, Eal, EalOptions, Pool, Port, PortOptions, RxQueue, TxQueue};
use weft_traffic::{Direction, Endpoints, Expected, Receiver, Source, Template};

const STREAM: u16 = 7;
/// Packets per second; what is due is given up while a test is held up.
const RATE: u64 = 200_000;

fn eal() -> &'static Eal {
    let options = EalOptions { memory_megabytes: 160, huge_pages: false, ..Default::default() };
    Eal::start(&options).expect("the environment starts")
}

/// A pool and both ends of the memory ring `name`.
fn ends(name: &str, descriptors: u16) -> (Pool, Port, Port) {
    let pool = Pool::new(eal(), "traffic", 4095).expect("there is memory for the pool");
    let options = PortOptions { descriptors, ..Default::default() };
    let device = format!("ring:{name}");
    let open = || Port::open(eal(), &device, &options, &pool).expect("an end is free");
    let (near, far) = (open(), open());
    (pool, near, far)
}

fn tx(port: &Port) -> TxQueue {
    port.take_tx(0).expect("a transmit queue")
}

fn rx(port: &Port) -> RxQueue {
    port.take_rx(0).expect("a receive queue")
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn endpoints() -> Endpoints {
    Endpoints {
        direction: Direction::Downlink,
        first_user: address("10.0.0.1"),
        peer: address("192.0.2.1"),
    }
}

fn receiver(users: u32) -> Receiver {
    Receiver::new([Expected::of(&Template::new(STREAM, endpoints()), users)])
}

/// Sends at least `count` packets; `between` runs between bursts.
fn send(source: &mut Source, tx: &mut TxQueue, pool: &Pool, count: u64, mut between: impl FnMut()) {
    while source.tally().sent < count {
        source.send(tx, pool);
        between();
    }
}

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
fn harm_on_the_way_is_found_exactly() {
    let (pool, near, middle) = ends("before", 1024);
    let (_, after, far) = ends("behind", 1024);
    let (mut near_tx, mut middle_rx) = (tx(&near), rx(&middle));
    let (mut after_tx, mut far_rx) = (tx(&after), rx(&far));
    let mut source = Source::new(&Template::new(STREAM, endpoints()), &[1; 10], RATE).unwrap();
    let mut receiver = receiver(10);
    let mut wire = Wire::default();
    send(&mut source, &mut near_tx, &pool, 20_000, || {
        let mut batch = Batch::new();
        middle_rx.receive(&mut batch, 32);
        wire.pass(&mut batch, &pool, &mut after_tx);
        while receiver.receive(&mut far_rx) > 0 {}
    });
    let mut rest = Batch::new();
    while middle_rx.receive(&mut rest, 32) > 0 {
        wire.pass(&mut rest, &pool, &mut after_tx);
        while receiver.receive(&mut far_rx) > 0 {}
    }

    let stream = &receiver.streams()[0];
    assert!(wire.lost > 0 && wire.copied > 0 && wire.swapped > 0 && wire.damaged > 0, "{wire:?}");
    assert_eq!(source.tally().sent, stream.received + wire.lost + wire.damaged);
    assert_eq!(stream.duplicated, wire.copied);
    assert_eq!(stream.reordered, wire.swapped);
    assert_eq!(receiver.damaged(), wire.damaged);
    assert_eq!(stream.misaddressed, 0);
    let flows = stream.flows();
    assert_eq!(flows.iter().map(|flow| flow.reordered).sum::<u64>(), wire.swapped);
    assert_eq!(flows.iter().map(|flow| flow.duplicated).sum::<u64>(), wire.copied);
}

/// A wire that counts the harm it does.
#[derive(Debug, Default)]
struct Wire {
    packets: u64,
    lost: u64,
    copied: u64,
    swapped: u64,
    damaged: u64,
    /// A packet held back until the next of its user has passed.
    held: Option<weft_dpdk::Packet>,
}

impl Wire {
    /// Of every hundred packets one is lost, one copied, one damaged, and one
    /// waits for its user's next, which is ten packets on.
    fn pass(&mut self, batch: &mut Batch, pool: &Pool, tx: &mut TxQueue) {
        let mut out = Batch::new();
        for mut packet in batch.drain() {
            self.packets += 1;
            match self.packets % 100 {
                10 => {
                    self.lost += 1;
                    continue;
                }
                20 => {
                    self.copied += 1;
                    out.push(packet.duplicate(pool).expect("a packet is free")).unwrap();
                }
                31 => {
                    self.damaged += 1;
                    packet.data_mut()[100] ^= 1;
                }
                40 => {
                    self.held = Some(packet);
                    continue;
                }
                _ => {}
            }
            out.push(packet).unwrap();
            if self.packets % 100 == 50
                && let Some(held) = self.held.take()
            {
                self.swapped += 1;
                out.push(held).unwrap();
            }
        }
        tx.transmit(&mut out);
    }
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
fn nothing_is_allocated_while_it_runs() {
    let (pool, near, far) = ends("frugal", 1024);
    let (mut tx, mut rx) = (tx(&near), rx(&far));
    let mut source = Source::new(&Template::new(STREAM, endpoints()), &[1; 100], RATE).unwrap();
    let mut receiver = receiver(100);
    let run = || {
        send(&mut source, &mut tx, &pool, 5000, || {
            receiver.receive(&mut rx);
        });
    };
    assert_eq!(allocation_counter::measure(run).count_total, 0);
    assert!(receiver.streams()[0].received > 0);
}
