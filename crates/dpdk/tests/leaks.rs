//! What is opened and closed leaves nothing behind. Alone in its file, so that
//! no other test uses the environment's memory meanwhile. (The null device is not
//! here: its driver forgets 192 bytes of each queue.)

#[path = "it/common/mod.rs"]
mod common;

use common::{Scratch, capture, eal, open, pool, queues, send};
use weft_dpdk::Ring;

#[test]
fn a_thousand_openings_leave_the_memory_as_it_was() {
    let eal = eal();
    let pool = pool(1023);
    let input = Scratch::new("leaks.pcap");
    std::fs::write(&input.0, capture::of(&vec![vec![1; 60]; 50])).unwrap();
    let endless = format!("net_pcap0,rx_pcap={},infinite_rx=1", input.0.display());
    let once = || {
        let (a, b) = (open("ring:again", &pool), open("ring:again", &pool));
        let (_, mut tx) = queues(&a);
        send(&mut tx, &pool, &[1; 60]);
        drop((b, a, tx));
        drop(open(&endless, &pool));
        drop(Ring::new(eal, "again", 511).expect("there is memory"));
        drop(common::pool(63));
    };
    // What DPDK keeps for good it allocates at the first use.
    once();
    let before = eal.memory();
    for _ in 0..1000 {
        once();
    }
    assert_eq!(eal.memory(), before);
    assert!(before.free_bytes > 0 && before.free_bytes < before.total_bytes);
    assert_eq!(pool.available(), 1023);
}
