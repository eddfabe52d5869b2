//! What the tests of this crate share.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod capture;
pub mod network;
pub mod process;

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use weft_dpdk::{Batch, Eal, EalOptions, Pool, Port, PortOptions, RxQueue, TxQueue};

/// The environment of a test process: small, without huge pages.
pub fn eal() -> &'static Eal {
    let options = EalOptions { memory_megabytes: 160, huge_pages: false, ..Default::default() };
    Eal::start(&options).expect("the environment starts")
}

/// A pool of `size` packets.
pub fn pool(size: u32) -> Pool {
    Pool::new(eal(), "test", size).expect("there is memory for the pool")
}

/// Opens `device` with the default options.
pub fn open(device: &str, pool: &Pool) -> Port {
    Port::open(eal(), device, &PortOptions::default(), pool).expect("the device opens")
}

/// The only queue of each direction.
pub fn queues(port: &Port) -> (RxQueue, TxQueue) {
    (port.take_rx(0).expect("a receive queue"), port.take_tx(0).expect("a transmit queue"))
}

/// Sends a packet that holds `bytes`.
pub fn send(tx: &mut TxQueue, pool: &Pool, bytes: &[u8]) {
    let mut batch = Batch::new();
    batch.push(pool.packet(bytes).expect("the pool has a packet")).expect("there is room");
    wait_until("the packet is taken", || {
        tx.transmit(&mut batch);
        batch.is_empty()
    });
}

/// The bytes of all packets that wait in `rx`.
pub fn waiting(rx: &mut RxQueue) -> Vec<Vec<u8>> {
    let mut batch = Batch::new();
    let mut all = Vec::new();
    while rx.receive(&mut batch, 32) > 0 {
        all.extend(batch.drain().map(|packet| packet.data().to_vec()));
    }
    all
}

/// Says on standard error, past the test's own capture, what is not tested
/// because this machine lacks something.
pub fn skipped(test: &str, why: &str) {
    let line = format!("skipped: {test}: {why}\n");
    std::io::stderr().write_all(line.as_bytes()).expect("standard error is open");
}

/// Waits, for as long as a loaded machine may need, until `is_so`.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(30), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A file in the directory for temporary files, removed when dropped.
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// A name that no other test has.
    pub fn new(name: &str) -> Scratch {
        let name = format!("weft-{}-{name}", std::process::id());
        Scratch(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
