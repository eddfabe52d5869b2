//! Ports without a kernel: memory rings and the null device.

use crate::common::{eal, open, pool, queues, send, waiting};
use weft_dpdk::{Batch, Pool, Port, PortOptions};

/// Both ends of the memory ring `name`.
fn ends(name: &str, options: &PortOptions, pool: &Pool) -> (Port, Port) {
    let device = format!("ring:{name}");
    let open = || Port::open(eal(), &device, options, pool).expect("an end is free");
    (open(), open())
}

#[test]
fn a_memory_ring_carries_packets_both_ways() {
    let pool = pool(1023);
    let (a, b) = ends("both", &PortOptions::default(), &pool);
    let ((mut a_rx, mut a_tx), (mut b_rx, mut b_tx)) = (queues(&a), queues(&b));
    send(&mut a_tx, &pool, &[1; 60]);
    send(&mut a_tx, &pool, &[2; 61]);
    send(&mut b_tx, &pool, &[3; 62]);
    assert_eq!(waiting(&mut b_rx), [vec![1; 60], vec![2; 61]]);
    assert_eq!(waiting(&mut a_rx), [vec![3; 62]]);
    let (counted_a, counted_b) = (a.statistics(), b.statistics());
    assert_eq!((counted_a.tx_packets, counted_a.rx_packets), (2, 1));
    assert_eq!((counted_b.tx_packets, counted_b.rx_packets), (1, 2));
    drop((a, a_rx, a_tx, b, b_rx, b_tx));
    assert_eq!(pool.available(), 1023);
}

#[test]
fn metadata_travel_with_a_packet() {
    let pool = pool(63);
    let (a, b) = ends("metadata", &PortOptions::default(), &pool);
    let mut packet = pool.packet(&[0; 60]).unwrap();
    packet.metadata_as_mut::<[u64; 8]>()[4] = 7;
    let mut batch = Batch::new();
    batch.push(packet).unwrap();
    a.take_tx(0).unwrap().transmit(&mut batch);
    b.take_rx(0).unwrap().receive(&mut batch, 32);
    assert_eq!(batch[0].metadata_as::<[u64; 8]>()[4], 7);
}

#[test]
fn the_queues_of_a_memory_ring_are_apart() {
    let pool = pool(1023);
    let options = PortOptions { rx_queues: 2, tx_queues: 2, ..Default::default() };
    let (a, b) = ends("two", &options, &pool);
    assert_eq!((a.rx_queues(), a.tx_queues(), b.rx_queues(), b.tx_queues()), (2, 2, 2, 2));
    assert!(a.take_rx(2).is_none());
    let mut from: Vec<_> = (0..2).map(|queue| a.take_tx(queue).unwrap()).collect();
    let mut to: Vec<_> = (0..2).map(|queue| b.take_rx(queue).unwrap()).collect();
    assert!(a.take_tx(1).is_none(), "a queue has one owner");
    for round in 0..10 {
        for (queue, tx) in (0..).zip(&mut from) {
            send(tx, &pool, &[queue, round]);
        }
    }
    for (queue, rx) in (0..).zip(&mut to) {
        let expected: Vec<_> = (0..10).map(|round| vec![queue, round]).collect();
        assert_eq!(waiting(rx), expected);
    }
    assert_eq!((a.statistics().tx_packets, b.statistics().rx_packets), (20, 20));
}

#[test]
fn a_full_receive_queue_drops_and_counts() {
    let pool = pool(255);
    let options = PortOptions { descriptors: 31, ..Default::default() };
    let (a, b) = ends("full", &options, &pool);
    let mut batch = Batch::new();
    assert!(pool.allocate_bulk(&mut batch, 40));
    assert_eq!(a.take_tx(0).unwrap().transmit(&mut batch), 40);
    assert!(batch.is_empty());
    assert_eq!(pool.available(), 255 - 31);
    assert_eq!(b.statistics().rx_missed, 9);
    // The sender has sent them all.
    let counted = a.statistics();
    assert_eq!((counted.tx_packets, counted.tx_errors, counted.rx_missed), (40, 0, 0));
}

#[test]
fn a_memory_ring_without_other_end_is_down() {
    let pool = pool(255);
    let (a, b) = ends("unplugged", &PortOptions::default(), &pool);
    let (mut rx, mut tx) = queues(&a);
    assert!(a.link().up && b.link().up);
    send(&mut tx, &pool, &[1]);
    drop(b);
    assert_eq!(pool.available(), 255, "what the other end did not receive is free");
    assert!(!a.link().up);
    send(&mut tx, &pool, &[2]);
    assert_eq!(a.statistics().tx_errors, 1);

    let b = open("ring:unplugged", &pool);
    assert!(a.link().up && b.link().up);
    send(&mut tx, &pool, &[3]);
    let (mut b_rx, mut b_tx) = queues(&b);
    assert_eq!(waiting(&mut b_rx), [[3]], "what was sent before is gone");
    send(&mut b_tx, &pool, &[4]);
    assert_eq!(waiting(&mut rx), [[4]]);
}

#[test]
fn a_null_device_delivers_without_end() {
    let pool = pool(255);
    let port = open("net_null7,size=64", &pool);
    let (mut rx, mut tx) = queues(&port);
    let mut batch = Batch::new();
    for _ in 0..100 {
        assert_eq!(rx.receive(&mut batch, 32), 32);
        assert!(batch.iter().all(|packet| packet.len() == 64));
        assert_eq!(tx.transmit(&mut batch), 32);
    }
    let counted = port.statistics();
    assert_eq!((counted.rx_packets, counted.tx_packets), (3200, 3200));
}

#[test]
fn an_exhausted_pool_receives_nothing_and_recovers() {
    let pool = pool(63);
    let port = open("net_null8,size=64", &pool);
    let (mut rx, _) = queues(&port);
    let mut held = Batch::new();
    assert!(pool.allocate_bulk(&mut held, 63));
    assert!(pool.allocate().is_none());
    assert!(pool.packet(&[0; 60]).is_none());
    let mut batch = Batch::new();
    assert!(!pool.allocate_bulk(&mut batch, 1));
    assert!(held[0].duplicate(&pool).is_none());
    assert_eq!(rx.receive(&mut batch, 32), 0);
    held.clear();
    assert_eq!(rx.receive(&mut batch, 32), 32);
    batch.clear();
    assert_eq!(pool.available(), 63);
}
