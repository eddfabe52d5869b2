//! The checked configuration of a node: every name is resolved, every number is
//! within its bounds.

mod bgp;
mod functions;
mod handover;
mod ipfix;
mod pfcp;
mod ports;
mod users;

use std::path::PathBuf;
use std::time::Duration;

pub use weft_dataplane::classify::UserKey;
pub use weft_dataplane::gates::HandoverRole;
pub use weft_dataplane::service_path::{Hop, HopTo, PathPlan, Peer, PeerAddress, RemotePlan};
pub use weft_dataplane::transmit::to_agent::LocalLimits;
use weft_function::{TAG_SLOTS, TagTable};
pub use weft_offload::thread::StagePlan;
use weft_rules::{Known, RuleSet};
use weft_state::Durability;
use weft_vf::{Nic, Switch};

pub use self::bgp::{BgpPeerPlan, BgpPlan};
pub use self::functions::{Composition, FunctionPlan, ProcessPlan, VfPlan};
pub use self::handover::{HandoverPlan, HandoverSecurity, MovingUsers, SitePlan, StandbyPlan};
pub use self::ipfix::{IpfixPlan, IpfixTransport};
pub use self::pfcp::{PfcpChainPlan, PfcpInterfacePlan, PfcpNodeId, PfcpPlan, PfcpSide};
pub use self::ports::PortPlan;
pub use self::users::{BearerPlan, GroupPlan, UserPlan};
use super::mistake::Mistakes;

/// All that a node is made of.
#[derive(Clone, Debug)]
pub struct Blueprint {
    /// Name of the node.
    pub name: String,
    /// Threads that carry packets.
    pub workers: Workers,
    /// Longest time in one round of a thread that functions run on; none for any.
    pub watchdog: Option<Duration>,
    /// Room for packets.
    pub memory: Memory,
    /// How a packet finds its next hop.
    pub forwarding: Forwarding,
    /// Whether fused functions run fused where that takes more cycles than to call them.
    pub fused: FusedWhen,
    /// How the user of a packet is found.
    pub classification: Classification,
    /// NICs with virtual functions.
    pub nics: Vec<Nic>,
    /// Switches in software that stand in for NICs.
    pub switches: Vec<Switch>,
    /// Ports, in the order of the file, and behind them service paths: `PortIndex` of
    /// the rules.
    pub ports: Vec<PortPlan>,
    /// Names of the network instances (TS 29.244 §5.6), by number.
    pub networks: Vec<String>,
    /// All tags and their slots; the values of `chain` and `network` are named.
    pub tags: TagTable,
    /// Function instances, in the order of the file: `FunctionIndex` of the
    /// rules.
    pub functions: Vec<FunctionPlan>,
    /// Groups of users.
    pub groups: Vec<GroupPlan>,
    /// Users and ranges of users.
    pub users: Vec<UserPlan>,
    /// Dedicated bearers; a [`UserPlan`] refers to a list by its position.
    pub bearer_profiles: Vec<Vec<BearerPlan>>,
    /// The rules, parsed and checked.
    pub rules: RuleSet,
    /// Where the node keeps what commands have set.
    pub state: Option<StatePlan>,
    /// Its part in a pair of nodes for one set of users.
    pub standby: Option<StandbyPlan>,
    /// The site that it is of.
    pub site: Option<SitePlan>,
    /// How users move between this node and others.
    pub handover: Option<HandoverPlan>,
    /// How control planes drive the node.
    pub pfcp: Option<PfcpPlan>,
    /// What is said in GTP-U.
    pub gtpu: Gtpu,
    /// What is exported by IPFIX.
    pub ipfix: Option<IpfixPlan>,
    /// Routers that are told of the networks of users.
    pub bgp: Option<BgpPlan>,
    /// Most users, groups and so on that the node makes room for.
    pub limits: Limits,
    /// What is probably not meant, though the node can run with it.
    pub warnings: Mistakes,
}

impl Blueprint {
    /// Has what flags and environment said of a node's configuration before that of this file.
    pub fn keep_overrules(&mut self, before: &Blueprint) {
        self.workers.overrule(&before.workers.overrules);
        let before = before.pfcp.as_ref().filter(|pfcp| pfcp.is_listen_overruled);
        if let (Some(pfcp), Some(before)) = (&mut self.pfcp, before) {
            pfcp.overrule_listen(&before.listen);
        }
    }

    /// The distinct user tag vectors, by [`UserPlan::class`]: users of one
    /// class take the same ways through the rules.
    pub fn classes(&self) -> Vec<[u32; TAG_SLOTS]> {
        let count = self.users.iter().map(|user| user.class + 1).max().unwrap_or(0);
        let mut classes = vec![[0; TAG_SLOTS]; count];
        for user in &self.users {
            classes[user.class] = user.tags;
        }
        classes
    }

    /// The ports that are devices.
    pub fn devices(&self) -> &[PortPlan] {
        let count = self.ports.iter().take_while(|port| port.path.is_none()).count();
        &self.ports[..count]
    }

    /// The greatest MTU of all ports, in bytes: buffers of the node have room for it.
    pub fn greatest_mtu(&self) -> u16 {
        self.devices().iter().map(|port| port.mtu).max().unwrap_or_default()
    }

    /// Whether all packets that leave lie in buffers of the node's one pool: no port and no
    /// function gives it buffers of another program, or of a pool of its own.
    pub fn sends_own_buffers(&self) -> bool {
        const LEND: [&str; 4] = ["ring:", "net_ring", "net_memif", "net_vhost"];
        let lends = |port: &PortPlan| LEND.iter().any(|name| port.device.starts_with(name));
        !self.devices().iter().any(lends)
            && !self.functions.iter().any(|function| function.process.is_some())
    }

    /// Whether service paths lead through the node.
    pub fn has_paths(&self) -> bool {
        self.ports.iter().any(|port| port.path.is_some())
    }

    /// Whether packets come and go with service headers.
    pub fn has_service_headers(&self) -> bool {
        let has_header =
            |function: &FunctionPlan| function.remote.is_some() || function.vf().is_some();
        self.has_paths() || self.functions.iter().any(has_header)
    }

    /// Slots of the tags that functions write, one bit for each.
    pub fn written_tags(&self) -> u8 {
        let kinds = self.functions.iter().map(|function| function.kind);
        kinds.fold(0, |all, kind| all | weft_function::tag::tags_written(kind.writes, &self.tags))
    }

    /// What comes on a service path brings along the tags that functions have written: at
    /// such a port they are not known beforehand.
    pub fn forget_written(&self, port: usize, tags: &mut [Known; TAG_SLOTS]) {
        if self.ports[port].path.is_some() {
            let written = self.written_tags();
            let slots = tags.iter_mut().enumerate().filter(|(slot, _)| written >> slot & 1 == 1);
            slots.for_each(|(_, tag)| *tag = Known::Unknown);
        }
    }
}

/// The threads that carry packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workers {
    /// How many there are; at least one.
    pub count: usize,
    /// The processor core of each; `None` leaves the choice to the kernel.
    pub cores: Option<Vec<usize>>,
    /// What a worker does while there is nothing to do.
    pub polling: Polling,
    /// Longest sleep of a worker that polls adaptively, in microseconds.
    pub max_sleep_us: u32,
    /// Whether a worker that polls adaptively sleeps until devices tell of packets, where they do.
    pub interrupts: bool,
    /// What is not as the file says.
    pub overrules: Overrules,
}

/// What flags and environment say of workers, which comes before the file, also before another
/// file that a running node is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrules {
    /// The processor core of each.
    pub cores: Option<Vec<usize>>,
    /// What a worker does while there is nothing to do.
    pub polling: Option<Polling>,
    /// Longest sleep of a worker that polls adaptively, in microseconds.
    pub max_sleep_us: Option<u32>,
}

impl Workers {
    /// Has these before what the file says.
    pub fn overrule(&mut self, overrules: &Overrules) {
        let Overrules { cores, polling, max_sleep_us } = overrules.clone();
        self.cores = cores.or(self.cores.take());
        self.polling = polling.unwrap_or(self.polling);
        self.max_sleep_us = max_sleep_us.unwrap_or(self.max_sleep_us);
        self.overrules = overrules.clone();
    }

    /// Whether workers sleep until something comes, as far as devices tell of packets.
    pub fn sleeps_until_woken(&self) -> bool {
        self.interrupts && self.polling == Polling::Adaptive
    }

    /// Longest sleep of a thread that has nothing to do; none when it never sleeps.
    pub fn pause(&self) -> Option<Duration> {
        match self.polling {
            Polling::Busy => None,
            Polling::Adaptive => Some(Duration::from_micros(self.max_sleep_us.into())),
        }
    }
}

/// What a worker does while there is nothing to do.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Deserialize,
    serde::Serialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Polling {
    /// It asks again at once: lowest delay, a whole core.
    Busy,
    /// It asks again at once for a while and then sleeps, longer and longer.
    #[default]
    Adaptive,
}

/// Room for packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Packet buffers of the pool.
    pub packets: u32,
    /// Megabytes that DPDK may take; `None` for what packets and limits need.
    pub megabytes: Option<u32>,
    /// Whether huge pages are used when there are any.
    pub huge_pages: bool,
}

/// How a packet finds its next hop.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Deserialize,
    serde::Serialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Forwarding {
    /// Rules are compiled to paths: what a user's tags decide is decided before
    /// a packet comes.
    #[default]
    Compiled,
    /// One rule lookup for each hop, behind an exact-match cache (Pinczel et
    /// al. §IV.A): the baseline that compiled paths are compared with.
    Lookup,
}

/// When functions that are fused run as one loop of machine code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum FusedWhen {
    /// Where that takes fewer cycles: workers measure both on packets that come, and call the
    /// functions otherwise.
    #[default]
    Auto,
    /// Always.
    Always,
}

/// How the user of a packet is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Classification {
    /// By tables.
    #[default]
    Table,
    /// By a scan over all keys: the baseline that the tables are compared with.
    Linear,
}

/// When a node that starts again reads the contexts of its users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub enum Loading {
    /// On demand where the machine has two cores more than workers, otherwise first.
    #[default]
    Auto,
    /// Before the first packet.
    First,
    /// While packets pass: users whose packets wait have theirs next.
    OnDemand,
}

impl Loading {
    /// Whether packets pass meanwhile, with so many workers on a machine of so many cores.
    #[must_use]
    pub fn is_on_demand(self, workers: usize, cores: usize) -> bool {
        match self {
            // One core reads records, one finds out whose they are.
            Loading::Auto => cores >= workers + 2,
            Loading::First => false,
            Loading::OnDemand => true,
        }
    }
}

/// Where a node keeps what commands have set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatePlan {
    /// Folder of the store.
    pub directory: PathBuf,
    /// When a command is answered.
    pub durability: Durability,
    /// When contexts of users are read.
    pub loading: Loading,
    /// Users and bearers whose contexts are looked at in a second.
    pub checkpoint_rate: u32,
}

/// What the node makes room for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Users.
    pub users: u32,
    /// Groups of users.
    pub groups: u32,
    /// Dedicated bearers of all users together; each user has a default bearer
    /// besides.
    pub bearers: u32,
    /// Packets that functions may keep for one user.
    pub kept_packets: u32,
    /// Packets that may wait for one idle bearer.
    pub waiting_packets: u32,
    /// Bytes that may wait for one idle bearer.
    pub waiting_bytes: u32,
    /// Packets that may wait for all idle bearers together.
    pub waiting_in_all: u32,
    /// How long packets may wait in the receive queues of an overloaded worker; none for as long
    /// as the queues are.
    pub delay: Option<Duration>,
    /// Neighbours (ARP and ND entries) of all ports together.
    pub neighbours: u32,
    /// What the node itself takes and answers.
    pub local: LocalLimits,
}

/// What the node says in GTP-U of its own accord, and does about what peers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gtpu {
    /// How peers are asked whether they are there.
    pub echo: Echo,
    /// What becomes of a bearer that an Error Indication is about.
    pub error_indication: OnErrorIndication,
}

/// How peers are asked whether they are there (TS 29.281 §7.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// Seconds between requests that are answered; 0 for none.
    pub interval: u32,
    /// T3-RESPONSE, in seconds.
    pub t3_response: u32,
    /// N3-REQUESTS.
    pub n3_requests: u8,
}

/// What becomes of a bearer whose tunnel its peer does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum OnErrorIndication {
    /// It goes on; the node tells its clients by an event.
    #[default]
    Keep,
    /// Its packets are dropped.
    Drop,
    /// Packets to the user wait, and the first of them is told.
    Notify,
}
