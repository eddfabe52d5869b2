//! Capture files as ports.

use crate::common::{Scratch, capture, open, pool, queues, send, waiting};
use weft_dpdk::{Batch, Pool};

/// Frames of every length that fits, each of its own byte.
fn frames() -> Vec<Vec<u8>> {
    (0..200).map(|n| vec![n as u8; 60 + n * 7]).chain([vec![9; Pool::PACKET_BYTES]]).collect()
}

fn written(name: &str, frames: &[Vec<u8>]) -> Scratch {
    let file = Scratch::new(name);
    std::fs::write(&file.0, capture::of(frames)).expect("the capture is written");
    file
}

#[test]
fn a_capture_is_received_once_and_in_order() {
    let pool = pool(1023);
    let file = written("in.pcap", &frames());
    let port = open(&format!("net_pcap0,rx_pcap={}", file.0.display()), &pool);
    let (mut rx, _) = queues(&port);
    assert_eq!(waiting(&mut rx), frames());
    assert!(waiting(&mut rx).is_empty());
    let counted = port.statistics();
    assert_eq!(counted.rx_packets, 201);
    assert_eq!(counted.rx_bytes, frames().iter().map(|frame| frame.len() as u64).sum::<u64>());
    assert_eq!(counted.rx_errors, 0);
}

#[test]
fn a_capture_is_written() {
    let pool = pool(1023);
    let file = Scratch::new("out.pcap");
    let port = open(&format!("net_pcap1,tx_pcap={}", file.0.display()), &pool);
    let (rx, mut tx) = queues(&port);
    frames().iter().for_each(|frame| send(&mut tx, &pool, frame));
    assert_eq!(port.statistics().tx_packets, 201);
    drop((port, rx, tx));
    assert_eq!(capture::frames(&std::fs::read(&file.0).unwrap()), frames());
    assert_eq!(pool.available(), 1023);
}

#[test]
fn a_capture_goes_through() {
    let pool = pool(1023);
    let (input, output) = (written("through-in.pcap", &frames()), Scratch::new("through-out.pcap"));
    let (rx_file, tx_file) = (input.0.display(), output.0.display());
    let port = open(&format!("net_pcap2,rx_pcap={rx_file},tx_pcap={tx_file}"), &pool);
    let (mut rx, mut tx) = queues(&port);
    let mut batch = Batch::new();
    while rx.receive(&mut batch, 32) > 0 {
        tx.transmit(&mut batch);
        assert!(batch.is_empty());
    }
    drop((port, rx, tx));
    assert_eq!(std::fs::read(&output.0).unwrap().len(), std::fs::read(&input.0).unwrap().len());
    assert_eq!(capture::frames(&std::fs::read(&output.0).unwrap()), frames());
}

#[test]
fn a_capture_is_received_without_end() {
    let pool = pool(1023);
    let frames: Vec<_> = (0..10).map(|n| vec![n; 64]).collect();
    let file = written("endless.pcap", &frames);
    let port = open(&format!("net_pcap3,rx_pcap={},infinite_rx=1", file.0.display()), &pool);
    let (mut rx, tx) = queues(&port);
    let mut batch = Batch::new();
    let mut expected = (0..10).cycle();
    for _ in 0..100 {
        assert_eq!(rx.receive(&mut batch, 32), 32);
        assert!(batch.drain().all(|packet| packet.data()[63] == expected.next().unwrap()));
    }
    drop((port, rx, tx));
    assert_eq!(pool.available(), 1023);
}

#[test]
fn a_frame_that_no_buffer_holds_is_dropped_and_counted() {
    let pool = pool(255);
    let longest = Pool::PACKET_BYTES;
    let frames = [60, longest + 1, 61, 9000, 65535, longest, 62].map(|length| vec![1; length]);
    let file = written("jumbo.pcap", &frames);
    let port = open(&format!("net_pcap4,rx_pcap={}", file.0.display()), &pool);
    let (mut rx, tx) = queues(&port);
    let mut batch = Batch::new();
    assert_eq!(rx.receive(&mut batch, 32), 4);
    let lengths: Vec<_> = batch.iter().map(|packet| packet.data().len()).collect();
    assert_eq!(lengths, [60, 61, longest, 62]);
    assert!(batch.iter().all(|packet| packet.is_linear()));
    let counted = port.statistics();
    assert_eq!((counted.rx_packets, counted.rx_errors), (4, 3));
    drop((batch, port, rx, tx));
    assert_eq!(pool.available(), 255, "every buffer of a long frame is free again");
}

#[test]
fn a_batch_that_holds_packets_keeps_them_when_a_frame_is_dropped() {
    let pool = pool(255);
    let file = written("mixed.pcap", &[vec![2; 3000], vec![3; 60]]);
    let port = open(&format!("net_pcap5,rx_pcap={}", file.0.display()), &pool);
    let (mut rx, _) = queues(&port);
    let mut batch = Batch::new();
    batch.push(pool.packet(&[1; 60]).unwrap()).unwrap();
    assert_eq!(rx.receive(&mut batch, 32), 1);
    let first: Vec<_> = batch.iter().map(|packet| packet.data()[0]).collect();
    assert_eq!(first, [1, 3]);
}

#[test]
fn an_empty_capture_gives_nothing() {
    let pool = pool(255);
    let file = written("empty.pcap", &[]);
    let port = open(&format!("net_pcap6,rx_pcap={}", file.0.display()), &pool);
    let (mut rx, _) = queues(&port);
    assert!(waiting(&mut rx).is_empty());
}
