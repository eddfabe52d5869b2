//! Functions that are in processes or at other nodes, or may go there, and the ways of packets
//! to them.

use std::sync::Arc;

use weft_compose::{Instance, SlotShift};
use weft_dataplane::command::Part;
use weft_dataplane::worker::Worker;
use weft_function::EventSender;
use weft_node_config::FunctionPlan;
use weft_offload::process::Supervisor;
use weft_offload::thread::ThreadPool;

use super::worker::Shared;
use crate::error::BuildError;
use crate::functions::{self, FunctionEntry, FunctionQueues, Functions, Prepared};
use crate::plan::{self, Trials};

/// What is ready for such functions.
pub(super) struct Elsewhere {
    queues: FunctionQueues,
    /// For those that are at hand.
    prepared: Prepared,
    /// At other nodes, with what each worker knows of them.
    remotes: Vec<(String, Vec<Arc<weft_dataplane::offload::Shared>>)>,
}

impl Elsewhere {
    /// Of functions in processes; those at other nodes come with workers.
    pub(super) fn new(queues: FunctionQueues) -> Elsewhere {
        Elsewhere { queues, prepared: Prepared::default(), remotes: Vec::new() }
    }

    /// Makes the worker's ways to other nodes and to NICs.
    pub(super) fn welcome(
        &mut self,
        shared: &Shared<'_>,
        trials: &Trials,
        worker: &mut Worker,
        number: usize,
    ) {
        let Some(service) = worker.service() else { return };
        service.add_vfs(self.queues.vf_paths(number));
        let means = (shared.clock, shared.pool);
        functions::remote(shared.blueprint, trials, service, means, &mut self.queues);
        for path in &service.remote_paths {
            match self.remotes.iter_mut().find(|(name, _)| *name == path.function) {
                Some((_, shared)) => shared.push(path.endpoint.shared().clone()),
                None => {
                    self.remotes.push((path.function.clone(), vec![path.endpoint.shared().clone()]))
                }
            }
        }
    }

    /// The functions of the node, with what looks after those that are elsewhere.
    pub(super) fn functions(
        self,
        entries: Vec<FunctionEntry>,
        threads: ThreadPool,
        supervisors: Vec<Supervisor>,
        events: Option<EventSender>,
    ) -> Functions {
        let Elsewhere { prepared, remotes, .. } = self;
        Functions { entries, retired: Vec::new(), prepared, threads, supervisors, remotes, events }
    }

    /// Tells the worker's ways which queues are theirs.
    pub(super) fn note_remote_queues(&self, worker: &mut Worker, parts: &[Part]) {
        let Some(service) = worker.service() else { return };
        for part in parts {
            service.set_remote_queue(
                &part.name,
                part.remote_queue.or_else(|| self.prepared.remote_queue(&part.name)),
            );
        }
    }
}

impl Shared<'_> {
    /// New instances of all functions for one worker.
    pub(super) fn parts(
        &self,
        functions: &[FunctionEntry],
        threads: &ThreadPool,
        worker: &mut Worker,
        number: usize,
        elsewhere: &mut Elsewhere,
    ) -> Result<Vec<Part>, BuildError> {
        let mut parts = Vec::new();
        for (plan, entry) in self.blueprint.functions.iter().zip(functions) {
            let mut part = Part {
                name: entry.name.clone(),
                instance: None,
                counters: entry.counters[number].clone(),
                remote_queue: None,
                stage: None,
            };
            if let Some((remote_queue, away)) = elsewhere.queues.take(number, &plan.name) {
                let remote_queue = worker.add_remote_queue(remote_queue);
                let ready = elsewhere.prepared.note(&plan.name, remote_queue);
                match plan.composition.is_at_hand() {
                    true => ready.push(away),
                    false => (part.remote_queue, part.instance) = (Some(remote_queue), Some(away)),
                }
            }
            if part.instance.is_none() {
                part.instance = Some(self.instance(plan, number)?);
                part.stage = plan.stage.as_ref().and_then(|stage| threads.remote_queue_of(stage));
            }
            parts.push(part);
        }
        Ok(parts)
    }

    fn instance(
        &self,
        plan: &FunctionPlan,
        worker: usize,
    ) -> Result<Box<dyn Instance>, BuildError> {
        let shift = SlotShift::for_workers(self.blueprint.workers.count);
        plan::instance(plan, self.blueprint, worker, self.room.contexts(), shift, self.events)
            .map_err(|error| BuildError::Function { function: plan.name.clone(), error })
    }
}
