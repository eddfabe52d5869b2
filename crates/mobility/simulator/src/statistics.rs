//! What happened in a run, counted.

use std::collections::BTreeMap;
use std::ops::AddAssign;

/// What happened in one run, or in several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Moves that came to their end.
    pub moves: u64,
    /// Moves that were given up; the source went on.
    pub aborted: u64,
    /// Orders that the controller refused.
    pub refused: u64,
    /// Users that got an owner anew, after theirs was gone, or when they were added.
    pub adopted: u64,
    /// Users that a station goes on with as its last life had them.
    pub kept: u64,
    /// Users that were removed.
    pub removed: u64,
    /// Messages sent, lost and doubled.
    pub messages: u64,
    /// Messages that the network lost.
    pub messages_lost: u64,
    /// Messages that the network doubled.
    pub messages_doubled: u64,
    /// Packets sent by users and by the core.
    pub packets: u64,
    /// Packets that arrived.
    pub delivered: u64,
    /// Packets that were lost, by cause.
    pub lost: BTreeMap<&'static str, u64>,
    /// Packets that waited at a gate.
    pub held: u64,
    /// The most that waited at one node.
    pub held_most: u64,
    /// Deaths of stations, anchors and the controller.
    pub deaths: u64,
    /// Cuts of the network.
    pub cuts: u64,
    /// What nodes and controller counted, by name.
    pub counters: BTreeMap<&'static str, u64>,
    /// Events that were simulated.
    pub events: u64,
    /// Virtual time, in microseconds.
    pub time: u64,
}

impl Statistics {
    /// Packets that were lost, for whatever cause.
    pub fn lost_in_all(&self) -> u64 {
        self.lost.values().sum()
    }
}

impl AddAssign<&Statistics> for Statistics {
    fn add_assign(&mut self, other: &Statistics) {
        self.moves += other.moves;
        self.aborted += other.aborted;
        self.refused += other.refused;
        self.adopted += other.adopted;
        self.kept += other.kept;
        self.removed += other.removed;
        self.messages += other.messages;
        self.messages_lost += other.messages_lost;
        self.messages_doubled += other.messages_doubled;
        self.packets += other.packets;
        self.delivered += other.delivered;
        self.held += other.held;
        self.held_most = self.held_most.max(other.held_most);
        self.deaths += other.deaths;
        self.cuts += other.cuts;
        self.events += other.events;
        self.time += other.time;
        for (cause, count) in &other.lost {
            *self.lost.entry(cause).or_default() += count;
        }
        for (name, count) in &other.counters {
            *self.counters.entry(name).or_default() += count;
        }
    }
}
