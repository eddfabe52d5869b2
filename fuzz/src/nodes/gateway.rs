//! A gateway that random inputs drive: frames into its ports, commands, and time. An
//! input is a list of records: what is done, a length, and the bytes of a frame.
//!
//! What comes in is accounted for after every input: received, emitted, originated and
//! additional fragments are sent, dropped by name, given to the agent, or wait; and in
//! the end nothing waits.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_dpdk::{Batch, Pool, Port, PortOptions, RxQueue, TxQueue};
use weft_functions::KINDS;
use weft_node::Node;
use weft_node::bearer::{BearerId, WrittenCommand};
use weft_node::show::Snapshot;
use weft_node_config as config;

use crate::support::{eal, record};

/// A UPF, a serving gateway and users of a prefix; a bearer of one user can be stopped.
const GATEWAY: &str = include_str!("gateway.yaml");

/// Commands that a record can ask for.
const COMMANDS: [&str; 6] = [
    r#"{"add": {"id": 1, "like": "ue", "match": {"teid": 16384, "ipv4": "10.45.2.1"}}}"#,
    r#"{"change": {"id": 1, "action": "notify"}}"#,
    r#"{"change": {"id": 1, "action": "forward", "endMarker": true,
        "functions": {"to-radio": {"tunnel": {"teid": 9, "peer": "10.0.0.1", "local": "10.0.0.254"}}}}}"#,
    r#"{"change": {"id": 1, "endMarker": true,
        "functions": {"to-radio": {"tunnel": {"teid": 10, "peer": "10.0.0.2", "local": "10.0.0.254"}}}}}"#,
    r#"{"add": {"id": 2, "of": 1, "match": {"qfi": 3}}}"#,
    r#"{"remove": 1}"#,
];

/// Nanoseconds that the clock goes on with some records.
const PAUSE: u64 = 1_500_000_000;

/// A node and the far ends of its ports.
pub(super) struct Gateway {
    node: Node,
    time: Arc<AtomicU64>,
    pool: Pool,
    far: Vec<(TxQueue, RxQueue, Port)>,
}

thread_local! {
    /// One goes on from input to input; it is never taken down.
    static GATEWAY_UNDER_TEST: &'static RefCell<Gateway> =
        Box::leak(Box::new(RefCell::new(Gateway::new("fuzzed", "call"))));
}

impl Gateway {
    /// A gateway of this name whose functions are run so, those that can be.
    pub(super) fn new(name: &str, composition: &str) -> Gateway {
        let eal = eal();
        let text = GATEWAY
            .replace("ring:", &format!("ring:{name}-"))
            .replace("composition: call", &format!("composition: {composition}"));
        let blueprint = config::read(&text, "gateway.yaml", KINDS)
            .unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let devices: Vec<_> = blueprint.ports.iter().map(|port| port.device.clone()).collect();
        let time = Arc::new(AtomicU64::new(1));
        let node = Node::build_timed(eal, blueprint, time.clone()).expect("the node builds");
        let pool = Pool::new(eal, &format!("far-{name}"), 2047).expect("a pool");
        let open = |device: &String| {
            let port = Port::open(eal, device, &PortOptions::default(), &pool).expect("a port");
            (port.take_tx(0).expect("a queue"), port.take_rx(0).expect("a queue"), port)
        };
        let far = devices.iter().map(open).collect();
        Gateway { node, time, pool, far }
    }

    /// Lets the node work until it rests.
    fn work(&mut self) {
        for _ in 0..3 {
            while self.node.step() {}
        }
    }

    /// Lets the node work, and takes what has come out of ports.
    fn settle(&mut self, take: &mut dyn FnMut(usize, &[u8])) {
        self.work();
        let mut batch = Batch::new();
        for (port, (_, rx, _)) in self.far.iter_mut().enumerate() {
            while rx.receive(&mut batch, 32) > 0 {
                batch.iter().for_each(|packet| take(port, packet.data()));
                batch.clear();
            }
        }
    }

    /// Sends a frame into a port.
    fn send(&mut self, port: usize, frame: &[u8]) {
        let Some(packet) = self.pool.packet(frame) else { return };
        let mut batch = Batch::new();
        let _ = batch.push(packet);
        self.far[port].0.transmit(&mut batch);
    }

    fn command(&mut self, number: usize) {
        let written = COMMANDS[number % COMMANDS.len()];
        let command: WrittenCommand = serde_json::from_str(written).expect("a command");
        // Most are refused: the bearer is there already, or not.
        let _ = self.node.agent().change_written(&[command]);
    }

    fn remove_bearers(&mut self) {
        for id in [2, 1] {
            let remove = WrittenCommand::Remove(BearerId(id));
            let _ = self.node.agent().change_written(&[remove]);
        }
    }

    /// Packets that wait for a next hop, an idle user or a function.
    fn waiting(&mut self) -> u64 {
        let snapshot = self.snapshot();
        let came =
            snapshot.received() + snapshot.emitted + snapshot.originated + snapshot.fragments;
        let went = snapshot.sent() + snapshot.dropped() + snapshot.local;
        assert!(went <= came, "more went than came: {came} {went} {:?}", snapshot.drops);
        came - went
    }
}

/// Packets that may wait: for idle users, and for the next hops of two ports.
const MAY_WAIT: u64 = 6 + 2 * 256;

/// Does what an input says, and checks that all is accounted for.
pub fn run(input: &[u8]) {
    GATEWAY_UNDER_TEST.with(|gateway| gateway.borrow_mut().play(input, &mut |_, _| ()));
}

impl Gateway {
    /// Does what an input says; gives away what comes out of ports, in the order it comes.
    pub(super) fn play(&mut self, input: &[u8], take: &mut dyn FnMut(usize, &[u8])) {
        let mut rest = input;
        while let Some((what, frame)) = record(&mut rest) {
            match what {
                0..=0x7f => self.send(0, frame),
                0x80..=0xdf => self.send(1, frame),
                0xe0..=0xef => self.command(usize::from(what - 0xe0)),
                0xf0..=0xf7 => {
                    self.time.fetch_add(PAUSE, Ordering::Relaxed);
                }
                _ => self.settle(take),
            }
        }
        self.settle(take);
        assert!(self.waiting() <= MAY_WAIT);
        // What waits for an idle bearer goes with it, and what waits for a next hop goes
        // when no host answers.
        self.remove_bearers();
        for _ in 0..100 {
            if self.waiting() == 0 {
                return;
            }
            self.time.fetch_add(PAUSE, Ordering::Relaxed);
            self.settle(take);
        }
        panic!("packets wait for ever: {:?}", self.snapshot());
    }

    /// What was counted so far.
    pub(super) fn snapshot(&mut self) -> Snapshot {
        self.node.agent().snapshot()
    }
}
