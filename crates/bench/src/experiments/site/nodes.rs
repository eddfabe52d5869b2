//! Nodes of a site: an anchor and stations that speak the protocol over sockets of this
//! machine, as nodes do, and have no packets. Contexts of a user are eight octets.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weft_mobility_protocol::{
    Anchor, Contexts, EndMarker, Incarnation, NodeId, Output, Settings, Station, TimerKey, User,
};
use weft_mobility_transport::note::Registration;
use weft_mobility_transport::{Event, Options, Timing, Token, Transport};
use weft_rig::Failure;

/// Names of the nodes, by their numbers from 1; the first is the anchor.
pub const NAMES: [&str; 3] = ["gateway", "a", "b"];
/// The station that joins later, and registers.
pub const LATE: &str = "c";
const LATE_NUMBER: NodeId = NodeId(4);
/// How long a node without timers waits for an input.
const IDLE: Duration = Duration::from_secs(1);

/// What a node is given.
enum Input {
    Arrived(Event),
    Marker(User, EndMarker),
    Stop,
}

/// How nodes reach each other where packets would.
type Ends = Arc<HashMap<NodeId, Sender<Input>>>;

/// For how long users had no owner while they moved: from the export at one station until the
/// import at another.
#[derive(Clone, Default)]
pub struct Pauses(Arc<Mutex<Paused>>);

/// Users without an owner and since when, and how long others were without one.
type Paused = (HashMap<User, Instant>, Vec<Duration>);

impl Pauses {
    fn begin(&self, user: User) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.insert(user, Instant::now());
    }

    fn end(&self, user: User) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(began) = all.0.remove(&user) {
            all.1.push(began.elapsed());
        }
    }

    /// All of them, shortest first; they are forgotten.
    pub fn take(&self) -> Vec<Duration> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut pauses = std::mem::take(&mut all.1);
        pauses.sort_unstable();
        pauses
    }
}

/// Nodes that run, until they are dropped.
pub struct Nodes {
    ends: Ends,
    pauses: Pauses,
    controllers: Vec<String>,
    token: Token,
    /// Inputs of the station that has not joined.
    late: Option<Receiver<Input>>,
    threads: Vec<JoinHandle<()>>,
}

impl Nodes {
    /// Starts the nodes at these places. They look for the controller that leads among
    /// `controllers`.
    ///
    /// # Errors
    /// When a node cannot listen.
    pub fn start(
        places: [SocketAddr; 3],
        controllers: &[SocketAddr],
        token: &str,
    ) -> Result<Nodes, Failure> {
        let numbers = || (1..).map(NodeId);
        let (mut ends, mut inputs) = (HashMap::new(), Vec::new());
        for number in numbers().take(NAMES.len() + 1) {
            let (end, input) = channel();
            ends.insert(number, end);
            inputs.push(input);
        }
        let mut nodes = Nodes {
            ends: Arc::new(ends),
            pauses: Pauses::default(),
            controllers: controllers.iter().map(SocketAddr::to_string).collect(),
            token: Token::new(token).ok_or("a token that is none")?,
            late: inputs.pop(),
            threads: Vec::new(),
        };
        for (((number, name), listen), inputs) in numbers().zip(NAMES).zip(places).zip(inputs) {
            nodes.begin(number, name, listen, None, inputs)?;
        }
        Ok(nodes)
    }

    /// For how long users have no owner.
    pub fn pauses(&self) -> Pauses {
        self.pauses.clone()
    }

    /// Starts the station [`LATE`] at that place, which no file names.
    ///
    /// # Errors
    /// When it cannot listen, or has joined before.
    pub fn join(&mut self, listen: SocketAddr) -> Result<(), Failure> {
        let inputs = self.late.take().ok_or("the station has joined before")?;
        let registration =
            Registration { address: listen.to_string(), capacity: 0, version: String::new() };
        self.begin(LATE_NUMBER, LATE, listen, Some(registration), inputs)
    }

    fn begin(
        &mut self,
        number: NodeId,
        name: &str,
        listen: SocketAddr,
        registration: Option<Registration>,
        inputs: Receiver<Input>,
    ) -> Result<(), Failure> {
        let options = Options {
            node: number,
            name: name.to_owned(),
            listen,
            token: self.token.clone(),
            controllers: self.controllers.clone(),
            term: 0,
            places: Vec::new(),
            registration,
            admits: false,
            security: None,
            timing: Timing::default(),
        };
        let end = self.ends[&number].clone();
        let transport =
            Transport::start(options, move |event| end.send(Input::Arrived(event)).is_ok())?;
        let (ends, pauses) = (self.ends.clone(), self.pauses.clone());
        self.threads.push(thread::spawn(move || {
            let (incarnation, settings) = (Incarnation(1), Settings::default());
            let mut out = Vec::new();
            let machine = match number {
                NodeId(1) => Machine::Anchor(Anchor::new(number, incarnation, settings, &mut out)),
                _ => Machine::Station(Station::new(number, incarnation, settings, &mut out)),
            };
            let (timers, contexts) = (Timers::default(), HashMap::new());
            let mut node = Node { machine, transport, ends, pauses, timers, contexts };
            node.carry_out(out);
            node.run(&inputs);
        }));
        Ok(())
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        // A node that has panicked has no end any more, and has said why.
        self.ends.values().for_each(|end| drop(end.send(Input::Stop)));
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

enum Machine {
    Station(Station),
    Anchor(Anchor),
}

#[derive(Default)]
struct Timers {
    at: BTreeMap<TimerKey, Instant>,
    order: BTreeSet<(Instant, TimerKey)>,
}

impl Timers {
    fn set(&mut self, key: TimerKey, at: Instant) {
        self.cancel(key);
        self.at.insert(key, at);
        self.order.insert((at, key));
    }

    fn cancel(&mut self, key: TimerKey) {
        if let Some(at) = self.at.remove(&key) {
            self.order.remove(&(at, key));
        }
    }

    /// How long until the first is due.
    fn left(&self) -> Duration {
        let first = self.order.first().map(|(at, _)| at.saturating_duration_since(Instant::now()));
        first.unwrap_or(IDLE)
    }

    fn take_due(&mut self) -> Option<TimerKey> {
        let (at, key) = *self.order.first()?;
        (at <= Instant::now()).then(|| self.cancel(key))?;
        Some(key)
    }
}

struct Node {
    machine: Machine,
    transport: Transport,
    ends: Ends,
    pauses: Pauses,
    timers: Timers,
    /// How often the contexts of a user have moved.
    contexts: HashMap<User, u64>,
}

impl Node {
    fn run(&mut self, inputs: &Receiver<Input>) {
        loop {
            match inputs.recv_timeout(self.timers.left()) {
                Ok(Input::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(Input::Arrived(Event::Message(envelope))) => {
                    self.drive(|machine, out| match machine {
                        Machine::Station(station) => station.message(envelope, out),
                        Machine::Anchor(anchor) => anchor.message(envelope, out),
                    });
                }
                Ok(Input::Arrived(_)) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Input::Marker(user, marker)) => self.drive(|machine, out| match machine {
                    Machine::Station(station) => station.end_marker(user, marker, out),
                    Machine::Anchor(anchor) => anchor.end_marker(user, marker, out),
                }),
            }
            while let Some(key) = self.timers.take_due() {
                self.drive(|machine, out| match machine {
                    Machine::Station(station) => station.timer(key, out),
                    Machine::Anchor(anchor) => anchor.timer(key, out),
                });
            }
        }
    }

    fn drive(&mut self, input: impl FnOnce(&mut Machine, &mut Vec<Output>)) {
        let mut out = Vec::new();
        input(&mut self.machine, &mut out);
        self.carry_out(out);
    }

    fn station(&mut self, input: impl FnOnce(&mut Station, &mut Vec<Output>)) {
        self.drive(|machine, out| {
            if let Machine::Station(station) = machine {
                input(station, out);
            }
        });
    }

    fn carry_out(&mut self, out: Vec<Output>) {
        for output in out {
            match output {
                Output::Send(envelope) => self.transport.sender().send(envelope),
                Output::SetTimer(key, after) => self.timers.set(key, Instant::now() + after),
                Output::CancelTimer(key) => self.timers.cancel(key),
                Output::Export { user, epoch } => {
                    self.pauses.begin(user);
                    let moves = self.contexts.get(&user).copied().unwrap_or(0);
                    let bytes = moves.to_be_bytes().to_vec();
                    self.station(|station, out| station.exported(user, epoch, bytes, out));
                }
                Output::Import { user, epoch, contexts } => {
                    let moves = match contexts {
                        Contexts::Exported(bytes) => bytes.try_into().map(u64::from_be_bytes).ok(),
                        Contexts::Kept | Contexts::New => Some(0),
                    };
                    if let Some(moves) = moves {
                        self.contexts.insert(user, moves + 1);
                        self.pauses.end(user);
                    }
                    self.station(|station, out| {
                        station.imported(user, epoch, moves.is_some(), out);
                        // The radio is there at once.
                        station.radio_arrived(user, out);
                    });
                }
                // Nothing is in the air.
                Output::Drain { user, epoch } => {
                    self.station(|station, out| station.drained(user, epoch, out));
                }
                Output::Discard(user) => _ = self.contexts.remove(&user),
                Output::SendEndMarker { user, to, marker } => {
                    if let Some(end) = self.ends.get(&to) {
                        // One that has stopped needs none.
                        let _ = end.send(Input::Marker(user, marker));
                    }
                }
                // The radio goes as soon as the target has the user.
                Output::Changed(user, change) if change.to == "Forwarding" => {
                    self.station(|station, out| station.radio_left(user, out));
                }
                _ => {}
            }
        }
    }
}
