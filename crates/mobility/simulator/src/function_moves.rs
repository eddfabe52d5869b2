//! Moves of a function between two nodes under faults, in virtual time.
//!
//! Coordinator and participant run the machines of
//! [`weft_mobility_protocol::function_move`] as they are. Around them are simulated: the
//! function's contexts at both nodes, which count the packets of each user; the gate and the path
//! between the nodes; messages that are lost, doubled and late; the deaths of either node and of
//! the command that asked for a move; and parts of a node that fail or take long.

mod world;

use std::ops::AddAssign;

use crate::check::Violation;

crate::fault_set! {
    /// Messages are lost, doubled and late.
    messages,
    /// Nodes and commands die.
    deaths,
    /// What a node is asked for fails, or takes long.
    failures,
}

/// What is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Users whose packets the function counts.
    pub users: u64,
    /// Orders that are given in each run.
    pub orders: u64,
    /// What can go wrong.
    pub faults: Faults,
    /// What is wrong on purpose.
    pub mutation: Option<Mutation>,
    /// Lines of the log that are kept.
    pub log: usize,
}

impl Default for Scenario {
    fn default() -> Scenario {
        Scenario { users: 7, orders: 20, faults: Faults::ALL, mutation: None, log: 0 }
    }
}

/// Something that is built wrong on purpose, so that checks show that they can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Packets go on while contexts are copied.
    NoGate,
    /// The first piece of contexts is taken for the last.
    CopyFirstOnly,
    /// A function that comes back goes on with the contexts that it left with.
    StaleContexts,
    /// What has waited at the gate is lost.
    LoseHeld,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Mutation; 4] =
        [Mutation::NoGate, Mutation::CopyFirstOnly, Mutation::StaleContexts, Mutation::LoseHeld];
}

/// What happened in one run, or in several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Moves that came about.
    pub moves: u64,
    /// Moves that were given up.
    pub failed: u64,
    /// Orders that joined a move, or heard what had come of it.
    pub joined: u64,
    /// Messages sent.
    pub messages: u64,
    /// Messages that the network lost.
    pub messages_lost: u64,
    /// Messages that the network doubled.
    pub messages_doubled: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets that arrived.
    pub delivered: u64,
    /// Packets that were lost with a node.
    pub lost: u64,
    /// Packets that waited at the gate.
    pub held: u64,
    /// Deaths of either node.
    pub deaths: u64,
    /// Deaths of commands while their move was under way.
    pub command_deaths: u64,
    /// Events that were simulated.
    pub events: u64,
    /// Virtual time, in microseconds.
    pub time: u64,
}

impl AddAssign<&Statistics> for Statistics {
    fn add_assign(&mut self, other: &Statistics) {
        self.moves += other.moves;
        self.failed += other.failed;
        self.joined += other.joined;
        self.messages += other.messages;
        self.messages_lost += other.messages_lost;
        self.messages_doubled += other.messages_doubled;
        self.packets += other.packets;
        self.delivered += other.delivered;
        self.lost += other.lost;
        self.held += other.held;
        self.deaths += other.deaths;
        self.command_deaths += other.command_deaths;
        self.events += other.events;
        self.time += other.time;
    }
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What happened.
    pub statistics: Statistics,
    /// The first promise that was broken; the run ends with it.
    pub violation: Option<Violation>,
    /// The last lines of the log, oldest first.
    pub log: Vec<String>,
}

/// Runs a scenario. The same scenario and seed give the same outcome.
pub fn run(scenario: &Scenario, seed: u64) -> Outcome {
    world::World::new(*scenario, seed).live()
}
