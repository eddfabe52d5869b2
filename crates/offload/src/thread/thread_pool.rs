//! The stages of a node, and their threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use weft_dataplane::offload::REMOTE_QUEUES;
use weft_dataplane::offload::stage::{Map, StageQueue};
use weft_dataplane::worker::Idle;
use weft_dpdk::watchdog::{self, Watch};
use weft_dpdk::{Eal, Pool};
use weft_rules::Program;

use super::thread_carrier::connect;
use super::{FunctionThread, ThreadWorker};

/// Longest sleep of a stage that no function is at.
const UNUSED: Duration = Duration::from_millis(1);

/// The stages of a node. A stage that there is stays, and sleeps without functions.
pub struct ThreadPool {
    names: Vec<(String, Option<usize>)>,
    /// Those without a thread: of a node that is driven step by step.
    here: Vec<FunctionThread>,
    threads: Vec<JoinHandle<()>>,
    /// How threads are made, once the node runs.
    running: Option<&'static Eal>,
    stop: Arc<AtomicBool>,
    /// How many workers have queues to each.
    workers: usize,
    /// Longest sleep of a thread that has nothing to do; none when it never sleeps.
    pause: Option<Duration>,
    pool: Pool,
}

/// A thread that functions stand on beside the workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagePlan {
    /// Its name: functions that give the same stand on the same.
    pub name: String,
    /// Its processor core; `None` leaves the choice to the kernel.
    pub core: Option<usize>,
}

impl ThreadPool {
    /// None yet, for so many workers. A thread with nothing to do sleeps for `pause` at most;
    /// it never sleeps without.
    pub fn new(workers: usize, pause: Option<Duration>, pool: &Pool) -> ThreadPool {
        ThreadPool {
            names: Vec::new(),
            here: Vec::new(),
            threads: Vec::new(),
            running: None,
            stop: Arc::new(AtomicBool::new(false)),
            workers,
            pause,
            pool: pool.clone(),
        }
    }

    /// The queue to a stage, if there is one like it.
    pub fn remote_queue_of(&self, plan: &StagePlan) -> Option<u16> {
        let is_it =
            |(name, core): &(String, Option<usize>)| *name == plan.name && *core == plan.core;
        self.names.iter().position(is_it).map(remote_queue_number)
    }

    /// What each stage is to know of a program, where functions have these queues.
    pub fn maps(&self, program: Option<&Program>, remote_queues: &[Option<u16>]) -> Vec<Arc<Map>> {
        let map = |stage: usize| {
            let is_here = |function: u16| {
                remote_queues[usize::from(function)] == Some(remote_queue_number(stage))
            };
            Arc::new(program.map(|program| Map::new(program, is_here)).unwrap_or_default())
        };
        (0..self.names.len()).map(map).collect()
    }

    /// Makes those of `plans` that are not there yet. The ways of each worker to them,
    /// in order.
    pub fn add<'a>(&mut self, plans: impl Iterator<Item = &'a StagePlan>) -> Vec<Vec<StageQueue>> {
        let mut remote_queues: Vec<_> = (0..self.workers).map(|_| Vec::new()).collect();
        for plan in plans {
            if self.remote_queue_of(plan).is_some() {
                continue;
            }
            let mut workers = Vec::new();
            for remote_queues in &mut remote_queues {
                let (remote_queue, end) = connect(&self.pool);
                remote_queues.push(remote_queue);
                workers.push(ThreadWorker::new(end));
            }
            self.names.push((plan.name.clone(), plan.core));
            self.here.push(FunctionThread::new(workers));
        }
        if let Some(eal) = self.running {
            self.start(eal);
        }
        remote_queues
    }

    /// How many stages there would be with those of `plans`.
    pub fn count_with<'a>(&self, plans: impl Iterator<Item = &'a StagePlan>) -> usize {
        let mut new: Vec<_> = plans.filter(|plan| self.remote_queue_of(plan).is_none()).collect();
        new.sort_by_key(|plan| (&plan.name, plan.core));
        new.dedup();
        self.names.len() + new.len()
    }

    /// One round of all stages that have no thread; whether there was anything to do.
    pub fn poll(&mut self) -> bool {
        self.here.iter_mut().fold(false, |busy, stage| stage.poll() | busy)
    }

    /// Gives each stage a thread, and those that come later as well.
    pub fn start(&mut self, eal: &'static Eal) {
        self.running = Some(eal);
        let first = self.names.len() - self.here.len();
        for (number, stage) in self.here.drain(..).enumerate() {
            let (name, core) = &self.names[first + number];
            let (core, stop) = (*core, self.stop.clone());
            let pause = self.pause;
            let spawned = thread::Builder::new().name(format!("stage-{name}")).spawn(move || {
                let run = || run(eal, stage, core, pause, &stop);
                watchdog::watched(Watch::Rounds, run);
            });
            match spawned {
                Ok(thread) => self.threads.push(thread),
                Err(error) => tracing::error!(%error, "no thread for a stage"),
            }
        }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            // A panic there was logged.
            let _ = thread.join();
        }
    }
}

/// Number of the queue to the stage of that number: the last ones, since the first are
/// those of processes.
fn remote_queue_number(stage: usize) -> u16 {
    (REMOTE_QUEUES - 1 - stage) as u16
}

fn run(
    eal: &'static Eal,
    mut stage: FunctionThread,
    core: Option<usize>,
    pause: Option<Duration>,
    stop: &AtomicBool,
) {
    let _registration = eal.register_thread();
    if let Some(core) = core
        && let Err(error) = weft_dpdk::pin_to_core(core)
    {
        tracing::warn!(core, %error, "the stage could not be pinned to its core");
    }
    let (mut idle, mut unused) = (Idle::new(pause), Idle::new(Some(UNUSED)));
    while !stop.load(Ordering::Acquire) {
        watchdog::begin_round();
        if stage.poll() {
            idle.reset();
            unused.reset();
        } else if stage.has_functions() {
            idle.wait();
        } else {
            unused.wait();
        }
    }
}
