//! A replica of the controller: it campaigns, leads with the program's own engine, and campaigns
//! again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use weft_etcd::{Candidate, Election, EtcdStore, Leadership};
use weft_mobility_controller::config::Configuration;
use weft_mobility_controller::engine::{Engine, Input, Surroundings};
use weft_mobility_controller::journal::{Journal, JournalError};
use weft_mobility_controller::members::Members;
use weft_mobility_controller::surroundings::Clock;
use weft_mobility_protocol::NodeId;
use weft_state::{Change, EachRecord, Kind, Owner, RecordStore, Records, Role, StateError};

use super::etcd::Client;
use super::links::Links;
use super::{Action, Event, SECOND, Shared, World};
use crate::processes::ProcessId;
use crate::scenario::{Mutation, Promise};

/// The lease of the leader, which is the shortest that etcd makes.
const LEASE: Duration = Duration::from_secs(2);
/// Octets and entries of the log from which on it is folded: a run is to fold often.
pub(super) const LOG: (usize, usize) = (8 << 10, 24);
/// Of how many writes one is forgotten by a store that is built wrong.
const FORGOTTEN: u64 = 10;

/// A replica.
#[derive(Default)]
pub(super) struct Replica {
    pub processes: Vec<ProcessId>,
    /// Until when it stands still.
    pub stands_until: u64,
    /// Which member of etcd it asks.
    pub member: usize,
    /// What it has while it leads.
    pub leads: Option<Leads>,
    pub is_dead: bool,
}

/// What a replica has while it leads.
pub(super) struct Leads {
    pub term: u64,
    pub leadership: Leadership,
    pub process: ProcessId,
    pub inputs: VecDeque<Input>,
    pub waiting: Arc<AtomicUsize>,
    /// Connections with nodes.
    pub links: BTreeMap<NodeId, u64>,
    /// Nodes that may come.
    pub welcome: Vec<NodeId>,
}

impl Leads {
    pub fn give(&mut self, input: Input) {
        if matches!(input, Input::Arrived(_)) {
            self.waiting.fetch_add(1, Ordering::Relaxed);
        }
        self.inputs.push_back(input);
    }
}

impl World {
    pub(super) fn begin_replica(&mut self, replica: usize) -> Action {
        self.replicas[replica].is_dead = false;
        self.note(|| format!("replica {replica} starts"));
        Action::Start(replica)
    }

    /// A replica is killed.
    pub(super) fn kill_replica(&mut self, replica: usize) -> Action {
        self.note(|| format!("replica {replica} dies"));
        self.statistics.deaths[0] += 1;
        self.replicas[replica].is_dead = true;
        self.replicas[replica].stands_until = 0;
        self.depose(replica);
        let killed = std::mem::take(&mut self.replicas[replica].processes);
        for process in &killed {
            self.waits.remove(process);
            self.forget(*process);
        }
        let at = self.random.between(200_000, 3 * SECOND);
        self.after(at, Event::Begin(replica));
        Action::Kill(killed)
    }

    /// A replica lets its nodes go.
    pub(super) fn depose(&mut self, replica: usize) {
        let Some(mut leads) = self.replicas[replica].leads.take() else { return };
        for (node, link) in std::mem::take(&mut leads.links) {
            let delay = self.random.between(200, 2000);
            self.after(delay, Event::NodeLost { node, link });
        }
    }

    /// Leaders whose leases were not renewed in time let their nodes go.
    pub(super) fn look_at_leaders(&mut self) {
        let time = self.time();
        for nth in 0..self.replicas.len() {
            let replica = &mut self.replicas[nth];
            if replica.stands_until > time {
                continue;
            }
            let Some(leads) = &mut replica.leads else { continue };
            if leads.leadership.is_over() {
                let process = leads.process;
                leads.give(Input::Stop);
                let inputs = std::mem::take(&mut leads.inputs);
                let links = leads.links.clone();
                leads.links.clear();
                leads.inputs = inputs;
                for (node, link) in links {
                    self.after(1000, Event::NodeLost { node, link });
                }
                self.notify(process);
            }
        }
    }
}

/// A store of records that may be built wrong.
struct Stored {
    store: EtcdStore,
    mutation: Option<Mutation>,
    writes: u64,
}

impl Records for Stored {
    fn each_of(&self, kind: Kind, each: &mut EachRecord<'_>) -> Result<(), StateError> {
        self.store.each_of(kind, each)
    }
}

impl RecordStore for Stored {
    fn write(&mut self, changes: &[Change]) -> Result<(), StateError> {
        self.writes += 1;
        if self.mutation == Some(Mutation::ForgetWrites) && self.writes.is_multiple_of(FORGOTTEN) {
            return Ok(());
        }
        self.store.write(changes)
    }

    fn is_current(&self) -> bool {
        self.mutation == Some(Mutation::StaleAnswers) || self.store.is_current()
    }
}

impl Shared {
    /// A replica's life.
    pub(super) fn lead(self: Arc<Shared>, replica: usize) {
        let since_1970 = Duration::from_secs(1_700_000_000);
        // Clocks of machines do not agree.
        let skew = self.lock().random.between(0, 7200 * SECOND);
        let clock = Clock::set_by(self.now.clone(), since_1970 + Duration::from_micros(skew));
        let etcd = Client { shared: self.clone(), replica, clock: clock.clone() };
        let candidate = Candidate { name: format!("r{replica}"), address: String::new() };
        let election = Election::new(Arc::new(etcd), candidate, LEASE);
        let stop: Arc<AtomicBool> = Arc::default();
        while let Some(leadership) = election.campaign(&stop, |_, _| {}) {
            let term = leadership.term();
            self.lock().note(|| format!("replica {replica} leads in term {term}"));
            self.lock().statistics.leaders += 1;
            let ended = self.work(replica, &leadership, &clock, &stop);
            let mut world = self.lock();
            world.note(|| format!("replica {replica} leads no longer"));
            world.depose(replica);
            if let Err(error) = ended
                && !error.is_deposed()
            {
                world.violated(Promise::Sound, format!("replica {replica}: {error}"));
            }
            drop(world);
            leadership.resign();
        }
    }

    fn work(
        self: &Arc<Shared>,
        replica: usize,
        leadership: &Leadership,
        clock: &Clock,
        stop: &Arc<AtomicBool>,
    ) -> Result<(), JournalError> {
        let scenario = self.lock().scenario;
        let text = configuration(&scenario);
        let configuration =
            Arc::new(Configuration::read(&text, "simulated").map_err(|mistakes| {
                let reason = mistakes.0.first().map_or_else(String::new, ToString::to_string);
                StateError::Remote { place: "the configuration".to_owned(), reason }
            })?);
        let owner = Owner { role: Role::Controller, name: configuration.name.clone() };
        let store = EtcdStore::open(leadership.clone(), &owner, stop.clone())?;
        let store = store.with_limits(LOG.0, LOG.1);
        let store = Stored { store, mutation: scenario.mutation, writes: 0 };
        let (journal, recovered) = Journal::in_store(Box::new(store))?;
        let members = Members::new(&configuration);
        members.recover(&configuration, &recovered.members);
        let waiting: Arc<AtomicUsize> = Arc::default();
        let term = leadership.term();
        let network = Links { shared: self.clone(), replica, term };
        self.lock().replicas[replica].leads = Some(Leads {
            term,
            leadership: leadership.clone(),
            process: crate::processes::own().unwrap_or(ProcessId(0)),
            inputs: VecDeque::new(),
            waiting: waiting.clone(),
            links: BTreeMap::new(),
            welcome: members.all().into_iter().map(|member| member.number).collect(),
        });
        let around = Surroundings { network: Arc::new(network), clock: clock.clone(), waiting };
        let mut engine = Engine::new(configuration, members, journal, &recovered, around);
        let mut watcher = engine.watch();
        loop {
            let inputs = self.inputs(replica, &engine, clock);
            if !engine.round(inputs.into_iter())? {
                return Ok(());
            }
            while let Ok(happening) = watcher.try_recv() {
                self.lock().happened(&happening);
            }
        }
    }

    /// Waits for inputs, or until the engine has something to do.
    fn inputs(&self, replica: usize, engine: &Engine, clock: &Clock) -> VecDeque<Input> {
        loop {
            let left = engine.next().map(|at| at.saturating_duration_since(clock.now()));
            let mut world = self.lock();
            let taken = world.replicas[replica].leads.as_mut();
            let taken = taken.map(|leads| std::mem::take(&mut leads.inputs));
            drop(world);
            // It was deposed.
            let Some(taken) = taken else { return VecDeque::from([Input::Stop]) };
            if !taken.is_empty() || left.is_some_and(|left| left.is_zero()) {
                return taken;
            }
            let left = left.map_or(10 * SECOND, |left| left.as_micros() as u64 + 1);
            self.wait_until(self.time() + left.min(10 * SECOND));
        }
    }
}

/// The configuration of all replicas: the anchor and the first station are in the file, and all
/// other stations register.
fn configuration(scenario: &crate::Scenario) -> String {
    format!(
        "apiVersion: weft/v1\nkind: Controller\nmetadata: {{name: simulated}}\n\
         listen: 127.0.0.1:0\ntokenFile: token\nwindow: 4\n\
         etcd: {{endpoints: ['http://127.0.0.1:2379']}}\nreplica: {{name: r}}\n\
         membership: {{lease: 10, adopt: true}}\n\
         nodes:\n  n1: {{number: 1, address: '192.0.2.1:1'}}\n  \
         n2: {{number: 2, address: '192.0.2.2:1'}}\n  \
         n101: {{number: 101, address: '192.0.2.101:1'}}\n  \
         n102: {{number: 102, address: '192.0.2.102:1', standbyFor: n101}}\n\
         users: [{{first: 1, count: {}, anchor: n1, node: n2}}]\n",
        scenario.users
    )
}
