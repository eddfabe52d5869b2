//! A state machine between UDP sockets and an agent.
//!
//! One thread for each socket receives; one works. Datagrams that wait for the worker are
//! bounded, and what comes beyond the bound is dropped and counted, as the system drops what a
//! socket has no room for: peers repeat their requests.

mod pause;
mod working;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use socket2::{Domain, Protocol, Socket, Type};
use weft_node::bearer::session::{Keep, Kept, SessionCommand, SessionEvent, SessionsChanged};
use weft_node::{Done, Stopped};
use weft_node_config::PfcpPlan;

use self::working::Working;
use crate::datagrams::{Receiver as Receives, Sender};
use crate::random::entropy;
use crate::user_plane::show::{Found, PfcpView, Search, SessionView};
use crate::user_plane::{Start, UserPlane};

/// Datagrams and questions that wait for the worker.
const WAITING: usize = 16_384;
/// Longest pause, so that a stop is seen.
const PAUSE: Duration = Duration::from_millis(100);
/// While more wait, the node is in congestion: it takes no new sessions.
const CONGESTION: usize = WAITING / 2;
/// Octets that a socket holds: half a second of requests at a high rate.
const SOCKET_BUFFER: usize = 8 << 20;

/// What sessions are changed by: the agent of a node.
pub trait DataPlane: Send + 'static {
    /// Changes sessions.
    ///
    /// # Errors
    /// The node has stopped.
    fn change(&self, commands: Vec<SessionCommand>) -> Result<SessionsChanged, Stopped>;
    /// What happens to sessions.
    ///
    /// # Errors
    /// The node has stopped.
    fn session_events(&self) -> Result<Receiver<SessionEvent>, Stopped>;
    /// Peers that fail and return.
    ///
    /// # Errors
    /// The node has stopped.
    fn peer_events(&self) -> Result<Receiver<weft_node::bearer::Event>, Stopped>;
    /// What was kept in the node's last life.
    ///
    /// # Errors
    /// The node has stopped.
    fn kept(&self) -> Result<Kept, Stopped>;
    /// Keeps something, and calls `done` once that is durable, with all that was given before.
    /// What usage was told up to the number `reported` is kept as reported by then.
    ///
    /// # Errors
    /// The node has stopped.
    fn keep(&self, keep: Vec<Keep>, reported: u64, done: Done) -> Result<(), Stopped>;
    /// Asks sessions for nothing any more and tells nothing of them, or does so again. Whether
    /// all that was asked is answered, and told.
    ///
    /// # Errors
    /// The node has stopped.
    fn hold(&self, is_held: bool) -> Result<bool, Stopped>;
    /// Nanoseconds since the node started.
    ///
    /// # Errors
    /// The node has stopped.
    fn now(&self) -> Result<u64, Stopped>;
}

/// Why the node cannot be driven by PFCP.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address cannot be had.
    #[error("PFCP at {address}: {reason}")]
    Socket {
        /// The address.
        address: SocketAddr,
        /// Why.
        reason: io::Error,
    },
    /// No thread, or no random numbers.
    #[error("PFCP: {0}")]
    Io(#[from] io::Error),
    /// The node has stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

type Question = Box<dyn FnOnce(&UserPlane) + Send>;

enum Input {
    /// Datagrams of one sender, one behind the other, and the octets of each.
    Datagrams(SocketAddr, Box<[u8]>, usize),
    Question(Question),
    /// Control planes are asked to release their associations.
    Release(Duration),
    /// What is under way ends, and what there is to keep is told.
    Pause(SyncSender<Result<Vec<Keep>, String>>),
    /// Requests are taken again.
    Resume,
}

/// Serves control planes until it is dropped.
#[derive(Debug)]
pub struct Server {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    handle: ServerHandle,
    addresses: Vec<SocketAddr>,
    dropped: Arc<AtomicU64>,
}

/// A way to ask the server, from any thread.
#[derive(Clone, Debug)]
pub struct ServerHandle {
    input: SyncSender<Input>,
    dropped: Arc<AtomicU64>,
    /// The latest look of [`view_of_late`](Self::view_of_late).
    looked: Arc<Mutex<Option<(Instant, PfcpView)>>>,
}

impl ServerHandle {
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&UserPlane) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, wait) = sync_channel(1);
        let question = Box::new(move |plane: &UserPlane| {
            // The client that asked may have gone.
            let _ = answer.send(question(plane));
        });
        self.input.send(Input::Question(question)).ok()?;
        wait.recv().ok()
    }

    /// Associations and counts; none if the server has stopped.
    #[must_use]
    pub fn view(&self) -> Option<PfcpView> {
        let mut view = self.ask(UserPlane::view)?;
        view.counts.queue_full = self.dropped.load(Ordering::Relaxed);
        Some(view)
    }

    /// The same for many who ask: the server is asked once a second.
    #[must_use]
    pub fn view_of_late(&self) -> Option<PfcpView> {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |at: &Instant| at.elapsed() < Duration::from_secs(1);
        if let Some((_, view)) = looked.as_ref().filter(|(at, _)| is_fresh(at)) {
            return Some(view.clone());
        }
        let view = self.view()?;
        *looked = Some((Instant::now(), view.clone()));
        Some(view)
    }

    /// At most so many sessions behind the first ones; none if the server has stopped.
    #[must_use]
    pub fn sessions(&self, first: usize, most: usize) -> Option<Vec<SessionView>> {
        self.ask(move |plane| plane.sessions_view(first, most))
    }

    /// Looks for sessions; none if the server has stopped.
    #[must_use]
    pub fn find_sessions(&self, search: Search) -> Option<Found> {
        self.ask(move |plane| plane.find_sessions(&search))
    }
}

impl Server {
    /// Serves control planes as `plan` says.
    ///
    /// # Errors
    /// An address of the plan cannot be had, or the node has stopped.
    pub fn start(plan: &PfcpPlan, data_plane: impl DataPlane) -> Result<Server, ServerError> {
        let sockets = plan.listen.iter().map(|address| {
            let address = SocketAddr::new(*address, plan.port);
            socket(address).map_err(|reason| ServerError::Socket { address, reason })
        });
        let sockets = sockets.collect::<Result<Vec<_>, _>>()?;
        let addresses = sockets.iter().map(UdpSocket::local_addr).collect::<Result<Vec<_>, _>>()?;
        let started = data_plane.now()?;
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let start = Start {
            recovery: unix,
            epoch: unix.saturating_sub(started / 1_000_000_000),
            entropy: entropy()?,
        };
        let clock = Clock { base: started, since: Instant::now() };
        let mut plane = UserPlane::new(plan.clone(), start);
        plane.restore(started, data_plane.kept()?);
        let stop = Arc::new(AtomicBool::new(false));
        let dropped = Arc::new(AtomicU64::new(0));
        let (input, inputs) = sync_channel(WAITING);
        let waiting = Arc::new(AtomicUsize::new(0));
        let mut threads = Vec::new();
        for socket in &sockets {
            let receiver = Receiving {
                socket: socket.try_clone()?,
                waiting: waiting.clone(),
                input: input.clone(),
                stop: stop.clone(),
                dropped: dropped.clone(),
            };
            let thread = Builder::new().name("pfcp-receive".to_owned());
            threads.push(thread.spawn(move || receiver.run())?);
        }
        let working = Working {
            plane,
            waiting_inputs: waiting,
            sockets: addresses.iter().map(SocketAddr::is_ipv4).zip(sockets).collect(),
            inputs,
            sessions: data_plane.session_events()?,
            peers: data_plane.peer_events()?,
            data_plane,
            clock,
            stop: stop.clone(),
            sender: Sender::default(),
            unsent: HashMap::new(),
            given: 0,
            reported: 0,
            durable: Arc::new(AtomicU64::new(0)),
            refused: Arc::default(),
            waiting: VecDeque::new(),
            pause: None,
            held: VecDeque::new(),
            dropped: dropped.clone(),
        };
        let thread = Builder::new().name("pfcp".to_owned());
        threads.push(thread.spawn(move || working.run())?);
        let handle = ServerHandle { input, dropped: dropped.clone(), looked: Arc::default() };
        Ok(Server { stop, threads, handle, addresses, dropped })
    }

    /// A way to ask it.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        self.handle.clone()
    }

    /// The addresses at which it listens.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Asks all control planes to release their associations, and waits until they have, but no
    /// longer than `patience`. Sessions end with them.
    pub fn release(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let is_associated =
            || self.handle.view().is_some_and(|view| view.associations.iter().any(|one| one.up));
        if !is_associated() || self.handle.input.send(Input::Release(patience)).is_err() {
            return;
        }
        while is_associated() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends what is under way and takes no request any more, until it [resumes](Self::resume):
    /// all that is to be kept, for another process that has the node then. Requests that come
    /// meanwhile wait.
    ///
    /// # Errors
    /// It takes too long, or the server has stopped.
    pub fn pause(&self) -> Result<Vec<Keep>, String> {
        let (told, kept) = sync_channel(1);
        let stopped = || "PFCP has stopped".to_owned();
        self.handle.input.send(Input::Pause(told)).map_err(|_| stopped())?;
        kept.recv().map_err(|_| stopped())?
    }

    /// Takes requests again: those that have waited first.
    pub fn resume(&self) {
        // One that has stopped takes nothing anyway.
        let _ = self.handle.input.send(Input::Resume);
    }

    /// Datagrams that came while too many waited.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Whether one of its threads has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic of it was reported when it happened.
            let _ = thread.join();
        }
    }
}

pub(crate) fn socket(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // The system may allow less, which is well.
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
    socket.set_read_timeout(Some(PAUSE))?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// The time of the node.
struct Clock {
    base: u64,
    since: Instant,
}

impl Clock {
    fn now(&self) -> u64 {
        let elapsed = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.base.saturating_add(elapsed)
    }
}

struct Receiving {
    socket: UdpSocket,
    /// Datagrams that wait for the worker.
    waiting: Arc<AtomicUsize>,
    input: SyncSender<Input>,
    stop: Arc<AtomicBool>,
    dropped: Arc<AtomicU64>,
}

impl Receiving {
    fn run(self) {
        let mut receiver = Receives::of(&self.socket);
        while !self.stop.load(Ordering::Relaxed) {
            // Errors of earlier datagrams, such as ports that are not reachable, come here, too.
            let Ok(received) = receiver.receive(&self.socket) else { continue };
            let count = received.count();
            let datagrams = Input::Datagrams(received.from, received.octets.into(), received.each);
            let sent = match self.waiting.fetch_add(count, Ordering::Relaxed) + count <= WAITING {
                true => self.input.try_send(datagrams),
                false => Err(TrySendError::Full(datagrams)),
            };
            match sent {
                Ok(()) => {}
                Err(TrySendError::Full(_)) => {
                    self.waiting.fetch_sub(count, Ordering::Relaxed);
                    self.dropped.fetch_add(count as u64, Ordering::Relaxed);
                }
                Err(TrySendError::Disconnected(_)) => return,
            }
        }
    }
}
