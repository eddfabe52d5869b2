//! The threads that run workers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use weft_dataplane::worker::{Idle, Worker};
use weft_dpdk::Eal;
use weft_dpdk::watchdog::{self, Watch};
use weft_node_config::Workers;

use super::AGENT_PAUSE;
use crate::agent::Lease;
use crate::workers::{Assignment, Numbered};

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
    pub fn new(plan: Workers, lease: Option<Lease>) -> PollingThreads {
        let assignment = Arc::new(Assignment::new(plan.count));
        PollingThreads { plan, lease, stop: Arc::default(), assignment, threads: Vec::new() }
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
                lease: self.lease.clone(),
                assignment: self.assignment.clone(),
                workers: Vec::with_capacity(count),
            };
            let stop = self.stop.clone();
            let run = move || watchdog::watched(Watch::Rounds, || thread.run(eal, &stop));
            let name = format!("worker-{number}");
            self.threads.push(thread::Builder::new().name(name).spawn(run)?);
        }
        Ok(())
    }

    /// Ends the threads. Returns the workers, in the order of their numbers.
    pub fn stop(&mut self) -> Vec<Worker> {
        self.stop.store(true, Ordering::Release);
        self.threads.iter().for_each(|thread| thread.thread().unpark());
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
    lease: Option<Lease>,
    assignment: Arc<Assignment>,
    /// Those that it runs.
    workers: Vec<Numbered>,
}

impl PollingThread {
    fn run(mut self, eal: &'static Eal, stop: &AtomicBool) -> Vec<Numbered> {
        let _registration = eal.register_thread();
        if let Some(core) = self.core
            && let Err(error) = weft_dpdk::pin_to_core(core)
        {
            tracing::warn!(core, %error, "the worker could not be pinned to its core");
        }
        self.assignment.enter(self.number);
        while !stop.load(Ordering::Acquire) {
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
        let (mut is_busy, mut is_loading) = (false, false);
        for (_, worker) in &mut self.workers {
            is_busy |= worker.poll();
            is_loading |= worker.is_loading();
        }
        match is_busy {
            true => self.idle.reset(),
            false if self.workers.is_empty() => Assignment::wait(),
            // Those who read contexts may have no core of their own.
            false if is_loading => thread::yield_now(),
            false => self.idle.wait(),
        }
    }
}
