//! The way of a packet allocates nothing: counted, for every kind of traffic
//! that a worker handles.

#[path = "it/common/mod.rs"]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::{Rig, udp, udp_to};
use weft_dpdk::Batch;
use weft_wire::{MacAddress, ipv4};

/// The system's allocator, which counts what a thread asks for while it is
/// watched.
struct Counting;

thread_local! {
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

fn note() {
    if WATCHED.get() {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
    }
}

// SAFETY: everything is passed on to the system's allocator as it came; the
// counters are plain cells of the thread and allocate nothing themselves.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promises are those that the system asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often `work` asked for memory.
fn allocations(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    WATCHED.set(true);
    work();
    WATCHED.set(false);
    ALLOCATIONS.get() - before
}

const NODE: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: allocation}
workers: {count: 2}
memory: {packets: 8191}
ports:
  access:
    device: 'ring:access'
    direction: uplink
    mac: 02:00:00:00:00:01
    addresses: [10.0.255.254/16]
    neighbours: {10.0.0.1: 02:00:00:00:01:01, 10.0.0.2: 02:00:00:00:01:02}
  core:
    device: 'ring:core'
    direction: downlink
    mac: 02:00:00:00:00:01
    mtu: 600
    worker: 1
    addresses: [198.51.100.254/24]
    neighbours: {198.51.100.1: 02:00:00:00:02:01, 198.51.100.9: 02:00:00:00:02:09}
  left: {device: 'ring:left', direction: uplink, network: wire}
  right: {device: 'ring:right', direction: downlink, network: wire, worker: 1}
functions:
  count: {function: counter, config: {payload: {offset: 16, width: 8}}}
  police:
    function: marker
    config:
      meter: {singleRate: {committedRate: 800 kbit/s, committedBurst: 1 kB, excessBurst: 1 kB}}
  shape:
    function: marker
    config:
      scope: group
      drop: red
      meter:
        twoRate: {committedRate: 8 Mbit/s, committedBurst: 2 kB,
                  peakRate: 8 Mbit/s, peakBurst: 2 kB}
  guard:
    function: filter
    config: {default: allow, rules: [{action: deny, protocol: udp, destinationPorts: 9}]}
  nearby:
    function: rewrite-address
    config: {destination: [{from: 198.51.100.9, to: 198.51.100.1}]}
  spend: {function: synthetic, config: {cycles: 10, accesses: 2, workingSet: 4 KiB}}
  swap: {function: forward}
  nothing: {function: pass}
  play: {function: mischief}
groups:
  all: {}
users:
  - {name: ue, count: 4, match: {ipv4: 10.0.0.1}, group: all, chain: full}
  - {name: wire, count: 4, match: {network: wire, ipv4: 10.0.0.1}}
  - {name: six, count: 4, match: {network: wire, ipv6: '2001:db8::'},
     bearers: [{name: web, when: 'destination-port == 80'}]}
rules: |
  chain full = count -> police -> guard -> nearby -> shape -> spend -> nothing
  from access when chain == full -> full
  from full when direction == downlink -> access
  from full when colour == red -> drop
  from full -> core
  from core when chain == full -> full
  from left -> play
  from right -> swap
  from play when colour == yellow -> drop
  from play when colour == red -> swap
  from play -> right
  from swap -> left
";

const ROUTER: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const SERVER: [u8; 4] = [198, 51, 100, 1];

/// What comes in at the routed ports.
fn routed(ttl: u8, user: u8, payload: &[u8]) -> Vec<u8> {
    udp_to(ROUTER, [10, 0, 0, user], SERVER, ttl, payload)
}

/// The second of two fragments.
fn fragment(user: u8) -> Vec<u8> {
    let mut frame = routed(64, user, &[5; 64]);
    let mut ip = ipv4::Packet::new_checked(&mut frame[14..]).unwrap();
    ip.set_fragment_offset(64);
    ip.fill_checksum();
    frame
}

/// Packets of many kinds, with the ports they come in at.
fn traffic() -> Vec<(usize, Vec<u8>)> {
    let mut all = Vec::new();
    for user in 1..=4 {
        for number in 0..6 {
            all.push((0, routed(64, user, &[number; 100])));
            all.push((1, udp_to(ROUTER, SERVER, [10, 0, 0, user], 64, &[number; 40])));
        }
        all.push((0, udp_to(ROUTER, [10, 0, 0, user], [198, 51, 100, 9], 64, &[1; 30])));
        // Cut to the MTU, at the end of its hops, without a route, a fragment.
        all.push((0, routed(64, user, &[9; 1000])));
        all.push((0, routed(1, user, b"last hop")));
        all.push((0, udp_to(ROUTER, [10, 0, 0, user], [203, 0, 113, 1], 64, b"nowhere")));
        all.push((0, fragment(user)));
        // For the node, for no user, for another station, malformed.
        all.push((0, udp_to(ROUTER, [10, 0, 0, user], [10, 0, 255, 254], 64, b"node")));
        all.push((0, udp_to(ROUTER, [10, 9, 0, user], SERVER, 64, b"stranger")));
        all.push((0, udp([10, 0, 0, user], SERVER, b"elsewhere")));
        all.push((0, vec![user; 20]));
        // All that a function may ask for, and colours that branch.
        for order in ["k0", "k1", ".0", "c1", "g0", "r0", "t0", "d0", ".1", ".2", "k2"] {
            all.push((2, udp([10, 0, 0, user], SERVER, order.as_bytes())));
        }
        all.push((3, udp(SERVER, [10, 0, 0, user], b"back")));
        all.push((2, six(user)));
    }
    all
}

/// An IPv6 packet with an extension header.
fn six(user: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 0xee, 2, 0, 0, 0, 0, 0xaa, 0x86, 0xdd];
    frame.extend_from_slice(&[0x60, 0, 0, 0, 0, 16, 60, 64]);
    frame.extend_from_slice(&[0x20, 1, 0xd, 0xb8, 0, 0, 0, user - 1, 0, 0, 0, 0, 0, 0, 0, 7]);
    frame.extend_from_slice(&[0x20, 1, 0xd, 0xb8, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
    frame.extend_from_slice(&[17, 0, 1, 4, 0, 0, 0, 0]);
    frame.extend_from_slice(&[3, 0xe8, 0, 80, 0, 8, 0, 1]);
    frame
}

/// Sends all of the traffic; returns how often the workers asked for memory.
fn round(rig: &mut Rig, traffic: &[(usize, Vec<u8>)]) -> usize {
    let mut batch = Batch::new();
    let mut sum = 0;
    for some in traffic.chunks(24) {
        for (port, frame) in some {
            batch.push(rig.pool.packet(frame).unwrap()).unwrap();
            rig.far[*port].tx.transmit(&mut batch);
        }
        for worker in rig.node.workers() {
            sum += allocations(|| while worker.poll() {});
        }
        // Stages handle what went there, and workers carry it on.
        while rig.node.waits_for_functions() {
            sum += allocations(|| {
                rig.node.poll_stages();
            });
            for worker in rig.node.workers() {
                sum += allocations(|| while worker.poll() {});
            }
        }
        rig.settle();
        // Timers run out, and token buckets fill a little.
        rig.time.fetch_add(1_000_000, std::sync::atomic::Ordering::Relaxed);
        for worker in rig.node.workers() {
            sum += allocations(|| while worker.poll() {});
        }
    }
    (0..rig.far.len()).for_each(|port| drop(rig.receive(port)));
    sum
}

fn count(forwarding: &str) {
    let mut rig = Rig::new(&format!("{NODE}\nforwarding: {forwarding}"));
    rig.settle();
    let traffic = traffic();
    // Next hops are asked for, and functions meet their users.
    round(&mut rig, &traffic);
    let warm = rig.node.agent().snapshot();
    assert_eq!((1..=5).map(|_| round(&mut rig, &traffic)).sum::<usize>(), 0);
    let now = rig.node.agent().snapshot();
    // The traffic was what it is said to be.
    assert_eq!(now.received() - warm.received(), 5 * traffic.len() as u64);
    assert!(now.sent() > warm.sent() + 300, "{:?}", now.drops);
    assert!(now.fragments > warm.fragments && now.emitted > warm.emitted);
    assert!(now.local > warm.local && now.originated > warm.originated);
    assert!(now.workers.iter().all(|worker| worker.handed_over > 0));
    assert!(now.functions.iter().all(|function| function.packets > 0), "{:?}", now.functions);
    for reason in ["rule", "marker_red", "unknown_user", "ttl_exceeded", "no_route", "mischief"] {
        assert!(rig.drops(reason) > 0, "{reason}");
    }
    assert_eq!(rig.drops("function_panic"), 0);
}

#[test]
fn compiled_forwarding_allocates_nothing() {
    count("compiled");
}

#[test]
fn lookup_forwarding_allocates_nothing() {
    count("lookup");
}

#[test]
fn functions_at_stages_allocate_nothing() {
    count("compiled\ncomposition: thread");
}

/// A station whose user a test moves by hand.
const STATION: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: station}
memory: {packets: 4095}
gtpu: {echoInterval: 0}
ports:
  radio: {device: 'ring:radio', direction: uplink}
  core:
    device: 'ring:core'
    direction: downlink
    mac: 02:00:00:00:00:02
    addresses: [10.1.0.1/24]
    neighbours: {10.1.0.254: 02:00:00:00:00:01, 10.1.0.2: 02:00:00:00:00:03}
functions:
  from-anchor: {function: gtpu-decapsulate}
  to-anchor: {function: gtpu-encapsulate}
users:
  - {name: ue, match: {ipv4: 10.0.0.1}}
rules: |
  from radio -> to-anchor
  from to-anchor -> core
  from core -> from-anchor
  from from-anchor -> radio
handover:
  node: 2
  role: station
  address: 10.1.0.1
  tunnel: to-anchor
  users: [{name: ue, first: 5}]
  peers: [{node: 1, address: 10.1.0.254}, {node: 3, address: 10.1.0.2}]
  gates: {packets: 20}
";

#[test]
fn gates_allocate_nothing_for_a_packet() {
    use weft_mobility_protocol::{Envelope, Epoch, Incarnation, Leg, Message, NodeId, Step, User};

    let mut rig = Rig::new(STATION);
    let life = Incarnation(9);
    let mail = rig.node.agent().join_handover(life, b"a secret of nodes").unwrap();
    let tell = |rig: &mut Rig, epoch, step| {
        let (from, from_incarnation) = (NodeId::CONTROLLER, Incarnation(0));
        let (to, to_incarnation) = (NodeId(2), life);
        let message = Message::Handover { user: User(5), epoch: Epoch(epoch), step };
        let envelope = Envelope { from, from_incarnation, to, to_incarnation, message };
        mail.to_node.send(envelope).unwrap();
        rig.settle();
    };
    let frames: Vec<_> =
        (0..24).map(|number| (0, udp([10, 0, 0, 1], SERVER, &[number; 50]))).collect();
    let carried = |rig: &mut Rig| {
        let (sent, full) = (rig.node.agent().snapshot().sent(), rig.drops("gate_full"));
        let asked = round(rig, &frames);
        (asked, rig.node.agent().snapshot().sent() - sent, rig.drops("gate_full") - full)
    };
    // It waits, and the gate is full.
    let prepare = Step::Prepare { source: None, kept: None, anchor: NodeId(1), settled: Epoch(0) };
    tell(&mut rig, 7, prepare);
    assert_eq!(carried(&mut rig), (0, 0, 4));
    // It is processed behind the gate, and without one.
    tell(&mut rig, 7, Step::Adopt { lost: false });
    assert_eq!(carried(&mut rig), (0, 24, 0));
    rig.advance(400_000_000);
    assert_eq!(rig.node.agent().handover_view().unwrap().gated, 0);
    assert_eq!(carried(&mut rig), (0, 24, 0));
    // It is forwarded, to a next hop that has to be found first.
    let target = Leg { node: NodeId(3), incarnation: life, epoch: Epoch(8) };
    tell(&mut rig, 8, Step::Move { target });
    carried(&mut rig);
    assert_eq!(carried(&mut rig), (0, 24, 0));
}
