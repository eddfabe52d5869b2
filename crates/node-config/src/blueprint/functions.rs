//! Functions, and how each is run.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use weft_compose::Kind;
use weft_dataplane::offload::Policy;
use weft_dataplane::service_path::RemotePlan;
use weft_offload::process::{ResourceLimits, Restart};
use weft_offload::thread::StagePlan;

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
    utoipa::ToSchema,
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
    /// The thread that it stands on or not, as the node chooses.
    pub auto: Option<StagePlan>,
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
    /// The node's port at the NIC: a position in [`Blueprint::ports`](super::Blueprint::ports).
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
