//! The function's end of ring and socket: any of our functions, in this process.

mod instance;
mod line;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weft_compose::{Burst, Kind, Outcome, SlotShift};
use weft_dpdk::{Batch, Eal, Packet, Pool, Port, PortOptions, tsc};
use weft_function::{Setup, TagSlot, TagTable, TagValues};

use crate::frame::{Form, FrameKind, ROOM};
use crate::process::protocol::{Connection, Message, VERSION, Welcome};
use crate::vf::direct_path;
use crate::vf::fabric::PATHS;
use instance::{HostedInstance, Queues, Through, order_of};
use line::Line;

/// Packet buffers of a function process.
const PACKETS: u32 = 4095;
/// Rounds between two looks at the socket: each costs as much as some packets do.
const ROUNDS: u32 = 64;
/// Rounds without a packet before the process sleeps.
const SPIN_ROUNDS: u32 = 512;
/// How long a function waits for what the node must send.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause between two attempts to find the node.
const RETRY: Duration = Duration::from_millis(50);
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
            steering: None,
            mtu: PortOptions::MAX_MTU,
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

/// The instances of one function, one for each worker of the node.
struct HostState {
    kind: &'static Kind,
    instances: Vec<HostedInstance>,
    /// The way of packets through a NIC, where they do not go by the ring.
    line: Option<Line>,
    /// What was asked, and the orders before it, by worker.
    questions: VecDeque<(Message, Vec<u32>)>,
}

impl HostState {
    fn new(kind: &'static Kind, welcome: &Welcome, pool: &Pool) -> Result<HostState, HostError> {
        let tags = tag_table(&welcome.tags);
        let shift = SlotShift::for_workers(usize::from(welcome.workers));
        let hosted = |worker: u16| {
            let setup = Setup {
                instance: &welcome.instance,
                tags: &tags,
                contexts: welcome.contexts,
                worker: usize::from(worker),
                tsc_hz: tsc::hz(),
                trial: false,
                events: None,
            };
            let instance = kind
                .make(&welcome.config, &setup, shift)
                .map_err(|error| HostError::Config { instance: welcome.instance.clone(), error })?;
            Ok(HostedInstance {
                instance,
                queues: None,
                form: Form::new(welcome.path, welcome.tags.len()),
                through: welcome.fabric.map(|ends| {
                    let own = welcome.path.saturating_sub(PATHS) as u16;
                    let to = (ends, welcome.peers.clone().into());
                    Through::new(direct_path::Line::new(own, welcome.tags.len(), to, worker))
                }),
                shift,
                burst: Burst { packets: Batch::new(), now: 0, pool: pool.clone() },
                coming: Batch::new(),
                leaving: Batch::new(),
                tickets: [0; Batch::CAPACITY],
                outcome: Outcome::default(),
                orders: VecDeque::new(),
                refused: Vec::new(),
                done: 0,
                settings: HashMap::new(),
                dirty: vec![false; welcome.contexts],
                changed: Vec::new(),
            })
        };
        let instances = (0..welcome.workers).map(hosted).collect::<Result<_, HostError>>()?;
        Ok(HostState { kind, instances, line: None, questions: VecDeque::new() })
    }

    /// An order before the ring is there.
    fn beginning(&mut self, message: Message) {
        let kind = self.kind;
        if let Some(((worker, _), _)) = order_of(&message)
            && let Some(hosted) = self.instances.get_mut(usize::from(worker))
            && let Some((slot, error)) = hosted.apply_order(kind, &message)
        {
            tracing::warn!(slot, error, "a context could not be imported");
        }
    }

    fn start(&mut self, numbers: &[u32]) {
        for (hosted, number) in self.instances.iter_mut().zip(numbers) {
            hosted.done = *number;
        }
    }

    /// Handles packets and messages until the node is gone.
    fn work(
        &mut self,
        connection: &mut Connection,
        pause: Option<Duration>,
        stop: &AtomicBool,
    ) -> io::Result<()> {
        let (mut rounds, mut empty) = (0u32, 0u32);
        while !stop.load(Ordering::Acquire) {
            rounds = rounds.wrapping_add(1);
            if empty > SPIN_ROUNDS || rounds.is_multiple_of(ROUNDS) {
                self.listen(connection)?;
                self.answer(connection)?;
            }
            if let Some(line) = &mut self.line {
                line.receive(|worker, packet| instance::give(&mut self.instances, worker, packet));
            }
            let mut any = false;
            for number in 0..self.instances.len() {
                any |= self.take(number, connection)?;
            }
            if any {
                empty = 0;
                continue;
            }
            empty = empty.saturating_add(1);
            match pause {
                Some(longest) if empty > SPIN_ROUNDS => {
                    let pause = Duration::from_micros(10) * (empty - SPIN_ROUNDS).min(1000);
                    thread::sleep(pause.min(longest));
                }
                _ => std::hint::spin_loop(),
            }
        }
        Ok(())
    }

    /// Takes messages in; orders wait for the packets before them.
    fn listen(&mut self, connection: &mut Connection) -> io::Result<()> {
        while let Some(message) = connection.receive()? {
            match message {
                Message::Ping(number) => connection.send(&Message::Pong(number))?,
                message @ (Message::Fence(_)
                | Message::Checkpoint { .. }
                | Message::Export { .. }) => {
                    let before = self.instances.iter().map(HostedInstance::last_order).collect();
                    self.questions.push_back((message, before));
                }
                message => {
                    if let Some(((worker, _), _)) = order_of(&message)
                        && let Some(hosted) = self.instances.get_mut(usize::from(worker))
                    {
                        hosted.orders.push_back(message);
                    }
                }
            }
        }
        if let Some(counters) = self.line.as_mut().and_then(Line::news) {
            connection.send(&Message::Counted(counters))?;
        }
        connection.flush()
    }

    /// Takes a burst from the ring of one worker; returns whether there was one.
    fn take(&mut self, number: usize, connection: &mut Connection) -> io::Result<bool> {
        let hosted = &mut self.instances[number];
        // Orders that were here before the ring was seen empty have no packets
        // before them any more.
        let waiting = hosted.orders.len();
        if let Some(queues) = &mut hosted.queues {
            queues.rx.receive(&mut hosted.coming, BURST);
        }
        if hosted.coming.is_empty() {
            for _ in 0..waiting {
                hosted.apply_next(self.kind);
            }
            return Ok(false);
        }
        let mut coming = std::mem::take(&mut hosted.coming);
        coming.iter().for_each(Packet::prefetch);
        for mut packet in coming.drain() {
            let hosted = &mut self.instances[number];
            let Some((record, trail)) = hosted.open(&mut packet) else { continue };
            if record.what != FrameKind::Packet {
                continue;
            }
            if record.now != hosted.burst.now && !hosted.burst.packets.is_empty() {
                hosted.visit(self.kind, &mut self.line);
            }
            if (record.order.wrapping_sub(hosted.done) as i32) > 0 {
                hosted.visit(self.kind, &mut self.line);
                self.catch_up(number, record.order, connection)?;
            }
            self.instances[number].accept(packet, (&record, trail));
        }
        let hosted = &mut self.instances[number];
        hosted.visit(self.kind, &mut self.line);
        hosted.coming = coming;
        let mut spins = 0u32;
        while !self.instances[number].send(&mut self.line) {
            spins += 1;
            if spins.is_multiple_of(1024) {
                // The node may be gone, or ask whether we are.
                self.listen(connection)?;
                thread::yield_now();
            }
        }
        Ok(true)
    }

    /// Carries out orders up to the one of this number, which must be on its way.
    fn catch_up(
        &mut self,
        number: usize,
        order: u32,
        connection: &mut Connection,
    ) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            self.listen(connection)?;
            let hosted = &mut self.instances[number];
            while (order.wrapping_sub(hosted.done) as i32) > 0 && hosted.apply_next(self.kind) {}
            if (order.wrapping_sub(hosted.done) as i32) <= 0 {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            thread::yield_now();
        }
    }

    /// Answers what was asked, as far as the orders before it are carried out.
    fn answer(&mut self, connection: &mut Connection) -> io::Result<()> {
        for (worker, hosted) in self.instances.iter_mut().enumerate() {
            for (slot, reason) in hosted.refused.drain(..) {
                let worker = worker as u16;
                connection.send(&Message::NotImported { worker, slot, reason })?;
            }
        }
        while let Some((question, before)) = self.questions.pop_front() {
            let mut instances = self.instances.iter().zip(&before);
            if !instances.all(|(hosted, number)| (number.wrapping_sub(hosted.done) as i32) <= 0) {
                self.questions.push_front((question, before));
                break;
            }
            match question {
                Message::Fence(number) => connection.send(&Message::Fenced(number))?,
                Message::Export { worker, slot, now } => {
                    let mut context = Vec::new();
                    if let Some(hosted) = self.instances.get(usize::from(worker)) {
                        hosted.instance.export(slot, now, &mut context);
                    }
                    connection.send(&Message::Exported { worker, slot, context })?;
                }
                Message::Checkpoint { now } => {
                    for (worker, hosted) in self.instances.iter_mut().enumerate() {
                        for slot in std::mem::take(&mut hosted.changed) {
                            if let Some(dirty) = hosted.dirty.get_mut(hosted.shift.index(slot)) {
                                *dirty = false;
                            }
                            let mut context = Vec::new();
                            hosted.instance.export(slot, now, &mut context);
                            let worker = worker as u16;
                            connection.send(&Message::Context { worker, slot, context })?;
                        }
                    }
                    connection.send(&Message::Checkpointed)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The node's tags, in their slots.
fn tag_table(tags: &[(String, Option<Vec<String>>)]) -> TagTable {
    let mut table = TagTable::default();
    for (name, values) in tags {
        let values = values.clone().map_or(TagValues::Number, TagValues::Named);
        match table.slot(name) {
            Some(slot @ (TagSlot::CHAIN | TagSlot::NETWORK)) => {
                if let TagValues::Named(names) = values {
                    table.name_values(slot, names);
                }
            }
            Some(_) => {}
            // The node had room for all of them.
            None => drop(table.declare(name, values)),
        }
    }
    table
}
