//! The checked configuration of a node: every name is resolved, every number is
//! within its bounds.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use weft_compose::{Kind, Settings};
use weft_dpdk::TAG_SLOTS;
use weft_function::{Direction, TagTable};
use weft_handover::{NodeId, User};
use weft_lane::Policy;
use weft_process::{ResourceLimits, Restart};
use weft_rules::{Condition, RuleSet};
use weft_vf::{Nic, Switch};

use super::mistake::Mistakes;

/// All that a node is made of.
#[derive(Clone, Debug)]
pub struct Blueprint {
    /// Name of the node.
    pub name: String,
    /// Threads that carry packets.
    pub workers: Workers,
    /// Room for packets.
    pub memory: Memory,
    /// How a packet finds its next hop.
    pub forwarding: Forwarding,
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
    /// How users move between this node and others.
    pub handover: Option<HandoverPlan>,
    /// What is said in GTP-U.
    pub gtpu: Gtpu,
    /// Most users, groups and so on that the node makes room for.
    pub limits: Limits,
    /// What is probably not meant, though the node can run with it.
    pub warnings: Mistakes,
}

impl Blueprint {
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
}

impl Workers {
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

/// How a function is run.
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
pub enum Composition {
    /// In the worker's thread, one call for a burst.
    #[default]
    Call,
    /// As one loop of machine code with its neighbours that are fused as well.
    Fused,
    /// In a thread beside its worker's, behind a ring.
    Thread,
    /// In a process of its own, behind a ring in shared memory.
    Process,
    /// At another node, along a service path.
    Remote,
    /// In a process with virtual functions of a NIC, behind the NIC's switch.
    Vf,
}

impl Composition {
    /// Whether a function that is run so is at a thread of the node.
    pub fn is_at_hand(self) -> bool {
        matches!(self, Composition::Call | Composition::Fused | Composition::Thread)
    }
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

/// One port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortPlan {
    /// Name, as rules write it.
    pub name: String,
    /// DPDK device string, or `ring:NAME`.
    pub device: String,
    /// Direction of the packets that come in here.
    pub direction: Direction,
    /// Number of its network instance: a position in [`Blueprint::networks`].
    pub network: u32,
    /// MAC address to use; `None` for the device's own.
    pub mac: Option<[u8; 6]>,
    /// Longest IP packet, in bytes.
    pub mtu: u16,
    /// Own addresses, with the prefix lengths of their subnets.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Next hops beyond the subnets, at most one of each family.
    pub gateways: Vec<IpAddr>,
    /// MAC address that everything sent here goes to.
    pub next_hop_mac: Option<[u8; 6]>,
    /// Neighbours that are not asked for with ARP or ND.
    pub neighbours: Vec<(IpAddr, [u8; 6])>,
    /// Prefixes for which ARP and ND are answered here (RFC 1027, RFC 4389).
    pub proxy: Vec<(IpAddr, u8)>,
    /// Receive queues.
    pub queues: u16,
    /// Packets that each queue holds.
    pub descriptors: u16,
    /// The worker that polls queue 0; queue `i` is polled by the `i`th after
    /// it, modulo their number.
    pub worker: usize,
    /// Set for what is no device but a service path.
    pub path: Option<PathPlan>,
}

/// A service path through the node (RFC 8300).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPlan {
    /// Service path identifier.
    pub id: u32,
    /// Service index of packets that come.
    pub index: u8,
    /// Service index of packets that go on.
    pub next: u8,
    /// Where they go.
    pub hop: Hop,
}

/// The next hop of a service path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The port that leads there: a position in [`Blueprint::ports`].
    pub port: u16,
    /// Who it is.
    pub to: HopTo,
}

/// Who a next hop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopTo {
    /// A station of the link: NSH in Ethernet frames.
    Station([u8; 6]),
    /// An IP address: NSH in VXLAN-GPE.
    Address {
        /// The node's own.
        from: IpAddr,
        /// Of the same family.
        to: IpAddr,
    },
}

impl PortPlan {
    /// What stands for a service path.
    pub(super) fn of_path(
        name: &str,
        direction: Direction,
        network: u32,
        mtu: u16,
        path: PathPlan,
    ) -> PortPlan {
        PortPlan {
            name: name.to_owned(),
            device: String::new(),
            direction,
            network,
            mac: None,
            mtu,
            addresses: Vec::new(),
            gateways: Vec::new(),
            next_hop_mac: None,
            neighbours: Vec::new(),
            proxy: Vec::new(),
            queues: 0,
            descriptors: 0,
            worker: 0,
            path: Some(path),
        }
    }

    /// Whether packets that leave here are routed: they get a new Ethernet
    /// header, and their TTL is decremented. A port that is not routed is
    /// transparent.
    pub fn is_routed(&self) -> bool {
        !self.addresses.is_empty() || self.next_hop_mac.is_some()
    }
}

/// One function instance.
#[derive(Clone, Debug)]
pub struct FunctionPlan {
    /// Name of the instance, as rules write it.
    pub name: String,
    /// What function it is.
    pub kind: Kind,
    /// Its configuration; an instance was made of it on trial.
    pub config: Value,
    /// How it is run; one that is fused can be.
    pub composition: Composition,
    /// How its process is run, where it has one.
    pub process: Option<ProcessPlan>,
    /// Where it is, if it is at another node.
    pub remote: Option<RemotePlan>,
    /// The thread it stands on, where that is not its worker's.
    pub stage: Option<StagePlan>,
}

impl FunctionPlan {
    /// Whether it is in its process: that may only be prepared.
    pub fn is_isolated(&self) -> bool {
        matches!(self.composition, Composition::Process | Composition::Vf)
    }

    /// How packets get to its process through a NIC, if they do.
    pub fn vf(&self) -> Option<&VfPlan> {
        self.process.as_ref()?.vf.as_ref()
    }
}

/// How packets get to a function at another node, and back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemotePlan {
    /// Service path identifiers, uplink and downlink.
    pub paths: [u32; 2],
    /// Service index with which packets go.
    pub index: u8,
    /// Service index with which they come back.
    pub back: u8,
    /// The first hop.
    pub hop: Hop,
    /// Whether metadata is of MD type 1.
    pub fixed: bool,
    /// What becomes of packets while the path is not there.
    pub policy: Policy,
    /// A packet that is not back after so long is lost.
    pub timeout: Duration,
    /// How often the path is tried.
    pub probe: Duration,
}

/// A thread that functions stand on beside the workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagePlan {
    /// Its name: functions that give the same stand on the same.
    pub name: String,
    /// Its processor core; `None` leaves the choice to the kernel.
    pub core: Option<usize>,
}

/// How the process of a function is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessPlan {
    /// What becomes of packets while it is not there.
    pub policy: Policy,
    /// One that has not answered for so long stands still.
    pub heartbeat: Duration,
    /// How often contexts are put down at the node; never when none.
    pub checkpoint: Option<Duration>,
    /// Path of the ring; none for one that the node chooses.
    pub socket: Option<PathBuf>,
    /// Whether the node starts the process.
    pub started: bool,
    /// Whether packets go there without a header.
    pub plain: bool,
    /// How packets get there through a NIC; by a ring if none.
    pub vf: Option<VfPlan>,
    /// The user that it runs as; that of the node if none.
    pub user: Option<u32>,
    /// What it may use at most.
    pub limits: ResourceLimits,
    /// When it is started again.
    pub restart: Restart,
}

/// How packets get to a process through a NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VfPlan {
    /// The node's port at the NIC: a position in [`Blueprint::ports`].
    pub port: u16,
    /// Devices of the process: what it receives at, and what it sends at if that is
    /// another.
    pub devices: Vec<String>,
    /// MAC address that frames to it have.
    pub mac: [u8; 6],
    /// Packets that each queue of the process holds.
    pub descriptors: u16,
    /// A packet that is not back after so long is lost.
    pub timeout: Duration,
}

/// One group of users.
#[derive(Clone, Debug)]
pub struct GroupPlan {
    /// Name.
    pub name: String,
    /// Settings, each with a position in [`Blueprint::functions`].
    pub settings: Vec<(usize, Settings)>,
}

/// Users in a row that differ in nothing but their number.
#[derive(Clone, Debug)]
pub struct UserPlan {
    /// Name of the only user, or what stands before the number in the names of
    /// several.
    pub name: String,
    /// How many users; at least one.
    pub count: u32,
    /// What finds the first of them, at least one key; see [`UserKey::nth`].
    pub keys: Vec<UserKey>,
    /// Tag values by slot. The chain is [`weft_rules::NO_CHAIN`] for none; the
    /// direction is 0, it depends on the port.
    pub tags: [u32; TAG_SLOTS],
    /// Number of the distinct tag vector, see [`Blueprint::classes`].
    pub class: usize,
    /// A position in [`Blueprint::groups`].
    pub group: Option<usize>,
    /// Settings of the users and their default bearers, each with a position in
    /// [`Blueprint::functions`].
    pub settings: Vec<(usize, Settings)>,
    /// A position in [`Blueprint::bearer_profiles`].
    pub bearers: Option<usize>,
}

impl UserPlan {
    /// Name of the `nth` user, from 0.
    pub fn name_of(&self, nth: u32) -> String {
        match self.count {
            1 => self.name.clone(),
            _ => format!("{}-{nth}", self.name),
        }
    }
}

/// What the classifier finds a user by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UserKey {
    /// The user's IPv4 address in a network instance.
    Ipv4 {
        /// Number of the network instance.
        network: u32,
        /// Address of the first user.
        first: Ipv4Addr,
    },
    /// The user's IPv6 address or prefix in a network instance.
    Ipv6 {
        /// Number of the network instance.
        network: u32,
        /// Address or prefix of the first user; bits behind the prefix are 0.
        first: Ipv6Addr,
        /// 64 or 128.
        prefix_len: u8,
    },
    /// The outer VLAN of packets that come in at a port.
    Vlan {
        /// A position in [`Blueprint::ports`].
        port: usize,
        /// VLAN identifier of the first user.
        first: u16,
    },
    /// The PPPoE session of packets that come in at a port.
    Session {
        /// A position in [`Blueprint::ports`].
        port: usize,
        /// Session identifier of the first user.
        first: u16,
    },
    /// Whatever else comes in at a port.
    Port {
        /// A position in [`Blueprint::ports`].
        port: usize,
    },
    /// The tunnel endpoint that packets are sent to in a network instance,
    /// whatever is inside.
    Teid {
        /// Number of the network instance.
        network: u32,
        /// TEID of the first user.
        first: u32,
    },
    /// The security association (RFC 4303 §2.1) of ESP packets that come in at a
    /// network instance.
    Spi {
        /// Number of the network instance.
        network: u32,
        /// SPI of the first user.
        first: u32,
    },
    /// One flow, as seen uplink; source and destination change places downlink.
    Flow {
        /// Number of the network instance.
        network: u32,
        /// IP protocol number.
        protocol: u8,
        /// Address at the user's side.
        source: IpAddr,
        /// Port at the user's side; 0 for a protocol without ports.
        source_port: u16,
        /// Address at the network's side; of the same family as `source`.
        destination: IpAddr,
        /// Port at the network's side; 0 for a protocol without ports.
        destination_port: u16,
    },
}

impl UserKey {
    /// The key of the `nth` user, from 0, where this is the first one's.
    pub fn nth(self, nth: u32) -> UserKey {
        match self {
            UserKey::Ipv4 { network, first } => {
                let first = Ipv4Addr::from_bits(first.to_bits().wrapping_add(nth));
                UserKey::Ipv4 { network, first }
            }
            UserKey::Ipv6 { network, first, prefix_len } => {
                let step = u128::from(nth) << if prefix_len == 64 { 64 } else { 0 };
                let first = Ipv6Addr::from_bits(first.to_bits().wrapping_add(step));
                UserKey::Ipv6 { network, first, prefix_len }
            }
            UserKey::Vlan { port, first } => {
                UserKey::Vlan { port, first: first.wrapping_add(nth as u16) }
            }
            UserKey::Teid { network, first } => {
                UserKey::Teid { network, first: first.wrapping_add(nth) }
            }
            UserKey::Spi { network, first } => {
                UserKey::Spi { network, first: first.wrapping_add(nth) }
            }
            UserKey::Session { port, first } => {
                UserKey::Session { port, first: first.wrapping_add(nth as u16) }
            }
            UserKey::Port { .. } | UserKey::Flow { .. } => self,
        }
    }
}

/// One dedicated bearer (TS 23.401 §4.7.2) of some users.
#[derive(Clone, Debug)]
pub struct BearerPlan {
    /// Name.
    pub name: String,
    /// The user's packets that it carries, unless an earlier one does.
    pub when: Condition,
    /// Settings, each with a position in [`Blueprint::functions`].
    pub settings: Vec<(usize, Settings)>,
}

/// How users move between this node and others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandoverPlan {
    /// Number of this node.
    pub node: NodeId,
    /// What it is.
    pub role: HandoverRole,
    /// Own address that tunnels end at.
    pub local: IpAddr,
    /// The port that has it: a position in [`Blueprint::ports`].
    pub port: u16,
    /// Number of the port's network instance.
    pub network: u32,
    /// Numbers of the other nodes, and where their tunnels end.
    pub peers: Vec<(NodeId, IpAddr)>,
    /// The users that move.
    pub users: Vec<MovingUsers>,
    /// The function that puts packets into tunnels: a position in
    /// [`Blueprint::functions`].
    pub tunnel: u16,
    /// How much may wait.
    pub limits: weft_handover::plane::Limits,
    /// What says that a user's radio has arrived, and times of the protocol.
    pub settings: weft_handover::Settings,
    /// Times and bounds of connections with the controller and with other nodes.
    pub timing: weft_transport::Timing,
}

/// What a node is in handovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandoverRole {
    /// It owns users and hands them over.
    Station,
    /// It stands before the stations, and switches the paths of users.
    Anchor,
}

impl HandoverRole {
    /// As configurations write it.
    pub const fn name(self) -> &'static str {
        match self {
            HandoverRole::Station => "station",
            HandoverRole::Anchor => "anchor",
        }
    }
}

/// Users that move: all of a plan, and those that are added like them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovingUsers {
    /// Name of the plan.
    pub plan: String,
    /// Number of the first of them.
    pub first: u64,
    /// How many the plan has.
    pub count: u32,
    /// How many may be added.
    pub added: u32,
}

impl MovingUsers {
    /// The first number behind theirs.
    pub fn end(&self) -> u64 {
        self.first + u64::from(self.count) + u64::from(self.added)
    }

    /// Which of them, from 0, has this number.
    pub fn nth(&self, user: User) -> Option<u32> {
        let nth = user.0.checked_sub(self.first).filter(|_| user.0 < self.end())?;
        u32::try_from(nth).ok()
    }

    /// The same, of those that may be added.
    pub fn added(&self, user: User) -> Option<u32> {
        self.nth(user).filter(|nth| *nth >= self.count)
    }
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
    /// It goes on; whoever listens is told.
    #[default]
    Keep,
    /// Its packets are dropped.
    Drop,
    /// Packets to the user wait, and the first of them is told.
    Notify,
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
    /// Neighbours (ARP and ND entries) of all ports together.
    pub neighbours: u32,
}
