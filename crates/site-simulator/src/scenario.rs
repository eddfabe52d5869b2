//! What is simulated, what is promised, and what came of a run.

use std::fmt;
use std::ops::AddAssign;

weft_mobility_simulator::fault_set! {
    /// Replicas and nodes die and start again.
    deaths,
    /// Replicas stand still, and go on where they were.
    standstills,
    /// Replicas, members of etcd and nodes are cut off from each other.
    cuts,
    /// Members of etcd die, etcd has no leader for a while, its requests come late.
    etcd,
    /// The quota of etcd is used up for a while.
    full,
    /// etcd gives its history up.
    compaction,
}

/// Something that is built wrong on purpose, to see that a promise breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Transactions do not compare the key of the leader.
    NoFence,
    /// Transactions do not compare the count of transactions.
    NoCount,
    /// A controller answers without looking whether it still leads.
    StaleAnswers,
    /// Some writes are forgotten, so moves begin whose records are lost with their leader.
    ForgetWrites,
    /// Nodes say that they run by settings that they were told, and do not.
    FalseReports,
    /// Stations say that they carry the more, the fewer users they have.
    FalseLoads,
    /// A node of a pair carries packets until it is told that it does not own its users.
    LateStop,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Mutation; 7] = [
        Mutation::NoFence,
        Mutation::NoCount,
        Mutation::StaleAnswers,
        Mutation::ForgetWrites,
        Mutation::FalseReports,
        Mutation::FalseLoads,
        Mutation::LateStop,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Mutation::NoFence => "no-fence",
            Mutation::NoCount => "no-count",
            Mutation::StaleAnswers => "stale-answers",
            Mutation::ForgetWrites => "forget-writes",
            Mutation::FalseReports => "false-reports",
            Mutation::FalseLoads => "false-loads",
            Mutation::LateStop => "late-stop",
        }
    }
}

/// What is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Nodes: an anchor, and stations. From 3.
    pub nodes: u32,
    /// Users.
    pub users: u64,
    /// Replicas of the controller.
    pub replicas: usize,
    /// Orders of operators: moves of users, drains, upgrades of all nodes.
    pub orders: u64,
    /// What can go wrong.
    pub faults: Faults,
    /// What is built wrong on purpose.
    pub mutation: Option<Mutation>,
    /// Lines of the log that are kept.
    pub log: usize,
}

impl Default for Scenario {
    fn default() -> Scenario {
        Scenario {
            nodes: 4,
            users: 24,
            replicas: 3,
            orders: 30,
            faults: Faults::ALL,
            mutation: None,
            log: 0,
        }
    }
}

/// What is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// Never more than one owner whose packets the anchor takes.
    OneOwner,
    /// Ownership of a user is one register: epochs only rise, and no answer goes back behind
    /// what was seen.
    Linearizable,
    /// After the last fault all users are settled at nodes that own them, and all orders end.
    Placed,
    /// Keys, octets and transactions of etcd stay within their bounds.
    Bounded,
    /// No part of the controller fails.
    Sound,
    /// After the last fault each station runs as the newest revision of the documents says, or
    /// the leader says why it does not.
    RolledOut,
    /// Users are spread few at a time, seldom, and until loads are level.
    Balanced,
    /// At most one node of a pair carries packets.
    OneOfPair,
}

impl Promise {
    /// All of them.
    pub const ALL: [Promise; 8] = [
        Promise::OneOwner,
        Promise::Linearizable,
        Promise::Placed,
        Promise::Bounded,
        Promise::Sound,
        Promise::RolledOut,
        Promise::Balanced,
        Promise::OneOfPair,
    ];
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Promise::OneOwner => "one owner",
            Promise::Linearizable => "linearizable",
            Promise::Placed => "placed",
            Promise::Bounded => "bounded",
            Promise::Sound => "sound",
            Promise::RolledOut => "rolled out",
            Promise::Balanced => "balanced",
            Promise::OneOfPair => "one of a pair",
        })
    }
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub promise: Promise,
    /// When, in microseconds of virtual time.
    pub time: u64,
    /// What was seen.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (second, micro) = (self.time / 1_000_000, self.time % 1_000_000);
        write!(f, "{}: {}, at {second}.{micro:06} s", self.promise, self.what)
    }
}

/// What happened, in one run or in many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Events.
    pub events: u64,
    /// Virtual time, in microseconds.
    pub time: u64,
    /// Leaders that there were.
    pub leaders: u64,
    /// Users that have moved, and moves that were given up.
    pub moves: [u64; 2],
    /// Nodes that went over to another process as their controller had told them.
    pub upgrades: u64,
    /// Users that have an owner anew.
    pub adopted: u64,
    /// Revisions of documents that all nodes came to run by, and that did harm.
    pub revisions: [u64; 2],
    /// How often users were spread over stations.
    pub spreads: u64,
    /// How often a node of the pair was granted its users.
    pub grants: u64,
    /// Answers of controllers that were checked.
    pub answers: u64,
    /// Deaths of replicas and of nodes.
    pub deaths: [u64; 2],
    /// Standstills of replicas.
    pub standstills: u64,
    /// Cuts.
    pub cuts: u64,
    /// Faults of etcd.
    pub etcd_faults: u64,
    /// Transactions of etcd, and octets that they wrote.
    pub transactions: u64,
    /// See `transactions`.
    pub octets: u64,
    /// Longest time from the last fault until all was well, in microseconds.
    pub longest: u64,
}

impl AddAssign<&Statistics> for Statistics {
    fn add_assign(&mut self, other: &Statistics) {
        self.events += other.events;
        self.time += other.time;
        self.leaders += other.leaders;
        for (at, count) in other.moves.iter().enumerate() {
            self.moves[at] += count;
        }
        self.upgrades += other.upgrades;
        self.adopted += other.adopted;
        for (at, count) in other.revisions.iter().enumerate() {
            self.revisions[at] += count;
        }
        self.spreads += other.spreads;
        self.grants += other.grants;
        self.answers += other.answers;
        for (at, count) in other.deaths.iter().enumerate() {
            self.deaths[at] += count;
        }
        self.standstills += other.standstills;
        self.cuts += other.cuts;
        self.etcd_faults += other.etcd_faults;
        self.transactions += other.transactions;
        self.octets += other.octets;
        self.longest = self.longest.max(other.longest);
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
