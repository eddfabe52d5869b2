//! Cycles per packet of `esp-encrypt` and `esp-decrypt`, called for bursts of 32 packets
//! of one association, and of the cryptographic device alone over as many octets of
//! cleartext; the best of many rounds, as other programs disturb the others.
//!
//! `cargo run --release -p weft-functions --example esp_cost`
//!
//! DPDK's own figure for the device is that of
//! `dpdk-test-crypto-perf … --vdev crypto_aesni_gcm0 -- --devtype crypto_aesni_gcm
//! --ptest throughput --optype aead --aead-algo aes-gcm --aead-key-sz 16 --aead-iv-sz 12
//! --aead-aad-sz 12 --digest-sz 16 --burst-sz 32 --buffer-sz 64,128,550,1400`.

use serde_json::{Value, json};
use weft_compose::{Burst, Instance, Outcome, Positions, SlotShift};
use weft_dpdk::crypto::{Device, Direction};
use weft_dpdk::{Annotations, Batch, Eal, EalOptions, Pool, tsc};
use weft_function::{Setup, TagTable};
use weft_wire::{EtherType, Protocol, ipv4};

const BURST: usize = 32;
/// Bursts of one round, and rounds.
const BURSTS: usize = 500;
const ROUNDS: usize = 40;
const LENGTHS: [usize; 4] = [64, 128, 550, 1400];
/// Keys of 16 and 32 octets, with their salt.
const KEYS: [(usize, &str); 2] = [
    (128, "000102030405060708090a0b0c0d0e0ff0f1f2f3"),
    (256, "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1ff0f1f2f3"),
];

type Outcomes<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcomes<()> {
    let options = EalOptions { memory_megabytes: 128, ..EalOptions::default() };
    let eal = Eal::start(&options)?;
    let pool = Pool::new(eal, "cost", 1023)?;
    println!("cycles per packet; octets of the IP packet inside");
    println!("  key  octets  device seals  esp-encrypt  device opens  esp-decrypt");
    for (bits, key) in KEYS {
        for length in LENGTHS {
            let [seals, opens] = device(eal, bits / 8, length)?;
            let [encrypt, decrypt] = functions(&pool, key, length)?;
            println!(
                "{bits:>5} {length:>7} {seals:>13.0} {encrypt:>12.0} {opens:>13.0} {decrypt:>12.0}"
            );
        }
    }
    Ok(())
}

/// The device alone: sealing, then opening what was sealed.
fn device(eal: &Eal, key: usize, length: usize) -> Outcomes<[f64; 2]> {
    let sessions = Device::open(eal, "crypto_aesni_gcm0")?.sessions(2)?;
    let key: Vec<u8> = (0..key as u8).collect();
    let session = |direction| sessions.aes_gcm(&key, 12, direction).ok_or("no session");
    let (seal, open) = (session(Direction::Seal)?, session(Direction::Open)?);
    let text = (length + 2).next_multiple_of(4);
    let mut buffers = vec![(vec![7; text], [0; 16]); BURST];
    let mut best = [u64::MAX; 2];
    let mut number = 0_u64;
    for _ in 0..ROUNDS {
        let mut round = [0; 2];
        for _ in 0..BURSTS {
            let mut nonces = [[0; 12]; BURST];
            for nonce in &mut nonces {
                number += 1;
                nonce[4..].copy_from_slice(&number.to_be_bytes());
            }
            let start = tsc::now();
            for ((data, tag), nonce) in buffers.iter_mut().zip(&nonces) {
                assert!(seal.seal(nonce, &nonce[..], data, tag));
            }
            let middle = tsc::now();
            for ((data, tag), nonce) in buffers.iter_mut().zip(&nonces) {
                assert!(open.open(nonce, &nonce[..], data, tag));
            }
            round[0] += middle - start;
            round[1] += tsc::now() - middle;
        }
        best = [best[0].min(round[0]), best[1].min(round[1])];
    }
    Ok(best.map(per_packet))
}

fn per_packet(cycles: u64) -> f64 {
    cycles as f64 / (BURSTS * BURST) as f64
}

fn instance(name: &str, settings: &Value) -> Outcomes<Box<dyn Instance>> {
    let kind = weft_functions::kind(name).ok_or("no such function")?;
    let tags = TagTable::default();
    let (contexts, tsc_hz) = (1, tsc::hz());
    let setup = Setup { instance: "cost", tags: &tags, contexts, worker: 0, tsc_hz, trial: false };
    let mut instance = kind.make(&json!({}), &setup, SlotShift(0))?;
    instance.configure(0, &kind.settings(settings)?, 0);
    Ok(instance)
}

/// Both functions, one behind the other: each packet is protected, and opened again.
fn functions(pool: &Pool, key: &str, length: usize) -> Outcomes<[f64; 2]> {
    let ends = json!({ "spi": 4096, "key": key, "local": "192.0.2.1", "peer": "192.0.2.2" });
    let mut encrypt = instance("esp-encrypt", &ends)?;
    let mut decrypt = instance("esp-decrypt", &json!({ "spi": 4096, "key": key }))?;
    let frame = frame(length)?;
    let mut outcome = Outcome::default();
    let mut best = [u64::MAX; 2];
    for _ in 0..ROUNDS {
        let mut round = [0; 2];
        for _ in 0..BURSTS {
            let mut burst = burst(pool, &frame)?;
            outcome.clear();
            let start = tsc::now();
            visit(&mut *encrypt, &mut burst, &mut outcome);
            let middle = tsc::now();
            visit(&mut *decrypt, &mut burst, &mut outcome);
            round[0] += middle - start;
            round[1] += tsc::now() - middle;
            assert!(outcome.dropped.is_empty(), "packets are dropped");
        }
        best = [best[0].min(round[0]), best[1].min(round[1])];
    }
    Ok(best.map(per_packet))
}

fn visit(instance: &mut dyn Instance, burst: &mut Burst, outcome: &mut Outcome) {
    instance.prefetch(&burst.packets, Positions::first(BURST));
    instance.visit(burst, Positions::first(BURST), outcome);
}

/// An IPv4 packet of so many octets.
fn frame(length: usize) -> Outcomes<Vec<u8>> {
    let mut frame = vec![0; 14 + length];
    frame[12..14].copy_from_slice(&EtherType::IPV4.0.to_be_bytes());
    let ip = ipv4::Repr {
        source: [10, 0, 0, 1].into(),
        destination: [198, 51, 100, 1].into(),
        protocol: Protocol::GRE,
        payload_length: (length - ipv4::MIN_HEADER_LENGTH) as u16,
        ..Default::default()
    };
    ip.emit(&mut frame[14..])?;
    Ok(frame)
}

fn burst(pool: &Pool, frame: &[u8]) -> Outcomes<Burst> {
    let mut burst = Burst { packets: Batch::new(), now: 1, pool: pool.clone() };
    for _ in 0..BURST {
        let mut packet = pool.packet(frame).ok_or("the pool is empty")?;
        *packet.annotations_mut() = Annotations {
            network_offset: 14,
            transport_offset: 34,
            network_length: (frame.len() - 14) as u16,
            ether_type: EtherType::IPV4.0,
            protocol: Protocol::GRE.0,
            ..Default::default()
        };
        burst.packets.push(packet).map_err(|_| "the burst is full")?;
    }
    Ok(burst)
}
