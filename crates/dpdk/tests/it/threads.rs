//! Packets handed from thread to thread, and devices that come and go meanwhile.

use std::collections::VecDeque;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::common::network::{ip, veth, with_af_xdp};
use crate::common::{Scratch, capture, eal, open, pool, queues};
use proptest::prelude::*;
use weft_dpdk::{Batch, Pool, Ring, RxQueue, TxQueue};

fn numbered(pool: &Pool, number: u64) -> Option<weft_dpdk::Packet> {
    pool.packet(&number.to_be_bytes())
}

fn number(packet: &weft_dpdk::Packet) -> u64 {
    u64::from_be_bytes(packet.data().try_into().expect("a numbered packet"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Sends and receives of any size leave a ring as they leave a queue.
    #[test]
    fn a_ring_is_a_bounded_queue(
        capacity in 1u32..70,
        steps in prop::collection::vec((0usize..=64, 0usize..=64), 0..30),
    ) {
        let pool = pool(255);
        let (mut producer, mut consumer) = Ring::new(eal(), "queue", capacity).unwrap();
        let room = (capacity as usize + 1).next_power_of_two() - 1;
        let mut model = VecDeque::new();
        let mut next = 0..;
        for (send, receive) in steps {
            let mut batch = Batch::new();
            batch.extend(next.by_ref().take(send).map(|n| numbered(&pool, n).unwrap()));
            let sent = send.min(room - model.len());
            let numbers: Vec<_> = batch.iter().map(number).collect();
            prop_assert_eq!(producer.send(&mut batch), sent);
            model.extend(&numbers[..sent]);
            prop_assert_eq!(batch.iter().map(number).collect::<Vec<_>>(), &numbers[sent..]);
            batch.clear();
            prop_assert_eq!(consumer.len(), model.len());

            let received = receive.min(model.len());
            prop_assert_eq!(consumer.receive(&mut batch, receive), received);
            let expected: Vec<_> = model.drain(..received).collect();
            prop_assert_eq!(batch.iter().map(number).collect::<Vec<_>>(), expected);
            prop_assert_eq!(consumer.is_empty(), model.is_empty());
        }
        drop((producer, consumer));
        prop_assert_eq!(pool.available(), 255, "what is left goes back with the ring");
    }
}

#[test]
fn a_ring_keeps_order_between_threads() {
    const PACKETS: u64 = 300_000;
    let pool = pool(1023);
    let (mut producer, mut consumer) = Ring::new(eal(), "order", 127).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let _known = eal().register_thread();
            let mut batch = Batch::new();
            let mut next = 0;
            while next < PACKETS || !batch.is_empty() {
                while next < PACKETS
                    && batch.len() < 32
                    && let Some(packet) = numbered(&pool, next)
                {
                    batch.push(packet).expect("there is room");
                    next += 1;
                }
                if producer.send(&mut batch) == 0 {
                    thread::yield_now();
                }
            }
        });
        let _known = eal().register_thread();
        let mut batch = Batch::new();
        let mut expected = 0;
        while expected < PACKETS {
            if consumer.receive(&mut batch, 32) == 0 {
                thread::yield_now();
            }
            for packet in batch.drain() {
                assert_eq!(number(&packet), expected);
                expected += 1;
            }
        }
        assert!(consumer.is_empty());
    });
    assert_eq!(pool.available(), 1023, "no packet is lost between the caches of two threads");
}

/// All packets of `pool` that this thread can get.
fn obtainable(pool: &Pool) -> u32 {
    let all: Vec<_> = std::iter::from_fn(|| pool.allocate()).collect();
    all.len() as u32
}

#[test]
fn a_registered_thread_caches_packets_until_it_is_forgotten() {
    let pool = pool(1023);
    // More threads, one after the other, than DPDK can know at a time.
    for _ in 0..200 {
        let (cached, ask) = (Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            scope.spawn(|| {
                let known = eal().register_thread();
                drop(eal().register_thread());
                drop(pool.allocate().expect("a packet"));
                cached.wait();
                ask.wait();
                drop(known);
            });
            cached.wait();
            assert!(obtainable(&pool) < 1023, "the other thread has packets in its cache");
            ask.wait();
        });
        assert_eq!(obtainable(&pool), 1023);
    }
}

/// Sends numbered packets around through a memory ring, without a break, while
/// `change` runs; none may be lost or change places.
fn while_forwarding(name: &str, change: impl FnOnce()) {
    let device = format!("ring:{name}");
    let pool = pool(1023);
    let (a, b) = (open(&device, &pool), open(&device, &pool));
    let ((mut a_rx, mut a_tx), (mut b_rx, mut b_tx)) = (queues(&a), queues(&b));
    let done = AtomicBool::new(false);
    let rounds = thread::scope(|scope| {
        let forwarder = scope.spawn(|| {
            let _known = eal().register_thread();
            let mut next = 0;
            while !done.load(Ordering::Relaxed) || next == 0 {
                let mut batch = Batch::new();
                batch.extend((next..next + 32).map(|n| numbered(&pool, n).expect("a packet")));
                pass_on(&mut a_tx, &mut b_rx, &mut batch);
                pass_on(&mut b_tx, &mut a_rx, &mut batch);
                assert!(batch.iter().map(number).eq(next..next + 32));
                next += 32;
            }
            next
        });
        change();
        done.store(true, Ordering::Relaxed);
        forwarder.join().expect("the forwarder does not panic")
    });
    assert_eq!((a.statistics().tx_packets, b.statistics().rx_missed), (rounds, 0));
}

fn pass_on(tx: &mut TxQueue, rx: &mut RxQueue, batch: &mut Batch) {
    assert_eq!(tx.transmit(batch), 32);
    assert_eq!(rx.receive(batch, 32), 32);
}

/// Opens `device`, moves a packet or two, and closes it again.
fn come_and_go(device: &str, pool: &Pool) {
    let port = open(device, pool);
    let (mut rx, mut tx) = queues(&port);
    let mut batch = Batch::new();
    rx.receive(&mut batch, 8);
    batch.push(pool.packet(&[0xff; 60]).expect("a packet")).expect("there is room");
    tx.transmit(&mut batch);
    port.statistics();
    port.link();
}

#[test]
fn memory_devices_come_and_go_while_another_forwards() {
    let pool = pool(4095);
    let (input, output) = (Scratch::new("come.pcap"), Scratch::new("go.pcap"));
    std::fs::write(&input.0, capture::of(&vec![vec![1; 60]; 50])).unwrap();
    let files = format!("rx_pcap={},tx_pcap={}", input.0.display(), output.0.display());
    while_forwarding("busy", || {
        for _ in 0..30 {
            come_and_go("net_null20", &pool);
            come_and_go("ring:fleeting", &pool);
            come_and_go(&format!("net_pcap20,{files}"), &pool);
        }
    });
    assert_eq!(pool.available(), 4095);
}

#[test]
fn interfaces_come_and_go_while_another_forwards() {
    with_af_xdp("threads::interfaces_come_and_go_while_another_forwards", || {
        let pool = pool(16383);
        while_forwarding("busy", || {
            for _ in 0..3 {
                veth("w0", "w1");
                come_and_go("net_tap0,iface=weft0", &pool);
                come_and_go("net_af_packet0,iface=w0", &pool);
                come_and_go("net_af_xdp0,iface=w0", &pool);
                ip("link delete w0");
            }
        });
    });
}

#[test]
fn devices_open_in_many_threads_at_once() {
    let pool = pool(8191);
    thread::scope(|scope| {
        for thread in 0..4 {
            let pool = &pool;
            scope.spawn(move || {
                for _ in 0..50 {
                    come_and_go(&format!("net_null3{thread}"), pool);
                    come_and_go(&format!("ring:thread {thread}"), pool);
                }
            });
        }
    });
    assert_eq!(pool.available(), 8191);
}
