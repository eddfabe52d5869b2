//! Cycles per packet of each function, called alone for bursts of 32 packets of
//! 64 bytes from 1,000 users, with the caches warm; the loop around it is taken
//! off. The best of many rounds is printed, as other programs disturb the others.
//! Where a function can be fused, the machine code of it alone stands beside it;
//! below, a chain of five called and fused.
//!
//! `cargo run --release -p weft-functions --example cost`
//!
//! With `called` or `fused` behind it the chain alone is run, for a profiler, and its
//! cycles are printed with those of the loop.

use serde_json::{Value, json};
use weft_compose::{Burst, Instance, Kind, Outcome, Positions, SlotShift};
use weft_dpdk::{Batch, Eal, EalOptions, Pool, tsc};
use weft_function::{Direction, Metadata, PacketMetadata, Setup, TagSlot, TagTable};
use weft_functions::KINDS;
use weft_fusion::{Fused, FusedOutcome, FusedPart};
use weft_wire::{EtherType, Protocol, gtpu, ipv4, udp};

const BURST: usize = 32;
const USERS: u32 = 1_000;
/// What packets are sent to, each time anew.
const DESTINATION: [u8; 4] = [192, 0, 2, 1];
/// Bursts of one round, and rounds.
const BURSTS: usize = 2_000;
const ROUNDS: usize = 20;

type Chain = Vec<Box<dyn Instance>>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = EalOptions { memory_megabytes: 128, ..EalOptions::default() };
    let pool = Pool::new(Eal::start(&options)?, "cost", 1023)?;
    let mut sample = Sample::plain(&pool)?;
    let mut five: Chain = Vec::new();
    for (name, config) in five_small() {
        let kind = KINDS.iter().find(|kind| kind.name == name).ok_or("no such function")?;
        five.push(make(kind, &config)?);
    }
    match std::env::args().nth(1).as_deref() {
        Some("called") => {
            println!("{:.1}", called(&mut sample, &mut five));
        }
        Some("fused") => {
            println!("{:.1}", fused(&mut sample, &mut five)?);
        }
        _ => {
            println!("{:<16} {:>7} {:>7}  with", "function", "called", "fused");
            for kind in KINDS {
                for (with, config) in configurations(kind.name) {
                    // What cannot do without a configuration is measured by `weft bench functions`.
                    let Ok(mut instance) = make(kind, &config) else { continue };
                    configure(kind, &mut *instance)?;
                    // Each with packets of its own: some leave them changed.
                    let mut sample = match kind.name {
                        "gtpu-decapsulate" | "gtpu-relay" | "session-detection" => {
                            Sample::tunnelled(&pool)?
                        }
                        "session-forwarding" => Sample::detected(&pool)?,
                        "gtpu-encapsulate" => Sample { is_moved: true, ..Sample::plain(&pool)? },
                        _ => Sample::plain(&pool)?,
                    };
                    print(kind.name, with, &mut sample, &mut vec![instance])?;
                }
            }
            print("five small ones", "", &mut sample, &mut five)?;
        }
    }
    Ok(())
}

fn print(
    name: &str,
    with: &str,
    sample: &mut Sample,
    chain: &mut Chain,
) -> Result<(), Box<dyn std::error::Error>> {
    let nothing = measure(sample, |_| ());
    let cycles = called(sample, chain) - nothing;
    let fused = match chain.iter().all(|instance| instance.lower().is_some()) {
        true => format!("{:.1}", fused(sample, chain)? - nothing),
        false => String::new(),
    };
    println!("{name:<16} {cycles:>7.1} {fused:>7}  {with}");
    Ok(())
}

fn called(sample: &mut Sample, chain: &mut Chain) -> f64 {
    let mut outcome = Outcome::default();
    measure(sample, |burst| {
        for instance in chain.iter_mut() {
            outcome.clear();
            instance.prefetch(&burst.packets, Positions::first(BURST));
            instance.visit(burst, Positions::first(BURST), &mut outcome);
        }
    })
}

fn fused(sample: &mut Sample, chain: &mut Chain) -> Result<f64, Box<dyn std::error::Error>> {
    let mut parts = Vec::new();
    for instance in chain.iter() {
        let program = instance.lower().ok_or("a function that cannot be fused")?;
        parts.push(FusedPart { program, scope: instance.scope(), sets: None });
    }
    let fused = Fused::compile(parts, SlotShift(0))?;
    if std::env::var_os("LISTED").is_some() {
        println!("{}\n{}", fused.optimised(), fused.list()?.instructions);
    }
    let mut outcome = FusedOutcome::default();
    Ok(measure(sample, |burst| {
        let mut instances: Vec<_> =
            chain.iter_mut().map(|instance| &mut **instance as &mut dyn Instance).collect();
        outcome.clear();
        fused.visit(burst, Positions::first(BURST), &mut instances, &mut outcome);
    }))
}

/// The chain of small functions that `weft bench chain-length` measures.
fn five_small() -> [(&'static str, Value); 5] {
    let meter = json!({ "singleRate": { "committedRate": "1 Gbit/s", "committedBurst": "1 MiB" } });
    let rule = json!({ "action": "deny", "protocol": "tcp", "destinationPorts": 25 });
    let translation = json!({ "from": "192.0.2.1/32", "to": "192.0.2.2/32" });
    [
        ("counter", json!({})),
        ("marker", json!({ "meter": meter, "drop": "none" })),
        ("filter", json!({ "default": "allow", "rules": [rule] })),
        ("rewrite-address", json!({ "destination": [translation] })),
        ("forward", json!({})),
    ]
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
    let setup = Setup {
        instance: "cost",
        tags: &tags,
        contexts,
        worker: 0,
        tsc_hz,
        trial: false,
        events: None,
    };
    Ok(kind.make(config, &setup, SlotShift(0))?)
}

/// Gives each user the settings that functions need which do nothing without.
fn configure(kind: &Kind, instance: &mut dyn Instance) -> Result<(), Box<dyn std::error::Error>> {
    let end = json!({ "teid": 1, "peer": "192.0.2.10", "local": "192.0.2.20" });
    let settings = match kind.name {
        "gtpu-decapsulate" => json!({ "peer": "192.0.2.30", "ipv4": "10.0.0.1" }),
        "gtpu-encapsulate" => json!({ "tunnel": end }),
        "gtpu-relay" => json!({ "uplink": end, "downlink": end }),
        "session-detection" | "session-forwarding" => session(&end),
        _ => return Ok(()),
    };
    let settings = kind.settings(&settings)?;
    for user in 0..USERS {
        instance.configure(user, &settings, 0);
    }
    Ok(())
}

/// The usual session: a rule each way, a rate and a measurement.
fn session(end: &Value) -> Value {
    let ue = json!({ "ipv4": "10.0.0.1" });
    json!({
        "pdrs": [
            { "id": 1, "precedence": 1, "source": "access", "local": { "teid": 1 },
              "removal": "gtpu", "ue": ue, "far": 1, "urrs": [1], "qers": [1] },
            { "id": 2, "precedence": 1, "source": "core", "ue": ue, "far": 2, "urrs": [1],
              "qers": [1] },
        ],
        "fars": [
            { "id": 1, "action": "forward", "forward": { "interface": "core" } },
            { "id": 2, "action": "forward",
              "forward": { "interface": "access", "outer": { "gtpu": end } } },
        ],
        "qers": [{ "id": 1, "qfi": 9, "maximum": { "uplink": 10_000_000, "downlink": 10_000_000 } }],
        "urrs": [{ "id": 1, "method": { "volume": true }, "triggers": ["volumeThreshold"],
                   "volumeThreshold": { "total": 1_000_000_000_000_u64 } }],
    })
}

/// A burst of packets that are sent again and again.
struct Sample {
    burst: Burst,
    frame: Vec<u8>,
    metadata: PacketMetadata,
    /// Whether functions change more than what is rewritten each time anyway.
    is_moved: bool,
}

/// Cycles per packet in the best round.
fn measure(sample: &mut Sample, mut visit: impl FnMut(&mut Burst)) -> f64 {
    let Sample { burst, frame, metadata, is_moved } = sample;
    let mut user = 0;
    let rounds = (0..ROUNDS).map(|_| {
        let start = tsc::now();
        for _ in 0..BURSTS {
            burst.now += 10_000;
            for packet in burst.packets.iter_mut() {
                user = (user + 7) % USERS;
                if *is_moved {
                    packet.reset();
                    let bytes = packet.append(frame.len()).expect("it was as long before");
                    bytes.copy_from_slice(frame);
                    *packet.metadata_mut() = *metadata;
                } else {
                    packet.data_mut()[30..34].copy_from_slice(&DESTINATION);
                }
                packet.metadata_mut().user = user;
                packet.metadata_mut().bearer = user;
            }
            visit(burst);
        }
        tsc::now() - start
    });
    rounds.min().unwrap_or_default() as f64 / (BURSTS * BURST) as f64
}

impl Sample {
    /// UDP packets with metadata as from a parser.
    fn plain(pool: &Pool) -> Result<Sample, Box<dyn std::error::Error>> {
        let metadata = PacketMetadata {
            network_offset: 14,
            transport_offset: 34,
            network_length: 50,
            ether_type: EtherType::IPV4.0,
            protocol: Protocol::UDP.0,
            ..Default::default()
        };
        Sample::new(pool, datagram([10, 0, 0, 1], 30)?, metadata, false)
    }

    /// The same in a tunnel.
    fn tunnelled(pool: &Pool) -> Result<Sample, Box<dyn std::error::Error>> {
        let inside = datagram([10, 0, 0, 1], 30)?;
        let message = gtpu::Repr {
            message_type: gtpu::MessageType::G_PDU,
            teid: gtpu::Teid(1),
            payload_length: inside.len() - 14,
            ..Default::default()
        };
        let mut frame = datagram([192, 0, 2, 30], 16 + inside.len() - 14)?;
        message.emit(&mut frame[42..])?;
        frame[50..].copy_from_slice(&inside[14..]);
        let plain = Sample::plain(pool)?.metadata;
        let metadata = PacketMetadata {
            outer_offset: 14,
            network_offset: 50,
            transport_offset: 70,
            flags: PacketMetadata::TUNNELLED,
            ..plain
        };
        Sample::new(pool, frame, metadata, true)
    }

    /// Packets to users, of the rule of that direction.
    fn detected(pool: &Pool) -> Result<Sample, Box<dyn std::error::Error>> {
        let mut sample = Sample { is_moved: true, ..Sample::plain(pool)? };
        sample.metadata.tags[TagSlot::DIRECTION.index()] = Direction::Downlink as u32;
        // The first tag that is not one of every node: `pdr`.
        sample.metadata.tags[3] = 2;
        Ok(sample)
    }

    fn new(
        pool: &Pool,
        frame: Vec<u8>,
        metadata: PacketMetadata,
        is_moved: bool,
    ) -> Result<Sample, Box<dyn std::error::Error>> {
        let mut burst = Burst { packets: Batch::new(), now: 0, pool: pool.clone() };
        for _ in 0..BURST {
            let mut packet = pool.packet(&frame).ok_or("the pool is empty")?;
            *packet.metadata_mut() = metadata;
            burst.packets.push(packet).map_err(|_| "the burst is full")?;
        }
        Ok(Sample { burst, frame, metadata, is_moved })
    }
}

/// A frame with a UDP datagram of that many octets in it, its header included.
fn datagram(source: [u8; 4], octets: usize) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let mut frame = vec![0; 34 + octets];
    frame[12..14].copy_from_slice(&EtherType::IPV4.0.to_be_bytes());
    let ip = ipv4::Repr {
        source: source.into(),
        destination: DESTINATION.into(),
        protocol: Protocol::UDP,
        payload_length: octets as u16,
        ..Default::default()
    };
    ip.emit(&mut frame[14..])?;
    let payload_length = (octets - 8) as u16;
    let udp = udp::Repr { source_port: 1000, destination_port: 2000, payload_length };
    udp.emit(&mut frame[34..])?;
    let mut datagram = udp::Datagram::new_checked(&mut frame[34..])?;
    datagram.set_checksum(1);
    Ok(frame)
}
