//! Functions that are fused do what they do when they are called, and the rules
//! around them may change at any time.

#[path = "it/common/mod.rs"]
mod common;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use common::apart::Hosted;
use common::scenario::{Scenario, Sent, send, traffic};
use common::{Rig, blueprint, udp};
use proptest::prelude::*;
use proptest::sample::select;
use weft_node::{NotComposed, Refused, Wanted};
use weft_node_config::Composition;

/// What the names of a [`Scenario`] stand for here; the last one colours packets.
const FUNCTIONS: [(&str, &str); 5] = [
    ("count", "counter"),
    (
        "again",
        "filter, config: {default: allow, rules: [{action: deny, source: 10.0.1.2},\
         {action: deny, destinationPorts: 2001, protocol: tcp}]}",
    ),
    ("nothing", "rewrite-address, config: {source: [{from: 10.0.0.0/16, to: 100.64.0.0/16}]}"),
    ("swap", "forward"),
    (
        "play",
        "marker, config: {meter: {singleRate: {committedRate: 8 kbit/s, committedBurst: 200 B,\
         excessBurst: 100 B}}}",
    ),
];

/// What came out of a node, and all that it counted.
type Seen =
    ([Vec<Vec<u8>>; 2], Vec<(String, u64, u64)>, Vec<(Option<String>, String, u64)>, Vec<u64>);

fn run(
    scenario: &Scenario,
    head: &str,
    functions: [(&str, &str); 5],
    packets: &[Sent],
    at_once: usize,
) -> Seen {
    let mut rig = Rig::new(&scenario.yaml_of(head, functions));
    for packets in packets.chunks(3 * at_once) {
        send(&mut rig, scenario, packets, at_once);
        rig.advance(7_000_000);
    }
    let out = [0, 1].map(|port| rig.receive(port));
    let end = rig.node.stop();
    let functions =
        end.functions.iter().map(|one| (one.name.clone(), one.packets, one.bytes)).collect();
    let drops = end.drops.iter().map(|one| (one.function.clone(), one.reason.clone(), one.packets));
    (out, functions, drops.collect(), vec![end.received(), end.sent(), end.panics])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn fused_functions_do_what_called_ones_do(
        scenario in Scenario::any(),
        packets in traffic("..."),
        at_once in 1..32usize,
        called in prop::option::of(select(vec![0, 1, 2, 3, 4])),
    ) {
        let _alone = alone();
        // One of them may be called all the same.
        let mut mixed = FUNCTIONS;
        let text = called.map(|at: usize| format!("{}, composition: call", FUNCTIONS[at].1));
        if let (Some(at), Some(text)) = (called, &text) {
            mixed[at].1 = text;
        }
        let call = run(&scenario, "composition: call", FUNCTIONS, &packets, at_once);
        let fused = run(&scenario, "composition: fused\nfused: always", mixed, &packets, at_once);
        prop_assert_eq!(&call, &fused);
    }
}

const CHAIN: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: fused}
composition: fused
fused: always
ports:
  access: {device: 'ring:access', direction: uplink}
  core: {device: 'ring:core', direction: downlink}
functions:
  count: {function: counter}
  first: {function: pass}
  second: {function: forward}
  third: {function: forward}
users:
  - {name: ue, match: {ipv4: 10.0.0.1}, chain: one}
";

/// The rules of a chain of these functions.
fn rules(functions: &str) -> String {
    format!(
        "{CHAIN}rules: |\n  chain one = {functions}\n  from access when chain == one -> one\n  \
         from one -> core\n  from core -> access\n"
    )
}

/// Held by each test that links code: one of them counts the mappings of the process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Mappings of machine code that belong to no file.
fn code_mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains("r-xp") && line.ends_with(" 0 ")).count()
}

const COMPOSITIONS: [Composition; 5] = [
    Composition::Process,
    Composition::Call,
    Composition::Thread,
    Composition::Process,
    Composition::Fused,
];

/// Runs `count` otherwise, as soon as that can be.
fn compose(rig: &mut Rig, composition: Composition) {
    let wanted = Wanted { composition, stage: None, core: None };
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let done = rig.node.agent().compose("count", &wanted);
        rig.settle();
        match done {
            Ok(_) => return,
            Err(NotComposed::NotYet(_) | NotComposed::Refused(Refused::Busy))
                if Instant::now() < until => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// The rules change again and again while traffic runs: nothing is lost, contexts
/// go on, and code that is no longer used is given back. `RELINKS` says how often. One
/// function goes through the other compositions meanwhile.
#[test]
fn rules_change_while_traffic_runs() {
    let _alone = alone();
    let relinks = std::env::var("RELINKS").map_or(300, |text| text.parse().unwrap());
    let ways = ["count -> first", "count -> second -> third", "count -> first -> second"];
    let folder = tempfile::TempDir::new().unwrap();
    let ring = folder.path().join("count");
    let process = format!("process: {{start: elsewhere, socket: '{}'}}", ring.display());
    let rules = |way| rules(way).replace("counter}", &format!("counter, {process}}}"));
    let mut rig = Rig::new(&rules(ways[0]));
    let _process = Hosted::start("counter", ring, Vec::new());
    let frame = udp([10, 0, 0, 1], [198, 51, 100, 1], b"x");
    let devices: Vec<_> =
        rig.node.agent().blueprint().ports.iter().map(|port| port.device.clone()).collect();
    for number in 0..relinks {
        let mut next = blueprint(&rules(ways[(number + 1) % ways.len()]));
        for (port, device) in next.ports.iter_mut().zip(&devices) {
            port.device.clone_from(device);
        }
        if number % 8 == 1 {
            compose(&mut rig, COMPOSITIONS[number / 8 % COMPOSITIONS.len()]);
        }
        let count = rig.node.agent().blueprint().functions[0].clone();
        (next.functions[0].composition, next.functions[0].stage) = (count.composition, count.stage);
        rig.node.agent().apply(next).expect("the change is good");
        rig.send(0, std::slice::from_ref(&frame));
        let fused = rig.node.agent().fused();
        let is_fused = count.composition == Composition::Fused;
        assert!(!is_fused || fused.contains(ways[(number + 1) % ways.len()]), "{fused}");
        assert_eq!(rig.receive(1).len(), 1);
        // That of the plan at work, and of one that may be on its way back.
        let mappings = code_mappings();
        assert!(mappings <= 2, "{mappings} mappings of code");
    }
    let count = rig.node.agent().snapshot().functions;
    assert_eq!(count[0].packets, relinks as u64);
    compose(&mut rig, Composition::Call);
    let (_, answer) = rig.node.agent().contexts_of("ue").unwrap();
    rig.settle();
    let shown = answer.recv().unwrap();
    assert_eq!(shown[0].1[0], ("packets", relinks as u64));
}

#[test]
fn a_function_that_cannot_be_fused_says_so() {
    let _alone = alone();
    let yaml = rules("count -> first").replace(
        "{function: counter}",
        "{function: counter, config: {payload: {offset: 1025, width: 4}}, composition: fused}",
    );
    let mistakes = weft_node_config::read(&yaml, "node.yaml", &common::KINDS).unwrap_err();
    let text = mistakes.to_string();
    assert!(text.contains("counter cannot be fused under this configuration"), "{text}");
}
