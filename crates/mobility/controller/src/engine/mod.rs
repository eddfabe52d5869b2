//! The thread that has the machine: inputs in, outputs carried out.
//!
//! Inputs are taken many at a time. What they make the machine ask for is done at
//! once, but for records, which are gathered and made durable together; only then
//! the machine is told of them, and the moves that waited for that go on.

mod balance;
mod desired;
mod drain;
mod events;
mod inputs;
mod load;
mod membership;
mod n4;
mod orders;
mod pairs;
mod seeds;
mod upgrade;
mod view;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use weft_mobility_protocol::controller::{Intent, Notice};
use weft_mobility_protocol::{
    Controller, Envelope, Message, NodeId, Output, Settings, Timers, User,
};
use weft_mobility_transport::{Event, PeerAddress};
use weft_state::Change;

use crate::config::Configuration;
use crate::journal::{Cordon, Entry, Gone, Journal, JournalError, Recovered};
use crate::members::Members;
use crate::n4::N4Records;
use crate::pair::Pair;
use crate::surroundings::{Clock, Network};

pub use balance::{Levelling, Measure};
pub use desired::{Outcome, Standing as SiteStanding};
pub use events::{Happening, Watcher};
pub use inputs::{Answer, Handle, Input, Question, Stopped};
pub use load::NodeLoad;
pub use membership::NotRemoved;
pub use n4::{NotAsked, NotBehind, NotMoved};
pub use orders::{Order, OrderError, Ways};
pub use pairs::PairView;
pub use upgrade::NotBegun;
pub use view::{NodeView, UserView};

use balance::Balance;
use desired::Desired;
use events::Events;
use load::Loads;
use membership::Leases;
use n4::{Asking, Behind, Shares};
use orders::Orders;
use seeds::Seeds;
use upgrade::Upgrading;

/// Inputs that are taken before records are made durable.
const BATCH: usize = 4096;

/// How long records wait for others at most, where each transaction goes to etcd.
const GATHER: Duration = Duration::from_millis(500);
/// Records that do not wait for others.
const MANY: usize = 8192;

/// What an engine works in.
pub struct Surroundings {
    /// Connections with nodes.
    pub network: Arc<dyn Network>,
    /// What it tells the time by.
    pub clock: Clock,
    /// Inputs that have arrived and were not taken: counted up by who gives them.
    pub waiting: Arc<AtomicUsize>,
}

impl std::fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").field("clock", &self.clock).finish_non_exhaustive()
    }
}

/// The machine and all that it needs.
pub struct Engine {
    configuration: Arc<Configuration>,
    machine: Controller,
    journal: Journal,
    transport: Arc<dyn Network>,
    clock: Clock,
    timers: Timers<Instant>,
    orders: Orders,
    seeds: Seeds,
    /// Nodes that take no further users.
    cordoned: BTreeMap<NodeId, Cordon>,
    /// Nodes of which one stands by the other.
    pairs: Vec<Pair>,
    /// Nodes that have said they are of a pair, and are of none.
    unpaired: BTreeSet<NodeId>,
    members: Members,
    leases: Leases,
    loads: Loads,
    /// Whether users of a node are adopted when its lease ends.
    adopts: bool,
    desired: Desired,
    balance: Balance,
    upgrading: Upgrading,
    n4: N4Records,
    /// Nodes behind N4 that have registered.
    behind: Behind,
    shares: Shares,
    /// What nodes are asked.
    asking: Asking,
    /// Nodes that are welcome once their registration is durable.
    joining: Vec<PeerAddress>,
    /// Names of nodes that could not register.
    unfit: HashSet<String>,
    events: Events,
    counters: BTreeMap<&'static str, u64>,
    /// Entries that are not durable yet.
    unwritten: Vec<Entry>,
    /// Something waits for one of them.
    presses: bool,
    /// When they are to become durable at the latest.
    latest: Option<Instant>,
    /// Other records that are not.
    changes: Vec<Change>,
    /// Answers that wait for that.
    answers: Vec<Answer>,
    /// Inputs that have arrived and were not taken.
    waiting: Arc<AtomicUsize>,
}

impl Engine {
    /// Goes on where the journal ends.
    pub fn new(
        configuration: Arc<Configuration>,
        members: Members,
        journal: Journal,
        recovered: &Recovered,
        around: Surroundings,
    ) -> Engine {
        let Surroundings { network: transport, clock, waiting } = around;
        let now = clock.now();
        let orders = Orders::new(&recovered.orders, clock.since_1970());
        let settings = Settings { window: configuration.window, ..Settings::default() };
        let known = |(user, record): (&User, &Option<_>)| Some((*user, (*record)?));
        let records = recovered.records.iter().filter_map(known);
        let mut out = Vec::new();
        let machine = Controller::new(settings, records, recovered.next_epoch, &mut out);
        let membership = configuration.membership;
        let lease = membership.map(|membership| membership.lease);
        let mut engine = Engine {
            leases: Leases::new(lease, &members, now),
            loads: Loads::default(),
            adopts: membership.is_some_and(|membership| membership.adopt),
            members,
            desired: Desired::new(recovered.history.clone(), now),
            balance: Balance::new(now),
            upgrading: Upgrading::new(recovered.upgrade.clone(), &clock),
            n4: recovered.n4.clone(),
            behind: Behind::new(recovered.n4_nodes.clone(), &configuration, now),
            shares: Shares::new(recovered.shares.clone(), now),
            asking: Asking::default(),
            joining: Vec::new(),
            unfit: HashSet::new(),
            seeds: Seeds::new(&configuration.users, &recovered.records),
            pairs: pairs::recovered(&configuration, recovered, now),
            unpaired: BTreeSet::new(),
            configuration,
            machine,
            journal,
            transport,
            clock,
            timers: Timers::default(),
            orders,
            cordoned: recovered.cordoned.clone(),
            events: Events::new(),
            counters: view::nothing_counted(),
            unwritten: Vec::new(),
            presses: false,
            latest: None,
            changes: Vec::new(),
            answers: Vec::new(),
            waiting,
        };
        engine.carry_out(out);
        for (node, Gone { incarnation, successor }) in &recovered.gone {
            let (node, incarnation, successor) = (*node, *incarnation, *successor);
            engine.drive(|machine, out| machine.still_gone(node, incarnation, successor, out));
        }
        engine.look_at_orders();
        engine.forget_strangers_behind();
        engine
    }

    /// Works until it is told to stop.
    ///
    /// # Errors
    /// When records cannot be made durable.
    pub(crate) fn run(mut self, inputs: &Receiver<Input>) -> Result<(), JournalError> {
        loop {
            let next = self.next();
            let first = match next {
                None => inputs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => inputs.recv_timeout(at.saturating_duration_since(self.clock.now())),
            };
            let first = match first {
                Ok(input) => Some(input),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            if !self.round(first.into_iter().chain(inputs.try_iter().take(BATCH)))? {
                return Ok(());
            }
        }
    }

    /// Takes inputs, and does what is to be done by now; false if the engine is to stop.
    ///
    /// # Errors
    /// When records cannot be made durable.
    pub fn round(&mut self, inputs: impl Iterator<Item = Input>) -> Result<bool, JournalError> {
        for input in inputs {
            if !self.take(input) {
                self.commit()?;
                return Ok(false);
            }
        }
        let now = self.clock.now();
        while let Some(key) = self.timers.due(now) {
            self.drive(|machine, out| machine.timer(key, out));
        }
        self.expire(now);
        self.roll();
        self.rebalance(now);
        self.go_on_with_upgrade(now);
        self.go_on_with_shares(now);
        self.sow();
        if self.must_commit(now) {
            self.commit()?;
        }
        Ok(true)
    }

    /// Takes an input; false if it is the last one.
    fn take(&mut self, input: Input) -> bool {
        match input {
            Input::Stop => return false,
            Input::Arrived(event) => self.arrived(event),
            Input::Ask(question) => {
                let answer = question(self);
                self.answers.push(answer);
            }
        }
        true
    }

    /// Whether what was gathered is to become durable now. In etcd, where each write is a
    /// transaction, records wait for others as long as nothing waits for them: those of moves
    /// that have ended, and of moves before their turn.
    fn must_commit(&mut self, now: Instant) -> bool {
        let count = self.unwritten.len() + self.orders.unwritten();
        if count == 0 && self.changes.is_empty() {
            return !self.answers.is_empty();
        }
        let latest = *self.latest.get_or_insert(now + GATHER);
        self.configuration.replica().is_none()
            || self.presses
            || !self.answers.is_empty()
            || !self.changes.is_empty()
            || self.machine.is_short_of_records()
            || count >= MANY
            || latest <= now
    }

    /// Makes an entry durable with the next ones, which is at once.
    fn press(&mut self, entry: Entry) {
        self.unwritten.push(entry);
        self.presses = true;
    }

    /// When there is something to do although nothing arrives.
    pub fn next(&self) -> Option<Instant> {
        let now = self.clock.now();
        let own =
            [self.leases.next(), self.desired.next(now), self.next_look(), self.upgrading.next()];
        let own = own.into_iter().chain([self.latest, self.shares.next()]);
        self.timers.next().into_iter().chain(own.flatten()).min()
    }

    fn arrived(&mut self, event: Event) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        match event {
            Event::Message(envelope) => self.message(envelope),
            Event::Connected(node) => {
                self.leases.connected(node, true, self.clock.now());
                let name = self.name(node);
                self.desired.connected(&name, true, self.clock.now());
                self.upgrading.connected(&name, self.clock.now());
                self.tell_event(Happening::connected(name, true));
                self.ask_for_n4(node);
                self.drive(|machine, out| machine.probe(node, out));
            }
            Event::Lost(node) => {
                self.loads.forget(node);
                self.forget_for_n4(node);
                self.forget_questions(node);
                self.leases.connected(node, false, self.clock.now());
                let name = self.name(node);
                self.desired.connected(&name, false, self.clock.now());
                self.tell_event(Happening::connected(name, false));
            }
            Event::Registered(said) => self.registered(said),
            Event::Reported(node, report) => self.reported(node, report),
            Event::Loaded(node, load) => self.loads.said(node, load, self.clock.now()),
            Event::Process(node, said) => self.said_process(node, said),
            Event::Share(node, said) => self.said_share(node, said),
            Event::N4(node, said) => self.said_n4(node, &said),
            Event::Sessions(node, said) => self.said_sessions(node, said),
            // Of a node only.
            Event::Settings(..) | Event::Upgrade(_) | Event::Asked(_) => {}
        }
    }

    fn message(&mut self, envelope: Envelope) {
        if let Message::Standby(step) = &envelope.message {
            return self.claimed(envelope.from, envelope.from_incarnation, step);
        }
        let (from, hello) = (envelope.from, matches!(envelope.message, Message::Hello));
        self.drive(|machine, out| machine.message(envelope, out));
        if hello {
            self.lift_cordon_of_restarted(from);
            self.seeds.look();
            self.go_on_with_orders();
        }
    }

    /// Gives the machine an input and does what it asks for.
    fn drive(&mut self, input: impl FnOnce(&mut Controller, &mut Vec<Output>)) {
        let mut out = Vec::new();
        input(&mut self.machine, &mut out);
        self.carry_out(out);
    }

    fn carry_out(&mut self, out: Vec<Output>) {
        for output in out {
            match output {
                Output::Send(envelope) => self.transport.send(envelope),
                Output::SetTimer(key, after) => self.timers.set(key, self.clock.now() + after),
                Output::CancelTimer(key) => self.timers.cancel(key),
                Output::Persist { user, record, .. } => {
                    let is_settled = record.is_none_or(|record| record.intent == Intent::Settled);
                    self.presses |= !is_settled && !self.machine.is_before_its_turn(user);
                    self.unwritten.push(Entry::Record(user, record));
                }
                Output::Count(counter) => *self.counters.entry(counter.name()).or_default() += 1,
                Output::Tell(notice) => self.noted(notice),
                Output::Changed(user, change) => {
                    let (from, to, event) = (change.from, change.to, change.event);
                    tracing::debug!(user = user.0, from, to, event, "changed");
                }
                // Those of stations and anchors, which a controller never asks for.
                Output::Steer(..)
                | Output::SteerAnchor(..)
                | Output::Export { .. }
                | Output::Import { .. }
                | Output::Resume { .. }
                | Output::Drain { .. }
                | Output::Discard(_)
                | Output::Keep(..)
                | Output::KeepRoute(..)
                | Output::SendEndMarker { .. } => {}
            }
        }
    }

    fn noted(&mut self, notice: Notice) {
        self.seeds.noted(&notice);
        self.orders.noted(&notice);
        let happening = Happening::of(&notice, |node| self.name(node));
        self.tell_event(happening);
    }

    /// Makes what was gathered durable, and tells the machine.
    fn commit(&mut self) -> Result<(), JournalError> {
        loop {
            self.unwritten.extend(self.orders.take_entries());
            if self.unwritten.is_empty() && self.changes.is_empty() {
                break;
            }
            let written = std::mem::take(&mut self.unwritten);
            let changes = std::mem::take(&mut self.changes);
            (self.presses, self.latest) = (false, None);
            self.journal.append_with(&written, changes, self.machine.next_epoch())?;
            self.join();
            for entry in written {
                if let Entry::Record(user, Some(record)) = entry {
                    self.drive(|machine, out| machine.persisted(user, record.epoch(), out));
                }
            }
            self.sow();
        }
        if self.journal.wants_compaction() {
            let users = self.machine.users_from(User(0));
            let records = users.map(|(user, record, _)| Entry::Record(user, Some(record)));
            // Users of the configuration that were removed do not come back.
            let removed = self.seeds.removed().map(|user| Entry::Record(user, None));
            let gone = self.machine.gone().map(|(node, incarnation, successor)| {
                Entry::Gone(node, Gone { incarnation, successor })
            });
            let cordoned = self.cordoned.iter();
            let cordoned = cordoned.map(|(node, cordon)| Entry::Cordoned(*node, *cordon));
            let orders = self.orders.entries();
            let entries = records.chain(removed).chain(gone).chain(cordoned).chain(orders);
            let entries: Vec<_> = entries.chain(self.pair_entries()).collect();
            self.journal.compact(&entries, self.machine.next_epoch())?;
        }
        // Who leads no longer does not know what is true now.
        if !self.answers.is_empty() {
            self.journal.check_current()?;
        }
        self.answers.drain(..).for_each(|answer| answer());
        Ok(())
    }

    /// Lets users begin that are waiting for their nodes.
    fn sow(&mut self) {
        while let Some((user, anchor, node)) = self.seeds.next(&self.machine) {
            self.drive(|machine, out| machine.add(user, anchor, node, out));
        }
    }

    fn tell_event(&mut self, happening: Happening) {
        self.events.tell(happening, self.clock.since_1970());
    }

    fn name(&self, node: NodeId) -> String {
        self.members.name_of(node)
    }
}
