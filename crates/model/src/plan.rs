//! The outer loop (Hahn et al., §II): a demand of many users split over nodes and
//! their cores, so that no component is asked for more than it has.
//!
//! Users are not divided: one is at one node. What a user costs at each component of
//! a node comes from the same templates as everything else.

use std::fmt;
use std::net::Ipv4Addr;

use serde_json::Value;

use crate::graph::{Part, System};
use crate::hardware::Hardware;
use crate::scenario::{Scenario, ScenarioError, Traffic};

/// Nodes that are thought of beyond those there are.
const FURTHER: usize = 100_000;

/// What is to be planned.
#[derive(Clone, Debug)]
pub struct Request {
    /// The share of every component that is kept free, from 0 to below 1.
    pub headroom: f64,
    /// How users are placed.
    pub placement: Placement,
    /// The nodes, in the order in which they are filled.
    pub nodes: Vec<Node>,
    /// What is asked for.
    pub demand: Vec<Demand>,
}

/// How users are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// On as few nodes as can be: each is filled before the next.
    Pack,
    /// On all nodes, loaded alike.
    Spread,
}

/// A node to place users on.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its machine.
    pub hardware: Hardware,
}

/// Users that are alike.
#[derive(Clone, Debug)]
pub struct Demand {
    /// What they are called.
    pub name: String,
    /// How many there are.
    pub users: u32,
    /// The address of the first.
    pub first: Option<Ipv4Addr>,
    /// Bits of frames per second of each.
    pub rate: f64,
    /// Their chain.
    pub chain: String,
    /// Their packets: chain and sizes, by share.
    pub traffic: Vec<Traffic>,
}

/// Which node carries which users.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The nodes, those without users too.
    pub nodes: Vec<Placed>,
    /// Users that no node has room for.
    pub left: Vec<Left>,
    /// As many further nodes like the last would have room for them; none if no
    /// number would.
    pub further: Option<usize>,
}

/// A node with its users.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// Its name.
    pub name: String,
    /// Worker cores that carry them, with the headroom kept; 0 without users.
    pub workers: usize,
    /// Its cores.
    pub cores: usize,
    /// The users.
    pub blocks: Vec<Block>,
    /// Packets per second of all of them.
    pub rate: f64,
    /// What each component bears, by name, as a share of its capacity.
    pub utilisation: Vec<(String, f64)>,
}

/// Users in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// What they are called.
    pub name: String,
    /// How many.
    pub users: u32,
    /// The address of the first.
    pub first: Option<Ipv4Addr>,
    /// Their chain.
    pub chain: String,
}

/// Users without a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// What they are called.
    pub name: String,
    /// How many.
    pub users: u32,
}

/// A node being filled.
struct Filling<'r> {
    node: &'r Node,
    /// The components with all cores at work.
    system: System,
    /// What a user of each demand takes of each component in a second.
    per_user: Vec<Vec<f64>>,
    /// What is taken of each component.
    taken: Vec<f64>,
    /// Users of each demand.
    users: Vec<u32>,
    headroom: f64,
}

impl Demand {
    /// Packets per second of one user.
    fn packets(&self) -> f64 {
        let sum: f64 = self.traffic.iter().map(|traffic| traffic.share).sum();
        let size: f64 = self.traffic.iter().map(|one| one.share / sum * one.size).sum();
        self.rate / (size * 8.0)
    }
}

impl Request {
    /// The plan, with costs and composition of a scenario.
    ///
    /// # Errors
    /// As [`Scenario::answer`].
    pub fn plan(&self, scenario: &Scenario) -> Result<Plan, ScenarioError> {
        let filling = self.nodes.iter().map(|node| Filling::new(node, self, scenario));
        let mut nodes = filling.collect::<Result<Vec<_>, _>>()?;
        let mut left: Vec<u32> = self.demand.iter().map(|demand| demand.users).collect();
        if self.placement == Placement::Spread {
            self.spread(&mut nodes, &mut left);
        }
        for node in &mut nodes {
            node.fill(&mut left);
        }
        let further = self.further(scenario, &left)?;
        let mut next: Vec<u32> = vec![0; self.demand.len()];
        let nodes = nodes.iter().map(|node| node.placed(&self.demand, &mut next)).collect();
        let left = self.demand.iter().zip(left).filter(|(_, users)| *users > 0);
        let left = left.map(|(demand, users)| Left { name: demand.name.clone(), users });
        Ok(Plan { nodes, left: left.collect(), further })
    }

    /// Places users so that all nodes are loaded alike: each gets a share of every
    /// demand in proportion to how much of the whole it could carry.
    fn spread(&self, nodes: &mut [Filling<'_>], left: &mut [u32]) {
        let carried: Vec<f64> = nodes.iter().map(|node| node.carries(left)).collect();
        let all: f64 = carried.iter().sum();
        if !(all.is_finite() && all > 0.0) {
            return;
        }
        let total = left.to_vec();
        let mut sum = 0.0;
        for (node, carried) in nodes.iter_mut().zip(carried) {
            // Boundaries are rounded, not parts, so that no user is lost.
            let boundary = |sum: f64, users: u32| (f64::from(users) * sum / all.max(1.0)) as u32;
            for (demand, &users) in total.iter().enumerate() {
                let wanted = boundary(sum + carried, users) - boundary(sum, users);
                node.place(demand, wanted.min(left[demand]), left);
            }
            sum += carried;
        }
    }

    /// Further nodes like the last that would have room for what is left.
    fn further(&self, scenario: &Scenario, left: &[u32]) -> Result<Option<usize>, ScenarioError> {
        let mut left = left.to_vec();
        let Some(node) = self.nodes.last() else { return Ok(None) };
        for further in 0..FURTHER {
            let before: u64 = left.iter().map(|&users| u64::from(users)).sum();
            if before == 0 {
                return Ok(Some(further));
            }
            Filling::new(node, self, scenario)?.fill(&mut left);
            if left.iter().map(|&users| u64::from(users)).sum::<u64>() == before {
                break;
            }
        }
        Ok(None)
    }
}

impl<'r> Filling<'r> {
    fn new(
        node: &'r Node,
        request: &'r Request,
        scenario: &Scenario,
    ) -> Result<Filling<'r>, ScenarioError> {
        let of = |demand: &Demand| {
            let (hardware, traffic) = (node.hardware.clone(), demand.traffic.clone());
            let workers = hardware.cores();
            Scenario { hardware, traffic, workers, ..scenario.clone() }.system()
        };
        let systems = request.demand.iter().map(of).collect::<Result<Vec<_>, _>>()?;
        let per_user = request.demand.iter().zip(&systems).map(|(demand, system)| {
            let packets = demand.packets();
            (0..system.components.len()).map(|index| packets * system.cost(index)).collect()
        });
        let per_user = per_user.collect();
        let system = systems.into_iter().next().unwrap_or_default();
        let taken = vec![0.0; system.components.len()];
        let users = vec![0; request.demand.len()];
        Ok(Filling { node, system, per_user, taken, users, headroom: request.headroom })
    }

    /// What there is of a component in a second, without what is kept free.
    fn capacity(&self, component: usize) -> f64 {
        self.system.components[component].capacity * (1.0 - self.headroom)
    }

    /// Users of a demand that still have room.
    fn room(&self, demand: usize) -> u32 {
        let rooms = self.per_user[demand].iter().enumerate().map(|(component, &each)| {
            let free = (self.capacity(component) - self.taken[component]).max(0.0);
            // A user more that fits but for rounding does fit.
            if each > 0.0 { (free / each + 1e-9).floor() } else { f64::INFINITY }
        });
        // More than there can be users, where nothing costs anything.
        rooms.fold(f64::from(u32::MAX), f64::min) as u32
    }

    /// Places as many of so many users as have room.
    fn place(&mut self, demand: usize, users: u32, left: &mut [u32]) {
        let users = users.min(self.room(demand));
        for (taken, each) in self.taken.iter_mut().zip(&self.per_user[demand]) {
            *taken += each * f64::from(users);
        }
        self.users[demand] += users;
        left[demand] -= users;
    }

    fn fill(&mut self, left: &mut [u32]) {
        for demand in 0..left.len() {
            self.place(demand, left[demand], left);
        }
    }

    /// How much of the users of all demands together it could carry, as a multiple.
    fn carries(&self, users: &[u32]) -> f64 {
        let multiples = (0..self.taken.len()).map(|component| {
            let each = self.per_user.iter().zip(users);
            let sum: f64 = each.map(|(costs, &users)| costs[component] * f64::from(users)).sum();
            if sum > 0.0 { self.capacity(component) / sum } else { f64::INFINITY }
        });
        multiples.fold(f64::INFINITY, f64::min)
    }

    /// The node with its users, whose addresses go on from those that are `next`.
    fn placed(&self, demands: &[Demand], next: &mut [u32]) -> Placed {
        let mut blocks = Vec::new();
        let mut rate = 0.0;
        for (index, demand) in demands.iter().enumerate() {
            let users = self.users[index];
            if users == 0 {
                continue;
            }
            let offset = next[index];
            let first = demand
                .first
                .map(|first| Ipv4Addr::from_bits(first.to_bits().saturating_add(offset)));
            let (name, chain) = (demand.name.clone(), demand.chain.clone());
            blocks.push(Block { name, users, first, chain });
            next[index] += users;
            rate += f64::from(users) * demand.packets();
        }
        let cores = self.node.hardware.cores();
        let workers = self.workers(cores);
        let components = self.system.components.iter().zip(&self.taken);
        let utilisation = components.map(|(component, taken)| {
            let (name, capacity) = match component.part {
                // Only the cores that are needed are put to work.
                Part::WorkerCores => {
                    let part = workers.max(1) as f64 / cores as f64;
                    ("worker cores".to_owned(), component.capacity * part)
                }
                _ => (component.name.clone(), component.capacity),
            };
            (name, taken / capacity)
        });
        let (name, utilisation) = (self.node.name.clone(), utilisation.collect());
        Placed { name, workers, cores, blocks, rate, utilisation }
    }

    /// The least number of cores that carries its users.
    fn workers(&self, cores: usize) -> usize {
        let is_core = |part: Part| part == Part::WorkerCores;
        let core = self.system.components.iter().position(|component| is_core(component.part));
        let Some(core) = core else { return 0 };
        if self.users.iter().all(|&users| users == 0) {
            return 0;
        }
        let each = self.capacity(core) / cores as f64;
        ((self.taken[core] / each - 1e-9).ceil().max(1.0) as usize).min(cores)
    }
}

impl Placed {
    /// The component that is asked for most, and for how much of it.
    pub fn busiest(&self) -> Option<(&str, f64)> {
        let most = self.utilisation.iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
        most.map(|(name, share)| (name.as_str(), *share))
    }
}

impl Plan {
    /// Nodes with users.
    pub fn used(&self) -> usize {
        self.nodes.iter().filter(|node| !node.blocks.is_empty()).count()
    }
}

/// The plan as YAML. `workers` and `users` of each node stand as they stand in the
/// configuration of a node.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |text: &str| Value::from(text);
        writeln!(f, "apiVersion: weft/v1\nkind: Plan\nnodes:")?;
        for node in self.nodes.iter().filter(|node| !node.blocks.is_empty()) {
            writeln!(f, "  - name: {}", text(&node.name))?;
            writeln!(f, "    workers: {{count: {}}}\n    users:", node.workers)?;
            for Block { name, users, first, chain } in &node.blocks {
                let name = text(name);
                write!(f, "      - {{name: {name}, count: {users}, ")?;
                if let Some(first) = first {
                    write!(f, "match: {{ipv4: {first}}}, ")?;
                }
                writeln!(f, "chain: {}}}", text(chain))?;
            }
            writeln!(f, "    predicted:\n      packetsPerSecond: {:.0}", node.rate)?;
            writeln!(f, "      utilisation:")?;
            for (component, share) in &node.utilisation {
                writeln!(f, "        {}: {share:.4}", text(component))?;
            }
        }
        if !self.left.is_empty() {
            writeln!(f, "left:")?;
            for Left { name, users } in &self.left {
                writeln!(f, "  - {{name: {}, count: {users}}}", text(name))?;
            }
        }
        Ok(())
    }
}
