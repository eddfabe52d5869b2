//! How a function is to be run, and how it fares.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use weft_compose::Kind;
use weft_dataplane::offload::Policy;
use weft_function::{ConfigError, TagTable};

use crate::process::protocol::PortCounters;
use crate::vf::fabric::{self, Fabric};

/// Who starts the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// The node, from this program.
    Program(PathBuf),
    /// Another program.
    Elsewhere,
}

/// Pauses before a process that has failed is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart {
    /// Before the first time; doubled each time.
    pub first: Duration,
    /// The longest.
    pub longest: Duration,
}

impl Default for Restart {
    fn default() -> Restart {
        Restart { first: Duration::from_millis(10), longest: Duration::from_secs(5) }
    }
}

/// What a process that the node starts may use at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Memory, its own alone: not the node's packets.
    pub megabytes: Option<u32>,
    /// Processor time, in percent of one core.
    pub cpu_percent: Option<u32>,
    /// Threads and processes.
    pub tasks: Option<u32>,
}

/// How a function is run in a process of its own.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// Name of the instance.
    pub instance: &'a str,
    /// What function it is.
    pub kind: Kind,
    /// Its configuration.
    pub config: &'a Value,
    /// The node's tags.
    pub tags: &'a TagTable,
    /// Workers of the node.
    pub workers: usize,
    /// Contexts of each worker.
    pub contexts: usize,
    /// Number of the function: the service path of its packets.
    pub number: u32,
    /// The ring.
    pub ring: PathBuf,
    /// Whether the folder that it is in goes with it.
    pub own_folder: bool,
    /// Who starts the process.
    pub start: Start,
    /// When it is started again.
    pub restart: Restart,
    /// Whether the function is there from the start; otherwise its process is only prepared.
    pub wanted: bool,
    /// Whether packets go without a header, to a function that knows nothing of
    /// this: it has no socket beside its ring, and the node does not start it.
    pub plain: bool,
    /// The user (and group) that the process runs as; that of the node if none.
    pub user: Option<u32>,
    /// What the process may use at most.
    pub limits: ResourceLimits,
    /// What becomes of packets while the process is not there.
    pub policy: Policy,
    /// A process that has not answered for so long stands still.
    pub heartbeat: Duration,
    /// How often contexts are put down at the node; never when none.
    pub checkpoint: Option<Duration>,
    /// How packets get there through a NIC, where they do not go by the ring.
    pub fabric: Option<Fabric>,
    /// Longest sleep of the process while it has nothing to do, in microseconds.
    pub max_sleep_us: Option<u32>,
}

impl Plan<'_> {
    /// The service path of its packets.
    pub(super) fn path(&self) -> u32 {
        match self.fabric {
            Some(_) => fabric::PATHS + self.number,
            None => self.number,
        }
    }
}

/// What keeps a ring from being made.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The ring.
    #[error(transparent)]
    Ring(#[from] weft_dpdk::Error),
    /// The socket.
    #[error("{}: {error}", path.display())]
    Socket {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        error: io::Error,
    },
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl StartError {
    pub(super) fn at(path: &Path, error: io::Error) -> StartError {
        StartError::Socket { path: path.to_owned(), error }
    }
}

/// State of a function process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// No process is there.
    #[default]
    Absent,
    /// It is being set up.
    Starting,
    /// It handles packets.
    Running,
    /// The function is elsewhere, and the process does not run.
    Resting,
}

impl Status {
    /// Name, as `weft show runtime` prints it.
    pub fn name(self) -> &'static str {
        match self {
            Status::Absent => "absent",
            Status::Starting => "starting",
            Status::Running => "running",
            Status::Resting => "resting",
        }
    }
}

/// What is known of a function process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// State.
    pub status: Status,
    /// The process, while there is one.
    pub process: Option<u32>,
    /// Times that it failed.
    pub failures: u64,
    /// Why it failed last.
    pub last_failure: Option<String>,
    /// Packets that are away.
    pub away: u64,
    /// Packets that were lost with it.
    pub lost: u64,
    /// Frames from it that were none.
    pub strays: u64,
    /// Contexts at hand for a restart.
    pub checkpointed: u64,
    /// Why it did not take a context last, if it has refused any.
    pub not_imported: Option<String>,
    /// What its devices behind a NIC have counted, as it says once a second.
    pub port: Option<PortCounters>,
    /// What was heard last of whether the function is wanted.
    pub(super) heard: u32,
}
