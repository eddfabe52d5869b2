//! Random changes of the configuration while traffic runs: those that are
//! refused change nothing, those that are made lose nothing.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::atomic::Ordering;

use crate::common::scenario::overtaken;
use crate::common::{HELD, Rig, blueprint, panic_quietly, udp};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::subsequence;
use weft_node_config::Blueprint;

/// Functions with a configuration that may change, by the number in it.
const FUNCTIONS: [(&str, &str); 5] = [
    ("count", "{function: tally, config: {serial: SERIAL}}"),
    ("shared", "{function: tally, config: {scope: group, serial: SERIAL}}"),
    ("apart", "{function: tally, config: {scope: bearer, serial: SERIAL}}"),
    ("play", "{function: mischief}"),
    (
        "police",
        "{function: marker, config: {meter: {singleRate: {committedRate: SERIAL kbit/s, \
      committedBurst: 64 kB}}}}",
    ),
];

const GROUPS: [&str; 3] = ["red", "green", "blue"];

/// What a change makes of the node.
#[derive(Clone, Debug)]
struct Change {
    /// Functions there are, in the order of the chain, and the number in their
    /// configurations.
    functions: Vec<usize>,
    serial: u32,
    groups: Vec<usize>,
    /// Ranges of users by number, in any order.
    ranges: Vec<(usize, Range)>,
    mistake: Mistake,
    /// Packets between this change and the next: users, and what they ask for.
    traffic: Vec<(usize, u8)>,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    count: u32,
    group: Option<usize>,
    bearers: u32,
    start: Option<u32>,
    in_chain: bool,
}

/// What makes a change impossible.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mistake {
    None,
    Name,
    Workers,
    Mtu,
    Memory,
    Unbuildable,
    /// Before the last one was made everywhere.
    TooSoon,
}

const ORDERS: &[u8] = b"......dcgkkrtpP";

fn change() -> impl Strategy<Value = Change> {
    let range = (1..7u32, proptest::option::of(0..3usize), 0..3u32, proptest::option::of(0..99u32));
    let range = (range, any::<bool>()).prop_map(|((count, group, bearers, start), in_chain)| {
        Range { count, group, bearers, start, in_chain }
    });
    let ranges = (subsequence((0..6).collect::<Vec<_>>(), 0..=6), vec(range, 6))
        .prop_map(|(numbers, ranges)| numbers.into_iter().zip(ranges).collect::<Vec<_>>())
        .prop_shuffle();
    let mistake = prop_oneof![
        10 => Just(Mistake::None),
        1 => Just(Mistake::Name),
        1 => Just(Mistake::Workers),
        1 => Just(Mistake::Mtu),
        1 => Just(Mistake::Memory),
        1 => Just(Mistake::Unbuildable),
        2 => Just(Mistake::TooSoon),
    ];
    let functions = subsequence((0..FUNCTIONS.len()).collect::<Vec<_>>(), 1..=FUNCTIONS.len());
    let traffic = vec((0..48usize, proptest::sample::select(ORDERS)), 1..24);
    (
        functions.prop_shuffle(),
        1..4u32,
        subsequence(vec![0, 1, 2], 0..=3).prop_shuffle(),
        ranges,
        mistake,
        traffic,
    )
        .prop_map(|(functions, serial, groups, ranges, mistake, traffic)| Change {
            functions,
            serial,
            groups,
            ranges,
            mistake,
            traffic,
        })
}

impl Change {
    /// The node without users but those that always stay.
    const NO_USERS: Change = Change {
        functions: Vec::new(),
        serial: 1,
        groups: Vec::new(),
        ranges: Vec::new(),
        mistake: Mistake::None,
        traffic: Vec::new(),
    };

    fn yaml(&self) -> String {
        let (name, workers) = match self.mistake {
            Mistake::Name => ("other", 3),
            Mistake::Workers => ("changing", 2),
            _ => ("changing", 3),
        };
        let mtu = if self.mistake == Mistake::Mtu { 1400 } else { 1500 };
        let packets = if self.mistake == Mistake::Memory { 8191 } else { 4095 };
        let mut text = format!(
            "
apiVersion: weft/v1
kind: Node
metadata: {{name: {name}}}
workers: {{count: {workers}}}
memory: {{packets: {packets}}}
limits: {{users: 24, groups: 4, bearers: 12, keptPackets: 8}}
ports:
  access: {{device: 'ring:access', direction: uplink, mtu: {mtu}}}
  core: {{device: 'ring:core', direction: downlink, worker: 1}}
"
        );
        text.push_str("functions:\n  always: {function: tally}\n");
        for &at in &self.functions {
            let (name, function) = FUNCTIONS[at];
            let function = function.replace("SERIAL", &self.serial.to_string());
            writeln!(text, "  {name}: {function}").unwrap();
        }
        if self.mistake == Mistake::Unbuildable {
            text.push_str("  never: {function: unbuildable}\n");
        }
        text.push_str("groups:\n  stay: {}\n");
        for &at in &self.groups {
            let settings = match self.has("shared") && self.serial == 2 {
                true => "functions: {shared: {start: 7}}",
                false => "",
            };
            writeln!(text, "  {}: {{{settings}}}", GROUPS[at]).unwrap();
        }
        text.push_str("users:\n  - {name: stay, count: 2, match: {ipv4: 10.0.9.1}}\n");
        self.ranges.iter().for_each(|(number, range)| self.write_range(*number, range, &mut text));
        let never = if self.mistake == Mistake::Unbuildable { " -> never" } else { "" };
        let chain: Vec<_> = self.functions.iter().map(|at| FUNCTIONS[*at].0).collect();
        let chain = [&["always"], &chain[..]].concat().join(" -> ");
        writeln!(text, "rules: |\n  chain all = {chain}{never}").unwrap();
        text.push_str("  from access when chain == all -> all\n  from access -> core\n");
        text.push_str("  from core -> access\n  from all -> core\n");
        text
    }

    fn has(&self, function: &str) -> bool {
        self.functions.iter().any(|at| FUNCTIONS[*at].0 == function)
    }

    fn write_range(&self, number: usize, range: &Range, text: &mut String) {
        let count = range.count;
        let key = format!("match: {{ipv4: 10.0.{number}.1}}");
        write!(text, "  - {{name: range{number}, count: {count}, {key}").unwrap();
        if let Some(group) = range.group.filter(|group| self.groups.contains(group)) {
            write!(text, ", group: {}", GROUPS[group]).unwrap();
        }
        if range.in_chain {
            text.push_str(", chain: all");
        }
        if let Some(start) = range.start.filter(|_| self.has("count")) {
            write!(text, ", functions: {{count: {{start: {start}}}}}").unwrap();
        }
        if range.bearers > 0 {
            let bearer = |nth: u32| {
                let settings = match (self.has("apart"), range.start) {
                    (true, Some(start)) => format!(", functions: {{apart: {{start: {start}}}}}"),
                    _ => String::new(),
                };
                format!("{{name: b{nth}, when: 'source-port == {}'{settings}}}", 1000 + nth)
            };
            let bearers: Vec<_> = (0..range.bearers).map(bearer).collect();
            write!(text, ", bearers: [{}]", bearers.join(", ")).unwrap();
        }
        text.push_str("}\n");
    }

    /// Users and bearers beyond what the node has room for are refused as the
    /// configuration is read.
    fn fits(&self) -> bool {
        let users: u32 = self.ranges.iter().map(|(_, range)| range.count).sum();
        let bearers = |(_, range): &(usize, Range)| range.count * range.bearers;
        users + 2 <= 24 && self.ranges.iter().map(bearers).sum::<u32>() <= 12
    }
}

/// A node with the frames it was sent so far.
struct Changing {
    rig: Rig,
    devices: Vec<String>,
    sent: usize,
    received: Vec<Vec<u8>>,
    sent_by_stay: usize,
}

/// What must not change when a change is refused.
type Look = (Vec<weft_node::show::UserView>, String, Vec<(String, String)>);

impl Changing {
    fn new() -> Changing {
        let mut rig = Rig::new(&Change::NO_USERS.yaml());
        let ports = &rig.node.agent().blueprint().ports;
        let devices = ports.iter().map(|port| port.device.clone()).collect();
        Changing { rig, devices, sent: 0, received: Vec::new(), sent_by_stay: 0 }
    }

    /// The configuration of a change, for the ports of this node.
    fn read(&self, change: &Change) -> Blueprint {
        let mut new = blueprint(&change.yaml());
        for (port, device) in new.ports.iter_mut().zip(&self.devices) {
            port.device.clone_from(device);
        }
        new
    }

    fn look(&mut self) -> Look {
        let agent = self.rig.node.agent();
        let functions = agent.snapshot().functions.into_iter().map(|one| (one.name, one.kind));
        let functions = functions.collect();
        (agent.users(0, usize::MAX), agent.paths(), functions)
    }

    fn offer(&mut self, traffic: &[(usize, u8)]) {
        let mut ports = [Vec::new(), Vec::new()];
        for &(user, order) in traffic {
            self.sent += 1;
            let address = match user {
                0..42 => [10, 0, (user / 7) as u8, 1 + (user % 7) as u8],
                _ => [10, 0, 9, 1 + (user % 2) as u8],
            };
            let stays = user >= 42;
            let order = if stays { b'.' } else { order };
            self.sent_by_stay += usize::from(stays);
            // Kept packets leave when they are released.
            let number = if order == b'k' { "-".to_owned() } else { self.sent.to_string() };
            let payload = format!("{}0{number}", order as char);
            match user % 3 {
                0 => ports[1].push(udp([198, 51, 100, 1], address, payload.as_bytes())),
                _ => ports[0].push(udp(address, [198, 51, 100, 1], payload.as_bytes())),
            }
        }
        for (port, frames) in ports.iter().enumerate() {
            self.rig.offer(port, frames);
        }
    }

    fn receive(&mut self) {
        for port in [0, 1] {
            let frames = self.rig.receive(port);
            self.received.extend(frames);
        }
    }

    /// Makes a change between packets, and lets it come into force among them.
    fn apply(&mut self, change: &Change) -> Result<(), TestCaseError> {
        let new = self.read(change);
        if change.mistake != Mistake::TooSoon {
            while !self.rig.node.agent().is_settled() {
                self.rig.node.step();
            }
        }
        let before = self.look();
        let made = self.rig.node.agent().apply(new);
        match change.mistake {
            Mistake::None | Mistake::TooSoon => {}
            mistake => prop_assert!(made.is_err(), "{mistake:?} went unnoticed"),
        }
        if made.is_err() {
            prop_assert_eq!(before, self.look());
        }
        for some in change.traffic.chunks(5) {
            self.offer(some);
            self.rig.node.step();
        }
        self.receive();
        self.rig.time.fetch_add(500, Ordering::Relaxed);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(25))]

    /// Some 1,000 changes in all: half of 2,000 fit the node.
    #[test]
    fn changes_lose_nothing_and_refused_ones_change_nothing(changes in vec(change(), 80)) {
        panic_quietly();
        let mut node = Changing::new();
        let free = node.rig.node.agent().snapshot().buffers.available;
        for change in changes.iter().filter(|change| change.fits()) {
            node.apply(change)?;
        }
        node.rig.settle();
        node.rig.advance(10_000);
        let no_users = node.read(&Change::NO_USERS);
        prop_assert!(node.rig.node.agent().apply(no_users).is_ok());
        node.rig.settle();
        node.receive();
        check_order(&node)?;
        // Only the users that stay are there: everything was given back.
        prop_assert_eq!(HELD.get(), 0, "contexts are still held");
        let now = node.rig.node.agent().snapshot();
        prop_assert_eq!(now.buffers.available, free, "{:?}", now.drops);
        prop_assert_eq!(now.received(), node.sent as u64);
        prop_assert_eq!(now.received() + now.emitted, now.sent() + now.dropped());
        // All slots are free: there is room for as many as ever.
        let full = Range { count: 22, group: None, bearers: 0, start: None, in_chain: true };
        let full = Change { ranges: vec![(0, full)], ..Change::NO_USERS };
        let full = node.read(&full);
        prop_assert!(node.rig.node.agent().apply(full).is_ok());
    }
}

/// Packets of a user left in order, and those of users that no change concerned
/// all left.
fn check_order(node: &Changing) -> Result<(), TestCaseError> {
    prop_assert_eq!(overtaken(&node.received), [""; 0]);
    let mut by_user = HashMap::new();
    for frame in &node.received {
        let of_stay = [frame[28], frame[32]].contains(&9);
        *by_user.entry(of_stay).or_insert(0_usize) += 1;
    }
    prop_assert_eq!(by_user.get(&true).copied().unwrap_or(0), node.sent_by_stay);
    Ok(())
}
