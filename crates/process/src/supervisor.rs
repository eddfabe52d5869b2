//! The thread that looks after one function process: starts it, tells it what it
//! needs, and sees when it dies or stands still.

mod book;
mod process;

use std::io;
use std::os::unix::fs::chown;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use weft_compose::{Kind, SlotShift};
use weft_dpdk::{Eal, Pool, Port, PortOptions};
use weft_function::{ConfigError, Setup, TagTable, TagValues, tags_written};

use crate::frame::{Form, ROOM};
use crate::lane::{Lane, Parts, Shared, WINDOW};
use crate::order::{Away, Order};
use crate::protocol::{Connection, Message, VERSION, Welcome};
use book::Book;
use process::Process;

/// How often the thread looks whether a worker has given orders.
const ROUND: Duration = Duration::from_millis(1);
/// How long a function may take from its hello to the ring.
const BEGINNING: Duration = Duration::from_secs(15);
/// Pause before the first restart; doubled each time, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A function that ran this long is started again without a long pause.
const STEADY: Duration = Duration::from_secs(5);

/// What becomes of packets while their function is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// They are dropped.
    #[default]
    Drop,
    /// They go on as if the function had handled them.
    Bypass,
    /// They wait, so many of them at each worker; others are dropped.
    Hold(u32),
}

/// Who starts the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// The node, from this program.
    Program(PathBuf),
    /// Somebody else.
    Elsewhere,
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
    /// Whether packets go without a header, to a function that knows nothing of
    /// this: it has no socket beside its ring, and nobody here starts it.
    pub plain: bool,
    /// The user (and group) that the process runs as; that of the node if none.
    pub user: Option<u32>,
    /// What becomes of packets while the process is not there.
    pub policy: Policy,
    /// A process that has not answered for so long stands still.
    pub heartbeat: Duration,
    /// How often contexts are put down at the node; never when none.
    pub checkpoint: Option<Duration>,
    /// Longest sleep of the process while it has nothing to do, in microseconds.
    pub max_sleep_us: Option<u32>,
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

/// State of a function process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// Nobody is there.
    #[default]
    Absent,
    /// It is being set up.
    Starting,
    /// It handles packets.
    Running,
}

impl Status {
    /// Name, as `weft show runtime` prints it.
    pub fn name(self) -> &'static str {
        match self {
            Status::Absent => "absent",
            Status::Starting => "starting",
            Status::Running => "running",
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
}

/// Looks after one function process; ends it when dropped.
#[derive(Debug)]
pub struct Supervisor {
    instance: String,
    shared: Vec<Arc<Shared>>,
    view: Arc<Mutex<View>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The place of a function at one worker.
#[derive(Debug)]
pub struct Seat {
    /// What takes packets there and back.
    pub lane: Lane,
    /// What stands for it in the rules.
    pub away: Away,
}

impl Supervisor {
    /// Makes ring and socket and starts looking after them. `now` is the clock of
    /// the node, in nanoseconds.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(
        eal: &Eal,
        plan: &Plan<'_>,
        now: impl Fn() -> u64 + Send + 'static,
    ) -> Result<(Supervisor, Vec<Seat>), StartError> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let at = |path: &Path, error| StartError::Socket { path: path.to_owned(), error };
        eal.contain_truncation().map_err(|error| at(&plan.ring, error))?;
        let (instance, tags) = (plan.instance, plan.tags);
        let setup = Setup { instance, tags, contexts: 1, worker: 0, tsc_hz: 1, trial: true };
        let trial = plan.kind.make(plan.config, &setup, SlotShift::default())?;
        let (kind, scope) = (trial.kind(), trial.scope());
        let control = crate::control_path(&plan.ring);
        if let Some(folder) = plan.ring.parent() {
            std::fs::create_dir_all(folder).map_err(|error| at(folder, error))?;
        }
        for path in [&plan.ring, &control] {
            process::remove_stale(path).map_err(|error| at(path, error))?;
        }
        let listener = UnixListener::bind(&control).map_err(|error| at(&control, error))?;
        listener.set_nonblocking(true).map_err(|error| at(&control, error))?;
        let number = 1000 + SERIAL.fetch_add(1, Ordering::Relaxed);
        let workers = plan.workers as u16;
        let device = format!("net_vhost{number},iface={},queues={workers}", plan.ring.display());
        let options = PortOptions {
            rx_queues: workers,
            tx_queues: workers,
            descriptors: WINDOW as u16,
            mtu: PortOptions::MAX_MTU,
        };
        // What comes back has a header around it, and every packet may come back.
        let buffers = 4 * WINDOW as u32 * u32::from(workers) - 1;
        let ring_pool = Pool::with_room(eal, plan.instance, buffers, ROOM)?;
        let port = Port::open(eal, &device, &options, &ring_pool)?;
        for path in [&plan.ring, &control] {
            // Whoever may write to a socket may attach.
            chown(path, plan.user, plan.user).map_err(|error| at(path, error))?;
        }
        let (orders, given) = channel();
        let form = Form::new(plan.number, plan.tags.iter().count());
        let writes = tags_written(plan.kind.writes, plan.tags);
        let mut seats = Vec::new();
        let mut shared = Vec::new();
        for worker in 0..workers {
            let Some((rx, tx)) = port.take_rx(worker).zip(port.take_tx(worker)) else {
                let error = io::Error::other("too many workers for one ring");
                return Err(at(&plan.ring, error));
            };
            let ours = Arc::new(Shared::default());
            let last = Arc::new(AtomicU32::new(0));
            let lane = Lane::new(Parts {
                rx,
                tx,
                form: (!plan.plain).then(|| form.clone()),
                writes,
                shared: ours.clone(),
                orders: last.clone(),
                policy: plan.policy,
                pool: ring_pool.clone(),
            });
            let away = Away::new(kind, scope, worker, orders.clone(), last);
            seats.push(Seat { lane, away });
            shared.push(ours);
        }
        let view = Arc::new(Mutex::new(View::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let watch = Watch {
            kind,
            welcome: Welcome {
                version: VERSION,
                instance: plan.instance.to_owned(),
                config: plan.config.clone(),
                tags: written_tags(plan.tags),
                contexts: plan.contexts,
                workers,
                descriptors: WINDOW as u16,
                path: plan.number,
                max_sleep_us: plan.max_sleep_us,
            },
            ring: plan.ring.clone(),
            own_folder: plan.own_folder,
            plain: plan.plain,
            user: plan.user,
            start: plan.start.clone(),
            heartbeat: plan.heartbeat,
            checkpoint: plan.checkpoint,
            port,
            listener,
            orders: given,
            shared: shared.clone(),
            view: view.clone(),
            now: Box::new(now),
            book: Book::new(workers, plan.contexts),
            process: None,
            session: None,
            pause: FIRST_PAUSE,
            next_start: Instant::now(),
        };
        let told = stop.clone();
        let thread = thread::Builder::new()
            .name(format!("function-{}", plan.number))
            .spawn(move || watch.run(&told))
            .map_err(|error| at(&plan.ring, error))?;
        let instance = plan.instance.to_owned();
        Ok((Supervisor { instance, shared, view, stop, thread: Some(thread) }, seats))
    }

    /// Name of the instance.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// What is known of the process.
    pub fn view(&self) -> View {
        let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for shared in &self.shared {
            view.away += u64::from(shared.away.load(Ordering::Relaxed));
            view.lost += u64::from(shared.lost.load(Ordering::Relaxed));
            view.strays += u64::from(shared.strays.load(Ordering::Relaxed));
        }
        view
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A panic there was logged.
            let _ = thread.join();
        }
    }
}

/// The tags with the names of their values, as they go over the socket.
fn written_tags(tags: &TagTable) -> Vec<(String, Option<Vec<String>>)> {
    let written = |(name, values): (&str, &TagValues)| {
        let values = match values {
            TagValues::Named(names) => Some(names.clone()),
            TagValues::Number => None,
        };
        (name.to_owned(), values)
    };
    tags.iter().map(written).collect()
}

/// All that the thread works with.
struct Watch {
    kind: &'static Kind,
    welcome: Welcome,
    ring: PathBuf,
    own_folder: bool,
    plain: bool,
    user: Option<u32>,
    start: Start,
    heartbeat: Duration,
    checkpoint: Option<Duration>,
    port: Port,
    listener: UnixListener,
    orders: Receiver<Order>,
    shared: Vec<Arc<Shared>>,
    view: Arc<Mutex<View>>,
    now: Box<dyn Fn() -> u64 + Send>,
    book: Book,
    process: Option<Process>,
    session: Option<Session>,
    pause: Duration,
    next_start: Instant,
}

/// A function that speaks to us.
struct Session {
    connection: Connection,
    stage: Stage,
    begun: Instant,
    process: u32,
    last_ping: Instant,
    last_pong: Instant,
    /// Processor time of the process at the last answer, where it is known.
    ticks: Option<u64>,
    last_checkpoint: Instant,
    progress: Vec<(u32, Instant)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Greeting,
    Attaching,
    Ready,
    Running,
}

impl Watch {
    fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Acquire) {
            self.round();
        }
        self.go_down();
        self.session = None;
        self.process = None;
        // What is left does no harm: the next node removes it.
        let _ = std::fs::remove_file(crate::control_path(&self.ring));
        let _ = std::fs::remove_file(&self.ring);
        if let Some(folder) = self.ring.parent().filter(|_| self.own_folder) {
            // The last function's ring takes it along.
            let _ = std::fs::remove_dir(folder);
        }
    }

    fn round(&mut self) {
        self.wait();
        self.take_orders();
        if self.plain {
            return self.watch_ring();
        }
        if let Some(process) = &mut self.process
            && let Some(how) = process.ended()
        {
            self.process = None;
            self.fail(&how);
        }
        self.accept();
        if let Err(reason) = self.converse() {
            self.fail(&reason);
        }
        self.start_process();
    }

    /// A function without a socket is there while its end of the ring is.
    fn watch_ring(&mut self) {
        let (is_up, was_up) = (self.port.link().up, self.view_status() == Status::Running);
        match (was_up, is_up) {
            (false, true) => self.go_up(),
            (true, false) => self.fail("its end of the ring is closed"),
            _ => {}
        }
    }

    fn view_status(&self) -> Status {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).status
    }

    /// Waits until something happens, a millisecond at most.
    fn wait(&self) {
        let mut descriptors = vec![PollFd::new(&self.listener, PollFlags::IN)];
        if let Some(session) = &self.session {
            let sending =
                if session.connection.is_sending() { PollFlags::OUT } else { PollFlags::empty() };
            descriptors.push(PollFd::new(session.connection.stream(), PollFlags::IN | sending));
        }
        if let Some(process) = &self.process {
            descriptors.push(PollFd::from_borrowed_fd(process.descriptor(), PollFlags::IN));
        }
        let round = Timespec { tv_sec: 0, tv_nsec: ROUND.as_nanos() as i64 };
        // Interrupted or not: the next round looks at everything.
        let _ = poll(&mut descriptors, Some(&round));
    }

    fn take_orders(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            let now = (self.now)();
            if let Some(session) = &mut self.session
                && session.stage != Stage::Greeting
            {
                // An error shows again as the session is looked at.
                let _ = session.connection.send(&order.message(now));
            }
            self.book.note(order);
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let Ok(mut connection) = Connection::new(stream) else { continue };
            if self.session.is_some() {
                let _ = connection.send(&Message::Refuse("another process is attached".into()));
                continue;
            }
            let now = Instant::now();
            self.session = Some(Session {
                connection,
                stage: Stage::Greeting,
                begun: now,
                process: 0,
                last_ping: now,
                last_pong: now,
                ticks: None,
                last_checkpoint: now,
                progress: self.shared.iter().map(|_| (0, now)).collect(),
            });
        }
    }

    /// Speaks with the function.
    ///
    /// # Errors
    /// What is wrong with it.
    fn converse(&mut self) -> Result<(), String> {
        let gone = |error: io::Error| match error.kind() {
            io::ErrorKind::InvalidData => format!("it sent {error}"),
            _ => "it closed its socket".to_owned(),
        };
        loop {
            let Some(session) = &mut self.session else { return Ok(()) };
            session.connection.flush().map_err(gone)?;
            let Some(message) = session.connection.receive().map_err(gone)? else { break };
            self.hear(message)?;
        }
        self.look_after()
    }

    fn hear(&mut self, message: Message) -> Result<(), String> {
        let Some(session) = &mut self.session else { return Ok(()) };
        match (session.stage, message) {
            (Stage::Greeting, Message::Hello { version, process, function }) => {
                let reason = if version != VERSION {
                    format!("version {version} of the protocol; the node speaks {VERSION}")
                } else if function != self.kind.name {
                    format!(
                        "{function} is not the function of this place: that is {}",
                        self.kind.name
                    )
                } else {
                    session.process = process;
                    session.stage = Stage::Attaching;
                    self.set_status(Status::Starting);
                    return self.brief();
                };
                // It will see the reason; there is nothing to wait for.
                let _ = session.connection.send(&Message::Refuse(reason.clone()));
                Err(reason)
            }
            (Stage::Attaching, Message::Ready) => {
                session.stage = Stage::Ready;
                Ok(())
            }
            (_, Message::Pong(_)) => {
                session.last_pong = Instant::now();
                session.ticks = process::ticks(session.process);
                Ok(())
            }
            (Stage::Running, Message::Context { worker, slot, context }) => {
                if self.kind.rollback {
                    self.book.put_down(worker, slot, context);
                }
                Ok(())
            }
            (Stage::Running, Message::Checkpointed | Message::Fenced(_)) => Ok(()),
            (_, message) => Err(format!("it sent a message out of turn: {message:?}")),
        }
    }

    /// Tells a new process all that it must know.
    fn brief(&mut self) -> Result<(), String> {
        let now = (self.now)();
        let Some(session) = &mut self.session else { return Ok(()) };
        let mut messages = vec![Message::Welcome(Box::new(self.welcome.clone()))];
        messages.extend(self.book.messages(now));
        messages.push(Message::Start(self.book.numbers().to_vec()));
        for message in messages {
            session.connection.send(&message).map_err(|_| "it closed its socket".to_owned())?;
        }
        Ok(())
    }

    /// Heartbeat, checkpoints, and whether the ring is there.
    fn look_after(&mut self) -> Result<(), String> {
        let now = Instant::now();
        let Some(session) = &mut self.session else { return Ok(()) };
        match session.stage {
            Stage::Greeting | Stage::Attaching | Stage::Ready => {
                if now - session.begun > BEGINNING {
                    return Err("it did not attach to the ring in time".to_owned());
                }
                if session.stage == Stage::Ready && self.port.link().up {
                    session.stage = Stage::Running;
                    session.last_pong = now;
                    session.progress.iter_mut().for_each(|one| one.1 = now);
                    self.go_up();
                }
                return Ok(());
            }
            Stage::Running => {}
        }
        if now - session.last_ping >= self.heartbeat / 4 {
            session.last_ping = now;
            let ping = session.connection.send(&Message::Ping(0));
            ping.map_err(|_| "it closed its socket".to_owned())?;
        }
        if let Some(every) = self.checkpoint
            && now - session.last_checkpoint >= every
        {
            session.last_checkpoint = now;
            let question = Message::Checkpoint { now: (self.now)() };
            let sent = session.connection.send(&question);
            sent.map_err(|_| "it closed its socket".to_owned())?;
        }
        let silent = now - session.last_pong;
        if silent > self.heartbeat && session.is_stuck(silent, self.heartbeat) {
            return Err(format!("it has not answered for {} ms", silent.as_millis()));
        }
        // One that answers but leaves its packets lying stands still as well.
        for (shared, (seen, since)) in self.shared.iter().zip(&mut session.progress) {
            let returned = shared.returned.load(Ordering::Relaxed);
            if returned != *seen || shared.away.load(Ordering::Relaxed) == 0 {
                (*seen, *since) = (returned, now);
            } else if now - *since > self.heartbeat * 10 {
                return Err("it answers, but leaves its packets in the ring".to_owned());
            }
        }
        Ok(())
    }

    fn start_process(&mut self) {
        let Start::Program(program) = &self.start else { return };
        if self.process.is_some() || Instant::now() < self.next_start {
            return;
        }
        match Process::start(program, self.kind.name, &self.ring, self.user) {
            Ok(process) => {
                self.set_status(Status::Starting);
                self.edit(|view| view.process = Some(process.id()));
                self.process = Some(process);
            }
            Err(error) => {
                self.fail(&format!("{} could not be started: {error}", program.display()))
            }
        }
    }

    /// The function is there: packets go to it from now on.
    fn go_up(&mut self) {
        for shared in &self.shared {
            let session = shared.session.load(Ordering::Relaxed);
            shared.session.store((session + 1) | 1, Ordering::Release);
        }
        self.set_status(Status::Running);
        let process = self.session.as_ref().map(|session| session.process);
        self.edit(|view| view.process = process);
        tracing::info!(function = self.welcome.instance, process, "the function is attached");
    }

    fn go_down(&mut self) {
        for shared in &self.shared {
            let session = shared.session.load(Ordering::Relaxed);
            if session & 1 == 1 {
                shared.session.store(session.wrapping_add(1), Ordering::Release);
            }
        }
    }

    /// The function has failed: its packets are under its policy from now on.
    fn fail(&mut self, reason: &str) {
        self.go_down();
        tracing::warn!(function = self.welcome.instance, reason, "the function has failed");
        let now = Instant::now();
        let begun = self.session.take().map(|session| session.begun);
        self.process = None;
        if begun.is_some_and(|begun| now - begun > STEADY) {
            self.pause = FIRST_PAUSE;
        }
        self.next_start = now + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        let checkpointed = self.book.checkpointed();
        self.edit(|view| {
            view.status = Status::Absent;
            view.process = None;
            view.failures += 1;
            view.last_failure = Some(reason.to_owned());
            view.checkpointed = checkpointed;
        });
    }

    fn set_status(&self, status: Status) {
        self.edit(|view| view.status = status);
    }

    fn edit(&self, change: impl FnOnce(&mut View)) {
        change(&mut self.view.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Session {
    /// Whether a process that is silent stands still: it was stopped, or it had
    /// the processor and did not answer. One that merely was not scheduled gets
    /// ten times the time.
    fn is_stuck(&self, silent: Duration, heartbeat: Duration) -> bool {
        if silent > heartbeat * 10 || process::is_stopped(self.process) {
            return true;
        }
        match (self.ticks, process::ticks(self.process)) {
            (Some(then), Some(now)) => {
                // Hundredths of a second, as the kernel counts them.
                Duration::from_millis(10) * now.saturating_sub(then) as u32 > heartbeat
            }
            _ => true,
        }
    }
}
