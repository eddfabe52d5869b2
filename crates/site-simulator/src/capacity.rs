//! What a large site costs etcd: the engine and the store of the controller, on the model of
//! etcd, with users that move all the time.
//!
//! Nodes answer each step of a move as the protocol says, after [`ROUND_TRIP`], and keep nothing:
//! so there may be more users than nodes on this machine could have.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weft_etcd::model::Model;
use weft_etcd::{
    Candidate, Carried, Election, Etcd, EtcdError, EtcdStore, Fence, Leadership, Operation, Page,
    Range,
};
use weft_mobility_controller::config::Configuration;
use weft_mobility_controller::engine::{Answer, Engine, Input, Surroundings, Ways};
use weft_mobility_controller::journal::{Entry, Journal, JournalError};
use weft_mobility_controller::members::Members;
use weft_mobility_controller::surroundings::{Clock, Network};
use weft_mobility_protocol::controller::{Intent, Record};
use weft_mobility_protocol::{Envelope, Epoch, Incarnation, Leg, Message, NodeId, Step, User};
use weft_mobility_transport::note::Note;
use weft_mobility_transport::{Event as Arrived, PeerAddress, Statistics};
use weft_state::{Owner, Role};

/// From a message to a node until its answer is there, in microseconds.
const ROUND_TRIP: u64 = 1000;
/// How long etcd takes for a transaction, and for each octet of it: 5 ms, and 100 MB/s.
const TRANSACTION: u64 = 5000;
const OCTETS_A_MICROSECOND: u64 = 100;
const SECOND: u64 = 1_000_000;
/// Users whose records are written together at first.
const AT_ONCE: u64 = 100_000;
const ANCHOR: NodeId = NodeId(1);

/// A site, and what goes on in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Users.
    pub users: u64,
    /// Users that move each second, by one order: all users of one station.
    pub moves: u64,
    /// Seconds of virtual time.
    pub seconds: u64,
}

/// What that costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Capacity {
    /// Users that have moved, and moves that were given up.
    pub moves: [u64; 2],
    /// Seconds of virtual time that took.
    pub seconds: f64,
    /// Transactions of etcd meanwhile.
    pub transactions: u64,
    /// Octets that they wrote.
    pub octets: u64,
    /// Most keys, and most octets of keys and values, without history.
    pub keys: usize,
    /// See `keys`.
    pub octets_kept: usize,
    /// Time of this machine until a new leader had read all records.
    pub recovery: Duration,
}

/// Lets a site run.
///
/// # Errors
/// What the controller says.
pub fn measure(load: Load) -> Result<Capacity, JournalError> {
    let site = Arc::new(Site::default());
    let clock = Clock::set_by(site.now.clone(), Duration::from_secs(1_700_000_000));
    let stations = (load.users / load.moves.max(1)).clamp(2, 4000) as u32;
    fill(&site, &clock, load.users, stations)?;
    let before = site.model().cost();
    let (leadership, began) = (site.clone().lead(&clock)?, Instant::now());
    let store = open(&leadership)?;
    let (journal, recovered) = Journal::in_store(Box::new(store))?;
    let recovery = began.elapsed();
    let configuration = Arc::new(configuration(stations)?);
    let members = Members::new(&configuration);
    let waiting: Arc<AtomicUsize> = Arc::default();
    let network: Arc<dyn Network> = site.clone();
    let around = Surroundings { network, clock: clock.clone(), waiting: waiting.clone() };
    let mut engine = Engine::new(configuration, members, journal, &recovered, around);
    drop(recovered);
    let run = Run { site: &site, clock: &clock, waiting: &waiting, stations };
    let counted = run.moves(&mut engine, load)?;
    let cost = site.model().cost();
    Ok(Capacity {
        moves: counted,
        seconds: site.time() as f64 / SECOND as f64,
        transactions: cost.transactions - before.transactions,
        octets: cost.octets - before.octets,
        keys: cost.most_keys,
        octets_kept: cost.most_octets,
        recovery,
    })
}

/// Writes a record for each user. Users of a station are anywhere among all users.
fn fill(site: &Arc<Site>, clock: &Clock, users: u64, stations: u32) -> Result<(), JournalError> {
    let leadership = site.clone().lead(clock)?;
    let (mut journal, _) = Journal::in_store(Box::new(open(&leadership)?))?;
    let mut first = 1;
    while first <= users {
        let entries: Vec<_> = (first..=users.min(first + AT_ONCE - 1))
            .map(|user| {
                let node = station_of(user, stations);
                let owner = Leg { node, incarnation: Incarnation(1), epoch: Epoch(user) };
                let intent = Intent::Settled;
                let record = Record { anchor: ANCHOR, owner: Some(owner), intent };
                Entry::Record(User(user), Some(record))
            })
            .collect();
        journal.append(&entries, Epoch(users + 1))?;
        let mut model = site.model();
        let revision = model.revision();
        model.compact(revision);
        first += AT_ONCE;
    }
    drop(journal);
    leadership.resign();
    site.now.store(0, Ordering::Relaxed);
    Ok(())
}

/// Anywhere, by the multiplicative hash of Knuth.
fn station_of(user: u64, stations: u32) -> NodeId {
    let mixed = user.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    NodeId(2 + (mixed % u64::from(stations)) as u32)
}

fn owner() -> Owner {
    Owner { role: Role::Controller, name: "capacity".to_owned() }
}

fn open(leadership: &Leadership) -> Result<EtcdStore, JournalError> {
    Ok(EtcdStore::open(leadership.clone(), &owner(), Arc::new(AtomicBool::new(false)))?)
}

fn configuration(stations: u32) -> Result<Configuration, JournalError> {
    let nodes: String = (1..stations + 2)
        .map(|number| format!("  n{number}: {{number: {number}, address: '192.0.2.1:{number}'}}\n"))
        .collect();
    let text = format!(
        "apiVersion: weft/v1\nkind: Controller\nmetadata: {{name: capacity}}\n\
         listen: 127.0.0.1:0\ntokenFile: token\n\
         etcd: {{endpoints: ['http://127.0.0.1:2379']}}\nreplica: {{name: r}}\nnodes:\n{nodes}"
    );
    Configuration::read(&text, "capacity").map_err(|mistakes| {
        let reason = mistakes.0.first().map_or_else(String::new, ToString::to_string);
        let place = "the configuration".to_owned();
        JournalError::Store(weft_state::StateError::Remote { place, reason })
    })
}

struct Run<'a> {
    site: &'a Arc<Site>,
    clock: &'a Clock,
    waiting: &'a AtomicUsize,
    stations: u32,
}

impl Run<'_> {
    /// Each second all users of one station go to the last one.
    fn moves(&self, engine: &mut Engine, load: Load) -> Result<[u64; 2], JournalError> {
        let connected = (1..self.stations + 2).map(|node| Arrived::Connected(NodeId(node)));
        self.round(engine, connected.map(Input::Arrived).collect())?;
        // All nodes have said hello.
        while let Some(inputs) = self.site.next_answers() {
            self.round(engine, inputs)?;
        }
        let mut numbers = Vec::new();
        for second in 0..load.seconds {
            // The last station takes the users of all others.
            let to = NodeId(self.stations + 1);
            let from = NodeId(2 + (second % u64::from(self.stations - 1)) as u32);
            let (say, said) = channel();
            let order = move |engine: &mut Engine| -> Answer {
                let ordered = engine.hand_over(Ways::AllFrom(from), to);
                Box::new(move || _ = say.send(ordered.map(|order| order.number)))
            };
            self.round(engine, vec![Input::Ask(Box::new(order))])?;
            numbers.extend(said.try_iter().flatten());
            let end = (second + 1) * SECOND;
            loop {
                let answers = self.site.next_answers_before(end);
                let own = engine.next().map(|at| at.saturating_duration_since(self.clock.now()));
                let is_due = own.is_some_and(|own| own.as_micros() as u64 + self.site.time() < end);
                match (answers, own) {
                    (Some(inputs), _) => self.round(engine, inputs)?,
                    (None, Some(own)) if is_due => {
                        self.site.pass(own.as_micros() as u64 + 1);
                        self.round(engine, Vec::new())?;
                    }
                    _ => break,
                }
            }
            self.site.pass_until(end);
            let mut model = self.site.model();
            let revision = model.revision();
            model.compact(revision);
        }
        let orders = numbers.iter().filter_map(|number| engine.order(*number));
        let counted = orders.fold([0, 0], |[moved, not], order| {
            [moved + order.moved as u64, not + (order.aborted + order.refused) as u64]
        });
        Ok(counted)
    }

    fn round(&self, engine: &mut Engine, inputs: Vec<Input>) -> Result<(), JournalError> {
        self.waiting.fetch_add(inputs.len(), Ordering::Relaxed);
        engine.round(inputs.into_iter()).map(drop)
    }
}

/// etcd, and nodes that answer.
#[derive(Default)]
struct Site {
    now: Arc<AtomicU64>,
    model: Mutex<Model>,
    answers: Mutex<VecDeque<(u64, Envelope)>>,
}

impl Site {
    fn lead(self: Arc<Site>, clock: &Clock) -> Result<Leadership, JournalError> {
        let etcd = Remote { site: self, clock: clock.clone() };
        let candidate = Candidate { name: "r".to_owned(), address: String::new() };
        let election = Election::new(Arc::new(etcd), candidate, Duration::from_secs(1 << 30));
        let led = election.campaign(&AtomicBool::new(false), |_, _| {});
        let none = || weft_state::StateError::Deposed("the model of etcd".to_owned());
        led.ok_or_else(|| none().into())
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn time(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    fn pass(&self, time: u64) {
        self.now.fetch_add(time, Ordering::Relaxed);
    }

    fn pass_until(&self, time: u64) {
        self.now.fetch_max(time, Ordering::Relaxed);
    }

    fn next_answers(&self) -> Option<Vec<Input>> {
        self.next_answers_before(u64::MAX)
    }

    /// All answers that have come by the time of the next one.
    fn next_answers_before(&self, end: u64) -> Option<Vec<Input>> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let first = answers.front().map(|(at, _)| *at).filter(|at| *at < end)?;
        self.pass_until(first);
        let mut inputs = Vec::new();
        while let Some((at, _)) = answers.front()
            && *at <= self.time()
            && let Some((_, envelope)) = answers.pop_front()
        {
            inputs.push(Input::Arrived(Arrived::Message(envelope)));
        }
        Some(inputs)
    }

    fn answer(&self, from: NodeId, message: Message) {
        let envelope = Envelope {
            from,
            from_incarnation: Incarnation(1),
            to: NodeId::CONTROLLER,
            to_incarnation: Incarnation(0),
            message,
        };
        let at = self.time() + ROUND_TRIP;
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.push_back((at, envelope));
    }
}

impl Network for Site {
    /// A node answers.
    fn send(&self, envelope: Envelope) {
        let Envelope { to, message, .. } = envelope;
        let (user, epoch, step) = match message {
            Message::Probe => return self.answer(to, Message::Hello),
            Message::Handover { user, epoch, step } => (user, epoch, step),
            _ => return,
        };
        let say = |from, step| self.answer(from, Message::Handover { user, epoch, step });
        match step {
            Step::Prepare { .. } => say(to, Step::Prepared),
            Step::Route { stage, .. } => say(to, Step::Routed(stage)),
            Step::Move { target } => {
                say(to, Step::Moved);
                say(target.node, Step::Imported);
            }
            Step::Release => say(to, Step::Released),
            Step::Complete => say(to, Step::Completed),
            _ => {}
        }
    }

    fn note(&self, _node: NodeId, _note: &Note) -> bool {
        true
    }

    fn place(&self, _place: PeerAddress) {}

    fn displace(&self, _node: NodeId) {}

    fn is_connected(&self, _node: NodeId) -> bool {
        true
    }

    fn last_heard(&self, _node: NodeId) -> Option<Duration> {
        None
    }

    fn statistics(&self) -> Statistics {
        Statistics::default()
    }
}

/// The model, as a replica reaches it.
struct Remote {
    site: Arc<Site>,
    clock: Clock,
}

impl Etcd for Remote {
    fn prefix(&self) -> &str {
        "/weft/capacity/"
    }

    fn transact(
        &self,
        fences: Vec<Fence>,
        operations: Vec<Operation>,
    ) -> Result<Carried, EtcdError> {
        let octets = |operation: &Operation| match operation {
            Operation::Put { value, .. } => value.len() as u64,
            _ => 0,
        };
        let octets: u64 = operations.iter().map(octets).sum();
        self.site.pass(TRANSACTION + octets / OCTETS_A_MICROSECOND);
        self.site.model().transact(&fences, &operations)
    }

    fn range(&self, range: Range) -> Result<Page, EtcdError> {
        self.site.model().range(&range)
    }

    fn grant(&self, lasts: Duration) -> Result<(i64, Duration), EtcdError> {
        let now = Duration::from_micros(self.site.time());
        self.site.model().grant(lasts, now).map(|lease| (lease, lasts))
    }

    fn renew(&self, _lease: i64) -> Result<bool, EtcdError> {
        Ok(true)
    }

    fn revoke(&self, lease: i64) {
        self.site.model().revoke(lease);
    }

    fn wait_for_change(&self, _key: &str, _since: u64, _longest: Duration) {}

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn sleep(&self, time: Duration) {
        self.site.pass(time.as_micros() as u64);
    }

    /// Its lease lasts as long as the run.
    fn begin(&self, _work: Box<dyn FnOnce() + Send>) -> bool {
        true
    }
}
