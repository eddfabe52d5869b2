//! Other processes that are to have the node: what the one that has it is asked for.

use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{SyncSender, TrySendError};

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

/// Starts the program of the node anew, which takes the node over: as `POST /v1/upgrade` does, for
/// those who are in the same process.
#[derive(Clone, Debug)]
pub struct Starter(SyncSender<UpgradeRequest>);

/// What comes of it.
#[derive(Debug)]
pub struct Outcome(oneshot::Receiver<Result<Upgraded, String>>);

impl Starter {
    /// Sends its requests there.
    pub fn new(requests: SyncSender<UpgradeRequest>) -> Starter {
        Starter(requests)
    }

    /// Has the program started.
    ///
    /// # Errors
    /// Why that is not done.
    pub fn start(&self) -> Result<Outcome, String> {
        let (told, outcome) = oneshot::channel();
        match self.0.try_send(UpgradeRequest::Start(told)) {
            Ok(()) => Ok(Outcome(outcome)),
            Err(TrySendError::Full(_)) => {
                Err("another process is taking the node over; try again".to_owned())
            }
            Err(TrySendError::Disconnected(_)) => Err("the node is stopping".to_owned()),
        }
    }
}

impl Outcome {
    /// What has come of it, once it is known: why the node goes on in this process, if it does.
    pub fn look(&mut self) -> Option<Result<Upgraded, String>> {
        match self.0.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => {
                Some(Err("the node is stopping".to_owned()))
            }
        }
    }
}
