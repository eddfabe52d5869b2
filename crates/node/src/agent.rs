//! The agent: everything of a node that is not on the way of a packet.
//!
//! It runs in a thread of its own, some hundred times a second: it answers
//! requests, passes commands to the workers and takes back what they are done
//! with, gives ARP, neighbour discovery and ICMP what they are owed, and watches
//! the ports.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, sync_channel};

use rtrb::{Consumer as Inbox, Producer as Outbox};
use weft_compose::{Kind, SlotShift};
use weft_dataplane::clock::Clock;
use weft_dataplane::clock::rate_limit::RateLimit;
use weft_dataplane::command::Waker;
use weft_dataplane::command::{Command, Configure, Report};
use weft_dataplane::counters::{FunctionCounters, WorkerCounters};
use weft_dpdk::{Batch, Consumer, Pool};
use weft_fusion::{Compiled, FusedPlan};
use weft_node_config::{Blueprint, FunctionPlan};
use weft_offload::process::Supervisor;
use weft_offload::thread::ThreadPool;
use weft_rules::Condition;

use crate::assemble::Keys;
use crate::bearer::{Bearers, Event};
use crate::handover::{Done, Mobility, Told};
use crate::plan::{Classes, Trials};
use crate::ports::{Means, Ports};
use crate::relocate::{Called, Prepared, Relocation};
use crate::signalling::Signalling;
use crate::stage::Split;
use crate::transfer::{Inquiries, Transfers};
use crate::users::{Room, Users};

/// A question to the agent, asked in its own thread.
pub type Request = Box<dyn FnOnce(&mut Agent) + Send>;

/// The agent's end of what it shares with one worker.
pub struct Link {
    /// Commands to the worker.
    pub commands: Outbox<Command>,
    /// Commands that found no room yet, in order.
    pub backlog: VecDeque<Command>,
    /// Commands that wait for a function to arrive, while one moves.
    pub aside: Option<VecDeque<Command>>,
    /// Reports of the worker.
    pub reports: Inbox<Report>,
    /// Packets of the worker.
    pub punts: Consumer,
    /// What it counts.
    pub counters: Arc<WorkerCounters>,
}

impl Link {
    /// Sends a command, behind all that was sent before.
    pub fn send(&mut self, command: Command) {
        match &mut self.aside {
            Some(aside) if !command.passes() => aside.push_back(command),
            _ => self.send_first(command),
        }
    }

    /// The same, before commands that wait for a function.
    pub fn send_first(&mut self, command: Command) {
        self.backlog.push_back(command);
        self.push_on();
    }

    /// Lets commands wait that have to do with functions.
    pub fn hold(&mut self) {
        self.aside.get_or_insert_default();
    }

    /// Sends those that have waited.
    pub fn let_go(&mut self) {
        self.backlog.extend(self.aside.take().into_iter().flatten());
        self.push_on();
    }

    fn push_on(&mut self) -> bool {
        let mut any = false;
        while let Some(command) = self.backlog.pop_front() {
            match self.commands.push(command) {
                Ok(()) => any = true,
                Err(rtrb::PushError::Full(command)) => {
                    self.backlog.push_front(command);
                    break;
                }
            }
        }
        any
    }

    /// Whether the worker has taken everything that was sent.
    pub fn is_idle(&self) -> bool {
        self.backlog.is_empty()
            && self.aside.is_none()
            && self.commands.slots() == self.commands.buffer().capacity()
    }
}

/// A function as the agent knows it.
#[derive(Clone, Debug)]
pub struct FunctionEntry {
    /// Name of the instance.
    pub name: Arc<str>,
    /// What function it is.
    pub kind: Kind,
    /// What is counted for it, by worker.
    pub counters: Vec<Arc<FunctionCounters>>,
}

impl FunctionEntry {
    /// A function that has counted nothing yet.
    pub fn new(plan: &FunctionPlan, workers: usize) -> FunctionEntry {
        let fresh = || Arc::new(FunctionCounters::new(plan.kind.reasons().count()));
        FunctionEntry {
            name: plan.name.as_str().into(),
            kind: plan.kind,
            counters: (0..workers).map(|_| fresh()).collect(),
        }
    }

    /// Whether what this one has counted is counted on for `plan`.
    pub fn is_for(&self, plan: &FunctionPlan) -> bool {
        *self.name == *plan.name && self.kind.name == plan.kind.name
    }
}

/// The agent of one node.
pub struct Agent {
    pub(crate) blueprint: Blueprint,
    pub(crate) classes: Classes,
    pub(crate) profiles: Vec<Vec<Condition>>,
    pub(crate) users: Users,
    /// Bearers that commands have added.
    pub(crate) bearers: Bearers,
    /// Checks settings that commands give.
    pub(crate) trials: Trials,
    /// What is fused, and the machine code in use.
    pub(crate) fused: Option<Arc<FusedPlan>>,
    pub(crate) compiled: Compiled,
    /// The clients that listen to what bearers tell.
    pub(crate) listeners: Vec<SyncSender<Event>>,
    pub(crate) room: Room,
    /// Keys that the tables of the workers were made for.
    pub(crate) keys: Keys,
    pub(crate) shift: SlotShift,
    pub(crate) functions: Vec<FunctionEntry>,
    /// Functions that are gone: what they dropped stays counted.
    pub(crate) retired: Vec<FunctionEntry>,
    pub(crate) links: Vec<Link>,
    pub(crate) ports: Ports,
    /// Peers, and what they say in GTP-U.
    pub(crate) signalling: Signalling,
    pub(crate) pool: Pool,
    pub(crate) clock: Clock,
    pub(crate) requests: Receiver<Request>,
    /// Ends its pause.
    pub(crate) waker: Waker,
    pub(crate) next_tap: u64,
    /// Changes of users that some worker has not finished.
    pub(crate) changing: usize,
    /// How many changes those are.
    pub(crate) waiting: usize,
    pub(crate) last_look: u64,
    /// Says when a panic may be logged: a function may panic for every packet.
    pub(crate) panic_warnings: RateLimit,
    /// Users whose belongings are being taken out or in.
    pub(crate) transfers: Transfers,
    /// What processes were asked about them.
    pub(crate) inquiries: Inquiries,
    /// What is ready for functions that may go into processes, the process that is called
    /// for one, and the one that is on its way.
    pub(crate) prepared: Prepared,
    pub(crate) called: Option<Called>,
    pub(crate) relocation: Option<Box<Relocation>>,
    pub(crate) move_failure: Option<String>,
    /// The node's part in moving users.
    pub(crate) mobility: Option<Box<Mobility>>,
    /// The stages: further threads that functions stand on.
    pub(crate) threads: ThreadPool,
    /// Which functions were chosen to stand there.
    pub(crate) split: Split,
    /// Those who look after function processes.
    pub(crate) supervisors: Vec<Supervisor>,
    /// Functions at other nodes, with what each worker knows of them.
    pub(crate) remotes: Vec<(String, Vec<Arc<weft_dataplane::offload::Shared>>)>,
}

/// One panic a second is logged.
pub(crate) const PANIC_WARNINGS: RateLimit = RateLimit::new(NonZeroU32::MIN, NonZeroU32::MIN);

/// How often ports and neighbours are looked after, in nanoseconds.
const LOOK_EVERY: u64 = 100_000_000;

/// Events that wait for a listener.
const EVENTS: usize = 4096;

/// Packets that are taken from one worker at once.
const PUNTS: usize = 32;

impl Agent {
    /// One round; returns whether there was anything to do.
    pub fn poll(&mut self) -> bool {
        let mut busy = false;
        while let Ok(request) = self.requests.try_recv() {
            request(self);
            busy = true;
        }
        for worker in 0..self.links.len() {
            busy |= self.take_reports(worker);
            busy |= self.take_packets(worker);
            busy |= self.links[worker].push_on();
        }
        busy |= self.take_contexts();
        busy |= self.look_after_relocation();
        busy |= self.look_after_handover();
        let now = self.clock.now();
        if now.wrapping_sub(self.last_look) >= LOOK_EVERY {
            self.last_look = now;
            let Agent { ports, links, pool, shift, .. } = &mut *self;
            ports.look_after(now, &mut Means { links, pool, shift: *shift });
            self.look_after_paths(now);
            self.look_after_split(now);
        }
        busy
    }

    fn take_reports(&mut self, worker: usize) -> bool {
        let mut busy = false;
        while let Ok(report) = self.links[worker].reports.pop() {
            busy = true;
            match report {
                Report::Replaced(old) => drop(old),
                Report::UsersDone(changes) => {
                    self.changing -= 1;
                    self.waiting = self.waiting.saturating_sub(changes.len());
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
                Report::Lifted(instance) => self.take_lifted(worker, instance),
                Report::TakenOut(extract) => self.taken_out(*extract),
                Report::TakenIn(intake) => self.taken_in(&intake),
                Report::DownlinkData(slot) => self.tell_downlink_data(slot),
                Report::Resolve { port, address } => {
                    let now = self.clock.now();
                    let Agent { ports, links, pool, shift, .. } = &mut *self;
                    ports.resolve(port, address, now, &mut Means { links, pool, shift: *shift });
                }
            }
        }
        busy
    }

    /// What bearers tell from now on, until the receiver is dropped. One that does
    /// not keep up misses events.
    pub fn listen(&mut self) -> Receiver<Event> {
        let (tell, events) = sync_channel(EVENTS);
        self.listeners.push(tell);
        events
    }

    fn tell_downlink_data(&mut self, slot: u32) {
        // The bearer may have become active, or gone, in the meantime.
        let Some(bearer) = self.bearers.told(slot) else { return };
        self.tell(&Event::DownlinkData { bearer, time: self.clock.now() });
    }

    /// Tells the clients that listen.
    pub(crate) fn tell(&mut self, event: &Event) {
        let listens = |listener: &SyncSender<Event>| {
            !matches!(listener.try_send(event.clone()), Err(TrySendError::Disconnected(_)))
        };
        self.listeners.retain(listens);
    }

    /// Gives a context that was reset after a panic its settings again.
    fn configure_again(&mut self, function: &str, slot: u32) {
        if self.panic_warnings.take(self.clock.now()) {
            tracing::warn!(function, slot, "function panicked; the user's context was reset");
        }
        let Some(number) = self.functions.iter().position(|one| *one.name == *function) else {
            return;
        };
        let settings: Vec<_> =
            self.settings_of(number).filter(|configure| configure.slot == slot).collect();
        let worker = self.shift.worker(slot);
        for configure in settings {
            self.links[worker].send(Command::Configure(configure));
        }
    }

    /// Settings of all contexts for the function of that number.
    pub(crate) fn settings_of(&self, function: usize) -> impl Iterator<Item = Configure> + '_ {
        self.users.settings_of(function).chain(self.bearers.settings_of(function))
    }

    fn take_packets(&mut self, worker: usize) -> bool {
        let mut batch = Batch::new();
        let count = self.links[worker].punts.receive(&mut batch, PUNTS);
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
        let Agent { ports, links, pool, shift, .. } = self;
        ports.send(port, &mut Means { links, pool, shift: *shift });
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
}
