//! The proxy between UDP sockets and a site.
//!
//! One thread for each socket receives; one works. What waits for it is bounded, and what comes
//! beyond the bound is dropped and counted: peers repeat their requests.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use super::records::Kept;
use super::show::ProxyView;
use super::{NodePlan, Proxy, Settings, Start};
use crate::datagrams::{Receiver as Receives, Sender, split};
use crate::random::entropy;
use crate::server::{ServerError, socket};
use crate::user_plane::Datagram;

/// Datagrams that wait for the worker.
const WAITING: usize = 16_384;
/// Datagrams that are worked on before others go out.
const BATCH: usize = 256;
/// How often the proxy looks at its timers, and at most how long a stop is not seen.
const TICK: Duration = Duration::from_millis(20);
/// Nanoseconds between two looks at timers, at least: they look at all nodes.
const POLL: u64 = 10_000_000;
/// How often it asks for its nodes, and says how they are.
const LOOK: Duration = Duration::from_millis(250);

/// What the proxy is for: a site, by one of its controllers.
pub trait Site: Send + 'static {
    /// The nodes; none where that cannot be said now.
    fn nodes(&self) -> Option<Vec<NodePlan>>;
    /// Makes records durable, and calls `done` then.
    fn keep(&self, kept: Vec<Kept>, done: Box<dyn FnOnce() + Send>);
    /// Says what there is.
    fn show(&self, view: ProxyView);
}

/// Datagrams of one sender, one behind the other, and the octets of each.
type Received = (SocketAddr, Box<[u8]>, usize);

/// Serves control planes until it is dropped.
#[derive(Debug)]
pub struct ProxyServer {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl ProxyServer {
    /// Serves control planes as `settings` say, with what was `kept` before.
    ///
    /// # Errors
    /// An address cannot be had, or the machine has no thread or no random numbers.
    pub fn start(
        settings: Settings,
        kept: Vec<(Vec<u8>, Vec<u8>)>,
        site: impl Site,
    ) -> Result<ProxyServer, ServerError> {
        let sockets = settings.listen.iter().map(|address| {
            let address = SocketAddr::new(*address, settings.port);
            socket(address).map_err(|reason| ServerError::Socket { address, reason })
        });
        let sockets = sockets.collect::<Result<Vec<_>, _>>()?;
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let proxy = Proxy::new(settings, Start { unix, entropy: entropy()?, kept });
        let stop = Arc::new(AtomicBool::new(false));
        let (dropped, waiting) = (Arc::<AtomicU64>::default(), Arc::<AtomicUsize>::default());
        let (input, inputs) = sync_channel(WAITING);
        // From here on a failure stops the threads that there are.
        let mut server = ProxyServer { stop: stop.clone(), threads: Vec::new() };
        for socket in &sockets {
            let receiving = Receiving {
                socket: socket.try_clone()?,
                input: input.clone(),
                waiting: waiting.clone(),
                stop: stop.clone(),
                dropped: dropped.clone(),
            };
            let thread = Builder::new().name("n4-receive".to_owned());
            server.threads.push(thread.spawn(move || receiving.run())?);
        }
        let working = Working {
            proxy,
            site,
            sockets: sockets.into_iter().map(|one| (is_ipv4(&one), one)).collect(),
            inputs,
            waiting,
            stop,
            dropped,
            since: Instant::now(),
            looked: None,
            polled: 0,
            sender: Sender::default(),
            given: 0,
            durable: Arc::default(),
            held: VecDeque::new(),
        };
        let thread = Builder::new().name("n4".to_owned());
        server.threads.push(thread.spawn(move || working.run())?);
        Ok(server)
    }

    /// Whether one of its threads has ended by itself.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }
}

impl Drop for ProxyServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic of it was reported when it happened.
            let _ = thread.join();
        }
    }
}

fn is_ipv4(socket: &UdpSocket) -> bool {
    socket.local_addr().is_ok_and(|address| address.is_ipv4())
}

struct Receiving {
    socket: UdpSocket,
    input: SyncSender<Received>,
    /// Datagrams that wait.
    waiting: Arc<AtomicUsize>,
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
            let datagrams = (received.from, received.octets.into(), received.each);
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

struct Working<S> {
    proxy: Proxy,
    site: S,
    /// The sockets, each with whether it is of IPv4.
    sockets: Vec<(bool, UdpSocket)>,
    inputs: Receiver<Received>,
    waiting: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    dropped: Arc<AtomicU64>,
    since: Instant,
    looked: Option<Instant>,
    polled: u64,
    sender: Sender,
    /// Lists of records that were given to be kept, and those that are durable.
    given: u64,
    durable: Arc<AtomicU64>,
    /// Datagrams that wait for a list, in order.
    held: VecDeque<(u64, Datagram)>,
}

impl<S: Site> Working<S> {
    fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            self.look();
            self.take_inputs();
            let now = self.now();
            if now.saturating_sub(self.polled) >= POLL {
                self.proxy.poll(now);
                self.polled = now;
            }
            self.keep();
            self.send();
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn look(&mut self) {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK) {
            return;
        }
        if let Some(nodes) = self.site.nodes() {
            self.proxy.set_nodes(self.now(), nodes);
        }
        let mut view = self.proxy.view();
        view.counts.queue_full = self.dropped.load(Ordering::Relaxed);
        self.site.show(view);
        self.looked = Some(Instant::now());
    }

    fn take_inputs(&mut self) {
        let Ok(first) = self.inputs.recv_timeout(TICK) else { return };
        let mut taken = self.take(first);
        while taken < BATCH {
            let Ok(next) = self.inputs.try_recv() else { break };
            taken += self.take(next);
        }
    }

    fn take(&mut self, (from, octets, each): Received) -> usize {
        let (now, mut count) = (self.now(), 0);
        for datagram in split(&octets, each) {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            self.proxy.receive(now, from, datagram);
            count += 1;
        }
        count
    }

    fn keep(&mut self) {
        let kept = self.proxy.take_kept();
        if kept.is_empty() {
            return;
        }
        self.given += 1;
        let (given, durable) = (self.given, self.durable.clone());
        let done = move || {
            durable.fetch_max(given, Ordering::Release);
        };
        self.site.keep(kept, Box::new(done));
    }

    fn send(&mut self) {
        let durable = self.durable.load(Ordering::Acquire);
        let mut ready = Vec::new();
        while self.held.front().is_some_and(|(given, _)| *given <= durable)
            && let Some((_, datagram)) = self.held.pop_front()
        {
            ready.push(datagram);
        }
        for datagram in self.proxy.take_datagrams() {
            if !datagram.waits || self.given <= durable {
                ready.push(datagram);
            } else if self.held.len() < WAITING {
                self.held.push_back((self.given, datagram));
            }
        }
        for of_one in ready.chunk_by(|one, next| one.to == next.to) {
            let to = of_one[0].to;
            let socket = self.sockets.iter().find(|one| one.0 == to.is_ipv4());
            let Some((_, socket)) = socket else { continue };
            let octets = of_one.iter().map(|one| one.octets.as_slice());
            self.sender.send(socket, to, octets, |error: io::Error| {
                // It is repeated by the one that has sent it first.
                tracing::debug!(%to, "N4: message not sent: {error}");
            });
        }
    }
}
