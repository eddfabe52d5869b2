//! What a node shows of itself: values that can be printed, compared and sent,
//! gathered from the counters of all workers.

mod topology;
mod users;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weft_node_config::Composition;
use weft_offload::process::protocol::PortCounters;

pub use self::topology::{FunctionPlace, PortPlace, RuleView, TopologyView, paths};
pub(crate) use self::users::UserViews;
use super::state::StateView;
use crate::bearer::{Action, BearerId, DefaultBearer};
pub use crate::gtpu_peers::{PeerView, SignalCounts};
pub use crate::mobility::HandoverView;
pub use crate::ports::{ExtendedView, LinkState, NeighbourView};

/// One look at everything that is counted. Counts are since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Snapshot {
    /// Name of the node.
    pub node: String,
    /// Nanoseconds since the start, on the node's clock.
    pub uptime: u64,
    /// When it started, in seconds since 1970.
    #[serde(default)]
    pub started: u64,
    /// Cycles per second of the time-stamp counter.
    pub tsc_hz: u64,
    /// Users there are: of the configuration, and PFCP sessions.
    pub users: usize,
    /// Packet buffers in all, and those that are free.
    pub buffers: Buffers,
    /// The workers.
    pub workers: Vec<WorkerView>,
    /// The ports.
    pub ports: Vec<PortView>,
    /// The functions, in the order of the configuration.
    pub functions: Vec<FunctionView>,
    /// Everything that was dropped, by reason; reasons never met are left out.
    pub drops: Vec<DropView>,
    /// Answers that the node did not give, by what they would have been; those never met are
    /// left out. They are no packets: what they would have answered is counted elsewhere.
    #[serde(default)]
    pub withheld: Vec<WithheldView>,
    /// Packets among `local` of which nothing came, by cause; causes never met are left out.
    #[serde(default)]
    pub ignored: Vec<IgnoredView>,
    /// Packets given to the node itself.
    pub local: u64,
    /// Packets that the node itself sent.
    pub originated: u64,
    /// Packets that functions generated or copied.
    pub emitted: u64,
    /// Fragments made, beyond the packets they were made of.
    pub fragments: u64,
    /// Panics caught in functions.
    pub panics: u64,
    /// Packets that were kept, and went to another node with their users.
    #[serde(default)]
    pub moved_out: u64,
    /// Packets that were kept, and came from another node with their users.
    #[serde(default)]
    pub moved_in: u64,
    /// Users that move between nodes, where they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handover: Option<HandoverView>,
    /// What outlives the node, where something does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateView>,
    /// Messages between the node and its GTP-U peers.
    #[serde(default)]
    pub signals: SignalCounts,
}

/// Packet buffers of the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Buffers {
    /// In all.
    pub size: u32,
    /// Free.
    pub available: u32,
}

/// One worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkerView {
    /// The thread that runs it; a worker that is parked has that of another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<usize>,
    /// Bursts that held a packet.
    pub bursts: u64,
    /// The same by their packets: up to 1, 2, 4, 8, 16, 32, and more.
    #[serde(default)]
    pub burst_sizes: Vec<u64>,
    /// Timed bursts by the time from their reception until they had left: up to 1, 2.5, 5, 10
    /// µs and so on to 25 and 100 ms, and more.
    #[serde(default)]
    pub burst_times: Vec<u64>,
    /// The sum of these times, in nanoseconds.
    #[serde(default)]
    pub burst_time: u64,
    /// Packets in them.
    pub packets: u64,
    /// Polls that found nothing.
    pub empty_polls: u64,
    /// Packets handed to another worker.
    pub handed_over: u64,
    /// Name and cycles per packet of each stage, from a sample of the bursts;
    /// *forward* is without the functions.
    pub stages: Vec<StageView>,
}

/// Time spent in one stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StageView {
    /// Name.
    pub name: String,
    /// Packets of the sample.
    pub packets: u64,
    /// Cycles they took.
    pub cycles: u64,
    /// Times taken that are not in the sample: the kernel had the core.
    pub disturbed: u64,
}

/// One port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PortView {
    /// Name.
    pub name: String,
    /// Its device string.
    pub device: String,
    /// MAC address the port uses.
    pub mac: String,
    /// Whether packets can pass.
    pub up: bool,
    /// Packets and bytes received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Lost because the receive queue was full.
    pub rx_missed: u64,
    /// Received in error, or without a buffer.
    pub rx_errors: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Receive queues.
    #[serde(default)]
    pub queues: u16,
    /// How packets come to the queues.
    #[serde(default)]
    pub spread: String,
    /// The same, told apart from a device that is gone.
    #[serde(default)]
    pub state: LinkState,
    /// How often the link has changed.
    #[serde(default)]
    pub link_changes: u64,
    /// What the device does in the place of the processor.
    #[serde(default)]
    pub offloads: Vec<String>,
    /// Flow rules that the device has.
    #[serde(default)]
    pub flow_rules: u64,
    /// Flow rules that it should have, and refuses or has no room for.
    #[serde(default)]
    pub flow_rules_refused: u64,
    /// Packets received by each worker.
    #[serde(default)]
    pub by_worker: Vec<u64>,
    /// Packets received by a worker that does not own their user.
    #[serde(default)]
    pub misdirected: u64,
}

/// One function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FunctionView {
    /// Name of the instance.
    pub name: String,
    /// What function it is.
    pub kind: String,
    /// Packets handled.
    pub packets: u64,
    /// Bytes handled.
    pub bytes: u64,
    /// Bursts of which a packet came here.
    pub bursts: u64,
    /// Packets of the sample whose time was taken.
    pub sampled_packets: u64,
    /// Cycles they took.
    pub sampled_cycles: u64,
    /// Times taken that are not in the sample: the kernel had the core.
    pub disturbed: u64,
    /// Packets dropped here.
    pub drops: u64,
    /// How it is run.
    #[serde(default)]
    pub composition: Composition,
    /// Its process, where it has one, or the path to it, where it is at another node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessView>,
    /// Name of the thread it stands on, where that is not its worker's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// Why it stands where it does, if the node has chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// What is fused from it on, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fused: Option<FusedView>,
}

/// Functions that are fused.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FusedView {
    /// Their names, in the order that packets meet them.
    pub functions: Vec<String>,
    /// Whether they run fused whatever that costs; otherwise each worker chooses.
    pub always: bool,
    /// What each worker has chosen, in the order of the workers; `null` for one that is still
    /// measuring for the first time.
    pub workers: Vec<Option<FusedChoiceView>>,
}

/// What a worker has found out about functions that can run fused.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FusedChoiceView {
    /// Whether they run fused there; they are called otherwise.
    pub is_fused: bool,
    /// Cycles that a packet took fused.
    pub fused_cycles: f64,
    /// Cycles that it took called.
    pub called_cycles: f64,
}

/// The process of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessView {
    /// `absent`, `starting` or `running`; of a path `reachable` or `unreachable`.
    pub state: String,
    /// Number of the process, while there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// Times that it failed.
    pub failures: u64,
    /// Why it failed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
    /// Packets that are there now.
    pub away: u64,
    /// Packets that it lost.
    pub lost: u64,
    /// Frames that it sent and that answer no request.
    pub strays: u64,
    /// What its own devices have counted, where it is behind a NIC, as it says once a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<DeviceView>,
}

/// What the devices of a function behind a NIC have counted since they were opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceView {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets that the receive queue had no room for.
    pub rx_missed: u64,
    /// Packets received in error.
    pub rx_errors: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
}

impl From<PortCounters> for DeviceView {
    fn from(PortCounters(counters): PortCounters) -> DeviceView {
        let [rx_packets, rx_bytes, rx_missed, rx_errors, tx_packets, tx_bytes, tx_errors] =
            counters;
        DeviceView { rx_packets, rx_bytes, rx_missed, rx_errors, tx_packets, tx_bytes, tx_errors }
    }
}

/// Packets dropped for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DropView {
    /// The reason.
    pub reason: String,
    /// What it means.
    pub meaning: String,
    /// The function that dropped; none for the node itself.
    pub function: Option<String>,
    /// The port that the reason belongs to; only for `rx_missed`.
    pub port: Option<String>,
    /// How many.
    pub packets: u64,
}

/// Answers that the node did not give.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WithheldView {
    /// What they would have been; `no_buffer` of any kind, where too many waited to be sent.
    pub cause: String,
    /// What that means.
    pub meaning: String,
    /// How many.
    pub packets: u64,
}

/// Packets for the node itself of which nothing came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IgnoredView {
    /// Why.
    pub cause: String,
    /// What that means.
    pub meaning: String,
    /// How many.
    pub packets: u64,
}

/// One user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UserView {
    /// Name.
    pub name: String,
    /// Slot.
    pub slot: u32,
    /// The worker that owns it.
    pub worker: usize,
    /// What it is found by.
    pub keys: Vec<String>,
    /// Its tags, by name.
    pub tags: BTreeMap<String, String>,
    /// Its contexts; only when they are asked for.
    pub contexts: Vec<ContextView>,
}

/// One bearer that a command has added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BearerView {
    /// Its number.
    pub id: BearerId,
    /// The default bearer of its user; none for a default bearer.
    pub of: Option<DefaultBearer>,
    /// The number that its user moves by, of a default bearer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<u64>,
    /// What it is found by.
    pub found_by: Vec<String>,
    /// What becomes of its packets.
    pub action: Action,
    /// Slot.
    pub slot: u32,
    /// The worker that owns it.
    pub worker: usize,
    /// Its contexts; only when they are asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contexts: Vec<ContextView>,
}

/// A dedicated bearer of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DedicatedView {
    /// Its name in the configuration, or the number that a command has given it.
    pub name: String,
    /// The packets that it carries.
    pub when: String,
}

/// What a context of a user holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContextView {
    /// The function it belongs to.
    pub function: String,
    /// Its values, by name.
    pub values: BTreeMap<String, u64>,
}

impl Snapshot {
    /// Packets received at all ports.
    pub fn received(&self) -> u64 {
        self.ports.iter().map(|port| port.rx_packets).sum()
    }

    /// Packets sent at all ports.
    pub fn sent(&self) -> u64 {
        self.ports.iter().map(|port| port.tx_packets).sum()
    }

    /// Times taken that are in no sample, because the kernel had the core.
    pub fn disturbed(&self) -> u64 {
        let stages = self.workers.iter().flat_map(|worker| &worker.stages);
        let of_functions: u64 = self.functions.iter().map(|function| function.disturbed).sum();
        stages.map(|stage| stage.disturbed).sum::<u64>() + of_functions
    }

    /// Packets dropped for any reason after they were received.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().filter(|drop| drop.port.is_none()).map(|drop| drop.packets).sum()
    }
}
