//! Other processes that are to have the node: what the one that has it is asked for.

use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::SyncSender;

use tokio::sync::oneshot;

use crate::api::Upgraded;

/// What clients ask of the process that has the node.
#[derive(Debug)]
pub enum UpgradeRequest {
    /// A process will connect here, to have the node.
    TakeOver(UnixListener, PathBuf),
    /// Start one. What comes of it is told: why it failed, if it did.
    Start(oneshot::Sender<Result<Upgraded, String>>),
}

/// Where such requests go.
#[derive(Debug)]
pub(crate) struct Upgrades {
    /// The socket of the node, beside which those for the conversation are made.
    pub socket: PathBuf,
    pub requests: SyncSender<UpgradeRequest>,
    pub numbers: AtomicU64,
}
