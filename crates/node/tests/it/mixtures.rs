//! Whatever mixture of compositions a chain is run in, and whatever is moved or linked
//! anew meanwhile: the same packets give the same bytes and counters.

use std::fmt::Write;
use std::time::{Duration, Instant};

use crate::common::apart::{Hosted, Link, copy_contexts, station};
use crate::common::scenario::{Scenario, Sent, overtaken, send, traffic};
use crate::common::{Rig, panic_quietly};
use proptest::prelude::*;
use weft_node::{NotComposed, Refused, Wanted};
use weft_node_config::Composition;

/// What the names of a [`Scenario`] stand for here; the last one does what packets say.
const FUNCTIONS: [&str; 5] = ["counter", "tally", "pass", "forward", "mischief"];
const NAMES: [&str; 5] = ["count", "again", "nothing", "swap", "play"];
/// Those that can be fused.
const LOWERED: [bool; 5] = [true, false, true, true, false];

const PATIENCE: Duration = Duration::from_secs(20);
const FABRIC: usize = 2;

/// How a function is run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum RunAs {
    Call,
    Fused,
    Thread(bool),
    Process,
    Remote,
}

impl RunAs {
    fn any() -> impl Strategy<Value = RunAs> {
        prop_oneof![
            2 => Just(RunAs::Call),
            2 => Just(RunAs::Fused),
            2 => any::<bool>().prop_map(RunAs::Thread),
            2 => Just(RunAs::Process),
            2 => Just(RunAs::Remote),
        ]
    }

    /// What stands in the configuration of the function, which may have a process or a path
    /// ready.
    fn yaml(self, at: usize, folder: &str, ready: Option<RunAs>) -> String {
        let process = format!(
            "process: {{start: elsewhere, socket: '{folder}/{}', heartbeat: 60000}}",
            NAMES[at]
        );
        let remote = format!(
            "remote: {{path: {}, downlinkPath: {}, port: fabric, to: '02:00:00:00:00:02', \
             timeout: 60000, probe: 60000}}",
            path(at),
            path(at) + 1
        );
        let written = match self {
            RunAs::Fused if LOWERED[at] => "composition: fused".to_owned(),
            RunAs::Call | RunAs::Fused => "composition: call".to_owned(),
            RunAs::Thread(first) => {
                format!("composition: thread, thread: {{stage: {}}}", stage(first))
            }
            RunAs::Process => return format!("composition: process, {process}"),
            RunAs::Remote => return format!("composition: remote, {remote}"),
        };
        match ready {
            Some(RunAs::Process) => format!("{written}, {process}"),
            Some(_) => format!("{written}, {remote}"),
            None => written,
        }
    }

    /// What a running node can be told, if it can be told this.
    fn wanted(self, at: usize) -> Option<Wanted> {
        let (composition, stage) = match self {
            RunAs::Fused if LOWERED[at] => (Composition::Fused, None),
            RunAs::Call | RunAs::Fused => (Composition::Call, None),
            RunAs::Thread(first) => (Composition::Thread, Some(stage(first).to_owned())),
            RunAs::Process => (Composition::Process, None),
            RunAs::Remote => return None,
        };
        Some(Wanted { composition, stage, core: None })
    }
}

fn stage(first: bool) -> &'static str {
    if first { "first" } else { "second" }
}

/// The path to a function at the other node, for what goes up.
fn path(at: usize) -> usize {
    10 + 2 * at
}

/// A node with the functions that are elsewhere.
struct Mixture {
    near: Rig,
    far: Option<Rig>,
    link: Link,
    /// Where each function may be beside its node.
    ready: [Option<RunAs>; 5],
    _processes: Vec<Hosted>,
    _folder: tempfile::TempDir,
}

impl Mixture {
    fn new(scenario: &Scenario, ways: [RunAs; 5], moves: &Moves) -> Mixture {
        let folder = tempfile::TempDir::new().unwrap();
        let comes = |at, way| moves.iter().any(|(moved, to)| (*moved, *to) == (at, way));
        let ready: [Option<RunAs>; 5] = std::array::from_fn(|at| match ways[at] {
            RunAs::Process | RunAs::Remote => Some(ways[at]),
            _ => [RunAs::Process, RunAs::Remote].into_iter().find(|way| comes(at, *way)),
        });
        let functions: [String; 5] = std::array::from_fn(|at| {
            let written = ways[at].yaml(at, folder.path().to_str().unwrap(), ready[at]);
            format!("{}, {written}", FUNCTIONS[at])
        });
        let named = std::array::from_fn(|at| (NAMES[at], functions[at].as_str()));
        let near = Rig::new(&with_fabric(&scenario.yaml_of("", named)));
        let of = |way| move |at: &usize| ready[*at] == Some(way);
        let remote: Vec<usize> = (0..5).filter(of(RunAs::Remote)).collect();
        let far = (!remote.is_empty()).then(|| Rig::new(&serving(scenario, &remote)));
        let start =
            |at: usize| Hosted::start(FUNCTIONS[at], folder.path().join(NAMES[at]), Vec::new());
        let processes = (0..5).filter(of(RunAs::Process)).map(start).collect();
        let link = Link::new(&[(station(1), (0, FABRIC)), (station(2), (1, 0))]);
        let mut mixture =
            Mixture { near, far, link, ready, _processes: processes, _folder: folder };
        mixture.until("functions are there", |mixture| {
            let functions = mixture.near.node.agent().snapshot().functions;
            let mut elsewhere = functions.iter().filter_map(|one| one.process.as_ref());
            elsewhere.all(|one| ["running", "reachable"].contains(&one.state.as_str()))
        });
        mixture
    }

    /// Lets nodes and link work until something holds.
    fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Mixture) -> bool) {
        let until = Instant::now() + PATIENCE;
        loop {
            let Mixture { near, far, link, .. } = self;
            match far {
                Some(far) => link.settle(&mut [near, far]),
                None => near.settle(),
            }
            if holds(self) {
                return;
            }
            let drops = &self.near.node.agent().snapshot().drops;
            assert!(Instant::now() < until, "{what}; drops {drops:?}");
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Packets that have left towards users and networks, or were dropped.
    fn gone(&mut self) -> u64 {
        let seen = self.near.node.agent().snapshot();
        let ports = seen.ports.iter().filter(|port| port.name != "fabric");
        ports.map(|port| port.tx_packets).sum::<u64>() + seen.dropped() + seen.local
    }

    /// Runs a function another way, if it may be there.
    fn compose(&mut self, at: usize, way: RunAs) {
        let is_away =
            self.near.node.agent().blueprint().functions[at].composition == Composition::Remote;
        let goes = way == RunAs::Remote;
        if self.ready[at] == Some(RunAs::Remote) && is_away != goes {
            self.carry(at, goes);
        }
        let Some(wanted) = way.wanted(at) else { return };
        self.until("it is composed anew", |mixture| {
            match mixture.near.node.agent().compose(NAMES[at], &wanted) {
                Ok(_) | Err(NotComposed::NotPrepared(_)) => true,
                Err(NotComposed::Refused(Refused::Busy) | NotComposed::NotYet(_)) => false,
                Err(other) => panic!("{other}"),
            }
        });
    }

    /// Takes a function to the other node, or back.
    fn carry(&mut self, at: usize, goes: bool) {
        self.until("its packets wait", |mixture| {
            match mixture.near.node.agent().gate_function(NAMES[at], goes) {
                Ok(()) => true,
                Err(error) if error.passes() => false,
                Err(other) => panic!("{other}"),
            }
        });
        self.until("nothing of it is on its way", |mixture| {
            mixture.near.node.agent().is_gated(NAMES[at]).unwrap()
        });
        let far = self.far.as_mut().unwrap();
        let (from, to) = if goes { (&mut self.near, far) } else { (far, &mut self.near) };
        copy_contexts(from, to, NAMES[at], !goes).unwrap();
        self.near.node.agent().release_function(NAMES[at], Ok(())).unwrap();
    }

    /// What functions know of users, once all have come back.
    fn contexts(&mut self) -> Vec<String> {
        (0..5).for_each(|at| self.compose(at, RunAs::Call));
        self.until("all is settled", |mixture| mixture.near.node.agent().is_settled());
        let users = self.near.node.agent().users(0, usize::MAX);
        let mut all = Vec::new();
        for user in users {
            let (_, shown) = self.near.node.agent().contexts_of(&user.name).unwrap();
            self.near.settle();
            all.push(format!("{}: {:?}", user.name, shown.recv().unwrap()));
        }
        all
    }
}

/// The configuration of a node with a port towards the other node.
fn with_fabric(yaml: &str) -> String {
    let port = "  fabric: {device: 'ring:fabric', direction: uplink, mtu: 1700, \
                mac: '02:00:00:00:00:01'}\n";
    yaml.replacen("functions:\n", &format!("{port}functions:\n"), 1) + "  from fabric -> drop\n"
}

/// The configuration of the other node, which has these functions.
fn serving(scenario: &Scenario, functions: &[usize]) -> String {
    let mut text = "
apiVersion: weft/v1
kind: Node
metadata: {name: serves}
memory: {packets: 4095}
ports:
  fabric: {device: 'ring:fabric', direction: uplink, mtu: 1700, mac: '02:00:00:00:00:02'}
paths:
"
    .to_owned();
    let (mut instances, mut rules) = (String::new(), String::new());
    for &at in functions {
        let name = NAMES[at];
        for (number, direction) in [(path(at), "uplink"), (path(at) + 1, "downlink")] {
            let way = format!("path: {number}, index: 255, direction: {direction}");
            let to = "port: fabric, to: '02:00:00:00:00:01'";
            writeln!(text, "  {name}-{direction}: {{{way}, {to}}}").unwrap();
            writeln!(rules, "  from {name}-{direction} -> {name}").unwrap();
        }
        writeln!(instances, "  {name}: {{function: {}}}", FUNCTIONS[at]).unwrap();
        writeln!(rules, "  from {name} when direction == uplink -> {name}-uplink").unwrap();
        writeln!(rules, "  from {name} -> {name}-downlink").unwrap();
    }
    // Rules, not users, say what is done here.
    let users: String =
        ["one", "two", "three"].iter().fold(scenario.users_yaml(), |users, chain| {
            users.replace(&format!(", chain: {chain}"), "")
        });
    format!("{text}functions:\n{instances}{users}rules: |\n{rules}  from fabric -> drop\n")
}

/// What came out in any order, what was counted, but for how functions are run, and what
/// contexts hold in the end.
type Seen = ([Vec<Vec<u8>>; 2], Vec<(String, u64)>, Vec<String>);

/// What happens while packets come: after each part of them a function is run another way.
type Moves = Vec<(usize, RunAs)>;

/// Sends the packets in parts, and makes a move behind each. `rests` says how many packets
/// have gone when nothing is on its way; what it says is returned with what was seen.
fn run(
    scenario: &Scenario,
    ways: [RunAs; 5],
    packets: &[Sent],
    moves: &Moves,
    rests: Option<&[u64]>,
) -> (Seen, Vec<u64>, Vec<String>) {
    let mut mixture = Mixture::new(scenario, ways, moves);
    let mut gone = Vec::new();
    for (part, packets) in packets.chunks(PART).enumerate() {
        send(&mut mixture.near, scenario, packets, 8);
        if let Some((at, way)) = moves.get(part) {
            mixture.compose(*at, *way);
        }
        if let Some(rests) = rests {
            mixture.until("all are through", |mixture| mixture.gone() >= rests[part]);
        }
        gone.push(mixture.gone());
    }
    let mut out = [0, 1].map(|port| mixture.near.receive(port));
    let wrong = out.iter().flat_map(|frames| overtaken(frames)).collect();
    out.iter_mut().for_each(|frames| frames.sort());
    let end = mixture.near.node.agent().snapshot();
    let drops = end.drops.iter().map(|drop| (drop.reason.clone(), drop.packets));
    let functions = end.functions.iter().map(|one| (one.name.clone(), one.packets));
    let mut counted: Vec<_> = drops.chain(functions).filter(|(_, packets)| *packets > 0).collect();
    counted.sort();
    ((out, counted, mixture.contexts()), gone, wrong)
}

/// Packets between two moves.
const PART: usize = 24;

/// Whether a user's packets may go different ways in this scenario.
fn branches(scenario: &Scenario) -> bool {
    format!("{scenario:?}").contains("Chain(")
}

fn ways() -> impl Strategy<Value = [RunAs; 5]> {
    [RunAs::any(), RunAs::any(), RunAs::any(), RunAs::any(), RunAs::any()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn every_mixture_does_what_called_functions_do(
        scenario in Scenario::any(),
        packets in traffic("....dcgp"),
        ways in ways(),
        moves in prop::collection::vec((0..5usize, RunAs::any()), 0..12),
    ) {
        panic_quietly();
        let none = Moves::new();
        let (called, gone, before) = run(&scenario, [RunAs::Call; 5], &packets, &none, None);
        let (mixed, _, wrong) = run(&scenario, ways, &packets, &moves, Some(&gone));
        prop_assert_eq!(&called, &mixed);
        // Where packets of a user go one way, none overtakes another.
        if !branches(&scenario) && before.is_empty() {
            prop_assert_eq!(wrong, Vec::<String>::new());
        }
    }
}

/// Random nodes to try; `MIXTURES` says another number.
fn cases() -> u32 {
    std::env::var("MIXTURES").map_or(24, |text| text.parse().expect("MIXTURES is a number"))
}
