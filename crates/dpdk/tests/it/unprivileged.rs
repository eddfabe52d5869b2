//! A node starts and forwards without any privilege and without huge pages.

use crate::common::process::{as_unprivileged, is_root};
use crate::common::{Scratch, capture, eal, open, pool, queues, send, waiting};
use weft_dpdk::Batch;

#[test]
fn packets_pass_without_privileges() {
    as_unprivileged("unprivileged::packets_pass_without_privileges", || {
        assert!(!is_root());
        assert!(!eal().has_huge_pages());
        let pool = pool(1023);
        let ends = [open("ring:any", &pool), open("ring:any", &pool)];
        let ((_, mut tx), (mut rx, _)) = (queues(&ends[0]), queues(&ends[1]));
        send(&mut tx, &pool, &[1; 60]);
        assert_eq!(waiting(&mut rx), [[1; 60]]);

        let null = open("net_null0,size=64", &pool);
        let (mut rx, mut tx) = queues(&null);
        let mut batch = Batch::new();
        assert_eq!(rx.receive(&mut batch, 32), 32);
        assert_eq!(tx.transmit(&mut batch), 32);

        let (input, output) =
            (Scratch::new("unprivileged-in.pcap"), Scratch::new("unprivileged-out.pcap"));
        std::fs::write(&input.0, capture::of(&[vec![5; 100]])).unwrap();
        let files = format!("rx_pcap={},tx_pcap={}", input.0.display(), output.0.display());
        let port = open(&format!("net_pcap0,{files}"), &pool);
        let (mut rx, mut tx) = queues(&port);
        assert_eq!(rx.receive(&mut batch, 32), 1);
        assert_eq!(tx.transmit(&mut batch), 1);
        drop((port, rx, tx));
        assert_eq!(capture::frames(&std::fs::read(&output.0).unwrap()), [[5; 100]]);
    });
}

#[test]
fn starting_again_gives_the_same_environment() {
    let again = weft_dpdk::EalOptions { memory_megabytes: 1 << 20, ..Default::default() };
    assert!(std::ptr::eq(eal(), weft_dpdk::Eal::start(&again).unwrap()));
    assert!(eal().version().starts_with("DPDK 2"));
    assert!(weft_dpdk::tsc::hz() > 100_000_000);
}
