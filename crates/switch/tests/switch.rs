//! A switch with virtual functions that this test has, in one process: who gets what, how
//! much of it, and where every frame is counted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use weft_dpdk::{Batch, Eal, EalOptions, Pool, Port, PortOptions, RxQueue, TxQueue};
use weft_switch::statistics::Function;
use weft_switch::{DropReason, Host, Statistics};
use weft_vf::{Share, Switch, VirtualFunction};

const PATIENCE: Duration = Duration::from_secs(60);
const ALL: [u8; 6] = [0xff; 6];

fn mac(number: u8) -> [u8; 6] {
    [2, 0, 0, 0, 1, number]
}

fn frame(to: [u8; 6], from: [u8; 6], mark: u8) -> Vec<u8> {
    [&to[..], &from[..], &[0x88, 0xb5, mark], &[0; 47]].concat()
}

/// A process's end of a virtual function.
struct End {
    rx: RxQueue,
    tx: TxQueue,
    pool: Pool,
    _port: Port,
}

impl End {
    fn attach(eal: &'static Eal, switch: &Switch, name: &str) -> End {
        let pool = Pool::new(eal, name, 2047).unwrap();
        let device = switch.device(name).unwrap();
        let options = PortOptions { mtu: PortOptions::PLAIN_MTU, ..PortOptions::default() };
        let port = Port::open(eal, &device, &options, &pool).unwrap();
        assert_eq!(port.mac()[..5], mac(0)[..5]);
        let (rx, tx) = port.take_rx(0).zip(port.take_tx(0)).unwrap();
        End { rx, tx, pool, _port: port }
    }

    /// Sends frames; returns how many the ring took.
    fn send(&mut self, frames: &[Vec<u8>]) -> usize {
        let mut batch = Batch::new();
        for bytes in frames {
            // The ring may have all of them.
            let Some(packet) = self.pool.packet(bytes) else { break };
            batch.push(packet).unwrap();
        }
        self.tx.transmit(&mut batch)
    }

    /// The marks of what has come.
    fn marks(&mut self) -> Vec<u8> {
        let mut batch = Batch::new();
        self.rx.receive(&mut batch, 32);
        batch.drain().map(|packet| packet.data()[14]).collect()
    }

    fn next(&mut self) -> Vec<u8> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.marks() {
                none if none.is_empty() && Instant::now() < until => {
                    thread::sleep(Duration::from_millis(1));
                }
                marks => return marks,
            }
        }
    }
}

fn switch(folder: &TempDir) -> Switch {
    let function = |(name, number, rate): (&str, u8, u64)| Share {
        function: VirtualFunction {
            name: name.to_owned(),
            mac: mac(number),
            trust: false,
            spoof_check: name != "trusted",
        },
        rate,
    };
    let functions = [
        ("a", 0, 1_000_000),
        ("b", 1, 1_000_000),
        ("trusted", 2, 1_000_000),
        ("slow", 3, 1000),
        ("absent", 4, 1000),
    ];
    Switch {
        name: "soft".to_owned(),
        sockets: folder.path().join("sockets"),
        core: None,
        sleeps: true,
        started: false,
        first: 0,
        functions: functions.map(function).into(),
    }
}

fn functions(switch: &Switch) -> HashMap<String, Function> {
    let all = Statistics::ask(switch).expect("the switch answers").functions;
    all.into_iter().map(|one| (one.name.clone(), one)).collect()
}

fn dropped(function: &Function, reason: DropReason) -> u64 {
    function.drops.iter().find(|(one, _)| *one == reason).unwrap().1
}

/// Waits until the switch has taken this many frames of one.
fn wait_for(switch: &Switch, name: &str, packets: u64) -> HashMap<String, Function> {
    let until = Instant::now() + PATIENCE;
    loop {
        let now = functions(switch);
        if now[name].tx_packets >= packets || Instant::now() > until {
            return now;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Who gets what.
fn frames_go_where_they_should(eal: &'static Eal, switch: &Switch) {
    let [mut a, mut b, mut trusted] =
        ["a", "b", "trusted"].map(|name| End::attach(eal, switch, name));
    let until = Instant::now() + PATIENCE;
    while !["a", "b", "trusted"].iter().all(|name| functions(switch)[*name].attached) {
        assert!(Instant::now() < until, "{:?}", functions(switch));
        thread::sleep(Duration::from_millis(5));
    }
    a.send(&[frame(mac(1), mac(0), 1), frame(mac(1), mac(0), 2)]);
    assert_eq!(b.next(), [1, 2]);
    // From another address: refused from one, allowed to another.
    a.send(&[frame(mac(1), mac(9), 3)]);
    trusted.send(&[frame(mac(1), mac(9), 4)]);
    assert_eq!(b.next(), [4]);
    // To all others, to an address that no port has, to oneself, to one that is not there.
    a.send(&[frame(ALL, mac(0), 5)]);
    assert_eq!([b.next(), trusted.next()], [[5], [5]]);
    a.send(&[frame(mac(9), mac(0), 6), frame(mac(0), mac(0), 7), frame(mac(4), mac(0), 8)]);
    let now = wait_for(switch, "a", 7);
    assert_eq!(dropped(&now["a"], DropReason::SourceSpoofed), 1);
    assert_eq!(dropped(&now["a"], DropReason::DestinationUnknown), 2);
    assert_eq!(dropped(&now["absent"], DropReason::DestinationAbsent), 1);
    assert_eq!((now["b"].rx_packets, now["b"].rx_bytes), (4, 4 * 62));
    assert_eq!((now["a"].tx_packets, now["a"].tx_bytes), (7, 7 * 62));
    assert!(!now["absent"].attached);
    assert!([a.marks(), b.marks(), trusted.marks()].iter().all(Vec::is_empty));
}

/// One that is sent more than its share loses its own frames, and no other port's.
fn shares_are_fixed(eal: &'static Eal, switch: &Switch) {
    let [mut a, mut b, mut slow] = ["a", "b", "slow"].map(|name| End::attach(eal, switch, name));
    let before = wait_for(switch, "a", 0);
    let until = Instant::now() + PATIENCE;
    while !["a", "b", "slow"].iter().all(|name| functions(switch)[*name].attached) {
        assert!(Instant::now() < until);
        thread::sleep(Duration::from_millis(5));
    }
    let flood: Vec<_> = (0..32).map(|_| frame(mac(3), mac(0), 1)).collect();
    let (start, mut sent, mut got, mut kept, mut given) = (Instant::now(), 0, 0, 0, 0);
    // A machine under load gives the switch its turns late.
    while start.elapsed() < Duration::from_millis(500) || got < 200 {
        assert!(start.elapsed() < PATIENCE, "{got} in {:?}", start.elapsed());
        sent += a.send(&flood) as u64;
        given += b.send(&[frame(mac(0), mac(1), 2)]) as u64;
        got += slow.marks().len() as u64;
        kept += a.marks().len() as u64;
    }
    let end = Instant::now() + Duration::from_millis(300);
    while Instant::now() < end || (kept < given && Instant::now() < end + PATIENCE) {
        got += slow.marks().len() as u64;
        kept += a.marks().len() as u64;
    }
    let most = (start.elapsed().as_secs_f64() * 1000.0) as u64 + 64 + 32;
    assert!(got <= most, "{got} of {most}");
    assert!(got >= 200, "{got} in {:?}", start.elapsed());
    assert_eq!(kept, given, "the other lost frames");
    let after = wait_for(switch, "a", before["a"].tx_packets + sent);
    let slow_now = &after["slow"];
    let lost = dropped(slow_now, DropReason::QueueFull);
    assert!(lost > 0, "{after:?}");
    // Each frame is somewhere. What waits may go on while it is counted.
    let known = slow_now.rx_packets + slow_now.waiting + lost;
    assert!(known.abs_diff(sent) <= 32, "{sent} sent, {slow_now:?}");
}

/// What waits for one that goes is dropped, and another may come in its place.
fn ends_come_and_go(eal: &'static Eal, switch: &Switch) {
    let until = Instant::now() + PATIENCE;
    while functions(switch).values().any(|one| one.attached || one.waiting > 0) {
        assert!(Instant::now() < until, "{:?}", functions(switch));
        thread::sleep(Duration::from_millis(5));
    }
    assert!(dropped(&functions(switch)["slow"], DropReason::DestinationAbsent) > 0);
    let [mut a, mut b] = ["a", "b"].map(|name| End::attach(eal, switch, name));
    while functions(switch).values().filter(|one| one.attached).count() < 2 {
        assert!(Instant::now() < until);
        thread::sleep(Duration::from_millis(5));
    }
    a.send(&[frame(mac(1), mac(0), 9)]);
    assert_eq!(b.next(), [9]);
}

#[test]
fn a_switch_with_fixed_shares() {
    let options = EalOptions { memory_megabytes: 192, huge_pages: false, ..EalOptions::default() };
    let eal = Eal::start(&options).expect("the environment starts");
    let folder = TempDir::new().unwrap();
    let (switch, stop) = (switch(&folder), AtomicBool::new(false));
    let ready = AtomicBool::new(false);
    let host = Host { eal, switch: &switch, owners: &[], stop: &stop };
    thread::scope(|scope| {
        let running = scope.spawn(|| host.run(|| ready.store(true, Ordering::Release)));
        while !ready.load(Ordering::Acquire) && !running.is_finished() {
            thread::sleep(Duration::from_millis(5));
        }
        let tried = thread::scope(|inner| {
            inner
                .spawn(|| {
                    let _registration = eal.register_thread();
                    frames_go_where_they_should(eal, &switch);
                    shares_are_fixed(eal, &switch);
                    ends_come_and_go(eal, &switch);
                    // The sockets are taken.
                    let second = Host { eal, switch: &switch, owners: &[], stop: &stop };
                    let error = second.run(|| ()).unwrap_err().to_string();
                    assert!(error.ends_with("another switch has it"), "{error}");
                })
                .join()
        });
        stop.store(true, Ordering::Release);
        running.join().unwrap().unwrap();
        tried.unwrap();
    });
    assert!(Statistics::ask(&switch).is_err());
    assert_eq!(std::fs::read_dir(&switch.sockets).unwrap().count(), 0);
}
