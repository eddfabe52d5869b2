//! A node on memory ports that a test drives step by step, and functions to put
//! into it.
#![allow(dead_code, reason = "each test uses a part")]

pub mod apart;
pub mod gtpu;
pub mod scenario;

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use weft_compose::Kind;
use weft_dpdk::{Batch, Eal, EalOptions, Pool, Port, PortOptions, RxQueue, TxQueue};
use weft_function::tag::COLOUR;
use weft_function::{
    ConfigError, ContextError, Emit, Headers, Metadata, NoSettings, Packet, Position, Reason,
    Scope, Setup, Tag, TagSlot, UserPlaneFunction, Verdict,
};
use weft_node::{BuildError, Node};
use weft_node_config::{self as config, Blueprint, Loading};
use weft_state::{Change, Store};
use weft_wire::{MacAddress, Protocol, ethernet, ipv4, udp};

/// Counts packets per user, or whose context its configuration says. A payload
/// that begins with `P` makes it panic.
pub struct Tally {
    scope: Scope,
}

/// What a tally holds; how many of them there are is counted.
#[derive(Default)]
pub struct Count {
    packets: u64,
    held: Option<Held>,
}

/// Something that a context must give back.
struct Held;

thread_local! {
    /// Contexts that hold something, of all tallies that this thread has stepped.
    pub static HELD: Cell<isize> = const { Cell::new(0) };
}

impl Held {
    fn new() -> Held {
        HELD.set(HELD.get() + 1);
        Held
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HELD.set(HELD.get() - 1);
    }
}

/// Whose packets a tally counts.
#[derive(Debug, Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TallyConfig {
    scope: Scope,
    /// Only there to be another configuration.
    serial: u32,
}

impl UserPlaneFunction for Tally {
    const NAME: &'static str = "tally";
    const SUMMARY: &'static str = "Counts.";
    type Config = TallyConfig;
    type Settings = Start;
    type Context = Count;

    fn new(config: TallyConfig, _: &Setup<'_>) -> Result<Self, ConfigError> {
        Ok(Tally { scope: config.scope })
    }

    fn scope(&self) -> Scope {
        self.scope
    }

    fn process(&mut self, packet: &mut Packet, context: &mut Count, _: &mut Emit<'_>) -> Verdict {
        context.held.get_or_insert_with(Held::new);
        context.packets += 1;
        if packet.transport().is_some_and(|udp| udp.get(8) == Some(&b'P')) {
            panic!("as the packet said");
        }
        Verdict::Forward
    }

    fn configure(&mut self, context: &mut Count, settings: &Start, nth: u32) {
        context.packets = settings.start + u64::from(nth);
    }

    fn export(&self, context: &Count, out: &mut Vec<u8>) {
        out.extend_from_slice(&context.packets.to_le_bytes());
    }

    fn import(&mut self, _: u16, bytes: &[u8]) -> Result<Count, ContextError> {
        let packets = bytes.try_into().map(u64::from_le_bytes);
        Ok(Count { packets: packets.map_err(|_| ContextError::Damaged)?, held: None })
    }

    fn show(&self, context: &Count) -> Vec<(&'static str, u64)> {
        vec![("packets", context.packets)]
    }
}

/// Where a tally starts.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Start {
    start: u64,
}

/// Can be made on trial, but not for a node.
pub struct Unbuildable;

impl UserPlaneFunction for Unbuildable {
    const NAME: &'static str = "unbuildable";
    const SUMMARY: &'static str = "Fails when a worker wants it.";
    type Config = NoSettings;
    type Settings = NoSettings;
    type Context = ();

    fn new(_: NoSettings, setup: &Setup<'_>) -> Result<Self, ConfigError> {
        match setup.trial {
            true => Ok(Unbuildable),
            false => Err(ConfigError::at("", "the machine has none")),
        }
    }

    fn process(&mut self, _: &mut Packet, (): &mut (), _: &mut Emit<'_>) -> Verdict {
        Verdict::Forward
    }

    fn export(&self, (): &(), _: &mut Vec<u8>) {}

    fn import(&mut self, _: u16, _: &[u8]) -> Result<(), ContextError> {
        Ok(())
    }
}

const MISCHIEF_DROP: Reason = Reason::new("mischief", "the packet asked for it");

/// Does what the first byte of the UDP payload says, and colours packets by the
/// second.
pub struct Mischief {
    colour: TagSlot,
}

impl UserPlaneFunction for Mischief {
    const NAME: &'static str = "mischief";
    const SUMMARY: &'static str = "Does what the packet says.";
    const WRITES: &'static [Tag] = &[COLOUR];
    const DROPS: &'static [Reason] = &[MISCHIEF_DROP];
    type Config = NoSettings;
    type Settings = NoSettings;
    type Context = u32;

    fn new(_: NoSettings, setup: &Setup<'_>) -> Result<Self, ConfigError> {
        Ok(Mischief { colour: setup.tag(&COLOUR)? })
    }

    fn process(&mut self, packet: &mut Packet, context: &mut u32, emit: &mut Emit<'_>) -> Verdict {
        let (order, colour) = match packet.transport() {
            Some(&[_, _, _, _, _, _, _, _, order, colour, ..]) => (order, colour),
            _ => (b'.', b'0'),
        };
        self.colour.set(packet.metadata_mut(), u32::from(colour.saturating_sub(b'0')));
        match order {
            b'd' => return Verdict::Drop(MISCHIEF_DROP),
            b'k' => {
                *context += 1;
                return Verdict::Keep;
            }
            b'r' => drop(emit.release(usize::MAX)),
            b'c' => drop(emit.duplicate(packet)),
            b'g' => {
                if let Some(mut copy) = emit.allocate(packet.metadata()) {
                    copy.append(packet.len()).unwrap().copy_from_slice(packet.data());
                    emit.send(copy, Position::Before);
                }
            }
            b't' => drop(emit.wake_at(emit.now() + 1000)),
            b'p' => panic!("as the packet said"),
            b'l' => loop {
                std::hint::spin_loop();
            },
            b'z' => loop {
                std::thread::park();
            },
            b'm' => fault(),
            _ => {}
        }
        Verdict::Forward
    }

    fn timer(&mut self, _: &mut u32, emit: &mut Emit<'_>) {
        emit.release(usize::MAX);
    }

    fn export(&self, _: &u32, _: &mut Vec<u8>) {}

    fn import(&mut self, _: u16, _: &[u8]) -> Result<u32, ContextError> {
        Ok(0)
    }
}

/// Reads memory that is not there.
fn fault() {
    let nowhere = std::hint::black_box(16) as *const u64;
    // SAFETY: not at all. The process ends, which a test waits for.
    let _ = std::hint::black_box(unsafe { nowhere.read_volatile() });
}

/// The functions of this file, and all of the registry.
pub static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let own = [Kind::of::<Tally>(), Kind::of::<Mischief>(), Kind::of::<Unbuildable>()];
    own.iter().chain(weft_functions::KINDS).copied().collect()
});

/// Memory for the nodes of as many tests as run at a time.
pub fn eal() -> &'static Eal {
    let options = EalOptions { memory_megabytes: 1024, huge_pages: false, ..Default::default() };
    Eal::start(&options).expect("the environment starts")
}

/// The far end of a port.
pub struct Far {
    pub rx: RxQueue,
    pub tx: TxQueue,
    _port: Port,
}

impl Far {
    pub fn of(port: Port) -> Far {
        Far { rx: port.take_rx(0).unwrap(), tx: port.take_tx(0).unwrap(), _port: port }
    }
}

/// A node and the far ends of its ports.
pub struct Rig {
    pub node: Node,
    pub time: Arc<AtomicU64>,
    pub far: Vec<Far>,
    pub pool: Pool,
}

impl Rig {
    /// Builds a node of `yaml`, in which `ring:N` is replaced by a name of this
    /// rig's own.
    pub fn new(yaml: &str) -> Rig {
        let build = |blueprint, time| Node::build_timed(eal(), blueprint, time);
        Rig::with(yaml, build).expect("the node builds")
    }

    /// The same of a node that goes on with what is in `store`.
    pub fn restored(yaml: &str, store: Store) -> Result<Rig, BuildError> {
        Rig::with(yaml, |blueprint, time| Node::restore_timed(eal(), blueprint, store, time))
    }

    /// The same, but contexts are read while packets pass.
    pub fn resumed(yaml: &str, store: Store) -> Result<Rig, BuildError> {
        Rig::with(yaml, |mut blueprint, time| {
            blueprint.state.iter_mut().for_each(|state| state.loading = Loading::OnDemand);
            Node::restore_timed(eal(), blueprint, store, time)
        })
    }

    /// Goes on until all contexts are there.
    pub fn load_all(&mut self) {
        let begun = Instant::now();
        while self.node.agent().is_loading() {
            assert!(begun.elapsed() < Duration::from_secs(60), "contexts do not come");
            self.settle();
        }
    }

    /// The same of a node that has stood by with the records of `base` and these changes of them,
    /// and owns the users of `store` now. Its clock is that of the machine.
    pub fn stood_by(
        yaml: &str,
        base: &Store,
        changes: &[Vec<Change>],
        store: Store,
    ) -> Result<Rig, BuildError> {
        Rig::with(yaml, |blueprint, _| {
            let mut standing = Node::stand_by(eal(), blueprint, &base.snapshot()?)?;
            for some in changes {
                assert!(standing.apply(some)?, "it would have to be built anew");
            }
            standing.own(store)
        })
    }

    /// A node of these kinds of functions, which `build` makes.
    pub fn of_kinds<E>(
        yaml: &str,
        kinds: &[Kind],
        build: impl FnOnce(Blueprint) -> Result<Node, E>,
    ) -> Result<Rig, E> {
        Rig::of(blueprint_of(yaml, kinds), |blueprint, _| build(blueprint))
    }

    fn with(
        yaml: &str,
        build: impl FnOnce(Blueprint, Arc<AtomicU64>) -> Result<Node, BuildError>,
    ) -> Result<Rig, BuildError> {
        Rig::of(blueprint(yaml), build)
    }

    fn of<E>(
        blueprint: Blueprint,
        build: impl FnOnce(Blueprint, Arc<AtomicU64>) -> Result<Node, E>,
    ) -> Result<Rig, E> {
        let eal = eal();
        let devices: Vec<_> = blueprint.devices().iter().map(|port| port.device.clone()).collect();
        let time = Arc::new(AtomicU64::new(1));
        let node = build(blueprint, time.clone())?;
        let pool = Pool::new(eal, "far", 4095).unwrap();
        let far = devices
            .iter()
            .map(|device| {
                let port = Port::open(eal, device, &PortOptions::default(), &pool).unwrap();
                Far::of(port)
            })
            .collect();
        Ok(Rig { node, time, far, pool })
    }

    /// Sends frames into a port and lets the node work until it rests.
    pub fn send(&mut self, port: usize, frames: &[Vec<u8>]) {
        for frames in frames.chunks(32) {
            self.offer(port, frames);
            self.settle();
        }
    }

    /// Sends up to a burst of frames into a port.
    pub fn offer(&mut self, port: usize, frames: &[Vec<u8>]) {
        let mut batch = Batch::new();
        for frame in frames {
            batch.push(self.pool.packet(frame).unwrap()).unwrap();
        }
        self.far[port].tx.transmit(&mut batch);
    }

    pub fn settle(&mut self) {
        for _ in 0..3 {
            while self.node.step() {}
        }
    }

    /// What came out of a port since the last look.
    pub fn receive(&mut self, port: usize) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let mut batch = Batch::new();
        while self.far[port].rx.receive(&mut batch, 32) > 0 {
            frames.extend(batch.drain().map(|packet| packet.data().to_vec()));
        }
        frames
    }

    pub fn drops(&mut self, reason: &str) -> u64 {
        let drops = self.node.agent().snapshot().drops;
        drops.iter().filter(|drop| drop.reason == reason).map(|drop| drop.packets).sum()
    }

    pub fn tally(&mut self, user: &str) -> u64 {
        let (_, answer) = self.node.agent().contexts_of(user).expect("the user exists");
        self.settle();
        answer.recv().unwrap().iter().find(|(name, _)| name == "count").unwrap().1[0].1
    }

    pub fn advance(&mut self, nanoseconds: u64) {
        self.time.fetch_add(nanoseconds, Ordering::Relaxed);
        self.settle();
    }
}

pub fn blueprint(yaml: &str) -> Blueprint {
    blueprint_of(yaml, &KINDS)
}

fn blueprint_of(yaml: &str, kinds: &[Kind]) -> Blueprint {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let yaml = yaml.replace("ring:", &format!("ring:t{serial}-"));
    config::read(&yaml, "test.yaml", kinds).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// A UDP packet in an Ethernet frame.
pub fn udp(source: [u8; 4], destination: [u8; 4], payload: &[u8]) -> Vec<u8> {
    udp_to(MacAddress([2, 0, 0, 0, 0, 0xee]), source, destination, 64, payload)
}

pub fn udp_to(
    station: MacAddress,
    source: [u8; 4],
    destination: [u8; 4],
    time_to_live: u8,
    payload: &[u8],
) -> Vec<u8> {
    let mut frame = vec![0; 42 + payload.len()];
    let link = ethernet::Repr {
        destination: station,
        source: MacAddress([2, 0, 0, 0, 0, 0xaa]),
        ether_type: weft_wire::EtherType::IPV4,
    };
    link.emit(&mut frame).unwrap();
    let ip = ipv4::Repr {
        source: source.into(),
        destination: destination.into(),
        protocol: Protocol::UDP,
        payload_length: 8 + payload.len() as u16,
        time_to_live,
        ..Default::default()
    };
    ip.emit(&mut frame[14..]).unwrap();
    let header = udp::Repr {
        source_port: 1000,
        destination_port: 2000,
        payload_length: payload.len() as u16,
    };
    header.emit(&mut frame[34..]).unwrap();
    frame[42..].copy_from_slice(payload);
    let pseudo = ipv4::Packet::new_checked(&frame[14..]).unwrap().pseudo_header();
    udp::Datagram::new_checked(&mut frame[34..]).unwrap().fill_checksum(&pseudo);
    frame
}

/// Lets functions panic as packets ask them to, without a word.
pub fn panic_quietly() {
    std::panic::set_hook(Box::new(|info| {
        if info.payload().downcast_ref() != Some(&"as the packet said") {
            eprintln!("{info}");
        }
    }));
}

/// The UDP payloads of frames.
pub fn payloads(frames: &[Vec<u8>]) -> Vec<String> {
    frames.iter().map(|frame| String::from_utf8_lossy(&frame[42..]).into_owned()).collect()
}
