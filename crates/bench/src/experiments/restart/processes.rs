//! Processes that take a node over from each other while packets pass it between interfaces of
//! the kernel: how many of these are lost.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use weft_dpdk::{Pool, Port, PortOptions};
use weft_rig::environments::af_packet;
use weft_rig::machine::program::Program;
use weft_rig::network::cable::Cable;
use weft_rig::{Failure, Rig, uplink};
use weft_traffic::{Expected, Rate, Receiver, Source};

use super::trial::{DESCRIPTORS, FRAME_BYTES, PACKETS};

/// For how long packets pass before, between and behind upgrades.
const STEADY: Duration = Duration::from_millis(300);
/// Between two looks at what is due and what has arrived.
const PAUSE: Duration = Duration::from_micros(100);
/// Packets that do not arrive for so long do not arrive any more.
const LATE: Duration = Duration::from_millis(500);

/// What became of the packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passed {
    /// Packets that were sent and did not arrive.
    pub lost: u64,
    /// Packets that arrived twice, or behind later ones of their user.
    pub disordered: u64,
}

/// Sends packets of `users` at `rate` a second through a node that goes from process to process
/// so many times.
///
/// # Errors
/// When the machine lacks something, or a process does not take the node over.
pub fn upgrades(rig: &Rig, (users, rate): (u32, f64), count: u32) -> Result<Passed, Failure> {
    let folder = tempfile::tempdir()?;
    let (access, core) = (Cable::lay(rig)?, Cable::lay(rig)?);
    write_node(&folder, [&access.near, &core.near].map(|end| af_packet(rig, end)), users)?;
    let mut node = start(&folder, 0)?;
    let pool = Pool::new(rig.eal, &format!("traffic{}", rig.serial()), PACKETS)?;
    let options = PortOptions { descriptors: DESCRIPTORS, ..PortOptions::default() };
    let access_port = Port::open(rig.eal, &af_packet(rig, &access.far), &options, &pool)?;
    let core_port = Port::open(rig.eal, &af_packet(rig, &core.far), &options, &pool)?;
    let queues = access_port.take_tx(0).zip(core_port.take_rx(0));
    let (mut tx, mut rx) = queues.ok_or("a device without queues")?;
    let load = uplink(users, FRAME_BYTES, Rate::Packets(rate));
    let mut source = Source::of(&load)?;
    let expected = load.shares.iter().map(|share| Expected::of(&share.template, share.users));
    let mut receiver = Receiver::new(expected);
    let are_over = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        let carrying = scope.spawn(|| {
            let _registration = rig.eal.register_thread();
            while !are_over.load(Ordering::Acquire) {
                source.send(&mut tx, &pool);
                receiver.receive(&mut rx);
                thread::sleep(PAUSE);
            }
            source.finish();
            let mut last = Instant::now();
            while last.elapsed() < LATE {
                if receiver.receive(&mut rx) > 0 {
                    last = Instant::now();
                }
            }
        });
        // Processes end with the thread that has started them.
        let outcome = go_over(&folder, &mut node, count);
        are_over.store(true, Ordering::Release);
        carrying.join().map_err(|_| "the thread of the traffic has panicked")?;
        outcome
    });
    outcome?;
    let streams = receiver.streams().iter();
    let received: u64 = streams.clone().map(|stream| stream.received).sum();
    if received == 0 {
        return Err("the node lets nothing pass".into());
    }
    Ok(Passed {
        lost: source.tally().sent.saturating_sub(received),
        disordered: streams.map(|stream| stream.duplicated + stream.reordered).sum(),
    })
}

fn go_over(folder: &TempDir, node: &mut Program, count: u32) -> Result<(), Failure> {
    thread::sleep(STEADY);
    for number in 1..=count {
        let next = start(folder, number)?;
        std::mem::replace(node, next).until_ended()?;
        thread::sleep(STEADY);
    }
    Ok(())
}

/// The configuration of a node with these devices.
fn write_node(folder: &TempDir, [access, core]: [String; 2], users: u32) -> Result<(), Failure> {
    let yaml = format!(
        "apiVersion: weft/v1\nkind: Node\nmetadata: {{name: bench}}\n\
         workers: {{polling: adaptive}}\n\
         ports:\n  access: {{device: '{access}', direction: uplink}}\n  \
         core: {{device: '{core}', direction: downlink}}\n\
         functions:\n  count: {{function: counter}}\n  \
         police: {{function: marker, config: {{meter: {{singleRate: \
         {{committedRate: 1 Gbit/s, committedBurst: 64 KiB}}}}}}}}\n\
         users:\n  - {{name: ue, count: {users}, match: {{ipv4: 10.0.0.0}}}}\n\
         rules: |\n  from access -> count\n  from count -> police\n  from police -> core\n  \
         from core -> access\n"
    );
    Ok(fs::write(folder.path().join("node.yaml"), yaml)?)
}

/// Starts the process of that number, and waits until packets pass it. All but the first take the
/// node over.
fn start(folder: &TempDir, number: u32) -> Result<Program, Failure> {
    let path = |name: &str| folder.path().join(name);
    let program = Program::start(&path(&format!("log-{number}")), |command| {
        command.arg("run");
        if number > 0 {
            command.arg("--take-over");
        }
        command.arg(path("node.yaml")).env("WEFT_SOCKET", path("node.sock"));
    })?;
    program.until_ready()?;
    Ok(program)
}
