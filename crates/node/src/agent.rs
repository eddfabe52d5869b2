//! The agent: everything of a node that is not on the way of a packet.
//!
//! It runs in a thread of its own, some hundred times a second: it answers
//! requests, passes commands to the workers and takes back what they are done
//! with, gives ARP, neighbour discovery and ICMP what they are owed, and watches
//! the ports.

mod answers;
mod change;
mod commands;
mod configuration;
mod contexts;
mod gtpu_peers;
mod parts;
mod provisioning;
mod restore;
pub mod show;
mod state;
mod steering;
mod transfer;
mod upgrade;

use std::any::Any;
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use weft_dataplane::clock::Clock;
use weft_dataplane::clock::rate_limit::RateLimit;
use weft_dataplane::command::Waker;
use weft_dataplane::command::{Command, Configure, Report};
use weft_dpdk::{Batch, Pool};

pub use self::answers::Watching;
pub use self::change::{Changed, Wanted};
pub(crate) use self::configuration::Configuration;
use self::contexts::FunctionContexts;
pub use self::contexts::usage;
pub(crate) use self::restore::follow::change_functions;
pub(crate) use self::restore::{Followed, ReadAhead};
pub use self::show::paths;
pub(crate) use self::state::{
    Keeping, Persistence, configured, folder_of, late_functions, restore_compositions,
};
pub use self::state::{Lease, StandbyView, StateView};
pub(crate) use self::upgrade::{
    FORMAT, Piece, Prepared, check_functions, check_places, has_vf, named_slots, part_in_moves,
    position, take_neighbours, versions,
};
pub use self::upgrade::{
    Offer, OfferedFunction, OfferedNeighbour, OfferedShare, SharedAddresses, SharedInterface,
};
use crate::bearer::{Event, Listeners, Subscribers};
use crate::functions::Functions;
use crate::gtpu_peers::GtpuPeers;
use crate::migration::Migration;
use crate::mobility::{Done, Mobility, Told};
use crate::ports::redirection::Redirection;
use crate::ports::{Means, Ports};
use crate::workers::Workers;

/// A question to the agent, asked in its own thread.
pub type Request = Box<dyn FnOnce(&mut Agent) + Send>;

/// The agent of one node.
pub struct Agent {
    pub(crate) configuration: Configuration,
    pub(crate) subscribers: Subscribers,
    pub(crate) workers: Workers,
    pub(crate) functions: Functions,
    pub(crate) ports: Ports,
    pub(crate) redirection: Redirection,
    pub(crate) gtpu_peers: GtpuPeers,
    /// Users and functions that move just now.
    pub(crate) migration: Migration,
    /// The node's part in moving users.
    pub(crate) mobility: Option<Box<Mobility>>,
    pub(crate) listeners: Listeners,
    pub(crate) persistence: Persistence,
    pub(crate) pool: Pool,
    /// Where packets of the node's own come from.
    pub(crate) answers: Pool,
    pub(crate) clock: Clock,
    /// When the node started, in seconds since 1970.
    pub(crate) started: u64,
    pub(crate) requests: Receiver<Request>,
    /// Ends its pause.
    pub(crate) waker: Waker,
    pub(crate) next_tap: u64,
    pub(crate) last_look: u64,
    /// Says when a panic may be logged: a function may panic for every packet.
    pub(crate) panic_warnings: RateLimit,
}

/// One panic a second is logged.
pub(crate) const PANIC_WARNINGS: RateLimit = RateLimit::new(NonZeroU32::MIN, NonZeroU32::MIN);

/// How often ports and neighbours are looked after, in nanoseconds.
const LOOK_EVERY: u64 = 100_000_000;

/// Packets that are taken from each ring of one worker at once.
const PUNTS: usize = 32;

impl Agent {
    /// Notes the tunnels of the configuration, before the first round.
    pub(crate) fn note_first_tunnels(&mut self) {
        let (paths, now) = (&mut self.gtpu_peers.paths, self.clock.now());
        let trials = &self.configuration.trials;
        self.subscribers.note_tunnels(trials, paths, HashMap::new(), now);
    }

    /// One round; returns whether there was anything to do.
    pub fn poll(&mut self) -> bool {
        let mut busy = false;
        // What is asked while contexts are being read is answered as if all had been there.
        while !self.persistence.is_loading()
            && let Ok(request) = self.requests.try_recv()
        {
            request(self);
            busy = true;
        }
        if self.persistence.is_away() {
            return busy;
        }
        busy |= self.load();
        for worker in 0..self.workers.count() {
            busy |= self.take_reports(worker);
            busy |= self.take_packets(worker);
            busy |= self.workers[worker].push_on();
        }
        busy |= self.keep_flow_rules();
        busy |= self.transfers().take_contexts();
        busy |= self.reconfiguration().look_after_relocation();
        // What is said while another process may have the node is heard by that, or later.
        if !self.persistence.is_given_away()
            && !self.persistence.is_loading()
            && let Some((mobility, mut host)) = self.handover()
        {
            busy |= mobility.work(&mut host);
        }
        let now = self.clock.now();
        busy |= self.subscribers.sessions.look_after(&mut self.workers, now);
        if now.wrapping_sub(self.last_look) >= LOOK_EVERY {
            self.last_look = now;
            let Agent { ports, workers, answers: pool, .. } = &mut *self;
            let news = ports.look_after(now, &mut Means { workers, pool });
            for (port, state) in news {
                self.listeners.tell(&Event::PortChanged { port, state, time: now });
            }
            self.peer_signals().look_after(now);
            self.reconfiguration().look_after_split(now);
            self.workers.look_after_loads(now);
            if !self.persistence.is_given_away() {
                self.redirection.look_after(now, &self.ports, &mut self.workers);
            }
            self.persistence.look_after_upgrade(&self.configuration.blueprint, &self.subscribers);
            let Agent { persistence, ports, workers, answers: pool, .. } = &mut *self;
            if let Some(standby) = &mut persistence.standby {
                standby.announce(ports, &mut Means { workers, pool });
            }
        }
        let is_moving = self.migration.has_function() || self.persistence.is_loading();
        let Agent { configuration, subscribers, workers, persistence, .. } = &mut *self;
        let Configuration { blueprint, trials, .. } = configuration;
        let mut contexts = FunctionContexts { blueprint, trials, subscribers, workers };
        busy | persistence.write(&mut contexts, is_moving, now)
    }

    /// Goes on with contexts that are still being read; whether there was anything to do.
    fn load(&mut self) -> bool {
        let Agent { configuration, subscribers, workers, persistence, .. } = self;
        let Configuration { blueprint, trials, .. } = configuration;
        persistence.load(&mut state::loading::Means { blueprint, trials, subscribers, workers })
    }

    fn take_reports(&mut self, worker: usize) -> bool {
        let mut busy = false;
        while let Ok(report) = self.workers[worker].reports.pop() {
            busy = true;
            match report {
                Report::Replaced(old) => drop(old),
                Report::UsersDone(mut changes) => {
                    self.workers.note_changed(changes.len());
                    let now = self.clock.now();
                    self.subscribers.sessions.take_answers(worker, &mut changes, now);
                    drop(changes);
                }
                Report::Configured(Configure { .. }) => {}
                Report::TapRemoved(tap) => drop(tap),
                Report::ContextReset { function, slot } => self.configure_again(&function, slot),
                Report::Ordered(order) => self.note_done(Done::Ordered(order.user)),
                Report::Held(slot, way) => self.note_done(Done::Told(slot, Told::Held(way))),
                Report::EndMarker(slot, marker) => {
                    self.note_done(Done::Told(slot, Told::EndMarker(marker)));
                }
                Report::Drained(number) => self.note_done(Done::Drained(number)),
                Report::Redirected(number) => {
                    let now = self.clock.now();
                    self.redirection.note(number, now, &mut self.ports, &mut self.workers);
                }
                Report::Lifted(instance) => self.migration.take_lifted(worker, instance),
                Report::TakenOut(extract) => self.transfers().taken_out(*extract),
                Report::TakenIn(intake) => self.transfers().taken_in(&intake),
                Report::OfFunction { function, slot, code } => {
                    if let Some(number) = self.functions.number(&function) {
                        let now = self.clock.now();
                        self.subscribers.sessions.hear(number as u16, slot, code, now);
                    }
                }
                Report::DownlinkData(slot) => self.tell_downlink_data(slot),
                Report::Wanted(slot) => self.persistence.want(slot, &self.subscribers),
                Report::Resolve { port, address } => {
                    let now = self.clock.now();
                    let Agent { ports, workers, answers: pool, .. } = &mut *self;
                    ports.resolve(port, address, now, &mut Means { workers, pool });
                }
            }
        }
        busy
    }

    /// What bearers tell from now on, until the receiver is dropped. One that does
    /// not keep up misses events.
    pub fn listen(&mut self) -> Receiver<Event> {
        self.listeners.add()
    }

    fn tell_downlink_data(&mut self, slot: u32) {
        // The bearer may have become active, or gone, in the meantime.
        let Some(bearer) = self.subscribers.bearers.told(slot) else { return };
        self.listeners.tell(&Event::DownlinkData { bearer, time: self.clock.now() });
    }

    /// Gives a context that was reset after a panic its settings again.
    fn configure_again(&mut self, function: &str, slot: u32) {
        if self.panic_warnings.take(self.clock.now()) {
            tracing::warn!(function, slot, "function panicked; the user's context was reset");
        }
        let Some(number) = self.functions.number(function) else { return };
        let settings: Vec<_> = self
            .subscribers
            .settings_of(number)
            .filter(|configure| configure.slot == slot)
            .collect();
        for configure in settings {
            self.workers.send_to_owner(slot, Command::Configure(configure));
        }
    }

    fn take_packets(&mut self, worker: usize) -> bool {
        let mut batch = Batch::new();
        let link = &mut self.workers[worker];
        // Where packets go depends on neighbours: their messages are heard first.
        let mut count = link.neighbours.receive(&mut batch, PUNTS);
        count += link.punts.receive(&mut batch, PUNTS);
        let now = self.clock.now();
        for packet in batch.drain() {
            let Some((port, heard)) = self.ports.receive(packet, now) else { continue };
            if let Some(heard) = heard {
                self.peer_signals().hear(port, &heard);
            }
            let Agent { ports, workers, answers: pool, .. } = &mut *self;
            ports.send(port, &mut Means { workers, pool });
        }
        count > 0
    }

    fn note_done(&mut self, done: Done) {
        if let Some(mobility) = &mut self.mobility {
            mobility.note(done);
        }
    }
}

/// An answer of any type. All of them go through channels of one type, so that the compiler
/// makes the code of one.
#[derive(Debug)]
pub struct Answer(Box<dyn Any + Send>);

impl Answer {
    /// That of a question.
    pub fn of<T: Send + 'static>(answer: T) -> Answer {
        Answer(Box::new(answer))
    }

    /// What was answered, which is of the question's type.
    ///
    /// # Errors
    /// When it is of another.
    pub fn take<T: 'static>(self) -> Result<T, Stopped> {
        self.0.downcast().map(|answer| *answer).map_err(|_| Stopped)
    }
}

/// A way to ask the agent, from any thread.
#[derive(Clone, Debug)]
pub struct Handle {
    requests: Sender<Request>,
    waker: Waker,
}

/// The node has stopped and answers nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node has stopped")]
pub struct Stopped;

impl Handle {
    pub(crate) fn new(requests: Sender<Request>, waker: Waker) -> Handle {
        Handle { requests, waker }
    }

    /// Asks `question` in the agent's thread and waits for the answer.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Agent) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (answer, wait) = channel::<Answer>();
        self.tell(move |agent| {
            // The client that asked may have gone.
            let _ = answer.send(Answer::of(question(agent)));
        })?;
        wait.recv().map_err(|_| Stopped)?.take()
    }

    /// The same for what changes something: waits until that is durable, too, where the node
    /// keeps what commands set. The second half of the answer says why it is not, where the
    /// disk refuses.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn ask_durable<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Agent) -> T + Send + 'static,
    ) -> Result<(T, Result<(), Arc<str>>), Stopped> {
        let (answer, wait) = channel::<(Answer, Result<(), Arc<str>>)>();
        self.tell(move |agent| {
            let value = Answer::of(question(agent));
            // The client that asked may have gone.
            agent.persistence.when_durable(Box::new(move |kept| drop(answer.send((value, kept)))));
        })?;
        let (value, kept) = wait.recv().map_err(|_| Stopped)?;
        Ok((value.take()?, kept))
    }

    /// Tells the agent to do something, and does not wait for it.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn tell(&self, order: impl FnOnce(&mut Agent) + Send + 'static) -> Result<(), Stopped> {
        self.requests.send(Box::new(order)).map_err(|_| Stopped)?;
        self.waker.wake();
        Ok(())
    }
}
