//! Random nodes and random traffic.
#![allow(dead_code, reason = "each test uses a part")]

use std::collections::HashMap;
use std::fmt::Write;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use weft_wire::ipv4;

use super::{Rig, udp};

/// Functions that chains are made of; every chain has the last one, which
/// colours packets as they ask for it.
const FUNCTIONS: [(&str, &str); 5] = [
    ("count", "tally"),
    ("again", "tally"),
    ("nothing", "pass"),
    ("swap", "forward"),
    ("play", "mischief"),
];

/// What happens to coloured packets behind a chain.
#[derive(Clone, Copy, Debug)]
pub enum Behind {
    Drop,
    /// They walk the chain of that number beyond this one, if there is one.
    Chain(usize),
    Leave,
}

/// A node: chains with what comes behind them, and users in them.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub workers: usize,
    /// The workers that poll the two ports.
    pub port_workers: [usize; 2],
    /// For each chain its functions, and what becomes of yellow and red.
    pub chains: Vec<(Vec<usize>, [Behind; 2])>,
    /// For each range of users how many, and their chain; none beyond the last.
    pub ranges: Vec<(u32, usize)>,
}

impl Scenario {
    pub fn any() -> impl Strategy<Value = Scenario> {
        let behind = prop_oneof![
            Just(Behind::Drop),
            (1..3usize).prop_map(Behind::Chain),
            Just(Behind::Leave)
        ];
        let functions = subsequence(vec![0, 1, 2, 3], 0..=4).prop_flat_map(|mut functions| {
            functions.push(4);
            Just(functions).prop_shuffle()
        });
        let chain = (functions, [behind.clone(), behind]);
        (1..=3usize, [0..3usize, 0..3], vec(chain, 3), vec((1..5u32, 0..4usize), 1..5)).prop_map(
            |(workers, port_workers, chains, ranges)| Scenario {
                workers,
                port_workers: port_workers.map(|worker| worker % workers),
                chains,
                ranges,
            },
        )
    }

    /// The configuration of the node.
    pub fn yaml(&self, forwarding: &str) -> String {
        self.yaml_of(&format!("forwarding: {forwarding}"), FUNCTIONS)
    }

    /// The configuration of the node with another line at its head and other
    /// functions: YAML by the names that are given.
    pub fn yaml_of(&self, head: &str, functions: [(&str, &str); 5]) -> String {
        let mut text = format!(
            "
apiVersion: weft/v1
kind: Node
metadata: {{name: random}}
{head}
workers: {{count: {}}}
memory: {{packets: 4095}}
ports:
  access: {{device: 'ring:access', direction: uplink, worker: {}}}
  core: {{device: 'ring:core', direction: downlink, worker: {}}}
functions:
",
            self.workers, self.port_workers[0], self.port_workers[1],
        );
        for (name, kind) in functions {
            writeln!(text, "  {name}: {{function: {kind}}}").unwrap();
        }
        text + &self.users_yaml() + &self.rules()
    }

    /// `users` of the configuration.
    pub fn users_yaml(&self) -> String {
        let mut text = "users:\n".to_owned();
        for (at, (count, chain)) in self.ranges.iter().enumerate() {
            let chain = chain_name(*chain).map_or(String::new(), |name| format!(", chain: {name}"));
            let line = format!("count: {count}, match: {{ipv4: 10.0.{at}.1}}{chain}");
            writeln!(text, "  - {{name: range{at}, {line}}}").unwrap();
        }
        text
    }

    fn rules(&self) -> String {
        let mut text = "rules: |\n".to_owned();
        for (number, (functions, _)) in self.chains.iter().enumerate() {
            let functions: Vec<_> = functions.iter().map(|at| FUNCTIONS[*at].0).collect();
            let (name, functions) = (chain_name(number).unwrap(), functions.join(" -> "));
            writeln!(text, "  chain {name} = {functions}").unwrap();
            for port in ["access", "core"] {
                writeln!(text, "  from {port} when chain == {name} -> {name}").unwrap();
            }
        }
        text.push_str("  from access -> core\n  from core -> access\n");
        for (number, (_, behind)) in self.chains.iter().enumerate() {
            let name = chain_name(number).unwrap();
            for (colour, behind) in ["yellow", "red"].into_iter().zip(behind) {
                let to = match behind {
                    Behind::Drop => "drop",
                    Behind::Chain(beyond) => match chain_name(number + beyond) {
                        Some(name) => name,
                        None => continue,
                    },
                    Behind::Leave => continue,
                };
                writeln!(text, "  from {name} when colour == {colour} -> {to}").unwrap();
            }
            writeln!(text, "  from {name} when direction == uplink -> core").unwrap();
            writeln!(text, "  from {name} -> access").unwrap();
        }
        text
    }

    /// The address of the user at `pick`, which may be anything.
    fn user(&self, pick: usize) -> [u8; 4] {
        let all = self.ranges.iter().enumerate().flat_map(|(range, (count, _))| {
            (0..*count).map(move |nth| [10, 0, range as u8, 1 + nth as u8])
        });
        let all: Vec<_> = all.collect();
        all[pick % all.len()]
    }
}

fn chain_name(number: usize) -> Option<&'static str> {
    ["one", "two", "three"].get(number).copied()
}

/// A packet: whose, which way, what functions do with it, and what it suffered
/// on its way here.
#[derive(Clone, Debug)]
pub struct Sent {
    pub user: usize,
    pub port: usize,
    pub order: char,
    pub colour: u8,
    pub damage: Damage,
}

#[derive(Clone, Debug)]
pub enum Damage {
    None,
    /// A byte of the headers is another one.
    Byte(usize, u8),
    CutTo(usize),
    Noise(Vec<u8>),
    Stranger,
}

/// Packets that ask functions for one of `orders`.
pub fn traffic(orders: &'static str) -> impl Strategy<Value = Vec<Sent>> {
    let damage = prop_oneof![
        12 => Just(Damage::None),
        1 => (0..42usize, any::<u8>()).prop_map(|(at, value)| Damage::Byte(at, value)),
        1 => (0..60usize).prop_map(Damage::CutTo),
        1 => vec(any::<u8>(), 0..120).prop_map(Damage::Noise),
        1 => Just(Damage::Stranger),
    ];
    let order = select(orders.chars().collect::<Vec<_>>());
    let sent = (any::<usize>(), 0..2usize, order, 0..3u8, damage);
    vec(
        sent.prop_map(|(user, port, order, colour, damage)| Sent {
            user,
            port,
            order,
            colour,
            damage,
        }),
        1..300,
    )
}

impl Sent {
    /// The frame. Its payload says what functions do with it, and its number in
    /// the order of sending; none where a damaged packet could be mistaken.
    pub fn frame(&self, scenario: &Scenario, number: usize) -> Vec<u8> {
        let user = match self.damage {
            Damage::Stranger => [10, 9, 9, 9],
            _ => scenario.user(self.user),
        };
        let number = match self.damage {
            Damage::None => format!("{number}"),
            _ => "-".to_owned(),
        };
        let payload = format!("{}{}{number}", self.order, self.colour);
        let server = [198, 51, 100, 1];
        let mut frame = match self.port {
            0 => udp(user, server, payload.as_bytes()),
            _ => udp(server, user, payload.as_bytes()),
        };
        match &self.damage {
            Damage::None | Damage::Stranger => {}
            Damage::Byte(at, value) => frame[*at] = *value,
            Damage::CutTo(length) => frame.truncate(*length),
            Damage::Noise(noise) => frame = noise.clone(),
        }
        frame
    }
}

/// Sends packets in groups of `at_once` for each port, in order.
pub fn send(rig: &mut Rig, scenario: &Scenario, packets: &[Sent], at_once: usize) {
    for (group, packets) in packets.chunks(at_once).enumerate() {
        for port in [0, 1] {
            let frames: Vec<_> = packets
                .iter()
                .enumerate()
                .filter(|(_, packet)| packet.port == port)
                .map(|(at, packet)| packet.frame(scenario, group * at_once + at))
                .collect();
            rig.offer(port, &frames);
        }
        rig.settle();
    }
}

/// Packets of one user and direction that left later than others which were
/// sent behind them.
pub fn overtaken(frames: &[Vec<u8>]) -> Vec<String> {
    let mut last = HashMap::new();
    let mut wrong = Vec::new();
    for frame in frames {
        let Ok(ip) = ipv4::Packet::new_checked(&frame[14..]) else { continue };
        let payload = String::from_utf8_lossy(&frame[42.min(frame.len())..]).into_owned();
        let Some(number) = payload.get(2..).and_then(|number| number.parse::<usize>().ok()) else {
            continue;
        };
        let before = last.insert((ip.source(), ip.destination()), number);
        if before.is_some_and(|before| before > number) {
            wrong.push(format!("{} {before:?} before {number}", ip.source()));
        }
    }
    wrong
}
