//! The function's end of ring and socket: any of our functions, in this process.

mod instance;
mod line;
mod state;

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weft_compose::Kind;
use weft_dpdk::{Eal, Pool, Port, PortOptions};

use crate::frame::ROOM;
use crate::process::protocol::{Connection, Message, VERSION, Welcome};
use instance::Queues;
use line::Line;
use state::HostState;

/// Packet buffers of a function process.
const PACKETS: u32 = 4095;
/// How long a function waits for what the node must send.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause between two attempts to find the node.
const RETRY: Duration = Duration::from_millis(50);
/// Packets that are taken from a queue at once.
const BURST: usize = 32;

/// Why a function does not run, or not any more.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The node does not want it.
    #[error("the node at {} refuses: {reason}", path.display())]
    Refused {
        /// The socket.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The socket, or who speaks there.
    #[error("{}: {error}", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// What is wrong.
        error: io::Error,
    },
    /// The node sends packets where the function does not look for them.
    #[error("{0}")]
    Devices(&'static str),
    /// The ring.
    #[error(transparent)]
    Ring(#[from] weft_dpdk::Error),
    /// A configuration that is wrong.
    #[error("configuration of {instance}: {error}")]
    Config {
        /// Name of the instance.
        instance: String,
        /// What is wrong.
        error: weft_function::ConfigError,
    },
}

/// What hosts a function.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a> {
    /// DPDK's environment.
    pub eal: &'static Eal,
    /// The function.
    pub kind: &'static Kind,
    /// Path of the ring.
    pub ring: &'a Path,
    /// What it receives at, and what it sends at if that is another, for a node that wants
    /// it behind a NIC.
    pub devices: &'a [String],
    /// Whether to end when the node does, instead of waiting for the next.
    pub once: bool,
    /// Says when to end.
    pub stop: &'a AtomicBool,
}

impl Host<'_> {
    /// Serves nodes at the ring until told to end.
    ///
    /// # Errors
    /// [`HostError`]; the end of the node is none.
    pub fn run(&self) -> Result<(), HostError> {
        let _registration = self.eal.register_thread();
        let pool = Pool::with_room(self.eal, "function", PACKETS, ROOM)?;
        while !self.is_told() {
            let served = self.find_node().and_then(|stream| match stream {
                Some(stream) => self.serve(stream, &pool),
                None => Ok(()),
            });
            match served {
                Err(HostError::Socket { error, .. }) if error.kind() != io::ErrorKind::Other => {
                    tracing::info!(%error, "the node is gone");
                }
                other => other?,
            }
            if self.once {
                break;
            }
            thread::sleep(RETRY);
        }
        Ok(())
    }

    fn is_told(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn at_socket(&self, error: io::Error) -> HostError {
        HostError::Socket { path: crate::process::control_path(self.ring), error }
    }

    /// Waits for a node, unless told to end.
    fn find_node(&self) -> Result<Option<UnixStream>, HostError> {
        let path = crate::process::control_path(self.ring);
        while !self.is_told() {
            match UnixStream::connect(&path) {
                Ok(stream) => return Ok(Some(stream)),
                Err(error) if self.once => {
                    return Err(self.at_socket(io::Error::other(error.to_string())));
                }
                Err(_) => thread::sleep(RETRY),
            }
        }
        Ok(None)
    }

    fn serve(&self, stream: UnixStream, pool: &Pool) -> Result<(), HostError> {
        let mut connection = Connection::new(stream).map_err(|error| self.at_socket(error))?;
        let function = self.kind.name.to_owned();
        let hello = Message::Hello { version: VERSION, process: std::process::id(), function };
        // Who refuses may have hung up already: its reason is there to be read.
        let _ = connection.send(&hello);
        let welcome = match self.wait_for(&mut connection)? {
            Message::Welcome(welcome) => welcome,
            Message::Refuse(reason) => {
                return Err(HostError::Refused { path: self.ring.to_owned(), reason });
            }
            _ => return Err(self.at_socket(io::ErrorKind::InvalidData.into())),
        };
        let mut state = HostState::new(self.kind, &welcome, pool)?;
        loop {
            match self.wait_for(&mut connection)? {
                Message::Start(numbers) => {
                    state.start(&numbers);
                    break;
                }
                message => state.beginning(message),
            }
        }
        self.open(&welcome, &mut state, pool)?;
        if self.once
            && let Err(error) = crate::process::confine::confine()
        {
            tracing::warn!(%error, "the function is not confined");
        }
        connection.send(&Message::Ready).map_err(|error| self.at_socket(error))?;
        tracing::info!(instance = welcome.instance, ring = %self.ring.display(), "attached");
        let pause = welcome.max_sleep_us.map(|us| Duration::from_micros(us.into()));
        let ended = state.work(&mut connection, pause, self.stop);
        ended.map_err(|error| self.at_socket(error))
    }

    /// Opens the ring, or the devices behind a NIC.
    fn open(&self, welcome: &Welcome, state: &mut HostState, pool: &Pool) -> Result<(), HostError> {
        match (welcome.fabric, self.devices) {
            (Some(_), []) => {
                return Err(HostError::Devices("the node wants it behind a NIC: give --device"));
            }
            (None, [_, ..]) => {
                return Err(HostError::Devices(
                    "the node wants it at the ring: leave out --device",
                ));
            }
            (Some(ends), devices) => {
                state.line = Some(Line::open(self.eal, devices, ends, welcome.descriptors, pool)?);
                return Ok(());
            }
            (None, []) => {}
        }
        // Others of this program may have theirs.
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let workers = welcome.workers;
        let path = self.ring.display();
        let device = format!(
            "net_virtio_user{serial},path={path},queues={workers},queue_size={},packed_vq=1,mrg_rxbuf=0,in_order=1",
            welcome.descriptors
        );
        let options = PortOptions {
            rx_queues: workers,
            tx_queues: workers,
            descriptors: welcome.descriptors,
            mtu: PortOptions::PLAIN_MTU,
            ..PortOptions::default()
        };
        let port = Port::open(self.eal, &device, &options, pool)?;
        for (number, hosted) in state.instances.iter_mut().enumerate() {
            let number = number as u16;
            let queues = port.take_rx(number).zip(port.take_tx(number));
            hosted.queues = queues.map(|(rx, tx)| Queues { rx, tx });
        }
        Ok(())
    }

    /// The next message of the node.
    fn wait_for(&self, connection: &mut Connection) -> Result<Message, HostError> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until && !self.is_told() {
            match connection.receive().map_err(|error| self.at_socket(error))? {
                // A function that is still being set up is alive, too.
                Some(Message::Ping(number)) => {
                    let pong = connection.send(&Message::Pong(number));
                    pong.map_err(|error| self.at_socket(error))?;
                }
                Some(message) => return Ok(message),
                None => thread::sleep(Duration::from_micros(200)),
            }
        }
        Err(self.at_socket(io::ErrorKind::TimedOut.into()))
    }
}
