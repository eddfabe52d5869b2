//! The systems that are measured beside each other.

use std::fs;
use std::time::Duration;

use weft_dpdk::crypto::{Device, Direction};
use weft_traffic::Rate;

use super::{Kind, Parameters};
use crate::experiments::function::functions::{configure, esp, flows};
use crate::results::Peer;
use crate::run::{Run, Value, Values};
use weft_rig::baseline::crypto_perf::{self, Operation};
use weft_rig::baseline::line::Line;
use weft_rig::baseline::{kernel, open_vswitch, peers, testpmd};
use weft_rig::network::environments::{Environment, Opened};
use weft_rig::traffic::capture::Content;
use weft_rig::{Failure, Offer, Rig, Setup, USERS, uplink};

const FORWARD: &str = "forward";
const TRANSLATE: &str = "translate addresses";
/// Packets that a queue at the traffic's ends holds.
const DESCRIPTORS: u16 = 1024;

/// What does a kind of work.
pub struct System<'r> {
    /// Its series.
    pub name: String,
    pub kind: Kind,
    pub work: &'static str,
    pub is_peer: bool,
    pub what: What<'r>,
}

/// How it is measured.
pub enum What<'r> {
    /// A node on the capture without end.
    Node,
    /// testpmd on the same.
    Testpmd,
    /// A node between interfaces of the kernel.
    Between(Box<Opened<'r>>),
    /// The kernel, or Open vSwitch.
    Line(Box<Line>),
    /// A cryptographic device as our functions call it.
    Device(Box<esp::DeviceAlone>),
    /// The same by DPDK's program.
    CryptoPerf(Operation),
}

/// All that can be measured here; what cannot is noted.
pub fn all<'r>(parameters: &Parameters, run: &mut Run<'r>) -> Vec<System<'r>> {
    let mut systems = in_memory(run);
    systems.extend(between_interfaces(run));
    systems.extend(cryptographic(parameters, run));
    systems
}

fn ours<'r>(name: &str, kind: Kind, work: &'static str, what: What<'r>) -> System<'r> {
    System { name: name.to_owned(), kind, work, is_peer: false, what }
}

fn theirs<'r>(name: &str, kind: Kind, work: &'static str, what: What<'r>) -> System<'r> {
    System { is_peer: true, ..ours(name, kind, work, what) }
}

fn in_memory<'r>(run: &mut Run<'r>) -> Vec<System<'r>> {
    const SERIES: &str = "dpdk-testpmd macswap";
    let mut systems = vec![ours("weft, in memory", Kind::Memory, FORWARD, What::Node)];
    let how = "exchanges Ethernet addresses; its counters are read every 2 ms";
    match tell(run, testpmd::PROGRAM, (&["-v", "--help"], "RTE Version:"), how, &[SERIES]) {
        true => systems.push(theirs(SERIES, Kind::Memory, FORWARD, What::Testpmd)),
        false => run.note(testpmd::MISSING),
    }
    systems
}

/// Says what a peer is; whether it is there.
fn tell(
    run: &mut Run<'_>,
    program: &str,
    (words, mark): (&[&str], &str),
    how: &str,
    series: &[&str],
) -> bool {
    let Some(place) = run.rig.program(program) else { return false };
    let version = peers::version(&place, words, mark);
    run.peer(Peer {
        name: program.to_owned(),
        version: version.unwrap_or_else(|| "unknown".to_owned()),
        how: how.to_owned(),
        place: place.display().to_string(),
        series: series.iter().map(|&name| name.to_owned()).collect(),
    });
    true
}

fn between_interfaces<'r>(run: &mut Run<'r>) -> Vec<System<'r>> {
    let rig = run.rig;
    let mut systems = Vec::new();
    if let Err(missing) = rig.cores.traffic() {
        run.note(format!("Interfaces of the kernel: not measured, {missing}."));
        return systems;
    }
    if let Some(lacking) = kernel::lacking() {
        run.note(lacking);
        return systems;
    }
    systems.extend(ours_between(run));
    systems.extend(theirs_between(run));
    systems
}

/// The system, unless it cannot be measured here, which is noted.
fn there<'r>(
    run: &mut Run<'r>,
    name: &str,
    made: Result<System<'r>, Failure>,
) -> Option<System<'r>> {
    made.map_err(|error| run.note(format!("{name}: not measured: {error}."))).ok()
}

fn ours_between<'r>(run: &mut Run<'r>) -> Vec<System<'r>> {
    let (rig, mut systems) = (run.rig, Vec::new());
    let nat = (
        "nat".to_owned(),
        serde_json::json!({
            "function": "nat", "config": configure::nat(USERS * flows::FLOWS_OF_A_USER),
        }),
    );
    let translator = Setup::chain(USERS, vec![nat]).routed();
    for (name, work, setup) in [
        ("weft, forward, AF_PACKET", FORWARD, Setup::forwarding(USERS).routed()),
        ("weft, nat, AF_PACKET", TRANSLATE, translator),
    ] {
        let opened = Environment::AfPacket.open(rig, &setup);
        let system = opened
            .map(|opened| ours(name, Kind::Interfaces, work, What::Between(Box::new(opened))));
        systems.extend(there(run, name, system));
    }
    systems
}

fn theirs_between<'r>(run: &mut Run<'r>) -> Vec<System<'r>> {
    const KERNEL: &str = "Linux, ip route";
    const NFTABLES: &str = "Linux, nftables snat";
    const BRIDGE: &str = "Open vSwitch, userspace";
    let (rig, mut systems) = (run.rig, Vec::new());
    let line = |line: Line| What::Line(Box::new(line));
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let router = Line::of_routers(rig, 1, DESCRIPTORS);
    let system = router.map(|router| theirs(KERNEL, Kind::Interfaces, FORWARD, line(router)));
    if system.is_ok() {
        run.peer(Peer {
            name: "Linux".to_owned(),
            version: release.trim().to_owned(),
            how: "a route and a neighbour in a network namespace".to_owned(),
            place: "the kernel".to_owned(),
            series: vec![KERNEL.to_owned()],
        });
    }
    systems.extend(there(run, KERNEL, system));
    let how = "source addresses of users translated to four, in a network namespace";
    let is_there = rig.program(kernel::NFT).is_some();
    let made = is_there.then(|| Line::of_translator(rig, DESCRIPTORS));
    if let Some(made) = made {
        let made = made.map(|made| theirs(NFTABLES, Kind::Interfaces, TRANSLATE, line(made)));
        if made.is_ok() {
            tell(run, kernel::NFT, (&["--version"], "nftables"), how, &[NFTABLES]);
        }
        systems.extend(there(run, NFTABLES, made));
    } else {
        run.note(kernel::NFT_MISSING);
    }
    let how = "one flow in each direction from port to port";
    let words = (&["--version"][..], "ovs-vswitchd");
    let made = open_vswitch::is_installed().then(|| Line::of_bridges(rig, 1, DESCRIPTORS));
    if let Some(made) = made {
        let made = made.map(|made| theirs(BRIDGE, Kind::Interfaces, FORWARD, line(made)));
        if made.is_ok() {
            tell(run, "ovs-vswitchd", words, how, &[BRIDGE]);
        }
        systems.extend(there(run, BRIDGE, made));
    } else {
        run.note(open_vswitch::MISSING);
    }
    systems
}

fn cryptographic<'r>(parameters: &Parameters, run: &mut Run<'r>) -> Vec<System<'r>> {
    const SERIES: [&str; 2] =
        ["dpdk-test-crypto-perf, encrypting", "dpdk-test-crypto-perf, decrypting"];
    const OURS: [&str; 2] = ["weft, device alone, encrypting", "weft, device alone, decrypting"];
    const WORK: [&str; 2] = ["encrypt", "decrypt"];
    let rig = run.rig;
    if let Err(missing) = Device::open(rig.eal, esp::DEVICE) {
        run.note(format!("Cryptographic device: not measured, {missing}."));
        return Vec::new();
    }
    let mut systems = Vec::new();
    for (direction, (name, work)) in
        [Direction::Seal, Direction::Open].into_iter().zip(OURS.into_iter().zip(WORK))
    {
        match esp::DeviceAlone::of_octets(rig, direction, parameters.octets) {
            Ok(device) => {
                let what = What::Device(Box::new(device));
                systems.push(ours(name, Kind::Crypto, work, what));
            }
            Err(error) => run.note(format!("{name}: not measured: {error}.")),
        }
    }
    let words = (&["-v", "--help"][..], "RTE Version:");
    let how = "AES-GCM, keys of 128 bits, bursts of 32; its own cycles of a buffer, the time \
               that others had the core included";
    if !tell(run, crypto_perf::PROGRAM, words, how, &SERIES) {
        run.note(crypto_perf::MISSING);
        return systems;
    }
    let operations = [Operation::Encrypt, Operation::Decrypt];
    systems.extend(operations.into_iter().zip(SERIES.into_iter().zip(WORK)).map(
        |(operation, (name, work))| theirs(name, Kind::Crypto, work, What::CryptoPerf(operation)),
    ));
    systems
}

/// One measurement.
pub struct Trial<'a> {
    pub rig: &'a Rig,
    pub parameters: &'a Parameters,
    pub length: Duration,
}

impl Trial<'_> {
    /// What is measured, and how disturbed it was.
    ///
    /// # Errors
    /// Those of the system.
    pub fn make(&self, what: &mut What<'_>) -> Result<(Values, f64), Failure> {
        let Trial { rig, parameters, length } = *self;
        let bytes = parameters.frame_bytes;
        let capture = || rig.capture(Content::of(USERS, bytes));
        let offer = || Offer { load: uplink(USERS, bytes, Rate::Unlimited), duration: length };
        let (value, disturbance): (Value, f64) = match what {
            What::Node => {
                let setup = Setup::forwarding(USERS).routed();
                let (cost, disturbance) = rig.cost(&setup, &capture()?, length)?;
                (cost.cycles.into(), disturbance)
            }
            What::Testpmd => {
                let mode = testpmd::Mode::MacSwap;
                let (cost, disturbance) = testpmd::cost(rig, mode, &capture()?, length)?;
                (cost.cycles.into(), disturbance)
            }
            What::Between(opened) => {
                let ((arrivals, _), disturbance) = opened.open_loop.offer(&offer())?;
                ((arrivals.goodput() / 1e6).into(), disturbance)
            }
            What::Line(line) => {
                let arrivals = line.offer(rig, offer())?;
                ((arrivals.goodput() / 1e6).into(), arrivals.disturbance)
            }
            What::Device(device) => {
                let (cycles, disturbance) = rig.cost_alone(&mut **device, length)?;
                (cycles.into(), disturbance)
            }
            What::CryptoPerf(operation) => {
                let (octets, operations) = (parameters.octets, parameters.operations);
                let cycles = crypto_perf::cycles(rig, esp::DEVICE, *operation, octets, operations)?;
                (cycles.into(), 0.0)
            }
        };
        Ok((Values::of(value), disturbance))
    }
}
