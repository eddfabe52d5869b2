//! The threads that run workers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use weft_dataplane::worker::{Idle, Worker};
use weft_dpdk::watchdog::{self, Watch};
use weft_dpdk::{Eal, Sleep};
use weft_node_config::Workers;

use super::AGENT_PAUSE;
use crate::agent::Lease;
use crate::workers::{Assignment, Numbered};

/// The longest sleep of a thread: the watchdog is to see rounds.
const LONGEST: Duration = Duration::from_millis(100);

/// As many threads as a node has workers, of which some may have none to run.
pub(super) struct PollingThreads {
    plan: Workers,
    /// By which workers may carry packets.
    lease: Option<Lease>,
    stop: Arc<AtomicBool>,
    assignment: Arc<Assignment>,
    threads: Vec<JoinHandle<Vec<Numbered>>>,
}

impl PollingThreads {
    /// None runs yet.
    ///
    /// # Errors
    /// When the process may not have a further descriptor for each.
    pub fn new(plan: Workers, lease: Option<Lease>) -> io::Result<PollingThreads> {
        let assignment = Arc::new(Assignment::new(plan.count)?);
        Ok(PollingThreads { plan, lease, stop: Arc::default(), assignment, threads: Vec::new() })
    }

    /// Which thread runs which worker.
    pub fn assignment(&self) -> Arc<Assignment> {
        self.assignment.clone()
    }

    /// Begins to run workers, in the order of their numbers.
    ///
    /// # Errors
    /// When the machine has no thread for one of them.
    pub fn start(&mut self, eal: &'static Eal, workers: Vec<Worker>) -> io::Result<()> {
        self.stop.store(false, Ordering::Release);
        let count = workers.len();
        for (worker, thread) in workers.into_iter().enumerate().zip(self.assignment.wanted()) {
            self.assignment.send(worker, thread);
        }
        for number in 0..count {
            let core = self.plan.cores.as_ref().and_then(|cores| cores.get(number).copied());
            let thread = PollingThread {
                number,
                core,
                idle: Idle::new(self.plan.pause()),
                sleep: Sleep::default(),
                stop: self.stop.clone(),
                lease: self.lease.clone(),
                assignment: self.assignment.clone(),
                workers: Vec::with_capacity(count),
            };
            let run = move || watchdog::watched(Watch::Rounds, || thread.run(eal));
            let name = format!("worker-{number}");
            self.threads.push(thread::Builder::new().name(name).spawn(run)?);
        }
        Ok(())
    }

    /// Ends the threads. Returns the workers, in the order of their numbers.
    pub fn stop(&mut self) -> Vec<Worker> {
        self.stop.store(true, Ordering::Release);
        self.assignment.wake_all();
        let ended: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        let mut workers: Vec<_> = ended.into_iter().filter_map(Result::ok).flatten().collect();
        // Those that were on their way from one thread to another.
        workers.extend(self.assignment.collect());
        workers.sort_unstable_by_key(|(number, _)| *number);
        workers.into_iter().map(|(_, worker)| worker).collect()
    }
}

/// One of them.
struct PollingThread {
    number: usize,
    core: Option<usize>,
    idle: Idle,
    sleep: Sleep,
    stop: Arc<AtomicBool>,
    lease: Option<Lease>,
    assignment: Arc<Assignment>,
    /// Those that it runs.
    workers: Vec<Numbered>,
}

impl PollingThread {
    fn run(mut self, eal: &'static Eal) -> Vec<Numbered> {
        let _registration = eal.register_thread();
        if let Some(core) = self.core
            && let Err(error) = weft_dpdk::pin_to_core(core)
        {
            tracing::warn!(core, %error, "the worker could not be pinned to its core");
        }
        while !self.stop.load(Ordering::Acquire) {
            watchdog::begin_round();
            self.assignment.exchange(self.number, &mut self.workers);
            if let Some(lease) = &self.lease
                && !lease.holds()
            {
                // Another node may have the users.
                thread::sleep(AGENT_PAUSE);
                continue;
            }
            self.round();
        }
        self.workers
    }

    #[inline]
    fn round(&mut self) {
        if self.poll() {
            return self.idle.reset();
        }
        if self.workers.iter().any(|(_, worker)| worker.is_loading()) {
            // Those who read contexts may have no core of their own.
            return thread::yield_now();
        }
        if (self.workers.is_empty() || self.idle.spins()) && !self.sleep_until_woken() {
            self.idle.sleep();
        }
    }

    /// One round of each worker; whether one had something to do.
    #[inline]
    fn poll(&mut self) -> bool {
        let mut is_busy = false;
        for (_, worker) in &mut self.workers {
            is_busy |= worker.poll();
        }
        is_busy
    }

    /// Sleeps until there is something for one of the workers. False where that cannot be told, and
    /// it has not slept.
    #[cold]
    fn sleep_until_woken(&mut self) -> bool {
        self.sleep.add_wakeup(self.assignment.wakeup(self.number));
        let mut longest = Some(LONGEST);
        for (_, worker) in &self.workers {
            longest = longest.and_then(|longest| Some(longest.min(worker.arm(&mut self.sleep)?)));
        }
        if let Some(longest) = longest {
            // What came before all was armed has woken none.
            let is_told =
                self.stop.load(Ordering::Acquire) || self.assignment.has_news(self.number);
            if self.poll() {
                self.idle.reset();
            } else if !is_told {
                self.sleep.wait(longest);
            }
        }
        self.sleep.end();
        self.workers.iter().for_each(|(_, worker)| worker.disarm());
        longest.is_some()
    }
}
