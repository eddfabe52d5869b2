//! A node whose functions are at another one, which returns what it likes: an input is a list
//! of records, each packets of users, frames of the node that come back, changed or again,
//! service headers of a stranger, or time.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_dpdk::{Batch, Pool, Port, PortOptions, RxQueue, TxQueue};
use weft_functions::KINDS;
use weft_node::Node;
use weft_node_config as config;
use weft_wire::Protocol;

use crate::support::{eal, frame, record};

/// One function is far away with metadata of type 2, the other with metadata of type 1.
const ASKS: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: asks}
memory: {packets: 4095}
ports:
  access: {device: 'ring:asks-access', direction: uplink}
  core: {device: 'ring:asks-core', direction: downlink}
  fabric: {device: 'ring:asks-fabric', direction: uplink, mac: '02:00:00:00:00:01', mtu: 1700}
functions:
  before: {function: counter}
  far:
    function: marker
    config: {scope: bearer}
    composition: remote
    remote: {path: 10, downlinkPath: 11, port: fabric, to: '02:00:00:00:00:02', timeout: 20, probe: 10}
  fixed:
    function: counter
    composition: remote
    remote: {path: 12, downlinkPath: 13, port: fabric, to: '02:00:00:00:00:02', timeout: 20, probe: 10, metadata: 1}
users:
  - {name: ue, count: 8, match: {ipv4: 10.0.0.1}}
rules: |
  from access -> before
  from before -> far
  from core -> fixed
  from far when colour == red -> drop
  from far -> core
  from fixed -> access
  from fabric -> drop
";

const FABRIC: usize = 2;
/// Frames of the node that are kept to come back.
const KEPT: usize = 64;
/// Where the service index of a frame stands: behind Ethernet and seven octets.
const INDEX: usize = 14 + 7;
const MILLISECOND: u64 = 1_000_000;

struct Asks {
    node: Node,
    time: Arc<AtomicU64>,
    pool: Pool,
    far: Vec<(TxQueue, RxQueue, Port)>,
    kept: Vec<Vec<u8>>,
    /// Packets that users were sent or have sent, and that came out towards them.
    sent: u64,
    delivered: u64,
}

thread_local! {
    static ASKING: &'static RefCell<Asks> = Box::leak(Box::new(RefCell::new(Asks::new())));
}

impl Asks {
    fn new() -> Asks {
        let eal = eal();
        let blueprint =
            config::read(ASKS, "asks.yaml", KINDS).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let devices: Vec<_> = blueprint.ports.iter().map(|port| port.device.clone()).collect();
        let time = Arc::new(AtomicU64::new(1));
        let node = Node::build_timed(eal, blueprint, time.clone()).expect("the node builds");
        let pool = Pool::new(eal, "far-asks", 2047).expect("a pool");
        let open = |device: &String| {
            let port = Port::open(eal, device, &PortOptions::default(), &pool).expect("a port");
            (port.take_tx(0).expect("a queue"), port.take_rx(0).expect("a queue"), port)
        };
        let far = devices.iter().map(open).collect();
        Asks { node, time, pool, far, kept: Vec::new(), sent: 0, delivered: 0 }
    }

    /// Lets the node work; keeps what goes to the other node.
    fn settle(&mut self) {
        for _ in 0..3 {
            while self.node.step() {}
        }
        let mut batch = Batch::new();
        for (port, (_, rx, _)) in self.far.iter_mut().enumerate() {
            while rx.receive(&mut batch, 32) > 0 {
                match port {
                    FABRIC => self.kept.extend(batch.iter().map(|packet| packet.data().to_vec())),
                    _ => self.delivered += batch.iter().count() as u64,
                }
                batch.clear();
            }
        }
        let over = self.kept.len().saturating_sub(KEPT);
        self.kept.drain(..over);
    }

    fn send(&mut self, port: usize, frame: &[u8]) {
        let Some(packet) = self.pool.packet(frame) else { return };
        let mut batch = Batch::new();
        let _ = batch.push(packet);
        self.far[port].0.transmit(&mut batch);
        self.settle();
    }

    /// A frame of the node comes back, as a node that serves sends it.
    fn returns(&mut self, again: bool, at: usize, changes: &[u8]) {
        if self.kept.is_empty() {
            return;
        }
        let at = at % self.kept.len();
        let mut frame = if again { self.kept[at].clone() } else { self.kept.remove(at) };
        let (to, from) = frame[..12].split_at_mut(6);
        to.swap_with_slice(from);
        frame[INDEX] = frame[INDEX].wrapping_sub(1);
        for change in changes.chunks_exact(2) {
            if let Some(octet) = frame.get_mut(usize::from(change[0])) {
                *octet = change[1];
            }
        }
        self.send(FABRIC, &frame);
    }

    fn happens(&mut self, what: u8, octets: &[u8]) {
        let user = 1 + (what & 7);
        match what {
            0..=0x5f => {
                self.sent += 1;
                let transport = [&[0, 7, 0, 80, 0, 0, 0, 0], octets].concat();
                let (port, ends) = if what < 0x40 { (0, [user, 200]) } else { (1, [200, user]) };
                self.send(port, &frame(false, Protocol::UDP, ends, &transport));
            }
            0x60..=0xbf => {
                let (at, changes) = octets.split_first().unwrap_or((&0, &[]));
                self.returns(what & 7 == 7, usize::from(*at), changes);
            }
            0xc0..=0xdf => {
                let link = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x89, 0x4f];
                self.send(FABRIC, &[&link, octets].concat());
            }
            0xe0..=0xe7 => self.send(FABRIC, octets),
            _ => self.passes(u64::from(what & 7) * 7 * MILLISECOND),
        }
    }

    fn passes(&mut self, nanoseconds: u64) {
        self.time.fetch_add(nanoseconds, Ordering::Relaxed);
        self.settle();
    }

    fn run(&mut self, input: &[u8]) {
        // What came back has shown that the paths are there.
        self.kept.clear();
        self.passes(11 * MILLISECOND);
        while !self.kept.is_empty() {
            self.returns(false, 0, &[]);
        }
        (self.sent, self.delivered) = (0, 0);
        let mut rest = input;
        while let Some((what, octets)) = record(&mut rest) {
            self.happens(what, octets);
        }
        // Nothing waits for what does not come back.
        for _ in 0..10 {
            self.passes(10 * MILLISECOND);
        }
        let seen = self.node.agent().snapshot();
        let away = seen.functions.iter().filter_map(|one| one.process.as_ref());
        away.for_each(|one| assert_eq!(one.away, 0, "{one:?}"));
    }
}

/// Runs one input.
pub fn run(input: &[u8]) {
    ASKING.with(|asks| asks.borrow_mut().run(input));
}
