//! Functions in processes and at other nodes: what a node makes ready for them.

mod entry;
mod prepared;
mod questions;
mod queues;
mod remote;

use std::io;
use std::path::Path;
use std::sync::Arc;

use weft_function::EventSender;
use weft_node_config::{Blueprint, FunctionPlan};
use weft_offload::process::{Status, Supervisor};
use weft_offload::thread::ThreadPool;

pub(crate) use self::entry::FunctionEntry;
pub(crate) use self::prepared::Prepared;
pub(crate) use self::questions::Exported;
pub use self::queues::{FunctionQueues, start};
pub use self::remote::remote;
use crate::plan;

/// RemoteQueues that a node has with the threads there are and those of a blueprint.
pub(crate) fn remote_queues_with(threads: &ThreadPool, blueprint: &Blueprint) -> usize {
    let others = blueprint
        .functions
        .iter()
        .filter(|one| one.process.is_some() || one.remote.is_some())
        .count();
    others + threads.count_with(plan::stages(blueprint))
}

/// The functions of a node, and what looks after those that are elsewhere.
pub(crate) struct Functions {
    /// Those at work, by number.
    pub entries: Vec<FunctionEntry>,
    /// Functions that are gone: what they dropped stays counted.
    pub retired: Vec<FunctionEntry>,
    /// What is ready for functions that may go into processes or to other nodes.
    pub prepared: Prepared,
    /// The stages: further threads that functions stand on.
    pub threads: ThreadPool,
    /// What looks after function processes.
    pub supervisors: Vec<Supervisor>,
    /// Functions at other nodes, with what each worker knows of them.
    pub remotes: Vec<(String, Vec<Arc<weft_dataplane::offload::Shared>>)>,
    /// Where functions tell what is exported.
    pub events: Option<EventSender>,
}

impl Functions {
    /// The number of the function of that name.
    pub fn number(&self, name: &str) -> Option<usize> {
        self.entries.iter().position(|one| *one.name == *name)
    }

    /// Entries for the functions of a configuration. Counters go on under a name as long as
    /// it is the same function.
    pub fn entries_for(&self, new: &Blueprint, workers: usize) -> Vec<FunctionEntry> {
        let entry = |plan: &FunctionPlan| {
            let mut known = self.entries.iter().chain(&self.retired);
            let known = known.find(|entry| entry.is_for(plan)).cloned();
            known.unwrap_or_else(|| FunctionEntry::new(plan, workers))
        };
        new.functions.iter().map(entry).collect()
    }

    /// These are at work from now on, by this configuration.
    pub fn replace(&mut self, entries: Vec<FunctionEntry>, new: &Blueprint) {
        self.retired.append(&mut self.entries);
        self.retired.retain(|entry| new.functions.iter().all(|plan| !entry.is_for(plan)));
        self.entries = entries;
    }

    /// What looks after the process of a function.
    pub fn supervisor(&self, function: &str) -> Option<&Supervisor> {
        self.supervisors.iter().find(|one| one.instance() == function)
    }

    /// What each worker knows of a function at another node.
    pub fn remote(&self, function: &str) -> Option<&[Arc<weft_dataplane::offload::Shared>]> {
        let remote = self.remotes.iter().find(|(name, _)| name == function);
        remote.map(|(_, shared)| &**shared)
    }

    /// Whether the path to a function at another node is there for all workers.
    pub fn is_reachable(&self, function: &str) -> bool {
        self.remote(function).is_some_and(|shared| shared.iter().all(|one| one.is_up()))
    }

    /// Sockets of a function's process lie there from now on.
    ///
    /// # Errors
    /// When the file system does not let us.
    pub fn put_in_place(&mut self, function: &str, ring: &Path) -> io::Result<()> {
        let supervisor = self.supervisors.iter_mut().find(|one| one.instance() == function);
        supervisor.map_or(Ok(()), |supervisor| supervisor.put_in_place(ring))
    }

    /// Ends the processes of all functions, which another node has its own of.
    pub fn end_processes(&mut self) {
        self.supervisors.iter().for_each(Supervisor::give_away);
        self.supervisors.clear();
    }

    /// A function whose process the node has started by this configuration, and that is not
    /// there yet.
    pub fn absent(&self, blueprint: &Blueprint) -> Option<&str> {
        let is_started = |name: &str| {
            let mut functions = blueprint.functions.iter();
            let plan = functions.find(|function| function.name == name);
            let plan = plan.filter(|plan| plan.is_isolated());
            plan.and_then(|plan| plan.process.as_ref()).is_some_and(|process| process.started)
        };
        let absent =
            |one: &&Supervisor| is_started(one.instance()) && one.view().status != Status::Running;
        self.supervisors.iter().find(absent).map(Supervisor::instance)
    }
}
