//! Functions on threads of their own do what called ones do, whatever happens
//! meanwhile, and may be moved there and back at any time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::common::apart::Hosted;
use crate::common::scenario::{Scenario, Sent, overtaken, send, traffic};
use crate::common::{Far, Rig, panic_quietly, udp};
use proptest::prelude::*;
use weft_dpdk::{Batch, Pool};
use weft_node::show::Snapshot;
use weft_node::{Handle, NotComposed, Refused, Running, Wanted};
use weft_node_config::Composition;

/// What the names of a [`Scenario`] stand for here; the last one does what packets say.
const FUNCTIONS: [&str; 5] = ["counter", "tally", "pass", "forward", "mischief"];
const NAMES: [&str; 5] = ["count", "again", "nothing", "swap", "play"];

/// How one function is run.
const WAYS: [&str; 4] = [
    "composition: call",
    "composition: fused",
    "composition: thread, thread: {stage: first}",
    "composition: thread, thread: {stage: second}",
];

/// Held by each test: there is room for the packets of one node at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn functions(ways: [usize; 5]) -> [String; 5] {
    // Not every function here can be fused.
    let way = |at: usize| if ways[at] == 1 && [1, 4].contains(&at) { 0 } else { ways[at] };
    std::array::from_fn(|at| format!("{}, {}", FUNCTIONS[at], WAYS[way(at)]))
}

/// What came out of a node in any order, and all that it counted.
type Seen =
    ([Vec<Vec<u8>>; 2], Vec<(String, u64, u64)>, Vec<(Option<String>, String, u64)>, [u64; 3]);

fn run(
    scenario: &Scenario,
    ways: [usize; 5],
    packets: &[Sent],
    at_once: usize,
) -> (Seen, Vec<String>) {
    let functions = functions(ways);
    let named = std::array::from_fn(|at| (NAMES[at], functions[at].as_str()));
    let mut rig = Rig::new(&scenario.yaml_of("", named));
    for packets in packets.chunks(3 * at_once) {
        send(&mut rig, scenario, packets, at_once);
        rig.advance(7_000_000);
    }
    let mut out = [0, 1].map(|port| rig.receive(port));
    let wrong = out.iter().flat_map(|frames| overtaken(frames)).collect();
    out.iter_mut().for_each(|frames| frames.sort());
    let end = rig.node.stop();
    let functions =
        end.functions.iter().map(|one| (one.name.clone(), one.packets, one.bytes)).collect();
    let drops = end.drops.iter().map(|one| (one.function.clone(), one.reason.clone(), one.packets));
    ((out, functions, drops.collect(), [end.received(), end.sent(), end.panics]), wrong)
}

/// Whether a user's packets may go different ways in this scenario.
fn branches(scenario: &Scenario) -> bool {
    let text = format!("{scenario:?}");
    text.contains("Chain(")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn functions_at_stages_do_what_called_ones_do(
        scenario in Scenario::any(),
        packets in traffic("....dkrcgtp"),
        at_once in 1..32usize,
        ways in [0..4usize, 0..4, 0..4, 0..4, 0..4],
    ) {
        let _alone = alone();
        panic_quietly();
        // A packet that is released stands behind the others of a burst that is called,
        // and in its order in one that is not: who comes to such a function twice sees it.
        let packets: Vec<_> = packets
            .into_iter()
            .map(|mut packet| {
                if branches(&scenario) && "krt".contains(packet.order) {
                    packet.order = '.';
                }
                packet
            })
            .collect();
        let (called, before) = run(&scenario, [0; 5], &packets, at_once);
        let (mixed, wrong) = run(&scenario, ways, &packets, at_once);
        prop_assert_eq!(&called, &mixed);
        // Where packets of a user go one way, none overtakes another.
        if !branches(&scenario) && before.is_empty() {
            prop_assert_eq!(wrong, Vec::<String>::new());
        }
    }
}

const NODE: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: stages}
workers: {count: WORKERS}
memory: {packets: 8191}
ports:
  access: {device: 'ring:access', direction: uplink}
  core: {device: 'ring:core', direction: downlink}
functions:
  count: {function: counter, composition: thread, process: {start: elsewhere, socket: 'FOLDER/count', heartbeat: 60000}}
  again: {function: tally, process: {start: elsewhere, socket: 'FOLDER/again', heartbeat: 60000}}
  pass: {function: pass, composition: fused}
  play: {function: mischief, composition: thread, thread: {stage: other}}
users:
  - {name: ue, count: 6, match: {ipv4: 10.0.0.1}, chain: all}
  - {name: guest, count: 2, match: {ipv4: 10.0.0.7}, chain: all}
rules: |
  chain all = count -> again -> pass -> play
  from access when chain == all -> all
  from core when chain == all -> all
  from all when direction == uplink -> core
  from all -> access
";

/// Packets that are on their way at a time: as many as fit into the rings.
const AT_ONCE: usize = 192;

/// A node whose threads run, and what was sent to it.
struct Traffic {
    far: Vec<Far>,
    pool: Pool,
    handle: Handle,
    time: Arc<AtomicU64>,
    running: Running,
    sent: u64,
    out: [Vec<Vec<u8>>; 2],
    processes: Vec<Hosted>,
    _folder: tempfile::TempDir,
}

impl Traffic {
    fn new(workers: usize) -> Traffic {
        Traffic::of(NODE, workers)
    }

    fn of(node: &str, workers: usize) -> Traffic {
        panic_quietly();
        let folder = tempfile::TempDir::new().unwrap();
        let text = node.replace("WORKERS", &workers.to_string());
        let text = text.replace("FOLDER", folder.path().to_str().unwrap());
        let Rig { node, far, pool, time, .. } = Rig::new(&text);
        let start = |(kind, name)| Hosted::start(kind, folder.path().join(name), Vec::new());
        let processes = [("counter", "count"), ("tally", "again")].map(start).into();
        let running = node.start(crate::common::eal()).unwrap();
        let handle = running.handle();
        let out = [Vec::new(), Vec::new()];
        Traffic { far, pool, handle, time, running, sent: 0, out, processes, _folder: folder }
    }

    /// Sends packets, some of them with orders, and waits until all have left or were
    /// dropped; `meanwhile` happens while they are on their way.
    fn round(&mut self, orders: &[u8], meanwhile: impl FnOnce(&Handle)) {
        for _ in 0..AT_ONCE / 32 {
            for port in [0, 1] {
                let mut batch = Batch::new();
                for _ in 0..16 {
                    let number = self.sent;
                    self.sent += 1;
                    let user = [10, 0, 0, 1 + (number * 7 % 8) as u8];
                    let order = char::from(orders[number as usize % orders.len()]);
                    let (payload, host) = (format!("{order}0{number}"), [198, 51, 100, 1]);
                    let frame = match port {
                        0 => udp(user, host, payload.as_bytes()),
                        _ => udp(host, user, payload.as_bytes()),
                    };
                    batch.push(self.pool.packet(&frame).unwrap()).unwrap();
                }
                assert_eq!(self.far[port].tx.transmit(&mut batch), 16);
            }
        }
        meanwhile(&self.handle);
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            for (far, out) in self.far.iter_mut().zip(&mut self.out) {
                let mut batch = Batch::new();
                while far.rx.receive(&mut batch, 32) > 0 {
                    out.extend(batch.drain().map(|packet| packet.data().to_vec()));
                }
            }
            let left: usize = self.out.iter().map(Vec::len).sum();
            let seen = self.handle.ask(|agent| agent.snapshot()).unwrap();
            let dropped: u64 = seen.drops.iter().map(|drop| drop.packets).sum();
            if left as u64 + dropped == self.sent + seen.emitted {
                return;
            }
            assert!(Instant::now() < until, "{left} left and {dropped} dropped of {}", self.sent);
            std::thread::yield_now();
        }
    }

    /// Ends it: nothing was lost, doubled or overtaken.
    fn end(self) -> Snapshot {
        // They look for their node for as long as they live.
        drop(self.processes);
        let end = self.running.stop().expect("the agent ended");
        let dropped: u64 = end.drops.iter().map(|drop| drop.packets).sum();
        assert_eq!(end.received(), self.sent);
        assert_eq!(end.sent() + dropped, self.sent + end.emitted);
        for frames in &self.out {
            assert_eq!(overtaken(frames), Vec::<String>::new());
            let mut all: Vec<_> = frames.iter().map(|frame| &frame[42..]).collect();
            // But for those that ask for a copy.
            all.retain(|payload| payload[0] != b'c');
            let count = all.len();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), count, "none is doubled");
        }
        end
    }
}

/// The node chooses who stands on the thread. One of two functions that take long takes longer.
fn node_that_chooses() -> String {
    let long = |cycles: u32| format!("synthetic, config: {{cycles: {cycles}}}, thread: auto");
    NODE.replace("counter, composition: thread, process", "counter, thread: auto, process")
        .replace("tally, process", "tally, thread: auto, process")
        .replace("pass, composition: fused", &long(10_000))
        .replace("mischief, composition: thread, thread: {stage: other}", &long(16_000))
}

fn standing(handle: &Handle) -> Vec<(String, Composition, Option<String>)> {
    let seen = handle.ask(|agent| agent.snapshot()).unwrap();
    let functions = seen.functions.into_iter();
    functions.map(|one| (one.name, one.composition, one.chosen)).collect()
}

#[test]
fn the_node_splits_a_chain_by_what_its_functions_take() {
    // Beside other programs, cycles are measured that a function did not take.
    splits_a_chain(Some(&[20, 20, 10_000, 16_000]));
}

#[test]
#[ignore = "measures cycles, for which the machine has to be idle; `make soak` runs it"]
fn the_node_splits_a_chain_by_what_its_functions_are_measured_to_take() {
    splits_a_chain(None);
}

/// Cycles are `assumed`, or measured.
fn splits_a_chain(assumed: Option<&'static [u64]>) {
    let _alone = alone();
    let mut traffic = Traffic::of(&node_that_chooses(), 1);
    if let Some(functions) = assumed {
        traffic.handle.ask(|agent| agent.assume_cycles(100, functions)).unwrap();
    }
    let written = traffic.handle.ask(|agent| agent.blueprint().clone()).unwrap();
    let at = standing(&traffic.handle);
    assert!(at.iter().all(|(_, composition, _)| *composition == Composition::Call));
    let until = Instant::now() + Duration::from_secs(60);
    let of = |traffic: &Traffic, function: &str| {
        let mut at = standing(&traffic.handle).into_iter();
        at.find(|(name, ..)| name == function).unwrap()
    };
    while of(&traffic, "play").1 != Composition::Thread {
        traffic.round(b"....", |_| {});
        traffic.time.fetch_add(50_000_000, Ordering::Relaxed);
        assert!(Instant::now() < until, "{:?}", standing(&traffic.handle));
    }
    // The other one that takes long is not with it.
    assert_eq!(of(&traffic, "pass").1, Composition::Call);
    assert!(of(&traffic, "play").2.unwrap().contains("cycles per packet"));
    // What was chosen stays when the configuration is read again.
    while traffic
        .handle
        .ask({
            let written = written.clone();
            move |agent| agent.apply(written)
        })
        .unwrap()
        .is_err()
    {
        traffic.round(b"....", |_| {});
    }
    traffic.round(b"....", |_| {});
    assert_eq!(of(&traffic, "play").1, Composition::Thread);
    // An operator who says where a function stands has chosen.
    while traffic
        .handle
        .ask(|agent| agent.compose("play", &wanted(Composition::Call, None)))
        .unwrap()
        .is_err()
    {
        traffic.round(b"....", |_| {});
    }
    assert_eq!(of(&traffic, "play"), ("play".to_owned(), Composition::Call, None));
    let sent = traffic.sent;
    let end = traffic.end();
    assert!(end.drops.is_empty(), "{:?}", end.drops);
    for function in &end.functions {
        assert_eq!(function.packets, sent, "{}", function.name);
    }
}

fn wanted(composition: Composition, stage: Option<&str>) -> Wanted {
    Wanted { composition, stage: stage.map(str::to_owned), core: None }
}

/// Ways of functions one after the other.
fn next_way(number: usize) -> (&'static str, Wanted) {
    let function = ["count", "again", "play", "pass"][number % 4];
    let way = match number * 5 % 7 {
        3 | 6 if ["count", "again"].contains(&function) => wanted(Composition::Process, None),
        0 | 3 => wanted(Composition::Thread, Some("other")),
        1 | 5 => wanted(Composition::Thread, None),
        2 if ["count", "pass"].contains(&function) => wanted(Composition::Fused, None),
        4 => wanted(Composition::Thread, Some("third")),
        _ => wanted(Composition::Call, None),
    };
    (function, way)
}

/// Functions move between compositions and threads hundreds of times under traffic.
fn move_under_traffic(workers: usize) {
    let moves = std::env::var("MOVES").map_or(300, |text| text.parse().unwrap());
    let mut traffic = Traffic::new(workers);
    let mut moved = 0;
    while moved < moves {
        traffic.round(b".......d..c.......", |handle| {
            for _ in 0..4 {
                let (function, wanted) = next_way(moved);
                let done = handle.ask(move |agent| agent.compose(function, &wanted)).unwrap();
                match done {
                    Ok(changed) => assert_eq!(changed.functions_new, 0),
                    Err(NotComposed::Refused(Refused::Busy) | NotComposed::NotYet(_)) => break,
                    Err(other) => panic!("{other}"),
                }
                moved += 1;
            }
        });
    }
    let (sent, handle) = (traffic.sent, traffic.handle.clone());
    let back = wanted(Composition::Call, None);
    while let Err(error) = {
        let back = back.clone();
        handle.ask(move |agent| agent.compose("again", &back)).unwrap()
    } {
        assert!(matches!(error, NotComposed::Refused(Refused::Busy)), "{error}");
    }
    let mut users = 0;
    for user in ["ue-0", "ue-1", "ue-2", "ue-3", "ue-4", "ue-5", "guest-0", "guest-1"] {
        let (_, answer) = handle.ask(move |agent| agent.contexts_of(user)).unwrap().unwrap();
        let shown = answer.recv_timeout(Duration::from_secs(60)).unwrap();
        users += shown.iter().find(|(name, _)| name == "again").unwrap().1[0].1;
    }
    let end = traffic.end();
    assert_eq!(end.drops.iter().map(|drop| &*drop.reason).collect::<Vec<_>>(), ["mischief"]);
    assert_eq!(users, sent, "contexts went along");
    for function in &end.functions {
        assert_eq!(function.packets, sent, "{}", function.name);
    }
}

#[test]
fn functions_move_under_traffic_of_one_worker() {
    let _alone = alone();
    move_under_traffic(1);
}

#[test]
fn functions_move_under_traffic_of_two_workers() {
    let _alone = alone();
    move_under_traffic(2);
}

/// Drops, panics, users that are removed and come back, while packets are on their way.
#[test]
fn nothing_is_lost_while_users_come_and_go() {
    let _alone = alone();
    let mut traffic = Traffic::new(2);
    let full = traffic.handle.ask(|agent| agent.blueprint().clone()).unwrap();
    let mut changes = 0;
    while changes < 100 {
        let mut next = full.clone();
        if changes % 2 == 0 {
            next.users.pop();
        }
        traffic.round(b"....d....p...", |handle| {
            let done = handle.ask(move |agent| agent.apply(next)).unwrap();
            match done {
                Ok(_) => changes += 1,
                Err(Refused::Busy) => {}
                Err(other) => panic!("{other}"),
            }
        });
    }
    let end = traffic.end();
    let of = |reason: &str| -> u64 {
        end.drops.iter().filter(|one| one.reason == reason).map(|one| one.packets).sum()
    };
    assert!(of("mischief") > 0 && of("unknown_user") > 0);
    assert_eq!(of("function_panic"), end.panics);
    assert_eq!(of("backpressure") + of("function_full"), 0);
}
