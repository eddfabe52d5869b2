//! The rig: trials of a node, and of what it is compared with ([`baseline`]).
//!
//! There are two kinds of trial. In a *closed* one a worker always finds
//! packets, and the question is what one costs; nothing else runs. In an
//! *open* one a generator on a core of its own sends at a set rate whatever
//! happens, and a receiver beside it says what came of every packet (RFC 2544 §26).
//!
//! A machine that is shared takes cores away; [`Spoilt`] counts the trials
//! that this spoilt. [`search`] finds the highest load a system carries without loss, or with a
//! stated share of it; [`statistics`] turns repetitions into means with intervals.

#![forbid(unsafe_code)]

pub mod baseline;
pub mod composition;
mod gateway;
pub mod handover;
pub mod machine;
pub mod network;
pub mod search;
pub mod setup;
pub mod statistics;
pub mod traffic;
pub mod trials;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use weft_dpdk::{Eal, EalOptions};

use machine::burner::Burner;
use machine::probe::Probe;
use traffic::capture::Content;

pub use composition::{Composed, NotFused};
pub use gateway::Gateway;
pub use machine::account::Account;
pub use machine::cores::{Cores, MissingCore};
pub use machine::disturbance::{Between, Look, Schedule, Spoilt};
pub use machine::perf::{NOT_COUNTED, PerPacket};
pub use machine::slices::{Measured, SLICE, Slices};
pub use network::delay::{Calibrated, Delay};
pub use network::{environments, namespace};
pub use setup::{Block, Composition, Devices, NO_SHARE, Setup};
pub use traffic::capture;
pub use traffic::offered::uplink;
pub use trials::alone;
pub use trials::closed::Cost;
pub use trials::devices::Step;
pub use trials::first_packets::{FirstPackets, Passed};
pub use trials::open::{Arrivals, Arrived, Ends, FarDevices, Offer, OpenLoop, Work};
pub use trials::standing::Standing;
pub use trials::window::WINDOW;

/// Whatever kept a measurement from being made, in one line.
pub type Failure = Box<dyn std::error::Error>;

/// Megabytes of packet memory on either side of a comparison.
pub const MEGABYTES: u32 = 256;

/// Users, where their number is not what varies.
pub const USERS: u32 = 1000;

/// Looks at the speed of the core before the first trial, and the pause behind each.
const LOOKS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(10);

/// All that trials have in common.
#[derive(Debug)]
pub struct Rig {
    /// DPDK's environment.
    pub eal: &'static Eal,
    /// Where threads run.
    pub cores: Cores,
    /// Hundredths by which the node is slowed down on purpose; a test option.
    pub slow_down: u32,
    /// Where other programs are installed that are measured beside the node, if not where
    /// the shell looks for them.
    pub peers: Option<PathBuf>,
    probe: Probe,
    account: Mutex<Account>,
    /// Captures, removed with the rig.
    scratch: PathBuf,
    /// Device names are used once, as some drivers forget slowly.
    serial: AtomicU32,
}

impl Rig {
    /// Starts the environment.
    ///
    /// # Errors
    /// When the machine does not give memory, or has no room for captures.
    pub fn start(megabytes: u32) -> Result<Rig, Failure> {
        let options = EalOptions { memory_megabytes: megabytes, ..EalOptions::default() };
        let eal = Eal::start(&options)?;
        network::remains::clear();
        let scratch = std::env::temp_dir().join(format!("weft-bench-{}", std::process::id()));
        fs::create_dir_all(&scratch).map_err(|error| format!("{}: {error}", scratch.display()))?;
        let (cores, probe) = (Cores::choose(), Probe::new());
        let account = Mutex::default();
        let serial = AtomicU32::new(0);
        let peers = None;
        let rig = Rig { eal, cores, slow_down: 0, peers, probe, account, scratch, serial };
        // How fast the core can be is seen when one looks a while.
        for _ in 0..LOOKS {
            rig.slowness()?;
            thread::sleep(PAUSE);
        }
        Ok(rig)
    }

    /// How much slower the core of the system under test is now than it was when it
    /// was fastest; 0 where that does not matter.
    ///
    /// # Errors
    /// When the core cannot be used.
    pub fn slowness(&self) -> Result<f64, Failure> {
        self.on_core(self.cores.system, || Ok(self.probe.slowness()))
    }

    /// The file of a capture, written when it is first asked for.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn capture(&self, content: Content) -> Result<PathBuf, Failure> {
        let path = self.scratch.join(content.file_name());
        if !path.exists() {
            content.write(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(path)
    }

    /// Makes a trial, again if the machine spoilt it, and keeps account of that. `trial`
    /// returns what it measured, and the share of its time that was taken from it.
    ///
    /// # Errors
    /// Those of the trial.
    pub fn steady<T, E>(&self, trial: impl FnMut() -> Result<(T, f64), E>) -> Result<T, E> {
        let mut spoilt = Spoilt::default();
        let made = spoilt.make(trial);
        self.count(|account| account.add(spoilt));
        made
    }

    /// The same for a trial of a search, whose result is a rate.
    ///
    /// # Errors
    /// Those of the trial.
    pub fn steady_in_search<T, E>(
        &self,
        trial: impl FnMut() -> Result<(T, f64), E>,
    ) -> Result<T, E> {
        let mut spoilt = Spoilt::default();
        let made = spoilt.make(trial);
        self.count(|account| account.add_of_search(spoilt));
        made
    }

    /// Counts what became of a trial or of a search.
    pub fn count(&self, count: impl FnOnce(&mut Account)) {
        count(&mut self.account.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// What became of all trials so far.
    pub fn account(&self) -> Account {
        *self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A directory for files of this run alone.
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// A number that was not used before.
    pub fn serial(&self) -> u32 {
        self.serial.fetch_add(1, Ordering::Relaxed)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        // What is left behind in the temporary directory does no harm.
        let _ = fs::remove_dir_all(&self.scratch);
    }
}
