//! A function at another node, as the node goes over to another process: what is received while
//! packets are away is laid aside, up to a bound. Beyond it the upgrade is refused, and all passes.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use weft_dpdk::{Batch, Packet, Pool};
use weft_node::show::Snapshot;
use weft_node::{Node, Running};

use super::processes::{PATIENCE, hear};
use crate::common::{Far, KINDS, Rig, eal, udp};
use crate::remote::{MISCHIEF, serves};

/// A user of the function at the other node, and one without functions.
const ASKS: &str = r#"
apiVersion: weft/v1
kind: Node
metadata: {name: asks}
memory: {packets: {packets}}
ports:
  access: {device: "ring:access", direction: uplink, descriptors: {descriptors}}
  core: {device: "ring:core", direction: downlink, descriptors: {descriptors}}
  fabric: {device: "ring:fabric", direction: uplink, mac: "02:00:00:00:00:01", mtu: 1700}
functions:
  mischief:
    function: mischief
    composition: remote
    remote: {path: 10, downlinkPath: 11, port: fabric, to: "02:00:00:00:00:02", timeout: 60000,
             probe: 60000}
  copies: {function: mischief}
users:
  - {name: far, match: {ipv4: 10.1.0.0}, chain: far}
  - {name: near, match: {ipv4: 10.1.0.1}, chain: near}
rules: |
  chain far = mischief
  chain near = copies
  from access when chain == far -> far
  from access -> near
  from far -> core
  from near -> core
  from core -> drop
  from fabric -> drop
"#;

/// Numbers of ports.
const ACCESS: usize = 0;
const CORE: usize = 1;
const FABRIC: usize = 2;
/// Kinds of messages.
const OFFER: u8 = 0;
const PREPARED: u8 = 4;
const REFUSED: u8 = 12;
/// Packets that a worker lays aside at most.
const BOUND: usize = 2048;
/// A packet that has not come by then is not carried at present.
const SOON: Duration = Duration::from_millis(300);

/// A node that runs by itself, and the one with its function, which a test lets work.
struct World {
    far: Vec<Far>,
    pool: Pool,
    serves: Rig,
    /// Packets that were dropped before the path to that node was there.
    dropped: u64,
}

fn packet(user: u8, what: &[u8; 2], number: u16) -> Vec<u8> {
    udp([10, 1, 0, user], [198, 51, 100, 1], &[&what[..], &number.to_be_bytes()].concat())
}

fn dropped(snapshot: &Snapshot) -> u64 {
    snapshot.drops.iter().map(|drop| drop.packets).sum()
}

fn number(frame: &[u8]) -> u16 {
    u16::from_be_bytes([frame[44], frame[45]])
}

impl World {
    fn begin(packets: u32, descriptors: u32) -> (World, Running) {
        let yaml = ASKS
            .replace("{packets}", &packets.to_string())
            .replace("{descriptors}", &descriptors.to_string());
        let rig = Rig::of_kinds(&yaml, &KINDS, |blueprint| Node::build(eal(), blueprint)).unwrap();
        let Rig { node, far, pool, .. } = rig;
        let running = node.start(eal()).unwrap();
        let serves = Rig::new(&serves(2, 255, "02:00:00:00:00:01", MISCHIEF));
        let mut world = World { far, pool, serves, dropped: 0 };
        let begun = Instant::now();
        // The path is there once a packet comes back.
        while world.offer(&packet(0, b".0", 0)).await_core(1, SOON / 10).is_empty() {
            assert!(begun.elapsed() < PATIENCE, "the path does not come");
        }
        while !world.await_core(1, SOON).is_empty() {}
        world.dropped = dropped(&running.handle().ask(|agent| agent.snapshot()).unwrap());
        (world, running)
    }

    fn offer(&mut self, frame: &[u8]) -> &mut World {
        self.offer_at(ACCESS, frame);
        self
    }

    fn offer_at(&mut self, port: usize, frame: &[u8]) {
        let mut batch = Batch::new();
        batch.push(self.pool.packet(frame).unwrap()).unwrap();
        self.far[port].tx.transmit(&mut batch);
    }

    /// Packets at a port.
    fn come(&mut self, port: usize) -> Vec<Packet> {
        let (mut all, mut batch) = (Vec::new(), Batch::new());
        while self.far[port].rx.receive(&mut batch, 32) > 0 {
            all.extend(batch.drain());
        }
        all
    }

    /// The other node does its part.
    fn serve(&mut self) {
        let asked: Vec<_> = self.come(FABRIC).iter().map(|frame| frame.data().to_vec()).collect();
        asked.chunks(32).for_each(|frames| self.serves.send(0, frames));
        for frame in self.serves.receive(0) {
            self.offer_at(FABRIC, &frame);
        }
    }

    /// Numbers of packets that come to the core, while the other node serves, until there are so
    /// many, or none for a time.
    fn await_core(&mut self, count: usize, most: Duration) -> Vec<u16> {
        let (mut all, mut since) = (Vec::new(), Instant::now());
        while all.len() < count && since.elapsed() < most {
            self.serve();
            let came = self.come(CORE);
            if !came.is_empty() {
                since = Instant::now();
            }
            all.extend(came.iter().map(|frame| number(frame.data())));
        }
        all
    }

    /// Whether a packet of the user without functions passes.
    fn passes(&mut self, number: u16) -> bool {
        self.offer(&packet(1, b".0", number));
        let begun = Instant::now();
        while begun.elapsed() < SOON {
            if self.come(CORE).iter().any(|frame| self::number(frame.data()) == number) {
                return true;
            }
        }
        false
    }
}

/// Begins an upgrade, as far as packets wait. The line with which it ends, and the end of the new
/// process.
fn begin_upgrade<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    running: &'scope mut Running,
) -> (ScopedJoinHandle<'scope, String>, UnixStream) {
    let (to_new, mut to_old) = UnixStream::pair().unwrap();
    let given = scope.spawn(move || {
        let _registration = eal().register_thread();
        running.hand_over(eal(), to_new, &mut ()).unwrap_err().to_string()
    });
    assert_eq!(hear(&mut to_old), OFFER);
    to_old.write_all(&[1, 4, 0, 0, 0, 1, 0, 0, 0]).unwrap();
    while hear(&mut to_old) != PREPARED {}
    to_old.write_all(&[5, 1, 0, 0, 0, 0]).unwrap();
    (given, to_old)
}

#[test]
fn more_than_can_wait_for_another_node_is_refused_and_passes() {
    let (mut world, mut running) = World::begin(16_383, 4096);
    // One packet is at the other node, which says nothing until the upgrade is refused.
    world.offer(&packet(0, b".0", 0));
    let begun = Instant::now();
    let away = loop {
        assert!(begun.elapsed() < PATIENCE, "no packet goes to the other node");
        let frames = world.come(FABRIC);
        if !frames.is_empty() {
            break frames[0].data().to_vec();
        }
    };
    let (mut sent, mut came) = (1, 0);
    let why = thread::scope(|scope| {
        let (given, mut to_old) = begin_upgrade(scope, &mut running);
        // What comes before the old process lays packets aside is carried.
        while world.passes(sent) {
            (sent, came) = (sent + 1, came + 1);
            assert!(sent < 1000, "the old process goes on");
        }
        sent += 1;
        for _ in 0..BOUND + 200 {
            world.offer(&packet(1, b".0", sent));
            sent += 1;
        }
        assert_eq!(hear(&mut to_old), REFUSED);
        given.join().unwrap()
    });
    assert_eq!(
        why,
        "more packets come than can wait for those at functions at other nodes; try again with \
         less traffic, or call the functions back first (`weft ctl function NAME --composition \
         call --peer NODE`)"
    );
    // All that waited, in order, and what was away.
    let expected: Vec<_> = (came + 1..sent).collect();
    assert_eq!(world.await_core(expected.len(), PATIENCE), expected);
    world.serves.send(0, &[away]);
    assert_eq!(world.await_core(1, PATIENCE), [0]);
    let snapshot = running.stop().unwrap();
    assert_eq!(dropped(&snapshot), world.dropped, "{:?}", snapshot.drops);
}

#[test]
fn a_node_with_too_few_buffers_for_what_it_receives_goes_on() {
    let (mut world, mut running) = World::begin(2047, 128);
    // Copies of packets have buffers of the node, which it does not get back.
    let mut held = Vec::new();
    let mut take = |world: &mut World| {
        let before = held.len();
        world.offer(&packet(1, b"c0", 0));
        let begun = Instant::now();
        while held.len() == before {
            assert!(begun.elapsed() < PATIENCE, "no packet passes");
            held.extend(world.come(CORE));
        }
        // The copy is there with the packet, where there is a buffer for it.
        held.extend(world.come(CORE));
        held.len()
    };
    while running.handle().ask(|agent| agent.snapshot().buffers.available).unwrap() > 100 {
        take(&mut world);
    }
    let why = thread::scope(|scope| begin_upgrade(scope, &mut running).0.join().unwrap());
    assert_eq!(why, "too few packet buffers for what is received (`memory.packets`)");
    drop(held);
    assert!(world.passes(7));
    world.offer(&packet(0, b".0", 8));
    assert_eq!(world.await_core(1, PATIENCE), [8]);
    let snapshot = running.stop().unwrap();
    assert_eq!(dropped(&snapshot), world.dropped, "{:?}", snapshot.drops);
}
