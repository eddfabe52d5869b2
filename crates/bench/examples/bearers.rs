//! What a gateway with many bearers costs: cycles per packet of decapsulation
//! with bearer lookup by stage, for packets of random bearers; the time and the
//! memory that installing the bearers takes; and commands per second under
//! traffic. The best of many rounds is printed, as other programs disturb the
//! others.
//!
//! `cargo run --release -p weft-bench --example bearers`

#![forbid(unsafe_code)]

use std::error::Error;
use std::time::{Duration, Instant};

use weft_dpdk::{Batch, Eal, EalOptions, Pool, Port, PortOptions, RxQueue, TxQueue, tsc};
use weft_functions::KINDS;
use weft_node::bearer::{Action, BearerCommand, BearerId, BearerSettings, Detection};
use weft_node::{Handle, Node};
use weft_node_config as config;
use weft_node_config::UserKey;
use weft_wire::gtpu::{Extensions, MessageType, PORT, Repr, Teid};
use weft_wire::{EtherType, MacAddress, Protocol, ethernet, ipv4, udp};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Bytes of a frame, without its checksum.
const FRAME: usize = 124;
/// Packets that are sent before the worker's time is taken.
const ROUND: usize = 512;
/// Rounds of one measurement.
const ROUNDS: usize = 2000;
/// First TEID and first user address.
const TEIDS: u32 = 0x1000_0000;
const USERS: u32 = 0x0a40_0000;
/// Commands per second under traffic, and how many are sent at once.
const COMMANDS: u32 = 100_000;
const BATCH: u32 = 1_000;

fn main() -> Result<()> {
    let eal = Eal::start(&EalOptions { memory_megabytes: 256, ..EalOptions::default() })?;
    let huge = if eal.has_huge_pages() { "huge pages" } else { "4 KB pages" };
    println!("{} cycles/s, {huge}, frames of {FRAME} bytes\n", tsc::hz());
    println!("{:>9} {:>8} {:>8} {:>7} {:>8}", "bearers", "chain", "install", "memory", "cycles");
    for chain in ["decapsulate", "decapsulate -> count -> police"] {
        for bearers in [1, 1_000, 100_000, 1_000_000] {
            measure(eal, bearers, chain, "table")?;
        }
    }
    measure(eal, 400, "decapsulate", "linear")?;
    signalling(eal)
}

/// Cycles per packet of a worker, without receiving and sending.
fn measure(eal: &'static Eal, bearers: u32, chain: &str, classification: &str) -> Result<()> {
    let start = Instant::now();
    let before = resident()?;
    let mut node = build(eal, bearers, chain, classification, 0)?;
    let install = start.elapsed();
    let memory = resident()?.saturating_sub(before) >> 20;
    let pool = Pool::new(eal, "far", 4095)?;
    let mut far = Far::open(eal, &pool)?;
    let mut random = Random(1);
    let (mut best, mut packets) = (f64::INFINITY, 0);
    for _ in 0..ROUNDS {
        for _ in 0..ROUND / 32 {
            far.offer(&pool, || random.next() as u32 % bearers);
        }
        let worker = &mut node.workers()[0];
        let start = tsc::now();
        while worker.poll() {}
        let cycles = tsc::now() - start;
        node.agent().poll();
        let received = far.take();
        packets += received;
        best = best.min(cycles as f64 / received.max(1) as f64);
    }
    let snapshot = node.agent().snapshot();
    let stages = &snapshot.workers[0].stages;
    let per_packet = |cycles: u64, packets: u64| cycles as f64 / packets.max(1) as f64;
    let stages: Vec<_> = stages
        .iter()
        .map(|stage| (&*stage.name, per_packet(stage.cycles, stage.packets)))
        .collect();
    let functions = snapshot.functions.iter().filter(|one| one.sampled_packets > 0);
    let functions: f64 =
        functions.map(|one| per_packet(one.sampled_cycles, one.sampled_packets)).sum();
    let work: f64 = functions
        + stages
            .iter()
            .filter(|(name, _)| *name != "receive" && *name != "transmit")
            .map(|(_, cycles)| cycles)
            .sum::<f64>();
    println!(
        "{bearers:>9} {classification} {chain}: installed in {install:.2?}, {memory} MB; {packets} \
         packets; best round {best:.1} cycles with I/O; mean {work:.1} without"
    );
    let stages: Vec<_> =
        stages.iter().map(|(name, cycles)| format!("{name} {cycles:.1}")).collect();
    println!("          {} functions {functions:.1}", stages.join(", "));
    Ok(())
}

/// Adds and removes bearers while others have traffic.
fn signalling(eal: &'static Eal) -> Result<()> {
    let node = build(eal, 1_000, "decapsulate", "table", 500_000)?;
    let pool = Pool::new(eal, "far", 16_383)?;
    let mut far = Far::open(eal, &pool)?;
    let running = node.start(eal)?;
    let handle = running.handle();
    let seconds = 5;
    let commander = std::thread::spawn(move || command(&handle, seconds));
    let mut random = Random(1);
    let (start, mut sent, mut received) = (Instant::now(), 0_u64, 0);
    const RATE: f64 = 200_000.0;
    while start.elapsed() < Duration::from_secs(seconds.into()) {
        if (start.elapsed().as_secs_f64() * RATE) as u64 > sent {
            sent += far.offer(&pool, || random.next() as u32 % 1_000) as u64;
        }
        received += far.take() as u64;
    }
    let commands = commander.join().map_err(|_| "the commander panicked")?;
    std::thread::sleep(Duration::from_millis(100));
    received += far.take() as u64;
    println!(
        "\nsignalling: {:.0} commands/s for {seconds} s; packets sent {sent}, lost {}",
        commands? as f64 / f64::from(seconds),
        sent - received
    );
    running.stop();
    Ok(())
}

/// Adds and removes bearers at a steady rate; returns how many commands.
fn command(handle: &Handle, seconds: u32) -> std::result::Result<u64, String> {
    let start = Instant::now();
    let mut done = 0_u64;
    while start.elapsed() < Duration::from_secs(seconds.into()) {
        if (start.elapsed().as_secs_f64() * f64::from(COMMANDS)) as u64 <= done {
            std::thread::sleep(Duration::from_micros(500));
            continue;
        }
        // Even batches come, odd ones take away what came before.
        let (batch, adds) = (done as u32 / BATCH / 2, (done / u64::from(BATCH)).is_multiple_of(2));
        let first = 1_000_000 + batch % 400 * BATCH;
        let asked = handle.ask(move |agent| {
            let written = serde_json::json!({"ipv4": "10.64.0.0"});
            let settings = agent.settings("decapsulate", &written)?;
            let commands: Vec<_> = (first..first + BATCH)
                .map(|nth| match adds {
                    true => add(nth, &settings),
                    false => BearerCommand::Remove { id: BearerId(nth.into()) },
                })
                .collect();
            agent.change_bearers(&commands).map_err(|error| error.wrong)
        });
        asked.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        done += u64::from(BATCH);
    }
    Ok(done)
}

fn add(nth: u32, settings: &weft_compose::Settings) -> BearerCommand {
    let (function, settings) = ("decapsulate".to_owned(), settings.clone());
    let teid = UserKey::Teid { network: 0, first: TEIDS + nth };
    let ipv4 = UserKey::Ipv4 { network: 0, first: (USERS + nth).into() };
    BearerCommand::Add {
        id: BearerId(nth.into()),
        detection: Detection::User {
            like: "ue".to_owned(),
            nth: 0,
            keys: vec![teid, ipv4],
            user: None,
        },
        action: Action::Forward,
        settings: vec![BearerSettings { function, settings, nth }],
    }
}

fn build(
    eal: &'static Eal,
    bearers: u32,
    chain: &str,
    classification: &str,
    more: u32,
) -> Result<Node> {
    let (first, room) = (std::net::Ipv4Addr::from(USERS), bearers + more);
    let last = chain.rsplit(' ').next().unwrap_or(chain);
    let yaml = format!(
        "
apiVersion: weft/v1
kind: Node
metadata: {{name: bearers}}
classification: {classification}
limits: {{users: {room}}}
ports:
  access:
    device: 'ring:access'
    direction: uplink
    mac: 02:00:00:00:00:01
    addresses: [192.0.2.1/24]
    nextHopMac: 02:00:00:00:00:99
  core:
    device: 'ring:core'
    direction: downlink
    mac: 02:00:00:00:00:02
    addresses: [198.51.100.1/24]
    nextHopMac: 02:00:00:00:00:99
functions:
  decapsulate: {{function: gtpu-decapsulate}}
  count: {{function: counter}}
  police:
    function: marker
    config: {{meter: {{singleRate: {{committedRate: 10 Gbit/s, committedBurst: 1 MB}}}}}}
users:
  - name: ue
    count: {bearers}
    match: {{ipv4: {first}, teid: {TEIDS}}}
    functions: {{decapsulate: {{ipv4: {first}}}}}
rules: |
  chain all = {chain}
  from access -> all
  from {last} -> core
  from core -> drop
"
    );
    let yaml = yaml.replace(&format!("  from {last} -> core"), "  from all -> core");
    let blueprint =
        config::read(&yaml, "bearers.yaml", KINDS).map_err(|error| error.to_string())?;
    Ok(Node::build(eal, blueprint)?)
}

/// The far ends of the node's ports.
struct Far {
    access: TxQueue,
    core: RxQueue,
    frame: Vec<u8>,
    _ports: [Port; 2],
}

impl Far {
    fn open(eal: &'static Eal, pool: &Pool) -> Result<Far> {
        let options = PortOptions { descriptors: 4096, ..PortOptions::default() };
        let ports = [
            Port::open(eal, "ring:access", &options, pool)?,
            Port::open(eal, "ring:core", &options, pool)?,
        ];
        let access = ports[0].take_tx(0).ok_or("no transmit queue")?;
        let core = ports[1].take_rx(0).ok_or("no receive queue")?;
        Ok(Far { access, core, frame: frame()?, _ports: ports })
    }

    /// Sends a burst of packets of the bearers that `choose` says; returns how
    /// many.
    fn offer(&mut self, pool: &Pool, mut choose: impl FnMut() -> u32) -> usize {
        let mut batch = Batch::new();
        for _ in 0..32 {
            let bearer = choose();
            // TEID, then source address and its part of the checksum.
            self.frame[46..50].copy_from_slice(&(TEIDS + bearer).to_be_bytes());
            self.frame[62..66].copy_from_slice(&(USERS + bearer).to_be_bytes());
            if let Ok(mut inside) = ipv4::Packet::new_checked(&mut self.frame[50..]) {
                inside.fill_checksum();
            }
            if let Some(packet) = pool.packet(&self.frame) {
                let _ = batch.push(packet);
            }
        }
        self.access.transmit(&mut batch)
    }

    /// Takes what came out; returns how many.
    fn take(&mut self) -> usize {
        let (mut batch, mut sum) = (Batch::new(), 0);
        while self.core.receive(&mut batch, 32) > 0 {
            sum += batch.len();
            batch.clear();
        }
        sum
    }
}

/// A packet in a tunnel, whose TEID and user are still to be written.
fn frame() -> Result<Vec<u8>> {
    let mut frame = vec![0; FRAME];
    let link = ethernet::Repr {
        destination: MacAddress([2, 0, 0, 0, 0, 1]),
        source: MacAddress([2, 0, 0, 0, 0, 9]),
        ether_type: EtherType::IPV4,
    };
    link.emit(&mut frame)?;
    let ip = |source: [u8; 4], destination: [u8; 4], payload: usize| ipv4::Repr {
        source: source.into(),
        destination: destination.into(),
        protocol: Protocol::UDP,
        payload_length: payload as u16,
        time_to_live: 64,
        ..Default::default()
    };
    let datagram = |port: u16, payload: usize| udp::Repr {
        source_port: port,
        destination_port: port,
        payload_length: payload as u16,
    };
    ip([192, 0, 2, 9], [192, 0, 2, 1], FRAME - 34).emit(&mut frame[14..])?;
    datagram(PORT, FRAME - 42).emit(&mut frame[34..])?;
    let message = Repr {
        message_type: MessageType::G_PDU,
        teid: Teid(TEIDS),
        extensions: Extensions::NONE,
        payload_length: FRAME - 50,
        ..Default::default()
    };
    message.emit(&mut frame[42..])?;
    ip([10, 64, 0, 0], [198, 51, 100, 9], FRAME - 70).emit(&mut frame[50..])?;
    datagram(9, FRAME - 78).emit(&mut frame[70..])?;
    Ok(frame)
}

/// Bytes of this process in memory.
fn resident() -> Result<usize> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<usize>()? << 10)
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}
