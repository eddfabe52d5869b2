//! What a function in a process of its own costs the node's core, beside the same
//! function called: cycles per packet of the rounds of the worker that had
//! something to do. Both nodes run in turn in one thread.
//!
//!     WEFT_PROGRAM=target/release/weft cargo run --release -p weft-node --example isolated

use std::time::Duration;

use weft_dpdk::{Batch, Eal, EalOptions, Pool, Port, PortOptions, RxQueue, TxQueue, tsc};
use weft_node::Node;
use weft_node_config as config;

const ROUNDS: usize = 9;
const PACKETS: u64 = 400_000;
const AT_ONCE: usize = 128;

fn yaml(name: &str, composition: &str) -> String {
    format!(
        "
apiVersion: weft/v1
kind: Node
metadata: {{name: {name}}}
workers: {{polling: busy}}
ports:
  access: {{device: \"ring:{name}-access\", direction: uplink}}
  core: {{device: \"ring:{name}-core\", direction: downlink}}
functions:
  count: {{function: counter, composition: {composition}}}
users:
  - {{name: ue, count: 64, match: {{ipv4: 10.0.0.1}}, chain: full}}
rules: |
  chain full = count
  from access -> full
  from full -> core
  from core -> drop
"
    )
}

/// A node and the far ends of its ports.
struct Rig {
    node: Node,
    source: TxQueue,
    sink: RxQueue,
}

impl Rig {
    fn new(eal: &'static Eal, pool: &Pool, name: &str, composition: &str) -> Rig {
        let blueprint = config::read(&yaml(name, composition), name, weft_functions::KINDS);
        let node = Node::build(eal, blueprint.expect("a configuration")).expect("a node");
        let open = |port: &str| {
            let device = format!("ring:{name}-{port}");
            Port::open(eal, &device, &PortOptions::default(), pool).expect("a ring")
        };
        let (source, sink) = (open("access").take_tx(0), open("core").take_rx(0));
        if let Some(function) = node.wait_for_functions(Duration::from_secs(10)) {
            panic!("{function} does not come; WEFT_PROGRAM names the program");
        }
        Rig { node, source: source.expect("a queue"), sink: sink.expect("a queue") }
    }

    /// Cycles of the node's rounds that had something to do, per packet.
    fn cycles(&mut self, pool: &Pool) -> f64 {
        let (mut sent, mut came, mut busy) = (0u64, 0u64, 0u64);
        let mut batch = Batch::new();
        while came < PACKETS {
            while (sent - came) as usize + 32 <= AT_ONCE && sent < PACKETS {
                for number in 0..32 {
                    let frame = frame(((sent + number) % 64) as u8 + 1);
                    batch.push(pool.packet(&frame).expect("a buffer")).expect("room");
                }
                sent += 32;
                self.source.transmit(&mut batch);
            }
            let worker = &mut self.node.workers()[0];
            let start = tsc::now();
            let any = worker.poll();
            if any {
                busy += tsc::now() - start;
            }
            came += self.sink.receive(&mut batch, 64) as u64;
            batch.clear();
        }
        busy as f64 / PACKETS as f64
    }
}

fn frame(user: u8) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
    let head = [0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, user, 198, 51, 100, 1];
    frame[14..34].copy_from_slice(&head);
    let sum: u32 = head.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame[34..42].copy_from_slice(&[0x10, 0, 0x20, 0, 0, 26, 0, 0]);
    frame
}

fn main() {
    // The function gets the other cores: it is started before this thread is bound.
    let options = EalOptions { memory_megabytes: 256, ..EalOptions::default() };
    let eal = Eal::start(&options).expect("memory for the environment");
    let _registration = eal.register_thread();
    let pool = Pool::new(eal, "traffic", 4095).expect("memory for packets");
    let mut called = Rig::new(eal, &pool, "called", "call");
    let mut isolated = Rig::new(eal, &pool, "isolated", "process");
    weft_dpdk::pin_to_core(0).expect("a core");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (call, process) = (called.cycles(&pool), isolated.cycles(&pool));
        println!("round {round}: called {call:.1}, isolated {process:.1} cycles per packet");
        ours.push(process - call);
        theirs.push(call);
    }
    ours.sort_by(f64::total_cmp);
    theirs.sort_by(f64::total_cmp);
    println!(
        "isolated adds {:.1} [{:.1} … {:.1}] to {:.1} cycles per packet",
        ours[ROUNDS / 2],
        ours[0],
        ours[ROUNDS - 1],
        theirs[ROUNDS / 2],
    );
}
