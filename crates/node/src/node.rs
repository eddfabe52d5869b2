//! A node as a library object: built, then started or driven step by step.

mod conversation;
mod standing;
mod successor;
mod threads;
mod upgrade;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weft_dataplane::worker::{Copies, Worker};
use weft_dpdk::Eal;
use weft_dpdk::watchdog::{self, Watch};
use weft_function::Events;
use weft_node_config::Blueprint;
use weft_state::{Durability, Store};

use crate::agent::show::Snapshot;
use crate::agent::{
    Agent, Handle, Keeping, Lease, ReadAhead, configured, late_functions, restore_compositions,
};
use crate::assemble::{Assembled, Devices, assemble};
use crate::error::BuildError;
use crate::node::threads::PollingThreads;

pub use self::conversation::{PortTransfer, UpgradeError};
pub use self::standing::StandingNode;
pub use self::successor::{Predecessor, TakeOverError};
pub use self::upgrade::{Beside, GivenShare, HandedOver};

/// Pause of the agent when there was nothing to do, unless it is woken.
const AGENT_PAUSE: Duration = Duration::from_micros(500);

/// The longest, where idle workers sleep longer than that.
const LONGEST_AGENT_PAUSE: Duration = Duration::from_millis(10);

/// A node that does not run by itself: [`Node::step`] drives it.
pub struct Node {
    agent: Agent,
    workers: Vec<Worker>,
    handle: Handle,
    events: Option<Events>,
}

impl Node {
    /// Builds a node: opens its ports, makes its functions, adds its users.
    ///
    /// # Errors
    /// [`BuildError`], when the machine does not have what it takes.
    pub fn build(eal: &Eal, blueprint: Blueprint) -> Result<Node, BuildError> {
        Node::build_with(eal, blueprint, None, Devices::Own)
    }

    /// Builds a node whose clock shows what is stored in `time`, in
    /// nanoseconds.
    ///
    /// # Errors
    /// As [`Node::build`].
    pub fn build_timed(
        eal: &Eal,
        blueprint: Blueprint,
        time: Arc<AtomicU64>,
    ) -> Result<Node, BuildError> {
        Node::build_with(eal, blueprint, Some(time), Devices::Own)
    }

    /// Builds a node that has again what its last life has kept in `store`, and keeps there what
    /// changes from now on; `blueprint.state` says how. Where packets pass before all contexts of
    /// functions are read, what its [handle](Self::handle) is asked is answered once all are there.
    ///
    /// # Errors
    /// As [`Node::build`], and where the store cannot be read or the configuration cannot have
    /// what was kept.
    pub fn restore(eal: &Eal, blueprint: Blueprint, store: Store) -> Result<Node, BuildError> {
        Node::restore_with(eal, blueprint, store, None)
    }

    /// The same with a clock that shows what is stored in `time`, in nanoseconds.
    ///
    /// # Errors
    /// As [`Node::restore`].
    pub fn restore_timed(
        eal: &Eal,
        blueprint: Blueprint,
        store: Store,
        time: Arc<AtomicU64>,
    ) -> Result<Node, BuildError> {
        Node::restore_with(eal, blueprint, store, Some(time))
    }

    fn restore_with(
        eal: &Eal,
        mut blueprint: Blueprint,
        store: Store,
        time: Option<Arc<AtomicU64>>,
    ) -> Result<Node, BuildError> {
        let (keeping, configured) = (keeping(&blueprint), configured(&blueprint));
        restore_compositions(&mut blueprint, &store)?;
        let (records, described) = (store.snapshot()?, blueprint.clone());
        let late = match loads_on_demand(&described) {
            true => late_functions(&described, &records)?,
            false => Vec::new(),
        };
        // Records are read while the node is assembled.
        thread::scope(|scope| {
            let read = ReadAhead::begin(scope, &records, (&described, &late))?;
            let mut node = Node::build_with(eal, blueprint, time, Devices::Own)?;
            let Node { agent, workers, .. } = &mut node;
            agent.persistence.configured = configured;
            agent.restoration(workers).restore((store, read), late.clone(), keeping)?;
            Ok(node)
        })
    }

    fn build_with(
        eal: &Eal,
        blueprint: Blueprint,
        time: Option<Arc<AtomicU64>>,
        devices: Devices<'_>,
    ) -> Result<Node, BuildError> {
        let assembled = assemble(eal, blueprint, time, devices)?;
        let Assembled { agent, workers, handle, events } = assembled;
        Ok(Node { agent, workers, handle, events })
    }

    /// One round of every worker and of the agent, in this thread. Returns
    /// whether there was anything to do.
    pub fn step(&mut self) -> bool {
        let mut busy = false;
        for worker in &mut self.workers {
            busy |= worker.poll();
        }
        if self.waits_for_functions() {
            // They need a processor, too.
            thread::yield_now();
            busy = true;
        }
        busy |= self.poll_stages();
        busy | self.agent.poll()
    }

    /// Receives none of these packets, which another process has carried.
    pub fn leave_out(&mut self, copies: &Arc<Copies>) {
        self.workers.iter_mut().for_each(|worker| worker.leave_out(copies.clone()));
    }

    /// One round of the threads that functions stand on, in this thread.
    pub fn poll_stages(&mut self) -> bool {
        self.agent.functions.threads.poll()
    }

    /// Gives the threads that functions stand on threads of their own, for those who drive
    /// the workers by themselves.
    pub fn start_stages(&mut self, eal: &'static Eal) {
        self.agent.functions.threads.start(eal);
    }

    /// Whether function processes that are there have packets of the node, or have yet to
    /// say something about users that move.
    pub fn waits_for_functions(&self) -> bool {
        self.workers.iter().any(Worker::waits_for_functions)
            || self.agent.migration.waits_for_contexts()
    }

    /// Waits until the functions are there whose processes the node has started,
    /// but no longer than `patience`. The name of one that is not there by then.
    pub fn wait_for_functions(&self, patience: Duration) -> Option<String> {
        let until = Instant::now() + patience;
        loop {
            let absent = self.agent.functions.absent(self.agent.blueprint())?;
            if Instant::now() >= until {
                return Some(absent.to_owned());
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// The agent, to be asked directly between steps.
    pub fn agent(&mut self) -> &mut Agent {
        &mut self.agent
    }

    /// The workers, for those who measure one alone.
    pub fn workers(&mut self) -> &mut [Worker] {
        &mut self.workers
    }

    /// Agent and workers, for those who run each in a thread of their own.
    pub fn parts(&mut self) -> (&mut Agent, &mut [Worker]) {
        (&mut self.agent, &mut self.workers)
    }

    /// What functions tell to be exported by IPFIX; none where the configuration exports
    /// nothing of it, and to the second caller.
    pub fn take_events(&mut self) -> Option<Events> {
        self.events.take()
    }

    /// A way to ask the agent from other threads.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Starts workers and agent in threads of their own, which the
    /// [watchdog](weft_dpdk::watchdog) knows.
    ///
    /// # Errors
    /// When the machine has no thread for one of them.
    pub fn start(self, eal: &'static Eal) -> io::Result<Running> {
        let plan = self.agent.blueprint().workers.clone();
        let mut agent = self.agent;
        agent.functions.threads.start(eal);
        let lease = agent.lease();
        let mut threads = PollingThreads::new(plan.clone(), lease.clone())?;
        threads.start(eal, self.workers)?;
        agent.workers.run_by(threads.assignment());
        let agent_stop = Arc::new(AtomicBool::new(false));
        let told = agent_stop.clone();
        let pause = plan.pause().unwrap_or_default().clamp(AGENT_PAUSE, LONGEST_AGENT_PAUSE);
        let run = move || watchdog::watched(Watch::Life, || run_agent(eal, agent, pause, &told));
        let agent = thread::Builder::new().name("agent".to_owned()).spawn(run)?;
        let (paused, handle) = (Vec::new(), self.handle);
        Ok(Running { agent_stop, threads, paused, lease, agent, handle })
    }

    /// Stops: what is in flight leaves. Returns what was counted.
    pub fn stop(mut self) -> Snapshot {
        // Stages without threads are driven here.
        while self.workers.iter_mut().fold(false, |away, one| one.recall().is_some() | away) {
            self.agent.functions.threads.poll();
        }
        for worker in &mut self.workers {
            worker.finish();
        }
        self.agent.poll();
        self.agent.restoration(&mut self.workers).end();
        self.agent.snapshot()
    }
}

/// Whether packets pass while contexts of users are read.
fn loads_on_demand(blueprint: &Blueprint) -> bool {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let loading = blueprint.state.as_ref().map(|state| state.loading);
    loading.unwrap_or_default().is_on_demand(blueprint.workers.count, cores)
}

/// How a node of this configuration keeps what outlives it.
fn keeping(blueprint: &Blueprint) -> Keeping {
    let state = blueprint.state.as_ref();
    Keeping {
        durability: state.map_or_else(Durability::default, |state| state.durability),
        rate: state.map_or(0, |state| state.checkpoint_rate),
    }
}

/// A node whose threads run.
pub struct Running {
    agent_stop: Arc<AtomicBool>,
    threads: PollingThreads,
    /// Workers without threads, while another process takes over.
    paused: Vec<Worker>,
    /// By which they may carry packets.
    lease: Option<Lease>,
    agent: JoinHandle<Agent>,
    handle: Handle,
}

impl Running {
    /// A way to ask the agent.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Stops: receives nothing any more, lets leave what is in flight, ends the
    /// threads, closes the ports. Returns what was counted.
    pub fn stop(self) -> Option<Snapshot> {
        self.stop_and(|| ())
    }

    /// The same. `kept` is called once nothing is carried any more and all that is kept is
    /// durable, before anything is closed: that takes its time with many users.
    pub fn stop_and(self, kept: impl FnOnce()) -> Option<Snapshot> {
        let Running { mut threads, paused, .. } = self;
        // Behind this all rings between workers are at rest.
        let mut workers = threads.stop();
        workers.extend(paused);
        for worker in &mut workers {
            worker.finish();
        }
        self.agent_stop.store(true, Ordering::Release);
        let mut agent = self.agent.join().ok()?;
        agent.poll();
        agent.restoration(&mut workers).end();
        kept();
        Some(agent.snapshot())
    }
}

fn run_agent(eal: &'static Eal, mut agent: Agent, pause: Duration, stop: &AtomicBool) -> Agent {
    let _registration = eal.register_thread();
    agent.waker.is_here();
    while !stop.load(Ordering::Acquire) {
        if !agent.poll() {
            thread::park_timeout(pause);
        }
    }
    agent
}
