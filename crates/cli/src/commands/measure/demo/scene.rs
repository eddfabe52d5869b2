//! Who sends how much, and the node that it is sent through.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::json;
use weft_function::{ByteSize, Rate};
use weft_node_config::{self as config, Blueprint, Mistakes};
use weft_traffic::{Direction, Endpoints, Sizes, Template};

/// The node's configuration.
const EXAMPLE: &str = include_str!("../../../../../../examples/demo.yaml");

/// The address that users send to.
const SERVICE: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 10));
/// Where users in the chain are led instead.
const NEARBY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10));
/// Addresses of the first users in the chain and without one.
const FIRST_METERED: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const FIRST_PLAIN: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 0, 1));

/// Bytes of every packet, without Ethernet's check sequence.
pub const FRAME_BYTES: usize = 128;
/// Bytes of the IP packet in it, which is what meters count.
pub const IP_BYTES: usize = FRAME_BYTES - weft_wire::ethernet::HEADER_LENGTH;

/// One in so many users in the chain sends more than its rate, ...
const ONE_IN: u32 = 20;
/// ... namely so many times as much as the others.
const OVER_WEIGHT: u32 = 8;
/// A user's rate, in multiples of what most users send.
const HEADROOM: u32 = 2;
/// What users over their rate send, in multiples of it. It is still more than
/// their rate when the traffic's thread is held up half of the time.
pub const OVER: u32 = OVER_WEIGHT / HEADROOM;
/// Seconds at its rate that a user may send at once.
const BURST_SECONDS: f64 = 0.1;
const LEAST_BURST: u64 = 4096;
/// The lowest rate that a meter takes, in bits per second.
const LEAST_RATE: u64 = 1000;

/// What users go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    /// The chain `full`.
    Full,
    /// No function at all.
    Empty,
}

impl Chain {
    pub fn name(self) -> &'static str {
        match self {
            Chain::Full => "full",
            Chain::Empty => "empty",
        }
    }
}

/// The packets of all users of a chain in one direction.
#[derive(Clone, Debug)]
pub struct Plan {
    pub chain: Chain,
    pub direction: Direction,
    /// How they are sent.
    pub template: Template,
    /// The addresses with which they should arrive.
    pub arriving: Endpoints,
    /// How much each user sends.
    pub weights: Vec<u32>,
    /// Packets per second.
    pub rate: u64,
}

/// The rate that each user in the chain is held to, both directions together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    pub rate: Rate,
    pub burst: ByteSize,
}

/// Node, users and traffic, fitted to each other.
#[derive(Debug)]
pub struct Scene {
    pub blueprint: Blueprint,
    /// Uplink of both chains, then downlink of both.
    pub plans: Vec<Plan>,
    pub allowance: Allowance,
    /// Users in all, and packets per second in all.
    pub users: u32,
    pub rate: u64,
}

impl Scene {
    /// A scene with `users` users, at least 4, who send and receive `rate`
    /// packets per second together, through the node of the `example`.
    pub fn new(example: Blueprint, users: u32, rate: u64) -> Scene {
        let metered = users.div_ceil(2);
        let weights = |chain: Chain| -> Vec<u32> {
            match chain {
                Chain::Full => (0..metered).map(weight).collect(),
                Chain::Empty => vec![1; (users - metered) as usize],
            }
        };
        let sum = |chain| weights(chain).iter().sum::<u32>();
        let all = sum(Chain::Full) + sum(Chain::Empty);
        let mut plans = Vec::new();
        for direction in [Direction::Uplink, Direction::Downlink] {
            for chain in [Chain::Full, Chain::Empty] {
                let (sent, arriving) = endpoints(chain, direction);
                plans.push(Plan {
                    chain,
                    direction,
                    template: Template {
                        sizes: Sizes::Fixed(FRAME_BYTES),
                        ..Template::new(plans.len() as u16 + 1, sent)
                    },
                    arriving,
                    weights: weights(chain),
                    rate: (rate as f64 / 2.0 * f64::from(sum(chain)) / f64::from(all)) as u64,
                });
            }
        }
        let packets_per_user = rate as f64 / f64::from(all);
        let allowance = Allowance::of(packets_per_user, IP_BYTES);
        let blueprint = fitted(example, [metered, users - metered], allowance);
        Scene { blueprint, plans, allowance, users, rate }
    }

    /// The node with meters that let everything through.
    pub fn unlimited(&self) -> Blueprint {
        let mut blueprint = self.blueprint.clone();
        set_meter(&mut blueprint, Allowance::UNLIMITED);
        blueprint
    }

    /// Users in the chain.
    pub fn metered(&self) -> usize {
        self.plans[0].weights.len()
    }
}

/// How much a user in the chain sends, in multiples of what most users send.
fn weight(user: u32) -> u32 {
    if is_over(user) { OVER_WEIGHT } else { 1 }
}

/// Whether a user in the chain sends more than its rate.
pub fn is_over(user: u32) -> bool {
    user.is_multiple_of(ONE_IN)
}

impl Allowance {
    /// More than a core carries, for each user.
    const UNLIMITED: Allowance =
        Allowance { rate: Rate(100_000_000_000), burst: ByteSize(1 << 30) };

    /// What suits users most of whom send so many packets per second.
    fn of(packets: f64, bytes: usize) -> Allowance {
        let rate = (packets * bytes as f64 * 8.0 * f64::from(HEADROOM)).round() as u64;
        let rate = rate.next_multiple_of(1000).max(LEAST_RATE);
        let burst = (rate as f64 / 8.0 * BURST_SECONDS) as u64;
        Allowance { rate: Rate(rate), burst: ByteSize(burst.max(LEAST_BURST)) }
    }
}

/// Addresses of packets as they are sent and as they arrive.
fn endpoints(chain: Chain, direction: Direction) -> (Endpoints, Endpoints) {
    let (first_user, server) = match chain {
        Chain::Full => (FIRST_METERED, NEARBY),
        Chain::Empty => (FIRST_PLAIN, SERVICE),
    };
    let with = |peer| Endpoints { direction, first_user, peer };
    match direction {
        Direction::Uplink => (with(SERVICE), with(server)),
        Direction::Downlink => (with(server), with(SERVICE)),
    }
}

/// The node as the example describes it.
///
/// # Errors
/// Mistakes in the example.
pub fn example() -> Result<Blueprint, Mistakes> {
    config::read(EXAMPLE, "examples/demo.yaml", weft_functions::KINDS)
}

/// The example with so many users in the chain and without, and this allowance.
fn fitted(mut example: Blueprint, users: [u32; 2], allowance: Allowance) -> Blueprint {
    for (plan, count) in example.users.iter_mut().zip(users) {
        plan.count = count;
    }
    example.limits.users = example.limits.users.max(users.iter().sum());
    set_meter(&mut example, allowance);
    example
}

/// Holds each user to this allowance.
fn set_meter(blueprint: &mut Blueprint, Allowance { rate, burst }: Allowance) {
    let marker = blueprint.functions.iter_mut().find(|function| function.kind.name == "marker");
    if let Some(marker) = marker {
        let meter = json!({"committedRate": rate, "committedBurst": burst});
        marker.config["meter"] = json!({"singleRate": meter});
    }
}

#[cfg(test)]
mod tests {
    use weft_node_config::UserKey;

    use super::*;

    #[test]
    fn the_example_is_what_the_scene_takes_it_for() {
        let example = example().unwrap();
        assert!(example.warnings.0.is_empty(), "{}", example.warnings);
        let key = |address: IpAddr| match address {
            IpAddr::V4(first) => vec![UserKey::Ipv4 { network: 0, first }],
            IpAddr::V6(_) => vec![],
        };
        let users: Vec<_> =
            example.users.iter().map(|plan| (plan.count, plan.keys.clone())).collect();
        assert_eq!(users, [(500, key(FIRST_METERED)), (500, key(FIRST_PLAIN))]);
        let functions: Vec<_> =
            example.functions.iter().map(|function| function.kind.name).collect();
        assert_eq!(functions, ["counter", "marker", "rewrite-address"]);
        let ports: Vec<_> = example.ports.iter().map(|port| port.direction).collect();
        use weft_function::Direction;
        assert_eq!(ports, [Direction::Uplink, Direction::Downlink]);
    }

    #[test]
    fn the_rate_of_all_streams_together_is_the_rate() {
        for (users, rate) in [(4, 100), (1000, 1_000_000), (9_999, 50_000)] {
            let scene = Scene::new(example().unwrap(), users, rate);
            let sum: u64 = scene.plans.iter().map(|plan| plan.rate).sum();
            assert!((rate - 4..=rate).contains(&sum), "{sum}");
            let all: usize = scene.plans[..2].iter().map(|plan| plan.weights.len()).sum();
            assert_eq!(all, users as usize);
            let counts: u32 = scene.blueprint.users.iter().map(|plan| plan.count).sum();
            assert_eq!(counts, users);
            assert!(scene.blueprint.limits.users >= users);
        }
    }

    #[test]
    fn most_users_send_half_their_rate_and_some_four_times_as_much() {
        let scene = Scene::new(example().unwrap(), 1000, 1_000_000);
        let uplink = &scene.plans[0];
        let all: u32 = scene.plans[..2].iter().flat_map(|plan| &plan.weights).sum();
        let bits_of = |user: usize| {
            let packets = 1e6 * f64::from(uplink.weights[user]) / f64::from(all);
            packets * IP_BYTES as f64 * 8.0
        };
        let rate = scene.allowance.rate.0 as f64;
        assert!((0.49..=0.51).contains(&(bits_of(1) / rate)), "{}", bits_of(1));
        assert!((3.96..=4.04).contains(&(bits_of(ONE_IN as usize) / rate)));
        assert_eq!(uplink.weights.iter().filter(|weight| **weight > 1).count(), 25);
    }

    #[test]
    fn the_marker_accepts_what_the_scene_sets() {
        let rates = [100, 1_000, 100_000_000];
        let allowances = rates.map(|rate| Scene::new(example().unwrap(), 4, rate).allowance);
        for Allowance { rate, burst } in allowances.into_iter().chain([Allowance::UNLIMITED]) {
            let text = EXAMPLE
                .replace("1 Mbit/s", &rate.to_string())
                .replace("16 KiB", &burst.to_string());
            assert_ne!(text, EXAMPLE);
            config::read(&text, "demo.yaml", weft_functions::KINDS).unwrap();
        }
    }
}
