//! Cycles per packet of each function, called alone for bursts of 32 packets of
//! 64 bytes from 1,000 users, with the caches warm; the loop around it is taken
//! off. The best of many rounds is printed, as other programs disturb the others.
//!
//! `cargo run --release -p weft-functions --example cost`

use serde_json::{Value, json};
use weft_compose::{Burst, Instance, Kind, Outcome, Positions, SlotShift};
use weft_dpdk::{Annotations, Batch, Eal, EalOptions, Pool, tsc};
use weft_function::{Setup, TagTable};
use weft_functions::KINDS;
use weft_wire::{EtherType, Protocol, ipv4, udp};

const BURST: usize = 32;
const USERS: u32 = 1_000;
/// Bursts of one round, and rounds.
const BURSTS: usize = 2_000;
const ROUNDS: usize = 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = EalOptions { memory_megabytes: 128, ..EalOptions::default() };
    let pool = Pool::new(Eal::start(&options)?, "cost", 1023)?;
    let mut burst = burst(&pool)?;
    let nothing = measure(&mut burst, None);
    println!("{:<16} {:>7}  with", "function", "cycles");
    for kind in KINDS {
        for (with, config) in configurations(kind.name) {
            let mut instance = make(kind, &config)?;
            let cycles = measure(&mut burst, Some(&mut *instance)) - nothing;
            println!("{:<16} {cycles:>7.1}  {with}", kind.name);
        }
    }
    Ok(())
}

/// What each function is measured with.
fn configurations(name: &str) -> Vec<(&'static str, Value)> {
    let single = json!({ "singleRate": {
        "committedRate": "1 Gbit/s", "committedBurst": "64 KiB", "excessBurst": "64 KiB"
    } });
    let double = json!({ "twoRate": {
        "committedRate": "1 Gbit/s", "committedBurst": "64 KiB",
        "peakRate": "2 Gbit/s", "peakBurst": "64 KiB"
    } });
    let rules = |count| {
        let rule = json!({ "action": "deny", "protocol": "tcp", "destinationPorts": 25 });
        json!({ "default": "allow", "rules": vec![rule; count] })
    };
    let accesses =
        |dependent: bool| json!({ "accesses": 100, "workingSet": "4 MB", "dependent": dependent });
    let translation = json!({ "from": "10.0.0.0/8", "to": "11.0.0.0/8" });
    match name {
        "counter" => vec![
            ("counting only", json!({})),
            ("the count written", json!({ "payload": { "offset": 0, "width": 8 } })),
        ],
        "marker" => vec![
            ("a single rate", json!({ "meter": single })),
            ("two rates", json!({ "meter": double })),
        ],
        "rewrite-address" => vec![("one translation", json!({ "source": [translation] }))],
        "filter" => vec![("1 rule", rules(1)), ("10 rules", rules(10)), ("100 rules", rules(100))],
        "synthetic" => vec![
            ("250 cycles", json!({ "cycles": 250 })),
            ("100 accesses to 4 MB", accesses(false)),
            ("100 accesses to 4 MB in turn", accesses(true)),
        ],
        _ => vec![("", json!({}))],
    }
}

fn make(kind: &Kind, config: &Value) -> Result<Box<dyn Instance>, Box<dyn std::error::Error>> {
    let mut tags = TagTable::default();
    for tag in kind.reads.iter().chain(kind.writes) {
        tags.declare(tag.name, tag.values.into())?;
    }
    let (contexts, tsc_hz) = (USERS as usize, tsc::hz());
    let setup = Setup { instance: "cost", tags: &tags, contexts, worker: 0, tsc_hz, trial: false };
    Ok(kind.make(config, &setup, SlotShift(0))?)
}

/// Cycles per packet in the best round.
fn measure(burst: &mut Burst, mut instance: Option<&mut (dyn Instance + '_)>) -> f64 {
    let mut outcome = Outcome::default();
    let mut user = 0;
    let rounds = (0..ROUNDS).map(|_| {
        let start = tsc::now();
        for _ in 0..BURSTS {
            burst.now += 10_000;
            for packet in burst.packets.iter_mut() {
                user = (user + 7) % USERS;
                packet.annotations_mut().user = user;
            }
            outcome.clear();
            if let Some(instance) = &mut instance {
                instance.prefetch(&burst.packets, Positions::first(BURST));
                instance.visit(burst, Positions::first(BURST), &mut outcome);
            }
        }
        tsc::now() - start
    });
    rounds.min().unwrap_or_default() as f64 / (BURSTS * BURST) as f64
}

/// A burst of UDP packets, annotated as by a parser.
fn burst(pool: &Pool) -> Result<Burst, Box<dyn std::error::Error>> {
    let mut frame = [0; 64];
    frame[12..14].copy_from_slice(&EtherType::IPV4.0.to_be_bytes());
    let ip = ipv4::Repr {
        source: [10, 0, 0, 1].into(),
        destination: [192, 0, 2, 1].into(),
        protocol: Protocol::UDP,
        payload_length: 30,
        ..Default::default()
    };
    ip.emit(&mut frame[14..])?;
    let udp = udp::Repr { source_port: 1000, destination_port: 2000, payload_length: 22 };
    udp.emit(&mut frame[34..])?;
    let mut datagram = udp::Datagram::new_checked(&mut frame[34..])?;
    datagram.set_checksum(1);
    let mut burst = Burst { packets: Batch::new(), now: 0, pool: pool.clone() };
    for _ in 0..BURST {
        let mut packet = pool.packet(&frame).ok_or("the pool is empty")?;
        *packet.annotations_mut() = Annotations {
            network_offset: 14,
            transport_offset: 34,
            network_length: 50,
            ether_type: EtherType::IPV4.0,
            protocol: Protocol::UDP.0,
            ..Default::default()
        };
        burst.packets.push(packet).map_err(|_| "the burst is full")?;
    }
    Ok(burst)
}
