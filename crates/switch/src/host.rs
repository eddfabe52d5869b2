//! A switch in this process: its sockets, its rings, its thread.

use std::fs;
use std::io;
use std::num::NonZero;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use weft_dpdk::{Eal, Pool, Port, PortOptions, pin_to_core, tsc};
use weft_vf::Switch;

use crate::statistics::{Counters, serve};
use crate::switch::{Fabric, Outlet, WAITING};

/// Rounds without a frame before the switch sleeps, where it does: some microseconds, as the
/// functions behind it may wait for the core.
const SPIN_ROUNDS: u32 = 32;
/// First sleep, and the longest.
const SLEEP: [Duration; 2] = [Duration::from_micros(5), Duration::from_micros(100)];
/// Buffers beside those of frames that wait: what is in rings and caches.
const SPARE: u32 = 1024;
/// Megabytes for what is not frames.
const BASE_MEGABYTES: u32 = 32;
/// Bytes of a buffer: without huge pages DPDK gives each a page of its own.
const BUFFER_BYTES: u64 = 4096 + 64;

/// Why a switch does not run.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A socket, or the folder that it is in.
    #[error("{}: {error}", path.display())]
    Socket {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        error: io::Error,
    },
    /// The core.
    #[error("core {core}: {error}")]
    Core {
        /// Its number.
        core: usize,
        /// Why the switch cannot have it.
        error: io::Error,
    },
    /// A ring.
    #[error(transparent)]
    Ring(#[from] weft_dpdk::Error),
    /// A thread.
    #[error("a thread cannot be started: {0}")]
    Thread(io::Error),
}

/// What runs a switch.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a> {
    /// DPDK's environment.
    pub eal: &'static Eal,
    /// The switch.
    pub switch: &'a Switch,
    /// The user of each virtual function: who may attach, if that is not our own.
    pub owners: &'a [Option<u32>],
    /// Says when to end.
    pub stop: &'a AtomicBool,
}

/// Buffers of a switch.
fn buffers(switch: &Switch) -> u32 {
    switch.functions.len() as u32 * (WAITING as u32 + 64) + SPARE - 1
}

/// Megabytes that the environment of a switch needs.
pub fn megabytes(switch: &Switch) -> u32 {
    BASE_MEGABYTES + ((u64::from(buffers(switch)) * BUFFER_BYTES) >> 20) as u32
}

impl Host<'_> {
    /// Runs the switch in the calling thread until told to end; says when it is ready.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn run(&self, ready: impl FnOnce()) -> Result<(), HostError> {
        let folder = &self.switch.sockets;
        let at = |path: &Path, error| HostError::Socket { path: path.to_owned(), error };
        self.eal.contain_truncation().map_err(|error| at(folder, error))?;
        let made = fs::DirBuilder::new().mode(0o711).recursive(true).create(folder);
        made.map_err(|error| at(folder, error))?;
        let control = self.switch.statistics();
        // The first of all sockets: its owner has the switch.
        let listener = claim(&control)
            .and_then(|()| UnixListener::bind(&control))
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(|error| at(&control, error))?;
        let sockets = Sockets(self.sockets().chain([control.clone()]).collect());
        let _registration = self.eal.register_thread();
        let pool = Pool::new(self.eal, &self.switch.name, buffers(self.switch))?;
        let counters: Vec<Arc<Counters>> =
            self.switch.functions.iter().map(|_| Arc::default()).collect();
        let outlets = self.outlets(&pool, &counters)?;
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let answering = thread::Builder::new().name("statistics".to_owned());
            let (counters, ended) = (&counters, &ended);
            answering
                .spawn_scoped(scope, move || serve(&listener, self.switch, counters, ended))
                .map_err(HostError::Thread)?;
            // That thread is not to have our core.
            let core = self.switch.core;
            let pinned = core.map_or(Ok(()), |core| {
                pin_to_core(core).map_err(|error| HostError::Core { core, error })
            });
            if pinned.is_ok() {
                ready();
                self.work(Fabric::new(outlets, pool, tsc::hz(), tsc::now()));
            }
            ended.store(true, Ordering::Release);
            pinned
        })?;
        drop(sockets);
        Ok(())
    }

    fn sockets(&self) -> impl Iterator<Item = PathBuf> + '_ {
        self.switch.functions.iter().map(|share| self.switch.socket(&share.function.name))
    }

    /// Makes the rings.
    fn outlets(&self, pool: &Pool, counters: &[Arc<Counters>]) -> Result<Vec<Outlet>, HostError> {
        let options = PortOptions {
            rx_queues: 1,
            tx_queues: 1,
            descriptors: weft_vf::QUEUE,
            mtu: PortOptions::PLAIN_MTU,
            ..PortOptions::default()
        };
        let mut outlets = Vec::with_capacity(counters.len());
        for (number, (path, counters)) in self.sockets().zip(counters).enumerate() {
            let share = &self.switch.functions[number];
            let at = |error| HostError::Socket { path: path.clone(), error };
            claim(&path).map_err(at)?;
            let device = format!("net_vhost{number},iface={},queues=1", path.display());
            let port = Port::open(self.eal, &device, &options, pool)?;
            let owner = self.owners.get(number).copied().flatten();
            // Every user that may write to a socket may attach.
            chown(&path, owner, owner).map_err(at)?;
            let queues = port.take_rx(0).zip(port.take_tx(0));
            let Some((rx, tx)) = queues else { return Err(at(io::ErrorKind::NotConnected.into())) };
            outlets.push(Outlet {
                rx,
                tx,
                port,
                mac: share.function.mac,
                spoof_check: share.function.spoof_check,
                rate: share.rate,
                counters: counters.clone(),
            });
        }
        Ok(outlets)
    }

    /// Rounds, until told to end.
    fn work(&self, mut fabric: Fabric) {
        if self.switch.sleeps {
            // The kernel makes 50 µs of the shortest sleep otherwise.
            let _ = rustix::thread::set_current_timer_slack(NonZero::new(1));
        }
        let mut empty = 0u32;
        while !self.stop.load(Ordering::Acquire) {
            if fabric.round(tsc::now()) {
                empty = 0;
                continue;
            }
            empty = empty.saturating_add(1);
            match self.switch.sleeps && empty > SPIN_ROUNDS {
                true => thread::sleep((SLEEP[0] * (empty - SPIN_ROUNDS).min(100)).min(SLEEP[1])),
                false => std::hint::spin_loop(),
            }
        }
    }
}

/// Sockets that go with the switch.
struct Sockets(Vec<PathBuf>);

impl Drop for Sockets {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes a socket without a listener.
fn claim(path: &Path) -> io::Result<()> {
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another switch has it")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(_) => fs::remove_file(path),
    }
}
