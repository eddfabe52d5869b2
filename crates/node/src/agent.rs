//! The agent: everything of a node that is not on the way of a packet.
//!
//! It runs in a thread of its own, some hundred times a second: it answers
//! requests, passes commands to the workers and takes back what they are done
//! with, gives ARP, neighbour discovery and ICMP what they are owed, and watches
//! the ports.

mod answers;
mod bearers;
mod change;
mod compose;
mod contexts;
mod gtpu_peers;
mod mobility;
mod relocate;
mod sessions;
pub mod show;
mod state;
mod topology;
mod transfer;
mod users;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use weft_dataplane::clock::Clock;
use weft_dataplane::clock::rate_limit::RateLimit;
use weft_dataplane::command::Waker;
use weft_dataplane::command::{Command, Configure, Report};
use weft_dpdk::{Batch, Pool};
use weft_fusion::{Compiled, FusedPlan};
use weft_node_config::Blueprint;
use weft_rules::Condition;

pub use self::answers::{Watching, paths};
pub use self::change::Changed;
pub use self::compose::Wanted;
pub(crate) use self::state::{
    Configured, FORMAT, Keeping, Prepared, Standby, State, Upgrade, check_functions, configured,
    folder_of, position, restore_compositions, versions,
};
pub use self::state::{Lease, StandbyView, StateView};
pub use self::state::{Offer, OfferedFunction, OfferedNeighbour};
pub use self::users::usage;
use crate::bearer::{Event, Listeners, Subscribers};
use crate::functions::Functions;
use crate::gtpu_peers::GtpuPeers;
use crate::migration::Migration;
use crate::mobility::{Done, Mobility, Told};
use crate::plan::{Classes, Trials};
use crate::ports::{Means, Ports};
use crate::workers::Workers;

/// A question to the agent, asked in its own thread.
pub type Request = Box<dyn FnOnce(&mut Agent) + Send>;

/// The agent of one node.
pub struct Agent {
    pub(crate) blueprint: Blueprint,
    pub(crate) classes: Classes,
    pub(crate) profiles: Vec<Vec<Condition>>,
    /// Checks settings that commands give.
    pub(crate) trials: Trials,
    /// What is fused, and the machine code in use.
    pub(crate) fused: Option<Arc<FusedPlan>>,
    pub(crate) compiled: Compiled,
    pub(crate) subscribers: Subscribers,
    pub(crate) workers: Workers,
    pub(crate) functions: Functions,
    pub(crate) ports: Ports,
    pub(crate) gtpu_peers: GtpuPeers,
    /// Users and functions that move just now.
    pub(crate) migration: Migration,
    /// The node's part in moving users.
    pub(crate) mobility: Option<Box<Mobility>>,
    pub(crate) listeners: Listeners,
    /// What outlives the node.
    pub(crate) state: Option<Box<State>>,
    /// What the configuration says of compositions.
    pub(crate) configured: Configured,
    /// Another node stands by.
    pub(crate) standby: Option<Box<Standby>>,
    /// Another process takes the node over.
    pub(crate) upgrade: Option<Upgrade>,
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
    /// One round; returns whether there was anything to do.
    pub fn poll(&mut self) -> bool {
        let mut busy = false;
        while let Ok(request) = self.requests.try_recv() {
            request(self);
            busy = true;
        }
        if self.is_away() {
            return busy;
        }
        for worker in 0..self.workers.count() {
            busy |= self.take_reports(worker);
            busy |= self.take_packets(worker);
            busy |= self.workers[worker].push_on();
        }
        busy |= self.take_contexts();
        busy |= self.look_after_relocation();
        busy |= self.look_after_handover();
        busy |= self.look_after_sessions();
        let now = self.clock.now();
        if now.wrapping_sub(self.last_look) >= LOOK_EVERY {
            self.last_look = now;
            let Agent { ports, workers, answers: pool, .. } = &mut *self;
            ports.look_after(now, &mut Means { workers, pool });
            self.look_after_paths(now);
            self.look_after_split(now);
            self.look_after_upgrade();
            self.announce();
        }
        busy | self.write_state(now)
    }

    fn take_reports(&mut self, worker: usize) -> bool {
        let mut busy = false;
        while let Ok(report) = self.workers[worker].reports.pop() {
            busy = true;
            match report {
                Report::Replaced(old) => drop(old),
                Report::UsersDone(mut changes) => {
                    self.workers.note_changed(changes.len());
                    self.take_answers(worker, &mut changes);
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
                Report::Lifted(instance) => self.migration.take_lifted(worker, instance),
                Report::TakenOut(extract) => self.taken_out(*extract),
                Report::TakenIn(intake) => self.taken_in(&intake),
                Report::OfFunction { function, slot, code } => {
                    self.hear_function(&function, slot, code);
                }
                Report::DownlinkData(slot) => self.tell_downlink_data(slot),
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
                self.hear(port, &heard);
            }
            self.send_of_port(port);
        }
        count > 0
    }

    /// Sends what a port wants to have sent.
    pub(crate) fn send_of_port(&mut self, port: u16) {
        let Agent { ports, workers, answers: pool, .. } = self;
        ports.send(port, &mut Means { workers, pool });
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
        let (answer, wait) = std::sync::mpsc::channel();
        let request = Box::new(move |agent: &mut Agent| {
            // The client that asked may have gone.
            let _ = answer.send(question(agent));
        });
        self.requests.send(request).map_err(|_| Stopped)?;
        self.waker.wake();
        wait.recv().map_err(|_| Stopped)
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
        let (answer, wait) = std::sync::mpsc::channel();
        let request = Box::new(move |agent: &mut Agent| {
            let value = question(agent);
            // The client that asked may have gone.
            agent.when_durable(Box::new(move |kept| drop(answer.send((value, kept)))));
        });
        self.requests.send(request).map_err(|_| Stopped)?;
        self.waker.wake();
        wait.recv().map_err(|_| Stopped)
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
